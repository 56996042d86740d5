#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Prints the Python of a virtual environment with wheels of PyPI, each of which brings an HDF5 of its own
# under another name (h5py and netCDF4: HDF5 2, PyTables: 1.14); makes it first where the cache has none.
#
# Exit status: 0, or 77 with a line that says what is missing.

set -uo pipefail

wheels=('h5py>=3.15' 'netCDF4>=1.7' 'tables>=3.10' numpy)
cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/h5market
venv=$cache/venv-wheels

skip() {
    echo "wheels.sh: $*" >&2
    exit 77
}
is_made() { [[ -e $venv/made && $(<"$venv/made") == "${wheels[*]}" ]] && "$venv/bin/python3" -c 'import h5py, netCDF4, tables' 2>/dev/null; }

if ! is_made; then
    /usr/bin/python3 -c 'import venv, ensurepip' 2>/dev/null || skip "no python3 with venv here"
    mkdir -p "$cache" && exec 9>"$cache/venv-wheels.lock" || exit 1
    flock 9
fi
if ! is_made; then
    # The system's certificates, which a site may have added its own to; pip's own otherwise.
    certificates=/etc/ssl/certs/ca-certificates.crt
    [[ -z ${PIP_CERT-} && -r $certificates ]] && export PIP_CERT=$certificates
    rm -rf "$venv"
    if ! { /usr/bin/python3 -m venv "$venv" && "$venv/bin/python3" -m pip install --only-binary :all: "${wheels[@]}"; } \
        >"$cache/venv-wheels.log" 2>&1 9>&-; then
        skip "no wheels from PyPI (see $cache/venv-wheels.log)"
    fi
    echo "${wheels[*]}" >"$venv/made"
fi
echo "$venv/bin/python3"
