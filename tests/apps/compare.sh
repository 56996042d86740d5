#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Runs a script of programs twice in folders of their own, over plain files and through the market, and
# compares what they print and how each ends. In a market of its own (run_in_market.sh), in an empty
# folder. The scripts call `step COMMAND...` for each program; see scripts/.
#
# usage: compare.sh SCRIPT [ARGUMENT...]

set -u

script=$1
shift
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
plugins=$MKT_BUILD_DIR/lib/hdf5/plugin
top=$PWD
unset HDF5_VOL_CONNECTOR HDF5_PLUGIN_PATH

# step COMMAND...: a program of the script; its status is part of what is compared.
step() {
    local status
    printf '## %s\n' "$*" | sed "s|$here|.|g; s|$top|.|g"
    timeout 120 "$@" </dev/null
    status=$?
    ((status == 0)) || echo "## status $status"
}

# What may differ: places in a file, times, addresses in memory, the size of chunk indexes. Of HDF5's error
# stacks the first line stays, and of an abort of HDF5's own (h5diff -p of 2.2) that it was one.
normalise() {
    sed -E -e "s|$top/$1|.|g" \
        -e 's/Location: +[0-9]+:[0-9]+/Location: N/; s/(Modified: +).*/\1T/; s/shared-1:[0-9]+/shared-1:N/' \
        -e 's/(DATASET|GROUP) [0-9]{3,} "/\1 N "/; s/DATASET [0-9]{6,} /DATASET N /' \
        -e "s/ at 0x[0-9a-f]+/ at A/; s/(Last modif.: ').*/\1T/" \
        -e 's/[a-z_]+seconds=[0-9.]+/S/g; s/ in [0-9.]+ s$/ in S/' \
        -e 's/^( +OFFSET ).*/\1N/' \
        -e '/^\tChunked datasets:/{n; s/Index: .*/Index: N/}' \
        -e '/^HDF5: infinite loop closing library/{n; s/.*/INTERFACES/}; s/: line [0-9]+: +[0-9]+ Aborted/: Aborted/' \
        -e '/^ *#[0-9]{3}: /d; /^ *(major|minor): /d; /^HDF5-DIAG/d; /H5Market/d'
}

export programs=$here/programs
status=0
for way in native market; do
    mkdir "$top/$way" && cd "$top/$way" || exit 1
    if [[ $way == market ]]; then
        export HDF5_VOL_CONNECTOR=market HDF5_PLUGIN_PATH=$plugins
    fi
    # shellcheck source=/dev/null
    start=$SECONDS
    (. "$here/scripts/$script.sh") >"$top/$way.raw" 2>&1
    echo "$way: $((SECONDS - start)) s, $(wc -l <"$top/$way.raw") lines, $(grep -c '^## [^s]' "$top/$way.raw") programs"
    normalise "$way" <"$top/$way.raw" >"$top/$way.out"
done

# In the market no data goes to disk but what the script lists.
cd "$top/market" || exit 1
stubs=0
while IFS= read -r file; do
    if [[ $(stat -c %s "$file") == 512 ]]; then
        stubs=$((stubs + 1))
    elif ! grep -qxF -- "${file#./}" "$top/on_disk" 2>/dev/null; then
        echo "FAILED: $file is on disk"
        status=1
    fi
done < <(grep -rlaE $'^\x89HDF' . --include='*' 2>/dev/null)
if ((stubs == 0)); then
    echo "FAILED: no file went through the market"
    status=1
fi
if ! diff -U 4 "$top/native.out" "$top/market.out" >"$top/difference"; then
    echo "FAILED: the market's output differs from native's:"
    head -n "${MKT_APPS_LINES:-80}" "$top/difference"
    status=1
fi
[[ -z ${MKT_APPS_KEEP-} ]] || cp -r "$top"/*.raw "$top"/*.out "$MKT_APPS_KEEP"
exit $status
