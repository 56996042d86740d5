#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# plan: what is known of the sample's layout, in memory and below, and that a read then does just that.
# shellcheck source=tests/apps/common.sh
. "$(dirname "$0")/common.sh"

run 4 h5market plan a.h5 grid
says "no market runs here"
run 2 h5market plan a.h5
says "FILE and DATASET are needed"
run 2 h5market plan a.h5 grid more
for list in x 1,,2 1, -1 1,2x 99999999999999999999; do
    run 2 h5market plan a.h5 grid -s "$list"
    says "-s takes numbers with commas"
done
run 0 h5market help plan
says "h5dump's notation" "--json"

mkdir tier
cat >h5market.yaml <<END
memory: 64MiB
ssd: $PWD/tier
ssd_size: 1GiB
ssd_least: 1
high_watermark: 1
low_watermark: 1
promote_after: 3
files: [{match: a.h5, mode: memory, keep: 2}, {match: "**", mode: memory}]
END
export H5MARKET_CONFIG=$PWD/h5market.yaml

# The folder may hold whatever it wants.
touch image

# plan FILE DATASET [SELECTION] -- CHECK...: Python on the plan, its pieces and (if there is one) the first.
plan() {
    local -a arguments=()
    while [[ $1 != -- ]]; do
        arguments+=("$1")
        shift
    done
    run 0 h5market plan --json "${arguments[@]}"
    "$MKT_PYTHON" - "${@:2}" <<'END' || fail "plan ${arguments[*]} isn't what it should be"
import json, sys
plan = json.load(open("out"))
pieces, totals = plan["pieces"], plan["totals"]
piece = pieces[0] if pieces else None
assert totals["pieces"] == len(pieces)
assert totals["wanted_bytes"] == sum(p["wanted_bytes"] for p in pieces)
assert totals["runs"] == sum(p["runs"] for p in pieces)
for p in pieces:
    assert p["runs"] * p["run_bytes_least"] <= p["wanted_bytes"] <= p["runs"] * p["run_bytes_most"], p
    assert p["wanted_bytes"] <= p["bytes"], p
for check in sys.argv[1:]:
    assert eval(check), (check, plan)
END
}

# What holds of the sample's datasets, wherever they are.
check_layout() {
    plan a.h5 grid -- 'plan["dims"] == [96, 96]' 'plan["element_bytes"] == 8' 'plan["elements"] == 9216' \
        'plan["holds_all"] and plan["disjoint"]' 'piece["form"] == "box"' 'piece["bytes"] == 73728' \
        'piece["wanted_bytes"] == 73728' 'piece["copy"] == "whole"' 'len(pieces) == 1'
    plan a.h5 /grid -s 46,3 -c 4,7 -- 'piece["wanted_bytes"] == 4 * 7 * 8' 'piece["runs"] == 4' \
        'piece["run_bytes_least"] == piece["run_bytes_most"] == 56' 'piece["copy"] == "strided"' 'plan["holds_all"]' \
        'plan["selection"]["start"] == [46, 3]' 'plan["selection"]["block"] == [4, 7]'
    plan a.h5 grid -s 95,95 -- 'plan["elements"] == 1' 'piece["copy"] == "run"' 'piece["run_bytes_most"] == 8'
    plan a.h5 grid -S 10,20 -c 9,4 -k 2,5 -- 'piece["wanted_bytes"] == 9 * 4 * 2 * 5 * 8' \
        'piece["runs"] == 9 * 2 * 4' 'piece["run_bytes_least"] == 40'
    plan a.h5 grid -s 3 -- 'plan["selection"]["start"] == [3, 0]' 'plan["elements"] == 1'
    plan a.h5 strided -- 'piece["form"] == "slab"' 'piece["bytes"] == 32 * 20 * 4' 'piece["runs"] == 640' \
        'piece["place"] == {"start": [0, 0], "stride": [3, 5], "count": [32, 20], "block": [1, 1]}' \
        'not plan["holds_all"]'
    plan a.h5 strided -s 3 -c 1,96 -- 'piece["wanted_bytes"] == 20 * 4' 'plan["elements"] == 96'
    plan a.h5 strided -s 1 -c 2,96 -- 'not pieces' 'plan["pieces_beside"] == 1' 'not plan["holds_all"]'
    plan a.h5 points -- 'piece["form"] == "list"' 'piece["wanted_bytes"] == 40 * 4'
    plan a.h5 board -- 'piece["form"] == "masked"' 'piece["bytes"] == 48 * 96 * 4' \
        'piece["wanted_bytes"] == 48 * 48 * 4'
    plan a.h5 board -c 48,96 -- 'not pieces'
    plan a.h5 runs -- 'piece["runs"] == 3' 'piece["run_bytes_least"] == 400' 'piece["run_bytes_most"] == 4000' \
        'piece["wanted_bytes"] == 1800 * 4'
    plan a.h5 runs -s 90 -c 100 -- 'piece["runs"] == 2' 'piece["wanted_bytes"] == (15 + 40) * 4'
    plan a.h5 scalar -- 'plan["dims"] == []' 'plan["elements"] == 1' 'piece["wanted_bytes"] == 8'
    plan a.h5 never_written -- 'not pieces' 'not plan["holds_all"]' 'plan["elements"] == 9216'
}

