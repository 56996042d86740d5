#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# A parallel job is ended by SIGTERM and goes on from its last checkpoint with another number of
# ranks; files on disk that groups work on in memory.
# usage: restart.sh CASE...; CHECKPOINT and H5DO, H5DO_MPI name the programs
# shellcheck disable=SC2317 # cases are called by name
# shellcheck source=tests/vol/h5do.sh
mode=market
. "$(dirname "$0")/../vol/h5do.sh"

rules() { configure files: "$1"; } # TEXT
native() { env -u HDF5_VOL_CONNECTOR "$@"; }
last_step() { sed -n 's/^step \([0-9]*\).*/\1/p' "$1" | tail -n 1; }
reached() { [[ $(last_step "$1") -ge $2 ]]; }

restart_on_fewer_ranks() {
    local said path from
    rules '- {match: "chk_*.h5", mode: both, durability: close}'
    "$MKT_MPIEXEC" -n 4 "$CHECKPOINT" 100000 >first.out 2>&1 </dev/null &
    pids[first]=$!
    until_true 30 reached first.out 4 || fail "no steps"
    kill -TERM "${pids[first]}"
    finished first any
    # As when the node's job has ended, nothing is in memory any more.
    h5market stop --discard >/dev/null
    said=$(last_step first.out)
    run 0 h5market load -q --latest 'chk_*.h5'
    path=$(grep '^chk_' out)
    [[ -n $path ]] || fail "no checkpoint"
    h5market stat "$path" >/dev/null || fail "$path isn't in memory"
    from=$((10#${path//[^0-9]/} / 10)) # the 5 of .h5 is a digit, too
    ((from >= said)) || fail "goes on from $from, though $said was on disk"
    run 0 "$MKT_MPIEXEC" -n 2 "$CHECKPOINT" $((from + 3)) "$path"
    says "from $from" "right up to $((from + 3))"
    path=$(printf 'chk_%04d.h5' $((from + 3)))
    run 0 env -u HDF5_VOL_CONNECTOR "$MKT_MPIEXEC" -n 1 "$CHECKPOINT" 0 "$path"
    says "right up to $((from + 3))"
}

# The market lives on, and has what isn't on disk yet.
restart_from_memory() {
    local path
    rules '- {match: "chk_*.h5", mode: both}'
    run 0 "$MKT_MPIEXEC" -n 3 "$CHECKPOINT" 3
    run 0 h5market load -q --latest 'chk_*.h5'
    path=$(grep '^chk_' out)
    [[ $path == chk_0003.h5 ]] || fail "it is $path"
    run 0 "$MKT_MPIEXEC" -n 2 "$CHECKPOINT" 5 "$path"
    says "from 3" "right up to 5"
    run 0 h5market wait --all
    run 0 env -u HDF5_VOL_CONNECTOR "$MKT_MPIEXEC" -n 1 "$CHECKPOINT" 0 chk_0005.h5
    says "right up to 5"
}

# Rank 0 brings it in, the others wait for it.
groups_on_files() {
    rules '- {match: "*.h5", mode: both, stage_in: true}'
    native "$H5DO" "create x.h5" "make d 3000" "putall d 5" "make e 3000" "putall e 6" "close"
    job 3 "access world" "open x.h5" "check d 5" "close"
    h5market stat x.h5 >/dev/null || fail "x.h5 isn't in memory"
    h5market rm -q x.h5
    job 3 "access world" "openrw x.h5" "check d 5" "barrier" "put d 7" "barrier" "check d 7" "check e 6" "make f 30" "put f 1" \
        "close" "open x.h5" "check d 7" "check e 6" "check f 1" "close"
    run 0 h5market wait x.h5
    native "$H5DO" "open x.h5" "check d 7" "check e 6" "check f 1"
    job 2 "access world" "openrw x.h5" "check f 1" "@1 putall e 9" "barrier" "check e 9" "close"
    run 0 h5market wait x.h5
    native "$H5DO" "open x.h5" "check d 7" "check e 9" "check f 1"
}

run_cases "$@"
