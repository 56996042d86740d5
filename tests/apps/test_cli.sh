#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# ls, stat, rm, start, stop, run, help and version.
# shellcheck source=tests/apps/common.sh
. "$(dirname "$0")/common.sh"

# --- without a market
run 4 h5market ls
says "no market runs here" "h5market start"
run 4 h5market stat a.h5
run 4 h5market rm a.h5
run 0 h5market stop
says "no market runs here"
run 0 h5market help
says "4 no market runs here (for" "\`stop\` that is a success)"

# --- usage
run 2 h5market
run 2 h5market frob
says "no command 'frob'"
run 2 h5market ls --frob
for command in start stop version; do
    run 2 h5market $command frob
    says "no arguments are taken"
done
run 2 h5market run
run 2 h5market run --wait soon -- true
says "--wait takes seconds"
run 0 h5market help
says "doctor" "Exit status"
run 0 h5market help save
says "--force"
run 0 h5market version
says "h5market " "connectors for HDF5 flavours:" "serial"

# --- start and stop
run 0 h5market start
says "market daemon started" "$H5MARKET_DIR/h5marketd.log"
run 0 h5market start
says "runs already"
run 0 h5market ls
says "0 files"
run 0 h5market stop
says "stopped"
[[ ! -e $H5MARKET_DIR/socket ]] || fail "the socket is left after stop"
run 4 h5market ls
run 1 h5market start --config none.yaml
says "can't read the configuration none.yaml"
echo 'memory: 256MiB' >h5market.yaml
run 0 h5market start --config h5market.yaml
says "at most 256 MiB"
echo 'memory: 128MiB' >other.yaml
run 0 h5market start --config other.yaml
says "h5market stop"
run 0 h5market stop

# --- run
run 0 env -u HDF5_PLUGIN_PATH h5market run --wait 1.5 --config h5market.yaml -- \
    sh -c 'echo "$HDF5_PLUGIN_PATH|$HDF5_VOL_CONNECTOR|$H5MARKET_CONFIG"'
says "$plugins|market wait=1.5|$PWD/h5market.yaml"
run 0 env HDF5_PLUGIN_PATH=/other h5market run sh -c 'echo "$HDF5_PLUGIN_PATH"'
says "$plugins:/other"
run 0 h5market run --version 3 --after-start -- sh -c 'echo "$HDF5_VOL_CONNECTOR"'
says "market version=3 after=start"
run 7 h5market run -- sh -c 'exit 7'
run 127 h5market run -- ./no-such-program
run 126 h5market run -- ./h5market.yaml
run 1 h5market run --config none.yaml -- true

# --- files
mkdir sub
run 0 h5market run -- "$sample" write a.h5
run 0 h5market run -- "$sample" write a.h5 2
run 0 h5market run -- "$sample" write sub/b.h5
run 0 h5market run -- "$sample" check a.h5 2
run 0 h5market ls
says "SIZE" "VERSIONS" "PATH" "$PWD/a.h5" "$PWD/sub/b.h5" "2 files"
[[ $(stat -c %s a.h5) == 512 ]] || fail "a.h5 isn't an entry of 512 bytes"
run 0 h5market ls 'a*'
says "a.h5" "1 file;"
says_not "b.h5"
run 0 h5market ls sub
says "sub/b.h5" "1 file;"
run 0 h5market ls "./sub/*.h5"
says "sub/b.h5" "1 file;"
run 0 h5market ls 'none*'
says "0 files"
run 0 h5market ls --json 'a*'
"${MKT_PYTHON:-python3}" - <<'END' || fail "ls --json isn't what it should be"
import json
answer = json.load(open("out"))
assert [o["path"].endswith("/a.h5") for o in answer["objects"]] == [True]
assert answer["objects"][0]["versions"] == 1 and answer["objects"][0]["bytes"] > 96 * 96 * 8 * 2
assert answer["market"]["memory"]["limit_bytes"] > 0
END

# --- stat
run 0 h5market stat a.h5
says "path     $PWD/a.h5" "writer   none" "VERSION" "*2"
run 0 h5market stat --json a.h5
[[ $(value newest_version) == 2 ]] || fail "newest_version isn't 2"
[[ $(value arrays) -ge 6 ]] || fail "there are fewer than 6 arrays"
run 0 h5market stat
says "memory" "$H5MARKET_DIR"
run 3 h5market stat none.h5
says "not in the market" "h5market ls"
run 3 h5market stat h5market.yaml
says "an ordinary file"

# --- a writer that has a file open
mkfifo input
HDF5_VOL_CONNECTOR=market "$sample" hold held.h5 <input >held.out 2>&1 &
writer=$!
exec 8>input
wait_for grep -q open held.out
run 0 h5market ls 'held*'
says "apps_sample (1)"
run 0 h5market stat held.h5
says "apps_sample, process $writer, 1 rank" "no version is published yet"
run 1 h5market stop
says "h5market save" "--discard"
exec 8>&-
wait "$writer" || fail "the writer failed: $(cat held.out)"
run 0 h5market stat held.h5
says "*1"

# --- rm
run 0 h5market rm a.h5 held.h5
says "a.h5: withdrawn, 1 version" "held.h5: withdrawn"
[[ ! -e a.h5 && ! -e held.h5 ]] || fail "entries are left after rm"
run 3 h5market rm a.h5
says "not in the market"
run 3 h5market rm h5market.yaml
says "an ordinary file"
[[ -e h5market.yaml ]] || fail "rm removed an ordinary file"
run 2 h5market rm
run 0 h5market ls
says "1 file;"

# --- stop with files in memory
run 1 h5market stop
says "exist only in memory" "h5market save" "--discard"
run 0 h5market ls
says "b.h5"
run 0 h5market stop --discard
run 4 h5market ls
finish
