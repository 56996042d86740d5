#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The tier below memory, from programs' side: more data than memory, parts of it, and what goes wrong.
# usage: tier.sh CASE...; H5DO and H5DO_MPI name the programs
# shellcheck disable=SC2317 # cases are called by name
# shellcheck source=tests/vol/h5do.sh
mode=market
. "$(dirname "$0")/h5do.sh"

# 2,000,000 integers: 15.3 MiB
N=2000000

# rules MEMORY [LINE...]: a market with a tier in ./ssd; a line takes the place of the one with its key.
rules() {
    local line
    configure "memory: $1" "ssd: $PWD/ssd" "ssd_size: 1GiB" "high_watermark: 50" "low_watermark: 30" \
        "promote_after: 0" "full_timeout: 20s" 'files: [{match: "**", mode: memory}]'
    for line in "${@:2}"; do
        sed -i "s|^${line%%:*}: .*|$line|" rules.yaml
    done
}
write_one() { one "create f$1.h5" "make d $N" "putall d $1" close; }
write_files() { # COUNT
    local i
    for ((i = 1; i <= $1; i++)); do
        write_one "$i"
    done
}
check_files() { # COUNT
    local i
    for ((i = 1; i <= $1; i++)); do
        one "open f$i.h5" "check d $i" close
    done
}
files_below() { [[ -n $(find ssd -name 'segment-*' 2>/dev/null) ]]; }
nothing_below() { ! files_below; }
has_moved() { (($(market_value tier.moved_out_bytes) >= $1)); }

more_than_memory() {
    rules 64MiB
    write_files 12
    has_moved 100000000 || fail "$(market_value tier.moved_out_bytes) bytes moved out"
    check_files 12
    (($(market_value memory.used_bytes) <= 64 << 20)) || fail "more than its memory is in use"
    grep -q "warning.*$PWD/ssd was made" "$H5MARKET_DIR/h5marketd.log" || fail "the folder came without a word"
    h5market stat f1.h5 >out
    says "below    15.3 MiB"
    run 0 h5market save f2.h5 saved.h5
    run 0 env -u HDF5_VOL_CONNECTOR "$H5DO" "open saved.h5" "check d 2"
    run 0 h5market stop --discard
    until_true 5 nothing_below || fail "files are left behind"
}

# What is freed serves again while its neighbours stay.
room_comes_back() {
    local i
    rules 64MiB "ssd_size: 270MiB"
    write_files 16
    for ((i = 2; i <= 16; i += 2)); do
        run 0 h5market rm -q "f$i.h5"
    done
    for ((i = 18; i <= 32; i += 2)); do
        write_one "$i"
    done
    for ((i = 1; i <= 32; i++)); do
        ((i % 2 == 1 && i > 16)) || ((i % 2 == 0 && i <= 16)) || one "open f$i.h5" "check d $i" close
    done
}

# Ranks that read a part each have that part read from there, not all of it.
parts() {
    rules 64MiB "high_watermark: 1" "low_watermark: 1"
    write_files 1
    until_true 5 has_moved $((N * 8)) || fail "it stays in memory"
    job 4 "access world" "open f1.h5" "@0 checkpart d 1" close
    local read
    read=$(market_value tier.moved_in_bytes)
    ((read > 0 && read < N * 8 / 3)) || fail "$read bytes were read for a quarter of $((N * 8))"
    job 3 "open f1.h5" "check d 1" close
}

comes_back() {
    rules 64MiB "promote_after: 2"
    write_files 5
    local i before
    for i in 1 2; do
        one "open f1.h5" "check d 1" close
    done
    before=$(market_value tier.reads)
    one "open f1.h5" "check d 1" close
    [[ $(market_value tier.reads) == "$before" ]] || fail "what was read twice isn't in memory"
    h5market stat f1.h5 >out
    says_not below
    check_files 5
}

# Data of a file that is written anew, and appended to, while it lies there.
goes_on() {
    rules 64MiB "high_watermark: 1" "low_watermark: 1"
    write_files 1
    until_true 5 has_moved $((N * 8)) || fail "it stays in memory"
    one "openrw f1.h5" "check d 1" "make e 10000" "putall e 5" close
    one "open f1.h5" "check d 1" "check e 5" close
    one "openrw f1.h5" "putall d 7" "check d 7" close "open f1.h5" "check d 7" "check e 5" close
    one "create f1.h5" "make d 10" "putall d 3" close "open f1.h5" "check d 3"
    h5market rm -q f1.h5
    [[ $(market_value tier.used_bytes) == 0 ]] || fail "what was withdrawn is still there"
}

