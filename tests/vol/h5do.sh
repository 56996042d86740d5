# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
#
# For scripts around h5do.c: sourced, in an empty folder and a market of its own. The script has set
# `mode` (native or market).

set -u
unset HDF5_DRIVER HDF5_VOL_CONNECTOR
export H5MARKET_CONFIG=$MKT_MEMORY_CONFIG
export HDF5_USE_FILE_LOCKING=TRUE
failures=0
if [[ $mode == market ]]; then
    export HDF5_VOL_CONNECTOR=market
else
    unset HDF5_PLUGIN_PATH # HDF5 would try all connectors there on what it can't open
fi

fail() {
    echo "FAILED ($FUNCNAME_OF_CASE, line ${BASH_LINENO[1]}): $*" >&2
    [[ -s out ]] && sed 's/^/    /' out >&2
    failures=$((failures + 1))
}
FUNCNAME_OF_CASE=-

# run STATUS COMMAND...: its output goes to the file `out`. STATUS `any` takes all.
run() {
    local wanted=$1 status
    shift
    timeout 60 "$@" >out 2>&1 </dev/null
    status=$?
    [[ $wanted == any ]] || ((status == wanted)) || fail "${*:0:300} ended with $status, not $wanted"
}

# configure LINE...: for all that follows.
configure() {
    printf '%s\n' "$@" >rules.yaml
    export H5MARKET_CONFIG=$PWD/rules.yaml
}
one() { run 0 "$H5DO" "$@"; }           # one process
job() { # RANKS CALL...: an MPI job
    local ranks=$1
    shift
    run 0 "$MKT_MPIEXEC" -n "$ranks" "$H5DO_MPI" "$@"
}

# background NAME COMMAND...: its output goes to NAME.out, its process id to ${pids[NAME]}.
declare -A pids=()
background() {
    local name=$1
    shift
    timeout 60 "$@" >"$name.out" 2>&1 </dev/null &
    pids[$name]=$!
}
# finished NAME STATUS
finished() {
    local status
    wait "${pids[$1]}" 2>/dev/null
    status=$?
    cp "$1.out" out
    [[ $2 == any ]] || ((status == $2)) || fail "$1 ended with $status, not $2"
}

says() { # TEXT...: each must be in `out`
    local text
    for text in "$@"; do
        grep -qF -- "$text" out || fail "the output lacks: $text"
    done
}
says_not() { ! grep -qF -- "$1" out || fail "the output has: $1"; }

in_market() { [[ $mode == market ]]; }
is_stub() { [[ $(stat -c %s "$1") == 512 ]]; }

# until_true SECONDS COMMAND...
until_true() {
    local tries=$(($1 * 20))
    shift
    while ! "$@" >/dev/null 2>&1; do
        ((tries-- > 0)) || return 1
        sleep 0.05
    done
}
await() { until_true 20 test -e "$1" || fail "$1 didn't come"; }

# A number of the market's state, by its path in `h5market stat --json`, such as memory.used_bytes.
market_value() {
    h5market stat --json | "$MKT_PYTHON" -c '
import json, sys
value = json.load(sys.stdin)
for key in sys.argv[1].split("."):
    value = value[key]
print(value)' "$1"
}
versions_of() { h5market stat --json "$1" | sed -n 's/.*"newest_version": \([0-9]*\).*/\1/p' | head -n 1; }

# run_cases CASE...: functions of those names; all for none.
run_cases() {
    local case
    for case in "$@"; do
        FUNCNAME_OF_CASE=$case
        if in_market; then # a market of its own
            h5market stop --discard >/dev/null 2>&1
            export H5MARKET_CONFIG=$MKT_MEMORY_CONFIG
            export HDF5_VOL_CONNECTOR=market
        fi
        rm -rf -- ./* && : >out
        "$case"
    done
    echo "$# cases, $failures failures"
    (($# > 0 && failures == 0))
    exit
}
