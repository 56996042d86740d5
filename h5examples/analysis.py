#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Reads the time series of `simulation` with h5py, one file after the other, and verifies every
value and attribute.

    analysis.py --dir DIR [--steps N] [--prefix P]
"""
import argparse
import sys
import time

import h5py
import numpy as np

FIELDS = {"density": (1000.0, b"g/cm3"), "pressure": (2000.0, b"dyn/cm2"), "temperature": (3000.0, b"K")}
SPACING = {"x": 0.5, "y": 0.25, "z": 0.125}


def expected_particles(step, n):
    index = np.arange(n)
    return {
        "id": 1_000_000_000 * step + index,
        "pos": step + index[:, None] * np.array([1.0, 2.0, 3.0]) / 1024,
        "mass": (1 + index % 1024 / 1024).astype("f4"),
    }


def wrong(found, expected):
    """The number of values that differ; a different shape is wrong in every value."""
    found, expected = np.asarray(found), np.asarray(expected)
    if found.shape != expected.shape:
        return max(found.size, expected.size, 1)
    return int(np.count_nonzero(found != expected))


def read(file):
    """All data of one step as (attributes, fields, particles, coordinates)."""
    attributes = {"/": dict(file.attrs)}
    file.visititems(lambda name, obj: attributes.__setitem__(name, dict(obj.attrs)))
    fields = {name: file["fields"][name][...] for name in FIELDS}
    coordinates = {name: file["mesh"][name][...] for name in SPACING}
    return attributes, fields, file["particles/table"][...], coordinates


def verify(step, attributes, fields, particles, coordinates):
    bad = wrong(attributes["/"]["step"], step) + wrong(attributes["/"]["time"], 0.25 * step)
    bad += wrong(attributes["mesh"]["spacing"], list(SPACING.values()))
    bad += attributes["mesh"]["units"] != b"cm"
    bad += wrong(attributes["particles"]["count"], len(particles))
    bad += attributes["particles/table"]["units"] != b"cm, g"

    dims = tuple(attributes["fields"]["dims"])
    cells = np.arange(np.prod(dims)).reshape(dims) / 1048576
    for name, (base, units) in FIELDS.items():
        bad += wrong(fields[name], base + step + cells)
        bad += attributes["fields/" + name]["units"] != units
    for name, values in expected_particles(step, len(particles)).items():
        bad += wrong(particles[name], values)
    for name, n in zip(SPACING, dims):
        bad += wrong(coordinates[name], np.arange(n) * SPACING[name])
    return bad


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir", required=True)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--prefix", default="step")
    args = parser.parse_args()

    mismatches = nbytes = 0
    open_seconds = io_seconds = 0.0
    for step in range(args.steps):
        begin = time.perf_counter()
        file = h5py.File(f"{args.dir}/{args.prefix}_{step:04d}.h5", "r")
        opened = time.perf_counter()
        with file:
            attributes, fields, particles, coordinates = read(file)
        io_seconds += time.perf_counter() - opened
        open_seconds += opened - begin
        nbytes += sum(field.nbytes for field in fields.values()) + particles.nbytes

        print(f"analysis.py: step {step}: mean density {fields['density'].mean():.6f}, "
              f"highest temperature {fields['temperature'].max():.6f}, "
              f"{len(particles)} particles of mass {particles['mass'].sum(dtype=float):.3f}", flush=True)
        mismatches += verify(step, attributes, fields, particles, coordinates)

    print(f"analysis.py: {mismatches} mismatches, open_seconds={open_seconds:.6f} "
          f"io_seconds={io_seconds:.6f} bytes={nbytes}")
    return 1 if mismatches else 0


if __name__ == "__main__":
    sys.exit(main())
