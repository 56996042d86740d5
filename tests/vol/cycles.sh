#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Circles of files, all in memory or one of them on disk, as natively.
# usage: cycles.sh PROGRAM

set -eu
program=$1
printf 'files:\n  - {match: "*real*", mode: file}\n  - {match: "**", mode: memory}\n' >rules.yaml

run() { # folder, files
    local folder=$1
    shift
    mkdir -p "$folder"
    for step in write read change read; do
        echo "== $step"
        (cd "$folder" && "$program" "$step" "$@")
    done
}
for files in "a.h5 b.h5 c.h5" "a.h5 b_real.h5 c.h5" "a_real.h5 b.h5 c_real.h5"; do
    # shellcheck disable=SC2086
    run "native ${files//[ .]/_}" $files >native.txt
    # shellcheck disable=SC2086
    HDF5_VOL_CONNECTOR=market H5MARKET_CONFIG=$PWD/rules.yaml run "market ${files//[ .]/_}" $files >market.txt
    grep -q 'next/next/next/next/next/next/next/next/v is /v' native.txt
    diff native.txt market.txt
done
[[ $(stat -c %s "market a_h5_b_h5_c_h5/a.h5") == 512 ]]
