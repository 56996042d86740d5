#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Streams: programs that write one path step by step, or a set of files, and readers that follow at
# their own pace.
# usage: streams.sh CASE...; H5DO, WRITER and READER name the programs
# shellcheck disable=SC2317,SC2153 # cases are called by name; the environment sets READER
# shellcheck source=tests/vol/h5do.sh
mode=market
. "$(dirname "$0")/h5do.sh"
reader_py=$MKT_SOURCE_DIR/h5examples/stream_reader.py

connector() { # OPTIONS COMMAND...
    HDF5_VOL_CONNECTOR="market $1" "${@:2}"
}
# follow NAME OPTIONS COMMAND...: in the background.
follow() {
    background "$1" env HDF5_VOL_CONNECTOR="market $2" "${@:3}"
}
# The program itself, below its `timeout`.
process_of() { pgrep -P "${pids[$1]}"; }
steps_of() { sed -n 's/^stream_reader[.py]*: step \([0-9]*\)$/\1/p' "$1.out" | tr '\n' ' '; }
has_steps() { # NAME STEP...
    local name=$1
    shift
    [[ $(steps_of "$name") == "$* " ]] || fail "$name got $(steps_of "$name"), not $*"
}
has_python() { "$MKT_PYTHON" -c 'import h5py, sys; sys.exit(h5py.version.hdf5_version_tuple < (1, 14, 0))' 2>/dev/null; }
unread() { # READER: how many versions of out.h5 it has still to read
    h5market stat --json out.h5 | "$MKT_PYTHON" -c '
import json, sys
print([r["unread"] for r in json.load(sys.stdin)["named_readers"] if r["name"] == sys.argv[1]][0])' "$1"
}
knows() { h5market stat out.h5 2>/dev/null | grep -q "^$1 "; }

# A fast reader in C, a slow one in Python, and a writer that is faster than both.
unequal_rates() {
    configure 'files: [{match: out.h5, mode: memory, queue: 3, readers: 2, end: exit}]'
    follow fast "deliver=all reader=fast wait=30" "$READER" out.h5
    if has_python; then
        follow slow "deliver=all reader=slow wait=30" "$MKT_PYTHON" "$reader_py" out.h5 30
    else
        follow slow "deliver=all reader=slow wait=30" "$READER" out.h5 30
    fi
    run 0 "$WRITER" out.h5 20 1
    finished fast 0
    finished slow 0
    has_steps fast {1..20}
    has_steps slow {1..20}
}

# The same where the files go to disk, too.
on_disk_as_well() {
    configure 'files: [{match: out.h5, mode: both, queue: 2, end: 12}]'
    follow reader "deliver=next wait=30" "$READER" out.h5 20
    run 0 "$WRITER" out.h5 12 30
    finished reader 0
    has_steps reader {1..12}
    run 0 h5market wait out.h5
    run 0 env -u HDF5_VOL_CONNECTOR h5dump -a step out.h5
    says "(0): 12"
}

every_third() {
    configure 'files: [{match: out.h5, mode: memory, queue: 20, readers: 2, end: 10}]'
    run 0 "$WRITER" out.h5 10
    follow third "deliver=every:3 reader=third" "$READER" out.h5
    finished third 0
    has_steps third 1 4 7 10
}

# Nobody keeps versions for `next`: it gets the newest, and is told what it missed.
late_reader_is_told_what_it_missed() {
    run 0 "$WRITER" out.h5 5
    follow late "deliver=next reader=late" "$READER" out.h5
    until_true 10 grep -q "step 5" late.out || fail "the reader got nothing"
    run 0 h5market end out.h5
    finished late 0
    has_steps late 5
    says "out.h5: 4 versions left the stream before this reader came for them"
}

rules_name_the_reader() {
    configure 'files: [{match: out.h5, mode: memory, queue: 5, readers: 2, end: 4, deliver: every 2, reader: thinned}]'
    run 0 "$WRITER" out.h5 4
    follow ruled "" "$READER" out.h5
    finished ruled 0
    has_steps ruled 1 3
    knows thinned || fail "the reader hasn't the name that the rule says"
    run 0 env HDF5_VOL_CONNECTOR="market reader=none" h5dump -a step out.h5
    says "(0): 4"
    knows none && fail "who isn't to be counted was"
    knows h5dump && fail "who isn't to be counted was, by its program's name"
}

