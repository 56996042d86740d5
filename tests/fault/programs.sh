#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# HDF5 programs when a process or the daemon dies, memory is full or the configuration is wrong.
# usage: programs.sh CASE...
# shellcheck disable=SC2317 # cases are called by name
# shellcheck source=tests/vol/h5do.sh
# shellcheck disable=SC2034
mode=market
. "$(dirname "$0")/../vol/h5do.sh"
ulimit -c 0

write() { one "create $1" "make d 100" "putall d $2" "close"; } # FILE VALUE
reads() { one "open $1" "check d $2"; }                          # FILE VALUE
used_is_at_most() { (($(market_value memory.used_bytes) <= $1)); }
worker_pid() { cat "$H5MARKET_DIR/worker.pid"; }
# The keeper first, who would start another worker.
kill_daemon() { kill -KILL "$(cat "$H5MARKET_DIR/daemon.pid")" "$(worker_pid)"; }
# Resources are the daemon's: a new one for each configuration.
configure() { # LINE...
    h5market stop --discard >/dev/null
    [[ " $* " == *" files: "* ]] || set -- "$@" "files:"
    printf '%s\n' "$@" '  - {match: "**", mode: memory}' >h5market.yaml
    export H5MARKET_CONFIG=$PWD/h5market.yaml
}
# The program itself, not timeout(1) around it.
program_of() {
    until_true 20 pgrep -P "${pids[$1]}" && pgrep -P "${pids[$1]}" | head -n 1
}
# took LABEL AT_LEAST AT_MOST: seconds that `say LABEL` has told.
took() {
    local seconds
    seconds=$(sed -n "s/^$1 //p" out | tail -n 1)
    awk -v s="${seconds:-0}" -v a="$2" -v b="$3" 'BEGIN { exit !(s >= a && s <= b) }' ||
        fail "$1 took ${seconds:-no time} s, not $2 to $3"
}

# ---- a process dies

# A job one rank of which dies; the launcher is told to let the others go on. Each rank writes to a file of its own,
# since a launcher may lose what others have written when one dies. (MPICH's ends the last rank once two have gone.)
crippled_job() {
    local ranks=$1 options=()
    shift
    "$MKT_MPIEXEC" --version 2>&1 | grep -q HYDRA && options=(-disable-auto-cleanup) # MPICH
    # shellcheck disable=SC2016 # expanded by each rank
    run any env OMPI_MCA_orte_enable_recovery=1 OMPI_MCA_orte_abort_on_non_zero_status=0 \
        "$MKT_MPIEXEC" "${options[@]}" -n "$ranks" bash -c \
        'exec "$@" >"rank.${OMPI_COMM_WORLD_RANK-${PMI_RANK-}}.out" 2>&1' bash "$H5DO_MPI" "$@"
    cat rank.*.out >>out
    rm rank.*.out
    grep -q "^closed" out && return
    echo "$FUNCNAME_OF_CASE: this launcher ends the other ranks"
    one "open x.h5" "check d 5" # the former version, all the same
    return 1
}

killed_rank() {
    write y.h5 1
    job 2 "access world" "create x.h5" "make d 1000" "put d 5" "close"
    local before
    before=$(market_value memory.used_bytes)
    crippled_job 2 "access world" "create x.h5" "make d 2000000" "put d 6" "barrier" "@1 kill" "say closing" \
        "! close" "say closed" "exit" || return
    says "x.h5" "was not published" "former version stays" "rank 1"
    took closed 0 5
    reads x.h5 5
    until_true 3 used_is_at_most "$before" || fail "memory isn't back"
    job 2 "access world" "create x.h5" "make d 1000" "put d 7" "close"
    reads x.h5 7
}

# One rank waits in its close for the other, which dies, or which never comes.
killed_rank_others_wait() {
    job 2 "access world" "create x.h5" "make d 1000" "put d 5" "close"
    crippled_job 3 "access world" "create x.h5" "make d 2000" "put d 6" "barrier" "@1 sleep 1" "@1 kill" \
        "@0 say closing" "! close" "@0 say closed" "mark {r}.closed" "@0 await 2.closed" "@2 await 0.closed" "exit" || return
    says "rank 1"
    [[ $(grep -c "was not published, its" out) == 2 ]] || fail "not both other ranks say that it was not published"
    took closed 0.8 4
    reads x.h5 5
}

