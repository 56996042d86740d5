# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
#
# What the scripts here share; to be sourced. They run in an empty folder with H5MARKET_DIR set (run_in_market.sh).

set -u
probe=$MARKET_PROBE
daemon=$MARKET_DAEMON
log=$H5MARKET_DIR/h5marketd.log

fail() {
    echo "$(basename "$0"): $*" >&2
    exit 1
}

skip() {
    echo "skipped: $*"
    exit 77
}

# A file's text.
text() { cat "$1" 2>/dev/null; }

daemon_pid() { text "$H5MARKET_DIR/daemon.pid"; }
worker_pid() { text "$H5MARKET_DIR/worker.pid"; }
# The keeper first, who would start another worker.
kill_daemon() { kill -KILL "$(daemon_pid)" "$(worker_pid)"; }

# until_true SECONDS COMMAND...: waits for the command to succeed.
until_true() {
    local tries=$(($1 * 20))
    shift
    while ! "$@"; do
        ((tries-- > 0)) || return 1
        sleep 0.05
    done
}

is_dead() { ! kill -0 "$1" 2>/dev/null || [[ $(ps -o stat= -p "$1") == Z* ]]; }
is_clean() { [[ ! -e $H5MARKET_DIR/socket && ! -e $H5MARKET_DIR/daemon.pid && ! -e $H5MARKET_DIR/worker.pid && ! -e $H5MARKET_DIR/daemon.lock ]]; }

# status KEY: an entry of the daemon's state.
status() { env -u MARKET_DAEMON "$probe" status "$1"; }
# has_status KEY VALUE: for until_true.
has_status() { [[ $(status "$1") == "$2" ]]; }
# expect NAME ACTUAL WANTED
expect() { [[ $2 == "$3" ]] || fail "$1 is '$2' and not '$3'"; }

stop_daemon() { env -u MARKET_DAEMON "$probe" stop discard; }
