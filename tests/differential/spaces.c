/* SPDX-License-Identifier: BSD-3-Clause */
/* Extents, selections of them, and memory spaces to match. */
#include <stdlib.h>

#include "differential.h"

#define POINTS_MAX 12

hsize_t space_elements(hid_t space)
{
    hssize_t elements = H5Sget_simple_extent_npoints(space);

    return elements < 0 ? 0 : (hsize_t)elements;
}

hid_t space_random(bool growing)
{
    hsize_t dims[MAX_RANK], max[MAX_RANK], elements = 1;
    int rank = chance(8) ? 0 : 1 + (int)pick(chance(70) ? 3 : MAX_RANK);

    if (rank == 0)
        return H5Screate(chance(15) ? H5S_NULL : H5S_SCALAR);
    for (int d = 0; d < rank; d++) {
        dims[d] = chance(4) ? 0 : 1 + pick(20);
        while (elements * dims[d] > MAX_ELEMENTS)
            dims[d] /= 2;
        elements *= dims[d] ? dims[d] : 1;
        max[d] = !growing || chance(30) ? dims[d] : chance(50) ? H5S_UNLIMITED : dims[d] + pick(20);
        if (max[d] == 0)
            max[d] = H5S_UNLIMITED;
    }
    if (!growing)
        return H5Screate_simple(rank, dims, NULL);
    return H5Screate_simple(rank, dims, max);
}

void space_say(hid_t space)
{
    hsize_t dims[H5S_MAX_RANK], max[H5S_MAX_RANK];
    H5S_class_t class = H5Sget_simple_extent_type(space);

    if (class != H5S_SIMPLE) {
        say(class == H5S_NULL ? "null" : class == H5S_SCALAR ? "scalar" : "no space");
        return;
    }
    int rank = H5Sget_simple_extent_dims(space, dims, max);
    say_dims(rank, dims);
    for (int d = 0; d < rank; d++)
        if (dims[d] != max[d]) {
            say("/");
            say_dims(rank, max);
            break;
        }
}

/* ---- selections ---- */

static void select_slab(hid_t space, int rank, const hsize_t *dims, H5S_seloper_t operation)
{
    static const char *names[] = {"set", "or", "and", "xor", "notb", "nota"};
    hsize_t start[MAX_RANK], stride[MAX_RANK], count[MAX_RANK], block[MAX_RANK];

    for (int d = 0; d < rank; d++) {
        start[d] = 0;
        stride[d] = count[d] = 1;
        block[d] = dims[d];
        if (chance(25))
            continue;
        block[d] = 1 + pick(dims[d] < 3 ? (unsigned)dims[d] : 3);
        stride[d] = block[d] + (chance(50) ? 0 : pick(3));
        count[d] = 1 + pick((unsigned)((dims[d] - block[d]) / stride[d] + 1));
        start[d] = pick((unsigned)(dims[d] - ((count[d] - 1) * stride[d] + block[d]) + 1));
    }
    say(" %s(", names[operation]);
    say_dims(rank, start);
    say_dims(rank, stride);
    say_dims(rank, count);
    say_dims(rank, block);
    say(")");
    if (H5Sselect_hyperslab(space, operation, start, stride, count, block) < 0)
        say("!");
}

static void select_points(hid_t space, int rank, const hsize_t *dims, bool twice)
{
    hsize_t elements = space_elements(space), coords[POINTS_MAX + 1][MAX_RANK];
    hsize_t flat[(POINTS_MAX + 1) * MAX_RANK], at;
    unsigned wanted = 1 + pick(POINTS_MAX), got = 0;

    for (unsigned p = 0; p < wanted; p++) {
        bool seen = false;
        at = pick((unsigned)elements);
        for (int d = rank; d-- > 0; at /= dims[d])
            coords[got][d] = at % dims[d];
        for (unsigned q = 0; q < got && !twice; q++) {
            bool same = true;
            for (int d = 0; d < rank; d++)
                same = same && coords[q][d] == coords[got][d];
            seen = seen || same;
        }
        got += !seen;
    }
    say(" points(");
    for (unsigned p = 0; p < got; p++) {
        say_dims(rank, coords[p]);
        for (int d = 0; d < rank; d++)
            flat[p * (unsigned)rank + (unsigned)d] = coords[p][d];
    }
    say(")");
    unsigned first = chance(20) ? got / 2 : 0;
    H5Sselect_elements(space, H5S_SELECT_SET, got - first, flat + first * (unsigned)rank);
    if (first > 0)
        H5Sselect_elements(space, chance(50) ? H5S_SELECT_APPEND : H5S_SELECT_PREPEND, first, flat);
}

static void select_offset(hid_t space, int rank, const hsize_t *dims)
{
    hsize_t low[MAX_RANK], high[MAX_RANK];
    hssize_t offset[MAX_RANK];

    if (H5Sget_select_bounds(space, low, high) < 0)
        return;
    say(" offset(");
    for (int d = 0; d < rank; d++) {
        offset[d] = (hssize_t)pick((unsigned)(low[d] + dims[d] - high[d])) - (hssize_t)low[d];
        if (chance(3))
            offset[d] += 5;
        say(d ? ",%lld" : "%lld", (long long)offset[d]);
    }
    say(")");
    H5Soffset_simple(space, offset);
}

/* Of some unions HDF5 (1.14.5) makes selections that say other elements, at other places, than they
 * are of. */
