# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
#
# HDF5's own tools, each on what another wrote.

python=${MKT_PYTHON:-python3}
use=("$python" "$programs/use_h5py.py")
step "${use[@]}" write a.h5
step "${use[@]}" write b.h5
step "${use[@]}" update b.h5
step "${use[@]}" trim a.h5
step h5dump -H -p a.h5
step h5dump -A a.h5
step h5dump -d /grid -s 1,2,3 -c 2,2,2 a.h5
step h5dump -d /table -y -w 0 a.h5
step h5dump -d /zipped -o values.bin -b LE a.h5
step cksum values.bin
step h5dump -g /deep -n 1 a.h5
step h5dump -d /nothing a.h5
step h5dump --any_path=z a.h5
step h5ls a.h5
step h5ls -rv a.h5
step h5ls -d a.h5/grows
step h5ls -r a.h5/deep
step h5ls -E -r a.h5
step h5ls none.h5
step h5diff a.h5 a.h5
step h5diff a.h5 b.h5
step h5diff -v a.h5 b.h5 /grid /grid
step h5diff -p 0.9 a.h5 b.h5 /grid "/copy of grid"
step h5copy -i a.h5 -o c.h5 -s /zipped -d /one
step h5copy -i a.h5 -o c.h5 -p -s /deep -d /a/b/deep
step h5copy -i a.h5 -o c.h5 -s /table -d /table
step h5copy -f ref -i a.h5 -o c.h5 -s /grid -d /grid
step h5copy -i a.h5 -o c.h5 -s /table -d /table
step h5ls -r c.h5
step h5dump -d /one c.h5
step h5diff a.h5 c.h5 /zipped /one
step h5diff a.h5 c.h5 /deep /a/b/deep
step h5repack a.h5 repacked.h5
step h5diff a.h5 repacked.h5
step h5repack -f GZIP=9 -l CHUNK=20x20x6 a.h5 filtered.h5
step h5diff a.h5 filtered.h5
step h5dump -H -p -d /grid filtered.h5
step h5repack -f NONE filtered.h5 plain.h5
step h5diff a.h5 plain.h5
step "${use[@]}" show plain.h5
step h5repack -u 512 -t ub a.h5 user.h5
step h5stat -f -g -d -T a.h5
step h5stat -F a.h5
step h5import values.bin -d 100,1000 -p /imported -t IN -s 64 -o imported.h5
step h5dump -d /imported -c 2,5 imported.h5
step h5mkgrp -p c.h5 /made/by/tool
step h5ls -r c.h5/made
step h5clear -s c.h5
step h5ls c.h5
step h5dump -d /there other_a.h5
step h5repart a.h5 part.h5
step h5jam -u values.bin -i a.h5 -o jammed.h5
