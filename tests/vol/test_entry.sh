#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The entry object: which libhdf5 it serves, and what it says where it can't.
# usage: test_entry.sh ENTRY-PROGRAM HDF5-LIBRARY CONNECTOR-FOLDER

program=$1 library=$2 connectors=$3
plugin=$HDF5_PLUGIN_PATH
failed=0

fail() {
    echo "FAILED: $*" >&2
    failed=1
}
# says TEXT COUNT: lines of standard error with that text
says() {
    local count
    count=$(grep -c -- "$1" errors)
    ((count == $2)) || { fail "'$1' came $count times, not $2:" && cat errors >&2; }
}

export HDF5_VOL_CONNECTOR=market

# the program's own libhdf5
"$program" write own.h5 2>errors || fail "own libhdf5" 
says h5market: 0
[[ $(stat -c %s own.h5) == 512 ]] || fail "own.h5 is not in the market"

# a private copy of libhdf5 under another name, as in a Python wheel
cp "$library" ./libhdf5-0123abcd.so.310
"$program" private ./libhdf5-0123abcd.so.310 private.h5 2>errors || { fail "private libhdf5" && cat errors; }
says h5market: 0
[[ $(stat -c %s private.h5) == 512 ]] || fail "private.h5 is not in the market"

# another libhdf5 is in the global scope already: refused, once, and not served by the wrong one
"$program" both ./libhdf5-0123abcd.so.310 both.h5 2>errors
says "h5market: two HDF5 libraries" 1

# no connector for this HDF5
mkdir -p alone/lib/hdf5/plugin
cp "$plugin"/libhdf5_vol_market.so alone/lib/hdf5/plugin/
HDF5_PLUGIN_PATH=$PWD/alone/lib/hdf5/plugin "$program" write alone.h5 2>errors
says "h5market: no connector for HDF5" 1
grep -q "HDF5_ROOT" errors || fail "no remedy"

# something else in the connector's place
mkdir -p alone/lib/h5market
for connector in "$connectors"/libh5market_vol_*.so; do
    cp "$plugin"/libhdf5_vol_market.so alone/lib/h5market/"${connector##*/}"
done
HDF5_PLUGIN_PATH=$PWD/alone/lib/hdf5/plugin "$program" write alone.h5 2>errors
says "is not a connector of H5Market" 1

# a program that shows no symbol of HDF5 to anybody, as one that it is linked into statically
"$program" ask "$plugin"/libhdf5_vol_market.so 2>errors || fail "asking without a libhdf5"
says "h5market: HDF5 is linked into the program statically" 1

# a connector string that isn't understood: said aloud, since HDF5 then goes on without us
HDF5_VOL_CONNECTOR="market wait=soon" "$program" write string.h5 2>errors
says "h5market: .*wait" 1

exit $failed
