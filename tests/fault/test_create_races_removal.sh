#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A writer finds the entry of a writer that goes without publishing, and asks for it when the daemon has just removed it: what
# it writes must not go with that entry.
source "$(dirname "$0")/daemon.sh"
"$probe" fault-points || skip "this build has no fault points"

mkfifo pipe
sleep 1000 >pipe &
feeder=$!
trap 'kill $feeder' EXIT

# It has the entry made, and dies before it publishes anything.
"$probe" write-half "$PWD/a.h5" 1 <pipe >half 2>&1 &
first=$!
until_true 10 test -s half || fail "no writer: $(cat half)"

# The other one has seen the entry, and sleeps before it asks.
H5MARKET_FAULT=client.open-prepared:sleep=1500 H5MARKET_FAULT_ONCE=$PWD/once "$probe" write "$PWD/a.h5" 2 >second 2>&1 &
second=$!
until_true 10 test -e once.client.open-prepared || fail "the second writer doesn't come to the point"
kill -KILL "$first"
until_true 10 has_status objects 0 || fail "the dead writer's file stays"
until_true 5 test ! -e a.h5 || fail "the dead writer's entry stays"

wait "$second" || fail "the second writer: $(cat second)"
expect "what it published" "$(cat second)" "version 1"
# The daemon looks after entries once a second.
sleep 2.5
"$probe" read "$PWD/a.h5" 2 >said 2>&1 || fail "what was published is gone: $(cat said)"
[[ -e a.h5 ]] || fail "it has no entry"
stop_daemon
