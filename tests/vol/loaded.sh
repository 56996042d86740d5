#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Real files that are worked on in memory: brought in, changed in rounds, written back, and always
# what native HDF5 would have made of them.
# usage: loaded.sh CASE...; H5DO and ROUNDS name the programs
# shellcheck disable=SC2317 # cases are called by name
# shellcheck source=tests/vol/h5do.sh
mode=market
. "$(dirname "$0")/h5do.sh"

native() { env -u HDF5_VOL_CONNECTOR "$@"; }
rules() { configure files: "$1"; } # TEXT
inode() { stat -L -c %i "$1"; }
holds() { h5market stat "$1" >/dev/null 2>&1; }
holds_not() { ! holds "$1"; }

# same_values NATIVE MARKET WHERE
same_values() {
    native "$ROUNDS" show "$1" >wanted 2>&1 || fail "$3: $1 can't be shown"
    "$ROUNDS" show "$2" >got 2>&1 || fail "$3: $2 can't be shown"
    diff wanted got >out || fail "$3: $2 differs from $1"
}
same_file() { # NATIVE MARKET WHERE
    native "$ROUNDS" show "$1" >wanted
    native "$ROUNDS" show "$2" >got 2>&1 || fail "$3: $2 can't be shown natively"
    diff wanted got >out || fail "$3: $2 on disk differs from $1"
    run 0 env -u HDF5_VOL_CONNECTOR h5diff "$1" "$2"
}

# rounds_of NATIVE MARKET: six rounds, written back after every second.
rounds_of() {
    local step before
    for step in 1 2 3 4 5 6; do
        exec 8<"$2" # held, so that no file after it gets its number
        before=$(inode /proc/self/fd/8)
        run 0 env -u HDF5_VOL_CONNECTOR "$ROUNDS" step "$1" "$step"
        run 0 "$ROUNDS" step "$2" "$step"
        holds "$2" || fail "round $step wasn't in memory"
        same_values "$1" "$2" "round $step in memory"
        ((step % 2)) && continue
        run 0 h5market wait "$2"
        [[ $(inode "$2") != "$before" ]] || fail "round $step isn't on disk"
        same_file "$1" "$2" "round $step"
        same_values "$1" "$2" "round $step, saved and in memory"
        [[ $step != 4 ]] || h5market rm -q "$2" # brought in once more
        [[ -e $2 ]] || fail "$2 is gone"
    done
    exec 8<&-
    [[ -z $(find . -name '.*tmp*') ]] || fail "temporary files are left"
}

rounds() {
    rules '- {match: "m*.h5", mode: both}'
    native "$ROUNDS" make n.h5
    cp n.h5 m.h5
    rounds_of n.h5 m.h5
}

rounds_of_new_format() {
    rules '- {match: "m*.h5", mode: both, durability: close}'
    native "$ROUNDS" make n.h5 0 latest
    cp n.h5 m.h5
    rounds_of n.h5 m.h5
}

rounds_with_user_block() {
    rules '- {match: "m*.h5", mode: both}'
    native "$ROUNDS" make n.h5 1024
    printf 'a user block' | dd of=n.h5 conv=notrunc status=none
    cp n.h5 m.h5
    rounds_of n.h5 m.h5
    cmp -n 1024 n.h5 m.h5 || fail "the user block isn't the same"
}

# The file is made in memory, saved, and goes on from there.
rounds_after_a_create() {
    rules '- {match: "m*.h5", mode: both}'
    native "$ROUNDS" make n.h5
    run 0 "$ROUNDS" make m.h5
    same_values n.h5 m.h5 "made"
    run 0 h5market wait m.h5
    same_file n.h5 m.h5 "made"
    rounds_of n.h5 m.h5
}

