#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The doctor finds each provoked problem of set-up, market and folder, and says its remedy.
# shellcheck source=tests/apps/common.sh
. "$(dirname "$0")/common.sh"

good=("${in_market[@]}")

export TMPDIR=$PWD/tmp
mkdir "$TMPDIR"

# --- all is well, without a daemon: none is left behind
run 0 "${good[@]}" h5market doctor
says "ok       HDF5_VOL_CONNECTOR=market" "ok       HDF5_PLUGIN_PATH leads to" "takes the connector: wrote and read a file in memory" \
    "warning  no daemon runs" "h5market start" "0 problems, 1 warning"
says_not $'\033'
[[ ! -e $H5MARKET_DIR/socket ]] || fail "the doctor left a daemon"
[[ -z $(ls "$TMPDIR") ]] || fail "the doctor left $(ls "$TMPDIR")"
"${good[@]}" h5market doctor | true # nobody reads it
wait_for bash -c '[[ -z $(ls "$TMPDIR") ]]'
"${good[@]}" h5market doctor >out 2>&1 &
doctor=$!
wait_for grep -q "no daemon runs" out # the probe comes next
kill -TERM "$doctor"
wait "$doctor" 2>/dev/null
wait_for bash -c '[[ -z $(ls "$TMPDIR") ]]'
run 1 "${good[@]}" env TMPDIR="$PWD/nowhere" h5market doctor "$PWD/none"
run 0 "${good[@]}" env TMPDIR="$PWD/nowhere" h5market doctor
says "warning  can't make a temporary folder" "remedy: set TMPDIR"

# --- with a daemon
run 0 h5market start
run 0 "${good[@]}" h5market doctor
says "ok       daemon: process" "0 problems, 0 warnings"

# --- huge pages: a hint, which counts for nothing
setting=/sys/kernel/mm/transparent_hugepage/shmem_enabled
if grep -qE '\[(never|deny)\]' "$setting" 2>/dev/null; then
    says "hint     the kernel gives shared memory no huge pages" "echo advise >$setting"
else
    says_not "huge pages"
fi

# --- the environment
run 0 h5market doctor
says "warning  HDF5_VOL_CONNECTOR is not set" "remedy: export HDF5_PLUGIN_PATH=$plugins HDF5_VOL_CONNECTOR=market" "h5market run"
run 1 env HDF5_VOL_CONNECTOR=markt h5market doctor
says "problem  HDF5_VOL_CONNECTOR is \"markt\": the connector is called \`market\`" "remedy: export HDF5_VOL_CONNECTOR=market" \
    "silently falls back to ordinary files (connector \`native\`)"
run 1 env HDF5_VOL_CONNECTOR=market,wait=5 h5market doctor
says "with options after a space"
run 1 env HDF5_VOL_CONNECTOR=native h5market doctor
says "another connector" "remedy: export HDF5_VOL_CONNECTOR=market"
run 1 env HDF5_VOL_CONNECTOR="market wait=soon" h5market doctor
says "goes to the market, but can't write" "needs a value"
run 1 "${good[@]}" env HDF5_PLUGIN_PATH="$PWD" h5market doctor
says "no libhdf5_vol_market.so there" "remedy: export HDF5_PLUGIN_PATH=$plugins" "silently falls back"
run 1 "${good[@]}" env -u HDF5_PLUGIN_PATH h5market doctor
says "HDF5_PLUGIN_PATH is not set" "remedy: export HDF5_PLUGIN_PATH=$plugins"
run 1 "${good[@]}" env HDF5_PLUGIN_PRELOAD=:: h5market doctor
says "loads no plugin at all" "remedy: unset HDF5_PLUGIN_PRELOAD"
run 0 "${good[@]}" env HDF5_DRIVER=sec2 h5market doctor
says_not "HDF5_DRIVER"
run 0 "${good[@]}" env HDF5_DRIVER=core h5market doctor
says "warning  HDF5_DRIVER is \"core\"" "remedy: unset HDF5_DRIVER" "of the driver in HDF5_DRIVER"

# --- the plugin's file
mkdir broken
echo "no library" >broken/libhdf5_vol_market.so
run 1 "${good[@]}" env HDF5_PLUGIN_PATH="$PWD/broken" h5market doctor
says "no library for this machine" "remedy: install H5Market again"

