# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
#
# h5py: write, read, change, read again; modes of opening; and its files in HDF5's tools.

python=${MKT_PYTHON:-python3}
use=("$python" "$programs/use_h5py.py")
step "${use[@]}" write a.h5
step "${use[@]}" show a.h5
step "${use[@]}" update a.h5
step "${use[@]}" show a.h5
step "${use[@]}" show second_a.h5
step "${use[@]}" modes m.h5
step "${use[@]}" show m.h5
step h5dump a.h5
step h5ls -rv a.h5
