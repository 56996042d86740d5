#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""h5py as people use it, a step a process; prints what it sees, and nothing that may differ between runs.

usage: use_h5py.py write|update|show|trim|modes|duplicate FILE [FILE]
"""
import hashlib
import os
import sys

import h5py
import numpy as np


def text(value):
    """A value, short: arrays by type, shape, ends and digest."""
    if isinstance(value, h5py.Empty):
        return f"empty {value.dtype}"
    if isinstance(value, (h5py.Reference, h5py.RegionReference)):
        return "a reference" if value else "no reference"
    if not isinstance(value, np.ndarray) or value.size < 8 or value.dtype.hasobject:
        return repr(value.tolist() if isinstance(value, np.ndarray) else value)[:300]
    digest = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()[:16]
    return f"{value.dtype} {value.shape} {value.flat[0]} ... {value.flat[-1]} {digest}"


def show_dataset(item):
    print(f"  dtype {item.dtype} shape {item.shape} maxshape {item.maxshape} chunks {item.chunks}")
    print(f"  filters {item.compression} {item.compression_opts} shuffle {item.shuffle} "
          f"fletcher32 {item.fletcher32} scaleoffset {item.scaleoffset} fill {item.fillvalue}")
    if item.shape is None:
        print("  ", text(item[()]))
        return
    print("  ", text(item[()]))
    if item.shape and item.size and item.dtype.names is None:
        print("   part", text(item[tuple(slice(0, None, 2) for _ in item.shape)]))
    if item.dtype.names:
        for name in item.dtype.names:
            print("   field", name, text(item[name]))
    print(f"   scales {[sorted(dim.keys()) for dim in item.dims]} virtual {item.is_virtual}")


def show_item(name, item):
    print(name, type(item).__name__)
    for key in sorted(item.attrs):
        print(f"  @{key}", text(item.attrs[key]))
    if isinstance(item, h5py.Dataset):
        show_dataset(item)
    elif isinstance(item, h5py.Datatype):
        print("  ", item.dtype)
    else:
        for key in item:
            print("  ", key, item.get(key, getclass=True, getlink=True).__name__)


def show(path):
    with h5py.File(path, "r") as file:
        print(file, file.mode, file.driver, file.libver, file.userblock_size)
        show_item("/", file)
        file.visititems(show_item)
        if "references" not in file:
            return
        for reference in file["references"]:
            print(file[reference].name if reference else None)
        region = file["grid"].attrs["region"]
        print(file[region].name, text(file[region][region]))
        print(file["soft"].name, "dangling" in file, file["other"].name, file["other"].file == file)


def write(path):
    rng = np.random.default_rng(7)
    with h5py.File(path, "w", track_order=True) as file:
        file.attrs["title"] = "written by h5py"
        file.attrs["unicode"] = "déjà vu"
        file.attrs["strings"] = ["a", "bc", "def"]
        file.attrs["matrix"] = np.arange(6).reshape(2, 3)
        file.attrs["empty"] = h5py.Empty("f8")
        file.attrs.create("big", np.arange(10000))
        grid = file.create_dataset("grid", data=rng.random((40, 50, 6)))
        file.create_dataset("zipped", data=np.arange(100000).reshape(100, 1000), chunks=(17, 90),
                            compression="gzip", compression_opts=6, shuffle=True, fletcher32=True)
        file.create_dataset("lzf", data=rng.integers(0, 9, (300, 30)), chunks=True, compression="lzf")
        file.create_dataset("scaled", data=rng.integers(0, 900, 5000), chunks=(500,), scaleoffset=0)
        grows = file.create_dataset("grows", (0, 4), maxshape=(None, 4), dtype="f4", chunks=(16, 4), fillvalue=-1)
        for step in range(50):
            grows.resize(step + 1, axis=0)
            grows[step] = step
        sparse = file.create_dataset("sparse", (1000, 1000), dtype="i2", chunks=(100, 100), fillvalue=5)
        sparse[[3, 500, 999], 7] = [1, 2, 3]
        sparse[200:300:7, 100:900:50] = 9
        kind = np.dtype([("id", "u8"), ("x", ">f4", (3,)), ("name", "S8"), ("inner", [("a", "i1"), ("b", "f8")])])
        rows = np.zeros(100, kind)
        rows["id"] = np.arange(100)
        rows["x"] = rng.random((100, 3))
        rows["name"] = b"row"
        rows["inner"]["b"] = rng.random(100)
        table = file.create_dataset("table", data=rows, maxshape=(None,), chunks=(30,))
        table["id"] = np.arange(100)[::-1]
        file["strings"] = ["one", "zwei", "trois", "четыре"]
        file["fixed"] = np.array([b"abc", b"de"], dtype="S4")
        ragged = file.create_dataset("ragged", (3,), dtype=h5py.vlen_dtype("i4"))
        for i in range(3):
            ragged[i] = np.arange(i + 1)
        file.create_dataset("enum", data=[0, 1, 1], dtype=h5py.enum_dtype({"no": 0, "yes": 1}, "i1"))
        file["bool"] = np.array([True, False])
        file["complex"] = np.arange(20) * (1 + 2j)
        file["half"] = np.arange(20).astype("f2")
        file["opaque"] = np.array([b"ab", b"cd"], dtype="V2").astype(h5py.opaque_dtype(np.dtype("V2")))
        file["scalar"] = 3.5
        file["null"] = h5py.Empty("i4")
        file["zero"] = np.zeros((0, 3))
        file["type"] = kind
        file.create_dataset("typed", (2,), dtype=file["type"])
        deep = file.create_group("deep/er/est", track_order=True)
        for name in ("z", "a", "m"):
            deep[name] = rng.integers(0, 99, 9)
        file["soft"] = h5py.SoftLink("/deep/er")
        file["dangling"] = h5py.SoftLink("/nothing")
        file["other"] = deep["z"]
        file["out"] = h5py.ExternalLink("other_" + os.path.basename(path), "/there")
        references = file.create_dataset("references", (3,), dtype=h5py.ref_dtype)
        references[0], references[1] = grid.ref, deep.ref
        grid.attrs["region"] = grid.regionref[3:9:2, ::5, 1]
        file["x"] = np.arange(40.0)
        file["x"].make_scale("x axis")
        grid.dims[0].attach_scale(file["x"])
        grid.dims[1].label = "y"
        compact = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        compact.set_layout(h5py.h5d.COMPACT)
        h5py.h5d.create(file.id, b"compact", h5py.h5t.NATIVE_INT32, h5py.h5s.create_simple((4,)), compact)
        file["compact"][...] = [4, 3, 2, 1]
        print("before close", text(grid[5]), text(grows[10:20]), text(sparse[199:201, 90:110]))
        print(len(file), file.id.get_obj_count(file.id) if hasattr(file.id, "get_obj_count") else "")
        file.flush()
        raw = file["zipped"].id
        print("storage", raw.get_space_status(), file["zero"].id.get_storage_size(), grid.id.get_storage_size())
    with h5py.File(os.path.join(os.path.dirname(path), "other_" + os.path.basename(path)), "w") as file:
        file["there"] = np.arange(12)


def update(path):
    with h5py.File(path, "r+") as file:
        print(file.mode)
        grows = file["grows"]
        grows.resize((80, 4))
        grows[60:80] = np.arange(80).reshape(20, 4)
        file["grid"][0] = 0
        file["grid"][:, 3, 2] += 1
        file["zipped"][50:60, ::100] = -1
        file["sparse"].resize((500, 1000))
        file["sparse"].resize((1000, 1000))
        table = file["table"]
        table.resize((130,))
        rows = table[100:]
        rows["id"] = 7
        table[100:] = rows
        del file["lzf"]
        file.move("half", "moved/half")
        file.copy("grid", "copy of grid")
        file.copy(file["deep"], file, "copy of deep")
        file["strings"][1] = "two"
        file["ragged"][0] = np.arange(30)
        file.attrs.modify("title", "updated")
        del file.attrs["big"]
        file["deep"].attrs["new"] = np.arange(3)
        with h5py.File("second_" + os.path.basename(path), "w") as second:
            file.copy("zipped", second)
            file.copy("deep", second, "from the first")
            second["grid"] = file["grid"][()]
            print(text(second["zipped"][3]))
        try:
            file.create_dataset("grid", data=1)
        except (ValueError, RuntimeError, OSError) as error:
            print(type(error).__name__)
        print(text(file["out"][()]))


def trim(path):
    """Takes out what h5repack can't do: a null reference, h5py's own filter, an attribute over 64 KiB."""
    with h5py.File(path, "a") as file:
        del file["references"], file["lzf"], file.attrs["big"]


def duplicate(path, other):
    with h5py.File(path) as source, h5py.File(other, "x") as target:
        target.attrs.update(source.attrs)
        for name in source:
            source.copy(name, target)


def attempt(path, mode):
    try:
        with h5py.File(path, mode) as file:
            print(mode, "opened", file.mode, sorted(file))
            if mode != "r":
                file[f"by {mode}"] = np.arange(20)
    except OSError as error:
        print(mode, type(error).__name__, error.errno)


def modes(path):
    for mode in ("r", "r+", "a", "x", "w-", "r+", "r", "w", "x", "a", "r"):
        attempt(path, mode)
    os.remove(path)
    for mode in ("r", "x", "x", "r"):
        attempt(path, mode)
    print(h5py.is_hdf5(path), h5py.is_hdf5(__file__), h5py.is_hdf5("none.h5"))
    first, second = h5py.File(path, "r"), h5py.File(path, "r")
    print(first == second, sorted(second))
    first.close()
    print(bool(first), bool(second), text(second["by x"][:5]))
    dataset = second["by x"]
    second.close()
    print(bool(dataset))
    left_open = h5py.File(path, "a")
    left_open["left open"] = np.arange(1000)


if __name__ == "__main__":
    {"write": write, "update": update, "show": show, "modes": modes, "trim": trim,
     "duplicate": duplicate}[sys.argv[1]](*sys.argv[2:])