load_command() {
    rules '- {match: "*.h5", mode: memory}'
    native "$ROUNDS" make n.h5
    cp n.h5 m.h5
    cp n.h5 twice.h5
    native "$H5DO" "create busy.h5" "make d 10" "mark open" "await go" "close" &
    await open
    run 0 h5market load m.h5 twice.h5
    says "m.h5: " "twice.h5: "
    run 0 h5market load twice.h5
    says "in memory already"
    h5market ls >out
    says "m.h5" "twice.h5"
    same_values n.h5 m.h5 "loaded"
    echo text >text.h5
    : >empty.h5
    head -c 3000 n.h5 >cut.h5
    run 1 h5market load text.h5
    says "text.h5 is no HDF5 file"
    run 1 h5market load empty.h5
    run 1 h5market load cut.h5
    says "cut.h5 is truncated"
    run 1 h5market load nothing.h5
    says "no such file"
    run 1 h5market load busy.h5
    says "busy.h5"
    : >go
    wait
    run 0 h5market load -q busy.h5
    one "open busy.h5" "zeros d"
    # What was loaded is on disk: it goes without a word.
    [[ $(market_value unsaved_versions) == 0 ]] || fail "something is to be saved"
    # In mode memory a loaded file is changed in memory, the one on disk stays.
    run 0 "$ROUNDS" step m.h5 1
    same_file n.h5 m.h5 "mode memory"
    run 0 env -u HDF5_VOL_CONNECTOR "$ROUNDS" step n.h5 1
    same_values n.h5 m.h5 "mode memory"
    # And one that wasn't is native's.
    cp n.h5 other.h5
    run 0 "$ROUNDS" step other.h5 2
    run 0 env -u HDF5_VOL_CONNECTOR "$ROUNDS" step n.h5 2
    same_file n.h5 other.h5 "native"
    holds_not other.h5 || fail "other.h5 is in memory"
}

stage_in() {
    rules '- {match: "s*.h5", stage_in: true}'
    native "$H5DO" "create s.h5" "make d 1000" "putall d 5" "close" "create t.h5" "make d 10" "close"
    one "open s.h5" "check d 5"
    holds s.h5 || fail "s.h5 wasn't staged in"
    [[ $(versions_of s.h5) == 1 ]] || fail "it has another version"
    one "open s.h5" "check d 5" "open t.h5" "zeros d"
    [[ $(versions_of s.h5) == 1 ]] || fail "it was brought in twice"
    holds_not t.h5 || fail "t.h5 was staged in without a rule"
    # Changed on disk: read again.
    native "$H5DO" "openrw s.h5" "putall d 6" "close"
    one "open s.h5" "check d 6"
    holds s.h5 || fail "s.h5 wasn't staged in again"
    cp s.h5 new.h5
    native "$H5DO" "openrw new.h5" "putall d 7" "close"
    mv new.h5 s.h5
    one "open s.h5" "check d 7"
    # Moved: the same file.
    mv s.h5 s2.h5
    one "open s2.h5" "check d 7" "! open s.h5"
    # Removed: not in memory either.
    rm s2.h5
    until_true 10 gone || fail "a removed file stays in memory"
}
gone() { [[ $(market_value objects) == 0 ]]; }

# Many readers at once bring it in once.
stage_in_by_many() {
    rules '- {match: "s*.h5", stage_in: true}'
    native "$H5DO" "create s.h5" "make d 1000000" "putall d 5" "close"
    h5market start >/dev/null
    for reader in 1 2 3 4 5 6; do
        background "$reader" "$H5DO" "open s.h5" "check d 5" "close"
    done
    for reader in 1 2 3 4 5 6; do
        finished "$reader" 0
    done
    [[ $(market_value publishes) == 1 ]] || fail "it was brought in more than once"
}

# Whoever brings it in may die at any point: nothing of it stays, and the next one does it.
killed_loaders() {
    local point
    rules '- {match: "s*.h5", stage_in: true}'
    native "$H5DO" "create s.h5" "make d 100000" "putall d 5" "close"
    h5market start >/dev/null
    for point in asked read published; do
        H5MARKET_FAULT=client.load-$point:kill H5MARKET_FAULT_ONCE=$PWD/once \
            run any "$H5DO" "open s.h5" "check d 5" "close"
        [[ -e once.client.load-$point ]] || return 0 # built without fault points
        one "open s.h5" "check d 5"
        holds s.h5 || fail "s.h5 isn't in memory after a death at $point"
        [[ $(versions_of s.h5) == 1 ]] || fail "it was published twice after a death at $point"
        until_true 5 nothing_granted || fail "memory is lost after a death at $point"
        run 0 h5market rm -q s.h5
    done
}
nothing_granted() { [[ $(market_value memory.granted_bytes) == 0 ]]; }

# A file that changes while it is read isn't published.
changed_meanwhile() {
    rules '- {match: "s*.h5", stage_in: true}'
    native "$H5DO" "create s.h5" "make d 100000" "putall d 5" "close" "create t.h5" "make d 100000" "putall d 6" "close"
    export H5MARKET_FAULT=client.load-read:sleep=1500 H5MARKET_FAULT_ONCE=$PWD/once
    background reader "$H5DO" "open s.h5" "check d 6" "close"
    if until_true 5 test -e once.client.load-read; then
        unset H5MARKET_FAULT
        # Who comes meanwhile waits for the first, then does it.
        background other "$H5DO" "open s.h5" "check d 6" "close"
        cat t.h5 >s.h5
        finished reader 0
        finished other 0
        [[ $(market_value publishes) -le 1 ]] || fail "what was read half was published"
    else # built without fault points
        unset H5MARKET_FAULT
        finished reader any
    fi
    unset H5MARKET_FAULT_ONCE
}

