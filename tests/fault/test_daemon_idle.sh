#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A daemon with a connection, a version and a waiting reader uses no processor time, and neither does the reader.
source "$(dirname "$0")/daemon.sh"

# Of keeper and worker.
ticks() { awk '{sum += $14 + $15} END {print sum}' "/proc/$(daemon_pid)/stat" "/proc/$(worker_pid)/stat"; }

"$probe" write "$PWD/a.h5" 16 >/dev/null || fail "no write"
mkfifo pipe
sleep 1000 >pipe &
feeder=$!
"$probe" hold <pipe >held &
until_true 5 test -s held
sleep 4 # the free memory goes back
before=$(ticks)
sleep 3
used=$(($(ticks) - before))
kill "$feeder"
((used * 100 <= 3 * $(getconf CLK_TCK))) || fail "$used ticks in 3 s"
wait
stop_daemon
