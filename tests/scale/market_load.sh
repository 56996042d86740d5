#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# market_load in a market with a tier in a folder of its own, which must be empty in the end. LOAD_MEMORY=40MiB: memory is full
# all the time, and writers wait for it.
set -u
load=$1
shift

mkdir ssd files
cat >small.yaml <<YAML
memory: ${LOAD_MEMORY:-256MiB}
high_watermark: 40
low_watermark: 30
scratch: 16KiB
full_timeout: 10s
max_connections: 4096
ssd: $PWD/ssd
ssd_size: 1GiB
files:
  - {match: "**", mode: memory}
YAML
export H5MARKET_CONFIG=$PWD/small.yaml
cd files || exit 1
"$load" "$@" || exit 1
"$(dirname "$MARKET_DAEMON")/h5market" stop || exit 1
# The daemon answers before it has gone.
for ((tries = 100; tries > 0; tries--)); do
    left=$(find . ../ssd -type f -size +0 ! -name lock | head -3)
    [[ -z $left ]] && exit 0
    sleep 0.1
done
echo "market_load.sh: files are left: $left" >&2
exit 1
