#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# All data of a file is saved, however its datasets are reached.
# usage: reached.sh PROGRAM

set -eu
program=$1
native() { env -u HDF5_VOL_CONNECTOR -u HDF5_PLUGIN_PATH "$program" "$@"; }
printf 'files: [{match: "m*", mode: memory}, {match: "f*", mode: memory, publish: flush}, {match: "*", mode: both}]\n' >rules.yaml
export H5MARKET_CONFIG=$PWD/rules.yaml HDF5_VOL_CONNECTOR=market
native write native.h5
native check native.h5
for file in memory.h5 both.h5 flushed.h5; do
    "$program" write "$file"
    "$program" check "$file"
done
timeout 20 h5market wait both.h5
native check both.h5
h5market save memory.h5 saved.h5
native check saved.h5
h5market save flushed.h5 saved_too.h5
native check saved_too.h5
echo "all data is on disk"
