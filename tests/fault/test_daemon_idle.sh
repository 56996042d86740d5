#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A daemon with a connection, a version and a waiting reader uses no processor time, and neither does the reader.
source "$(dirname "$0")/daemon.sh"

ticks() { awk '{print $14 + $15}' "/proc/$1/stat"; }

"$probe" write "$PWD/a.h5" 16 >/dev/null || fail "no write"
mkfifo pipe
sleep 1000 >pipe &
feeder=$!
"$probe" hold <pipe >held &
until_true 5 test -s held
pid=$(daemon_pid)
sleep 4 # the free memory goes back
before=$(ticks "$pid")
sleep 3
used=$(($(ticks "$pid") - before))
kill "$feeder"
((used * 100 <= 3 * $(getconf CLK_TCK))) || fail "$used ticks in 3 s"
wait
stop_daemon
