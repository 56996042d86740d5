# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Wheels, each with an HDF5 of its own: h5py with 1.14 (old) and 2 (new), netCDF4, PyTables; and MPI programs.

old=$MKT_PYTHON
new=$MKT_NEW_PYTHON
examples=$MKT_BUILD_DIR/h5examples
h5py() { step "$1" "$programs/use_h5py.py" "${@:2}"; }
netcdf() { step "$new" "$programs/use_netcdf.py" "$@"; }
tables() { step "$new" "$programs/use_tables.py" "$@"; }

h5py "$old" write a.h5
h5py "$new" show a.h5
h5py "$new" update a.h5
h5py "$old" show a.h5
h5py "$new" write b.h5
h5py "$old" show b.h5
h5py "$old" update b.h5
h5py "$new" show second_b.h5
h5py "$new" modes m.h5
h5py "$old" show m.h5
netcdf write c.nc
netcdf append c.nc
netcdf show c.nc
h5py "$old" show c.nc
h5py "$new" show c.nc
tables write d.h5
tables append d.h5
tables show d.h5
tables show copy_d.h5
if [[ -x $examples/simulation && -n ${MKT_MPIEXEC-} ]]; then
    step "$MKT_MPIEXEC" -n 2 "$examples/simulation" --dir . --steps 2
    for python in "$old" "$new"; do
        step "$python" "$MKT_SOURCE_DIR/h5examples/analysis.py" --dir . --steps 2
        for i in 0000 0001; do
            h5py "$python" duplicate step_$i.h5 copy_$i.h5
        done
        step "$MKT_MPIEXEC" -n 3 "$examples/analysis" --dir . --steps 2 --prefix copy
        step rm copy_0000.h5 copy_0001.h5
    done
fi
