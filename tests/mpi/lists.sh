#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The market leaves access lists with mpio as they were, and answers of a file's own as native does.
# usage: lists.sh PROGRAM RANKS

set -eu
program=$1 ranks=$2

mkdir native market
timeout 60 "$MKT_MPIEXEC" -n "$ranks" "$program" native >native.txt
export HDF5_VOL_CONNECTOR=market
timeout 60 "$MKT_MPIEXEC" -n "$ranks" "$program" market >market.txt
[[ $(stat -c %s market/lists.h5) == 512 ]] # a stub
grep -q "halves: after open, communicator: $ranks" native.txt
# (Native itself changes a list at its first use.)
diff <(grep -v ", equal:" native.txt) <(grep -v ", equal:" market.txt)
grep ", equal:" market.txt | grep -v "^native: " >equal.txt
[[ $(grep -c ", equal: $ranks\$" equal.txt) == 21 && $(wc -l <equal.txt) == 21 ]]
