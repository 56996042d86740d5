#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Programs with threads (tests/vol/threads.c) with the distribution's serial HDF5, which is thread-safe.

set -eu
export HDF5_PLUGIN_PATH=$MKT_BUILD_DIR/lib/hdf5/plugin
program=$PWD/threads
# shellcheck disable=SC2046 # words
gcc -std=gnu11 -D_GNU_SOURCE -O1 -o "$program" "$MKT_SOURCE_DIR/tests/vol/threads.c" \
    $(pkg-config --cflags --libs hdf5-serial) -pthread
exec "$MKT_SOURCE_DIR/tests/vol/threads.sh" "$program"
