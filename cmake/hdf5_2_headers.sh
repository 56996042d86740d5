#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Prints a prefix with the headers of HDF5 2 (with MPI), of Debian sid's package: enough to compile the
# connectors, which link no HDF5. Fetches and unpacks it first where the cache has none (about 15 s);
# nothing is installed. Needs apt-get, dpkg-deb and a mirror.
#
# Exit status: 0, or 77 with a line that says what is missing.

set -uo pipefail

mirror=${H5MARKET_DEBIAN_MIRROR:-http://deb.debian.org/debian}
cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/h5market
prefix=$cache/hdf5-2-headers
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

skip() {
    echo "hdf5_2_headers.sh: $*" >&2
    exit 77
}
is_there() { grep -qs '^#define H5_VERS_MAJOR[[:space:]]*2' "$prefix/include/H5public.h"; }

fetch() {
    local work=$1 options
    mkdir -p "$work"/apt/{lists,archives}/partial "$work/sources" || return
    printf '%s\n' 'Types: deb' "URIs: $mirror" 'Suites: sid' 'Components: main' "Signed-By: $keyring" \
        >"$work/sources/sid.sources"
    # Lists and caches of its own. A mirror may lag, and sid's lists expire after a week; their signature counts.
    options=(-o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$work/sources"
        -o Dir::State::Lists="$work/apt/lists" -o Dir::Cache="$work/apt" -o Acquire::Check-Valid-Until=false
        -o Acquire::Languages=none -o Acquire::Retries=0 -o Acquire::http::Timeout=15)
    ((EUID == 0)) && options+=(-o APT::Sandbox::User=root)
    apt-get "${options[@]}" update &&
        (cd "$work" && apt-get "${options[@]}" download libhdf5-openmpi-dev) &&
        dpkg-deb -x "$work"/libhdf5-openmpi-dev_*.deb "$work/root" &&
        mkdir "$work/prefix" &&
        mv "$work"/root/usr/include/hdf5/openmpi "$work/prefix/include"
}

if ! is_there; then
    for command in apt-get dpkg-deb; do
        command -v $command >/dev/null || skip "no $command here, so no headers of HDF5 2"
    done
    [[ -r $keyring ]] || skip "$keyring is missing (package debian-archive-keyring)"
    mkdir -p "$cache" && exec 9>"$prefix.lock" || exit 1
    flock 9
fi
if ! is_there; then
    rm -rf "$prefix".??????
    work=$(mktemp -d "$prefix.XXXXXX") || exit 1
    fetch "$work" >"$prefix.log" 2>&1 </dev/null 9>&- && rm -rf "$prefix" && mv -T "$work/prefix" "$prefix"
    rm -rf "$work"
    is_there || skip "no headers of HDF5 2 from $mirror (see $prefix.log)"
fi
echo "$prefix"
