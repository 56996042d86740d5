#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Archivers and daemons that die at every step of a save.

archiver_crashes.py [--rounds N] [--seed S] [--jobs J] [--case NAME] [--point NAME]

A round writes a file in mode both, stops the archiver (or the daemon) at a fault point, lets somebody
meddle with the path, kills, and looks: the path leads to a whole file, the old or the new one, the
version stays readable from memory, and in the end the right file stands there and nothing else.
Without --rounds each case runs at each point once; with it N rounds are drawn at random.
"""
import argparse
import concurrent.futures
import os
import random
import signal
import subprocess
import sys
import threading
import time

H5DO = os.environ["H5DO"]
PROBE = os.environ["MARKET_PROBE"]
OLD, NEW, NEXT, THEIRS = 1000, 2000, 3000, 9000
DEADLINE_S = 40

WRITTEN = ["archiver.ordered", "save.filled", "archiver.written", "archiver.completed", "archiver.place-answered"]
BEFORE = WRITTEN + ["archiver.looked"]
EXCHANGED = ["archiver.exchanged", "archiver.unlinked"]
AFTER = ["archiver.folder-synced", "archiver.before-done", "archiver.done"]
IN_PLACE = ["archiver.in-place-half", "archiver.in-place-synced", "archiver.unlinked", "archiver.before-done",
            "archiver.done"]
DAEMON = ["daemon.before-order", "daemon.save-done", "daemon.save-noted"]
ALL = BEFORE + EXCHANGED + AFTER


class Failure(Exception):
    pass


def until(what, condition):
    end = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > end:
            raise Failure(f"{what}: not after {DEADLINE_S} s")
        time.sleep(0.01)


def text_of(path):
    try:
        with open(path, errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def state_of(pid):
    stat = text_of(f"/proc/{pid}/stat")
    return stat.rsplit(")", 1)[1].split()[0] if stat else ""


def is_gone(pid):
    return state_of(pid) in ("", "Z", "X")


class Round:
    """A folder and a market of its own."""

    def __init__(self, folder, case, point, size):
        self.case, self.point, self.size = case, point, size
        self.folder = folder
        self.market = folder + "/m"
        os.makedirs(self.market, mode=0o700)
        self.path = folder + "/x.h5"
        with open(folder + "/rules.yaml", "w") as rules:
            rules.write('files: [{match: "*.h5", mode: both}]\n')
        self.env = dict(os.environ, H5MARKET_DIR=self.market, H5MARKET_CONFIG=folder + "/rules.yaml",
                        H5MARKET_FAULT_ONCE=folder + "/once", H5MARKET_FAULT=f"{point}:stop",
                        HDF5_VOL_CONNECTOR="market")
        self.native_env = {k: v for k, v in self.env.items() if k not in ("HDF5_VOL_CONNECTOR", "HDF5_PLUGIN_PATH")}
        self.env.pop("MARKET_DAEMON", None)
        self.pid = 0

    # ---- programs

    def run(self, env, *command):
        done = subprocess.run(command, env=env, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=DEADLINE_S)
        return done.returncode, done.stdout

    def must(self, env, *command):
        status, output = self.run(env, *command)
        if status != 0:
            raise Failure(f"{' '.join(command[1:])}: {output.strip()}")
        return output

    def write(self, env, path, value):
        self.must(env, H5DO, f"create {path}", f"make d {self.size}", f"putall d {value}", "makevl v", "group g",
                  "make g/e 500", f"putall g/e {value}", f"attr a {value}", "close")

    def holds(self, env, path, value):
        return self.run(env, H5DO, f"open {path}", f"check d {value}", f"check g/e {value}", f"checkattr a {value}",
                        "close")[0] == 0

    def expect(self, env, path, *values):
        if not any(self.holds(env, path, value) for value in values):
            raise Failure(f"{os.path.basename(path)} holds none of {values}: "
                          + self.run(env, H5DO, f"open {path}", f"check d {values[-1]}", "close")[1].strip())

    def in_memory(self, path, value):
        self.expect(self.env, path, value)

    def saved(self, wait_ms=20000):
        """(files that are not, why)"""
        status, output = self.run(self.env, PROBE, "saved", "", str(wait_ms))
        fields = output.split(" ", 2)
        if status not in (0, 1) or not fields[0].isdigit():
            raise Failure("saved: " + output)
        return int(fields[0]), fields[2].strip()

    def must_be_saved(self):
        files, why = self.saved()
        if files:
            raise Failure(f"{files} files are not saved: {why}")

    # ---- what stands there

    def is_stub(self, path):
        with open(path, "rb") as file:
            return file.read(513).__len__() == 512

    def leftovers(self):
        return [name for name in os.listdir(self.folder) if "h5market-tmp" in name]

    def expect_tidy(self):
        if self.leftovers():
            raise Failure(f"left behind: {self.leftovers()}")

    def expect_whole(self, path, *values):
        """The path's stub, or a file that native HDF5 reads in full."""
        if not (os.path.exists(path) and self.is_stub(path)):
            self.expect(self.native_env, path, *values)

    # ---- processes

    def stopped(self, point=None):
        point = point or self.point
        once = f"{self.folder}/once.{point}"
        until(f"nobody stops at {point}", lambda: text_of(once).endswith("\n"))
        self.pid = int(text_of(once))
        until(f"process {self.pid} doesn't stop", lambda: state_of(self.pid) in ("T", "t"))

    def kill(self, pid=0):
        os.kill(pid or self.pid, signal.SIGKILL)
        until("the killed process stays", lambda: is_gone(pid or self.pid))

    def daemons(self):
        """The keeper first, who would start another worker; it may be the one and only."""
        pids = [text_of(f"{self.market}/{name}.pid") for name in ("daemon", "worker")]
        return list(dict.fromkeys(int(pid) for pid in pids if pid.strip()))

    def archivers(self):
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    line = file.read().split(b"\0")
            except OSError:
                continue
            if len(line) > 1 and line[0].endswith(b"h5market-archiver") and line[1] == self.market.encode():
                found.append(int(pid))
        return found

    def end(self):
        for pid in self.archivers():
            try:
                os.kill(pid, signal.SIGCONT)
            except OSError:
                pass
        for pid in self.daemons():
            try:
                os.kill(pid, signal.SIGCONT)
            except OSError:
                pass
        self.run(self.env, PROBE, "stop", "discard")
        until("an archiver stays", lambda: not any(not is_gone(pid) for pid in self.archivers()))

    # ---- the save

    def begin(self, old=False):
        if old:
            self.write(self.native_env, self.path, OLD)
            os.chmod(self.path, 0o640)
        if self.case == "links":
            os.link(self.path, self.folder + "/y.h5")
        self.write(self.env, self.path, NEW)
        self.stopped()

    def finish(self, path, value):
        self.must_be_saved()
        self.expect(self.native_env, path, value)
        self.in_memory(path, value)
        self.expect_tidy()


