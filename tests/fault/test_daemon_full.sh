#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Full memory: a writer waits for memory, gets what comes free, and else fails with the limit and the knob in its error; the
# former version stays.
source "$(dirname "$0")/daemon.sh"

printf 'memory: 64MiB\nfull_timeout: 2s\nfiles: [{match: "**", mode: memory}]\n' >small.yaml
export H5MARKET_CONFIG=$PWD/small.yaml
"$probe" write "$PWD/a.h5" 40 >/dev/null || fail "no write"
expect "the limit" "$(status memory.limit_bytes)" $((64 << 20))

# Too large for what is left: fails after full_timeout.
SECONDS=0
"$probe" write "$PWD/b.h5" 40 2>said && fail "more was written than there may be"
((SECONDS >= 1 && SECONDS <= 6)) || fail "it waited $SECONDS s"
grep -q "memory" said && grep -q "64" said || fail "it says: $(cat said)"
"$probe" read "$PWD/a.h5" 40 >/dev/null || fail "the other file was lost"

# Larger than the limit: there is no point in waiting.
SECONDS=0
"$probe" write "$PWD/b.h5" 80 2>said && fail "more was written than there may be"
((SECONDS <= 1)) || fail "it waited $SECONDS s for what can't be"

# What comes free in time is enough.
"$probe" write "$PWD/b.h5" 40 >out 2>&1 &
writer=$!
until_true 2 has_status waiting_grants 1 || fail "nobody waits: $(cat out)"
"$probe" rm "$PWD/a.h5" || fail "no withdrawal"
wait "$writer" || fail "it doesn't get what came free: $(cat out)"
"$probe" read "$PWD/b.h5" 40 >/dev/null || fail "wrong data"
until_true 5 has_status memory.granted_bytes 0 || fail "bytes of dead programs stay"
(($(status memory.resident_bytes) <= 72 << 20)) || fail "$(status memory.resident_bytes) bytes are in memory"
stop_daemon

# More connections than there may be: the rest is turned away with a reason, the others go on.
printf 'max_connections: 4\nfiles: [{match: "**", mode: memory}]\n' >few.yaml
export H5MARKET_CONFIG=$PWD/few.yaml
mkfifo pipe
sleep 1000 >pipe &
feeder=$!
for i in 1 2 3 4; do
    "$probe" hold <pipe >"held.$i" &
    until_true 5 test -s "held.$i" || fail "connection $i"
done
"$probe" id 2>said && fail "a fifth connection of four"
grep -q "max_connections" said || fail "it says: $(cat said)"
kill "$feeder"
wait
until_true 5 "$probe" id >/dev/null 2>&1 || fail "nobody gets in any more"
stop_daemon
