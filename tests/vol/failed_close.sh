#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# What HDF5 could not finish is not published: the former version stays, or there is none.
# usage: failed_close.sh PROGRAM

# shellcheck source=tests/vol/h5do.sh
mode=market
source "$(dirname "$0")/h5do.sh"
program=$1

# The second time that an image's memory grows: the first is for what it starts with.
fails() {
    local grows=$1
    shift
    run 0 env H5MARKET_FAULT=vol.image-memory:error=NO_MEMORY:"$grows" "$program" "$@"
}

former_stays() {
    run 0 "$program" count "$1"
    [[ $(<out) == 1 ]] || fail "$1 holds $(<out) objects, not 1"
    run 0 "$H5DO" "open $1" "check d 5" "close"
}

FUNCNAME_OF_CASE=former
run 0 "$H5DO" "create x.h5" "make d 100" "putall d 5" "close"
for how in edit edit-late; do
    fails 2 $how x.h5
    former_stays x.h5
done
# Nothing is left of them: the file can be written and read as ever.
run 0 "$H5DO" "openrw x.h5" "group g" "close"
run 0 "$program" count x.h5
[[ $(<out) == 2 ]] || fail "x.h5 holds $(<out) objects, not 2"

FUNCNAME_OF_CASE=none
fails 2 create new.h5
run 1 "$program" count new.h5
run 0 "$H5DO" "create new.h5" "make d 100" "putall d 5" "close"
former_stays new.h5
exit $((failures > 0))
