#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# On a machine with two NUMA nodes each writer's bytes are in arenas of its own node. The machine is a recorded one, in
# which processor 0 belongs to node 0 and processor 1 to node 1; the kernel may not have the nodes.
source "$(dirname "$0")/daemon.sh"

for processor in 0 1; do
    taskset -c $processor true 2>/dev/null || skip "there is no processor $processor to be had"
done
mib=$((1 << 20))
export HWLOC_XMLFILE=$MKT_SOURCE_DIR/tests/fault/machines/two-sockets.xml

# node N KEY: what the daemon says of the Nth node
node() { status memory.nodes | python3 -c 'import json, sys; print(json.dumps(json.load(sys.stdin)[int(sys.argv[1])][sys.argv[2]]))' "$1" "$2"; }
on() { taskset -c "$1" "$probe" "${@:2}"; }
arenas() { grep -c "arena [0-9]* of .* for node $1\$" "$log"; }

on 0 write "$PWD/a.h5" 16 >/dev/null || fail "no write on processor 0"
expect "nodes" "$(status memory.nodes | python3 -c 'import json, sys; print([n["node"] for n in json.load(sys.stdin)])')" "[0, 1]"
grep -q "NUMA nodes 0 (32 GiB), 1 (32 GiB)" "$log" || fail "the log doesn't tell of the nodes"
expect "node 1's use before anybody wrote there" "$(node 1 used_bytes)" 0
(($(node 0 used_bytes) >= 16 * mib)) || fail "node 0 holds $(node 0 used_bytes) bytes"
on 1 write "$PWD/b.h5" 32 >/dev/null || fail "no write on processor 1"
(($(node 1 used_bytes) >= 32 * mib && $(node 1 resident_bytes) >= 32 * mib)) || fail "node 1 holds $(node 1 used_bytes) bytes"
(($(node 0 used_bytes) < 17 * mib)) || fail "node 0 holds $(node 0 used_bytes) bytes"
expect "arenas of node 0 and 1" "$(arenas 0) $(arenas 1)" "1 1"

# A kernel without such a node says so at the first arena, and once.
if [[ $(node 1 is_bound) == false ]]; then
    expect "lines on what can't be bound" "$(grep -c "arenas can't be bound.*NUMA node" "$log")" 1
fi

# What is made ready for a writer's next file is of its node.
is_ready() { (($(node 1 resident_bytes) >= $(node 1 used_bytes) + 32 * mib)); }
mkfifo stay
on 1 write-and-stay "$PWD/b.h5" 32 <stay >/dev/null &
exec 3>stay
until_true 3 is_ready || fail "node 1 has $(node 1 resident_bytes) bytes in memory for $(node 1 used_bytes) in use"
exec 3>&-
wait

# Everybody reads everything.
on 0 read "$PWD/b.h5" 32 >/dev/null || fail "no read from node 0"
on 1 read "$PWD/a.h5" 16 >/dev/null || fail "no read from node 1"

# The next worker knows which arena is whose, and so does a client that comes back.
kill -KILL "$(worker_pid)"
until_true 10 has_status restarts 1 || fail "no other worker"
on 1 read "$PWD/b.h5" 32 >/dev/null || fail "no read after the restart"
on 1 write "$PWD/c.h5" 8 >/dev/null || fail "no write after the restart"
(($(node 1 used_bytes) >= 40 * mib)) || fail "node 1 holds $(node 1 used_bytes) bytes after the restart"
expect "arenas" "$(status memory.arenas)" 2
stop_daemon

# Not wanted: nobody's.
printf 'numa: off\nfiles:\n  - {match: "**", mode: memory}\n' >off.yaml
export H5MARKET_CONFIG=$PWD/off.yaml
until_true 5 is_clean
on 1 write "$PWD/d.h5" 16 >/dev/null || fail "no write with numa: off"
expect "nodes with numa: off" "$(status memory.nodes)" "[]"
expect "why" "$(status memory.no_nodes)" '"`numa: off`"'
on 0 write "$PWD/e.h5" 16 >/dev/null || fail "no write with numa: off"
expect "arenas with numa: off" "$(status memory.arenas)" 1
stop_daemon