rank_never_closes() {
    configure "commit_timeout: 2s"
    job 2 "access world" "create x.h5" "make d 1000" "put d 5" "close"
    job 2 "access world" "create x.h5" "make d 2000" "put d 6" "barrier" "@1 sleep 5" "@0 say closing" "! close" \
        "@0 say closed"
    took closed 1.8 4
    says "rank 1"
    reads x.h5 5
}

killed_at_random() {
    write y.h5 1
    local before round
    before=$(market_value memory.used_bytes)
    one "create x.h5" "make d 3000000" "putall d 0" "close"
    for round in {1..12}; do
        background writer "$H5DO" "openrw x.h5" "putall d $round" "close" "openrw x.h5" "putall d -$round" "close" \
            "openrw x.h5" "putall d $round" "close" "sleep 50"
        local pid
        pid=$(program_of writer)
        sleep "0.0$((round * 7 % 10))"
        kill -KILL "$pid"
        finished writer any
        run 0 "$H5DO" "open x.h5" "keep d" "constant"
    done 2>/dev/null
    rm x.h5
    until_true 4 used_is_at_most "$before" || fail "memory isn't back"
}

killed_writer() {
    write x.h5 5
    local before
    before=$(market_value memory.used_bytes)
    background writer "$H5DO" "create x.h5" "make d 4000000" "putall d 6" "mark written" "sleep 50"
    await written
    reads x.h5 5 # the former one, meanwhile
    kill -KILL "$(program_of writer)"
    finished writer 137
    until_true 3 used_is_at_most "$before" || fail "memory isn't back"
    reads x.h5 5
    write x.h5 7
    reads x.h5 7
}

killed_writer_of_a_first_version() {
    background writer "$H5DO" "create x.h5" "make d 100" "putall d 6" "mark written" "sleep 50"
    await written
    background reader "$H5DO" "mark up" "say t" "! open x.h5" "say ended"
    await up
    sleep 0.7
    kill -KILL "$(program_of writer)"
    finished writer 137
    finished reader 0
    says "x.h5" "h5do (pid"
    took ended 0.3 4
    one "! open x.h5"
    says "x.h5"
    write x.h5 7
    reads x.h5 7
}

# A writer that dies and one that follows: who waits for the file gets the second one's.
successor_of_a_killed_writer() {
    background writer "$H5DO" "create x.h5" "make d 100" "putall d 6" "mark written" "sleep 50"
    await written
    HDF5_VOL_CONNECTOR="market wait=20" background reader "$H5DO" "open x.h5" "check d 7"
    sleep 0.5
    kill -KILL "$(program_of writer)"
    finished writer 137
    write x.h5 7
    finished reader 0
}

killed_reader() {
    one "create x.h5" "make d 1000000" "putall d 5" "close"
    write y.h5 1
    background doomed "$H5DO" "open x.h5" "check d 5" "mark open" "sleep 50"
    background other "$H5DO" "open x.h5" "mark open2" "await go" "check d 5" "close"
    await open
    await open2
    write x.h5 6 # the doomed reader holds the only old version
    kill -KILL "$(program_of doomed)"
    finished doomed 137
    : >go
    finished other 0
    reads x.h5 6
    until_true 3 used_is_at_most 1000000 || fail "the old version is still there"
}

# ---- the daemon dies

killed_daemon_readers_wait() {
    write y.h5 1
    HDF5_VOL_CONNECTOR="market wait=50" background waiter "$H5DO" "say t" "! open x.h5" "say ended"
    background holder "$H5DO" "open y.h5" "check d 1" "mark open" "await go" "check d 1" "close"
    await open
    sleep 0.5
    kill_daemon
    finished waiter 0
    took ended 0.4 4
    says "H5Market-DIAG" "x.h5" "h5marketd.log"
    : >go # what is mapped stays readable
    finished holder 0
}

