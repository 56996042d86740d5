#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Programs with threads, some of which wait for files: HDF5's lock is the others' meanwhile.
# usage: threads.sh PROGRAM

program=$1

# run SECONDS CASE...: how long opens wait
run() {
    local wait=$1 case status
    shift
    for case in "$@"; do
        mkdir "$case"
        (cd "$case" && HDF5_VOL_CONNECTOR="market wait=$wait" "$program" "$case")
        status=$?
        ((status == 77)) && exit 77
        ((status == 0)) || { echo "$case: status $status" >&2 && exit 1; }
    done
}

run 20 waits_for_another_thread several_wait waits_while_it_is_written own_files fork_while_one_waits
run 1 nested_open_keeps_the_lock
# Longer than the test may take.
run 1000 close_ends_waits exit_ends_waits interrupt_ends_waits interrupt_ends_the_process
