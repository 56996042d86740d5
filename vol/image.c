/* SPDX-License-Identifier: BSD-3-Clause */
#include "vol/image.h"

#include <H5FDdevelop.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/fault.h"
#include "core/client/superblock.h"

#define FIRST_CAPACITY ((size_t)64 << 10)
#define SPARE_MAX      ((size_t)16 << 20)
#define DRIVER_NAME    "h5market-image"

/* The buffer of the last image that ended, for the next: fresh pages cost more than what is written
 * into them. */
static uint8_t *spare;
static size_t spare_capacity;

static hid_t drivers[2] = {H5I_INVALID_HID, H5I_INVALID_HID}; /* for degrees weak and semi */
static struct mkt_vol_image *offered;

struct mkt_vol_image {
    const void *lent;
    size_t lent_bytes;
    bool writable;
    uint8_t *buffer; /* malloc'ed, writable images only */
    size_t capacity, bytes;
    struct handle *handle; /* native's, of the file; others are for a look */
    bool opened;
    bool orphaned; /* ends with its handle */
    void (*released)(void *context);
    void *context;
};

/* ---- memory ---- */

static void take_spare(struct mkt_vol_image *image)
{
    image->buffer = spare;
    image->capacity = spare_capacity;
    spare = NULL;
    spare_capacity = 0;
}

/* Memory of a writable image for so much; it grows in powers of two, since native asks for each
 * piece of metadata anew. */
static bool reserve(struct mkt_vol_image *image, size_t bytes)
{
    if (!image->buffer)
        take_spare(image);
    if (bytes > image->capacity) {
        size_t capacity = image->capacity ? image->capacity : FIRST_CAPACITY;
        while (capacity < bytes)
            capacity = capacity <= SIZE_MAX / 2 ? capacity * 2 : bytes;
        uint8_t *grown =
            mkt_fault_point("vol.image-memory") == MKT_OK ? realloc(image->buffer, capacity) : NULL;
        if (!grown)
            return false;
        image->buffer = grown;
        image->capacity = capacity;
    }
    return true;
}

/* Makes a writable image so long, zeros behind what there was. */
static bool resize(struct mkt_vol_image *image, size_t bytes)
{
    if (!reserve(image, bytes))
        return false;
    if (bytes > image->bytes)
        memset(image->buffer + image->bytes, 0, bytes - image->bytes);
    image->bytes = bytes;
    return true;
}

static const uint8_t *memory_of(const struct mkt_vol_image *image, size_t *bytes_out)
{
    *bytes_out = image->writable ? image->bytes : image->lent_bytes;
    return image->writable ? image->buffer : image->lent;
}

/* A file on disk, all of it; ends with its handle. NULL: it can't be read. */
static struct mkt_vol_image *load(const char *path)
{
    struct mkt_vol_image *image = NULL;
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return NULL;
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode))
        image = mkt_vol_image_create(NULL, 0, true, NULL, NULL);
    if (image && reserve(image, (size_t)info.st_size)) {
        ssize_t bytes;
        while (image->bytes < (size_t)info.st_size &&
               (bytes = pread(fd, image->buffer + image->bytes, (size_t)info.st_size - image->bytes,
                              (off_t)image->bytes)) > 0)
            image->bytes += (size_t)bytes;
    }
    close(fd);
    if (!image)
        return NULL;
    if (image->bytes < (size_t)info.st_size) {
        mkt_vol_image_destroy(image);
        return NULL;
    }
    image->orphaned = true;
    return image;
}

/* ---- the file driver ---- */

/* As HDF5 holds it. */
struct handle {
    H5FD_t file; /* HDF5's part */
    struct mkt_vol_image *image;
    haddr_t end_of_addresses;
};

static struct mkt_vol_image *image_of(const H5FD_t *file)
{
    return ((const struct handle *)file)->image;
}

/* A new file isn't there before it is created: native looks first. */
static bool is_there(const struct mkt_vol_image *image)
{
    return image->lent || image->opened;
}

/* A writer's private copy. False: out of memory. */
static bool make_copy(struct mkt_vol_image *image)
{
    if (!image->writable || !image->lent || image->buffer)
        return true;
    if (!reserve(image, image->lent_bytes))
        return false;
    memcpy(image->buffer, image->lent, image->lent_bytes);
    image->bytes = image->lent_bytes;
    return true;
}

