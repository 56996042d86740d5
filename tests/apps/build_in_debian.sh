#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Builds this checkout inside the Debian root, with the distribution's HDF5 (serial, Open MPI and MPICH); what
# is built already is kept. Called by in_debian.sh.

set -euo pipefail

mkdir -p "$MKT_BUILD_DIR"
exec 9>"$MKT_BUILD_DIR/lock"
flock 9
# Builds of checkouts that nobody tested for two weeks.
find "$MKT_BUILD_DIR/.." -mindepth 1 -maxdepth 1 -type d -mtime +14 -exec rm -rf {} +
touch "$MKT_BUILD_DIR"
if [[ ! -e $MKT_BUILD_DIR/build.ninja ]]; then
    cmake -S "$MKT_SOURCE_DIR" -B "$MKT_BUILD_DIR" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=OFF \
        --log-level=WARNING
fi
cmake --build "$MKT_BUILD_DIR" -j "$(nproc)" -- --quiet
for part in lib/h5market/libh5market_vol_{serial,openmpi,mpich}.so lib/hdf5/plugin/libhdf5_vol_market.so bin/h5marketd; do
    [[ -e $MKT_BUILD_DIR/$part ]] || { echo "$part was not built" >&2 && exit 1; }
done
dpkg-query -W libhdf5-dev libhdf5-openmpi-dev python3-h5py python3-netcdf4 python3-tables netcdf-bin