killed_daemon_writer_writes() {
    write x.h5 1
    background writer "$H5DO" "create x.h5" "make d 100" "putall d 2" "mark written" "await go" "make e 4000000" \
        "say t" "! putall e 3" "! close" "say ended"
    await written
    kill_daemon
    : >go
    finished writer 0
    took ended 0 5
    says "H5Market-DIAG" "x.h5" "h5marketd.log" "was not published"
    says_not "data transform"
    (unset H5MARKET_CONFIG && one "! open x.h5") # which doesn't start one
    says "x.h5" "left-over stub" "its market has ended"
    write z.h5 5 # starts a daemon
    reads z.h5 5
    one "! open x.h5"
    says "x.h5" "left-over stub" "remove the file"
    one "! openrw x.h5"
    says "left-over stub"
    write x.h5 6
    reads x.h5 6
}

killed_daemon_group_writes() {
    background job "$MKT_MPIEXEC" -n 3 "$H5DO_MPI" "access world" "create x.h5" "make d 3000" "put d 2" "@0 mark written" \
        "await go" "say t" "! close" "say ended"
    await written
    kill_daemon
    : >go
    finished job 0
    took ended 0 5
    [[ $(grep -c "was not published" out) -ge 3 ]] || fail "not all ranks say that it was not published"
}

killed_daemon_group_closes() {
    background job "$MKT_MPIEXEC" -n 2 "$H5DO_MPI" "access world" "create x.h5" "make d 3000" "put d 2" "@0 mark written" \
        "@1 await go" "say t" "! close" "say ended"
    await written
    sleep 0.5
    kill_daemon
    sleep 0.5
    : >go
    finished job 0
    took ended 0 5
    [[ $(grep -c "was not published, its" out) == 2 ]] || fail "not all ranks say that it was not published"
}

killed_daemon_reader_group_waits() {
    write y.h5 1
    HDF5_VOL_CONNECTOR="market wait=50" background job "$MKT_MPIEXEC" -n 2 "$H5DO_MPI" "access world" "mark {r}.up" \
        "say t" "! open x.h5" "say ended"
    await 0.up
    await 1.up
    sleep 1
    kill_daemon
    finished job 0
    took ended 0.4 5
    [[ $(grep -c "h5marketd.log" out) -ge 2 ]] || fail "not all ranks name the daemon's log"
}

# A program that outlives a daemon goes on with the next one.
killed_daemon_between_files() {
    background writer "$H5DO" "create x.h5" "make d 100" "putall d 1" "close" "mark written" "await go" "create y.h5" \
        "make d 100" "putall d 2" "close" "open y.h5" "check d 2"
    await written
    kill_daemon
    : >go
    finished writer 0
    reads y.h5 2
}

stopped_daemon() { # silence, not death
    configure "full_timeout: 2s"
    write x.h5 1
    background reader "$H5DO" "open x.h5" "check d 1" "mark open" "await go" "check d 1" "close"
    await open
    kill -STOP "$(worker_pid)"
    : >go
    finished reader 0 # needs no daemon
    kill -CONT "$(worker_pid)"
}

# ---- a worker of the daemon dies, and another goes on

restarts() { market_value restarts; }
# Kills the worker, and waits until another one is there.
kill_worker() {
    local pid
    pid=$(worker_pid)
    kill -KILL "$pid"
    is_another() { [[ $(worker_pid) != "$pid" ]]; }
    until_true 20 is_another || fail "no other worker"
}

worker_dies_idle() { # everything is there, byte for byte
    write x.h5 7
    one "create g.h5" "make d 5000000" "putall d 3" "close" # 38 MiB
    local before
    before=$(market_value memory.used_bytes)
    kill_worker
    [[ $(restarts) == 1 ]] || fail "nobody says that a worker was restarted"
    reads x.h5 7
    one "open g.h5" "check d 3"
    [[ $(market_value memory.used_bytes) == "$before" ]] || fail "memory is used that was free"
    run 0 h5market stat
    says "1 restart" "signal 9"
    run any h5market doctor
    says "worker died and was replaced 1 time"
    run 0 h5market ls
    says x.h5 g.h5
    # Memory is handed out as before, and doesn't run into what is there.
    one "create y.h5" "make d 5000000" "putall d 9" "close"
    one "open g.h5" "check d 3"
    one "openrw x.h5" "putall d 8" "close"
    reads x.h5 8
    reads y.h5 9
    run 0 h5market rm g.h5
    rm x.h5
    is_gone() { ! h5market ls | grep -q x.h5; }
    until_true 5 is_gone || fail "the new worker doesn't watch the entries"
}

