#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Places where a file can't be saved at first, and what a file that is replaced keeps.
# usage: archiver_places.sh CASE...
# shellcheck disable=SC2317 # cases are called by name
# shellcheck source=tests/vol/h5do.sh
# shellcheck disable=SC2034
mode=market
. "$(dirname "$0")/../vol/h5do.sh"

skip() {
    echo "skipped: $*"
    exit 77
}
both() {
    h5market stop --discard >/dev/null
    printf 'files: [{match: "**", mode: both}]\n' >rules.yaml
    export H5MARKET_CONFIG=$PWD/rules.yaml
}
write() { one "create $1" "make d 100000" "putall d $2" "close"; } # FILE VALUE
native() { HDF5_VOL_CONNECTOR='' HDF5_PLUGIN_PATH='' one "open $1" "check d $2"; }
saved() { "$MARKET_PROBE" saved "" "$1" >state; } # MS
tidy() { [[ -z $(find . -name '*h5market-tmp*') ]] || fail "left behind: $(find . -name '*h5market-tmp*')"; }
logs() { grep -q -- "$1" "$H5MARKET_DIR/h5marketd.log" || fail "the log doesn't say: $1"; }
# fails_and_recovers FILE REASON REMEDY...: FILE, of value 5, can't be saved, and can after the remedy.
fails_and_recovers() {
    local file=$1 reason=$2
    shift 2
    says_why() { saved 100; grep -q -- "$reason" state; }
    until_true 10 says_why || fail "nobody says '$reason': $(cat state)"
    logs "$reason"
    one "open $file" "check d 5" # from memory
    "$@"
    saved 20000 || fail "not saved in the end: $(cat state)"
    native "$file" 5
    one "open $file" "check d 5"
    tidy
}

with_tmpfs() { # SIZE CASE
    mkdir -p full
    mount -t tmpfs -o size="$1" none full 2>/dev/null || skip "no tmpfs can be mounted"
    trap 'umount full' EXIT
}

disk_full() {
    with_tmpfs 3m
    both
    head -c 2500000 /dev/zero >full/ballast
    write "$PWD/full/x.h5" 5
    fails_and_recovers full/x.h5 "No space left" rm full/ballast
    # An old file stays whole while its successor has no room.
    head -c 1700000 /dev/zero >full/ballast
    write "$PWD/full/x.h5" 6
    says_why() { saved 100; grep -q "No space left" state; }
    until_true 10 says_why || fail "it had room"
    native full/x.h5 5
    rm full/ballast
    saved 20000 || fail "not saved in the end: $(cat state)"
    native full/x.h5 6
    h5market stop >/dev/null
    umount full
    trap - EXIT
}

# What a program removed and wrote anew before the former was saved: nobody waits for the former.
removed_and_anew() {
    both
    export H5MARKET_FAULT=archiver.ordered:stop H5MARKET_FAULT_ONCE=$PWD/once
    write x.h5 5
    unset H5MARKET_FAULT H5MARKET_FAULT_ONCE
    until_true 10 test -s once.archiver.ordered || fail "no order"
    rm x.h5
    write x.h5 6
    kill -CONT "$(cat once.archiver.ordered)"
    saved 20000 || fail "the removed file is waited for: $(cat state)"
    native x.h5 6
    write y.h5 7
    write z.h5 8
    mv z.h5 y.h5
    saved 20000 || fail "the file that another was moved over is waited for: $(cat state)"
    native y.h5 8
    tidy
    h5market stop >/dev/null || fail "it can't be stopped"
}

# A file that was moved after it had been saved: what is written to it then goes where it is.
moved_and_changed() {
    both
    write x.h5 5
    write other.h5 1
    saved 20000 || fail "not saved: $(cat state)"
    mv x.h5 y.h5
    mv other.h5 x.h5
    one "openrw y.h5" "putall d 6" "close"
    saved 20000 || fail "not saved where it was moved to: $(cat state)"
    native y.h5 6
    native x.h5 1
    tidy
    h5market stop >/dev/null || fail "it can't be stopped"
}

# Root isn't bound by permissions unless it gives that up.
closed_folder() {
    ((EUID != 0)) && {
        folder_is_closed
        return
    }
    local without=(setpriv --bounding-set -dac_override --inh-caps -dac_override)
    "${without[@]}" true 2>/dev/null || skip "no setpriv"
    "${without[@]}" "$0" folder_is_closed || fail "see above"
}

folder_is_closed() {
    both
    mkdir closed
    # The archiver is stopped at its first step, so that the folder can be closed before it.
    export H5MARKET_FAULT=archiver.ordered:stop H5MARKET_FAULT_ONCE=$PWD/once
    write "$PWD/closed/x.h5" 5
    unset H5MARKET_FAULT H5MARKET_FAULT_ONCE
    until_true 10 test -s once.archiver.ordered || fail "no order"
    chmod a-w closed
    kill -CONT "$(cat once.archiver.ordered)"
    fails_and_recovers closed/x.h5 "Permission denied" chmod u+w closed
    h5market stop >/dev/null
}

