#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The scenarios of transfers, with both files in the market, and with one of them.
# usage: transfers.sh native|market PROGRAM

set -eu
mode=$1 program=$2 mixed=()

if [[ $mode == market ]]; then
    mixed=(mixed)
    export HDF5_VOL_CONNECTOR=market H5MARKET_CONFIG=$PWD/rules.yaml
    printf 'files:\n  - {match: "*real*", mode: file}\n  - {match: "**", mode: memory}\n' >rules.yaml
fi
for pair in "a.h5 b.h5" "c.h5 real.h5" "real2.h5 d.h5"; do
    read -r one two <<<"$pair"
    "$program" write "$one" "$two" "${mixed[@]}"
    "$program" read "$one" "$two" "${mixed[@]}"
done
if [[ $mode == market ]]; then
    [[ $(stat -c %s a.h5) == 512 && $(stat -c %s real.h5) != 512 ]]
    # Natively the datasets of one call are of one file.
    "$program" write e.h5 f.h5
    h5market save e.h5 saved.h5
    h5market save f.h5 saved2.h5
    env -u HDF5_VOL_CONNECTOR "$program" read saved.h5 saved2.h5
fi