def crash(test, old=False):
    test.begin(old)
    test.expect_whole(test.path, OLD, NEW)
    test.in_memory(test.path, NEW)
    test.kill()
    test.expect_whole(test.path, OLD, NEW)
    test.in_memory(test.path, NEW)
    test.finish(test.path, NEW)


def case_new(test):
    crash(test)


def case_replaced(test):
    crash(test, True)
    if os.stat(test.path).st_mode & 0o777 != 0o640:
        raise Failure("the mode of the former file is lost")


def case_links(test):
    test.begin(True)
    test.in_memory(test.path, NEW)
    test.kill()
    test.in_memory(test.path, NEW)
    test.finish(test.path, NEW)
    if not os.path.samefile(test.path, test.folder + "/y.h5"):
        raise Failure("the hard links are two files")
    test.expect(test.native_env, test.folder + "/y.h5", NEW)


def successor(test, old):
    test.begin(old)
    test.write(test.env, test.path, NEXT)
    test.in_memory(test.path, NEXT)
    test.expect_whole(test.path, OLD, NEW)
    test.kill()
    test.finish(test.path, NEXT)


def case_successor(test):
    successor(test, False)


def case_successor_of_a_file(test):
    successor(test, True)


def case_moved(test):
    test.begin()
    to = test.folder + "/z.h5"
    os.rename(test.path, to)
    test.expect_whole(to, NEW)
    test.in_memory(to, NEW) if test.is_stub(to) else None
    test.kill()
    if test.point in EXCHANGED + ["archiver.folder-synced", "archiver.before-done"]:
        test.saved(4000)  # somebody took the saved file away before the market knew
        test.expect(test.native_env, to, NEW)
        until("what is left of the save stays", lambda: not test.leftovers())
    else:
        test.must_be_saved()
        test.expect(test.native_env, to, NEW)
        test.expect_tidy()
    if os.path.exists(test.path):
        raise Failure("the former path is taken again")


