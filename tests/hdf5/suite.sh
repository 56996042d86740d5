#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Runs one of HDF5's test programs natively and through the market. Both must end with status 0, and a
# program that counts its tests must count the same. Listed apart, by name and with the reason, are checks
# of what can't exist for data in memory; without them the program has to pass all the same.
#
# usage: suite.sh memory|both|file PROGRAM RANKS [ARGUMENT...]      RANKS 0: without MPI
#
# The mode of all files is a rule's. file: all are ordinary ones; then nothing is listed apart.

set -u

mode=$1
program=$2
ranks=$3
shift 3
apart=
export H5MARKET_CONFIG=$PWD/h5market.yaml
printf 'files:\n  - {match: "**", mode: %s}\n' "$mode" >"$H5MARKET_CONFIG"
case $mode:${program##*/} in
    memory:h5_api_test_testhdf5)
        # Looks into the chunk cache of the native connector's dataset, which holds no chunk of ours.
        apart=H5D__current_cache_size_test
        ;;
    memory:h5_api_test_parallel_testphdf5)
        # The first two compare the size of the real file on disk, the third asks which way MPI-IO went for each
        # reason not to be collective.
        set -- "$@" -x calloc -x bigdset -x nocolcause
        ;;
esac
# Files that the programs read: where they were built from may be gone.
for source in "${program%/*/*/*}"/hdf5-*-source/test; do
    [[ -d $source ]] && export srcdir=$source
done
command=("$program" "$@")
if ((ranks)); then
    command=("$MKT_MPIEXEC" --oversubscribe -n "$ranks" --mca mpi_yield_when_idle 1 "$program" "$@")
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

# True if all that the market's run complains of is listed apart.
only_apart() {
    [[ -n $apart ]] && grep -q "$apart" market.txt && tail -n 20 market.txt | grep -q 'Cleaning Up' &&
        ! grep -E '^\*\*\*|[Ee]rror on line|DIAG' market.txt | grep -qv "$apart"
}

if ! run market && ! only_apart; then
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
