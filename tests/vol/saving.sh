#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# What users hear of files on their way to disk.
# usage: saving.sh CASE...
# shellcheck disable=SC2317 # cases are called by name
# shellcheck source=tests/vol/h5do.sh
# shellcheck disable=SC2034
mode=market
. "$(dirname "$0")/h5do.sh"

both() {
    printf '%s\n' "$@" "files:" '- {match: "m*", mode: memory}' '- {match: "*", mode: both, keep: 2}' >h5market.yaml
    export H5MARKET_CONFIG=$PWD/h5market.yaml
}
write() { one "create $1" "make d 100" "putall d $2" "close"; } # FILE VALUE
state_is() { # FILE STATE
    h5market ls "$1" | grep -qE " $2 +$PWD/$1$"
}
native_reads() { run 0 env -u HDF5_PLUGIN_PATH -u HDF5_VOL_CONNECTOR "$H5DO" "open $1" "check d $2"; }

# The states of files, in ls and stat.
states() {
    both
    write m.h5 1
    write a.h5 1
    run 0 h5market wait a.h5
    run 0 h5market ls
    says "STATE"
    state_is m.h5 memory || fail "m.h5 isn't in memory"
    state_is a.h5 saved || fail "a.h5 isn't saved"
    mkdir .a.h5.h5market-tmp
    write a.h5 2
    until_true 20 state_is a.h5 failing || fail "a.h5 doesn't fail"
    run 0 h5market ls
    says "$PWD/a.h5 isn't saved after " "h5market-tmp: Is a directory" "1 to be saved"
    run 0 h5market stat a.h5
    says "mode     both, durability async" "failing" "isn't saved after "
    # The former version is still what stands on disk.
    [[ $(grep -c " saved$" out) == 1 ]] || fail "not one version is saved"
    native_reads a.h5 1
    run 0 h5market stat
    says "to be saved     1"
    run 0 h5market stat --json a.h5
    says '"state": "failing"' '"mode": "both"' '"retry_s": '
    rmdir .a.h5.h5market-tmp
    run 0 h5market wait a.h5
    run 0 h5market stat a.h5
    [[ $(grep -c " saved$" out) == 1 && $(grep -c " memory$" out) == 1 ]] ||
        fail "the older version is on disk no more"
    native_reads a.h5 2
}

# Programs that write a file aside and move it to its place, and that remove what they have written: no file comes back,
# and nobody is told of it.
moved_and_removed() {
    local i
    printf 'files: [{match: "*", mode: both}]\n' >h5market.yaml
    export H5MARKET_CONFIG=$PWD/h5market.yaml
    for i in {1..60}; do
        write aside.h5 "$i"
        mv aside.h5 a.h5
        one "open a.h5" "check d $i" "close"
        says_not "on disk yet"
        write gone.h5 "$i"
        ((i % 5)) || sleep 0.06
        rm gone.h5
    done
    run 0 h5market wait --all
    native_reads a.h5 60
    until_true 20 only_one_file || fail "more than a.h5 is there: $(ls -A) $(h5market ls)"
    one "! open gone.h5" "! open aside.h5" "open a.h5" "check d 60" "close"
}
only_one_file() {
    [[ ! -e aside.h5 && ! -e gone.h5 && $(h5market ls --json | grep -c '"path"') == 1 ]] &&
        ! compgen -G ".*.h5market-tmp" >/dev/null
}