full_queue_says_whom_the_writer_waits_for() {
    configure 'files: [{match: out.h5, mode: memory, queue: 2, queue_timeout: 5s}]'
    local reader
    follow reader "deliver=next reader=slow wait=30" "$READER" out.h5 60000
    reader=$(process_of reader)
    background writer "$WRITER" out.h5 4
    until_true 10 grep -q "waiting since" writer.out || fail "the writer says nothing"
    finished writer 1
    says "out.h5' can't be written yet: its stream has 2 unread versions" "reader 'slow' (" \
        "pid $reader" "step 2"
    says_not "step 3"
    [[ $(grep -c "waiting since" out) == 1 ]] || fail "it says so again and again"
    kill "${pids[reader]}"
    wait "${pids[reader]}"
}

queue_does_not_wait_for_the_dead() {
    configure 'reader_grace: 1s
files: [{match: out.h5, mode: memory, queue: 2, queue_timeout: 20s}]'
    run 0 "$WRITER" out.h5 1
    connector "deliver=next reader=mortal" timeout -s KILL 1 "$READER" out.h5 >/dev/null 2>&1
    run 0 "$WRITER" out.h5 6
    # It comes again: what the queue held for it.
    follow again "deliver=next reader=mortal wait=0" "$READER" out.h5
    run 0 h5market end out.h5
    finished again 0
    has_steps again 5 6
}

# What it had open when it was killed it gets again, and all the rest.
killed_reader_goes_on_where_it_was() {
    configure 'files: [{match: out.h5, mode: memory, queue: 50, end: 6}]'
    run 0 "$WRITER" out.h5 6
    follow first "deliver=all reader=r" "$READER" out.h5 400
    until_true 10 grep -q "step 3" first.out || fail "the reader got nothing"
    kill -KILL "$(process_of first)"
    wait "${pids[first]}" 2>/dev/null
    follow second "deliver=all reader=r" "$READER" out.h5
    finished second 0
    has_steps second 3 4 5 6
}

# The daemon's worker dies, another one goes on: positions stay.
killed_daemon_keeps_the_positions() {
    configure 'files: [{match: out.h5, mode: memory, queue: 50, end: 8}]'
    run 0 "$WRITER" out.h5 4
    follow reader "deliver=all reader=r wait=30" "$READER" out.h5 100
    until_true 10 grep -q "step 2" reader.out || fail "the reader got nothing"
    kill -KILL "$(market_value pid)"
    run 0 "$WRITER" out.h5 4
    finished reader 0
    [[ $(market_value restarts) == 1 ]] || fail "the daemon wasn't restarted"
    has_steps reader 1 2 3 4 1 2 3 4
}

# Each file of a set is read by its own name; the queue counts all of them.
set_of_files() {
    configure 'files: [{match: "plt*.h5", mode: memory, queue: 2, queue_timeout: 1s, end: exit, wait: 20, deliver: next}]'
    one "create plt1.h5" "make d 10" "put d 1" "close" "create plt2.h5" "make d 10" "put d 2" "close" "! create plt3.h5" \
        "exit"
    one "open plt1.h5" "check d 1" "close"
    run 0 "$H5DO" "open plt2.h5" "check d 2" "close" "! open plt3.h5"
    says "end of stream"
    [[ -e plt1.h5 ]] && fail "plt1.h5 was read, and is still there"
    [[ -e plt2.h5 ]] || fail "the newest file is gone"
}

# While a writer waits for its place the entry of its file stays the same one.
set_waits_with_one_entry() {
    configure 'files: [{match: "plt*.h5", mode: memory, queue: 1, queue_timeout: 20s}]'
    background writer "$H5DO" "create plt1.h5" "make d 10" "put d 1" "close" "excl plt2.h5" "make d 10" "put d 2" "close"
    await plt2.h5
    local entry
    entry=$(stat -c %i plt2.h5)
    until_true 10 grep -q "waiting since" writer.out || fail "the writer says nothing"
    sleep 0.3
    [[ $(stat -c %i plt2.h5) == "$entry" ]] || fail "the entry is another one"
    one "open plt1.h5" "check d 1" "close"
    finished writer 0
    one "open plt2.h5" "check d 2" "close"
    configure 'files: [{match: "plt*.h5", mode: memory, queue: 1, queue_timeout: 1s}]'
    one "create plt3.h5" "close" "! excl plt4.h5"
    [[ -e plt4.h5 ]] && fail "an entry is left of a file that wasn't created"
}

