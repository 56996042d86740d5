#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Opens, closes, versions and names, with one process a program. Native is the oracle of the cases that
# both can do.
# usage: files.sh native|market CASE...
# shellcheck disable=SC2317 # cases are called by name
# shellcheck source=tests/vol/h5do.sh
mode=$1
. "$(dirname "$0")/h5do.sh"
shift

write() { one "create $1" "make d 100" "putall d $2" "close"; } # FILE VALUE
reads() { one "open $1" "check d $2"; }                          # FILE VALUE

# ---- opens

modes_of_open() {
    write x.h5 5
    one "! excl x.h5"
    one "excl y.h5" "make d 10" "putall d 1" "close" "! excl y.h5" "create y.h5" "! check d 1" "close"
    one "openrw x.h5" "putall d 6" "make e 5" "putall e 7" "close"
    one "open x.h5" "check d 6" "check e 7" "! putall d 1" "close"
    one "! open none.h5" "! openrw none.h5"
    reads x.h5 6
}

same_process_twice() {
    one "create x.h5" "make d 100" "putall d 5" "openrw x.h5" "check d 5" "putall d 6" "use 0" "check d 6" "close" \
        "use 0" "check d 6" "close"
    reads x.h5 6
    one "open x.h5" "open x.h5" "check d 6" "close" "check d 6" "close"
    one "open x.h5" "! openrw x.h5" "! create x.h5" "check d 6" "close"
}

exit_without_close() {
    one "create x.h5" "make d 100" "putall d 5"
    reads x.h5 5
    one "create y.h5" "make d 100" "putall d 5" "keep d" "write 6" "exit"
    reads y.h5 6
}

descriptors_closed_between_files() { # as a program does that becomes a daemon
    one "create x.h5" "make d 100" "putall d 5" "close" "close-descriptors" "open x.h5" "check d 5" "close"
    one "open x.h5" "check d 5" "close" "close-descriptors" "open x.h5" "check d 5" "close" \
        "close-descriptors" "openrw x.h5" "putall d 6" "close" "close-descriptors" \
        "create y.h5" "make d 100" "putall d 7" "close"
    reads x.h5 6
    reads y.h5 7
}

dataset_outlives_file() { # weak close
    one "create x.h5" "make d 100" "keep d" "close" "write 5" "drop"
    reads x.h5 5
}

names() {
    write "µ-файл-文件.h5" 5
    reads "µ-файл-文件.h5" 5
    mkdir -p "a b/c" real
    write "a b/c/../x.h5" 6
    reads "a b/x.h5" 6
    reads "./a b//x.h5" 6
    cd "a b/c" || return
    write ../../up.h5 7
    cd ../..
    reads "$PWD/up.h5" 7
    ln -s real folder
    write folder/x.h5 8
    reads real/x.h5 8
    ln -s real/x.h5 link.h5
    reads link.h5 8
    one "openrw link.h5" "putall d 9" "close"
    reads real/x.h5 9
    write link.h5 10
    reads real/x.h5 10
    [[ -L link.h5 ]] || fail "the symbolic link is gone"
    ln -s real/later.h5 dangling.h5
    write dangling.h5 11
    reads dangling.h5 11
    reads real/later.h5 11
    ln real/x.h5 hard.h5
    reads hard.h5 10
}

