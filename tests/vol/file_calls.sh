#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# What a file answers to each call, as natively, however it was opened.
# usage: file_calls.sh PROGRAM

set -u
program=$1
mkdir native market
env -u HDF5_PLUGIN_PATH "$program" native >native.txt || exit 1
HDF5_VOL_CONNECTOR=market "$program" market >market.txt || exit 1
grep -q 'read-only: H5Gcreate: failed' native.txt || exit 1
# Natively a file of the latest format, or a dataset in it, that is converted while it is open for reading
# fails to close; in the market the conversion fails.
grep -q 'read-only: H5Fformat_convert, closed: failed' native.txt || exit 1
grep -q 'read-only: H5Fformat_convert: failed' market.txt || exit 1
for file in native.txt market.txt; do
    grep -vE '^latest format, read-only.*(H5[FD]format_convert|converted|all, closed)' "$file" >"compared.$file"
done
diff compared.native.txt compared.market.txt
