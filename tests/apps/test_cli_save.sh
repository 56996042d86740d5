#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# save: what comes out is the file that native HDF5 would have written, whole or not at all.
# shellcheck source=tests/apps/common.sh
. "$(dirname "$0")/common.sh"

run 4 h5market save a.h5 b.h5
says "no market runs here"
run 2 h5market save a.h5
says "FILE and PATH are needed"

echo 'files: [{match: a.h5, keep: 2, mode: memory}, {match: "**", mode: memory}]' >h5market.yaml
export H5MARKET_CONFIG=$PWD/h5market.yaml
mkdir native target
run 0 "$sample" write native/a.h5 3
run 0 "${in_market[@]}" "$sample" write a.h5 4
run 0 "${in_market[@]}" "$sample" write a.h5 3

# --- the content
run 0 h5market save a.h5 saved.h5
says "a.h5, version 2" "saved to saved.h5"
run 0 "$sample" check saved.h5 3
if command -v h5diff >/dev/null; then
    run 0 h5diff native/a.h5 saved.h5
    run 0 h5dump -H -A saved.h5
    sed '/^HDF5/d' out >saved.dump
    run 0 h5dump -H -A native/a.h5
    sed '/^HDF5/d' out >native.dump
    run 0 diff native.dump saved.dump
fi
run 0 "${in_market[@]}" "$sample" check a.h5 3

# --- an older version
run 0 h5market save --version 1 a.h5 older.h5
run 0 "$sample" check older.h5 4
run 1 "$sample" check older.h5 3
run 2 h5market save --version none a.h5 c.h5
run 3 h5market save --version 77 a.h5 c.h5
says "a.h5 has no version 77" "h5market stat"
[[ ! -e c.h5 ]] || fail "a failed save left a file"

# --- names
run 0 h5market save a.h5 target
says "saved to target/a.h5"
run 0 "$sample" check target/a.h5 3
rm target/a.h5
run 0 h5market save a.h5 target/
says "saved to target/a.h5"
run 1 h5market save a.h5 none/b.h5
says "none"
run 3 h5market save none.h5 c.h5
says "not in the market"
run 3 h5market save native/a.h5 c.h5
says "an ordinary file"
ln -s saved.h5 link.h5
run 1 h5market save a.h5 link.h5
says "exists"
run 0 h5market save --force --version 1 a.h5 link.h5
[[ -L link.h5 ]] || fail "the link was replaced and not what it leads to"
run 0 "$sample" check saved.h5 4
run 1 h5market save --force a.h5 input/
mkfifo fifo
run 1 h5market save --force a.h5 fifo
says "no ordinary file"

# --- nothing is replaced without --force
run 1 h5market save a.h5 saved.h5
says "exists" "--force"
chmod 640 saved.h5
run 0 h5market save --force a.h5 saved.h5
run 0 "$sample" check saved.h5 3
[[ $(stat -c %a saved.h5) == 640 ]] || fail "the mode of a replaced file changed"
run 0 "${in_market[@]}" "$sample" write other.h5 5
run 1 h5market save a.h5 other.h5
says "stands for a file in the market" "withdrawn"
run 0 "${in_market[@]}" "$sample" check other.h5 5

# --- a failure leaves nothing (a small file system, or a limit of the file size)
run 0 "${in_market[@]}" "$sample" large large.h5 24
run 1 bash -c 'ulimit -f 8192; trap "" XFSZ; h5market save large.h5 cut.h5'
says "File too large"
[[ ! -e cut.h5 && ! -e .cut.h5.h5market-tmp ]] || fail "a failed save left a file"

# --- one at a time, and what a killed one left is taken over
exec 9>.busy.h5.h5market-tmp
flock 9
run 1 h5market save a.h5 busy.h5
says "another process"
exec 9>&-
run 0 h5market save a.h5 busy.h5
run 0 "$sample" check busy.h5 3
[[ ! -e .busy.h5.h5market-tmp ]] || fail "the temporary file is left"

# --- in place of its own entry: readers then get the file
run 1 h5market save a.h5 a.h5
run 0 h5market save --force a.h5 a.h5
run 0 h5market ls 'a.h5'
says "0 files"
run 0 "$sample" check a.h5 3
run 0 "${in_market[@]}" "$sample" check a.h5 3
run 3 h5market stat a.h5
run 0 "${in_market[@]}" "$sample" check other.h5 5
h5market stop --discard >/dev/null
finish
