#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""h5py as people use it: every mode of h5py.File, attributes, strings, resizing, iteration, errors, processes.

usage: h5py_modes.py native|market
"""
import multiprocessing
import os
import sys

try:
    import h5py
    import numpy as np
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

market = sys.argv[1] == "market"


def raises(kind, text, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except kind as error:
        assert text in str(error), f"{error!r} lacks {text!r}"
        return str(error)
    raise AssertionError(f"{call} {args} raised nothing")


def modes():
    raises(FileNotFoundError, "errno = 2", h5py.File, "none.h5", "r")
    raises(FileNotFoundError, "errno = 2", h5py.File, "none.h5", "r+")
    with h5py.File("a.h5", "w") as file:
        file["x"] = np.arange(1000.0)
    with h5py.File("a.h5", "r") as file:
        assert file.mode == "r" and np.array_equal(file["x"][...], np.arange(1000.0))
        raises((OSError, ValueError, RuntimeError, KeyError), "", file.create_dataset, "y", data=1)
        raises((OSError, ValueError, RuntimeError), "", file["x"].__setitem__, 0, 5.0)
    with h5py.File("a.h5", "r+") as file:
        assert file.mode == "r+"
        file["x"][10:20] = -1
        file["y"] = np.arange(10)
    with h5py.File("a.h5", "a") as file:
        assert list(file) == ["x", "y"] and file["x"][10] == -1 and file["x"][9] == 9
        del file["y"]
    with h5py.File("b.h5", "a") as file:
        file["made by a"] = 1
    for mode in ("w-", "x"):
        raises(FileExistsError, "exist", h5py.File, "a.h5", mode)
        with h5py.File(f"new{mode}.h5", mode) as file:
            file["x"] = 5
    with h5py.File("a.h5", "w") as file:
        assert list(file) == []
    with h5py.File("b.h5") as file:
        assert file["made by a"][()] == 1
    assert h5py.is_hdf5("b.h5") and not h5py.is_hdf5("none.h5")


def contents():
    kind = np.dtype([("id", "i8"), ("position", "f4", (3,)), ("name", "S8")])
    rows = np.zeros(50, kind)
    rows["id"] = np.arange(50)
    rows["position"] = np.arange(150).reshape(50, 3)
    rows["name"] = b"abc"
    with h5py.File("c.h5", "w", libver="latest") as file:
        group = file.create_group("deep/er/group")
        group.attrs["text"] = "Grüße"
        group.attrs["list"] = [1.5, 2.5]
        group["rows"] = rows
        group["strings"] = ["one", "zwei", "три"]
        group.create_dataset("grow", (0, 8), maxshape=(None, 8), chunks=(4, 8), dtype="i4", fillvalue=-1)
        for step in range(5):
            group["grow"].resize(step + 1, axis=0)
            group["grow"][step] = step
        group.create_dataset("zip", data=np.arange(1000), compression="gzip", shuffle=True)
        group["empty"] = h5py.Empty("f8")
        group["scalar"] = np.float32(2.5)
        group["flags"] = np.arange(20) % 3 == 0
        group["complex"] = np.arange(6) * (1 + 2j)
        group["half"] = np.arange(8, dtype="f2")
        file["soft"] = h5py.SoftLink("/deep/er/group/rows")
        file["hard"] = group["grow"]
        file["reference"] = group["rows"].ref
        file["deep"].copy("er", file, "copy")
        file.move("hard", "moved")
    with h5py.File("c.h5", "r") as file:
        group = file["deep/er/group"]
        assert group.attrs["text"] == "Grüße" and list(group.attrs["list"]) == [1.5, 2.5]
        assert np.array_equal(group["rows"][...], rows)
        assert np.array_equal(group["rows"]["position"][::7], rows["position"][::7])
        assert [s.decode() for s in group["strings"][...]] == ["one", "zwei", "три"]
        assert np.array_equal(file["moved"][:, 3], np.arange(5)) and group["grow"].chunks == (4, 8)
        assert np.array_equal(group["zip"][...], np.arange(1000)) and group["zip"].compression == "gzip"
        assert group["empty"].shape is None and group["scalar"][()] == 2.5
        assert np.array_equal(group["flags"][...], np.arange(20) % 3 == 0)
        assert np.array_equal(group["complex"][...], np.arange(6) * (1 + 2j))
        assert np.array_equal(group["half"][...], np.arange(8, dtype="f2"))
        assert np.array_equal(file["soft"][:], rows) and np.array_equal(file[file["reference"][()]][:], rows)
        assert np.array_equal(file["copy/group/zip"][990:], np.arange(990, 1000))
        assert np.array_equal(group["zip"][[3, 17, 500]], [3, 17, 500])
        names = []
        file.visititems(lambda name, thing: names.append(name))
        assert len(names) == 24, names
        raises(KeyError, "nothing", file.__getitem__, "nothing")


def same_file_twice():
    with h5py.File("d.h5", "w") as first:
        first["x"] = np.arange(5)
        with h5py.File("d.h5", "r+") as second:
            second["x"][0] = 50
            assert first["x"][0] == 50
    with h5py.File("d.h5", "r") as first, h5py.File("d.h5", "r") as second:
        assert first["x"][0] == second["x"][0] == 50


def read_in_child(queue):
    with h5py.File("e.h5", "r") as file:
        queue.put(file["x"][...].sum())


def child_processes():
    """Workers of a data loader: forked after h5py was used, each opens the file itself."""
    with h5py.File("e.h5", "w") as file:
        file["x"] = np.ones(1000)
    with h5py.File("e.h5", "r") as file:
        assert file["x"][3] == 1
        for method in ("fork", "spawn"):
            context = multiprocessing.get_context(method)
            queue = context.Queue()
            workers = [context.Process(target=read_in_child, args=(queue,)) for _ in range(3)]
            for worker in workers:
                worker.start()
            assert [queue.get(timeout=30) for _ in workers] == [1000.0] * 3
            for worker in workers:
                worker.join(30)
                assert worker.exitcode == 0
        assert file["x"][...].sum() == 1000
    with h5py.File("e.h5", "r+") as file:
        assert file["x"][...].sum() == 1000


def drivers():
    with h5py.File("core.h5", "w", driver="core", backing_store=False) as file:
        file["x"] = 1
    assert not os.path.exists("core.h5")
    raises(IsADirectoryError, "", h5py.File, ".", "r")
    with open("object.h5", "w+b") as raw, h5py.File(raw, "w") as file:
        file["x"] = 1
    assert os.path.getsize("object.h5") > 512


def swmr_reader():
    with h5py.File("s.h5", "w", libver="latest") as file:
        file["x"] = np.arange(10)
    with h5py.File("s.h5", "r", libver="latest", swmr=True) as file:
        file["x"].refresh()
        assert np.array_equal(file["x"][...], np.arange(10))


def file_image():
    with h5py.File("image.h5", "w") as file:
        file["x"] = np.arange(5000)
        file.create_dataset("g/y", data=np.ones((30, 40)), chunks=(7, 9), compression="gzip")
        file["text"] = "of variable length"
        file.flush()
        written = file.id.get_file_image()
    with h5py.File("image.h5", "r") as file:
        read = file.id.get_file_image()
    for image in (written, read):
        access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
        access.set_fapl_core(1 << 16, False)
        access.set_file_image(image)
        with h5py.File(h5py.h5f.open(b"an image", h5py.h5f.ACC_RDONLY, access)) as file:
            assert np.array_equal(file["x"][...], np.arange(5000)) and (file["g/y"][...] == 1).all()
            assert file["text"].asstr()[()] == "of variable length"


def errors_say_why():
    if not market:
        return
    message = raises(FileNotFoundError, "none.h5", h5py.File, "none.h5", "r")
    assert "market" in message, message
    with h5py.File("held.h5", "w") as file:
        file["x"] = 1
        child = os.fork()
        if child == 0:
            try:
                h5py.File("held.h5", "w")
                os._exit(1)
            except OSError as error:
                os._exit(0 if "open for writing" in str(error) else 2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


if __name__ == "__main__":
    if h5py.version.hdf5_version_tuple < (1, 14, 0):
        print(f"skipped: h5py with HDF5 {h5py.version.hdf5_version}")
        sys.exit(77)
    for case in (modes, contents, same_file_twice, child_processes, drivers, swmr_reader, file_image,
                 errors_say_why):
        case()
        print(case.__name__, "passed", flush=True)
    for name in ("a.h5", "b.h5", "c.h5", "e.h5"):
        assert (os.path.getsize(name) == 512) == market, f"{name}: {os.path.getsize(name)} bytes"