# --- in memory
run 0 "${in_market[@]}" "$sample" write a.h5
check_layout
plan a.h5 grid -- 'piece["where"] == "memory"' 'totals["tier"]["pieces"] == 0' '"whole" not in piece'
run 0 h5market plan a.h5 grid
says "a.h5, version 1, grid: 96 x 96 elements of 8 bytes" "wanted: 9216 elements, 72.0 KiB" "0:96,0:96" \
    "whole piece in one copy" "total: 1 piece, 72.0 KiB in 1 run"
says_not "below"
run 0 h5market plan a.h5 never_written
says "all are fill values"

# --- what can't be planned says why
run 1 h5market plan a.h5 none
says "there is no dataset none"
run 1 h5market plan a.h5 group
says "group is no dataset"
run 1 h5market plan a.h5 group/words
says "of variable length, and stay in the file's image"
run 1 h5market plan a.h5 group/reference
says "references"
run 1 h5market plan a.h5 grid -s 90 -c 10
says "outside" "in dimension 0 it ends at 100, and the dataset has 96"
run 1 h5market plan a.h5 grid -s 0,18446744073709551615 -k 1,2
says "outside" "dimension 1"
run 1 h5market plan a.h5 grid -c 2,0
says "empty"
run 1 h5market plan a.h5 grid -S 2,2 -c 2,2 -k 3,2
says "blocks overlap in dimension 0"
run 1 h5market plan a.h5 grid -s 1,2,3
says "-s has 3 numbers, and the dataset 2 dimensions"
run 1 h5market plan a.h5 scalar -s 0
says "the dataset 0 dimensions"
run 3 h5market plan none.h5 grid
says "not in the market"
run 3 h5market plan h5market.yaml grid
says "an ordinary file"
run 3 h5market plan a.h5 grid --version 7
says "has no version 7"

# --- older versions, and pieces over pieces
run 0 "${in_market[@]}" "$sample" write a.h5 2
run 0 h5market plan a.h5 grid
says "version 2"
run 0 h5market plan a.h5 grid --version 1
says "version 1"

run 0 "${in_market[@]}" "$sample" layers l2.h5 2
plan l2.h5 layers -- 'len(pieces) == 2' 'not plan["disjoint"] and not plan["holds_all"]' \
    'totals["wanted_bytes"] == 480000' 'plan["hidden_pieces"] == 0'
plan l2.h5 layers -s 50 -k 1000 -- 'len(pieces) == 1' 'plan["disjoint"] and plan["holds_all"]' 'piece["copy"] == "run"'
run 0 "${in_market[@]}" "$sample" layers l3.h5 3
plan l3.h5 layers -- 'len(pieces) == 1' 'plan["hidden_pieces"] == 2' 'plan["disjoint"] and plan["holds_all"]' \
    'piece["bytes"] == 400000'
