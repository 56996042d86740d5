#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The journal that a new worker goes on from: begun anew, torn, and cut at every place.
source "$(dirname "$0")/daemon.sh"

restarts() { status restarts; }
is_another() { [[ $(worker_pid) != "$1" ]]; }
kill_worker() {
    local pid
    pid=$(worker_pid)
    kill -KILL "$pid"
    until_true 10 is_another "$pid" || fail "no other worker"
}
# begin LINE...: a daemon with this configuration.
begin() {
    stop_daemon 2>/dev/null
    until_true 5 is_clean || fail "the former daemon stays"
    printf '%s\n' "$@" "files:" '  - {match: "*", mode: memory}' >keeper.yaml
    export H5MARKET_CONFIG=$PWD/keeper.yaml
    rm -f ./*.h5
}

# A state is written down now and then, and what was before goes.
begin "journal: 64KiB"
"$probe" write "$PWD/a.h5" 1 >/dev/null || fail "no write"
"$probe" write "$PWD/b.h5" 1 400 >steps || fail "no write"
dumps=$(status journal.dumps)
((dumps >= 2)) || fail "after $(status requests) messages the journal began anew $dumps times"
(($(status journal.bytes) < 1 << 20)) || fail "the journal has $(status journal.bytes) bytes"
used=$(status memory.used_bytes)
kill_worker
"$probe" read "$PWD/a.h5" 1 >/dev/null || fail "a.h5 is gone"
[[ $("$probe" read "$PWD/b.h5" 1) == "version 400" ]] || fail "b.h5 has another version"
expect "the memory in use" "$(status memory.used_bytes)" "$used"
"$probe" write "$PWD/b.h5" 1 400 >steps || fail "the new worker doesn't take more"
kill_worker
[[ $("$probe" read "$PWD/b.h5" 1) == "version 800" ]] || fail "b.h5 has another version"
expect "restarts" "$(restarts)" 2

# The same with files that are written behind their programs: all of them get there, once.
begin_both() {
    stop_daemon 2>/dev/null
    until_true 5 is_clean || fail "the former daemon stays"
    printf '%s\n' "journal: 64KiB" "files:" '  - {match: "*", mode: both}' >keeper.yaml
    rm -f ./*.h5
}
begin_both
for i in {1..40}; do
    "$probe" write "$PWD/$i.h5" 1 4 >/dev/null || fail "no write"
    ((i % 10)) || kill_worker
done
(($(status journal.dumps) > 0)) || fail "the journal never began anew"
expect "restarts" "$(restarts)" 4
for i in {1..40}; do
    [[ $("$probe" read "$PWD/$i.h5" 1) == "version 4" ]] || fail "$i.h5 has another version"
done

# The worker dies while it writes a record, or as soon as it has, at each of the first messages.
"$probe" fault-points || skip "the daemon is built without fault points (MKT_FAULTS)"
for point in journal.half-written journal.appended daemon.before-reply; do
    for count in 5 6 7 8 9 10 11 12; do
        begin "journal: 64KiB"
        export H5MARKET_FAULT=$point:kill:$count
        "$probe" write "$PWD/a.h5" 1 2 >said || fail "$point $count: no write"
        expect "$point $count: versions" "$(tr '\n' ' ' <said)" "version 1 version 2 "
        [[ $("$probe" read "$PWD/a.h5" 1) == "version 2" ]] || fail "$point $count: no read"
        "$probe" rm "$PWD/a.h5" || fail "$point $count: no withdrawal"
        expect "$point $count: objects" "$(status objects)" 0
        (($(restarts) > 0)) || fail "$point $count: nothing died"
        unset H5MARKET_FAULT
    done
done

# ... or around the beginning of a new journal.
for point in journal.dumped journal.began-anew; do
    begin "journal: 64KiB"
    export H5MARKET_FAULT=$point:kill:1 H5MARKET_FAULT_ONCE=$PWD/once.$point
    "$probe" write "$PWD/a.h5" 1 200 >said || fail "$point: no write"
    [[ $("$probe" read "$PWD/a.h5" 1) == "version 200" ]] || fail "$point: no read"
    expect "$point: restarts" "$(restarts)" 1
    unset H5MARKET_FAULT H5MARKET_FAULT_ONCE
done
stop_daemon
exit 0
