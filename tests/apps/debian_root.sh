#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Prints the path of a Debian root with the distribution's own HDF5 and the programs that use it; makes
# it first where the cache has none (a few minutes, once; 1.2 GB). Needs debootstrap, root and a mirror.
#
# usage: debian_root.sh [--look] [SUITE]   trixie (HDF5 1.14) unless H5MARKET_DEBIAN_SUITE says sid (HDF5 2)
#
# A root's name tells what is in it, so checkouts that want different ones have each their own. One that
# nobody used for two weeks goes when another is made.
# Exit status: 0, or 77 with a line that says what is missing; with --look 1 where it would have to be made.

set -uo pipefail

look=no
[[ ${1-} == --look ]] && look=yes && shift
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd) || exit 1
suite=${1:-${H5MARKET_DEBIAN_SUITE:-trixie}}
mirror=${H5MARKET_DEBIAN_MIRROR:-http://deb.debian.org/debian}
cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/h5market
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
programs=(python3-netcdf4 python3-tables netcdf-bin mpich libhdf5-mpich-dev)

skip() {
    echo "debian_root.sh: $*" >&2
    exit 77
}

# What the root should hold: these programs, and what the project is built with there.
wanted() {
    printf '%s\n' "${programs[@]}"
    sed 's/#.*//; s/[[:space:]]//g; /^$/d' "$here"/../../cmake/debian-{,13-}packages.txt
}

in_root() {
    chroot "$work" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive "$@"
}

# The mounts below are this namespace's own and end with it, before anything is removed.
if [[ ${1-} == --inside ]]; then
    suite=$2 work=$3
    set -e
    debootstrap --variant=minbase --keyring="$keyring" "$suite" "$work" "$mirror"
    mount -t proc proc "$work/proc"
    mount --bind /dev "$work/dev"
    # Nothing here has to outlive a power cut, nor be read by a person; nothing is started.
    printf '%s\n' force-unsafe-io 'path-exclude=/usr/share/doc/*' 'path-exclude=/usr/share/man/*' \
        'path-exclude=/usr/share/locale/*' >"$work/etc/dpkg/dpkg.cfg.d/small"
    printf '#!/bin/sh\nexit 101\n' >"$work/usr/sbin/policy-rc.d"
    chmod 755 "$work/usr/sbin/policy-rc.d"
    mapfile -t packages < <(wanted)
    # A mirror may lag, and sid's lists expire after a week; their signature counts.
    in_root apt-get -o Acquire::Check-Valid-Until=false update
    in_root apt-get -o APT::Sandbox::User=root install -y --no-install-recommends "${packages[@]}"
    in_root apt-get clean
    rm -rf "$work"/var/lib/apt/lists/*
    mkdir -p "$work/h5market/"{source,build,venv}
    exit 0
fi

stamp() { { wanted; sed -n '/--inside/,/^fi/p' "${BASH_SOURCE[0]}"; } | sha256sum | cut -c 1-12; }
root=$cache/root-$suite-$(stamp)
is_made() { [[ -e $root/h5market/made ]]; }

is_made || [[ $look == no ]] || exit 1
if ! is_made; then
    ((EUID == 0)) || skip "only root can make a Debian root in $root"
    command -v debootstrap >/dev/null || skip "debootstrap isn't installed, so there is no Debian root to test in"
    unshare -m true 2>/dev/null || skip "no mount namespaces here"
    mkdir -p "$cache" || exit 1
    exec 9>"$cache/root-$suite.lock"
    flock 9
fi
if ! is_made; then
    rm -rf --one-file-system "$cache/root-$suite".??????
    for old in "$cache"/root-*-????????????; do
        [[ -z $(find "$old/h5market/made" -mtime +14 2>/dev/null) ]] || rm -rf --one-file-system "$old"
    done
    work=$(mktemp -d "$cache/root-$suite.XXXXXX") && chmod 755 "$work" || exit 1
    echo "debian_root.sh: making $root from $mirror (a few minutes, once)" >&2
    start=$SECONDS
    if ! unshare -m --propagation private "${BASH_SOURCE[0]}" --inside "$suite" "$work" \
        >"$cache/root-$suite.log" 2>&1 </dev/null 9>&-; then
        tail -n 5 "$cache/root-$suite.log" | sed 's/^/  /' >&2
        rm -rf --one-file-system "$work"
        skip "no $suite from $mirror (see $cache/root-$suite.log)"
    fi
    touch "$work/h5market/made"
    mv -T "$work" "$root" || exit 1
    echo "debian_root.sh: made in $((SECONDS - start)) s" >&2
fi
touch "$root/h5market/made" 2>/dev/null
echo "$root"
