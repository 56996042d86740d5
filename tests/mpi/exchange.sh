#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# n writers to m readers, and the file reopened by both.
# usage: exchange.sh native|market PROGRAM WRITERS READERS

set -eu
mode=$1 program=$2 writers=$3 readers=$4

run() { # ranks, arguments of the program
    local ranks=$1
    shift
    timeout 120 "$MKT_MPIEXEC" -n "$ranks" "$program" "$@"
}

if [[ $mode == market ]]; then
    export HDF5_VOL_CONNECTOR="market wait=60"
    run "$readers" read out.h5 & # starts first: waits for the writers
    reader=$!
    HDF5_VOL_CONNECTOR=market run "$writers" write out.h5
    wait "$reader"
else
    run "$writers" write out.h5
fi
run "$readers" read out.h5
run 1 read out.h5
run "$readers" rewrite out.h5
run "$writers" read-rewritten out.h5
if [[ $mode == market && $(stat -c %s out.h5) != 512 ]]; then
    echo "exchange.sh: data went to disk: $(stat -c %s out.h5) bytes" >&2
    exit 1
fi
