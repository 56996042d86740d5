# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
#
# For the scripts here: sourced, in an empty folder and a market of its own.

set -u
unset HDF5_VOL_CONNECTOR HDF5_DRIVER HDF5_PLUGIN_PRELOAD NO_COLOR
export H5MARKET_CONFIG=$MKT_MEMORY_CONFIG
sample=$MKT_APPS_DIR/apps_sample
plugins=$HDF5_PLUGIN_PATH
failures=0
checks=0

fail() {
    echo "FAILED (line ${BASH_LINENO[1]}): $*" >&2
    [[ -s out ]] && sed 's/^/    /' out >&2
    failures=$((failures + 1))
}

# run STATUS COMMAND...: its output goes to the file `out`.
run() {
    local wanted=$1 status
    shift
    timeout 60 "$@" >out 2>&1 </dev/null
    status=$?
    checks=$((checks + 1))
    ((status == wanted)) || fail "$* ended with $status, not $wanted"
}

# says TEXT...: each must be in `out`.
says() {
    local text
    for text in "$@"; do
        checks=$((checks + 1))
        grep -qF -- "$text" out || fail "the output lacks: $text"
    done
}

says_not() {
    checks=$((checks + 1))
    ! grep -qF -- "$1" out || fail "the output has: $1"
}

in_market=(env HDF5_VOL_CONNECTOR=market)

# value KEY: a number in `out`, which is JSON.
value() { sed -n "s/.*\"$1\": \([0-9]*\).*/\1/p" out | head -n 1; }

# wait_for COMMAND...: until it succeeds, at most 10 s.
wait_for() {
    local tries=200
    while ! "$@" >/dev/null 2>&1; do
        ((tries-- > 0)) || { fail "waited in vain for: $*"; return 1; }
        sleep 0.05
    done
}

finish() {
    echo "$checks checks, $failures failures"
    ((checks > 0 && failures == 0))
    exit
}
