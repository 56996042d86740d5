#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Runs a command in an empty folder and a market of its own (H5MARKET_DIR), then stops the daemon that
# the command left. Exit status: the command's, or 1 if a daemon had to be killed.
#
# usage: run_in_market.sh [-t seconds] [--] command [argument...]

set -u

limit_s=50
if [[ ${1-} == -t ]]; then
    limit_s=$2
    shift 2
fi
[[ ${1-} == -- ]] && shift

# Short, since a socket's path holds 107 bytes.
top=$(mktemp -d /tmp/mkt.XXXXXX) || exit 1
export H5MARKET_DIR=$top/market
mkdir -m 0700 "$H5MARKET_DIR" "$top/work"
cd "$top/work" || exit 1

# Sockets that somebody still listens on in our market.
listening() {
    grep -qF -- "$H5MARKET_DIR/" /proc/net/unix
}

# Processes of this market, found by the files they hold in it.
daemon_pids() {
    local fd
    for fd in /proc/[0-9]*/fd/*; do
        [[ $(readlink "$fd" 2>/dev/null) == "$H5MARKET_DIR"/* ]] && echo "$fd" | cut -d/ -f3
    done | sort -u
    cat "$H5MARKET_DIR"/*.pid 2>/dev/null
}

stop_daemon() {
    local tries=50
    listening || return 0
    command -v h5market >/dev/null && timeout 10 h5market stop >/dev/null 2>&1
    while listening && ((tries-- > 0)); do
        sleep 0.1
    done
    listening || return 0
    local pids
    mapfile -t pids < <(daemon_pids | sort -u)
    echo "run_in_market.sh: a daemon was left and did not stop; killing ${pids[*]-nobody found}" >&2
    ((${#pids[@]})) && kill -KILL "${pids[@]}" 2>/dev/null
    return 1
}

timeout -k 5 "$limit_s" "$@"
status=$?
((status == 124)) && echo "run_in_market.sh: no end after $limit_s s: $*" >&2

if ! stop_daemon && ((status == 0)); then
    status=1
fi
if ((status != 0 && status != 77)); then
    for log in "$H5MARKET_DIR"/*.log; do
        [[ -s $log ]] && echo "--- $log" && tail -n 30 "$log"
    done >&2
fi
rm -rf "$top"
exit "$status"
