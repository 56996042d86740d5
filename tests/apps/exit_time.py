#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A process that used the market ends as fast as natively: from the end of main to the end of the process.

usage: exit_time.py LIFE      the program life.c
"""
import os
import subprocess
import sys
import time

LIMIT_S = 0.020
ROUNDS = 9


def seconds(connector, mib):
    environment = dict(os.environ, LIFE_MIB=str(mib))
    if connector:
        environment["HDF5_VOL_CONNECTOR"] = connector
    else:
        environment.pop("HDF5_PLUGIN_PATH", None)
    with subprocess.Popen([sys.argv[1], "exits", f"{connector}{mib}.h5"], env=environment,
                          stdout=subprocess.PIPE) as process:
        process.wait()
        end = time.clock_gettime(time.CLOCK_MONOTONIC)
        return end - float(process.stdout.read())


failed = False
for mib in (0.01, 64, 256):
    # The least of several: what else runs here only adds to it.
    native, market = [], []
    for _ in range(ROUNDS):
        native.append(seconds("", mib))
        market.append(seconds("market", mib))
    more = min(market) - min(native)
    failed |= more > LIMIT_S
    print(f"{mib} MiB: native {min(native) * 1e3:.2f} ms, market {min(market) * 1e3:.2f} ms, more {more * 1e3:.2f} ms")
sys.exit(failed)
