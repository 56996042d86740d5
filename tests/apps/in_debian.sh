#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Runs a command in the Debian root of debian_root.sh: this checkout is /h5market/source there (read
# only), /tmp is empty and its own, the working folder is /tmp. The mounts are those of a namespace
# that ends with the command. Exit status: the command's, or 77 without a root.
#
# usage: in_debian.sh COMMAND...

set -uo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd) || exit 1

if [[ ${1-} == --inside ]]; then
    root=$2 source=$3 build=$4
    shift 4
    set -e
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mount --rbind -o ro /sys "$root/sys" # hwloc reads it
    mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
    mount --bind "$source" "$root/h5market/source"
    mount -o remount,bind,ro "$root/h5market/source"
    exec chroot "$root" env -i PATH="/h5market/build/$build/bin:/usr/sbin:/usr/bin:/sbin:/bin" HOME=/root LANG=C.UTF-8 \
        MKT_BUILD_DIR="/h5market/build/$build" MKT_SOURCE_DIR=/h5market/source \
        OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 \
        PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe \
        PRTE_MCA_hwloc_default_binding_policy=none OMPI_MCA_rmaps_base_oversubscribe=1 \
        sh -c 'cd /tmp && exec "$@"' in_debian "$@"
fi

root=$("$here/debian_root.sh") || exit
((EUID == 0)) || { echo "in_debian.sh: only root can enter $root" >&2 && exit 77; }
source=$(cd -- "$here/../.." && pwd -P) || exit 1
# A build folder a checkout, since all have the same path there.
build=$(printf '%s' "$source" | sha256sum | cut -c 1-12)
exec unshare -m --propagation private "${BASH_SOURCE[0]}" --inside "$root" "$source" "$build" "$@"
