#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Virtual datasets and their sources in files, in the market, and one in each. Files named real are
# on disk in any case.
# usage: virtual.sh native|market PROGRAM

set -eu
mode=$1 program=$2

if [[ $mode == market ]]; then
    export HDF5_VOL_CONNECTOR=market H5MARKET_CONFIG=$PWD/rules.yaml
    printf 'files:\n  - {match: "*real*", mode: file}\n  - {match: "**", mode: memory}\n' >rules.yaml
fi

# a virtual file, its two sources
check() {
    "$program" sources "$2" "$3"
    "$program" create "$1" "$2" "$3"
    "$program" read "$1"
    "$program" write "$1" "$2"
}
check v.h5 a.h5 b.h5
check v_real.h5 a2.h5 b2.h5
check v3.h5 a3_real.h5 b3_real.h5
check v4_real.h5 a4_real.h5 b4.h5

# From another folder: sources are found beside the virtual file, or by the environment.
mkdir -p folder elsewhere
(cd folder && "$program" sources a5.h5 b5.h5 && "$program" create v5.h5 a5.h5 b5.h5)
"$program" read folder/v5.h5
(cd folder && "$program" sources a6.h5 b6.h5)
"$program" create elsewhere/v6.h5 a6.h5 b6.h5
HDF5_VDS_PREFIX=$PWD/nowhere:$PWD/folder "$program" read elsewhere/v6.h5

if [[ $mode == market ]]; then
    [[ $(stat -c %s v.h5) == 512 && $(stat -c %s a2.h5) == 512 && $(stat -c %s v_real.h5) != 512 ]]
    "$program" refuse w.h5 a3_real.h5
    "$program" refuse w_real.h5 a2.h5
fi
