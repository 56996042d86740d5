/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/cli/elf.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define NATIVE_DATA ELFDATA2LSB
#else
#define NATIVE_DATA ELFDATA2MSB
#endif
#define NATIVE_CLASS (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32)

#define VERSION_MARK "HDF5 library version: "

struct image {
    const uint8_t *bytes;
    uint64_t length;
};

/* `size` bytes at `offset`, or NULL if they aren't all in the file or not aligned for a structure.
 */
static const void *at(const struct image *image, uint64_t offset, uint64_t size)
{
    if (offset > image->length || size > image->length - offset || offset % 4 != 0)
        return NULL;
    return image->bytes + offset;
}

/* A NUL-terminated string in the file, or NULL. */
static const char *string_at(const struct image *image, uint64_t offset)
{
    if (offset >= image->length || !memchr(image->bytes + offset, 0, image->length - offset))
        return NULL;
    return (const char *)image->bytes + offset;
}

static const ElfW(Phdr) * segment(const struct image *image, const ElfW(Ehdr) * head, unsigned i)
{
    if (i >= head->e_phnum || head->e_phentsize != sizeof(ElfW(Phdr)))
        return NULL;
    return at(image, head->e_phoff + (uint64_t)i * sizeof(ElfW(Phdr)), sizeof(ElfW(Phdr)));
}

static const ElfW(Shdr) * section(const struct image *image, const ElfW(Ehdr) * head, unsigned i)
{
    if (i >= head->e_shnum || head->e_shentsize != sizeof(ElfW(Shdr)))
        return NULL;
    return at(image, head->e_shoff + (uint64_t)i * sizeof(ElfW(Shdr)), sizeof(ElfW(Shdr)));
}

/* The file's offset of an address in memory; image->length if it is in no segment. */
static uint64_t file_offset(const struct image *image, const ElfW(Ehdr) * head, uint64_t address)
{
    const ElfW(Phdr) * part;
    for (unsigned i = 0; (part = segment(image, head, i)); i++)
        if (part->p_type == PT_LOAD && address >= part->p_vaddr &&
            address - part->p_vaddr < part->p_filesz)
            return part->p_offset + (address - part->p_vaddr);
    return image->length;
}

/* ---- the dynamic section ---- */

static void take_entry(const struct image *image, uint64_t strings, const ElfW(Dyn) * entry,
                       struct mkt_elf *elf)
{
    const char *text = string_at(image, strings + entry->d_un.d_val);
    if (!text)
        return;
    if (entry->d_tag == DT_NEEDED && elf->needed_count < MKT_ELF_MAX_NEEDED)
        elf->needed[elf->needed_count++] = strdup(text);
    else if (entry->d_tag == DT_RPATH && !elf->rpath)
        elf->rpath = strdup(text);
    else if (entry->d_tag == DT_RUNPATH && !elf->runpath)
        elf->runpath = strdup(text);
}

static void read_dynamic(const struct image *image, const ElfW(Ehdr) * head,
                         const ElfW(Phdr) * dynamic, struct mkt_elf *elf)
{
    uint64_t count = dynamic->p_filesz / sizeof(ElfW(Dyn)), strings = image->length;
    const ElfW(Dyn) *entries = at(image, dynamic->p_offset, count * sizeof(ElfW(Dyn)));
    elf->is_dynamic = true;
    for (uint64_t i = 0; entries && i < count && entries[i].d_tag != DT_NULL; i++)
        if (entries[i].d_tag == DT_STRTAB)
            strings = file_offset(image, head, entries[i].d_un.d_ptr);
    for (uint64_t i = 0; entries && i < count && entries[i].d_tag != DT_NULL; i++)
        if (entries[i].d_tag == DT_NEEDED || entries[i].d_tag == DT_RPATH ||
            entries[i].d_tag == DT_RUNPATH)
            take_entry(image, strings, &entries[i], elf);
}

/* ---- symbols ---- */

static void read_symbols(const struct image *image, const ElfW(Shdr) * table,
                         const ElfW(Shdr) * strings, struct mkt_elf *elf)
{
    uint64_t count = table->sh_size / sizeof(ElfW(Sym));
    const ElfW(Sym) *symbols = at(image, table->sh_offset, count * sizeof(ElfW(Sym)));
    for (uint64_t i = 0; symbols && i < count; i++) {
        if (symbols[i].st_shndx == SHN_UNDEF)
            continue;
        const char *name = string_at(image, strings->sh_offset + symbols[i].st_name);
        if (!name || name[0] != 'H' || name[1] != '5')
            continue;
        if (strcmp(name, "H5open") == 0) {
            elf->contains_hdf5 = true;
            elf->exports_hdf5 |= table->sh_type == SHT_DYNSYM;
        }
        if (strcmp(name, "H5Pset_fapl_mpio") == 0)
            elf->parallel = true;
    }
}

