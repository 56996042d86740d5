#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Runs one of HDF5's test programs natively and through the market. Both must end with status 0, and a
# program that counts its tests must count the same.
#
# usage: suite.sh PROGRAM RANKS      RANKS 0: without MPI

set -u

program=$1
ranks=$2
command=("$program")
if ((ranks)); then
    command=("$MKT_MPIEXEC" --oversubscribe -n "$ranks" --mca mpi_yield_when_idle 1 "$program")
fi

fail() {
    echo "suite.sh: $*" >&2
    exit 1
}

# The numbers of the summary: "1074/1135 (94.63%) API tests passed with VOL connector 'market'".
counts() { sed -n "s/^\(At least \)\{0,1\}\([0-9]*\/[0-9]*\) ([0-9.]*%) API tests \([a-z ]*\) \(across\|with\).*/\2 \3/p" "$1"; }

# run CONNECTOR: in a folder of its own.
run() {
    mkdir "$1" && cd "$1" || exit 1
    HDF5_VOL_CONNECTOR=$1 "${command[@]}" >../"$1.txt" 2>&1
    local status=$?
    cd ..
    return "$status"
}

run native || fail "$program fails natively, too: $(tail -n 5 native.txt)"
counts native.txt >native.counts

if ! run market; then
    echo "--- what failed (from $(wc -l <market.txt) lines)"
    grep -nE 'FAILED|UNEXPECTED|Parallel ERROR|VRFY|Segmentation|signal|Abort' market.txt | head -n 60
    tail -n 15 market.txt
    fail "$program fails through the market and not natively"
fi
# HDF5 goes on without a connector that it can't load.
compgen -G "$H5MARKET_DIR/*.log" >/dev/null || fail "no daemon was started: the connector wasn't used"
counts market.txt >market.counts
diff native.counts market.counts || fail "$program counts other results than natively"
cat market.counts