worker_dies_writer_writes() { # the file comes out whole and right
    background writer "$H5DO" "create x.h5" "make d 1000" "putall d 1" "make e 3000000" "mark half" "await go" "putall e 2" \
        "put d 4" "close" "open x.h5" "check d 4" "check e 2"
    await half
    kill_worker
    : >go
    finished writer 0
    one "open x.h5" "check d 4" "check e 2"
}

worker_dies_reader_reads() { # what it opened stays, and its close is heard
    write x.h5 1
    background reader "$H5DO" "open x.h5" "mark open" "await go" "check d 1" "close" "open x.h5" "check d 2"
    await open
    kill_worker
    write x.h5 2
    : >go
    finished reader 0
    [[ $(market_value versions) == 1 ]] || fail "the version that was read stays for ever"
}

worker_dies_reader_waits() {
    write y.h5 1
    HDF5_VOL_CONNECTOR="market wait=50" background reader "$H5DO" "mark up" "open x.h5" "check d 3" "say ended"
    await up
    sleep 1
    kill_worker
    kill_worker
    write x.h5 3
    finished reader 0
}

worker_dies_memory_waits() {
    configure "memory: 64MiB" "full_timeout: 30s"
    one "create a.h5" "make d 6000000" "putall d 1" "close"
    background writer "$H5DO" "create b.h5" "make d 4000000" "mark open" "putall d 2" "close"
    await open
    sleep 0.5
    kill_worker
    sleep 0.5
    run 0 h5market rm a.h5
    finished writer 0
    one "open b.h5" "check d 2"
}

# What a dead program held comes back, though it died while there was no worker, too.
worker_dies_and_a_program() {
    write x.h5 1
    local before
    before=$(market_value memory.used_bytes)
    background writer "$H5DO" "create x.h5" "make d 3000000" "putall d 2" "mark written" "await never"
    await written
    kill -KILL "$(worker_pid)" "$(program_of writer)"
    finished writer any
    reads x.h5 1
    until_true 5 used_is_at_most "$before" || fail "its memory isn't back"
    background writer "$H5DO" "create x.h5" "make d 3000000" "putall d 2" "mark again" "await never"
    await again
    kill_worker
    kill -KILL "$(program_of writer)"
    finished writer any
    until_true 5 used_is_at_most "$before" || fail "its memory isn't back"
    reads x.h5 1
}

worker_dies_group_closes() {
    background job "$MKT_MPIEXEC" -n 3 "$H5DO_MPI" "access world" "create x.h5" "make d 300000" "put d 2" "@0 mark written" \
        "@2 await go" "close" "open x.h5" "checkpart d 2"
    await written
    sleep 0.5
    kill_worker
    sleep 0.5
    : >go
    finished job 0
    one "open x.h5" "check d 2"
}

worker_dies_group_opens() {
    write y.h5 1
    background job "$MKT_MPIEXEC" -n 3 "$H5DO_MPI" "access world" "@0 mark up" "@1 await go" "create x.h5" "make d 300000" \
        "put d 2" "close"
    await up
    sleep 0.5
    kill_worker
    : >go
    finished job 0
    one "open x.h5" "check d 2"
}

# ---- the keeper dies

keeper_dies() { # nobody notices, but it is said
    write x.h5 1
    kill -KILL "$(cat "$H5MARKET_DIR/daemon.pid")"
    says_unprotected() { h5market stat | grep -q "no keeper"; }
    until_true 5 says_unprotected || fail "nobody says that the keeper is gone"
    grep -q "keeper is gone" "$H5MARKET_DIR/h5marketd.log" || fail "the log doesn't say that the keeper is gone"
    reads x.h5 1
    write y.h5 2
    [[ $(cat "$H5MARKET_DIR/daemon.pid") == "$(worker_pid)" ]] || fail "the pid file names a dead process"
    kill -TERM "$(worker_pid)"
    is_ended() { [[ ! -e $H5MARKET_DIR/daemon.pid ]]; }
    until_true 5 is_ended || fail "it doesn't end"
}

