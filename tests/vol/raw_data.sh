#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The scenarios of raw_data in one process and in another, and out of the market into a real file.
# usage: raw_data.sh native|market PROGRAM

set -eu
mode=$1 program=$2

if [[ $mode == native ]]; then
    "$program" write out.h5
    exec "$program" read out.h5
fi
export HDF5_VOL_CONNECTOR=market
"$program" write out.h5
"$program" read out.h5
if [[ $(stat -c %s out.h5) != 512 ]]; then
    echo "raw_data.sh: data went to disk: $(stat -c %s out.h5) bytes" >&2
    exit 1
fi
# Thousands of small writes, rows appended one by one: the pieces stay few.
pieces=$(h5market stat out.h5 --json | sed -n 's/.*"pieces": \([0-9]*\).*/\1/p')
if ((pieces > 260)); then
    echo "raw_data.sh: $pieces pieces" >&2
    exit 1
fi
h5market save out.h5 saved.h5
# A saved file says when space was allocated in it, not when the writer wanted it.
env -u HDF5_VOL_CONNECTOR "$program" read saved.h5 answers
