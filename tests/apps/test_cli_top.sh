#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# top: what it says in a pipe and as JSON, and when the market goes. Its screen: top_screen.py.
# shellcheck source=tests/apps/common.sh
. "$(dirname "$0")/common.sh"

run 4 h5market top
says "no market runs here"
run 2 h5market top frob
says "no arguments are taken"
run 2 h5market top --delay 0
says "at least 0.05 seconds"
run 2 h5market top --files some
run 0 h5market help top
says "--once" "--json" "Ctrl-C"

mkdir tier
cat >h5market.yaml <<END
memory: 64MiB
ssd: $PWD/tier
ssd_size: 1GiB
ssd_least: 1
high_watermark: 1
low_watermark: 1
files: [{match: "**", mode: memory}]
END
export H5MARKET_CONFIG=$PWD/h5market.yaml
run 0 "${in_market[@]}" "$sample" large large.h5 8
run 0 "${in_market[@]}" "$sample" write small.h5

# --- one look: files by size, nothing else going on
run 0 h5market top --once -d 0.2
says "memory  [" " of 64.0 MiB (" "below   [" " of 1.00 GiB (" "written 0 B/s" \
    "0 versions to be saved" "large.h5" "small.h5"
says_not "WAITS"
says_not "more files"
[[ $(grep -n large.h5 out | cut -d: -f1) -lt $(grep -n small.h5 out | cut -d: -f1) ]] ||
    fail "the largest file isn't the first"
run 0 h5market top --once -d 0.1 --files 1
says "large.h5" "1 more file"
says_not "small.h5"

# --- what happens meanwhile: a version, opens, a writer, and one who waits for it
mkfifo input
HDF5_VOL_CONNECTOR=market "$sample" hold held.h5 <input >held.out 2>&1 &
writer=$!
exec 8>input
wait_for grep -q open held.out
HDF5_VOL_CONNECTOR=market "$sample" check held.h5 >/dev/null 2>&1 8>&- &
reader=$!
wait_for bash -c 'h5market stat --json | grep -q "\"waiting_opens\": 1"'
h5market top --json -d 2 >out 2>&1 &
top=$!
sleep 0.5
"${in_market[@]}" "$sample" write small.h5 2
"${in_market[@]}" "$sample" check small.h5 2 || fail "small.h5 isn't right"
wait_for test -s out
kill "$top"
wait "$top"
head -n 1 out >first
WRITER=$writer READER=$reader "$MKT_PYTHON" - <<'END' || fail "top --json isn't what it should be"
import json, os
look = json.loads(open("first").read())
small = 96 * 96 * (8 + 8 + 4) + 1800 * 4 + 40 * 4  # about: what "write" writes
rates, objects = look["rates"], {os.path.basename(o["path"]): o for o in look["objects"]}
assert 1.9 < look["interval_s"] < 10, look["interval_s"]
wrote = rates["written_bytes"] * look["interval_s"]
assert 0.9 * small - 96 * 96 * 4 < wrote < 1.2 * small, (wrote, small)
assert round(rates["publishes"] * look["interval_s"]) == 1, rates
assert round(rates["read_opens"] * look["interval_s"]) == 1, rates
assert rates["tier_reads"] > 0 or rates["moved_out_bytes"] >= 0, rates
assert [os.path.basename(o["path"]) for o in look["objects"]] == ["small.h5", "held.h5", "large.h5"]
assert objects["small.h5"]["new_versions"] == 1 and objects["large.h5"]["new_versions"] == 0
assert objects["held.h5"]["writer"]["pid"] == int(os.environ["WRITER"])
assert objects["large.h5"]["tier_bytes"] >= 8 << 20
waits = look["market"]["waits"]
assert len(waits) == 1 and waits[0]["for"] == "version", waits
assert waits[0]["pid"] == int(os.environ["READER"]) and waits[0]["path"].endswith("held.h5"), waits
assert os.environ["WRITER"] in waits[0]["waits_on"], waits
tier = look["market"]["tier"]
assert tier["bytes_per_s"] > 0 and tier["latency_ns"] > 0 and tier["queue_depth"] > 0, tier
END
run 0 h5market top --once -d 0.1
says "WAITS" "$reader" "version of $PWD/held.h5" "apps_sample (pid $writer)" "apps_sample (1)"
exec 8>&-
wait "$writer"
wait "$reader"

# --- in a pipe it goes on until the market goes
h5market top -d 0.1 >out 2>&1 &
top=$!
wait_for bash -c '(($(grep -c "^memory" out) >= 3))'
h5market stop --discard >/dev/null
wait "$top"
[[ $? == 4 ]] || fail "without a market it ended with another status than 4"
says "the market has gone"

# --- its screen
run 0 "$MKT_PYTHON" "$(dirname "$0")/top_screen.py" "$sample"
says "screen: ok"
finish
