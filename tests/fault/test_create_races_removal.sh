#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Two writers of one path at the same moment: neither may take the entry away that the other one's version lives by.
source "$(dirname "$0")/daemon.sh"
"$probe" fault-points || skip "this build has no fault points"

mkfifo pipe
sleep 1000 >pipe &
feeder=$!
trap 'kill $feeder' EXIT

# A writer finds the entry of one that goes without publishing, and asks for it when the daemon has just removed it.
# The first has the entry made, and dies before it publishes anything.
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

# The entry that one made was found and opened by another before the first one asked: it isn't the first one's any more.
rm once.client.open-prepared
H5MARKET_FAULT=client.open-prepared:sleep=1500 H5MARKET_FAULT_ONCE=$PWD/once "$probe" write "$PWD/b.h5" 1 >maker 2>&1 &
maker=$!
until_true 10 test -e once.client.open-prepared || fail "the maker doesn't come to the point"
[[ -e b.h5 ]] || fail "the test needs an entry"
"$probe" write-half "$PWD/b.h5" 2 <pipe >finder 2>&1 &
until_true 10 test -s finder || fail "no other writer: $(cat finder)"
wait "$maker" && fail "two write one file"
grep -q "is open for writing" maker || fail "the maker says: $(cat maker)"
[[ -e b.h5 ]] || fail "the maker took the other one's entry away"
kill "$feeder"
trap - EXIT
wait
stop_daemon