run 0 "${in_market[@]}" "$sample" layers l4.h5 4
plan l4.h5 layers -- '[p["bytes"] for p in pieces] == [400000, 40]' 'plan["hidden_pieces"] == 2' \
    'plan["holds_all"] and not plan["disjoint"]'
run 0 h5market plan l4.h5 layers
says "2 older pieces lie under these, and aren't read" "pieces lie over one another"

# --- below memory: more than it may hold pushes all of a.h5 out
run 0 "${in_market[@]}" "$sample" large large.h5 8
is_out() {
    h5market stat --json "$1" | "$MKT_PYTHON" -c '
import json, sys
sys.exit(not all(v["tier_bytes"] > 0.9 * v["data_bytes"] for v in json.load(sys.stdin)["all_versions"]))'
}
wait_for is_out a.h5
wait_for is_out large.h5
check_layout
plan a.h5 grid -- 'piece["where"] == "tier"' 'piece["takes"] == "whole"' \
    'piece["whole"]["bytes"] == piece["parts"]["bytes"] == 73728' 'piece["whole"]["requests"] == 1' \
    'totals["tier"] == dict(piece["whole"], pieces=1, wanted_bytes=73728)'
plan a.h5 grid -s 46,3 -c 4,7 -- 'piece["takes"] == "parts"' 'piece["parts"]["requests"] == 1' \
    'piece["parts"]["bytes"] == 8192' '0 < piece["parts"]["ns"] < piece["whole"]["ns"]' \
    'totals["tier"]["bytes"] == 8192'
plan large.h5 large -- 'piece["whole"]["requests"] == 8' 'piece["whole"]["bytes"] == 8 << 20'
# Rows of 80 bytes, 64 KiB apart: each a block; as far apart as blocks are: no better than all of it.
plan large.h5 large -s 0 -S 8192 -c 100 -k 10 -- 'piece["parts"]["requests"] == 100' \
    'piece["parts"]["bytes"] == 100 * 4096' 'piece["wanted_bytes"] == 8000'
plan large.h5 large -s 1 -S 512 -c 2048 -- 'piece["takes"] == "whole"' 'piece["parts"]["bytes"] == 8 << 20'
run 0 h5market plan large.h5 large -s 0 -S 8192 -c 100 -k 10
says "below" "400 KiB in 100 requests" "whole 8.00 MiB in 8 requests" "below memory: 1 of them" "read 3 times"

# --- a read does what the plan says: one request of the daemon for a piece, of so many bytes
tier_counts() {
    h5market stat --json | "$MKT_PYTHON" -c '
import json, sys
tier = json.load(sys.stdin)["tier"]
print(tier["reads"], tier["moved_in_bytes"])'
}
# read_moves WANTED_READS LEAST_BYTES MOST_BYTES h5dump's arguments...
read_moves() {
    local reads=$1 least=$2 most=$3 before after
    shift 3
    read -ra before <<<"$(tier_counts)"
    run 0 "${in_market[@]}" h5dump "$@"
    read -ra after <<<"$(tier_counts)"
    local came=$((after[1] - before[1]))
    checks=$((checks + 1))
    ((after[0] - before[0] == reads && came >= least && came <= most)) ||
        fail "h5dump $*: $((after[0] - before[0])) reads of $came bytes, not $reads of $least to $most"
}
# A program without the address sanitizer can't load a connector with it.
can_dump() {
    command -v h5dump >/dev/null && ! "${in_market[@]}" h5dump -H a.h5 2>&1 | grep -q "ASan runtime"
}
if can_dump; then
    read_moves 1 56 8192 -d /grid -s 46,3 -c 1,7 a.h5
    read_moves 1 8000 409600 -d /large -s 0 -S 8192 -c 100 -k 10 large.h5
    read_moves 1 8388608 8388608 -d /large -s 1 -S 512 -c 2048 -o values large.h5
    # Whose bounds alone meet the selection isn't read at all.
    read_moves 0 0 0 -d /strided -s 1,0 -c 2,96 a.h5
fi
h5market stop --discard >/dev/null
finish