def case_removed(test):
    test.begin()
    os.unlink(test.path)
    test.kill()
    test.must_be_saved()  # withdrawn, so nothing is owed
    if os.path.exists(test.path):
        raise Failure("a removed file is back")
    test.expect_tidy()


def case_another(test, resumes=False):
    """Somebody puts a file of their own there."""
    theirs = test.folder + "/theirs"
    test.write(test.native_env, theirs, THEIRS)
    test.begin()
    os.rename(theirs, test.path)
    if resumes:
        os.kill(test.pid, signal.SIGCONT)
        until("nobody dies", lambda: is_gone(test.pid))
    else:
        test.kill()
    files, why = test.saved(3000)
    test.expect(test.native_env, test.path, THEIRS)
    until("what is left of the save stays", lambda: not test.leftovers())
    if test.point == "archiver.done" or (test.point in EXCHANGED + AFTER and files == 0):
        return  # theirs replaced our file, not our stub
    if files != 1 or "left alone" not in why:
        raise Failure(f"{files} files are not saved: {why}")
    if "left alone" not in text_of(test.market + "/h5marketd.log"):
        raise Failure("the log doesn't say that there is a conflict")
    # The version is still in memory: where theirs goes, ours comes.
    os.unlink(test.path)
    if test.point in BEFORE:
        test.in_memory(test.path, NEW)
        test.must_be_saved()
        test.finish(test.path, NEW)


def put_back(test, point):
    test.env["H5MARKET_FAULT"] += f",{point}:kill"
    case_another(test, True)


def case_another_meets_the_exchange(test):
    put_back(test, "archiver.before-put-back")


def case_another_is_put_back(test):
    put_back(test, "archiver.put-back")


def write_again(test):
    """The file is deleted and written anew between the last look and the exchange: for a moment the deleted one stands
    there."""
    test.env["H5MARKET_FAULT"] += ",archiver.before-put-back:stop"
    test.begin()
    test.must(test.env, PROBE, "rm", test.path)
    test.write(test.env, test.path, NEXT)
    os.kill(test.pid, signal.SIGCONT)
    test.stopped("archiver.before-put-back")
    test.expect(test.native_env, test.path, NEW)
    test.in_memory(test.path, NEXT)


def case_written_again(test):
    write_again(test)
    os.kill(test.pid, signal.SIGCONT)
    test.finish(test.path, NEXT)


def case_written_again_and_deleted(test):
    write_again(test)
    test.must(test.env, PROBE, "rm", test.path)
    os.kill(test.pid, signal.SIGCONT)
    test.must_be_saved()
    until("a deleted file stays", lambda: not os.path.exists(test.path))
    test.expect_tidy()


def case_written_again_and_removed(test):
    """Not through the market: what goes is the file that stands there by mistake."""
    write_again(test)
    os.unlink(test.path)
    os.kill(test.pid, signal.SIGCONT)
    test.finish(test.path, NEXT)