# The same pattern, in two folders: neither the queue nor `keep` counts the other one's.
folders_are_apart() {
    configure 'files:
- {match: out.h5, mode: memory, queue: 2, queue_timeout: 5s, end: exit}
- {match: "plt*.h5", mode: memory, keep: 2}'
    local folder
    mkdir a b
    (cd a && run 0 "$WRITER" out.h5 2) # nobody has read these
    cd b || return
    follow reader "deliver=next wait=30" "$READER" out.h5
    run 0 "$WRITER" out.h5 4
    finished reader 0
    has_steps reader {1..4}
    cd ..
    for folder in a b; do
        one "create $folder/plt1.h5" "close" "create $folder/plt2.h5" "close" "create $folder/plt3.h5" "close"
    done
    for folder in a b; do
        [[ -e $folder/plt1.h5 ]] && fail "$folder/plt1.h5 is still there"
        one "open $folder/plt2.h5" "close" "open $folder/plt3.h5" "close"
    done
}

# Without `readers` a version waits for all who go through the stream.
all_who_are_there_read() {
    configure 'files: [{match: out.h5, mode: memory, queue: 2, end: exit}]'
    follow fast "deliver=next reader=fast wait=30" "$READER" out.h5
    follow slow "deliver=next reader=slow wait=30" "$READER" out.h5 40
    sleep 0.5
    run 0 "$WRITER" out.h5 15 1
    finished fast 0
    finished slow 0
    has_steps fast {1..15}
    has_steps slow {1..15}
}

# The end of one run isn't that of the next, whose reader may start first.
second_run() {
    configure 'files: [{match: out.h5, mode: memory, queue: 2, end: exit, deliver: next, writer_timeout: 1s}]'
    local i
    for i in 1 2 3; do
        follow "reader$i" "wait=30" "$READER" out.h5
        sleep 0.3
        run 0 "$WRITER" out.h5 5
        finished "reader$i" 0
        says "end of stream"
        has_steps "reader$i" {1..5}
        ((i == 1)) || run 0 h5market rm -q out.h5
    done
    run 0 "$WRITER" out.h5 1
    run 0 env HDF5_VOL_CONNECTOR="market reader=late" "$READER" out.h5 # whoever comes late is told, once
    says "end of stream"
    run 1 env HDF5_VOL_CONNECTOR="market reader=late wait=0" "$H5DO" "open out.h5"
    says_not "end of stream"
}

end_by_hand() {
    one "create other.h5" "close"
    run 3 h5market end nothing.h5
    says "the market holds nothing of that stream"
    run 3 h5market end 'nothing*'
    run 0 "$WRITER" out.h5 1
    follow reader "deliver=next wait=30" "$READER" out.h5
    until_true 10 grep -q "step 1" reader.out || fail "the reader got nothing"
    run 0 h5market end 'out*'
    finished reader 0
    says "end of stream"
    h5market stat out.h5 | grep -q "^stream .*ended" || fail "stat doesn't say that it has ended"
    run 0 "$WRITER" out.h5 1 # it begins anew
    follow again "deliver=next" "$READER" out.h5
    until_true 10 grep -q "step 1" again.out || fail "the reader got nothing anew"
    run 0 h5market end out.h5
    finished again 0
}

python_sees_the_end() {
    has_python || return 0
    configure 'files: [{match: out.h5, mode: memory, queue: 9, end: 2}]'
    run 0 "$WRITER" out.h5 2
    cat >end.py <<'PYTHON'
import errno, h5py
for step in (1, 2):
    with h5py.File("out.h5", "r") as file:
        assert file.attrs["step"] == step
try:
    h5py.File("out.h5", "r")
except OSError as error:
    print(error)
    assert error.errno == errno.ENODATA
else:
    raise AssertionError("there was another one")
PYTHON
    run 0 env HDF5_VOL_CONNECTOR="market deliver=next" "$MKT_PYTHON" end.py
    says "end of stream"
}

stat_shows_the_readers() {
    configure 'files: [{match: out.h5, mode: memory, queue: 9, readers: 2}]'
    run 0 "$WRITER" out.h5 4
    connector "deliver=next reader=r" "$H5DO" "open out.h5" "close" "open out.h5" "close" >/dev/null 2>&1
    run 0 h5market stat out.h5
    says "stream   $PWD/out.h5, 4 unread (queue 9), until 2 readers have read it" "READER"
    [[ $(unread r) == 2 ]] || fail "it has $(unread r) unread versions"
}

wrong_options() {
    for option in deliver=first deliver=every:0 deliver=every: reader=; do
        run 1 env HDF5_VOL_CONNECTOR="market $option" "$H5DO" "open out.h5"
        says "needs a value"
    done
    configure 'files: [{match: out.h5, until: read}]'
    run 1 "$H5DO" "create out.h5"
    says "'read' isn't a value of 'until': it takes consumed"
}

run_cases "$@"