# Who creates it anew doesn't wait for who brings it in.
created_meanwhile() {
    rules '- {match: "s*.h5", mode: both, stage_in: true}'
    native "$H5DO" "create s.h5" "make d 100000" "putall d 5" "close"
    export H5MARKET_FAULT=client.load-read:sleep=2000 H5MARKET_FAULT_ONCE=$PWD/once
    background reader "$H5DO" "open s.h5" "check d 5" "close"
    until_true 5 test -e once.client.load-read
    unset H5MARKET_FAULT H5MARKET_FAULT_ONCE
    one "create s.h5" "make d 10" "putall d 7" "close" "open s.h5" "check d 7"
    finished reader any # the old file, or the new one, whole
    run 0 h5market wait s.h5
    native "$H5DO" "open s.h5" "check d 7"
    one "open s.h5" "check d 7"
}

eviction_and_size() {
    printf 'memory: 64MiB\nscratch: 0\nfiles:\n- {match: "*.h5", mode: both, stage_in: true}\n' >rules.yaml
    export H5MARKET_CONFIG=$PWD/rules.yaml
    native "$H5DO" "create a.h5" "make d 3000000" "putall d 5" "close" \
        "create b.h5" "make d 3000000" "putall d 6" "close" \
        "create c.h5" "make d 3000000" "putall d 7" "close" \
        "create big.h5" "make d 9000000" "putall d 8" "close"
    for file in a b c; do # 23 MiB each: the third takes the place of the first
        run 0 h5market load "$file.h5"
    done
    holds_not a.h5 || fail "a.h5 is still there"
    holds c.h5 || fail "c.h5 isn't there"
    one "open a.h5" "check d 5" "open b.h5" "check d 6" "open c.h5" "check d 7"
    # Too large for the market, and for a writer: native, with a word about it.
    run 1 h5market load big.h5
    says "no room" "memory"
    one "open big.h5" "check d 8"
    says "it is opened as a file on disk"
    one "openrw b.h5" "putall d 9" "close"
    says "it is opened as a file on disk"
    native "$H5DO" "open b.h5" "check d 9"
    one "open b.h5" "check d 9"
    # What is loaded doesn't keep new data out.
    one "create new.h5" "make d 5000000" "putall d 3" "close" "open new.h5" "check d 3"
}

latest() {
    rules '- {match: "*.h5", mode: both}'
    for step in 1 2 3; do
        native "$H5DO" "create chk_$step.h5" "make d 100" "putall d $step" "close"
        touch -d "2024-01-0$step" "chk_$step.h5"
    done
    native "$H5DO" "create chk_4.h5" "make d 100" "flush" "putall d 4" "flush" "kill"
    cp chk_3.h5 chk_5.h5
    truncate -s 1000 chk_5.h5
    run 0 h5market load -q --latest 'chk_*.h5'
    grep -qx chk_3.h5 out || fail "it isn't chk_3.h5"
    says "chk_4.h5" "chk_5.h5"
    holds chk_3.h5 || fail "chk_3.h5 isn't in memory"
    holds_not chk_2.h5 || fail "chk_2.h5 is in memory"
    # The newest may be in memory only, or saved after a later one was published.
    one "create chk_6.h5" "make d 100" "putall d 6" "close"
    run 0 h5market load --latest 'chk_*.h5'
    grep -qx chk_6.h5 out || fail "it isn't chk_6.h5"
    run 0 h5market wait --all
    one "create chk_7.h5" "make d 100" "putall d 7" "close"
    run 0 h5market load --latest 'chk_*.h5'
    grep -qx chk_7.h5 out || fail "it isn't chk_7.h5"
    run 1 h5market load --latest 'nothing*'
    says "no complete file"
}

