/* SPDX-License-Identifier: BSD-3-Clause */
/* Random datatypes, types to convert to, and types in words. */
#include <stdio.h>
#include <string.h>

#include "differential.h"

#define DEPTH 2 /* of arrays, sequences and compounds in one another */

static hid_t random_nested(int depth);

static hid_t random_integer(void)
{
    switch (pick(16)) {
    case 0:
        return H5Tcopy(H5T_STD_I8LE);
    case 1:
        return H5Tcopy(H5T_STD_I8BE);
    case 2:
        return H5Tcopy(H5T_STD_U8LE);
    case 3:
        return H5Tcopy(H5T_STD_I16LE);
    case 4:
        return H5Tcopy(H5T_STD_I16BE);
    case 5:
        return H5Tcopy(H5T_STD_U16LE);
    case 6:
        return H5Tcopy(H5T_STD_U16BE);
    case 7:
        return H5Tcopy(H5T_STD_I32BE);
    case 8:
        return H5Tcopy(H5T_STD_U32LE);
    case 9:
        return H5Tcopy(H5T_STD_U32BE);
    case 10:
        return H5Tcopy(H5T_STD_I64LE);
    case 11:
        return H5Tcopy(H5T_STD_I64BE);
    case 12:
        return H5Tcopy(H5T_STD_U64LE);
    case 13:
        return H5Tcopy(H5T_STD_U64BE);
    default:
        return H5Tcopy(H5T_STD_I32LE);
    }
}

static hid_t random_float(void)
{
    switch (pick(4)) {
    case 0:
        return H5Tcopy(H5T_IEEE_F32LE);
    case 1:
        return H5Tcopy(H5T_IEEE_F32BE);
    case 2:
        return H5Tcopy(H5T_IEEE_F64BE);
    default:
        return H5Tcopy(H5T_IEEE_F64LE);
    }
}

static hid_t random_bitfield(void)
{
    switch (pick(5)) {
    case 0:
        return H5Tcopy(H5T_STD_B8LE);
    case 1:
        return H5Tcopy(H5T_STD_B16BE);
    case 2:
        return H5Tcopy(H5T_STD_B32LE);
    case 3:
        return H5Tcopy(H5T_STD_B64BE);
    default:
        return H5Tcopy(H5T_STD_B16LE);
    }
}

static hid_t random_string(void)
{
    hid_t type = H5Tcopy(H5T_C_S1);

    H5Tset_size(type, 1 + pick(9));
    H5Tset_strpad(type, (H5T_str_t)pick(3));
    return type;
}

static hid_t random_opaque(void)
{
    hid_t type = H5Tcreate(H5T_OPAQUE, 1 + pick(7));

    H5Tset_tag(type, "bytes");
    return type;
}

static hid_t random_enum(void)
{
    static const char *names[] = {"red", "green", "blue", "none"};
    hid_t type = H5Tenum_create(chance(50) ? H5T_NATIVE_INT : H5T_STD_I16BE);

    for (int m = 0; m < 4; m++) {
        int value = m * 7 - 3;
        H5Tconvert(H5T_NATIVE_INT, H5T_NATIVE_INT, 1, &value, NULL, H5P_DEFAULT);
        uint8_t bytes[8];
        memcpy(bytes, &value, sizeof value);
        hid_t base = H5Tget_super(type);
        H5Tconvert(H5T_NATIVE_INT, base, 1, bytes, NULL, H5P_DEFAULT);
        H5Tclose(base);
        H5Tenum_insert(type, names[m], bytes);
    }
    return type;
}

static hid_t random_array(int depth)
{
    hsize_t dims[2] = {1 + pick(3), 1 + pick(3)};
    hid_t base = random_nested(depth - 1);
    hid_t type = H5Tarray_create2(base, 1 + pick(2), dims);

    H5Tclose(base);
    return type;
}

static hid_t random_sequence(int depth)
{
    hid_t base = random_nested(depth - 1);
    hid_t type = H5Tvlen_create(base);

    H5Tclose(base);
    return type;
}

static hid_t random_compound(int depth)
{
    unsigned members = 1 + pick(4);
    size_t gap = chance(25) ? 3 : 0, size = 0;
    hid_t member[4], type;

    for (unsigned m = 0; m < members; m++) {
        member[m] = random_nested(depth - 1);
        size += H5Tget_size(member[m]) + gap;
    }
    type = H5Tcreate(H5T_COMPOUND, size);
    for (unsigned m = 0, at = 0; m < members; m++) {
        char name[16];
        snprintf(name, sizeof name, "m%u", m);
        H5Tinsert(type, name, at, member[m]);
        at += H5Tget_size(member[m]) + gap;
        H5Tclose(member[m]);
    }
    return type;
}

static hid_t variable_string(void)
{
    hid_t type = H5Tcopy(H5T_C_S1);

    H5Tset_size(type, H5T_VARIABLE);
    return type;
}

static hid_t random_nested(int depth)
{
    unsigned kind = pick(depth > 0 ? 30 : 21);

    if (kind < 8)
        return random_integer();
    if (kind < 13)
        return random_float();
    switch (kind) {
    case 13:
    case 14:
        return random_string();
    case 15:
        return random_bitfield();
    case 16:
        return random_opaque();
    case 17:
        return random_enum();
    case 18:
        return H5Tcopy(H5T_STD_REF_OBJ);
    case 19:
        return variable_string();
    case 20:
        return random_integer();
    case 21:
        return random_sequence(depth);
    case 22:
    case 23:
        return random_array(depth);
    default:
        return random_compound(depth);
    }
}

hid_t type_random(void)
{
    return random_nested(DEPTH);
}