static H5FD_t *driver_open(const char *name, unsigned flags, hid_t fapl, haddr_t maxaddr)
{
    struct mkt_vol_image *image = offered;
    (void)fapl;
    (void)maxaddr;
    if (image && !is_there(image) && !(flags & H5F_ACC_CREAT))
        return NULL;
    struct handle *handle = calloc(1, sizeof(*handle));
    if (!handle)
        return NULL;
    if (!image && !(flags & H5F_ACC_CREAT))
        image = load(name);
    if (!image || !make_copy(image)) {
        free(handle);
        return NULL;
    }
    handle->image = image;
    if (!image->handle)
        image->handle = handle;
    return &handle->file;
}

static herr_t driver_close(H5FD_t *file)
{
    struct handle *handle = (struct handle *)file;
    struct mkt_vol_image *image = handle->image;
    bool is_last = handle == image->handle;
    free(handle);
    if (!is_last)
        return 0;
    image->handle = NULL;
    if (image->orphaned) {
        mkt_vol_image_destroy(image);
    } else if (image->opened) {
        image->opened = false;
        image->released(image->context);
    }
    return 0;
}

static int driver_cmp(const H5FD_t *left, const H5FD_t *right)
{
    uintptr_t a = (uintptr_t)image_of(left), b = (uintptr_t)image_of(right);
    return (a > b) - (a < b);
}

/* Those of HDF5's own driver for memory, less the collecting of metadata before it is written:
 * what is written is in memory at once. */
static herr_t driver_query(const H5FD_t *file, unsigned long *flags)
{
    (void)file;
    *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_DATA_SIEVE | H5FD_FEAT_AGGREGATE_SMALLDATA;
    return 0;
}

static haddr_t driver_get_eoa(const H5FD_t *file, H5FD_mem_t type)
{
    (void)type;
    return ((const struct handle *)file)->end_of_addresses;
}

static herr_t driver_set_eoa(H5FD_t *file, H5FD_mem_t type, haddr_t address)
{
    (void)type;
    ((struct handle *)file)->end_of_addresses = address;
    return 0;
}

static haddr_t driver_get_eof(const H5FD_t *file, H5FD_mem_t type)
{
    size_t bytes;
    (void)type;
    memory_of(image_of(file), &bytes);
    return bytes;
}

/* Behind the end there are zeros. */
static herr_t driver_read(H5FD_t *file, H5FD_mem_t type, hid_t dxpl, haddr_t address, size_t size,
                          void *buffer)
{
    size_t bytes, there = 0;
    const uint8_t *memory = memory_of(image_of(file), &bytes);
    (void)type;
    (void)dxpl;
    if (address > SIZE_MAX - size)
        return -1;
    if (address < bytes) {
        there = size < bytes - address ? size : bytes - address;
        memcpy(buffer, memory + address, there);
    }
    if (there < size)
        memset((uint8_t *)buffer + there, 0, size - there);
    return 0;
}

static herr_t driver_write(H5FD_t *file, H5FD_mem_t type, hid_t dxpl, haddr_t address, size_t size,
                           const void *buffer)
{
    struct mkt_vol_image *image = image_of(file);
    (void)type;
    (void)dxpl;
    if (!image->writable || address > SIZE_MAX - size)
        return -1;
    if (address + size > image->bytes && !resize(image, address + size))
        return -1;
    memcpy(image->buffer + address, buffer, size);
    return 0;
}

/* With a flush; at its close a file says in its superblock where it ends. */
static herr_t driver_truncate(H5FD_t *file, hid_t dxpl, hbool_t closing)
{
    struct mkt_vol_image *image = image_of(file);
    haddr_t end = driver_get_eoa(file, H5FD_MEM_DEFAULT);
    (void)dxpl;
    if (closing || end == driver_get_eof(file, H5FD_MEM_DEFAULT))
        return 0;
    return image->writable && resize(image, end) ? 0 : -1;
}

/* That there is one has HDF5 mark what is being written (format version 3), as on disk. */
static herr_t driver_lock(H5FD_t *file, hbool_t write)
{
    (void)file;
    (void)write;
    return 0;
}

static herr_t driver_unlock(H5FD_t *file)
{
    (void)file;
    return 0;
}

static const H5FD_class_t driver_class = {.version = H5FD_CLASS_VERSION,
                                          .value = MKT_VOL_VALUE,
                                          .name = DRIVER_NAME,
                                          .maxaddr = SIZE_MAX - 1,
                                          .fc_degree = H5F_CLOSE_WEAK,
                                          .open = driver_open,
                                          .close = driver_close,
                                          .cmp = driver_cmp,
                                          .query = driver_query,
                                          .get_eoa = driver_get_eoa,
                                          .set_eoa = driver_set_eoa,
                                          .get_eof = driver_get_eof,
                                          .read = driver_read,
                                          .write = driver_write,
                                          .truncate = driver_truncate,
                                          .lock = driver_lock,
                                          .unlock = driver_unlock,
                                          .fl_map = H5FD_FLMAP_DICHOTOMY};

