#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# How a daemon ends, and what the next one makes of what it left.
source "$(dirname "$0")/daemon.sh"

# SIGTERM: everything of it goes, and the log says what was dropped.
"$probe" write "$PWD/a.h5" 1 >/dev/null || fail "no write"
pid=$(daemon_pid)
kill -TERM "$pid"
until_true 5 is_dead "$pid" || fail "SIGTERM doesn't end it"
is_clean || fail "left behind: $(ls "$H5MARKET_DIR")"
grep -q 'dropped: 1 version' "$log" || fail "the log doesn't say what was dropped"

# STOP refuses to lose what exists in memory only, unless told to.
rm -f a.h5
"$probe" write "$PWD/a.h5" 1 >/dev/null || fail "no write"
"$probe" stop 2>said && fail "it stopped with a version in memory"
grep -q "$PWD/a.h5" said || fail "it doesn't name what would be lost: $(cat said)"
"$probe" read "$PWD/a.h5" 1 >/dev/null || fail "the refused stop lost the version"
pid=$(daemon_pid)
stop_daemon || fail "no stop"
until_true 5 is_dead "$pid" || fail "STOP doesn't end it"
is_clean || fail "left behind: $(ls "$H5MARKET_DIR")"
[[ ! -e a.h5 ]] || fail "the stub of a discarded file stays"

# SIGKILL: socket, pid file and lock file stay, and the next daemon takes them over.
before=$("$probe" id)
pid=$(daemon_pid)
kill_daemon
until_true 5 is_dead "$pid"
[[ -S $H5MARKET_DIR/socket ]] || fail "the test needs a socket that was left"
env -u MARKET_DAEMON "$probe" id 2>said && fail "a dead daemon answered"
after=$("$probe" id) || fail "a stale socket is in the way"
[[ $before != "$after" ]] || fail "two daemons have one id"
[[ $(daemon_pid) != "$pid" ]] || fail "the pid file is the dead one's"
stop_daemon || fail "no stop"

# A daemon killed in mid-call: who waits gets an error and doesn't hang.
"$probe" hold <<<"" >/dev/null
mkfifo pipe
sleep 1000 >pipe &
feeder=$!
"$probe" write-and-stay "$PWD/b.h5" 1 <pipe >wrote &
writer=$!
until_true 10 test -s wrote || fail "no write"
kill_daemon
kill "$feeder"
timeout 20 tail --pid="$writer" -f /dev/null || fail "a client of a dead daemon hangs"
wait "$writer"

# A log that has become long is set aside, once.
rm -f b.h5
"$probe" id >/dev/null || fail "no daemon"
head -c 17000000 /dev/zero | tr '\0' x >>"$log"
until_true 5 test -s "$log.1" || fail "a log of 17 MB goes on"
stop_daemon
until_true 5 grep -q ends "$log" || fail "the new log is not written"
(($(stat -c %s "$log") < 100000)) || fail "the new log isn't new"
rm -f "$log.1"

# Its folder is removed: who is connected goes on, and it ends when the last one has gone.
"$probe" write "$PWD/b.h5" 1 >/dev/null || fail "no write"
pid=$(daemon_pid)
mkfifo pipe2
sleep 1000 >pipe2 &
feeder=$!
"$probe" read-and-stay "$PWD/b.h5" 1 <pipe2 >reads 2>&1 &
reader=$!
until_true 5 test -s reads || fail "no read"
rm -rf "$H5MARKET_DIR"
sleep 4
is_dead "$pid" && fail "it left its client alone"
kill "$feeder"
wait "$reader" || fail "the client of a lost daemon: $(cat reads)"
until_true 8 is_dead "$pid" || fail "it stays though nobody can find it"
mkdir -m 700 "$H5MARKET_DIR"
rm -f b.h5

# Idle: it ends by itself when it holds nothing and nobody is connected, not before.
printf 'idle_exit: 1s\nfiles: [{match: "**", mode: memory}]\n' >idle.yaml
rm -f b.h5
export H5MARKET_CONFIG=$PWD/idle.yaml
"$probe" write "$PWD/c.h5" 1 >/dev/null || fail "no write"
pid=$(daemon_pid)
sleep 3
is_dead "$pid" && fail "it ended with a version in memory"
"$probe" rm "$PWD/c.h5" || fail "no withdrawal"
until_true 6 is_dead "$pid" || fail "it doesn't end when it is idle"
is_clean || fail "left behind: $(ls "$H5MARKET_DIR")"
grep -q "idle" "$log" || fail "the log doesn't say why it ended"

# What it can't start with is said on standard error and in the log.
echo "kep: 3" >wrong.yaml
"$daemon" -d "$H5MARKET_DIR" -c wrong.yaml 2>said && fail "it starts with a wrong configuration"
grep -q "wrong.yaml:1: unknown key 'kep'" said || fail "it says: $(cat said)"
grep -q "wrong.yaml:1: unknown key 'kep'" "$log" || fail "the log says nothing of it"
H5MARKET_CONFIG=$PWD/wrong.yaml "$probe" id 2>said && fail "a client starts one with a wrong configuration"
grep -q "wrong.yaml:1" said || fail "the client says: $(cat said)"
exit 0