folder_gone() {
    both
    mkdir gone
    write "$PWD/gone/y.h5" 4
    saved 20000
    export H5MARKET_FAULT=archiver.ordered:stop H5MARKET_FAULT_ONCE=$PWD/once
    h5market stop >/dev/null
    write "$PWD/gone/x.h5" 5
    unset H5MARKET_FAULT H5MARKET_FAULT_ONCE
    until_true 10 test -s once.archiver.ordered || fail "no order"
    mv gone elsewhere # with the stub: it is saved there
    kill -CONT "$(cat once.archiver.ordered)"
    saved 20000 || fail "not saved in the moved folder: $(cat state)"
    native elsewhere/x.h5 5
    [[ ! -e gone ]] || fail "the former folder is back"
    tidy
}

# What an existing file has beside its bytes stays.
attributes_stay() {
    both
    HDF5_VOL_CONNECTOR='' write x.h5 1
    chmod 0640 x.h5
    ((EUID != 0)) || chown 1234:2345 x.h5
    "$MKT_PYTHON" -c 'import os; os.setxattr("x.h5", "user.note", b"kept"); os.setxattr("x.h5", "user.empty", b"")' 2>/dev/null ||
        skip "no user attributes on this file system"
    write x.h5 5
    saved 20000 || fail "not saved: $(cat state)"
    native x.h5 5
    [[ $(stat -c %a x.h5) == 640 ]] || fail "its mode is $(stat -c %a x.h5)"
    ((EUID != 0)) || [[ $(stat -c %u:%g x.h5) == 1234:2345 ]] || fail "its owner is $(stat -c %u:%g x.h5)"
    [[ $("$MKT_PYTHON" -c 'import os; print(os.getxattr("x.h5", "user.note").decode() + str(os.listxattr("x.h5").count("user.empty")))') == kept1 ]] ||
        fail "its attributes are gone"
    (umask 027 && write new.h5 6)
    saved 20000 || fail "not saved: $(cat state)"
    [[ $(stat -c %a new.h5) == 640 ]] || fail "the mode of a new file is $(stat -c %a new.h5)"
    # A read-only leftover of a killed archiver is no hindrance.
    : >.new.h5.h5market-tmp && chmod 0400 .new.h5.h5market-tmp
    write new.h5 7
    saved 20000 || fail "not saved: $(cat state)"
    native new.h5 7
    # A link leads to the file that is meant.
    mkdir real && ln -s real/l.h5 l.h5
    write l.h5 8
    saved 20000 || fail "not saved: $(cat state)"
    native real/l.h5 8
    [[ -L l.h5 ]] || fail "the link is gone"
    tidy
}

# A program without the connector that changes the former file isn't written into a file that is gone.
open_for_writing() {
    both
    HDF5_VOL_CONNECTOR='' write x.h5 1
    background changer env -u HDF5_VOL_CONNECTOR -u HDF5_PLUGIN_PATH "$H5DO" "openrw x.h5" "mark open" "await go" \
        "putall d 6" "close"
    await open
    write x.h5 5
    says_why() { saved 100; grep -q "x.h5 is open for writing in another program" state; }
    until_true 10 says_why || fail "nobody says that it is open: $(cat state)"
    : >go
    finished changer 0
    native x.h5 6
    one "open x.h5" "check d 6"
}

# Hard links stay one file: it is written in place, and that is said.
hard_links() {
    both
    HDF5_VOL_CONNECTOR='' write x.h5 1
    ln x.h5 other.h5
    write x.h5 5
    saved 20000 || fail "not saved: $(cat state)"
    native other.h5 5
    [[ x.h5 -ef other.h5 ]] || fail "the links are two files"
    logs "info    archiver: $PWD/x.h5 was written in place, since it has 2 hard links"
    tidy
}

# A folder that can't be synced: the file's name there isn't safe, and that is said.
folder_not_synced() {
    both
    export H5MARKET_FAULT=save.folder-sync:error=IO_ERROR H5MARKET_FAULT_ONCE=$PWD/once
    write x.h5 5
    unset H5MARKET_FAULT H5MARKET_FAULT_ONCE
    until_true 10 test -s once.save.folder-sync || fail "the folder wasn't synced"
    saved 20000 || fail "not saved in the end: $(cat state)"
    logs "can't write the folder"
    native x.h5 5
    H5MARKET_FAULT=save.folder-sync:error=IO_ERROR run 1 h5market save x.h5 copy.h5
    says "can't write the folder" "input/output error"
    native copy.h5 5
    run 0 h5market save --force x.h5 copy.h5
    tidy
}

run_cases "$@"