keeper_gives_up() { # a worker that dies again and again
    write x.h5 1
    HDF5_VOL_CONNECTOR="market wait=50" background reader "$H5DO" "! open z.h5" "say ended"
    sleep 0.5
    local i pid
    for ((i = 0; i < 8; i++)); do
        kill_worker
    done
    kill -KILL "$(worker_pid)"
    finished reader 0
    says "h5marketd.log"
    grep -q "died too often" "$H5MARKET_DIR/h5marketd.log" || fail "the log doesn't say why it gave up"
    [[ ! -e $H5MARKET_DIR/socket ]] || fail "the socket stays"
    write x.h5 2
    reads x.h5 2
}

# ---- full memory

full_memory() {
    configure "memory: 64MiB" "full_timeout: 2s"
    one "create a.h5" "make d 6000000" "putall d 1" "close" # 46 MiB
    one "create x.h5" "make d 100" "putall d 7" "close"
    local before
    before=$(market_value memory.used_bytes)
    one "create x.h5" "make d 4000000" "say t" "! putall d 1" "say ended" "! close"
    took ended 1.8 4
    says "x.h5" "the market is full: waited 2.0 s" "limit 64.0 MiB (\`memory\` in h5market.yaml)" "h5market rm"
    reads x.h5 7
    reads a.h5 1
    until_true 3 used_is_at_most "$before" || fail "memory isn't back"
    # Memory that comes free meanwhile is used.
    background writer "$H5DO" "create b.h5" "make d 4000000" "mark open" "putall d 2" "close"
    await open
    sleep 0.5
    run 0 h5market rm a.h5
    finished writer 0
    reads b.h5 2
}

full_memory_in_a_group() {
    configure "memory: 64MiB" "full_timeout: 2s"
    one "create a.h5" "make d 6000000" "putall d 1" "close"
    job 2 "access world" "create x.h5" "make d 100" "make e 8000000" "put d 1" "@0 ! put e 1" "@1 sleep 0" "! close"
    [[ $(grep -c "was not published" out) -ge 2 ]] || fail "not all ranks' close failed"
    says "full"
    one "! open x.h5"
    reads a.h5 1
}

# ---- waiting

waiting_costs_nothing() {
    local ticks
    write y.h5 1
    HDF5_VOL_CONNECTOR="market wait=30" background reader "$H5DO" "open x.h5"
    sleep 1
    local pid before after
    pid=$(program_of reader)
    before=$(awk '{ print $14 + $15 }' "/proc/$pid/stat")
    sleep 4
    after=$(awk '{ print $14 + $15 }' "/proc/$pid/stat")
    ticks=$((after - before))
    ((ticks <= 4 * $(getconf CLK_TCK) / 100 + 1)) || fail "waiting took $ticks ticks in 4 s"
    kill -INT "$pid"
    local tries=0
    while kill -0 "$pid" 2>/dev/null && ((tries++ < 40)); do sleep 0.05; done
    ! kill -0 "$pid" 2>/dev/null || fail "Ctrl-C doesn't end a waiting reader"
    finished reader 130
}

# A handler that any thread may run: the wait ends, and the handler gets the signal.
interrupt_of_a_program_with_threads() {
    write y.h5 1
    HDF5_VOL_CONNECTOR="market wait=30" background reader "$H5DO" "handle" "say t" "! open x.h5" "say ended"
    sleep 1
    kill -INT "$(program_of reader)"
    finished reader 0
    says "interrupted"
    took ended 0.5 10
}

waiting_group_costs_nothing() {
    write y.h5 1
    HDF5_VOL_CONNECTOR="market wait=30" background job "$MKT_MPIEXEC" -n 2 "$H5DO_MPI" "access world" "mark {r}.up" \
        "open x.h5" "checkpart d 5" "close"
    await 0.up
    await 1.up
    sleep 1
    local before after
    ticks_of_ranks() { # mpiexec's children
        local pid
        for pid in $(pgrep -P "$(program_of job)"); do awk '{ print $14 + $15 }' "/proc/$pid/stat"; done |
            awk '{ s += $1 } END { print s }'
    }
    before=$(ticks_of_ranks)
    sleep 3
    after=$(ticks_of_ranks)
    ((after - before <= 2 * 3 * $(getconf CLK_TCK) / 100 + 2)) || fail "waiting took $((after - before)) ticks in 3 s"
    one "create x.h5" "make d 100" "putall d 5" "close"
    finished job 0
}

# ---- configuration

