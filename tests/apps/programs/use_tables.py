#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""PyTables as people use it, a step a process; prints what it sees.

usage: use_tables.py write|append|show FILE
"""
import hashlib
import sys

import numpy as np
import tables


class Particle(tables.IsDescription):
    name = tables.StringCol(16, pos=1)
    id = tables.Int64Col(pos=2)
    energy = tables.Float64Col(pos=3, dflt=1.5)
    grid = tables.Int32Col(shape=(2, 3), pos=4)
    flag = tables.BoolCol(pos=5)

    class inner(tables.IsDescription):
        a = tables.Float32Col()
        b = tables.ComplexCol(16)


def text(value):
    if not isinstance(value, np.ndarray) or value.size < 8 or value.dtype.hasobject:
        return repr(value.tolist() if isinstance(value, np.ndarray) else value)[:300]
    digest = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()[:16]
    return f"{value.dtype} {value.shape} {value.flat[0]} ... {value.flat[-1]} {digest}"


def show(path):
    with tables.open_file(path, "r") as file:
        print(file.title, file.format_version, file.mode)
        for node in file.walk_nodes("/"):
            if isinstance(node, tables.link.Link):
                print(node._v_pathname, "links to", node.target, node().shape)
                continue
            print(node._v_pathname, type(node).__name__, node._v_title)
            for name in sorted(node._v_attrs._v_attrnames):
                print("  @" + name, text(node._v_attrs[name]))
            if isinstance(node, tables.Table):
                print("  ", node.nrows, node.chunkshape, node.filters, sorted(node.colindexed.items()))
                print("  ", text(node.read()))
                if "energy" in node.colnames:
                    found = [row["id"] for row in node.where("(energy > 0.9) & (id < 3000)")]
                    print("   query", len(found), found[:5], node.will_query_use_indexing("energy > 0.9"))
                    print("   sorted", text(node.read_sorted("energy")["id"]) if node.cols.energy.is_indexed else "")
            elif isinstance(node, tables.VLArray):
                print("  ", node.nrows, node.filters, [text(row) for row in node][:6])
            elif isinstance(node, tables.Array):
                print("  ", node.shape, node.chunkshape, node.filters, text(np.asarray(node.read())))


def fill(table, first, count):
    rng = np.random.default_rng(first)
    row = table.row
    for i in range(first, first + count):
        row["name"] = f"particle {i}"
        row["id"] = i
        row["energy"] = rng.random()
        row["grid"] = np.arange(6).reshape(2, 3) + i
        row["flag"] = i % 3 == 0
        row["inner/a"] = i / 2
        row["inner/b"] = i * 1j
        row.append()
    table.flush()


def write(path):
    rng = np.random.default_rng(3)
    with tables.open_file(path, "w", title="written by PyTables") as file:
        detector = file.create_group("/", "detector", "a group")
        table = file.create_table(detector, "readout", Particle, "a table", expectedrows=5000,
                                  filters=tables.Filters(5, "zlib", shuffle=True))
        fill(table, 0, 4000)
        table.cols.energy.create_csindex()
        table.cols.id.create_index()
        for name, library in (("blosc", "blosc"), ("blosclz4", "blosc:lz4"), ("zlib", "zlib"), ("bzip2", "bzip2"),
                              ("blosc2", "blosc2"), ("none", "zlib")):
            if tables.which_lib_version(library.split(":")[0]) is None:
                continue
            filters = tables.Filters(0 if name == "none" else 5, library, fletcher32=name == "zlib")
            array = file.create_carray("/compressed", name, obj=rng.integers(0, 50, (200, 300)), filters=filters,
                                       createparents=True)
            array[10:20, ::3] = 7
            grows = file.create_earray("/growing", name, tables.Float32Atom(), (0, 10), filters=filters,
                                       createparents=True, expectedrows=1000)
            for i in range(20):
                grows.append(rng.random((i, 10)).astype("f4"))
        for name in ("blosc2", "blosc2:zstd"):
            blosc2 = file.create_table("/", name.replace(":", "_"), Particle, filters=tables.Filters(5, name))
            fill(blosc2, 0, 3000)
        ragged = file.create_vlarray("/", "ragged", tables.Int32Atom(), filters=tables.Filters(1))
        for i in range(5):
            ragged.append(np.arange(i))
        objects = file.create_vlarray("/", "objects", tables.ObjectAtom())
        objects.append({"a": 1, "b": [1, 2]})
        words = file.create_vlarray("/", "words", tables.VLUnicodeAtom())
        words.append("déjà")
        file.create_array("/", "plain", np.arange(60).reshape(3, 4, 5), "an array")
        file.create_array("/", "scalar", 5.25)
        file.create_array("/", "strings", [b"abc", b"defgh"])
        file.create_soft_link("/", "soft", "/plain")
        file.create_hard_link("/", "hard", "/plain")
        file.set_node_attr("/detector", "calibration", {"pickled": (1, 2)})
        for i in range(150):
            file.set_node_attr("/plain", f"attribute{i:03}", np.arange(i))
        print(text(file.root.compressed.blosc[5]), table.nrows)


def append(path):
    with tables.open_file(path, "a") as file:
        table = file.root.detector.readout
        fill(table, 4000, 500)
        fill(file.root.blosc2, 3000, 100)
        file.root.growing.blosc2.append(np.ones((70, 10), "f4"))
        print(text(file.root.compressed.blosc2[3:50, ::4]), text(file.root.blosc2[10:60]))
        table.modify_column(0, 10, colname="energy", column=np.full(10, 0.95))
        table.remove_rows(100, 200)
        print(table.nrows, table.cols.energy.index.is_dirty if hasattr(table.cols.energy.index, "is_dirty") else "",
              len(table.read_where("energy > 0.5")))
        file.root.growing.blosc.append(np.ones((7, 10), "f4"))
        file.root.growing.zlib.truncate(50)
        file.root.ragged.append(np.arange(10))
        file.move_node("/scalar", "/detector", "moved")
        file.remove_node("/compressed", "none")
        file.remove_node("/hard")
        file.copy_node("/growing", "/", "copied", recursive=True)
        file.root.compressed.zlib[0] = 1
    print(tables.is_hdf5_file(path), tables.is_pytables_file(path))
    with tables.open_file(path) as file:
        file.copy_file("copy_" + path, overwrite=True)
    for mode in ("r", "r+"):
        try:
            tables.open_file("none.h5", mode).close()
        except OSError as error:
            print(mode, type(error).__name__)


if __name__ == "__main__":
    {"write": write, "append": append, "show": show}[sys.argv[1]](sys.argv[2])
