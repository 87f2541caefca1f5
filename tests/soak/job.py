"""A command that is disturbed, and everything that it starts."""

import os
import secrets
import signal
import subprocess
import time

LOCKSTEP = os.environ["LOCKSTEP"]
MARK = "LOCKSTEP_SOAK"

# By how much all times are longer that may be too short on a busy machine.
PATIENCE = float(os.environ.get("LOCKSTEP_TEST_PATIENCE", "1"))


class Broken(Exception):
    """A promise that does not hold."""


def check(condition, what):
    if not condition:
        raise Broken(what)


def until(condition, seconds, what):
    end = time.monotonic() + PATIENCE * seconds
    while not condition():
        check(time.monotonic() < end, what)
        time.sleep(0.005)


def read(path, mode="rb"):
    with open(path, mode) as file:
        return file.read()


def holdings(pid, looks=5):
    """The resources of a process: descriptors, mappings, KiB of private memory. The
    least of some looks, as it opens and maps something at any time."""
    found = []
    for _ in range(looks):
        status = read(f"/proc/{pid}/status").decode()
        own, = [line.split()[1] for line in status.splitlines()
                if line.startswith("RssAnon:")]
        found.append((len(os.listdir(f"/proc/{pid}/fd")),
                      read(f"/proc/{pid}/maps").count(b"\n"), int(own)))
        time.sleep(0.004)
    return tuple(map(min, zip(*found)))


class Growth:
    """Fails when processes hold more and more: when the least of the last
    looks is more than the most of the first ones, by more than the slack."""
    SLACK = (2, 6, 1024)
    NAMES = ("descriptors", "mappings", "KiB of memory")

    def __init__(self, looks):
        self.looks = looks
        self.seen = {}

    def look(self, name, pid):
        try:
            self.seen.setdefault(name, []).append(holdings(pid))
        except (OSError, ValueError):
            pass  # it has just ended

    def judge(self):
        for name, looks in self.seen.items():
            if len(looks) < 2 * self.looks:
                continue
            start = tuple(map(max, zip(*looks[:self.looks])))
            late = tuple(map(min, zip(*looks[-self.looks:])))
            for what, a, b, slack in zip(self.NAMES, start, late, self.SLACK):
                check(b <= a + slack,
                      f"{what} of {name} grow from {a} to {b}: {looks}")


class Job:
    """A command, all processes that it starts, and what it says."""

    def __init__(self, folder, words, timeout=2, before=(), **more):
        self.mark = secrets.token_hex(8)
        self.said = os.path.join(folder, f"said-{self.mark}")
        env = dict(os.environ, **{MARK: self.mark},
                   LOCKSTEP_TIMEOUT=f"{PATIENCE * timeout:g}",
                   OMP_NUM_THREADS="1", **more)
        with open(self.said, "wb") as out:
            self.process = subprocess.Popen(
                [*before, LOCKSTEP, *words], stdin=subprocess.DEVNULL, stdout=out,
                stderr=out, env=env)

    def pids(self):
        """Of those that are alive; the launcher is the first."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                env = read(f"/proc/{pid}/environ")
                state = read(f"/proc/{pid}/stat").rpartition(b")")[2].split()[0]
            except OSError:
                continue
            if f"{MARK}={self.mark}".encode() in env and state != b"Z":
                found.append(int(pid))
        return sorted(found)

    def rank_of(self, pid):
        """Its rank, or None."""
        return self.number_of(pid, b"RANK")

    def number_of(self, pid, name):
        """A variable in the environment of a process, or None."""
        try:
            env = dict(entry.split(b"=", 1) for entry in
                       read(f"/proc/{pid}/environ").split(b"\0")
                       if b"=" in entry)
        except OSError:
            return None
        return int(env[name]) if name in env else None

    def above(self):
        """The launcher and its supervisor."""
        return [p for p in self.pids() if self.rank_of(p) is None]

    def send(self, pids, number):
        for pid in pids:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def text(self):
        return read(self.said).decode(errors="replace")

    def end(self, seconds):
        """Its status; nothing of it may be left."""
        try:
            status = self.process.wait(PATIENCE * seconds)
        except subprocess.TimeoutExpired:
            raise Broken("it has not ended after "
                         f"{PATIENCE * seconds:g} s") from None
        until(lambda: not self.pids(), 2, "processes are left")
        return status

    def clean(self):
        self.send(self.pids(), signal.SIGKILL)
        self.process.wait()
