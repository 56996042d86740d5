# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
#
# MPI programs in C and Fortran with the distribution's parallel HDF5, serial tools and h5py, in turns.

python=${MKT_PYTHON:-python3}
examples=$MKT_BUILD_DIR/h5examples
export OMPI_MCA_btl=^tcp
job() { step mpiexec -n "$1" "$examples/$2" --dir . --steps 3 "${@:3}"; }
job 2 simulation
job 3 analysis
step "$python" "$MKT_SOURCE_DIR/h5examples/analysis.py" --dir . --steps 3
job 3 simulation --prefix uneven --dims 17 9 11 --particles 77 --independent
job 2 analysis --prefix uneven
if [[ -x $examples/simulation_f ]]; then
    job 2 simulation_f --prefix fortran
    job 3 analysis --prefix fortran
fi
# What MPI wrote goes through serial tools and h5py and back to MPI.
for i in 0000 0001 0002; do
    step h5repack -l fields/density:CHUNK=5x7x9 "step_$i.h5" "packed_$i.h5"
    step h5diff "step_$i.h5" "packed_$i.h5"
    step "$python" "$programs/use_h5py.py" duplicate "packed_$i.h5" "copy_$i.h5"
done
job 3 analysis --prefix packed
job 2 analysis --prefix copy
step h5dump -A packed_0001.h5
step h5ls -r copy_0002.h5
