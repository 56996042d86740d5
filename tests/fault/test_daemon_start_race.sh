#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# 64 programs start at once, none with a daemon: one daemon serves them all. Then the same with 64 daemons.
source "$(dirname "$0")/daemon.sh"

for i in {1..64}; do
    "$probe" id >"id.$i" 2>"error.$i" || echo failed >"failed.$i" &
done
wait
[[ ! -e $(echo failed.*) ]] || fail "$(cat error.*)"
(($(cat id.* | wc -l) == 64)) || fail "only $(cat id.* | wc -l) programs were served"
(($(cat id.* | sort -u | wc -l) == 1)) || fail "more than one daemon served them"
(($(grep -c 'h5marketd .*protocol' "$log") == 1)) || fail "more than one daemon began to serve"
first=$(daemon_pid)
stop_daemon || fail "no stop"
until_true 5 is_dead "$first" || fail "the daemon stays"
is_clean || fail "left behind: $(ls "$H5MARKET_DIR")"

for i in {1..64}; do
    "$daemon" -d "$H5MARKET_DIR" >"out.$i" 2>&1 || echo failed >"failed.$i" &
done
wait
[[ ! -e $(echo failed.*) ]] || fail "$(cat out.*)"
(($(grep -l 'already serves' out.* | wc -l) == 63)) || fail "not one of 64 daemons survived: $(cat out.*)"
grep -q "process $(daemon_pid) already serves $H5MARKET_DIR" out.* || fail "they don't name the holder"
(($(grep -c 'h5marketd .*protocol' "$log") == 2)) || fail "more than one daemon began to serve"
env -u MARKET_DAEMON "$probe" id >/dev/null || fail "nobody serves"
stop_daemon
