#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A stub that is removed withdraws its object, wherever it was moved; a withdrawn object takes its stub along.
source "$(dirname "$0")/daemon.sh"


"$probe" write "$PWD/a.h5" 1 >/dev/null || fail "no write"
mkdir -p elsewhere
mv a.h5 elsewhere/b.h5
"$probe" read "$PWD/elsewhere/b.h5" 1 >/dev/null || fail "a moved stub leads nowhere"
sleep 1.5
expect "versions after the move" "$(status versions)" 1
rm elsewhere/b.h5
until_true 5 has_status versions 0 || fail "the removed stub's object stays"
until_true 3 has_status stubs 0 || fail "the descriptor of a removed stub stays"

# With `keep: 1` over two files, the second takes the first's place, whose stub goes wherever it is.
printf 'files: [{match: "plt*", keep: 1, mode: memory}]\n' >keep.yaml
H5MARKET_CONFIG=$PWD/keep.yaml "$probe" write "$PWD/plt1" 1 >/dev/null || fail "no write"
mv plt1 elsewhere/plt0
H5MARKET_CONFIG=$PWD/keep.yaml "$probe" write "$PWD/plt2" 1 >/dev/null || fail "no write"
until_true 5 has_status versions 1 || fail "'keep' doesn't hold"
until_true 3 test ! -e elsewhere/plt0 || fail "the stub of an object that is gone stays"
[[ -e plt2 ]] || fail "the wrong stub went"
stop_daemon
