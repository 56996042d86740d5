#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Members and elements that nobody wrote: in the writer, in a reader, and in saved files.
# usage: unwritten.sh native|market PROGRAM

set -eu
mode=$1 program=$2

mkdir files saved
if [[ $mode == native ]]; then
    "$program" write files
    exec "$program" read files
fi
export HDF5_VOL_CONNECTOR=market
"$program" write files
"$program" read files
for file in files/*.h5; do
    [[ $(stat -c %s "$file") == 512 ]]
    h5market save "$file" saved/ >/dev/null
done
env -u HDF5_VOL_CONNECTOR "$program" read saved
