#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A program with a bound processor, variables, descriptors, ignored signals, low priority and limits starts the daemon; the
# daemon has none of them.
source "$(dirname "$0")/daemon.sh"

field() { awk -v name="$2:" '$1 == name {print $2}' "/proc/$1/status"; }

check() {
    local keeper
    keeper=$(daemon_pid)
    check_process "$keeper" "$keeper" h5market-keeper
    check_process "$(worker_pid)" "$keeper" h5marketd
    stop_daemon || fail "no stop"
    until_true 5 is_dead "$keeper" || fail "it stays"
}

check_process() { # PID SESSION NAME
    local pid=$1
    [[ -d /proc/$pid ]] || fail "no daemon"
    expect "the folder" "$(readlink "/proc/$pid/cwd")" /
    [[ $(ps -o sid= -p "$pid") -eq $2 ]] || fail "it isn't the head of a session of its own"
    expect "the terminal" "$(ps -o tty= -p "$pid")" "?"
    [[ $(ps -o ppid= -p "$pid") -ne $$ ]] || fail "it is its starter's child"
    expect "the processors" "$(field "$pid" Cpus_allowed)" "$all_cpus"
    expect "the mask of files" "$(field "$pid" Umask)" 0077
    expect "ignored signals" "$((0x$(field "$pid" SigIgn) & 0x4200))" 0 # USR1 and TERM
    expect "blocked signals" "$(field "$pid" SigBlk)" 0000000000000000
    tr '\0' '\n' <"/proc/$pid/environ" | grep -q '^SECRET=' && fail "it has its starter's variables"
    [[ $(awk '/Max open files/ {print $4 == $5}' "/proc/$pid/limits") == 1 ]] || fail "its soft limit is below the hard one"
    for fd in "/proc/$pid/fd"/*; do
        case $(readlink "$fd") in
        "$PWD"/*) fail "it has the descriptor $fd of $(readlink "$fd")" ;;
        esac
    done
    for fd in 0 1; do
        expect "descriptor $fd" "$(readlink "/proc/$pid/fd/$fd")" /dev/null
    done
    expect "the name" "$(cat "/proc/$pid/comm")" "$3"
}

all_cpus=$(field self Cpus_allowed)
one_cpu=$(awk '$1 == "Cpus_allowed_list:" {split($2, part, /[-,]/); print part[1]}' /proc/self/status)
start_from_here() {
    (
        trap '' USR1
        umask 000
        ulimit -S -n 256
        exec 17>"$PWD/open.17" 9>"$PWD/open.9"
        SECRET=1 taskset -c "$one_cpu" nice -n 5 "$@"
    )
}

start_from_here "$probe" id >/dev/null || fail "no start by a client"
check
start_from_here "$daemon" -d "$H5MARKET_DIR" >/dev/null || fail "no start by hand"
check