static bool is_sound(hid_t space)
{
    hsize_t offset[64], elements = 0, extent = space_elements(space), before = 0;
    size_t length[64], runs = 0, found = 0;
    hid_t walk = H5Ssel_iter_create(space, 1, 0);
    bool sound = walk >= 0, first = true;

    while (sound &&
           H5Ssel_iter_get_seq_list(walk, 64, SIZE_MAX, &runs, &found, offset, length) >= 0 &&
           runs > 0)
        for (size_t r = 0; r < runs; r++) {
            sound = sound && offset[r] + length[r] <= extent && (first || offset[r] >= before);
            before = offset[r] + length[r];
            elements += length[r];
            first = false;
        }
    if (walk >= 0)
        H5Ssel_iter_close(walk);
    return sound && (hssize_t)elements == H5Sget_select_npoints(space);
}

void space_select(hid_t space, bool twice)
{
    static const H5S_seloper_t operations[] = {H5S_SELECT_OR, H5S_SELECT_XOR, H5S_SELECT_NOTB,
                                               H5S_SELECT_AND, H5S_SELECT_NOTA};
    hsize_t dims[MAX_RANK];
    unsigned way = pick(100);

    if (H5Sget_simple_extent_type(space) != H5S_SIMPLE || way < 22) {
        say(" all");
        return;
    }
    int rank = H5Sget_simple_extent_dims(space, dims, NULL);
    if (space_elements(space) == 0 || way < 26) {
        say(" none");
        H5Sselect_none(space);
        return;
    }
    if (way < 40) {
        select_points(space, rank, dims, twice);
        return;
    }
    select_slab(space, rank, dims, H5S_SELECT_SET);
    if (way >= 65 && way < 88)
        for (unsigned more = 1 + pick(3); more > 0; more--)
            select_slab(space, rank, dims, operations[chance(60) ? 0 : pick(5)]);
    if (!is_sound(space)) {
        say(" unsound");
        H5Sselect_all(space);
        return;
    }
    if (way >= 82)
        select_offset(space, rank, dims);
}

/* ---- memory ---- */

static hid_t memory_line(hsize_t length, hsize_t *elements_out)
{
    *elements_out = length;
    return H5Screate_simple(1, &length, NULL);
}

static hid_t memory_strided(hsize_t n, hsize_t *elements_out)
{
    hsize_t start = pick(4), stride = 2 + pick(2), length = start + n * stride + pick(3);
    hid_t space = memory_line(length, elements_out);

    say(" strided");
    H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, &stride, &n, NULL);
    return space;
}

static hid_t memory_box(hsize_t n, hsize_t *elements_out)
{
    hsize_t rows = 1, start[2] = {pick(3), pick(3)};

    for (hsize_t r = 2; r * r <= n; r++)
        if (n % r == 0 && (rows == 1 || chance(50)))
            rows = r;
    hsize_t count[2] = {rows, n / rows};
    hsize_t dims[2] = {start[0] + rows + pick(3), start[1] + n / rows + pick(3)};
    hid_t space = H5Screate_simple(2, dims, NULL);

    say(" box ");
    say_dims(2, count);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL);
    *elements_out = dims[0] * dims[1];
    return space;
}

static hid_t memory_pieces(hsize_t n, hsize_t *elements_out)
{
    hsize_t first = n / 3 + 1, rest = n - first, zero = 0, behind = first + 2;
    hid_t space = memory_line(n + 4, elements_out);

    say(" pieces");
    H5Sselect_hyperslab(space, H5S_SELECT_SET, &zero, NULL, &first, NULL);
    if (rest > 0)
        H5Sselect_hyperslab(space, H5S_SELECT_OR, &behind, NULL, &rest, NULL);
    return space;
}

static hid_t memory_points(hsize_t n, hsize_t *elements_out)
{
    hid_t space = memory_line(n + 5, elements_out);
    hsize_t *at = malloc((size_t)(n + 5) * sizeof *at);

    say(" points");
    for (hsize_t i = 0; i < n + 5; i++)
        at[i] = i;
    for (hsize_t i = n + 5; i-- > 1;) {
        hsize_t other = pick((unsigned)i + 1), held = at[i];
        at[i] = at[other];
        at[other] = held;
    }
    H5Sselect_elements(space, H5S_SELECT_SET, (size_t)n, at);
    free(at);
    return space;
}

hid_t space_for_memory(hid_t file_space, hid_t extent, hsize_t *elements_out)
{
    hid_t selected = file_space == H5S_ALL ? extent : file_space;
    hssize_t points = H5Sget_select_npoints(selected);
    hsize_t n = points < 0 ? 0 : (hsize_t)points;
    unsigned way = pick(100);

    say(" %llu elements to memory", (unsigned long long)n);
    if (way < 2)
        n++; /* refused */
    if (H5Sget_simple_extent_type(selected) == H5S_NULL || way > 85 || (n == 0 && chance(50))) {
        say(way > 92 ? " all" : " alike");
        *elements_out = space_elements(selected);
        if (H5Sget_simple_extent_type(selected) == H5S_NULL)
            *elements_out = 1;
        return way > 92 ? H5S_ALL : H5Scopy(selected);
    }
    if (n == 0) {
        hid_t space = memory_line(5, elements_out);
        H5Sselect_none(space);
        say(" none");
        return space;
    }
    if (n == 1 && chance(20)) {
        say(" scalar");
        *elements_out = 1;
        return H5Screate(H5S_SCALAR);
    }
    if (way < 30)
        return memory_line(n, elements_out);
    if (way < 45)
        return memory_strided(n, elements_out);
    if (way < 65)
        return memory_box(n, elements_out);
    return way < 75 || n > 200 ? memory_pieces(n, elements_out) : memory_points(n, elements_out);
}