/* ---- memory types ---- */

static hid_t convertible(hid_t type);

static hid_t convertible_base(hid_t type, hid_t (*make)(hid_t base, hid_t like))
{
    hid_t super = H5Tget_super(type), base = convertible(super);
    hid_t result = make(base, type);

    H5Tclose(super);
    H5Tclose(base);
    return result;
}

static hid_t make_array(hid_t base, hid_t like)
{
    hsize_t dims[8];
    int rank = H5Tget_array_dims2(like, dims);

    return H5Tarray_create2(base, (unsigned)rank, dims);
}

static hid_t make_sequence(hid_t base, hid_t like)
{
    (void)like;
    return H5Tvlen_create(base);
}

/* Some members, in another order, at other places, some converted. */
static hid_t convertible_compound(hid_t type)
{
    unsigned members = (unsigned)H5Tget_nmembers(type), wanted = 0, order[MAX_MEMBERS];
    hid_t member[MAX_MEMBERS];
    size_t size = 0, gap = chance(30) ? 5 : 0, at = 0;

    for (unsigned m = 0; m < members; m++)
        if (chance(70))
            order[wanted++] = m;
    if (wanted == 0)
        order[wanted++] = pick(members);
    for (unsigned m = wanted; m-- > 1;) {
        unsigned other = pick(m + 1), held = order[m];
        order[m] = order[other];
        order[other] = held;
    }
    for (unsigned m = 0; m < wanted; m++) {
        hid_t original = H5Tget_member_type(type, order[m]);
        member[m] = chance(50) ? convertible(original) : H5Tcopy(original);
        H5Tclose(original);
        size += H5Tget_size(member[m]) + gap;
    }
    hid_t result = H5Tcreate(H5T_COMPOUND, size + (chance(20) ? 4 : 0));
    for (unsigned m = 0; m < wanted; m++) {
        char *name = H5Tget_member_name(type, order[m]);
        H5Tinsert(result, name, at, member[m]);
        H5free_memory(name);
        at += H5Tget_size(member[m]) + gap;
        H5Tclose(member[m]);
    }
    return result;
}

static hid_t convertible(hid_t type)
{
    switch (H5Tget_class(type)) {
    case H5T_INTEGER:
    case H5T_FLOAT:
        return chance(60) ? random_integer() : random_float();
    case H5T_BITFIELD:
        return random_bitfield();
    case H5T_STRING:
        return H5Tis_variable_str(type) > 0 ? H5Tcopy(type) : random_string();
    case H5T_ARRAY:
        return convertible_base(type, make_array);
    case H5T_VLEN:
        return convertible_base(type, make_sequence);
    case H5T_COMPOUND:
        return convertible_compound(type);
    default:
        return H5Tcopy(type);
    }
}

hid_t type_for_memory(hid_t file_type)
{
    unsigned way = pick(100);

    if (way < 40)
        return H5Tcopy(file_type);
    if (way < 60)
        return H5Tget_native_type(file_type, H5T_DIR_DEFAULT);
    return way < 98 ? convertible(file_type) : type_random();
}

/* ---- in words ---- */

static void say_members(hid_t type)
{
    int members = H5Tget_nmembers(type);

    for (int m = 0; m < members; m++) {
        char *name = H5Tget_member_name(type, (unsigned)m);
        say(m ? ", %s" : "%s", name);
        H5free_memory(name);
        if (H5Tget_class(type) == H5T_ENUM) {
            uint8_t value[8] = {0};
            H5Tget_member_value(type, (unsigned)m, value);
            say("=%02x%02x", value[0], value[1]);
            continue;
        }
        hid_t member = H5Tget_member_type(type, (unsigned)m);
        say("@%zu ", H5Tget_member_offset(type, (unsigned)m));
        type_say(member);
        H5Tclose(member);
    }
}

static void say_super(const char *what, hid_t type)
{
    hid_t super = H5Tget_super(type);

    say("%s of ", what);
    type_say(super);
    H5Tclose(super);
}

void type_say(hid_t type)
{
    hsize_t dims[8];
    char *tag;
    const char *order = H5Tget_order(type) == H5T_ORDER_BE ? "be" : "le";
    size_t bits = H5Tget_size(type) * 8;

    switch (H5Tget_class(type)) {
    case H5T_INTEGER:
        say("%c%zu%s", H5Tget_sign(type) == H5T_SGN_NONE ? 'u' : 'i', bits, order);
        break;
    case H5T_FLOAT:
        say("f%zu%s", bits, order);
        break;
    case H5T_BITFIELD:
        say("b%zu%s", bits, order);
        break;
    case H5T_STRING:
        if (H5Tis_variable_str(type) > 0)
            say("string pad %d", H5Tget_strpad(type));
        else
            say("string(%zu) pad %d", bits / 8, H5Tget_strpad(type));
        break;
    case H5T_OPAQUE:
        tag = H5Tget_tag(type);
        say("opaque(%zu) %s", bits / 8, tag);
        H5free_memory(tag);
        break;
    case H5T_ENUM:
        say_super("enum", type);
        say(" {");
        say_members(type);
        say("}");
        break;
    case H5T_COMPOUND:
        say("compound(%zu) {", bits / 8);
        say_members(type);
        say("}");
        break;
    case H5T_ARRAY:
        say("array");
        say_dims(H5Tget_array_dims2(type, dims), dims);
        say_super("", type);
        break;
    case H5T_VLEN:
        say_super("sequence", type);
        break;
    case H5T_REFERENCE:
        say("reference(%zu)", bits / 8);
        break;
    default:
        say("class %d", H5Tget_class(type));
    }
}
