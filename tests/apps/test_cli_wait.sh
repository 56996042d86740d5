#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# wait: until files of mode both are on disk.
# shellcheck source=tests/apps/common.sh
. "$(dirname "$0")/common.sh"

# --- usage, and without a market
run 2 h5market wait
run 2 h5market wait --all a.h5
says "either FILEs or --all"
run 2 h5market wait --timeout soon a.h5
says "--timeout takes seconds"
run 4 h5market wait --all
run 4 h5market wait a.h5
"$sample" write native.h5
run 0 h5market wait native.h5

# --- files that get saved
printf 'files:\n- {match: "m*", mode: memory}\n- {match: "k*", mode: both, keep: 2}\n- {match: "*", mode: both}\n' >h5market.yaml
export H5MARKET_CONFIG=$PWD/h5market.yaml
run 0 "${in_market[@]}" "$sample" write a.h5
run 0 "${in_market[@]}" "$sample" write b.h5
run 0 h5market wait a.h5 b.h5
for file in a.h5 b.h5; do
    run 0 env -u HDF5_PLUGIN_PATH "$sample" check $file
done
run 0 h5market wait --all
run 0 h5market wait native.h5
run 3 h5market wait none.h5
run 0 "${in_market[@]}" "$sample" write m.h5
run 1 h5market wait m.h5
says "in memory only" "h5market save"
run 0 h5market wait --all
run 0 h5market stop --discard
run 0 h5market wait a.h5

# --- a save that fails is named, the data stays, and it is tried again
rm -f m.h5
mkdir .c.h5.h5market-tmp
run 0 "${in_market[@]}" "$sample" write c.h5
run 1 h5market wait --failing 2 c.h5
says "$PWD/c.h5 isn't saved" ".c.h5.h5market-tmp" "can't be saved; the data is still in memory"
run 5 h5market wait --timeout 1 --all
says "$PWD/c.h5 isn't saved" "in that time"
run 0 "${in_market[@]}" "$sample" check c.h5
run 5 h5market wait --timeout 0 c.h5
rmdir .c.h5.h5market-tmp
run 0 h5market wait c.h5
run 0 env -u HDF5_PLUGIN_PATH "$sample" check c.h5
run 0 h5market stop --discard

# --- the older version that failed doesn't replace the newer one's file
mkdir .k.h5.h5market-tmp
run 0 "${in_market[@]}" "$sample" write k.h5 1
run 1 h5market wait --failing 0 k.h5
rmdir .k.h5.h5market-tmp
run 0 "${in_market[@]}" "$sample" write k.h5 2
run 0 h5market wait --all
run 0 env -u HDF5_PLUGIN_PATH "$sample" check k.h5 2
run 0 h5market stop --discard

# --- a slow one: progress after 2 s, and a newer version of the path while the save runs
export H5MARKET_FAULT=archiver.ordered:sleep=4000
run 0 "${in_market[@]}" "$sample" write d.h5 1
run 5 h5market wait --timeout 0.5 d.h5
says_not "to be saved,"
run 0 "${in_market[@]}" "$sample" write d.h5 2
run 0 h5market wait d.h5
says "h5market wait: " "to be saved, " " left, "
run 0 env -u HDF5_PLUGIN_PATH "$sample" check d.h5 2
unset H5MARKET_FAULT
run 0 h5market stop --discard
finish
