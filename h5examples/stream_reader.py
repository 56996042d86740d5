#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Opens one file again and again with h5py until that fails, and verifies what it finds.

    stream_reader.py FILE [MILLISECONDS]

Ends with 0 if the stream of the file's versions has ended, with 1 on a wrong value."""
import errno
import sys
import time

import h5py
import numpy as np


def versions(path):
    while True:
        try:
            file = h5py.File(path, "r")
        except OSError as error:
            if error.errno != errno.ENODATA:
                raise
            return  # no more, and none will come
        with file:
            yield file


def main():
    path, work = sys.argv[1], float(sys.argv[2]) / 1000 if len(sys.argv) > 2 else 0
    bad = 0
    for file in versions(path):
        step, values = file.attrs["step"], file["values"][...]
        wrong = int(np.count_nonzero(values != step + np.arange(len(values)) / 8192))
        print(f"stream_reader.py: step {step}{', WRONG' if wrong else ''}", flush=True)
        bad += wrong
        time.sleep(work)
    print("stream_reader.py: end of stream")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
