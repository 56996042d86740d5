/* SPDX-License-Identifier: BSD-3-Clause */
#include "vol/image.h"

#include <stdlib.h>
#include <string.h>

#include "core/client/superblock.h"

#define FIRST_CAPACITY ((size_t)64 << 10)
#define SPARE_MAX      ((size_t)16 << 20)

/* The buffer of the last image that ended, for the next: fresh pages cost more than what is written
 * into them. */
static uint8_t *spare;
static size_t spare_capacity;

struct mkt_vol_image {
    unsigned references; /* its owner's and one for each property list that holds it */
    const void *lent;
    size_t lent_bytes;
    bool writable;
    bool opened;
    uint8_t *buffer; /* malloc'ed, writable images only */
    size_t capacity, bytes;
    void (*released)(void *context);
    void *context;
};

static void put(struct mkt_vol_image *image)
{
    if (--image->references > 0)
        return;
    if (image->capacity > spare_capacity && image->capacity <= SPARE_MAX) {
        free(spare);
        spare = image->buffer;
        spare_capacity = image->capacity;
    } else {
        free(image->buffer);
    }
    free(image);
}

static void take_spare(struct mkt_vol_image *image)
{
    image->buffer = spare;
    image->capacity = spare_capacity;
    spare = NULL;
    spare_capacity = 0;
}

/* Room for `bytes`; grows in powers of two, since the driver asks for each piece of metadata anew.
 */
static void *resize(struct mkt_vol_image *image, size_t bytes)
{
    if (!image->buffer)
        take_spare(image);
    if (bytes > image->capacity) {
        size_t capacity = image->capacity ? image->capacity : FIRST_CAPACITY;
        while (capacity < bytes)
            capacity = capacity <= SIZE_MAX / 2 ? capacity * 2 : bytes;
        uint8_t *grown = realloc(image->buffer, capacity);
        if (!grown)
            return NULL;
        image->buffer = grown;
        image->capacity = capacity;
    }
    image->bytes = bytes;
    return image->buffer;
}

static void *image_malloc(size_t size, H5FD_file_image_op_t operation, void *context)
{
    struct mkt_vol_image *image = context;
    if (operation == H5FD_FILE_IMAGE_OP_FILE_OPEN && image->writable)
        return resize(image, size);
    return size == image->lent_bytes ? (void *)image->lent : NULL;
}

static void *image_memcpy(void *target, const void *source, size_t size,
                          H5FD_file_image_op_t operation, void *context)
{
    (void)operation;
    (void)context;
    return target == source ? target : memcpy(target, source, size);
}

static void *image_realloc(void *place, size_t size, H5FD_file_image_op_t operation, void *context)
{
    struct mkt_vol_image *image = context;
    (void)operation;
    if (!image->writable || place != image->buffer)
        return NULL;
    return resize(image, size);
}

static herr_t image_free(void *place, H5FD_file_image_op_t operation, void *context)
{
    struct mkt_vol_image *image = context;
    (void)place;
    if (operation == H5FD_FILE_IMAGE_OP_FILE_CLOSE && image->opened) {
        image->opened = false;
        image->released(image->context);
    }
    return 0;
}

static void *share(void *context)
{
    ((struct mkt_vol_image *)context)->references++;
    return context;
}

static herr_t unshare(void *context)
{
    put(context);
    return 0;
}

struct mkt_vol_image *mkt_vol_image_create(const void *lent, size_t lent_bytes, bool writable,
                                           void (*released)(void *context), void *context)
{
    struct mkt_vol_image *image = calloc(1, sizeof(*image));
    if (!image)
        return NULL;
    image->references = 1;
    image->lent = lent;
    image->lent_bytes = lent_bytes;
    image->writable = writable;
    image->released = released;
    image->context = context;
    return image;
}

struct mkt_vol_image *mkt_vol_image_create_knock(void)
{
    static const char knock = '?';
    return mkt_vol_image_create(&knock, sizeof(knock), false, NULL, NULL);
}

void mkt_vol_image_forget(void)
{
    free(spare);
    spare = NULL;
    spare_capacity = 0;
}

void mkt_vol_image_destroy(struct mkt_vol_image *image)
{
    if (image)
        put(image);
}

herr_t mkt_vol_image_set(struct mkt_vol_image *image, hid_t fapl)
{
    H5FD_file_image_callbacks_t callbacks = {.image_malloc = image_malloc,
                                             .image_memcpy = image_memcpy,
                                             .image_realloc = image_realloc,
                                             .image_free = image_free,
                                             .udata_copy = share,
                                             .udata_free = unshare,
                                             .udata = image};
    if (H5Pset_file_image_callbacks(fapl, &callbacks) < 0)
        return -1;
    return image->lent ? H5Pset_file_image(fapl, (void *)image->lent, image->lent_bytes) : 0;
}

herr_t mkt_vol_image_unset(hid_t fapl)
{
    H5FD_file_image_callbacks_t none = {0};
    if (H5Pset_file_image(fapl, NULL, 0) < 0)
        return -1;
    return H5Pset_file_image_callbacks(fapl, &none);
}

void mkt_vol_image_opened(struct mkt_vol_image *image)
{
    image->opened = true;
}

const void *mkt_vol_image_content(struct mkt_vol_image *image, size_t *bytes_out)
{
    struct mkt_superblock superblock;
    if (!image->writable) {
        *bytes_out = image->lent_bytes;
        return image->lent;
    }
    if (!mkt_superblock_read(image->buffer, image->bytes, &superblock))
        return NULL;
    size_t written = image->bytes;
    if (superblock.end_of_file > written) {
        if (!resize(image, superblock.end_of_file))
            return NULL;
        memset(image->buffer + written, 0, superblock.end_of_file - written);
    }
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
