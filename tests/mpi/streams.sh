#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Parallel programs that write and read a stream: all ranks of a reader get the same version.
# usage: streams.sh CASE...; H5DO and H5DO_MPI name the programs
# shellcheck disable=SC2317 # cases are called by name
# shellcheck source=tests/vol/h5do.sh
mode=market
. "$(dirname "$0")/../vol/h5do.sh"

mpi() { # RANKS CALL...: the command for it
    command=("$MKT_MPIEXEC" -n "$1" "$H5DO_MPI" "access world" "${@:2}")
}
writes() { # FILE STEP...: the calls that write them
    local file=$1 step
    shift
    for step; do
        calls+=("create $file" "make d 300" "put d ${step}000" "close")
    done
}
reads() { # FILE STEP...
    local file=$1 step
    shift
    for step; do
        calls+=("open $file" "check d ${step}000" "close")
    done
}

# Two write, three read behind them; the queue holds the writers back.
two_to_three() {
    configure 'files: [{match: x.h5, mode: memory, queue: 2, end: 8, wait: 30, deliver: all}]'
    local calls=()
    reads x.h5 {1..8}
    mpi 3 "${calls[@]}" "! open x.h5"
    background readers "${command[@]}"
    calls=()
    writes x.h5 {1..8}
    mpi 2 "${calls[@]}"
    run 0 "${command[@]}"
    finished readers 0
    says "end of stream"
}

# Two groups with one name share the versions: each is read by one of them.
groups_share_a_name() {
    configure 'files: [{match: x.h5, mode: memory, queue: 9, end: 4, deliver: next}]'
    local calls=()
    writes x.h5 1 2 3 4
    mpi 2 "${calls[@]}"
    run 0 "${command[@]}"
    calls=()
    reads x.h5 1 2
    mpi 2 "${calls[@]}"
    run 0 "${command[@]}"
    calls=()
    reads x.h5 3 4
    mpi 3 "${calls[@]}" "! open x.h5"
    run 0 "${command[@]}"
    says "end of stream"
}

# A rank dies with a version open: the next group gets that one again.
dead_rank_has_not_read() {
    configure 'files: [{match: x.h5, mode: memory, queue: 9, deliver: all}]'
    local calls=()
    writes x.h5 1 2
    mpi 2 "${calls[@]}"
    run 0 "${command[@]}"
    mpi 2 "open x.h5" "barrier" "@1 kill" "sleep 1" "close"
    run any "${command[@]}"
    calls=()
    reads x.h5 1 2
    mpi 3 "${calls[@]}"
    run 0 "${command[@]}"
}

# The whole group waits for a place, and one line says so.
group_waits_for_a_place() {
    configure 'files: [{match: x.h5, mode: memory, queue: 1, queue_timeout: 20s}]'
    local calls=()
    writes x.h5 1 2
    mpi 2 "${calls[@]}"
    background writers "${command[@]}"
    until_true 20 grep -q "waiting since" writers.out || fail "the writers say nothing"
    HDF5_VOL_CONNECTOR="market deliver=next" "$H5DO" "open x.h5" "check d 1000" "close" || fail "it can't be read"
    finished writers 0
    [[ $(grep -c "waiting since" out) == 1 ]] || fail "not one line says that the writers wait"
}

# Readers wait for a file whose writers wait themselves, and ask again and again.
group_waits_for_a_waiting_writer() {
    configure 'files: [{match: "s*.h5", mode: memory, queue: 1, queue_timeout: 30s, wait: 30}]'
    local calls=()
    writes s1.h5 1
    writes s2.h5 2
    mpi 2 "${calls[@]}"
    background writers "${command[@]}"
    await s2.h5
    calls=()
    reads s2.h5 2
    mpi 2 "${calls[@]}"
    background readers "${command[@]}"
    until_true 20 grep -q "waiting since" writers.out || fail "the writers say nothing"
    sleep 1
    one "open s1.h5" "check d 1000" "close"
    finished writers 0
    finished readers 0
}

run_cases "$@"
