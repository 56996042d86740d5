/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffers of elements: filled at random, and digested so that what HDF5 leaves open doesn't count.
 */
#include <stdlib.h>
#include <string.h>

#include "differential.h"

#define SEQUENCE_MAX 4
#define SHOWN_BYTES  96

/* ---- shapes ---- */

static void shape_members(struct shape *shape, hid_t type)
{
    shape->children = (unsigned)H5Tget_nmembers(type);
    for (unsigned m = 0; m < shape->children; m++) {
        hid_t member = H5Tget_member_type(type, m);
        shape->offset[m] = H5Tget_member_offset(type, m);
        shape->child[m] = shape_create(member);
        H5Tclose(member);
    }
}

static void shape_super(struct shape *shape, hid_t type)
{
    hid_t super = H5Tget_super(type);

    shape->children = 1;
    shape->child[0] = shape_create(super);
    H5Tclose(super);
}

struct shape *shape_create(hid_t type)
{
    struct shape *shape = calloc(1, sizeof *shape);

    shape->class = H5Tget_class(type);
    shape->size = H5Tget_size(type);
    shape->count = 1;
    shape->pointer = shape->class == H5T_STRING && H5Tis_variable_str(type) > 0;
    shape->big = H5Tget_order(type) == H5T_ORDER_BE;
    if (shape->class == H5T_COMPOUND)
        shape_members(shape, type);
    if (shape->class == H5T_ARRAY || shape->class == H5T_VLEN)
        shape_super(shape, type);
    if (shape->class == H5T_ARRAY)
        shape->count = shape->size / shape->child[0]->size;
    for (unsigned m = 0; shape->class == H5T_ENUM && m < 4; m++)
        H5Tget_member_value(type, m, shape->enums[m]);
    return shape;
}

void shape_destroy(struct shape *shape)
{
    if (!shape)
        return;
    for (unsigned m = 0; m < shape->children; m++)
        shape_destroy(shape->child[m]);
    free(shape);
}

bool shape_has(const struct shape *shape, H5T_class_t class)
{
    if (shape->class == class || (shape->pointer && class == H5T_VLEN))
        return true;
    for (unsigned m = 0; m < shape->children; m++)
        if (shape_has(shape->child[m], class))
            return true;
    return false;
}

bool shape_has_gaps(const struct shape *shape)
{
    size_t held = 0;

    for (unsigned m = 0; m < shape->children; m++) {
        if (shape_has_gaps(shape->child[m]))
            return true;
        held += shape->child[m]->size;
    }
    return shape->class == H5T_COMPOUND && held != shape->size;
}

/* ---- filling ---- */

struct block {
    struct block *next;
    max_align_t bytes[];
};

static void *block_new(struct values *values, size_t bytes)
{
    struct block *block = calloc(1, sizeof *block + (bytes ? bytes : 1));

    block->next = values->blocks;
    values->blocks = block;
    return block->bytes;
}

static void put_number(const struct shape *shape, uint8_t *at, const void *value)
{
    for (size_t b = 0; b < shape->size; b++)
        at[b] = ((const uint8_t *)value)[shape->big ? shape->size - 1 - b : b];
}

static void fill_float(const struct shape *shape, uint8_t *at)
{
    double value = ((int)pick(20001) - 10000) * 0.125;

    if (chance(3))
        value *= 1e12;
    float narrow = (float)value;
    if (shape->size == 8)
        put_number(shape, at, &value);
    else if (shape->size == 4)
        put_number(shape, at, &narrow);
    else
        memset(at, 0, shape->size);
}

static void fill_integer(const struct shape *shape, uint8_t *at)
{
    uint64_t value = chance(60) ? pick(256) : random_bits();

    put_number(shape, at, &value);
}

static void fill_text(uint8_t *at, size_t bytes)
{
    size_t length = pick((unsigned)bytes + 1);

    memset(at, 0, bytes);
    for (size_t b = 0; b < length; b++)
        at[b] = (uint8_t)('a' + pick(26));
}

/* Only what no step deletes: an address may be another object's later. */
static void fill_reference(const struct values *values, uint8_t *at, size_t bytes)
{
    static const char *kept[] = {"/", "/k0", "/k1", "/k2"};

    memset(at, 0, bytes);
    if (bytes == sizeof(hobj_ref_t) && !chance(20) && values->location >= 0 &&
        H5Rcreate(at, values->location, kept[pick(4)], H5R_OBJECT, H5I_INVALID_HID) < 0)
        memset(at, 0, bytes);
}

