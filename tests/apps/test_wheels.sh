#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The wheels of PyPI, HDF5 1.14 and 2, exchange with each other and with MPI programs. In a market of its own.

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
MKT_NEW_PYTHON=$("$here/wheels.sh") || exit
export MKT_NEW_PYTHON
"$MKT_PYTHON" -c 'import h5py' 2>/dev/null || { echo "no h5py in $MKT_PYTHON" && exit 77; }
"$MKT_NEW_PYTHON" -c 'import h5py; print("h5py", h5py.__version__, "with HDF5", h5py.version.hdf5_version)'
"$MKT_PYTHON" -c 'import h5py; print("h5py", h5py.__version__, "with HDF5", h5py.version.hdf5_version)'
"$MKT_NEW_PYTHON" -c 'import netCDF4; print("netCDF4", netCDF4.__version__, "with HDF5", netCDF4.__hdf5libversion__)'
"$MKT_NEW_PYTHON" -c 'import tables; print("PyTables", tables.__version__, "with HDF5", tables.hdf5_version)'
exec "$here/compare.sh" wheels
