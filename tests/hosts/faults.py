#!/usr/bin/env python3
"""A link is cut, a rank is killed, a host stops: what the survivors say.

    LOCKSTEP=build/dev/bin/lockstep faults.py --repeat 50 --mpi openmpi

Two hosts with two ranks each do all-reduces without end. Each survivor must end
with an error that names a rank or a host of the other side, soon after
the timeout, and nothing may be left. MPICH's launcher ends the others at
once when a rank is killed, and names the host itself.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

import hosts

LOCKSTEP = os.environ["LOCKSTEP"]
BIN = os.path.dirname(LOCKSTEP)
RANKS = (2, 2)
TIMEOUT = 3
# Each rank's words go to a file: a cut link does not carry them.
RANK = 'exec "$@" 2>"$LOG/${OMPI_COMM_WORLD_RANK:-$PMI_RANK}"'
# Open MPI's launcher is not to end the ranks before they have noticed.
PATIENT = {"openmpi": ["--enable-recovery"], "mpich": []}


class Failure(Exception):
    pass


def check(condition, message):
    if not condition:
        raise Failure(message)


def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def until(condition, seconds, what):
    """`what` says, when it is over, what is wrong."""
    end = time.monotonic() + seconds
    while not condition():
        check(time.monotonic() < end, f"after {seconds:.0f} s: {what()}")
        time.sleep(0.02)


class Job:
    """The ranks on two hosts, and what each has left in the folder."""

    def __init__(self, two, mpi, folder, patience=2):
        self.two, self.folder, self.patience = two, folder, patience
        self.said = open(os.path.join(folder, "launcher"), "w+",
                         encoding="utf-8")
        words = ("sh", "-c", RANK, "rank", LOCKSTEP, "bench", "all-reduce",
                 "-b", "256k", "-e", "256k", "--iterations", "1000000")
        self.launcher = subprocess.Popen(
            two.mpirun(mpi, RANKS, *words, options=PATIENT[mpi]),
            env=two.environment(LOG=folder, LOCKSTEP_TIMEOUT=TIMEOUT),
            stdin=subprocess.DEVNULL, stdout=self.said,
            stderr=subprocess.STDOUT)
        self.pids = {}

    def wait_until_it_goes(self):
        until(self.find_ranks, 30,
              lambda: f"there are ranks {sorted(self.pids)}")
        start = self.sent()
        until(lambda: self.sent() - start > 4000000, 30,
              lambda: f"the ranks do not talk: {self.words()}")

    def find_ranks(self):
        for name in self.two.names:
            for pid in self.two.processes(name):
                match = re.search(rb"(?:OMPI_COMM_WORLD|PMI)_RANK=(\d+)",
                                  environ(pid))
                if match and program(pid) == os.path.realpath(LOCKSTEP):
                    self.pids[int(match[1])] = pid
        return len(self.pids) == sum(RANKS)

    def sent(self):
        return sum(self.two.bytes(name)[0] for name in self.two.names)

    def words(self):
        return {r: read(os.path.join(self.folder, str(r)))
                for r in range(sum(RANKS))}

    def survivors_say(self, patterns):
        """Each ends in time and its words match; how long the last took."""
        begin = time.monotonic()
        until(lambda: not any(program(self.pids[r]) for r in patterns),
              TIMEOUT + self.patience, lambda: f"not all have ended: {self.words()}")
        took = time.monotonic() - begin
        for r, pattern in patterns.items():
            if not re.search(pattern, self.words()[r]):
                until(self.launcher_names_the_host, 5,
                      lambda: f"rank {r} said only: {self.words()[r]}")
        return took

    def launcher_names_the_host(self):
        return "RUNNING AT h1" in read(self.said.name)

    def nothing_is_left(self):
        self.launcher.kill()
        self.launcher.wait()
        self.said.close()
        until(lambda: not any(map(program, self.pids.values())), 5,
              lambda: f"some of the ranks {self.pids} are left")
        for name in self.two.names:
            listed = subprocess.run(
                self.two.words(name, "ls", "/dev/shm"),
                stdout=subprocess.PIPE, text=True, check=True).stdout.split()
            check(not [n for n in listed if "lockstep" in n],
                  f"{name} has {listed} in /dev/shm")


def environ(pid):
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read()
    except OSError:
        return b""


def program(pid):
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return None


def cut(job):
    job.two.cut("h1")
    return {0: r"rank [23]|h1", 1: r"rank [23]|h1",
            2: r"rank [01]|h0", 3: r"rank [01]|h0"}


def kill(job):
    os.kill(job.pids[2], signal.SIGKILL)
    return {r: r"rank 2\b" for r in (0, 1, 3)}


def stop(job):
    job.two.stop("h1")
    return {r: r"rank [23]|h1" for r in (0, 1)}


FAULTS = {"cut": cut, "kill": kill, "stop": stop}


def once(mpi, fault, patience):
    with tempfile.TemporaryDirectory(prefix="lockstep-faults-") as folder:
        with hosts.Hosts(len(RANKS), keep=[folder, BIN]) as two:
            job = Job(two, mpi, folder, patience)
            job.wait_until_it_goes()
            took = job.survivors_say(FAULTS[fault](job))
            if fault == "stop":
                two.kill("h1")
            job.nothing_is_left()
            mark = two.environment()["LOCKSTEP_HOSTS"]
        until(lambda: not hosts.left(mark), 5,
              lambda: f"processes {hosts.left(mark)} are left")
        return took


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--repeat", type=int, default=1, metavar="N")
    parser.add_argument("--mpi", default="openmpi",
                        choices=("openmpi", "mpich"))
    parser.add_argument("--patience", type=float, default=2, metavar="S",
                        help="how long after the timeout (default 2 s)")
    parser.add_argument("--fault", action="append", choices=FAULTS,
                        help="only this one (default all)")
    flags = parser.parse_args()
    hosts.skip_if(hosts.missing() or hosts.missing_module(flags.mpi))
    failed = 0
    for fault in flags.fault or FAULTS:
        times = []
        for i in range(flags.repeat):
            try:
                times.append(once(flags.mpi, fault, flags.patience))
            except Failure as reason:
                failed += 1
                print(f"{fault} {i}: {reason}", file=sys.stderr)
        if times:
            print(f"{fault}: {len(times)} of {flags.repeat} as it should be, "
                  f"the last survivor after {min(times):.2f} to "
                  f"{max(times):.2f} s")
    sys.exit(failed != 0)


if __name__ == "__main__":
    main()
