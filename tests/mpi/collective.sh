#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# What a group is told of its transfers through the market is what it is told natively.
# usage: collective.sh PROGRAM RANKS

set -eu
program=$1 ranks=$2

timeout 60 "$MKT_MPIEXEC" -n "$ranks" "$program" native.h5 >native.txt
export HDF5_VOL_CONNECTOR=market
timeout 60 "$MKT_MPIEXEC" -n "$ranks" "$program" same.h5 >market.txt
grep -q 'contiguous, collective write: mode' native.txt
diff native.txt market.txt
timeout 60 "$MKT_MPIEXEC" -n "$ranks" "$program" more.h5 more >/dev/null