# A program whose file can't be saved hears of it at its next open, once; so does the next writer of that file.
notices() {
    both
    mkdir .a.h5.h5market-tmp
    background writer "$H5DO" "create a.h5" "make d 100" "putall d 1" "close" "mark written" "await failing" \
        "create b.h5" "make d 100" "putall d 1" "close" "create c.h5" "close" "open b.h5" "close"
    await written
    until_true 20 state_is a.h5 failing || fail "a.h5 doesn't fail"
    : >failing
    finished writer 0
    says "h5market: '$PWD/a.h5' is not on disk yet, it stays in memory: " "h5market-tmp: Is a directory"
    [[ $(grep -c "is not on disk yet" out) == 1 ]] || fail "it isn't said once"
    write a.h5 2 # told already, and nothing new
    says_not "is not on disk yet"
    rmdir .a.h5.h5market-tmp
    run 0 h5market wait --all
    # Another failure is news, for the next that writes the file, not for others.
    mkdir .a.h5.h5market-tmp
    write a.h5 3
    until_true 20 state_is a.h5 failing || fail "a.h5 doesn't fail again"
    write c.h5 4
    says_not "is not on disk yet"
    one "openrw a.h5" "putall d 5" "close"
    says "a.h5' is not on disk yet"
    rmdir .a.h5.h5market-tmp
    run 0 h5market wait --all
    native_reads a.h5 5
}

# Rules for datasets: what is of mode memory stays there, and reads as fill values from the file, where a mark says so.
datasets() {
    printf '%s\n' "files:" "  d*:" "    datasets:" "      /diagnostics/kept: both" "      /diagnostics/**: memory" \
        "  *: both" >h5market.yaml
    export H5MARKET_CONFIG=$PWD/h5market.yaml
    native() { run 0 env -u HDF5_PLUGIN_PATH -u HDF5_VOL_CONNECTOR "$@"; }
    one "create d.h5" "group diagnostics" "make diagnostics/a 100" "putall diagnostics/a 1" "make diagnostics/kept 100" \
        "putall diagnostics/kept 2" "make a 100" "putall a 3" "make diagnostics/never 10" "close"
    run 0 h5market wait d.h5
    native "$H5DO" "open d.h5" "zeros diagnostics/a" "check diagnostics/kept 2" "check a 3"
    native h5dump -A d.h5
    [[ $(grep -c "ATTRIBUTE \"H5MARKET_in_memory_only\"" out) == 1 ]] || fail "not one dataset is marked"
    # From memory all is there, and the mark isn't.
    one "open d.h5" "check diagnostics/a 1" "check diagnostics/kept 2" "check a 3"
    run 0 h5dump -A d.h5
    says_not "H5MARKET_in_memory_only"
    # Saved by hand the file is whole.
    run 0 h5market save d.h5 whole.h5
    native "$H5DO" "open whole.h5" "check diagnostics/a 1" "check a 3"
    # The rule holds on in later versions, and a dataset made in another place or in a file of another rule has none.
    one "openrw d.h5" "putall diagnostics/a 5" "make b 100" "putall b 6" "close"
    one "create e.h5" "group diagnostics" "make diagnostics/a 100" "putall diagnostics/a 7" "close"
    run 0 h5market wait --all
    native "$H5DO" "open d.h5" "zeros diagnostics/a" "check b 6"
    native "$H5DO" "open e.h5" "check diagnostics/a 7"
    one "open d.h5" "check diagnostics/a 5" "check b 6"
    # Its memory isn't taken from it, and the market doesn't end without a word.
    run 0 h5market stat --json d.h5
    says '"keeps_datasets": true' '"state": "saved"'
    run 1 h5market stop
    says "1 version(s) of 1 file(s), or datasets of them, exist only in memory (the first is $PWD/d.h5)"
    run 0 h5market stop --discard
    grep -q "lost: $PWD/d.h5 (its datasets of mode memory)" "$H5MARKET_DIR/h5marketd.log" || fail "the log says nothing"
    run 0 h5market config check d1.h5
    says "datasets        /diagnostics/kept: both, /diagnostics/**: memory"
}

# Full memory takes saved files, but for those.
datasets_stay_in_full_memory() {
    printf '%s\n' "memory: 32MiB" "full_timeout: 1s" "files:" "  d*: {datasets: {kept: memory}}" "  *: both" >h5market.yaml
    export H5MARKET_CONFIG=$PWD/h5market.yaml
    h5market stop --discard >/dev/null
    one "create d.h5" "make kept 1000000" "putall kept 1" "close"
    local i
    for i in 1 2 3 4; do
        one "create f$i.h5" "make a 2000000" "putall a $i" "close"
        run 0 h5market wait --all
    done
    one "open d.h5" "check kept 1"
    run 0 h5market ls
    says "d.h5"
    [[ $(grep -c "f[1-4].h5" out) -lt 4 ]] || fail "nothing had to go: the test shows nothing"
}

