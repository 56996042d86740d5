#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Another user's process is refused, also where it can reach the socket.
source "$(dirname "$0")/daemon.sh"
((EUID == 0)) || skip "needs root, to become another user"

"$probe" id >/dev/null || fail "no daemon"
mine=$(daemon_pid)
# The folder is closed to others ...
as_other() { env -u MARKET_DAEMON setpriv --reuid=12345 --regid=12345 --clear-groups "$@"; }
cp "$probe" /tmp/mkt_probe.$$
trap 'rm -f /tmp/mkt_probe.$$' EXIT
chmod 755 /tmp/mkt_probe.$$
as_other /tmp/mkt_probe.$$ id 2>said && fail "another user got in"
# ... and the daemon doesn't rest on that.
chmod 755 "$(dirname "$H5MARKET_DIR")" "$H5MARKET_DIR"
chmod 666 "$H5MARKET_DIR/socket"
as_other /usr/bin/python3 - "$H5MARKET_DIR/socket" >said 2>&1 <<'PY' || fail "the test can't connect: $(cat said)"
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.settimeout(5)
answer = b""
try:
    while chunk := s.recv(4096):
        answer += chunk
except ConnectionResetError:
    pass
print(answer.decode("latin-1"))
PY
grep -q "this market belongs to user 0, and user 12345 asks" said || fail "no refusal: $(cat said)"
grep -q "user 12345" "$log" || fail "the log doesn't name it"
chmod 700 "$H5MARKET_DIR"
[[ $(daemon_pid) == "$mine" ]] || fail "another daemon"
"$probe" id >/dev/null || fail "its own user isn't served any more"
# A daemon doesn't serve from a folder that others can enter.
stop_daemon
chmod 755 "$H5MARKET_DIR"
"$daemon" -d "$H5MARKET_DIR" 2>said && fail "it serves from an open folder"
grep -qi "0700\|others" said || fail "it says: $(cat said)"
chmod 700 "$H5MARKET_DIR"
