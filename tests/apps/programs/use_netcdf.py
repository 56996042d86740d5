#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""netCDF4-python as people use it, a step a process; prints what it sees.

usage: use_netcdf.py write|append|show FILE
"""
import hashlib
import sys

import netCDF4
import numpy as np


def text(value):
    if isinstance(value, np.ma.MaskedArray):
        value = np.ma.filled(value) if value.dtype.names is None else value.data
    if not isinstance(value, np.ndarray) or value.size < 8 or value.dtype.hasobject:
        return repr(value.tolist() if isinstance(value, np.ndarray) else value)[:300]
    digest = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()[:16]
    return f"{value.dtype} {value.shape} {value.flat[0]} ... {value.flat[-1]} {digest}"


def show_group(group, indent=""):
    print(indent + group.path, group.data_model, group.file_format)
    indent += "  "
    for name in group.ncattrs():
        print(indent + "@" + name, text(group.getncattr(name)))
    for name, dimension in group.dimensions.items():
        print(indent + "dimension", name, len(dimension), dimension.isunlimited())
    for kinds in (group.cmptypes, group.vltypes, group.enumtypes):
        for name, kind in kinds.items():
            print(indent + "type", name, type(kind).__name__, kind.dtype, getattr(kind, "enum_dict", ""))
    for name, variable in group.variables.items():
        print(indent + "variable", name, variable.dtype, variable.dimensions, variable.shape)
        print(indent + " ", variable.filters(), variable.chunking(), variable.endian())
        for key in variable.ncattrs():
            print(indent + "  @" + key, text(variable.getncattr(key)))
        if variable.size:
            print(indent + "  ", text(variable[...]))
            if variable.ndim > 1:
                print(indent + "   part", text(variable[::2, 1:]))
    for child in group.groups.values():
        show_group(child, indent)


def show(path):
    with netCDF4.Dataset(path) as file:
        show_group(file)


def put_record(file, step):
    rng = np.random.default_rng(step)
    file["time"][step] = step * 6.0
    file["temperature"][step] = 280 + 10 * rng.random((20, 30))
    file["pressure"][step, :, :] = rng.random((20, 30)) * 1e5


def write(path):
    with netCDF4.Dataset(path, "w") as file:
        file.title = "written by netCDF4-python"
        file.history = ["first", "second"]
        file.numbers = np.arange(5, dtype="i2")
        for name, size in (("time", None), ("lat", 20), ("lon", 30), ("station", None)):
            file.createDimension(name, size)
        time = file.createVariable("time", "f8", ("time",))
        time.units = "hours since 2000-01-01"
        file.createVariable("lat", "f4", ("lat",))[:] = np.linspace(-90, 90, 20)
        file.createVariable("lon", "f4", ("lon",))[:] = np.linspace(0, 360, 30)
        temperature = file.createVariable("temperature", "f4", ("time", "lat", "lon"), zlib=True, complevel=4,
                                          shuffle=True, fill_value=-999.0, least_significant_digit=2)
        temperature.setncatts({"units": "K", "valid_range": np.array([200, 350], "f4")})
        file.createVariable("pressure", ">i4", ("time", "lat", "lon"), fletcher32=True, chunksizes=(1, 10, 30))
        for step in range(7):
            put_record(file, step)
        packed = file.createVariable("packed", "i2", ("lat", "lon"), contiguous=True)
        packed.scale_factor, packed.add_offset = 0.01, 5.0
        packed[:] = np.arange(600).reshape(20, 30) / 100 + 5
        file.createVariable("crs", "i4").grid_mapping_name = "latitude_longitude"
        names = file.createVariable("names", str, ("station",))
        for i, name in enumerate(["Hamburg", "Paris", "Прага"]):
            names[i] = name
        chars = file.createVariable("chars", "S1", ("lat",))
        chars[:5] = np.array(list("hello"), "S1")
        inner = file.createGroup("models/inner")
        inner.createDimension("lat", 3)
        point = np.dtype([("x", "f8"), ("y", "f8"), ("flags", "i1", (4,))])
        kind = inner.createCompoundType(point, "point")
        values = np.zeros(3, point)
        values["x"], values["flags"] = [1, 2, 3], np.arange(12).reshape(3, 4)
        inner.createVariable("points", kind, ("lat",))[:] = values
        ragged = inner.createVariable("ragged", inner.createVLType("i4", "ragged_t"), ("lat",))
        for i in range(3):
            ragged[i] = np.arange(i + 2, dtype="i4")
        cloud = inner.createEnumType("u1", "cloud_t", {"clear": 0, "cumulus": 2, "missing": 255})
        inner.createVariable("clouds", cloud, ("lat",), fill_value=255)[:2] = [0, 2]
        inner.createVariable("on_parent", "f8", ("time", "lon"))[2:5] = np.arange(90).reshape(3, 30)
        print(text(file["temperature"][3]), text(inner["on_parent"][:]))
        file.sync()
        file["lat"].standard_name = "latitude"


def append(path):
    with netCDF4.Dataset(path, "a") as file:
        first = len(file.dimensions["time"])
        for step in range(first, first + 4):
            put_record(file, step)
        file["names"][5] = "Wien"
        file.history = "a longer history than before " * 10
        file.renameVariable("packed", "unpacked")
        file.createDimension("extra", 4)
        extra = file.createVariable("extra", "u8", ("extra", "time"), zlib=True)
        extra[:, :] = np.arange(4 * len(file.dimensions["time"])).reshape(4, -1)
        file["models/inner"].createVariable("late", "f4", ("lat",))[:] = 1
        del file.title
    with netCDF4.Dataset(path, "r+") as file:
        file["temperature"][0, 0, :] = 250
        print(text(file["temperature"][:, 0, 0]), file["time"].shape)
    for mode in ("x", "r"):
        try:
            netCDF4.Dataset(path if mode == "x" else "none.nc", mode).close()
        except OSError as error:
            print(mode, type(error).__name__, error)


if __name__ == "__main__":
    {"write": write, "append": append, "show": show}[sys.argv[1]](sys.argv[2])
