#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A daemon under tight limits of its process: who is refused is told which limit it was, and what to do.
source "$(dirname "$0")/daemon.sh"

# No address space for an arena. (The log, the libraries and the threads fit.)
(ulimit -v 500000 && "$probe" id >/dev/null) || fail "no daemon with 500 MB of address space"
"$probe" write "$PWD/a.h5" 1 2>said && fail "an arena fitted into the address space"
for part in "could not get memory: mapping an arena" "Cannot allocate memory" "ulimit -Hv" "'arena'"; do
    grep -qF -- "${part//\'/\`}" said || fail "'$part' isn't in: $(cat said)"
done
stop_daemon

# Few descriptors: half are for files, a quarter for connections.
(ulimit -n 192 && "$probe" id >/dev/null) || fail "no daemon with 192 descriptors"
files=$(status limits.max_objects)
((files > 8 && files < 100)) || fail "$files files with 192 descriptors"
for ((i = 0; i < files; i++)); do
    "$probe" write "$PWD/$i.h5" 1 >out 2>&1 || fail "file $i of $files: $(cat out)"
done
"$probe" write "$PWD/more.h5" 1 2>said && fail "one file more than there may be"
for part in "holds $files objects" "limit of open files" "ulimit -Hn"; do
    grep -qF -- "$part" said || fail "'$part' isn't in: $(cat said)"
done
mkfifo pipe
sleep 1000 >pipe &
feeder=$!
connections=$(status limits.max_connections)
for ((i = 0; i < connections; i++)); do
    "$probe" hold <pipe >"held.$i" &
    until_true 5 test -s "held.$i" || fail "connection $i"
done
"$probe" id 2>said && fail "one connection more than there may be"
for part in "limit of open files" "ulimit -Hn"; do
    grep -qF -- "$part" said || fail "'$part' isn't in: $(cat said)"
done
kill "$feeder"
wait
stop_daemon
