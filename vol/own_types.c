/* SPDX-License-Identifier: BSD-3-Clause */
#include "vol/own_types.h"

#include <stddef.h>

/* Kept in published versions: never changed, only added to. */
enum number {
    NONE = 0,
    I8 = 1,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F32,
    F64
};

#define SIGNED(type) \
    (sizeof(type) == 1 ? I8 : sizeof(type) == 2 ? I16 : sizeof(type) == 4 ? I32 : I64)
#define UNSIGNED(type) (SIGNED(type) + 1)

static uint32_t bytes_of(enum number number)
{
    switch (number) {
    case I8:
    case U8:
        return 1;
    case I16:
    case U16:
        return 2;
    case I32:
    case U32:
    case F32:
        return 4;
    case I64:
    case U64:
    case F64:
        return 8;
    default:
        return 0;
    }
}

/* What programs use most comes first. HDF5 sets the ids when it begins. */
static const struct {
    const hid_t *type;
    enum number number;
} own[] = {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    {&H5T_NATIVE_DOUBLE_g, F64},
    {&H5T_NATIVE_FLOAT_g, F32},
    {&H5T_NATIVE_INT_g, SIGNED(int)},
    {&H5T_NATIVE_LONG_g, SIGNED(long)},
    {&H5T_NATIVE_LLONG_g, SIGNED(long long)},
    {&H5T_NATIVE_UINT_g, UNSIGNED(unsigned)},
    {&H5T_NATIVE_ULONG_g, UNSIGNED(unsigned long)},
    {&H5T_NATIVE_ULLONG_g, UNSIGNED(unsigned long long)},
    {&H5T_NATIVE_SCHAR_g, I8},
    {&H5T_NATIVE_UCHAR_g, U8},
    {&H5T_NATIVE_SHORT_g, SIGNED(short)},
    {&H5T_NATIVE_USHORT_g, UNSIGNED(unsigned short)},
    {&H5T_NATIVE_INT32_g, I32},
    {&H5T_NATIVE_INT64_g, I64},
#endif
    {&H5T_IEEE_F64LE_g, F64},
    {&H5T_IEEE_F32LE_g, F32},
    {&H5T_STD_I32LE_g, I32},
    {&H5T_STD_I64LE_g, I64},
    {&H5T_STD_U8LE_g, U8},
    {&H5T_STD_I8LE_g, I8},
    {&H5T_STD_U32LE_g, U32},
    {&H5T_STD_U64LE_g, U64},
    {&H5T_STD_I16LE_g, I16},
    {&H5T_STD_U16LE_g, U16},
};

struct mkt_vol_own_type mkt_vol_own_type(hid_t type)
{
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        if (type == *own[i].type)
            return (struct mkt_vol_own_type){own[i].number, bytes_of(own[i].number)};
    return (struct mkt_vol_own_type){.number = NONE};
}
