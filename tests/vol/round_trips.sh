#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# A file of one small dataset, written by one program and read by another, costs at most three round trips:
# what the daemon answers, counted over a hundred such files.
# shellcheck source=tests/vol/h5do.sh
mode=market
. "$(dirname "$0")/h5do.sh"

FILES=100
MORE=8 # for the programs themselves

replies() { h5market stat --json | grep -o '"replies": *[0-9]*' | grep -o '[0-9]*$'; }

writes=() reads=()
for ((i = 0; i < FILES; i++)); do
    writes+=("create f$i.h5" "make d 512" "putall d $i" "close")
    reads+=("open f$i.h5" "check d $i" "close")
done
run 0 h5market start
before=$(replies)
one "${writes[@]}"
between=$(replies)
one "${reads[@]}"
after=$(replies)
((between - before >= 2 * FILES)) || fail "$((between - before)) replies to a writer of $FILES files: not counted?"
((between - before <= 2 * FILES + MORE)) || fail "$((between - before)) replies to a writer of $FILES files"
((after - between >= FILES)) || fail "$((after - between)) replies to a reader of $FILES files: not counted?"
((after - between <= FILES + MORE)) || fail "$((after - between)) replies to a reader of $FILES files"

# Files of mode `file` are native's: to look at one and to read it asks nothing.
looks=()
for ((i = 0; i < FILES; i++)); do
    looks+=("accessible real.h5" "open real.h5" "check d 1" "close")
done
printf 'files:\n  - {match: "real.h5", mode: file}\n' >rules.yaml
export H5MARKET_CONFIG=$PWD/rules.yaml
one "create real.h5" "make d 512" "putall d 1" "close"
before=$(replies)
one "${looks[@]}"
after=$(replies)
((after - before <= MORE)) || fail "$((after - before)) replies to a reader of $FILES files on disk"
exit $((failures > 0))