static hid_t register_driver(bool semi)
{
    H5FD_class_t class = driver_class;
    if (semi) {
        class.value++;
        class.name = DRIVER_NAME "-semi";
        class.fc_degree = H5F_CLOSE_SEMI;
    }
    return H5FDregister(&class);
}

herr_t mkt_vol_image_set_driver(hid_t fapl, H5F_close_degree_t degree)
{
    bool semi = degree == H5F_CLOSE_SEMI;
    if (drivers[semi] < 0)
        drivers[semi] = register_driver(semi);
    return drivers[semi] < 0 ? -1 : H5Pset_driver(fapl, drivers[semi], NULL);
}

void mkt_vol_image_offer(struct mkt_vol_image *image)
{
    offered = image;
}

hid_t mkt_vol_image_open_alone(struct mkt_vol_image *image, hid_t fapl)
{
    if (H5Pset_vol(fapl, mkt_vol_native_id(), NULL) < 0 ||
        mkt_vol_image_set_driver(fapl, H5F_CLOSE_WEAK) < 0)
        return H5I_INVALID_HID;
    mkt_vol_image_offer(image);
    hid_t file = image->lent ? H5Fopen("image", H5F_ACC_RDWR, fapl)
                             : H5Fcreate("image", H5F_ACC_TRUNC, H5P_FILE_CREATE_DEFAULT, fapl);
    mkt_vol_image_offer(NULL);
    return file;
}

void mkt_vol_image_opened(struct mkt_vol_image *image)
{
    image->opened = true;
}

/* ---- images ---- */

struct mkt_vol_image *mkt_vol_image_create(const void *lent, size_t lent_bytes, bool writable,
                                           void (*released)(void *context), void *context)
{
    struct mkt_vol_image *image = mkt_vol_alloc(sizeof(*image));
    if (!image)
        return NULL;
    image->lent = lent;
    image->lent_bytes = lent_bytes;
    image->writable = writable;
    image->released = released;
    image->context = context;
    return image;
}

void mkt_vol_image_destroy(struct mkt_vol_image *image)
{
    if (!image)
        return;
    if (image->handle) {
        image->orphaned = true; /* native hasn't closed it yet */
        return;
    }
    if (image->capacity > spare_capacity && image->capacity <= SPARE_MAX) {
        free(spare);
        spare = image->buffer;
        spare_capacity = image->capacity;
    } else {
        free(image->buffer);
    }
    free(image);
}

void mkt_vol_image_forget(void)
{
    /* When the library ends, the ids may be gone before us. */
    for (int i = 0; i < 2; i++) {
        if (drivers[i] >= 0 && H5Iis_valid(drivers[i]) > 0)
            H5FDunregister(drivers[i]);
        drivers[i] = H5I_INVALID_HID;
    }
    free(spare);
    spare = NULL;
    spare_capacity = 0;
}

const void *mkt_vol_image_content(struct mkt_vol_image *image, size_t *bytes_out)
{
    struct mkt_superblock superblock;
    if (!image->writable) {
        *bytes_out = image->lent_bytes;
        return image->lent;
    }
    if (!mkt_superblock_read(image->buffer, image->bytes, &superblock) ||
        (superblock.end_of_file > image->bytes && !resize(image, superblock.end_of_file)))
        return NULL;
    *bytes_out = superblock.end_of_file;
    return image->buffer;
}

void *mkt_vol_image_copy_flushed(struct mkt_vol_image *image, size_t *bytes_out)
{
    struct mkt_superblock superblock;
    if (!image->writable || !mkt_superblock_read(image->buffer, image->bytes, &superblock))
        return NULL;
    /* A flush makes the driver's memory as long as the file, but needn't write the superblock that
     * says so. */
    void *copy = malloc(image->bytes);
    if (!copy)
        return NULL;
    memcpy(copy, image->buffer, image->bytes);
    mkt_superblock_close(copy, &superblock, image->bytes);
    *bytes_out = image->bytes;
    return copy;
}

bool mkt_vol_image_changed(struct mkt_vol_image *image)
{
    size_t bytes = 0;
    const void *content = mkt_vol_image_content(image, &bytes);
    return !content || !image->lent || bytes != image->lent_bytes ||
           memcmp(content, image->lent, bytes) != 0;
}
