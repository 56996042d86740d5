#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Who opens a file together, in what order, and how processes end. Native is the oracle of the cases
# that both can do.
# usage: groups.sh native|market CASE...
# shellcheck disable=SC2317 # cases are called by name
# shellcheck source=tests/vol/h5do.sh
mode=$1
. "$(dirname "$0")/../vol/h5do.sh"
shift

sub_communicators() {
    job 4 "access split 2" "create {c}.h5" "make d 1001" "put d {c}000" "barrier" "check d {c}000" "close"
    one "open 0.h5" "check d 0" "open 1.h5" "check d 1000"
    job 3 "access world" "open 0.h5" "check d 0" "open 1.h5" "checkpart d 1000" "close" "close"
}

file_of_each_rank() {
    job 3 "access self" "create {r}.h5" "make d 100" "put d {r}000" "close" "barrier" \
        "open 0.h5" "check d 0" "open 1.h5" "check d 1000" "open 2.h5" "check d 2000" "close" "close" "close"
    job 2 "access self" "open 2.h5" "check d 2000" "close"
}

serial_create_then_all() { # AMReX, Chombo
    job 3 "@0 create x.h5" "@0 make d 300" "@0 attr a 7" "@0 close" "barrier" "access world" "openrw x.h5" \
        "put d 5" "make e 30" "put e 9" "close"
    one "open x.h5" "check d 5" "check e 9" "checkattr a 7"
}

all_create_then_serial() {
    job 3 "access world" "create x.h5" "make d 300" "put d 5" "close" "barrier" "access serial" "@0 openrw x.h5" \
        "@0 make e 30" "@0 putall e 9" "@0 putall d 6" "@0 close" "barrier" "access world" "open x.h5" "check d 6" \
        "checkpart e 9" "close"
}

empty_selections() {
    for how in collective independent; do
        job 3 "access world" "create x.h5" "make d 300" "transfer $how" "@1 putall d 5" "@!1 putnone d 0" "close"
        one "open x.h5" "check d 5"
    done
}

nobody_writes() {
    job 3 "access world" "create x.h5" "make d 300" "transfer collective" "putnone d 0" "make e 20" "close"
    one "open x.h5" "zeros d" "zeros e"
}

one_writes() {
    job 3 "access world" "create x.h5" "make d 300" "@2 putall d 5" "barrier" "check d 5" "close"
    one "open x.h5" "check d 5"
}

uneven_calls() {
    job 3 "access world" "create x.h5" "make d 300" "@0 putall d 1" "@0 putall d 2" "@0 putall d 3" "barrier" \
        "@1 putall d 4" "barrier" "check d 4" "@2 put d 4" "close"
    one "open x.h5" "check d 4"
}

attributes() {
    job 3 "access world" "create x.h5" "attr a 5" "attr b 6" "group g" "checkattr a 5" "close"
    one "open x.h5" "checkattr a 5" "checkattr b 6"
}

more_readers_than_data() {
    job 2 "access world" "create x.h5" "make d 3" "put d 5" "close"
    for how in collective independent; do
        job 5 "access world" "open x.h5" "transfer $how" "checkpart d 5" "close"
    done
}

variable_length() {
    job 2 "access world" "create x.h5" "make d 10" "put d 3" "! makevl v" "close"
    says "Parallel IO does not support writing VL"
    one "open x.h5" "check d 3"
}

h5close_before_finalize() {
    job 2 "access world" "create x.h5" "make d 100" "put d 5" "close" "h5close" "mpi-finalize"
    one "open x.h5" "check d 5"
}

file_left_open() { # HDF5 closes it inside MPI_Finalize
    job 2 "access world" "create x.h5" "make d 100" "put d 5"
    one "open x.h5" "check d 5"
    job 2 "access world" "create y.h5" "make d 100" "put d 6" "h5close" "mpi-finalize"
    one "open y.h5" "check d 6"
}

finalize_first() { # HDF5 was there before MPI, so it ends after it
    job 2 late "create early{r}.h5" "close" "mpi-init" "access world" "create x.h5" "make d 100" "put d 5" "close" \
        "access serial" "mpi-finalize" "open x.h5" "check d 5" "close" "h5close"
    job 2 late "create early{r}.h5" "mpi-init" "make d 10" "putall d 3" "access world" "create x.h5" "make d 100" \
        "put d 6" "close" "access serial" "mpi-finalize"
    one "open x.h5" "check d 6" "open early0.h5" "check d 3" "open early1.h5" "check d 3"
}

# Native loses such a file (or hangs); what a market does is publish it, or say why not, and end.
left_open_after_finalize() {
    job 2 late "create early{r}.h5" "mpi-init" "access world" "create x.h5" "make d 100" "put d 6" \
        "access serial" "mpi-finalize"
    one "open x.h5" "check d 6"
}

# ---- the market alone

mismatch_fails_the_close() {
    job 2 "access world" "create x.h5" "make d 100" "put d 5" "close"
    job 2 "access world" "create x.h5" "make d 100" "put d 6" "@0 make e 10" "@1 make f 20" "! close"
    [[ $(grep -c "ranks disagree" out) -ge 2 ]] || fail "not both ranks say that they disagree"
    says "former version stays" "x.h5"
    one "open x.h5" "check d 5"
    [[ $(versions_of x.h5) == 1 ]] || fail "the newest version isn't 1"
    job 2 "access world" "openrw x.h5" "@0 make e 10" "! close"
    one "open x.h5" "check d 5" "! check e 0"
}

# HDF5 asks for the same name on all ranks; rank 0's counts.
different_paths() {
    job 2 "access world" "create x{r}.h5" "make d 100" "put d 5" "close"
    one "open x0.h5" "check d 5"
    [[ ! -e x1.h5 ]] || fail "x1.h5 was created"
}


second_group_is_refused() {
    background first "$MKT_MPIEXEC" -n 2 "$H5DO_MPI" "access world" "create x.h5" "make d 10" "put d 1" "@0 mark open" \
        "await go" "close"
    await open
    job 2 "access world" "! create x.h5"
    says "is open for writing"
    : >go
    finished first 0
    one "open x.h5" "check d 1"
}

run_cases "$@"