saved_from_there() {
    rules 64MiB "high_watermark: 1" "low_watermark: 1" 'files: [{match: "*.h5", mode: both}]'
    write_files 6
    check_files 6
    run 0 h5market wait --all
    local i
    for ((i = 1; i <= 6; i++)); do
        run 0 env -u HDF5_VOL_CONNECTOR "$H5DO" "open f$i.h5" "check d $i"
    done
}

pinned() {
    rules 64MiB "high_watermark: 1" "low_watermark: 1" \
        'files: [{match: "f1.h5", mode: memory, pin: true}, {match: "**", mode: memory}]'
    write_files 2
    until_true 5 has_moved $((N * 8)) || fail "nothing leaves memory"
    h5market stat f1.h5 >out
    says_not below
    h5market stat f2.h5 >out
    says below
}

# A worker of the daemon dies in the middle of moves, out and in.
worker_dies() {
    local point
    for point in tier.before-write tier.written tier.read; do
        rules 64MiB "high_watermark: 1" "low_watermark: 1"
        rm -f once.*
        H5MARKET_FAULT=$point:kill:2 H5MARKET_FAULT_ONCE=$PWD/once h5market start >out 2>&1 || fail "no start"
        write_files 6
        check_files 6
        check_files 6
        [[ -e once.$point ]] || fail "nobody died at $point"
        (($(market_value restarts) > 0)) || fail "the worker lives on"
        until_true 5 has_moved $((6 * N * 8)) || fail "not all has moved"
        run 0 h5market stop --discard
        until_true 5 nothing_below || fail "files are left behind"
        rm -f ./*.h5
    done
}

# Both of the daemon's processes die: the next daemon on the folder finds what is left, and removes it.
all_die() {
    rules 64MiB "high_watermark: 1" "low_watermark: 1"
    write_files 3
    until_true 5 has_moved $((N * 8)) || fail "it stays in memory"
    local keeper worker
    keeper=$(cat "$H5MARKET_DIR/daemon.pid") worker=$(cat "$H5MARKET_DIR/worker.pid")
    kill -KILL "$keeper" "$worker"
    until_true 5 gone "$worker" || fail "the worker doesn't die"
    files_below || fail "nothing was left"
    rm -f ./*.h5
    one "create g.h5" "make d 100" "putall d 1" close "open g.h5" "check d 1" close
    [[ $(market_value tier.used_bytes) == 0 ]] || fail "what isn't known any more counts"
    run 0 h5market stop --discard
    until_true 5 nothing_below || fail "files are left behind"
}
gone() { ! kill -0 "$1" 2>/dev/null; }

everything_full() {
    rules 32MiB "ssd_size: 16MiB" "full_timeout: 3s"
    write_files 1
    one "create g.h5" "make d $N" "putall d 1" close
    run 1 "$H5DO" "create h.h5" "make d $N" "putall d 1" "close" "create i.h5" "make d $N" "putall d 1" close
    says "h5market: waiting 2 s for" "of memory: '$PWD/" "the market is full" "memory" "ssd"
    one "open f1.h5" "check d 1" close "open g.h5" "check d 1" close
    # What is withdrawn makes room.
    run 0 h5market rm -q f1.h5 g.h5
    one "create k.h5" "make d $N" "putall d 4" close "open k.h5" "check d 4"
}

# disk SIZE: one at ./ssd, until end_disk.
disk() {
    mkdir ssd
    mount -t tmpfs -o "size=$1" none ssd 2>/dev/null || {
        echo "${FUNCNAME_OF_CASE}: not run, since it takes a mount of its own"
        return 1
    }
}
end_disk() {
    run 0 h5market stop --discard
    until_true 5 umount ssd || fail "the disk is in use"
}
moving_fails() { [[ $(market_value tier.failure) != None ]]; }
moving_works() { ! moving_fails; }

# Others fill the disk.
disk_full() {
    disk 300m || return
    rules 48MiB "full_timeout: 3s" "ssd_size: 295MiB"
    run 0 h5market start
    head -c 32M /dev/zero >ssd/of-others # beside the first segment
    write_files 17
    run any "$H5DO" "create h.h5" "make d $N" "putall d 8" "close" "create i.h5" "make d $N" "putall d 8" close \
        "create j.h5" "make d $N" "putall d 8" close
    says "the market is full" "moving out fails: $PWD/ssd" "is full" "No space left on device"
    run 0 h5market stat
    says "moving out fails: $PWD/ssd"
    moving_fails || fail "h5market stat --json doesn't say that it fails"
    grep -q "could not be moved out.*tried again" "$H5MARKET_DIR/h5marketd.log" || fail "the log says nothing"
    check_files 17
    rm ssd/of-others
    until_true 5 moving_works || fail "it goes on failing"
    one "create k.h5" "make d $N" "putall d 4" close "open k.h5" "check d 4"
    run 0 h5market stat
    says_not "moving out fails"
    end_disk
}

# The limit is more than there is, and a segment as usual is, too.
disk_small() {
    disk 96m || return
    rules 64MiB "ssd_size: 2GiB" "low_watermark: 50" # five there and two in memory: no more than it holds is to move
    write_files 7
    has_moved $((4 * N * 8)) || fail "$(market_value tier.moved_out_bytes) bytes moved out"
    (($(market_value tier.limit_bytes) <= 96 << 20)) || fail "the limit is more than the disk has"
    grep -q "warning.*ssd_size. is 2 GiB, but 9[56].* MiB are free" "$H5MARKET_DIR/h5marketd.log" || fail "the log says nothing"
    h5market stat >out
    says_not "moving out fails"
    check_files 7
    end_disk
}

folder_goes() {
    rules 48MiB "full_timeout: 3s"
    run 0 h5market start
    rm -r ssd
    write_files 17 # as much as the file holds that is open
    run any "$H5DO" "create h.h5" "make d $N" "putall d 8" "close" "create i.h5" "make d $N" "putall d 8" close
    says "the market is full" "moving out fails: can't make $PWD/ssd/" "No such file or directory"
    run 0 h5market stat
    says "moving out fails: can't make $PWD/ssd/"
    check_files 17
}

# Bytes that changed on the disk are an error, for that file alone.
corrupt() {
    rules 64MiB "high_watermark: 1" "low_watermark: 1"
    write_files 2
    until_true 5 has_moved $((2 * N * 8)) || fail "it stays in memory"
    local segment
    segment=$(find ssd -name 'segment-*' | head -n 1)
    printf 'changed' | dd of="$segment" bs=1 seek=$((9 << 20)) conv=notrunc status=none
    run any "$H5DO" "open f1.h5" "check d 1"
    cp out one.out
    run any "$H5DO" "open f2.h5" "check d 2"
    cat one.out >>out
    (($(grep -c "can't synchronously read\|cannot read a dataset" out) > 0)) || fail "changed bytes were read"
    says "tier of files" "corrupt"
    one "create g.h5" "make d 100" "putall d 1" close "open g.h5" "check d 1" close
}

# What the rules say where there is no room and no tier.
full_rules() { # RULE
    configure "memory: 40MiB" "full_timeout: 20s" "files: [{match: \"**\", mode: memory, $1}]"
}
full_fails() {
    full_rules "on_full: fail"
    write_files 2
    local begin=$SECONDS
    run 1 "$H5DO" "create f3.h5" "make d $N" "putall d 3" close
    says "the market is full" "on_full: fail" "f1.h5"
    ((SECONDS - begin < 10)) || fail "it waited"
    check_files 2
}
full_drops_the_oldest() {
    full_rules "on_full: drop-oldest"
    write_files 2
    background reader "$H5DO" "open f1.h5" "mark open" "await written" "check d 1" close
    await open
    write_one 3
    write_one 4
    : >written
    finished reader 0
    one "open f1.h5" "check d 1" close "open f4.h5" "check d 4" close
    run 1 "$H5DO" "open f2.h5"
    [[ ! -e f2.h5 ]] || fail "the entry of what was dropped is left"
    one "open f4.h5" "check d 4" close
}
full_goes_to_files() {
    full_rules "on_full: file"
    write_files 2
    one "create g.h5" "make d 1000000" "putall d 5" close # the rest of memory
    run 0 "$H5DO" "create f3.h5" "make d $N" "putall d 3" close "open f3.h5" "check d 3"
    says "memory is full: $PWD/f3.h5 becomes an ordinary file"
    run 0 env -u HDF5_VOL_CONNECTOR "$H5DO" "open f3.h5" "check d 3"
    is_stub f1.h5 || fail "f1.h5 isn't in memory"
    run 0 h5market rm -q f1.h5
    write_one 4
    says_not "memory is full"
    is_stub f4.h5 || fail "f4.h5 isn't in memory"
}

bad_folders() {
    rules 64MiB
    sed -i 's|^ssd: .*|ssd: relative/path|' rules.yaml
    run any "$H5DO" "create a.h5" "make d 10"
    says "rules.yaml:2" "absolute path"
    sed -i "s|^ssd: .*|ssd: $PWD/no/such/folder|" rules.yaml
    run 1 h5market start
    says "no/such"
    : >file
    sed -i "s|^ssd: .*|ssd: $PWD/file|" rules.yaml
    run 1 h5market start
    says "file"
}

run_cases "$@"
