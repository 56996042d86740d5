#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# HDF5 programs that die at each fault point (core/base/fault.h) inside their calls: between the open
# and the first bytes, between bytes and commit, between a commit and its answer, in a read, in a
# collective open. A first run without a fault tells the points.
# usage: points.sh CASE...
# shellcheck disable=SC2317 # cases are called by name
# shellcheck source=tests/vol/h5do.sh
# shellcheck disable=SC2034
mode=market
. "$(dirname "$0")/../vol/h5do.sh"
ulimit -c 0

# Two datasets, a large and a small one: bytes of their own, and from what was granted before.
write_calls=()
set_write_calls() { # FILE VALUE
    write_calls=("create $1" "make d 1000000" "putall d $2" "make e 100" "putall e $2" "close")
}
write() {
    set_write_calls "$1" "$2"
    one "${write_calls[@]}"
}
holds() { "$H5DO" "open $1" "check d $2" "check e $2" "close" >out 2>&1; } # FILE VALUE
must_hold() { holds "$1" "$2" || fail "$1 doesn't hold $2"; }
used() { market_value memory.used_bytes; }
used_is() { (($(used) == $1)); }
memory_is_back() { until_true 5 used_is "$1" || fail "$2: $(used) bytes are used, not $1"; }

# trace COMMAND...: the points that it passes, in order, as NAME:COUNT, in the array `points`.
trace() {
    rm -f trace
    H5MARKET_FAULT_TRACE=$PWD/trace run 0 "$@"
    mapfile -t points < <(tr ' ' : <trace)
    ((${#points[@]} >= 3)) || fail "only ${#points[@]} fault points were passed: ${points[*]}"
}
# dies POINT:COUNT COMMAND...
dies() {
    local name=${1%:*} count=${1##*:}
    shift
    # By way of a shell, which takes the word of the kill into the output.
    H5MARKET_FAULT=$name:kill:$count run 137 sh -c '"$@"; exit $?' sh "$@"
}
passed() { # NAME: a point is in the trace
    [[ " ${points[*]} " == *" $1:"* ]] || fail "the point $1 isn't passed: ${points[*]}"
}

# Before the commit has left, the former version stays; from its answer on the new one is there. In
# between it is one of both, and whole. Memory comes back, and the next writer isn't hindered.
killed_writer_of_a_new_version() {
    write x.h5 5
    write y.h5 1
    local before point sent=0 answered=0
    set_write_calls t.h5 6
    trace "$H5DO" "${write_calls[@]}"
    run 0 h5market rm t.h5
    passed client.open-sent
    passed vol.write-copied
    passed client.added
    passed client.commit-image
    before=$(used)
    set_write_calls x.h5 6
    for point in "${points[@]}"; do
        [[ $point == client.commit-sent:* ]] && sent=1
        [[ $point == client.commit-answered:* ]] && answered=1
        dies "$point" "$H5DO" "${write_calls[@]}"
        if ((answered)); then
            must_hold x.h5 6
        elif ((!sent)); then
            must_hold x.h5 5
        elif ! holds x.h5 5; then
            must_hold x.h5 6
        fi
        until_true 5 "$H5DO" "create x.h5" "make d 1000000" "putall d 5" "make e 100" "putall e 5" "close" ||
            fail "no new writer after $point"
        must_hold x.h5 5
        memory_is_back "$before" "$point"
    done
    ((answered)) || fail "the commit isn't in the trace"
}

# The same where nothing stood before: then there is nothing, or the version.
killed_writer_of_a_first_version() {
    write y.h5 1
    local before point answered=0
    set_write_calls t.h5 6
    trace "$H5DO" "${write_calls[@]}"
    run 0 h5market rm t.h5
    before=$(used)
    set_write_calls x.h5 6
    for point in "${points[@]}"; do
        [[ $point == client.commit-answered:* ]] && answered=1
        dies "$point" "$H5DO" "${write_calls[@]}"
        if ((answered)); then
            must_hold x.h5 6
        elif ! "$H5DO" "! open x.h5" >out 2>&1; then
            [[ $point == client.commit-sent:* ]] || fail "x.h5 can be opened after $point"
            must_hold x.h5 6
        fi
        h5market rm x.h5 >out 2>&1 || rm -f x.h5
        memory_is_back "$before" "$point"
    done
}

# What it had open goes with it, its version too if that was replaced meanwhile.
killed_reader() {
    write y.h5 1
    write x.h5 5
    local before point
    trace "$H5DO" "open x.h5" "check d 5" "check e 5" "close"
    passed vol.read-mapped
    passed client.close-queued
    before=$(used)
    for point in "${points[@]}"; do
        dies "$point" "$H5DO" "open x.h5" "check d 5" "check e 5" "close"
        write x.h5 5
        must_hold x.h5 5
        memory_is_back "$before" "$point"
    done
}

# Memory that can't be had, at each place where it is asked for: the former version stays.
refused_memory() {
    write x.h5 5
    write y.h5 1
    local before point tried=0
    set_write_calls t.h5 6
    trace "$H5DO" "${write_calls[@]}"
    run 0 h5market rm t.h5
    before=$(used)
    set_write_calls x.h5 6
    for point in "${points[@]}"; do
        [[ $point == client.reserve:* ]] || continue
        ((tried++))
        H5MARKET_FAULT=client.reserve:error=NO_SPACE:${point##*:} run 1 "$H5DO" "${write_calls[@]}"
        says "a test has this fail"
        must_hold x.h5 5
        memory_is_back "$before" "$point"
    done
    ((tried >= 3)) || fail "only $tried requests for memory"
}

# ---- groups

# MPI ends the others of a job whose process dies.
doomed_job() { # POINT:COUNT CALL...: rank 1 dies
    local name=${1%:*} count=${1##*:}
    shift
    rm -f "died.$name"
    run any "$MKT_MPIEXEC" -n 1 "$H5DO_MPI" "$@" : \
        -n 1 env "H5MARKET_FAULT=$name:kill:$count" "H5MARKET_FAULT_ONCE=$PWD/died" "$H5DO_MPI" "$@"
    [[ -e died.$name ]] || fail "rank 1 didn't die at $name"
}
trace_rank() { # CALL...
    rm -f trace
    run 0 "$MKT_MPIEXEC" -n 1 "$H5DO_MPI" "$@" : -n 1 env "H5MARKET_FAULT_TRACE=$PWD/trace" "$H5DO_MPI" "$@"
    mapfile -t points < <(tr ' ' : <trace)
    passed vol.group-agreed
    passed client.open-sent
}

killed_rank_of_a_writer() {
    job 2 "access world" "create x.h5" "make d 200000" "put d 5" "close"
    one "create y.h5" "make d 100" "putall d 1" "close"
    local before point answered=0
    trace_rank "access world" "create t.h5" "make d 200000" "put d 6" "close"
    run 0 h5market rm t.h5
    before=$(used)
    for point in "${points[@]}"; do
        [[ $point == client.commit-sent:* ]] && answered=1
        doomed_job "$point" "access world" "create x.h5" "make d 200000" "put d 6" "close"
        if ((!answered)); then
            one "open x.h5" "check d 5" "close"
        elif ! "$H5DO" "open x.h5" "check d 5" "close" >out 2>&1; then
            one "open x.h5" "check d 6" "close"
        fi
        job 2 "access world" "create x.h5" "make d 200000" "put d 5" "close"
        memory_is_back "$before" "$point"
    done
}

killed_rank_of_a_reader() {
    job 2 "access world" "create x.h5" "make d 200000" "put d 5" "close"
    one "create y.h5" "make d 100" "putall d 1" "close"
    local before point
    trace_rank "access world" "open x.h5" "checkpart d 5" "close"
    before=$(used)
    for point in "${points[@]}"; do
        doomed_job "$point" "access world" "open x.h5" "checkpart d 5" "close"
        job 2 "access world" "create x.h5" "make d 200000" "put d 5" "close"
        memory_is_back "$before" "$point"
    done
}

# The others of a collective open get an error, in time, where MPI lets them go on.
rank_dies_in_a_collective_open() {
    local options=()
    "$MKT_MPIEXEC" --version 2>&1 | grep -q HYDRA && options=(-disable-auto-cleanup) # MPICH
    printf '%s\n' "join_timeout: 3s" "files:" '  - {match: "**", mode: memory}' >h5market.yaml
    h5market stop --discard >/dev/null 2>&1
    export H5MARKET_CONFIG=$PWD/h5market.yaml
    job 2 "access world" "create x.h5" "make d 1000" "put d 5" "close"
    local point
    for point in vol.group-agreed client.open-prepared client.open-sent; do
        run any env OMPI_MCA_orte_enable_recovery=1 OMPI_MCA_orte_abort_on_non_zero_status=0 \
            "$MKT_MPIEXEC" "${options[@]}" -n 1 "$H5DO_MPI" "access world" "create x.h5" "make d 1000" "put d 6" "! close" \
            "say survived" "exit" : \
            -n 1 env "H5MARKET_FAULT=$point:kill" "$H5DO_MPI" "access world" "create x.h5" "close"
        if grep -qE "can't create x.h5|^survived" out; then
            says "rank 1"
        else
            echo "$FUNCNAME_OF_CASE: this launcher ends the other ranks"
        fi
        one "open x.h5" "check d 5" "close"
        job 2 "access world" "create x.h5" "make d 1000" "put d 5" "close"
    done
}

run_cases "$@"
