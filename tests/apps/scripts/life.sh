# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
#
# How programs end, restart HDF5, fork and choose the connector: life.c.

life=${MKT_LIFE:-./life}
for case in left_open left_open_quick_exit dont_atexit weak semi strong again forks never_used; do
    step "$life" "$case" "$case.h5"
    step "$life" read "$case.h5"
done
# Connector strings of the environment.
string() {
    printf '## with "%s": %s\n' "$1" "${*:2}"
    if [[ -n ${HDF5_VOL_CONNECTOR-} ]]; then
        timeout 60 env HDF5_VOL_CONNECTOR="market $1" "$life" "${@:2}"
    else
        "$life" "${@:2}"
    fi
}
string "wait=1" weak string.h5
string "version=1" read string.h5
string "wait=1 after=start" weak string.h5
(
    export LIFE_CONNECTOR=${HDF5_VOL_CONNECTOR:-native}
    unset HDF5_VOL_CONNECTOR
    for case in by_hand_null by_hand_options; do
        step "$life" "$case" "$case.h5"
    done
)
step "$life" read by_hand_null.h5