# A second open in the process that has it open finds the first, though another file stands there.
# Reopened again and again while its versions take each other's place on disk: each time the newest.
appends_meanwhile() {
    local calls=("create x.h5" "make d0 100" "putall d0 0" close) i turn
    for ((i = 1; i < 40; i++)); do
        calls+=("openrw x.h5" "check d$((i - 1)) $((i - 1))" "make d$i 100" "putall d$i $i" close)
    done
    rules '  - {match: "**", mode: both}'
    for turn in 1 2 3; do
        run 0 "$H5DO" "${calls[@]}"
        [[ $(h5market ls --json | grep -c '"path"') == 1 ]] || fail "x.h5 is there twice: $(h5market ls)"
        run 0 h5market wait x.h5
        run 0 env -u HDF5_VOL_CONNECTOR "$H5DO" "open x.h5" "check d0 0" "check d$((i - 1)) $((i - 1))" close
    done
}

second_open() {
    rules '- {match: "*.h5", mode: both}'
    one "create x.h5" "make d 100" "putall d 1" "close" "openrw x.h5" "putall d 2" "sleep 0" \
        "fork sleep 0" "open x.h5" "check d 2"
    background y "$H5DO" "create y.h5" "make d 100" "putall d 1" "close" "mark made" "openrw y.h5" "putall d 2" "await saved" \
        "open y.h5" "check d 2" "accessible y.h5" "close" "check d 2" "close" "open y.h5" "check d 2"
    await made
    until_true 20 not_a_stub y.h5 || fail "version 1 isn't written"
    : >saved
    finished y 0
    # A reader of the version that was saved while it has it open, and the next one's file.
    background z "$H5DO" "create z.h5" "make d 100" "putall d 1" "close" "open z.h5" "mark open" "await saved2" "open z.h5" \
        "check d 1" "close" "check d 1" "close"
    await open
    until_true 20 not_a_stub z.h5 || fail "z.h5 isn't written"
    : >saved2
    finished z 0
    run 0 h5market wait --all
    native "$H5DO" "open x.h5" "check d 2" "open y.h5" "check d 2" "open z.h5" "check d 1"
}
not_a_stub() { ! is_stub "$1"; }

# A large file is written on disk, unless the rule wants it in memory.
large_file() {
    rules '- {match: "in*.h5", mode: both, stage_in: true}
- {match: "*.h5", mode: both}'
    native "$H5DO" "create x.h5" "make d 9000000" "putall d 1" "close"
    cp x.h5 in.h5
    one "openrw x.h5" "make e 10" "putall e 2" "close"
    native "$H5DO" "open x.h5" "check e 2" "check d 1"
    holds_not x.h5 || fail "x.h5 was brought into memory"
    one "openrw in.h5" "make e 10" "putall e 2" "close"
    holds in.h5 || fail "in.h5 wasn't brought into memory"
    run 0 h5market wait in.h5
    native "$H5DO" "open in.h5" "check e 2" "check d 1"
    # What is in memory is written there, whatever its size.
    run 0 h5market load -q x.h5
    one "openrw x.h5" "putall e 3" "close" "open x.h5" "check e 3" "check d 1"
    run 0 h5market wait x.h5
    native "$H5DO" "open x.h5" "check e 3" "check d 1"
}

# A program without the connector finds it in HDF5's search, for what native can't open: that stays so.
search() {
    rules '- {match: "*.h5", mode: both, stage_in: true}'
    native "$H5DO" "create x.h5" "make d 100" "putall d 1" "close"
    run 0 env -u HDF5_VOL_CONNECTOR "$H5DO" "open x.h5" "! openrw x.h5" "check d 1" "close"
    says "already open for read-only"
    holds_not x.h5 || fail "x.h5 was brought into memory"
}

removed() {
    rules '- {match: "*.h5", mode: both}'
    one "create x.h5" "make d 100" "putall d 1" "close"
    run 0 h5market wait x.h5
    holds x.h5 || fail "x.h5 isn't in memory"
    rm x.h5
    until_true 10 gone || fail "a removed file stays in memory"
    one "! open x.h5" "! accessible x.h5"
    # Replaced by another while there is nothing to save: the other counts.
    one "create x.h5" "make d 100" "putall d 1" "close"
    run 0 h5market wait x.h5
    native "$H5DO" "create y.h5" "make d 100" "putall d 9" "close"
    mv y.h5 x.h5
    one "open x.h5" "check d 9"
    until_true 10 gone || fail "a replaced file stays in memory"
    # Removed while it is written: as natively, nothing is left.
    background x "$H5DO" "openrw x.h5" "putall d 3" "mark open" "await removed" "close"
    await open
    rm x.h5
    : >removed
    finished x 0
    until_true 20 gone || fail "what was removed while it was written stays in memory"
    [[ ! -e x.h5 ]] || fail "a removed file came back"
}

run_cases "$@"
