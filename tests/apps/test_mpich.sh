#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The tests of MPI programs with MPICH and the HDF5 that Debian builds with it. Called by in_debian.sh.

set -euo pipefail

prefix=/usr/lib/$(gcc -print-multiarch)/hdf5/mpich
build=$MKT_BUILD_DIR-mpich
if [[ ! -e $prefix/include/hdf5.h ]]; then
    echo "no HDF5 with MPICH in $prefix"
    exit 77
fi
export MPICC=mpicc.mpich
mkdir -p "$build"
exec 9>"$build/lock"
flock 9
if [[ ! -e $build/build.ninja ]]; then
    cmake -S "$MKT_SOURCE_DIR" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DHDF5_ROOT="$prefix" -DMKT_EXAMPLES=OFF \
        --log-level=WARNING
fi
touch "$build"
cmake --build "$build" -j "$(nproc)" -t h5market h5marketd h5market-archiver mkt_vol_entry mkt_vol_mpich \
    mkt_vol_serial tests/mpi/all h5do -- --quiet
ldd "$build/tests/mpi/exchange" | grep -o 'libmpich.*' # fails if it is another MPI's
exec ctest --test-dir "$build" --output-on-failure --no-tests=error -L '^mpi$' -LE '^slow$'
