# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
#
# PyTables: tables with indexes, arrays of all kinds with its own filters; read by others too.

python=${MKT_PYTHON:-python3}
use=("$python" "$programs/use_tables.py")
step "${use[@]}" write a.h5
step "${use[@]}" show a.h5
step "${use[@]}" append a.h5
step "${use[@]}" show a.h5
step "${use[@]}" show copy_a.h5
step ptdump -v a.h5
step ptrepack --complib=zlib --complevel=3 a.h5 packed.h5
step "${use[@]}" show packed.h5
step h5ls -r a.h5
step "$python" "$programs/use_h5py.py" show packed.h5