long_paths() {
    local top=$PWD part i
    part=$(printf 'ordner-%0190d' 1)
    for ((i = 0; i < 19; i++)); do
        mkdir "$part" && cd "$part" || fail "no deep folder"
    done
    write x.h5 5
    reads x.h5 5
    ((${#PWD} < 4080)) && reads "$PWD/x.h5" 5
    write "$PWD/y.h5" 6
    reads y.h5 6
    part=$(printf 'ordner-%0190d' 1)
    for ((i = 0; i < 4; i++)); do # from here on no absolute path reaches the file
        mkdir "$part" && cd "./$part" || fail "no deeper folder"
    done
    write x.h5 5
    reads x.h5 5
    cd "$top" || exit 1
}

# ---- the market alone

# (Native truncates the file before it finds it locked.)
second_writer_is_refused() {
    background first "$H5DO" "create x.h5" "make d 100" "putall d 5" "mark open" "await go" "close"
    await open
    one "! create x.h5"
    says "x.h5' is open for writing in h5do (pid "
    one "! openrw x.h5"
    says "x.h5' is open for writing in h5do (pid "
    : >go
    finished first 0
    reads x.h5 5
}

stays_in_memory() {
    one "create x.h5" "make d 1000000" "putall d 5" "close"
    is_stub x.h5 || fail "x.h5 is on disk"
    umask 027
    write y.h5 1
    [[ $(stat -c %a y.h5) == 640 ]] || fail "the stub doesn't follow umask"
    umask 022
}

moved_stub() {
    one "create x.tmp" "make d 100" "putall d 5" "close"
    mv x.tmp x.h5
    reads x.h5 5
    one "create x.tmp" "make d 100" "putall d 6" "close"
    mv x.tmp x.h5
    reads x.h5 6
    mkdir sub
    mv x.h5 sub/
    reads sub/x.h5 6
    one "! open x.h5"
    mv sub other
    one "openrw other/x.h5" "putall d 7" "close"
    reads other/x.h5 7
    one "! open sub/x.h5"
    background writer "$H5DO" "create w.tmp" "make d 100" "putall d 8" "mark open" "await go" "close"
    await open
    mv w.tmp w.h5 # while it is being written
    : >go
    finished writer 0
    reads w.h5 8
}

removed_stub() {
    local before
    write y.h5 1
    before=$(market_value memory.used_bytes)
    one "create x.h5" "make d 4000000" "putall d 5" "close"
    (($(market_value memory.used_bytes) > before + 30000000)) || fail "used_bytes doesn't count x.h5"
    rm x.h5
    until_true 2 used_is_at_most "$before" || fail "memory isn't back within 2 s"
    one "! open x.h5"
    mkdir folder
    one "create folder/x.h5" "make d 4000000" "putall d 5" "close"
    rm -r folder
    until_true 2 used_is_at_most "$before" || fail "memory of a removed folder isn't back"
    reads y.h5 1
}
used_is_at_most() { (($(market_value memory.used_bytes) <= $1)); }

removed_while_open() { # as native: who has it open keeps it, and it is gone with that
    one "create x.h5" "make d 100" "putall d 5" "close"
    background reader "$H5DO" "open x.h5" "mark open" "await go" "check d 5" "close"
    await open
    rm x.h5
    sleep 1.5
    : >go
    finished reader 0
    one "! open x.h5"
    background writer "$H5DO" "create w.h5" "make d 100" "putall d 5" "mark open2" "await go2" "close"
    await open2
    rm w.h5
    sleep 1.5
    : >go2
    finished writer any
    [[ ! -e w.h5 ]] || fail "the removed w.h5 was created again"
    one "! open w.h5"
}

readonly_folder() {
    mkdir folder
    write folder/x.h5 5
    chmod 555 folder
    if [[ -w folder ]]; then # root: a read-only mount shows the same
        mount --bind folder folder 2>/dev/null && mount -o remount,ro,bind folder 2>/dev/null || {
            umount folder 2>/dev/null
            echo "no read-only folder for root: skipped"
            return
        }
    fi
    one "open folder/x.h5" "check d 5" "close" "create folder/y.h5" "make d 100" "putall d 6" "close" \
        "openrw folder/x.h5" "putall d 7" "close"
    [[ ! -e folder/y.h5 ]] || fail "a stub in a read-only folder"
    reads folder/y.h5 6
    reads folder/x.h5 7
    one "openrw folder/y.h5" "putall d 8" "close"
    reads folder/y.h5 8
    run 0 h5market rm folder/y.h5
    one "! open folder/y.h5"
    umount -l folder 2>/dev/null
    chmod 755 folder
}

bind_mounts() {
    mkdir real bound
    mount --bind real bound 2>/dev/null || exit 77
    write real/x.h5 5
    reads bound/x.h5 5
    write bound/x.h5 6
    reads real/x.h5 6
    write bound/y.h5 7
    reads real/y.h5 7
    rm bound/*.h5 # the daemon looks after the entries, through the mount
    until_true 3 umount bound || fail "the mount stays busy"
}

mode_file() { # what native makes, changes or deletes by rule is in the market no more
    local call
    rules() { # MODE: of all files from here on
        printf 'files:\n  - {match: "**", mode: %s}\n' "$1" >h5market.yaml
        export H5MARKET_CONFIG=$PWD/h5market.yaml
    }
    in_memory() { h5market ls "$1" | grep -q "/$1\$"; }
    rules file
    # No stub stands there, so the daemon isn't waited for.
    one "create x.h5" "make d 100" "putall d 5" "close" "accessible x.h5" "open x.h5" "check d 5" "close" \
        "! accessible none.h5" "delete x.h5" "! delete x.h5" "! open x.h5"
    [[ ! -e x.h5 ]] || fail "x.h5 is still there"
    # A stub is the market's: yes, and it goes with its object.
    rules memory
    write x.h5 1
    write y.h5 1
    rules file
    one "accessible x.h5" "delete x.h5" "! accessible x.h5"
    [[ ! -e x.h5 ]] || fail "the stub x.h5 is still there"
    ! in_memory x.h5 || fail "the deleted x.h5 is in memory"
    # So it does when native makes a file there.
    one "create y.h5" "make d 100" "putall d 2" "close"
    ! in_memory y.h5 || fail "y.h5 is in memory"
    rules memory
    reads y.h5 2
    # A file that the market knows, over which something was written, in memory only.
    for call in "create y.h5" "openrw y.h5" "delete y.h5"; do
        rules file
        write y.h5 1
        rules memory
        write y.h5 3
        in_memory y.h5 || fail "y.h5 isn't in memory before '$call'"
        rules file
        case $call in
        delete*) one "$call" ;;
        create*) one "$call" "make d 100" "putall d 4" "close" ;;
        *) one "$call" "check d 1" "putall d 4" "close" ;;
        esac
        until_true 1 eval '! in_memory y.h5' || fail "y.h5 is in memory after '$call'"
        rules memory
        if [[ $call == delete* ]]; then one "! open y.h5"; else reads y.h5 4; fi
    done
    # One that may not be written takes nothing along, nor does a create that refuses what stands there.
    rules memory
    write z.h5 1
    rules file
    one "! excl z.h5" "! openrw z.h5"
    rules memory
    reads z.h5 1
}

mode_file_of_what_is_owed() { # a change of the file goes on from the newest version
    local file
    printf 'files:\n  - {match: "**", mode: both}\n' >both.yaml
    printf 'files:\n  - {match: "**", mode: file, writer_timeout: %s}\n' 20 >file.yaml
    printf 'files:\n  - {match: "**", mode: file, writer_timeout: %s}\n' 1 >hasty.yaml
    export H5MARKET_CONFIG=$PWD/both.yaml
    for file in x.h5 y.h5; do
        write "$file" 1
        run 0 h5market wait "$file"
        mkdir ".$file.h5market-tmp" # it can't be saved
        write "$file" 2
    done
    export H5MARKET_CONFIG=$PWD/hasty.yaml
    one "openrw y.h5" "check d 1" "close"
    says "y.h5 is changed on disk by the rule" "isn't saved there"
    export H5MARKET_CONFIG=$PWD/file.yaml
    background changer "$H5DO" "openrw x.h5" "check d 2" "putall d 3" "close"
    sleep 0.5
    rmdir .x.h5.h5market-tmp
    finished changer 0
    export H5MARKET_CONFIG=$PWD/both.yaml
    reads x.h5 3
    native_reads x.h5 3
}
native_reads() { run 0 env -u HDF5_PLUGIN_PATH -u HDF5_VOL_CONNECTOR "$H5DO" "open $1" "check d $2"; }

native_file_in_the_way() {
    HDF5_VOL_CONNECTOR='' run 0 env -u HDF5_VOL_CONNECTOR "$H5DO" "create x.h5" "make d 100" "putall d 5" "close"
    cp -p x.h5 before.h5
    reads x.h5 5 # read through
    cmp x.h5 before.h5 || fail "a read touched the native file"
    write x.h5 6
    reads x.h5 6
    cmp x.h5 before.h5 || fail "the old file isn't whole after a create over it"
    run 0 env -u HDF5_VOL_CONNECTOR "$H5DO" "open x.h5" "check d 5" "close"
    one "openrw x.h5" "putall d 7" "close"
    reads x.h5 7
    cmp x.h5 before.h5 || fail "an append in memory touched the native file"
    # A file that is written natively afterwards wins.
    run 0 env -u HDF5_VOL_CONNECTOR "$H5DO" "create z.h5" "make d 100" "putall d 9" "close"
    mv z.h5 x.h5
    reads x.h5 9
    cp -p before.h5 y.h5
    one "! excl y.h5"
    one "openrw y.h5" "check d 5" "putall d 10" "close"
    reads y.h5 10
}

old_version_stays_open() {
    local step
    write x.h5 1000
    background reader "$H5DO" "open x.h5" "mark open" "await go" "check d 1000" "close"
    await open
    for step in 1 2 3 4 5; do
        write x.h5 "$step"
        reads x.h5 "$step"
    done
    : >go
    finished reader 0
    [[ $(versions_of x.h5) == 6 ]] || fail "the newest version isn't 6"
    run 0 h5market stat --json x.h5
    [[ $(grep -c '"number"' out) -le 1 ]] || fail "old versions are left"
}

rule_without_keep() { # keeps the newest of each file, not of all that it matches
    printf 'files:\n  - {match: "*.h5", mode: memory}\n' >h5market.yaml
    export H5MARKET_CONFIG=$PWD/h5market.yaml
    write x.h5 1
    write y.h5 2
    write z.h5 3
    reads x.h5 1
    reads y.h5 2
}

version_by_number() {
    printf 'files:\n  - {match: "x.h5", keep: 3, mode: memory}\n' >h5market.yaml
    export H5MARKET_CONFIG=$PWD/h5market.yaml
    local step
    for step in 1 2 3 4; do write x.h5 "$step"; done
    run 0 env HDF5_VOL_CONNECTOR="market version=2" "$H5DO" "open x.h5" "check d 2"
    run 0 env HDF5_VOL_CONNECTOR="market version=4" "$H5DO" "open x.h5" "check d 4"
    run 0 env HDF5_VOL_CONNECTOR="market version=1" "$H5DO" "! open x.h5"
    says "x.h5" "version 1"
    run 0 env HDF5_VOL_CONNECTOR="market version=9" "$H5DO" "! open x.h5"
    says "version 9"
    reads x.h5 4
}

waiting() {
    export HDF5_VOL_CONNECTOR="market wait=20"
    background reader "$H5DO" "open x.h5" "check d 5"
    background other "$H5DO" "open x.h5" "check d 5"
    sleep 0.7
    write x.h5 5
    finished reader 0
    finished other 0
    export HDF5_VOL_CONNECTOR="market wait=1"
    run 0 "$H5DO" "say t" "! open none.h5" "say after"
    says "none.h5" "nobody published it"
    grep -qE '^after (0\.9|1\.)' out || fail "wait=1 didn't wait a second"
    export HDF5_VOL_CONNECTOR=market
    run 0 "$H5DO" "say t" "! open none.h5" "say after"
    grep -qE '^after 0\.' out || fail "an open without wait waited"
    # Its folder isn't there yet.
    HDF5_VOL_CONNECTOR="market wait=20" background reader "$H5DO" "open later/x.h5" "check d 4"
    sleep 0.5
    mkdir later
    sleep 0.3
    write later/x.h5 4
    finished reader 0
    # A writer has it open and nothing is published: waits without `wait`, too.
    background writer "$H5DO" "create w.h5" "make d 100" "putall d 8" "mark open" "sleep 1" "close"
    await open
    one "open w.h5" "check d 8"
    finished writer 0
}

after_start() {
    write x.h5 1
    HDF5_VOL_CONNECTOR="market after=start wait=20" background reader "$H5DO" "create r.h5" "close" "mark connected" \
        "open x.h5" "check d 2"
    HDF5_VOL_CONNECTOR="market after=start" run 0 "$H5DO" "! open x.h5"
    says "x.h5"
    await connected
    write x.h5 2
    finished reader 0
}

publish_at_flush() {
    printf 'files:\n  - {match: "x.h5", publish: flush, mode: memory}\n' >h5market.yaml
    export H5MARKET_CONFIG=$PWD/h5market.yaml
    background writer "$H5DO" "create x.h5" "make d 100" "putall d 1" "flush" "mark one" "await go" "putall d 2" \
        "flush" "mark two" "await go2" "close"
    await one
    reads x.h5 1
    background reader "$H5DO" "open x.h5" "mark open" "await two" "check d 1" "close"
    await open
    : >go
    await two
    reads x.h5 2
    finished reader 0
    : >go2
    finished writer 0
    reads x.h5 2
}

publish_at_a_later_close() { # rank 0 writes a header and closes; then all open it and write
    printf 'files:\n  - {match: "x.h5", publish: close 2, mode: memory}\n' >h5market.yaml
    export H5MARKET_CONFIG=$PWD/h5market.yaml
    background writer "$H5DO" "create x.h5" "make d 100" "putall d 1" "close" "mark one" "await go" "openrw x.h5" \
        "check d 1" "putall d 2" "close" "mark two" "await go2" "openrw x.h5" "putall d 3" "close" "create x.h5" \
        "make d 100" "putall d 4" "close" "mark again" "await go3" "openrw x.h5" "check d 4" "close"
    await one
    HDF5_VOL_CONNECTOR="market" background reader "$H5DO" "open x.h5" "check d 2" # waits: somebody writes it
    sleep 0.3
    : >go
    finished reader 0
    await two
    reads x.h5 2
    : >go2
    await again
    reads x.h5 3 # the former file, as long as the next one was closed once only
    : >go3
    finished writer 0
    reads x.h5 4 # a close that changed nothing counts, too
    [[ $(h5market stat --json x.h5 | grep -c '"data_bytes"') == 1 ]] || fail "old versions are left"
}

# Two markets of one user in one folder: batch jobs.
stub_of_another_market() {
    local ours=$H5MARKET_DIR other=$PWD/other before
    mkdir -m 700 "$other"
    write y.h5 1
    before=$(market_value memory.used_bytes)
    one "create x.h5" "make d 1000000" "putall d 5" "close"
    export H5MARKET_DIR=$other
    one "! open x.h5"
    says "is a stub of another market" "if that market has ended"
    write x.h5 6 # takes the path over, as native would
    reads x.h5 6
    export H5MARKET_DIR=$ours
    until_true 3 used_is_at_most "$before" || fail "what was there before is still in memory"
    one "! open x.h5"
    says "is a stub of another market"
    h5market stop --discard >/dev/null # and leaves the other's entry alone
    export H5MARKET_DIR=$other
    sleep 1.2
    reads x.h5 6
    h5market stop --discard >/dev/null
    export H5MARKET_DIR=$ours
}

fork_after_use() {
    one "create x.h5" "make d 100" "putall d 5" "fork sleep 0" "fork close" "check d 5" "putall d 6" "close"
    reads x.h5 6
    [[ $(versions_of x.h5) == 1 ]] || fail "a child published"
    background writer "$H5DO" "create y.h5" "make d 100" "putall d 5" "fork sleep 0" "mark forked" "await go" "close"
    await forked
    one "! create y.h5"
    says "is open for writing"
    : >go
    finished writer 0
    reads y.h5 5
    one "open x.h5" "fork close" "fork exit" "check d 6" "fork open x.h5" "fork open y.h5" "check d 6" "close"
    # What the parent has open is not the child's to change.
    one "create z.h5" "make d 100" "putall d 7" "keep d" "! fork write 8" "! fork read 7" "read 7" "drop" "close"
    says "opened by the parent of this forked process"
    reads z.h5 7
}

abort_does_not_publish() {
    write x.h5 5
    ulimit -c 0
    run 134 "$H5DO" "create x.h5" "make d 100" "putall d 6" "abort" 2>/dev/null
    reads x.h5 5
    run 134 "$H5DO" "create y.h5" "make d 100" "putall d 6" "abort" 2>/dev/null
    one "! open y.h5"
    says "y.h5"
    write y.h5 7
    reads y.h5 7
}

run_cases "$@"
