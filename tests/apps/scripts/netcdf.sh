# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
#
# netCDF4-python writes and appends; it, netCDF's own tools and HDF5's read. And ncgen writes for all.

python=${MKT_PYTHON:-python3}
use=("$python" "$programs/use_netcdf.py")
step "${use[@]}" write a.nc
step "${use[@]}" show a.nc
step "${use[@]}" append a.nc
step "${use[@]}" show a.nc
step ncdump a.nc
step ncdump -hs a.nc
step ncdump -k a.nc
step nccopy a.nc copy.nc
step "${use[@]}" show copy.nc
step nccopy -d 7 -s -c time/4,lat/5,lon/6 a.nc chunked.nc
step ncdump -hs chunked.nc
step "${use[@]}" show chunked.nc
ncdump a.nc >a.cdl 2>/dev/null
step ncgen -k nc4 -o generated.nc a.cdl
step ncdump generated.nc
step "${use[@]}" append generated.nc
step "${use[@]}" show generated.nc
step nccopy -k classic generated.nc classic.nc
step nccopy -k nc7 classic.nc again.nc
step ncdump again.nc
step python3 -c 'import h5py; f = h5py.File("a.nc"); f.visititems(lambda n, o: print(n, o, dict(f[n].attrs).keys()))'
step h5dump -n 1 a.nc
step h5dump -A a.nc
step h5diff a.nc generated.nc
step h5diff -v a.nc copy.nc
