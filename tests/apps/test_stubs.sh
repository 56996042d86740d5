#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# What programs do to entries of files in memory: move, remove, overwrite, copy, open without the
# connector, and meet after their daemon died. In the Debian root, in an empty folder and a market of its own.

set -u
plugins=$MKT_BUILD_DIR/lib/hdf5/plugin
MKT_APPS_DIR=$PWD HDF5_PLUGIN_PATH=$plugins
# shellcheck source=tests/apps/common.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"
unset HDF5_PLUGIN_PATH
market=(env HDF5_VOL_CONNECTOR=market HDF5_PLUGIN_PATH="$plugins")

cat >put.py <<'END'
import sys, h5py, numpy
with h5py.File(sys.argv[1], sys.argv[3] if len(sys.argv) > 3 else "w") as file:
    file["x"] = numpy.full(1000, float(sys.argv[2]))
END
cat >get.py <<'END'
import sys, h5py
with h5py.File(sys.argv[1], "r") as file:
    x = file["x"][...]
    assert x.min() == x.max(), "torn"
    print("value", x[0], x.size)
END
cat >safely.py <<'END'
import os, sys, h5py, numpy
with h5py.File(sys.argv[1] + ".tmp", "w") as file:
    file["x"] = numpy.full(1000, float(sys.argv[2]))
os.rename(sys.argv[1] + ".tmp", sys.argv[1])
END
put=("${market[@]}" python3 put.py)
get=("${market[@]}" python3 get.py)
is_stub() { [[ $(stat -c %s "$1") == 512 ]] || fail "$1 is not an entry of a file in memory"; }
versions() { "${market[@]}" h5market ls --json | grep -c '"path"'; }
has_versions() { [[ $(versions) == "$1" ]]; }

# Writes aside and renames, over a predecessor too.
for value in 1 2 3; do
    run 0 "${market[@]}" python3 safely.py safe.h5 "$value"
    run 0 "${get[@]}" safe.h5
    says "value $value.0 1000"
    is_stub safe.h5
    [[ ! -e safe.h5.tmp ]] || fail "safe.h5.tmp stays"
done
wait_for has_versions 1 || fail "replaced files stay in memory: $(versions)"
run 1 "${get[@]}" safe.h5.tmp
says "No such file"

# Moved to another folder, with its folder, behind a link; copied; written to by the copy.
run 0 "${put[@]}" a.h5 4
mkdir one && mv a.h5 one/b.h5 && mv one two && ln -s two/b.h5 link.h5 && cp two/b.h5 copy.h5
for file in two/b.h5 link.h5 copy.h5 "$PWD/two/../two/b.h5"; do
    run 0 "${get[@]}" "$file"
    says "value 4.0"
done
run 0 "${put[@]}" copy.h5 5
run 0 "${get[@]}" two/b.h5
says "value 4.0"
run 0 "${get[@]}" copy.h5
says "value 5.0"

# Without the connector each program fails and leaves the entry as it is.
run 0 "${put[@]}" stub.h5 6
run 0 "${market[@]}" python3 -c 'import netCDF4; f = netCDF4.Dataset("stub.nc", "w"); f.createDimension("n", 9); f.createVariable("v", "f8", ("n",))[:] = 1; f.close()'
cksum stub.h5 stub.nc >before
fails() {
    timeout 60 "$@" >out 2>&1 </dev/null
    local status=$?
    checks=$((checks + 1))
    ((status != 0 && status < 124)) || fail "$* ended with $status"
}
fails h5dump stub.h5
fails h5ls stub.h5
fails h5stat stub.h5
fails h5repack stub.h5 new.h5
fails h5copy -i stub.h5 -o new.h5 -s /x -d /x
fails h5diff stub.h5 stub.h5
fails ncdump stub.nc
fails nccopy stub.nc new.nc
for mode in r r+ a x; do
    fails python3 -c "import h5py; h5py.File('stub.h5', '$mode')"
done
for mode in r r+ a; do
    fails python3 -c "import netCDF4; netCDF4.Dataset('stub.nc', '$mode')"
    fails python3 -c "import tables; tables.open_file('stub.h5', '$mode')"
done
cksum stub.h5 stub.nc | diff before - || fail "a program without the connector changed an entry"
run 0 "${get[@]}" stub.h5
says "value 6.0"
run 0 "${market[@]}" ncdump stub.nc
says "v = 1, 1, 1"

# A program without the connector creates anew over the entry: that file wins from then on.
run 0 python3 put.py stub.h5 7
run 0 "${get[@]}" stub.h5
says "value 7.0"
run 0 python3 get.py stub.h5
says "value 7.0"
run 0 python3 safely.py copy.h5 8
run 0 "${get[@]}" copy.h5
says "value 8.0"
run 0 "${put[@]}" in.h5 9
cp stub.h5 in.h5 # into the same inode
run 0 "${get[@]}" in.h5
says "value 7.0"
# And in memory once more, over the file.
run 0 "${put[@]}" in.h5 10
run 0 "${get[@]}" in.h5
says "value 10.0"
run 0 python3 get.py in.h5
says "value 7.0"

# The file under it removed: it is gone as natively, also for a file that gets its inode and its times.
run 0 "${market[@]}" python3 put.py in.h5 11
cp -p in.h5 kept.h5
rm in.h5
run 1 "${get[@]}" in.h5
says "No such file"
run 0 "${market[@]}" h5market rm in.h5
cp -p kept.h5 new.h5
run 0 "${get[@]}" new.h5
says "value 7.0"
run 0 "${put[@]}" in.h5 12 x
run 0 "${get[@]}" in.h5
says "value 12.0"

# Native readers that race a writer in memory never get to see a file.
python3 - <<'END' &
import h5py, time
end, tries = time.monotonic() + 3, 0
while time.monotonic() < end:
    try:
        h5py.File("race.h5", "r")
        raise SystemExit("a native reader opened an entry")
    except OSError:
        tries += 1
print(tries, "tries")
END
reader=$!
for value in 1 2 3 4; do
    run 0 "${put[@]}" race.h5 "$value"
    rm race.h5
done
run 0 "${put[@]}" race.h5 11
run 0 "${get[@]}" race.h5
says "value 11.0"
wait "$reader" || fail "a native reader opened an entry"

# Removed: gone, from memory too.
rm -rf ./*.h5 ./*.nc two
wait_for has_versions 0 || fail "removed files stay in memory"
run 1 "${get[@]}" safe.h5
says "No such file"

# Left over after the daemon was killed: loud, and a new file takes its place.
run 0 "${put[@]}" left.h5 12
run 0 "${put[@]}" again.h5 12
run 0 "${put[@]}" other.h5 12
kill -KILL "$(cat "$H5MARKET_DIR/daemon.pid")" "$(cat "$H5MARKET_DIR/worker.pid")"
run 1 "${get[@]}" left.h5
says "left-over"
fails "${put[@]}" left.h5 13 a
fails "${put[@]}" left.h5 13 r+
fails "${put[@]}" left.h5 13 x
run 0 "${put[@]}" again.h5 13 w
run 0 "${get[@]}" again.h5
says "value 13.0"
fails "${get[@]}" left.h5 # with a daemon, too
says "left-over"
fails "${put[@]}" left.h5 13 a
run 0 "${market[@]}" h5market doctor .
says "left.h5" "other.h5"
says_not "again.h5"
rm left.h5
run 0 "${put[@]}" left.h5 14 a
run 0 "${get[@]}" left.h5
says "value 14.0"
finish
