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

# Unless a test says otherwise, what it writes is in memory only: no file appears behind its back.
export MKT_MEMORY_CONFIG=$top/memory.yaml
printf 'files:\n  - {match: "**", mode: memory}\n' >"$MKT_MEMORY_CONFIG"
export H5MARKET_CONFIG=${H5MARKET_CONFIG:-$MKT_MEMORY_CONFIG}

# Processes that hold a file of this market: its daemon has its log and its lock open.
holders() {
    find /proc/[0-9]*/fd -maxdepth 1 -lname "$H5MARKET_DIR/*" 2>/dev/null | cut -d/ -f3 | sort -u
}

daemon_runs() {
    grep -qF -- "$H5MARKET_DIR/" /proc/net/unix || [[ -n $(holders) ]]
}

stop_daemon() {
    local tries=50 pids
    daemon_runs || return 0
    command -v h5market >/dev/null && timeout 10 h5market stop --discard >/dev/null 2>&1
    while daemon_runs && ((tries-- > 0)); do
        sleep 0.1
    done
    daemon_runs || return 0
    mapfile -t pids < <(holders)
    echo "run_in_market.sh: a daemon was left and did not stop; killing ${pids[*]-nobody found}" >&2
    ((${#pids[@]})) && kill -KILL "${pids[@]}" 2>/dev/null
    return 1
}

# In the background, so that a signal to this script ends the command (timeout passes it on) and the
# rest still runs.
timeout -k 5 "$limit_s" "$@" <&0 &
runner=$!
trap 'kill -TERM "$runner" 2>/dev/null' INT TERM HUP
wait "$runner"
status=$?
while kill -0 "$runner" 2>/dev/null; do
    wait "$runner"
    status=$?
done
((status == 124)) && echo "run_in_market.sh: no end after $limit_s s: $*" >&2

if ! stop_daemon && ((status == 0)); then
    status=1
fi
# A sanitizer's report on the daemon goes to its log.
if grep -qE 'Sanitizer|runtime error:' "$H5MARKET_DIR"/*.log 2>/dev/null; then
    echo "run_in_market.sh: a sanitizer has something to say about the daemon" >&2
    status=1
fi
if ((status != 0 && status != 77)); then
    for log in "$H5MARKET_DIR"/*.log; do
        [[ -s $log ]] && echo "--- $log" && tail -n 30 "$log"
    done >&2
fi
rm -rf "$top"
exit "$status"
