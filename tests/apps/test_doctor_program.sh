#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The doctor sees which HDF5 a program would use, without running it.
# shellcheck source=tests/apps/common.sh
. "$(dirname "$0")/common.sh"

export HDF5_VOL_CONNECTOR=market
run 0 h5market start

run 0 h5market doctor "$sample"
says "ok       $sample uses HDF5 " "flavour \`"
run 0 h5market doctor -- env A=b nice "$sample" write x.h5
says "ok       $sample uses HDF5 "
[[ ! -e x.h5 ]] || fail "the doctor ran the program"
run 0 bash -c "PATH=$MKT_APPS_DIR:\$PATH h5market doctor apps_sample"
says "apps_sample uses HDF5 "

run 1 h5market doctor "$MKT_APPS_DIR/apps_uses_old"
says "uses HDF5 1.10.8" "too old" "remedy: use HDF5 1.14 or newer"
run 1 h5market doctor "$MKT_APPS_DIR/apps_uses_strange_mpi"
says "over an MPI that isn't known" "remedy: use an HDF5 over Open MPI"
run 1 h5market doctor "$MKT_APPS_DIR/apps_uses_two"
says "would load two HDF5 libraries" "libapps_hdf5_serial.so" "libapps_hdf5_old.so" "needed by" "remedy: let all its parts use one libhdf5"
run 1 h5market doctor "$MKT_APPS_DIR/apps_has_static"
says "has HDF5 1.14.5 linked into it statically" "-rdynamic"
run 0 h5market doctor "$MKT_APPS_DIR/apps_has_static_shown"
says "shows it to plugins (-rdynamic)"
run 0 h5market doctor "$MKT_APPS_DIR/apps_uses_none"
says "warning" "isn't linked with HDF5" "h5market run"
cp "$MKT_APPS_DIR/apps_has_static" stripped
if command -v strip >/dev/null; then
    strip stripped
    run 1 h5market doctor ./stripped
    says "linked into it statically"
fi

# --- a library that isn't there
mkdir moved
cp "$MKT_APPS_DIR/apps_uses_old" moved/
if command -v patchelf >/dev/null; then
    patchelf --remove-rpath moved/apps_uses_old
    run 1 h5market doctor moved/apps_uses_old
    says "which isn't found" "LD_LIBRARY_PATH"
    run 1 env LD_LIBRARY_PATH="$MKT_APPS_DIR" h5market doctor moved/apps_uses_old
    says "uses HDF5 1.10.8"
fi

# --- scripts, and what is no program
printf '#!%s\nexec ./sim\n' "$(command -v bash)" >script && chmod +x script
run 0 h5market doctor ./script
says "is a script for" "remedy: name the program that it runs"
printf '#!/no/such/interpreter\n' >orphan && chmod +x orphan
run 1 h5market doctor ./orphan
says "which isn't found"
run 1 h5market doctor ./none
says "there is no program ./none"
printf 'text\n' >text && chmod +x text
run 0 h5market doctor ./text
says "no program that can be looked into"
head -c 100 "$sample" >torn && chmod +x torn # a torn ELF file must not hurt
timeout 20 h5market doctor ./torn >out 2>&1
(($? < 2)) || fail "a torn program ended the doctor badly"
if "${MKT_PYTHON:-none}" -c 'import h5py, sys; sys.exit(h5py.version.hdf5_version_tuple < (1, 14))' 2>/dev/null; then
    printf '#!%s\nimport h5py\n' "$MKT_PYTHON" >program.py && chmod +x program.py
    run 0 h5market doctor ./program.py
    says "h5py" "uses HDF5 1.14"
fi
run 0 h5market stop
finish
