#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# What an archiver writes is what native would have written: saved.c's files, made both ways.
# usage: saved.sh PROGRAM

set -u
program=$1
failures=0
fail() {
    echo "FAILED: $*" >&2
    failures=$((failures + 1))
}

mkdir native market
printf 'files: [{match: "**", mode: both}]\n' >rules.yaml
export H5MARKET_CONFIG=$PWD/rules.yaml
env -u HDF5_PLUGIN_PATH "$program" native || exit 1
HDF5_VOL_CONNECTOR=market "$program" market || exit 1
h5market wait --all || exit 1
unset HDF5_PLUGIN_PATH

# Where things are in the file is neither's business; nor is how full its free-space lists are.
properties() { h5dump -p "$1" | sed -e "s#$1#FILE#" -e 's/OFFSET [0-9]*/OFFSET/'; }
statistics() {
    h5stat "$1" | sed "s#$1#FILE#" | grep -vE 'sections|^File space information|free space|Free-space|Unaccounted|Total space|metadata|Index:|Header:|Groups:|Datasets\(|Datatypes:|Superblock'
}
files=0
for file in native/*.h5; do
    name=$(basename "$file")
    files=$((files + 1))
    (($(stat -c %s "market/$name") > 512)) || fail "$name isn't there"
    for look in properties statistics; do
        $look "native/$name" >one 2>&1
        $look "market/$name" >two 2>&1
        [[ -s one ]] && diff one two >differences || fail "$name, $look: $(head -n 12 differences)"
    done
    h5diff "native/$name" "market/$name" >differences 2>&1 ||
        fail "$name, h5diff: $(head -n 8 differences)"
done
((files >= 7)) || fail "$files files"
echo "$files files, $failures failures"
((failures == 0))
