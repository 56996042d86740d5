#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A writer killed in mid-write leaves the former version, and its memory comes back; a killed reader disturbs nobody, and what
# it held comes back too.
source "$(dirname "$0")/daemon.sh"

# start FILE COMMAND...: in the background, with an input that doesn't end; waits for its first line in FILE.
start() {
    local said=$1
    shift
    "$@" <pipe >"$said" 2>"$said.error" &
    started=$!
    until_true 10 test -s "$said" || fail "$*: $(cat "$said.error")"
}

mkfifo pipe
sleep 1000 >pipe &
feeder=$!
trap 'kill $feeder' EXIT

"$probe" write "$PWD/a.h5" 2 >/dev/null || fail "no write"
used=$(status memory.used_bytes)
start half "$probe" write-half "$PWD/a.h5" 40
(($(status memory.used_bytes) >= used + (40 << 20))) || fail "the test needs a writer that holds memory"
kill -KILL "$started"
until_true 5 has_status memory.used_bytes "$used" || fail "the dead writer's memory stays: $(status memory)"
"$probe" read "$PWD/a.h5" 2 >/dev/null || fail "the former version is gone"

# Where there was no version, there is none.
start half "$probe" write-half "$PWD/b.h5" 1
kill -KILL "$started"
until_true 5 has_status groups 0 || fail "the dead writer's file stays open"
"$probe" read "$PWD/b.h5" 1 2>said && fail "half a version was read"
"$probe" write "$PWD/b.h5" 1 >/dev/null || fail "a dead writer is in the way"

# A reader keeps what it opened, also when the writer replaces it; killed, it gives it back.
start reading "$probe" read-and-stay "$PWD/a.h5" 2
reader=$started
start reading2 "$probe" read-and-stay "$PWD/a.h5" 2
other=$started
"$probe" write "$PWD/a.h5" 3 >/dev/null || fail "a reader blocks a writer"
expect "versions" "$(status versions)" 3
kill -KILL "$reader"
sleep 0.3
expect "versions" "$(status versions)" 3
kill "$feeder"
trap - EXIT
wait "$other" || fail "the other reader: $(cat reading2.error)"
until_true 5 has_status versions 2 || fail "the version that dead readers held stays"
stop_daemon
