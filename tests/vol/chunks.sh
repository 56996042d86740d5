#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# What chunks is answered through the market is what it is answered natively.
# usage: chunks.sh PROGRAM

set -eu
program=$1
mkdir native market
for bounds in earliest latest; do
    (cd native && "$program" write "$bounds.h5" "$bounds" >"$bounds.write" && "$program" read "$bounds.h5" >"$bounds.read")
    (cd market && export HDF5_VOL_CONNECTOR=market &&
        "$program" write "$bounds.h5" "$bounds" >"$bounds.write" && "$program" read "$bounds.h5" >"$bounds.read")
    [[ $(stat -c %s "market/$bounds.h5") == 512 ]]
    for step in write read; do
        grep -q 'all filters, whole: [1-9]' "native/$bounds.$step"
        diff "native/$bounds.$step" "market/$bounds.$step"
    done
done
