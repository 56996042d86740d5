#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The market's end: `h5market stop` and SIGTERM save what is owed, and what can't be saved is named.
# shellcheck source=tests/apps/common.sh
. "$(dirname "$0")/common.sh"

log=$H5MARKET_DIR/h5marketd.log
cat >h5market.yaml <<'END'
files:
- {match: "m*", mode: memory}
- {match: "emergency*", mode: memory, backup: true}
- {match: "late*", mode: both, priority: 5}
- {match: "first*", mode: both, backup: true, priority: 1}
- {match: "second*", mode: both, backup: true}
- {match: "*", mode: both}
END
export H5MARKET_CONFIG=$PWD/h5market.yaml
write() { run 0 "${in_market[@]}" "$sample" write "$@"; }
is_file() { run 0 env -u HDF5_PLUGIN_PATH "$sample" check "$@"; }
gone() { [[ ! -e $H5MARKET_DIR/socket ]]; }
ends_within() { # SECONDS
    local tries=$(($1 * 20))
    until gone || ((tries-- == 0)); do sleep 0.05; done
    gone || fail "it doesn't end"
}
daemon_pid() { cat "$H5MARKET_DIR/daemon.pid"; }
state_of() { # FILE STATE
    h5market stat --json "$1" | tr -d '\n ' | grep -qF "\"saving\":{\"state\":\"$2\""
}

# --- stop saves first, and what is opened for writing meanwhile is refused
export H5MARKET_FAULT=archiver.ordered:sleep=5000
write a.h5
write b.h5 3
wait_for state_of a.h5 saving
h5market stop >stop.out 2>&1 &
stop=$!
wait_for grep -qF "2 files to be saved" stop.out
run 1 "${in_market[@]}" "$sample" write c.h5
says "c.h5' was not opened for writing: the market is ending, and saves what it holds"
[[ ! -e c.h5 ]] || fail "the refused create left an entry"
run 0 "${in_market[@]}" "$sample" check b.h5 3
wait "$stop" || fail "stop failed: $(cat stop.out)"
cp stop.out out
says "h5market stop: 2 files to be saved" "stopped"
gone || fail "it runs on"
is_file a.h5
is_file b.h5 3
unset H5MARKET_FAULT

# --- stop refuses to lose what is in memory only, and lets programs write again
write m.h5
write a.h5 2
run 1 h5market stop
says "1 version(s) of 1 file(s) exist only in memory (the first is $PWD/m.h5)" "--discard"
write d.h5
run 0 h5market wait --all
run 0 h5market rm m.h5
run 0 h5market stop
is_file a.h5 2
is_file d.h5

# --- stop saves what has a backup, too; --discard saves nothing
write emergency.h5 4
run 0 h5market stop
is_file emergency.h5 4
write m.h5
write emergency2.h5
run 0 h5market stop --discard
[[ ! -e m.h5 && ! -e emergency2.h5 ]] || fail "entries of discarded files stay"

# --- stop ends without success when saves fail or take too long
mkdir .f.h5.h5market-tmp
write f.h5
run 5 h5market stop --timeout 1
says "$PWD/f.h5 isn't saved" "not stopped; --discard"
run 0 "${in_market[@]}" "$sample" check f.h5
write g.h5

# --- SIGTERM: what fails is named, and doesn't keep the daemon
kill -TERM "$(daemon_pid)"
wait_for gone
wait_for grep -q "lost: $PWD/f.h5 (not saved: .*h5market-tmp" "$log"
grep -q "ends: a signal; what is left can't be saved" "$log" || fail "no reason in the log"
grep -q "dropped: 1 version(s) of 1 file(s)" "$log" || fail "no count of what is lost"
is_file g.h5
rmdir .f.h5.h5market-tmp
rm -f f.h5

# --- SIGTERM: in order, backups first, of mode memory too; the rest of mode memory is lost, and said so
: >"$log"
export H5MARKET_FAULT=archiver.ordered:sleep=1500
write z.h5
wait_for state_of z.h5 saving
write y.h5
write late.h5
write m.h5
write second.h5
write emergency.h5 5
write first.h5
kill -TERM "$(daemon_pid)"
wait_for grep -q "SIGTERM: 6 file(s), .* are saved before the end" "$log"
wait_for gone
unset H5MARKET_FAULT
for file in z.h5 y.h5 late.h5 second.h5 first.h5; do is_file $file; done
is_file emergency.h5 5
grep -q "lost: $PWD/m.h5 (in memory only)" "$log" || fail "the log doesn't name what is lost"
grep -q "dropped: 1 version(s) of 1 file(s)" "$log" || fail "it counts what is on disk"
[[ $(ls -tr z.h5 first.h5 second.h5 emergency.h5 late.h5 y.h5 | tr '\n' ' ') == \
    "z.h5 first.h5 second.h5 emergency.h5 late.h5 y.h5 " ]] || fail "the order is $(ls -tr ./*.h5)"
rm -f m.h5

# --- a second SIGTERM ends it at once
: >"$log"
export H5MARKET_FAULT=archiver.ordered:sleep=60000
write x.h5
wait_for state_of x.h5 saving
pid=$(daemon_pid)
kill -TERM "$pid"
wait_for grep -q "SIGTERM: 1 file(s)" "$log"
sleep 1.5
gone && fail "one signal ended it"
kill -TERM "$pid"
wait_for gone
wait_for grep -q "lost: $PWD/x.h5 (not saved)" "$log"
grep -q "ends: a second signal" "$log" || fail "no reason in the log"
unset H5MARKET_FAULT

# --- a worker that dies over it is followed by one that goes on with the drain
rm -f x.h5
: >"$log"
export H5MARKET_FAULT=archiver.ordered:sleep=4000
write w.h5 6
wait_for state_of w.h5 saving
kill -TERM "$(daemon_pid)"
wait_for grep -q "SIGTERM: 1 file(s)" "$log"
kill -KILL "$(cat "$H5MARKET_DIR"/worker.pid)"
wait_for grep -q "a signal to the worker before this one: 1 file(s)" "$log"
ends_within 20
is_file w.h5 6
unset H5MARKET_FAULT

# --- what is on disk keeps no daemon from its idle end
printf 'idle_exit: 1s\nfiles: [{match: "*", mode: both}]\n' >h5market.yaml
write i.h5
ends_within 40 # the archiver stays for a while
is_file i.h5
finish
