#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# What users hear of files on their way to disk.
# usage: saving.sh CASE...
# shellcheck disable=SC2317 # cases are called by name
# shellcheck source=tests/vol/h5do.sh
# shellcheck disable=SC2034
mode=market
. "$(dirname "$0")/h5do.sh"

both() {
    printf '%s\n' "$@" "files:" '- {match: "m*", mode: memory}' '- {match: "*", mode: both, keep: 2}' >h5market.yaml
    export H5MARKET_CONFIG=$PWD/h5market.yaml
}
write() { one "create $1" "make d 100" "putall d $2" "close"; } # FILE VALUE
state_is() { # FILE STATE
    h5market ls "$1" | grep -qE " $2 +$PWD/$1$"
}
native_reads() { run 0 env -u HDF5_PLUGIN_PATH -u HDF5_VOL_CONNECTOR "$H5DO" "open $1" "check d $2"; }

# The states of files, in ls and stat.
states() {
    both
    write m.h5 1
    write a.h5 1
    run 0 h5market wait a.h5
    run 0 h5market ls
    says "STATE"
    state_is m.h5 memory || fail "m.h5 isn't in memory"
    state_is a.h5 saved || fail "a.h5 isn't saved"
    mkdir .a.h5.h5market-tmp
    write a.h5 2
    until_true 20 state_is a.h5 failing || fail "a.h5 doesn't fail"
    run 0 h5market ls
    says "$PWD/a.h5 isn't saved after " "h5market-tmp: Is a directory" "1 to be saved"
    run 0 h5market stat a.h5
    says "mode     both, durability async" "failing" "isn't saved after "
    # The former version is still what stands on disk.
    [[ $(grep -c " saved$" out) == 1 ]] || fail "not one version is saved"
    native_reads a.h5 1
    run 0 h5market stat
    says "to be saved     1"
    run 0 h5market stat --json a.h5
    says '"state": "failing"' '"mode": "both"' '"retry_s": '
    rmdir .a.h5.h5market-tmp
    run 0 h5market wait a.h5
    run 0 h5market stat a.h5
    [[ $(grep -c " saved$" out) == 1 && $(grep -c " memory$" out) == 1 ]] ||
        fail "the older version is on disk no more"
    native_reads a.h5 2
}

# A program whose file can't be saved hears of it at its next open, once; so does the next writer of that file.
notices() {
    both
    mkdir .a.h5.h5market-tmp
    background writer "$H5DO" "create a.h5" "make d 100" "putall d 1" "close" "mark written" "await failing" \
        "create b.h5" "make d 100" "putall d 1" "close" "create c.h5" "close" "open b.h5" "close"
    await written
    until_true 20 state_is a.h5 failing || fail "a.h5 doesn't fail"
    : >failing
    finished writer 0
    says "h5market: '$PWD/a.h5' is not on disk yet, it stays in memory: " "h5market-tmp: Is a directory"
    [[ $(grep -c "is not on disk yet" out) == 1 ]] || fail "it isn't said once"
    write a.h5 2 # told already, and nothing new
    says_not "is not on disk yet"
    rmdir .a.h5.h5market-tmp
    run 0 h5market wait --all
    # Another failure is news, for the next that writes the file, not for others.
    mkdir .a.h5.h5market-tmp
    write a.h5 3
    until_true 20 state_is a.h5 failing || fail "a.h5 doesn't fail again"
    write c.h5 4
    says_not "is not on disk yet"
    one "openrw a.h5" "putall d 5" "close"
    says "a.h5' is not on disk yet"
    rmdir .a.h5.h5market-tmp
    run 0 h5market wait --all
    native_reads a.h5 5
}

run_cases "$@"
