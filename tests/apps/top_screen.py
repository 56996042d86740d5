#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""h5market top on a terminal: fits it, follows its size, gives it back however it ends, and waits
for a market that has gone. Argument: apps_sample. Run in a market of its own."""

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time

ENTERS, LEAVES = b"\x1b[?1049h", b"\x1b[?1049l"
SECONDS = 20


class Screen:
    """The program under test on a terminal; what is on it is the text after the last `home`."""

    def __init__(self, columns, lines):
        self.master, self.slave = pty.openpty()
        self.resize(columns, lines, None)
        self.before = termios.tcgetattr(self.slave)
        self.output = b""
        environment = dict(os.environ, TERM="xterm")
        self.process = subprocess.Popen(
            ["h5market", "top", "-d", "0.2"], stdin=self.slave, stdout=self.slave,
            stderr=self.slave, env=environment, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.set_blocking(self.master, False)

    def resize(self, columns, lines, process):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        if process:
            process.send_signal(signal.SIGWINCH)

    def read(self):
        try:
            while True:
                part = os.read(self.master, 65536)
                if not part:
                    return
                self.output += part
        except BlockingIOError:
            pass

    def lines(self):
        frames = self.output.split(b"\x1b[H")
        whole = [frame for frame in frames[1:] if b"\x1b[J" in frame]
        text = re.sub(rb"\x1b\[[?0-9]*[A-Za-z]", b"", whole[-1].split(b"\x1b[J")[0]) if whole else b""
        return text.decode().replace("\r", "").split("\n")

    def wait_for(self, what, condition):
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            self.read()
            if condition():
                return
            time.sleep(0.02)
        raise AssertionError(f"waited in vain for: {what}; it shows\n" + "\n".join(self.lines()))

    def wait_for_text(self, *texts):
        self.wait_for(texts, lambda: all(text in "\n".join(self.lines()) for text in texts))

    def is_given_back(self):
        """As it was: modes, and the screen that was there before."""
        self.read()
        return (termios.tcgetattr(self.slave) == self.before
                and self.output.count(ENTERS) == self.output.count(LEAVES))

    def ends(self, status):
        self.wait_for("its end", lambda: self.process.poll() is not None)
        assert self.process.returncode == status, self.process.returncode
        assert self.is_given_back(), termios.tcgetattr(self.slave)
        assert self.output.rstrip().endswith(LEAVES), self.output[-80:]
        os.close(self.master)
        os.close(self.slave)

    def types(self, keys):
        os.write(self.master, keys)


def daemon_pid():
    status = subprocess.run(["h5market", "stat", "--json"], stdout=subprocess.PIPE, check=True)
    return json.loads(status.stdout)["pid"]


def market(*arguments):
    subprocess.run(["h5market", *arguments], stdout=subprocess.DEVNULL, check=True)


def state_of(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
        return stat.read().rsplit(")", 1)[1].split()[0]


def test_size():
    screen = Screen(80, 24)
    screen.wait_for_text("memory  [", "WRITER", "...", "leave_for_it_0.h5")
    assert termios.tcgetattr(screen.slave) != screen.before
    screen.wait_for_text("written 0 B/s")
    assert all(len(line) <= 80 for line in screen.lines()), screen.lines()
    assert len(screen.lines()) <= 24 and "more file" in screen.lines()[-1], screen.lines()
    for columns, lines in ((60, 12), (200, 60), (20, 3)):
        screen.output = b""
        screen.resize(columns, lines, screen.process)
        screen.wait_for("a frame", lambda: b"\x1b[J" in screen.output)
        assert all(len(line) <= columns for line in screen.lines()), screen.lines()
        assert len(screen.lines()) <= lines, screen.lines()
    screen.output = ENTERS
    screen.types(b"q")
    screen.ends(0)


def test_ends():
    for signal_sent, status in ((signal.SIGTERM, -signal.SIGTERM), (None, 0)):
        screen = Screen(80, 24)
        screen.wait_for_text("memory  [")
        if signal_sent:
            screen.process.send_signal(signal_sent)
        else:
            screen.types(b"\x03")
        screen.ends(status)


def test_stopped_and_continued():
    screen = Screen(80, 24)
    screen.wait_for_text("memory  [")
    screen.process.send_signal(signal.SIGTSTP)
    # A session leader without a parent in it isn't stopped by the terminal; that it goes on is enough then.
    screen.wait_for("the terminal back", lambda: screen.output.count(LEAVES) == 1)
    if state_of(screen.process.pid) == "T":
        assert screen.is_given_back()
        screen.process.send_signal(signal.SIGCONT)
    screen.wait_for("a second start", lambda: screen.output.count(ENTERS) == 2)
    screen.types(b"\x03")
    screen.ends(0)


def test_silent_daemon():
    pid = daemon_pid()
    screen = Screen(80, 24)
    screen.wait_for_text("memory  [")
    waiting = Screen(80, 24)
    waiting.wait_for_text("memory  [")
    os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(0.5)
        screen.types(b"\x03")
        screen.ends(0)
        waiting.wait_for_text("no market ")
    finally:
        os.kill(pid, signal.SIGCONT)
    waiting.wait_for_text("memory  [", "each 0.2 s")
    waiting.types(b"q")
    waiting.ends(0)


def test_market_goes_and_comes():
    screen = Screen(80, 24)
    screen.wait_for_text("memory  [")
    market("stop", "--discard")
    screen.wait_for_text("no market runs here", "q ends it")
    market("start")
    screen.wait_for_text("memory  [", "0 files")
    screen.types(b"q")
    screen.ends(0)
    market("stop")


def main():
    sample = sys.argv[1]
    environment = dict(os.environ, HDF5_VOL_CONNECTOR="market")
    for number in range(30):
        name = f"a_file_whose_name_is_longer_than_what_80_columns_leave_for_it_{number}.h5"
        subprocess.run([sample, "write", name], env=environment, check=True)
    test_size()
    test_ends()
    test_stopped_and_continued()
    test_silent_daemon()
    test_market_goes_and_comes()
    print("screen: ok")


main()