static void fill_one(struct values *values, const struct shape *shape, uint8_t *at)
{
    hvl_t sequence;
    char *text;

    switch (shape->class) {
    case H5T_FLOAT:
        fill_float(shape, at);
        break;
    case H5T_INTEGER:
        fill_integer(shape, at);
        break;
    case H5T_STRING:
        if (!shape->pointer) {
            fill_text(at, shape->size);
            break;
        }
        text = block_new(values, 12);
        fill_text((uint8_t *)text, 11);
        memcpy(at, &text, sizeof text);
        break;
    case H5T_ENUM:
        memcpy(at, shape->enums[pick(4)], shape->size);
        break;
    case H5T_REFERENCE:
        fill_reference(values, at, shape->size);
        break;
    case H5T_VLEN:
        sequence.len = pick(SEQUENCE_MAX);
        sequence.p = sequence.len ? block_new(values, sequence.len * shape->child[0]->size) : NULL;
        for (size_t i = 0; i < sequence.len; i++)
            fill_one(values, shape->child[0], (uint8_t *)sequence.p + i * shape->child[0]->size);
        memcpy(at, &sequence, sizeof sequence);
        break;
    case H5T_ARRAY:
        for (size_t i = 0; i < shape->count; i++)
            fill_one(values, shape->child[0], at + i * shape->child[0]->size);
        break;
    case H5T_COMPOUND:
        memset(at, 0x5a, shape->size);
        for (unsigned m = 0; m < shape->children; m++)
            fill_one(values, shape->child[m], at + shape->offset[m]);
        break;
    default:
        for (size_t b = 0; b < shape->size; b++)
            at[b] = (uint8_t)random_bits();
    }
}

bool values_create(struct values *values, hid_t type, hid_t location, size_t count)
{
    memset(values, 0, sizeof *values);
    values->type = type;
    values->location = location;
    values->shape = shape_create(type);
    values->count = count;
    values->bytes = calloc(count ? count : 1, values->shape->size);
    return values->bytes != NULL;
}

void values_destroy(struct values *values)
{
    for (struct block *block = values->blocks, *next; block; block = next) {
        next = block->next;
        free(block);
    }
    free(values->bytes);
    shape_destroy(values->shape);
}

void values_fill(struct values *values)
{
    for (size_t i = 0; i < values->count; i++)
        fill_one(values, values->shape, values->bytes + i * values->shape->size);
}

void values_poison(struct values *values)
{
    bool pointers = shape_has(values->shape, H5T_VLEN) || shape_has(values->shape, H5T_REFERENCE);

    memset(values->bytes, pointers ? 0 : 0xa5, values->count * values->shape->size);
}

/* ---- digesting ---- */

struct digesting {
    const struct values *values;
    struct digest digest;
    bool gaps;
};

static void digest_reference(struct digesting *it, const uint8_t *at, size_t bytes)
{
    static const uint8_t zero[64];
    H5O_type_t type = H5O_TYPE_UNKNOWN;

    if (bytes <= sizeof zero && memcmp(at, zero, bytes) != 0 &&
        H5Rget_obj_type2(it->values->location, H5R_OBJECT, at, &type) < 0)
        type = H5O_TYPE_NTYPES;
    digest_add(&it->digest, &type, sizeof type);
}

static void digest_one(struct digesting *it, const struct shape *shape, const uint8_t *at);

static void digest_compound(struct digesting *it, const struct shape *shape, const uint8_t *at)
{
    for (unsigned m = 0; m < shape->children; m++)
        digest_one(it, shape->child[m], at + shape->offset[m]);
    for (size_t b = 0; it->gaps && b < shape->size; b++) {
        bool held = false;
        for (unsigned m = 0; m < shape->children; m++)
            held = held || (b >= shape->offset[m] && b < shape->offset[m] + shape->child[m]->size);
        if (!held)
            digest_add(&it->digest, at + b, 1);
    }
}

static void digest_one(struct digesting *it, const struct shape *shape, const uint8_t *at)
{
    hvl_t sequence;
    const char *text;

    if (shape->class == H5T_VLEN) {
        memcpy(&sequence, at, sizeof sequence);
        digest_add(&it->digest, &sequence.len, sizeof sequence.len);
        for (size_t i = 0; i < sequence.len; i++)
            digest_one(it, shape->child[0],
                       (const uint8_t *)sequence.p + i * shape->child[0]->size);
    } else if (shape->pointer) {
        memcpy(&text, at, sizeof text);
        digest_add(&it->digest, text ? text : "\1", text ? strlen(text) + 1 : 2);
    } else if (shape->class == H5T_ARRAY) {
        for (size_t i = 0; i < shape->count; i++)
            digest_one(it, shape->child[0], at + i * shape->child[0]->size);
    } else if (shape->class == H5T_COMPOUND) {
        digest_compound(it, shape, at);
    } else if (shape->class == H5T_REFERENCE) {
        digest_reference(it, at, shape->size);
    } else {
        digest_add(&it->digest, at, shape->size);
    }
}

void values_say(const struct values *values, bool gaps)
{
    struct digesting it = {.values = values, .gaps = gaps};
    size_t bytes = values->count * values->shape->size;

    digest_start(&it.digest);
    for (size_t i = 0; i < values->count; i++)
        digest_one(&it, values->shape, values->bytes + i * values->shape->size);
    say(" {%016llx}", (unsigned long long)it.digest.sum);
    if (!transcript_options.values || shape_has(values->shape, H5T_VLEN) ||
        shape_has(values->shape, H5T_REFERENCE))
        return;
    say(" 0x");
    for (size_t b = 0; b < bytes && b < SHOWN_BYTES; b++)
        say(b > 0 && b % values->shape->size == 0 ? "_%02x" : "%02x", values->bytes[b]);
}
