#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Programs in other mount, PID, IPC and network namespaces write and read through the socket alone; a writer killed there
# gives its memory back.
source "$(dirname "$0")/daemon.sh"
unshare -m -p -i -n -f true 2>/dev/null || skip "unshare isn't allowed"

elsewhere() { env -u MARKET_DAEMON unshare -m -p -i -n -f --mount-proc "$@"; }

"$probe" id >/dev/null || fail "no daemon"
elsewhere "$probe" write "$PWD/a.h5" 8 >/dev/null || fail "no write from a container"
"$probe" read "$PWD/a.h5" 8 >/dev/null || fail "no read of what a container wrote"
"$probe" write "$PWD/b.h5" 8 >/dev/null || fail "no write"
elsewhere "$probe" read "$PWD/b.h5" 8 >/dev/null || fail "no read from a container"
expect "open connections" "$(status connections)" 1
until_true 5 has_status memory.granted_bytes 0 || fail "bytes of dead programs stay"

# A daemon that is in the container itself, and programs that aren't.
stop_daemon || fail "no stop"
rm -f a.h5 b.h5
unshare -m -p -i -n -f --mount-proc "$daemon" --foreground -d "$H5MARKET_DIR" 2>log.txt &
until_true 10 test -S "$H5MARKET_DIR/socket" || fail "no daemon in a container: $(cat log.txt)"
env -u MARKET_DAEMON "$probe" write "$PWD/c.h5" 8 >/dev/null || fail "no write to a daemon in a container"
env -u MARKET_DAEMON "$probe" read "$PWD/c.h5" 8 >/dev/null || fail "no read from a daemon in a container"
until_true 5 has_status memory.granted_bytes 0 || fail "bytes of a dead program stay"
stop_daemon || fail "no stop"
wait