wrong_configuration() {
    configure "memory: 64MiB" "files:" '  - {match: "x*", kep: 3}'
    one "! create x.h5" "! create y.h5" "! open x.h5"
    says "h5market.yaml:3" "kep" "keep"
    [[ ! -e x.h5 && ! -e y.h5 ]] || fail "the file went to disk instead"
    export H5MARKET_CONFIG=$PWD/none.yaml
    one "! create x.h5"
    says "none.yaml"
    [[ ! -e x.h5 ]] || fail "the file went to disk instead"
    export H5MARKET_CONFIG=$MKT_MEMORY_CONFIG
    HDF5_VOL_CONNECTOR="market config=$PWD/h5market.yaml" run 0 "$H5DO" "! create x.h5"
    says "h5market.yaml:3"
    HDF5_VOL_CONNECTOR="market wiat=3" run 0 "$H5DO" "! create x.h5" "! create y.h5" "! open x.h5"
    says "wiat"
    HDF5_VOL_CONNECTOR="market wait=abc" run 0 "$H5DO" "! create x.h5" "! create x.h5"
    says "wait"
    [[ ! -e x.h5 && ! -e y.h5 ]] || fail "the file went to disk instead"
}

wrong_folder() {
    local good=$H5MARKET_DIR
    mkdir open && chmod 777 open
    H5MARKET_DIR=$PWD/open run 0 "$H5DO" "! create x.h5" "! open x.h5"
    says "$PWD/open" "open to others"
    : >file
    H5MARKET_DIR=$PWD/file run 0 "$H5DO" "! create x.h5"
    says "$PWD/file"
    H5MARKET_DIR=/proc/none run 0 "$H5DO" "! create x.h5"
    says "/proc/none" "H5MARKET_DIR"
    H5MARKET_DIR=$PWD/no/folder run 0 "$H5DO" "! create x.h5"
    says "$PWD/no/folder"
    [[ ! -e x.h5 ]] || fail "the file went to disk instead"
    H5MARKET_DIR=$good
}

# job_apart RANKS RANK SETTING CALL...: an MPI job of which one rank runs under `env SETTING`. (Open MPI 5.0.7's
# mpiexec crashes on a job of two programs.)
job_apart() {
    local ranks=$1 rank=$2 setting=$3
    shift 3
    # shellcheck disable=SC2016 # expanded by each rank
    run 0 "$MKT_MPIEXEC" -n "$ranks" bash -c \
        'rank=$1 setting=$2; shift 2
         [[ ${OMPI_COMM_WORLD_RANK-${PMI_RANK-}} == "$rank" ]] || exec "$@"
         exec env "$setting" "$@"' bash "$rank" "$setting" "$H5DO_MPI" "$@"
}

# Ranks that don't see the same market.
ranks_apart() {
    write y.h5 1
    mkdir -m 700 other
    local calls=("access world" "create x.h5" "make d 100" "put d 5" "close" "open x.h5" "check d 5")
    job_apart 2 1 "H5MARKET_DIR=$PWD/other" "${calls[@]}"
    says "not all at one market"
    ! is_stub x.h5 || fail "x.h5 is a stub"
    H5MARKET_DIR=$PWD/other run 0 h5market stop --discard
    reads x.h5 5
    configure "files:" '  - {match: "x*", kep: 3}'
    calls=("access world" "! create z.h5")
    job_apart 3 0 "--unset=H5MARKET_CONFIG" "${calls[@]}"
    says "h5market.yaml:2" "another rank"
    [[ ! -e z.h5 ]] || fail "the file went to disk instead"
}

rule_file() { # what a rule sends to disk is an ordinary file
    configure "files:" '  - {match: "x*", mode: file}'
    write x.h5 5
    ! is_stub x.h5 || fail "x.h5 is a stub"
    run 0 env -u HDF5_VOL_CONNECTOR "$H5DO" "open x.h5" "check d 5"
    reads x.h5 5
    write y.h5 5
    is_stub y.h5 || fail "y.h5 is on disk"
    # And takes it out of memory.
    export H5MARKET_CONFIG=$MKT_MEMORY_CONFIG
    write xx.h5 1
    configure "files:" '  - {match: "x*", mode: file}'
    write xx.h5 2
    ! is_stub xx.h5 || fail "xx.h5 is a stub"
    export H5MARKET_CONFIG=$MKT_MEMORY_CONFIG
    reads xx.h5 2
}

run_cases "$@"