# In a batch step whose daemon a program has started, its exit waits until what it wrote is on disk.
is_on_disk() { (($(stat -c %s "$1") > 512)); }
exit_waits() {
    both
    h5market stop --discard >/dev/null
    export H5MARKET_FAULT=archiver.ordered:sleep=3000 # its first save
    SLURM_JOB_ID=7 one "create a.h5" "make d 100" "putall d 1" "close"
    says "h5market: the exit waits for 1 file(s) to be on disk: "
    is_on_disk a.h5 || fail "it didn't wait"
    native_reads a.h5 1
    # Not for what others wrote, nor for what it only read, nor where nobody needs it: these files can't be saved.
    local file
    for file in b c e f; do mkdir .$file.h5.h5market-tmp; done
    write b.h5 2
    PBS_JOBID=8 one "open b.h5" "check d 2" "close"
    H5MARKET_EXIT_WAIT=0 LSB_JOBID=9 one "create c.h5" "close"
    SLURM_JOB_ID=7 one "create m.h5" "close"
    H5MARKET_EXIT_WAIT=1 one "create d.h5" "close"
    is_on_disk d.h5 || fail "it didn't wait with H5MARKET_EXIT_WAIT=1"
    # A daemon of the batch script outlives the step.
    h5market stop --discard >/dev/null
    run 0 h5market start
    SLURM_JOB_ID=7 one "create e.h5" "close"
    # By rule.
    h5market stop --discard >/dev/null
    printf '%s\n' "files:" "  *: {exit_wait: never}" >h5market.yaml
    SLURM_JOB_ID=7 one "create f.h5" "close"
    unset H5MARKET_FAULT
}

exit_wait_ends() {
    printf '%s\n' "files:" "  *: {exit_wait: 1s}" >h5market.yaml
    export H5MARKET_CONFIG=$PWD/h5market.yaml SLURM_JOB_ID=7
    h5market stop --discard >/dev/null
    mkdir .a.h5.h5market-tmp
    write a.h5 1
    says "h5market: 1 file(s) of this program are NOT on disk" "h5market-tmp: Is a directory"
    rmdir .a.h5.h5market-tmp
    run 0 h5market wait --all
    h5market stop >/dev/null
    # The daemon dies.
    export H5MARKET_FAULT=archiver.ordered:stop H5MARKET_FAULT_ONCE=$PWD/once
    background writer "$H5DO" "create b.h5" "make d 100" "putall d 1" "close" "mark closed"
    await closed
    until_true 20 state_is b.h5 saving || fail "b.h5 isn't being saved"
    kill -KILL "$(cat "$H5MARKET_DIR/daemon.pid")" "$(cat "$H5MARKET_DIR/worker.pid")"
    finished writer 0
    says "h5market: whether the files of this program are on disk isn't known: "
    kill -KILL "$(cat once.archiver.ordered)"
    unset H5MARKET_FAULT H5MARKET_FAULT_ONCE SLURM_JOB_ID
    rm -f b.h5
}

# Of a group one process waits, in both orders of MPI's and HDF5's end.
exit_waits_ranks() {
    both
    local last
    for last in mpi-finalize h5close; do
        h5market stop --discard >/dev/null
        export H5MARKET_FAULT=archiver.ordered:sleep=3000
        H5MARKET_EXIT_WAIT=1 job 2 "access world" "create x-$last.h5" "make d 100" "putall d 1" "close" "$last"
        is_on_disk x-$last.h5 || fail "it didn't wait"
        [[ $(grep -c "the exit waits for 1 file(s)" out) == 1 ]] || fail "not one rank waited"
        native_reads x-$last.h5 1
    done
    unset H5MARKET_FAULT
}

run_cases "$@"
