#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# In a control group with a memory limit the daemon takes half of it.
source "$(dirname "$0")/daemon.sh"

groups=/sys/fs/cgroup/memory name=memory.limit_in_bytes
[[ -d $groups ]] || { groups=/sys/fs/cgroup name=memory.max; }
group=$groups/h5market-test-$$
mkdir "$group" 2>/dev/null || skip "no control group can be made in $groups"
leave() {
    echo $$ >"$groups/cgroup.procs"
    until_true 5 rmdir "$group" 2>/dev/null
}
trap leave EXIT
echo $((400 << 20)) >"$group/$name" 2>/dev/null || skip "$group takes no limit"
mkdir "$group/inner" && trap 'rmdir "$group/inner"; leave' EXIT
(
    echo "$BASHPID" >"$group/inner/cgroup.procs" || exit 1
    exec "$probe" id >/dev/null
) || fail "no daemon"
limit=$(status memory.limit_bytes)
((limit > 199 << 20 && limit <= 200 << 20)) || fail "the limit is $limit, of $(status memory.source)"
grep -q "of 400 MiB: $group" "$log" || fail "the log doesn't say where the limit comes from: $(cat "$log")"
# It serves more than the limit by steps, and its pages are charged to the group.
"$probe" write "$PWD/a.h5" 64 6 >/dev/null || fail "no write"
"$probe" read "$PWD/a.h5" 64 >/dev/null || fail "no read"
pid=$(daemon_pid)
stop_daemon
until_true 5 is_dead "$pid"