def case_daemon(test, old=False, both=False):
    """The daemon dies while the archiver is there; or both do. Later the file is written again."""
    test.begin(old)
    test.expect_whole(test.path, OLD, NEW)
    in_daemon = test.point in DAEMON
    savers = test.archivers()
    for pid in test.daemons():
        test.kill(pid)
    for pid in savers:
        os.kill(pid, signal.SIGKILL if both else signal.SIGCONT)
    until("the archiver stays", lambda: all(is_gone(pid) for pid in savers))
    test.expect_whole(test.path, OLD, NEW)
    if not both and not in_daemon:
        test.expect_tidy()
    test.env["H5MARKET_FAULT"] = ""
    test.write(test.env, test.path, NEXT)
    test.finish(test.path, NEXT)


def case_worker(test):
    """The daemon's worker dies; the keeper starts another, and the save goes on."""
    test.begin(True)
    keeper, worker = test.daemons()
    test.kill(worker)
    if test.point not in DAEMON:
        os.kill(test.pid, signal.SIGCONT)
    until("no other worker", lambda: test.daemons()[1:] not in ([], [worker]))
    test.expect_whole(test.path, OLD, NEW)
    test.in_memory(test.path, NEW)
    test.finish(test.path, NEW)
    if test.daemons()[0] != keeper:
        raise Failure("the keeper is another")


def case_daemon_over_a_file(test):
    case_daemon(test, True)


def case_both_die(test):
    case_daemon(test, False, True)


def case_both_die_over_a_file(test):
    case_daemon(test, True, True)


CASES = {
    "new": (case_new, ALL),
    "replaced": (case_replaced, ALL),
    "links": (case_links, WRITTEN + IN_PLACE),
    "successor": (case_successor, ALL),
    "successor_of_a_file": (case_successor_of_a_file, ALL),
    "moved": (case_moved, ALL),
    "removed": (case_removed, ALL),
    "another": (case_another, ALL),
    "another_meets_the_exchange": (case_another_meets_the_exchange, ["archiver.looked"]),
    "another_is_put_back": (case_another_is_put_back, ["archiver.looked"]),
    "written_again": (case_written_again, ["archiver.looked"]),
    "written_again_and_deleted": (case_written_again_and_deleted, ["archiver.looked"]),
    "written_again_and_removed": (case_written_again_and_removed, ["archiver.looked"]),
    "daemon": (case_daemon, ALL + DAEMON),
    "daemon_over_a_file": (case_daemon_over_a_file, ALL + DAEMON),
    "worker": (case_worker, ALL + DAEMON),
    "both_die": (case_both_die, ALL + DAEMON),
    "both_die_over_a_file": (case_both_die_over_a_file, ALL + DAEMON),
}
printing = threading.Lock()


def play(number, case, point, size):
    folder = f"{os.getcwd()}/r{number}"
    test = Round(folder, case, point, size)
    failure = None
    try:
        CASES[case][0](test)
    except (Failure, OSError, ValueError, subprocess.TimeoutExpired) as error:
        failure = str(error)
    try:
        test.end()
    except (Failure, OSError, subprocess.TimeoutExpired) as error:
        failure = failure or str(error)
    log = text_of(test.market + "/h5marketd.log")
    if failure is None:
        subprocess.run(["rm", "-rf", folder], check=False)
        return True
    with printing:
        print(f"FAILED {case} at {point} ({size} elements), round {number}: {failure}\n"
              f"  there: {sorted(os.listdir(folder))}\n  log: " + "\n       ".join(log.splitlines()[-12:]),
              file=sys.stderr, flush=True)
    return False


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--case", default="")
    parser.add_argument("--point", default="")
    options = parser.parse_args()
    pairs = [(case, point) for case in CASES for point in CASES[case][1]
             if options.case in ("", case) and options.point in ("", point)]
    draw = random.Random(options.seed)
    if options.rounds:
        pairs = [draw.choice(pairs) for _ in range(options.rounds)]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        done = [pool.submit(play, number, case, point, draw.choice([100, 20000, 300000]))
                for number, (case, point) in enumerate(pairs)]
        good = sum(future.result() for future in done)
    print(f"{len(pairs)} crashes, {len(pairs) - good} failures")
    return 0 if good == len(pairs) and pairs else 1


if __name__ == "__main__":
    sys.exit(main())
