/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A generator of HDF5 programs. A program is a seed and a number of steps; each step draws from a
 * random sequence of its own, so that steps can be left out and the others stay what they are. What
 * it does and what HDF5 answers goes to a transcript, which must not depend on where files are
 * kept. Plain HDF5, one thread.
 */
#ifndef DIFFERENTIAL_H
#define DIFFERENTIAL_H

#include <hdf5.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAX_RANK     5
#define MAX_ELEMENTS 2000
#define MAX_MEMBERS  6

/* ---- random.c ---- */
void random_start(uint64_t seed, uint64_t step);
uint64_t random_bits(void);
unsigned pick(unsigned below); /* below 0 gives 0 */
bool chance(unsigned percent);

/* ---- transcript.c ---- */
struct transcript_options {
    bool values; /* also the values, not only their digest */
    bool errors; /* HDF5's error stacks go to standard error */
};
extern struct transcript_options transcript_options;
bool transcript_open(const char *path); /* appends; NULL: standard output */
void transcript_flush(void);
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Says whether a call succeeded; returns it. */
bool said(hid_t result);
void say_dims(int rank, const hsize_t *dims);
struct digest {
    uint64_t sum;
};
void digest_start(struct digest *digest);
void digest_add(struct digest *digest, const void *bytes, size_t count);

/* ---- types.c ---- */
hid_t type_random(void);
/* A memory type for elements of a file type: the same, native's, or one that needs a conversion. */
hid_t type_for_memory(hid_t file_type);
void type_say(hid_t type);

/* ---- values.c ---- */
/* A datatype taken apart, for values without a call of HDF5 an element. */
struct shape {
    H5T_class_t class;
    size_t size, count; /* count: of an array's elements */
    bool pointer;       /* a variable-length string */
    bool big;
    unsigned children;
    size_t offset[MAX_MEMBERS];
    struct shape *child[MAX_MEMBERS];
    uint8_t enums[MAX_MEMBERS][8];
};
struct shape *shape_create(hid_t type);
void shape_destroy(struct shape *shape);
bool shape_has(const struct shape *shape, H5T_class_t class); /* H5T_VLEN: strings too */
bool shape_has_gaps(const struct shape *shape);

struct values {
    struct shape *shape;
    hid_t type, location; /* location: a file's object, for references */
    size_t count;
    uint8_t *bytes;
    void *blocks; /* what variable-length values point to, until freed */
};
bool values_create(struct values *values, hid_t type, hid_t location, size_t count);
void values_destroy(struct values *values);
void values_fill(struct values *values);
void values_poison(struct values *values);
/* gaps: also what lies between the members of compounds. */
void values_say(const struct values *values, bool gaps);

/* ---- spaces.c ---- */
hid_t space_random(bool growing);
void space_say(hid_t space);
hsize_t space_elements(hid_t space);
/* Selects something and says it. */
void space_select(hid_t space, bool twice);
/* A memory space for what is selected in file_space (H5S_ALL: all of extent): *elements_out is the
 * buffer's size. May be H5S_ALL. */
hid_t space_for_memory(hid_t file_space, hid_t extent, hsize_t *elements_out);

/* ---- world.c: what is open ---- */
enum kind {
    FILES,
    GROUPS,
    DATASETS,
    TYPES,
    ATTRIBUTES,
    KINDS
};
#define SLOTS 5
void world_start(uint64_t seed);
hid_t world_pick(enum kind kind); /* says it; H5I_INVALID_HID if none is open */
void world_put(enum kind kind, hid_t id);
void world_sweep(void); /* forgets ids that HDF5 closed */
bool world_is_empty(void);
bool world_has(enum kind kind);
bool world_holds(enum kind kind, hid_t id);
void world_close_one(enum kind kind);
void world_close_kind(enum kind kind);
hid_t world_location(void);
hid_t world_object(void);
void world_close_all(void);
void world_close_doubles(void);
void world_say_counts(hid_t file);
H5F_close_degree_t world_degree(void);
/* Names, said in quotes; they live until the next-but-three call. */
const char *name_dataset(void);
const char *name_group(void);
const char *name_type(void);
const char *name_any(void);
const char *name_link(void);
const char *name_attribute(void);
const char *name_file(void);
hid_t list_links(void); /* a link creation list: intermediate groups */

/* ---- steps ---- */
void step_file(bool may_create);
void step_create_file(void);
void step_open_or_create_file(void);
void step_close(void);
void step_flush(void);
void step_mount(void);
void step_create_group(void);
void step_open(void);
void step_create_dataset(void);
void step_write(void);
void step_write_many(void);
void step_read(void);
void step_multi(void);
void step_fill(void);
void step_extent(void);
void step_describe(void);
void step_commit(void);
void step_attribute(void);
void step_link(void);
void step_move(void);
void step_delete(void);
void step_copy(void);
void step_look(void);
void step_reference(void);
void step_dump(void);

/* What a dataset's values mean where nothing was written is native's business: no fill value. */
bool dataset_reads_undefined(hid_t dataset);
void dataset_describe(hid_t dataset);
void dataset_read_all(hid_t dataset);
void attribute_read_all(hid_t attribute, hid_t memory_type);

/* ---- dump.c ---- */
void dump_file(hid_t file);
/* Opens a file for reading and walks through it. */
void dump_path(const char *path);

#endif
