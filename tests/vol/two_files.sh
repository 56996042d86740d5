#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Messages of one client stay in order, by whatever way they go: the small file's pieces come after a
# long message and before its commit. Each time with a fresh daemon, whose buffers have to grow.
# usage: two_files.sh PROGRAM

set -eu
program=$1

for ((times = 0; times < 12; times++)); do
    HDF5_VOL_CONNECTOR=market "$program" . 40 100
    h5market stop --discard
done
