#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Runs the example programs coupled through memory, checks their results and that no data went to
# disk, and compares with plain files on tmpfs. Expects the environment of `./bootstrap env`.
set -u

usage() {
    cat <<END
usage: demo.sh [options]
  --native            only the comparison: plain files on tmpfs, without H5Market
  --steps N           files of the time series (8)
  --dims "NX NY NZ"   cells of the grid; there are three float64 fields (128 128 160)
  --particles N       particles of a rank, 40 bytes each (50000)
  --sleep-ms MS       pretend computation before each step (0)
  --programs DIR      where the built programs are (build/h5examples)
END
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
programs=${MKT_BUILD_DIR:-$here/../build}/h5examples
native_only=no steps=8 dims="128 128 160" particles=50000 sleep_ms=0
limit=120 # seconds for one program

while [ $# -gt 0 ]; do
    case $1 in
    --native) native_only=yes ;;
    --steps | --dims | --particles | --sleep-ms | --programs)
        [ $# -ge 2 ] || { usage >&2; exit 2; }
        name=${1#--} && name=${name//-/_}
        printf -v "$name" %s "$2"
        shift
        ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
    esac
    shift
done

python=${MKT_PYTHON:-python3}
work=
shm=
pids=()
rows=()

fail() {
    printf 'demo: %s\n' "$*" >&2
    exit 1
}

cleanup() {
    local status=$? pid
    trap - EXIT
    trap '' INT TERM
    for pid in "${pids[@]}"; do # each is a `timeout`, which passes the signal on to its program
        kill -TERM "$pid" 2>/dev/null
    done
    for pid in "${pids[@]}"; do
        wait "$pid" 2>/dev/null
    done
    [ -n "${H5MARKET_DIR:-}" ] && [ "$native_only" = no ] && timeout 20 h5market stop >/dev/null 2>&1
    [ -n "$work" ] && rm -rf "$work"
    [ -n "$shm" ] && rm -rf "$shm"
    exit "$status"
}

find_mpirun() {
    mpirun=("$(cat "$programs/mpiexec" 2>/dev/null || echo mpirun)") # the one that fits the programs
    command -v "${mpirun[0]}" >/dev/null || fail "no ${mpirun[0]}"
    if "${mpirun[0]}" --version 2>&1 | grep -q 'Open MPI\|OpenRTE\|PRRTE'; then
        # There may be fewer cores than ranks: let an idle rank give its core away.
        mpirun+=(--oversubscribe --bind-to none --mca mpi_yield_when_idle 1)
        [ "$(id -u)" = 0 ] && mpirun+=(--allow-run-as-root)
    fi
}

# start LOG CONNECTOR CMD...: in the background; CONNECTOR is HDF5_VOL_CONNECTOR, or native.
start() {
    local log=$1 connector=$2
    shift 2
    if [ "$connector" = native ]; then
        timeout -k 5 "$limit" env -u HDF5_VOL_CONNECTOR "$@" >"$log" 2>&1 </dev/null &
    else
        HDF5_VOL_CONNECTOR=$connector timeout -k 5 "$limit" "$@" >"$log" 2>&1 </dev/null &
    fi
    pids+=($!)
}

start_writer() { # LOG CONNECTOR PROGRAM FOLDER
    # shellcheck disable=SC2086 # the dimensions are three words
    start "$1" "$2" "${mpirun[@]}" -n 2 "$programs/$3" --dir "$4" --steps "$steps" --dims $dims \
        --particles "$particles" --sleep-ms "$sleep_ms"
}

start_readers() { # LOGS CONNECTOR FOLDER
    start "$1/analysis" "$2" "${mpirun[@]}" -n 3 "$programs/analysis" --dir "$3" --steps "$steps"
    start "$1/analysis.py" "$2" "$python" "$here/analysis.py" --dir "$3" --steps "$steps"
}

# Waits for all programs that were started; after two seconds says each second how far they are.
wait_all() { # LOGS
    local began=$SECONDS said=$((SECONDS + 1)) pid running log
    while [ ${#pids[@]} -gt 0 ]; do
        sleep 0.02
        running=()
        for pid in "${pids[@]}"; do
            if kill -0 "$pid" 2>/dev/null; then
                running+=("$pid")
            else
                wait "$pid" || report_failure "$1" $?
            fi
        done
        pids=("${running[@]}")
        if [ "$SECONDS" -gt "$said" ] && [ ${#pids[@]} -gt 0 ]; then
            said=$SECONDS
            printf '  %3d s:' $((SECONDS - began))
            for log in "$1"/*; do
                printf '  %s %d of %d' "${log##*/}" "$(grep -c ' step ' "$log")" "$steps"
            done
            printf '\n'
        fi
    done
}

report_failure() { # LOGS STATUS
    local log
    for log in "$1"/*; do
        printf -- '--- %s\n' "${log##*/}"
        tail -n 40 "$log"
    done >&2
    [ "$2" != 124 ] || fail "a program did not end within $limit s"
    fail "a program failed (exit status $2)"
}

value() { # NAME LOG
    sed -n "s/.*$1=\([0-9.]*\).*/\1/p" "$2" | tail -n 1
}

# run_case LANGUAGE PLACE ORDER PROGRAM FOLDER WRITER_CONNECTOR READER_CONNECTOR
# ORDER is together (readers started first) or after (readers started when the writer has ended).
run_case() {
    local logs=$work/logs began ended log row
    printf '%s writer, %s, readers %s\n' "$1" "$2" "$3"
    rm -rf "$logs" && mkdir -p "$logs" "$5" || exit 1
    if [ "$3" = together ]; then
        start_readers "$logs" "$7" "$5"
        sleep 1
        began=$EPOCHREALTIME
        start_writer "$logs/$4" "$6" "$4" "$5"
        wait_all "$logs"
    else
        began=$EPOCHREALTIME
        start_writer "$logs/$4" "$6" "$4" "$5"
        wait_all "$logs"
        start_readers "$logs" "$7" "$5"
        wait_all "$logs"
    fi
    ended=$EPOCHREALTIME
    grep -h ' mismatches,' "$logs"/analysis "$logs"/analysis.py | sed 's/,.*//; s/^/  /'
    row="$1|$2|$3|${began/,/.}|${ended/,/.}" # some locales write a decimal comma
    for log in "$logs/$4" "$logs/analysis" "$logs/analysis.py"; do
        row+="|$(value open_seconds "$log")|$(value io_seconds "$log")|$(value bytes "$log")"
    done
    rows+=("$row")
}

# Data in a folder of the market would be an error: only stubs of at most 512 bytes may be there.
check_no_data() { # FOLDER
    find "$1" -type f -printf '%s\n' | awk '
        { n++; bytes += $1 } END { printf "  on disk: %d files, %d bytes together", n, bytes }'
    printf '; du says %s\n' "$(du -sh "$1" | cut -f1)"
    [ -z "$(find "$1" -type f -size +512c)" ] || fail "data went to disk: $(ls -l "$1")"
}

market_case() { # LANGUAGE PROGRAM ORDER FOLDER
    run_case "$1" memory "$3" "$2" "$4" market "market wait=60"
    check_no_data "$4"
    local file
    for file in "$4"/*.h5; do # makes room for the next case
        timeout 20 h5market rm "$file" >/dev/null || fail "h5market rm $file failed"
    done
    rm -rf "$4"
}

market_cases() {
    # shellcheck disable=SC2016
    command -v h5market >/dev/null || fail 'no h5market in PATH: run eval "$(./bootstrap env)" first'
    "$python" -c 'import h5py; assert h5py.version.hdf5_version_tuple >= (1, 14, 0)' 2>/dev/null ||
        fail "$python has an h5py with an HDF5 older than 1.14, which loads no connector:" \
            "set MKT_PYTHON to one with a newer h5py (pip install h5py)"
    mkdir -m 700 "$work/market" || exit 1
    export H5MARKET_DIR=$work/market H5MARKET_CONFIG=$work/h5market.yaml
    cat >"$H5MARKET_CONFIG" <<END
files:
  - match: "*.h5"
    mode: memory
    keep: $steps
END
    market_case C simulation together "$work/c"
    [ -x "$programs/simulation_f" ] && market_case Fortran simulation_f together "$work/fortran"
    market_case C simulation after "$work/c_after"
    [ -x "$programs/simulation_f" ] && market_case Fortran simulation_f after "$work/fortran_after"
}

native_cases() {
    local need room
    # shellcheck disable=SC2086
    need=$(set -- $dims && echo $((steps * ($1 * $2 * $3 * 24 + 2 * particles * 40) + (64 << 20))))
    room=$(df -B1 --output=avail /dev/shm 2>/dev/null | tail -n 1)
    if [ "${room:-0}" -lt "$need" ]; then
        printf 'The comparison with tmpfs is left out: /dev/shm has no room for %d MiB.\n' $((need >> 20))
        [ "$native_only" = no ] || exit 1
        return
    fi
    shm=$(mktemp -d /dev/shm/h5market-demo.XXXXXX) || exit 1
    run_case C tmpfs after simulation "$shm/c" native native
    rm -rf "$shm/c"
    [ -x "$programs/simulation_f" ] || return
    run_case Fortran tmpfs after simulation_f "$shm/fortran" native native
}

print_table() {
    printf '%s\n' "${rows[@]}" | awk -F'|' '
        function rate(bytes, seconds) { return seconds > 0 ? bytes / seconds / 2^30 : 0 }
        BEGIN {
            printf "\n%-8s %-7s %-9s%16s%18s%18s%9s%8s\n", "", "", "", "write, 2 ranks", \
                   "read, 3 ranks", "read, h5py", "waiting", "all"
            printf "%-8s %-7s %-9s%8s%8s%10s%8s%10s%8s%9s%8s\n", "writer", "through", "readers", \
                   "s", "GiB/s", "s", "GiB/s", "s", "GiB/s", "s", "s"
        }
        {
            # A reader that started first waits in H5Fopen for the writer; else opening is part of reading.
            wait = "-"; mpi = $10; py = $13
            if ($3 == "together")
                wait = sprintf("%.2f", $9 > $12 ? $9 : $12)
            else {
                mpi += $9; py += $12
            }
            printf "%-8s %-7s %-9s%8.3f%8.2f%10.3f%8.2f%10.3f%8.2f%9s%8.2f\n", $1, $2, $3, $7, \
                   rate($8, $7), mpi, rate($11, mpi), py, rate($14, py), wait, $5 - $4
        }'
    cat <<'END'

write and read: what the programs measure around their own I/O, the sum over the steps: H5Fcreate to
H5Fclose, and H5Fopen to H5Fclose. Making and verifying the values is not in it.
"together": the readers started before the writer and share the cores with it; their wait in H5Fopen is
in "waiting" (the longest) instead of "read". "after": the readers started when the writer had ended,
which is all that plain files allow. Both readers always run at the same time.
all: wall seconds from the start of the writer to the end of the last program, MPI's start included.
END
}

trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

for program in simulation analysis; do
    [ -x "$programs/$program" ] || fail "no $program in $programs: run ./bootstrap build first"
done
"$python" -c 'import h5py' 2>/dev/null || fail "$python has no h5py: set MKT_PYTHON to one that has (pip install h5py)"
find_mpirun
work=$(mktemp -d "${TMPDIR:-/tmp}/h5market-demo.XXXXXX") || exit 1

# shellcheck disable=SC2086
printf '%d steps of %d MiB, %d cores\n' "$steps" \
    "$(set -- $dims && echo $((($1 * $2 * $3 * 24 + 2 * particles * 40) >> 20)))" "$(nproc)"
[ "$native_only" = yes ] || market_cases
native_cases
print_table
