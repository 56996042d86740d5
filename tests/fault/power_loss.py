#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The power fails at every step of a save.

An archiver of the test's own saves a file while record_files.so writes down what it does. Then each
prefix of that is what had happened when the power failed: what wasn't synced may be there or not.
At each point the path must lead to the old file (or the stub) or to the new one, whole.
"""
import os
import shutil
import subprocess
import sys
import time

H5DO, PROBE, RECORDER = os.environ["H5DO"], os.environ["MARKET_PROBE"], os.environ["RECORDER"]
ARCHIVER = os.environ["MKT_BUILD_DIR"] + "/lib/h5market/h5market-archiver"
PATH = os.getcwd() + "/x.h5"


def run(*command, **env):
    subprocess.run(command, env=dict(os.environ, **env), check=True, timeout=60)


def read(path):
    with open(path, "rb") as file:
        return file.read()


class Disk:
    """Files by inode: as written, and as synced. Names: in their order of change, with what is synced."""

    def __init__(self, names, files):
        self.names, self.files, self.synced = dict(names), dict(files), dict(files)
        self.states = [dict(self.names)]  # of the folder, that may be on disk
        self.folder = os.stat(os.path.dirname(PATH)).st_ino

    def do(self, words):
        kind = words[0]
        if kind == "create":
            self.names[words[1]] = int(words[2])
            self.files.setdefault(int(words[2]), b"")
        elif kind == "write":
            inode, at, data = int(words[1]), int(words[2]), bytes.fromhex(words[3])
            old = self.files.get(inode, b"").ljust(at, b"\0")
            self.files[inode] = old[:at] + data + old[at + len(data):]
        elif kind == "truncate":
            inode, size = int(words[1]), int(words[2])
            self.files[inode] = self.files.get(inode, b"")[:size].ljust(size, b"\0")
        elif kind == "sync":
            inode = int(words[1])
            if inode == self.folder:
                self.states = [dict(self.names)]
            else:
                self.synced[inode] = self.files.get(inode, b"")
        elif kind == "exchange":
            self.names[words[1]], self.names[words[2]] = self.names[words[2]], self.names[words[1]]
        elif kind == "rename":
            self.names[words[2]] = self.names.pop(words[1])
        elif kind == "unlink":
            self.names.pop(words[1], None)
        if kind in ("create", "exchange", "rename", "unlink"):
            self.states.append(dict(self.names))

    def check(self, step, good):
        """Each state of the folder that may be on disk, with synced or written bytes."""
        for names in self.states:
            if PATH not in names:
                sys.exit(f"{step}: nothing at the path after a power loss")
            inode = names[PATH]
            for files in (self.synced, self.files):
                if files.get(inode, b"") not in good:
                    sys.exit(f"{step}: a torn file at the path after a power loss")


def case(name, old):
    for left in (PATH, PATH + ".record"):
        if os.path.exists(left):
            os.unlink(left)
    if old:
        run(H5DO, "create " + PATH, "make d 20000", "putall d 1", "close", HDF5_VOL_CONNECTOR="")
    # Ours waits first, so that the order is its own; the daemon's own is stopped if it gets one.
    run(PROBE, "id", MARKET_DAEMON=os.environ["MKT_BUILD_DIR"] + "/bin/h5marketd")
    archiver = subprocess.Popen([ARCHIVER, os.environ["H5MARKET_DIR"]],
                                env=dict(os.environ, LD_PRELOAD=RECORDER, RECORD_FILES=PATH + ".record"))
    time.sleep(0.5)
    run(H5DO, "create " + PATH, "make d 20000", "putall d 2", "make e 3000", "putall e 2", "flush", "close",
        HDF5_VOL_CONNECTOR="market", H5MARKET_FAULT="")
    run(PROBE, "saved", "", "20000")
    archiver.terminate()
    archiver.wait(30)
    new = read(PATH)
    lines = [line.split() for line in open(PATH + ".record").read().splitlines()]
    if not any(words[0] == "exchange" for words in lines):
        sys.exit(f"{name}: the test's archiver saved nothing: {[w[0] for w in lines]}")
    return new, lines


def replay(name, old_bytes, new, lines):
    path_inode = 1  # whatever stood there
    disk = Disk({PATH: path_inode}, {path_inode: old_bytes})
    good = {old_bytes, new}
    places = []
    for step, words in enumerate(lines):
        disk.do(words)
        if words[0] == "say":
            places.append(words[1])
            names = disk.states
            if words[1] == "done" and (len(names) != 1 or disk.synced.get(names[0][PATH]) != new):
                sys.exit(f"{name}, step {step}: SAVE_DONE before all is on disk")
        disk.check(f"{name}, step {step} ({' '.join(words)[:80]})", good)
    if places[-2:] != ["place", "done"]:
        sys.exit(f"{name}: not placed and done: {places}")
    print(f"{name}: {len(lines)} steps")


def main():
    shutil.rmtree("keep", ignore_errors=True)
    with open("rules.yaml", "w") as rules:
        rules.write('files: [{match: "*.h5", mode: both}]\n')
    os.environ["H5MARKET_CONFIG"] = os.getcwd() + "/rules.yaml"
    for name, old in (("a new file", False), ("a file that is replaced", True)):
        new, lines = case(name, old)
        # The stub, or the former file: what it was needn't be known, only that it stays what it was.
        replay(name, b"what stood there", new, lines)
        run(PROBE, "stop", "discard")
        time.sleep(0.3)


main()