static void read_version(const struct image *image, struct mkt_elf *elf)
{
    const char *mark = (const char *)image->bytes, *end = mark + image->length;
    size_t length = 0;
    do { /* the mark also begins a format of HDF5's */
        mark = memmem(mark, (size_t)(end - mark), VERSION_MARK, strlen(VERSION_MARK));
        if (!mark)
            return;
        mark += strlen(VERSION_MARK);
    } while (mark == end || *mark < '0' || *mark > '9');
    while (mark + length < end && length < sizeof(elf->hdf5_version) - 1 && mark[length] > ' ' &&
           mark[length] <= '~')
        length++;
    memcpy(elf->hdf5_version, mark, length);
    elf->hdf5_version[length] = '\0';
}

/* The code is there without a symbol in a stripped static program; but a version's text alone also
 * gets into programs that only print it, so only where no library can be the source. */
static void decide_hdf5(struct mkt_elf *elf)
{
    for (unsigned i = 0; i < elf->needed_count; i++)
        if (elf->needed[i] && strncmp(elf->needed[i], "libhdf5", 7) == 0 && !elf->contains_hdf5) {
            elf->hdf5_version[0] = '\0';
            return;
        }
    if (elf->hdf5_version[0])
        elf->contains_hdf5 = true;
}

static void read_image(const struct image *image, struct mkt_elf *elf)
{
    const ElfW(Ehdr) *head = at(image, 0, sizeof(*head));
    const ElfW(Phdr) * part;
    const ElfW(Shdr) * table;
    if (!head || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0)
        return;
    if (head->e_ident[EI_CLASS] != NATIVE_CLASS || head->e_ident[EI_DATA] != NATIVE_DATA) {
        elf->is_foreign = true;
        return;
    }
    elf->is_elf = true;
    for (unsigned i = 0; (part = segment(image, head, i)); i++)
        if (part->p_type == PT_DYNAMIC)
            read_dynamic(image, head, part, elf);
    for (unsigned i = 0; (table = section(image, head, i)); i++) {
        const ElfW(Shdr) *strings = section(image, head, table->sh_link);
        if (strings && (table->sh_type == SHT_DYNSYM || table->sh_type == SHT_SYMTAB))
            read_symbols(image, table, strings, elf);
    }
    read_version(image, elf);
    decide_hdf5(elf);
}

/* The program in the first line of a script. */
static void read_script(const struct image *image, struct mkt_elf *elf)
{
    const char *text = (const char *)image->bytes, *end = text + image->length;
    size_t length = 0;
    if (image->length < 3 || text[0] != '#' || text[1] != '!')
        return;
    for (text += 2; text < end && (*text == ' ' || *text == '\t'); text++)
        continue;
    while (text + length < end && length < sizeof(elf->interpreter) - 1 && text[length] != '\n')
        length++;
    memcpy(elf->interpreter, text, length);
    elf->interpreter[length] = '\0';
}

enum mkt_status mkt_elf_read(const char *path, struct mkt_elf *elf_out)
{
    struct stat file;
    struct image image;
    memset(elf_out, 0, sizeof(*elf_out));
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return mkt_status_from_errno(errno);
    if (fstat(fd, &file) != 0 || !S_ISREG(file.st_mode)) {
        close(fd);
        return MKT_INVALID;
    }
    image.length = (uint64_t)file.st_size;
    void *bytes = image.length ? mmap(NULL, image.length, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
    close(fd);
    if (bytes == MAP_FAILED)
        return MKT_NO_MEMORY;
    if (!bytes)
        return MKT_OK;
    image.bytes = bytes;
    read_image(&image, elf_out);
    read_script(&image, elf_out);
    munmap(bytes, image.length);
    return MKT_OK;
}

void mkt_elf_fini(struct mkt_elf *elf)
{
    for (unsigned i = 0; i < elf->needed_count; i++)
        free(elf->needed[i]);
    free(elf->rpath);
    free(elf->runpath);
    memset(elf, 0, sizeof(*elf));
}