# --- the installation: a copy of it with parts missing
copy=$PWD/copy
mkdir -p "$copy"
cp -a "$MKT_BUILD_DIR/bin" "$MKT_BUILD_DIR/lib" "$copy/" || fail "no copy of the build"
elsewhere=(env "PATH=$copy/bin:$PATH" HDF5_VOL_CONNECTOR=market "HDF5_PLUGIN_PATH=$copy/lib/hdf5/plugin")
run 0 "${elsewhere[@]}" h5market doctor
says "H5Market" "in $copy"
run 0 "${elsewhere[@]}" env "HDF5_PLUGIN_PATH=$plugins" h5market doctor
says "another installation" "use one installation"
rm "$copy/lib/h5market/"libh5market_vol_*.so
run 1 "${elsewhere[@]}" h5market doctor
says "no connector in $copy/lib/h5market" "HDF5_ROOT"
cp "$MKT_BUILD_DIR/lib/h5market/"libh5market_vol_*.so "$copy/lib/h5market/"
probe=$(basename "$(compgen -G "$copy/lib/h5market/h5market-probe-*" | head -n 1)")
flavour=${probe#h5market-probe-}
rm "$copy/lib/h5market/libh5market_vol_$flavour.so"
touch "$copy/lib/h5market/libh5market_vol_other.so"
run 1 "${elsewhere[@]}" h5market doctor
says "silently falls back" "no connector for HDF5" "$flavour"
run 1 "${elsewhere[@]}" h5market doctor "$sample"
says "there is no connector for that one" "HDF5_ROOT=<its prefix> ./bootstrap build"
rm "$copy/lib/hdf5/plugin/libhdf5_vol_market.so"
run 1 "${elsewhere[@]}" h5market doctor
says "libhdf5_vol_market.so is missing" "remedy: install H5Market again"
run 1 "${elsewhere[@]}" h5market run -- true
says "is missing, and HDF5 would go on without the market"

# --- the configuration: the daemon parses it
printf 'memory: 1GiB\nfiles:\n  - {match: "*.h5", kep: 3}\n' >wrong.yaml
run 1 "${good[@]}" env H5MARKET_CONFIG="$PWD/wrong.yaml" h5market doctor
says "problem" "wrong.yaml:3" "kep" "docs/configuration.md"
run 1 "${good[@]}" env H5MARKET_CONFIG="$PWD/none.yaml" h5market doctor
says "problem" "none.yaml"
printf 'files:\n  - {match: "*.h5", mode: file}\n' >native.yaml
run 0 "${good[@]}" env H5MARKET_CONFIG="$PWD/native.yaml" h5market doctor
says "an ordinary one by your rules (mode: file)"
run 0 h5market stop

# --- a full market
echo 'memory: 64MiB' >small.yaml
run 0 h5market start --config small.yaml
run 0 "${in_market[@]}" "$sample" large large.h5 60
run 1 "${good[@]}" h5market doctor
says "problem  the market is full" "h5market rm" "\`memory\` in the h5market.yaml"
run 0 h5market rm large.h5

# --- entries whose data is lost
mkdir -p sub/deep
run 0 "${in_market[@]}" "$sample" write sub/deep/lost.h5
run 0 "${good[@]}" h5market doctor sub
says "ok       no left-over entries in sub (1 of files in the market)"
kill -KILL "$(cat "$H5MARKET_DIR/daemon.pid")" "$(cat "$H5MARKET_DIR/worker.pid")"
wait_for bash -c '! h5market ls' # answers 4 once the socket is dead
run 0 "${good[@]}" h5market doctor sub
says "warning  sub/deep/lost.h5 is a left-over entry" "remedy: rm it, or write the file again"
run 0 "${good[@]}" h5market doctor
says "no left-over entries in ."
run 4 h5market rm sub/deep/lost.h5
says "remove it with rm"
run 0 h5market start
run 0 "${good[@]}" h5market doctor sub
says "warning  sub/deep/lost.h5 is a left-over entry"
run 0 h5market rm sub/deep/lost.h5
[[ ! -e sub/deep/lost.h5 ]] || fail "rm left a left-over entry"
run 0 h5market stop

# --- the market's folder
chmod 755 "$H5MARKET_DIR"
run 1 "${good[@]}" h5market doctor
says "open to others" "remedy: chmod 700 it"
chmod 700 "$H5MARKET_DIR"
if ((EUID == 0)); then
    mkdir -m 700 foreign && chown 12345 foreign
    run 1 "${good[@]}" env H5MARKET_DIR="$PWD/foreign" h5market doctor
    says "belongs to user 12345" "remedy: name another with H5MARKET_DIR"
fi
ln -s "$H5MARKET_DIR" linked
run 1 "${good[@]}" env H5MARKET_DIR="$PWD/linked" h5market doctor
says "a symbolic link"

# --- the report
run 0 "${good[@]}" h5market doctor --report
says "== version" "== system" "== environment" "HDF5_VOL_CONNECTOR=market" "== limits" "open files" "== control groups" \
    "h5marketd.log" "protocol"
export MKT_SECRET=secret-of-mine
run 0 "${good[@]}" h5market doctor --report
says_not secret-of-mine
finish
