#!/usr/bin/env python3
"""A link is cut, a rank is killed, a host stops: what the survivors say.

    LOCKSTEP=build/dev/bin/lockstep faults.py --repeat 50 --mpi openmpi

Two hosts with two ranks each do all-reduces without end. Each survivor must fail
at most 2 s after the timeout. Its error names a rank of the other side and its
host, and the process of a killed rank. Nothing may be left.

MPICH's launcher kills the others at once when it sees that one was killed, and
names the process and the host itself. It cannot be kept from that. A
rank that speaks all the same may have seen one first that the launcher killed.
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
RANKS = (2, 2)
TIMEOUT = 3  # seconds
# Each rank's words go to a file: a cut link does not carry them.
RANK = 'exec "$@" 2>"$LOG/${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-$RANK}}"'
PATIENT = {"openmpi": ["--enable-recovery"], "mpich": [], "ucx": []}


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

    def __init__(self, two, folder, flags):
        self.two, self.folder, self.flags = two, folder, flags
        self.timeout = TIMEOUT * flags.factor
        self.said = open(os.path.join(folder, "launcher"), "w+",
                         encoding="utf-8")
        words = ("sh", "-c", RANK, "rank", LOCKSTEP, "bench", "all-reduce",
                 "-b", "256k", "-e", "256k", "--iterations", "1000000")
        self.launcher = subprocess.Popen(
            two.mpirun(flags.mpi, RANKS, *words,
                       options=PATIENT[flags.mpi] if flags.patient else []),
            env=two.environment(LOG=folder, LOCKSTEP_TIMEOUT=self.timeout,
                                LOCKSTEP_RECORD=self.records()),
            stdin=subprocess.DEVNULL, stdout=self.said,
            stderr=subprocess.STDOUT)
        self.pids = {}

    def records(self):
        return os.path.join(self.folder, "records")

    def wait_until_it_goes(self):
        until(self.find_ranks, 30,
              lambda: f"there are ranks {sorted(self.pids)}")
        start = self.sent()
        until(lambda: self.sent() - start > 4000000, 30,
              lambda: f"the ranks do not talk: {self.words()}")

    def find_ranks(self):
        for name in self.two.names:
            for pid in self.two.processes(name):
                match = re.search(rb"(?:OMPI_COMM_WORLD_|PMI_|\0)RANK=(\d+)",
                                  environ(pid))
                if match and program(pid) == os.path.realpath(LOCKSTEP):
                    self.pids[int(match[1])] = pid
        return len(self.pids) == sum(RANKS)

    def sent(self):
        return sum(self.two.bytes(name)[0] for name in self.two.names)

    def words(self):
        return {r: read(os.path.join(self.folder, str(r)))
                for r in range(sum(RANKS))}

    def survivors_say(self, patterns, silent):
        """Each ends in time and its words match; how long the last took.
        Of the `silent` ones nothing is expected."""
        begin = time.monotonic()
        most = self.timeout + self.flags.factor * self.flags.patience
        until(lambda: not any(program(self.pids[r]) for r in patterns), most,
              lambda: f"not all have ended: {self.words()}")
        took = time.monotonic() - begin
        check(took <= most, f"it took {took:.2f} s")
        for r, pattern in patterns.items():
            words = self.words()[r]
            check((r in silent and not words) or re.search(pattern, words),
                  f"rank {r} said: \"{words}\"; the launcher: "
                  f"{read(self.said.name)}")
        return took

    def doctor_says(self, writers, pattern):
        """The records of all hosts are those of one group."""
        done = subprocess.run([LOCKSTEP, "doctor", self.records()],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, check=False)
        heads = re.findall(r"Job (?!0+:)\w+: records of (\d+) of (\d+) ranks",
                           done.stdout)
        check(heads == [(str(writers), str(sum(RANKS)))] and
              re.search(pattern, done.stdout),
              f"doctor said: {done.stdout}")

    def launcher_names(self, pid):
        until(lambda: f"PID {pid} RUNNING AT h1" in read(self.said.name), 30,
              lambda: f"the launcher said: {read(self.said.name)}")

    def nothing_is_left(self):
        self.launcher.kill()
        self.launcher.wait()
        self.said.close()
        until(lambda: not any(map(program, self.pids.values())), 30,
              lambda: f"some of the ranks {self.pids} are left")
        for name in self.two.names:
            found = subprocess.run(
                self.two.words(name, "find", "/dev/shm", "/tmp", "-maxdepth",
                               "2", "-name", "*lockstep*"),
                stdout=subprocess.PIPE, text=True, check=True).stdout.split()
            left = [f for f in found if not self.two.was_there(f)]
            check(not left, f"{name} has {left}")


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


def pid_on_host(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return int(re.search(r"^NSpid:.*\t(\d+)$", file.read(), re.M)[1])


# The table of who is where does not say "host".
H0 = r"(?:waiting for|:) rank [01] \(host h0, pid \d+\)"
H1 = r"(?:waiting for|:) rank [23] \(host h1, pid \d+\)"


def cut(job):
    job.two.cut("h1")
    took = job.survivors_say({0: H1, 1: H1, 2: H0, 3: H0}, ())
    job.doctor_says(4, r"late: .*rank \d \(host h\d, ")
    return took


def kill(job):
    pid = pid_on_host(job.pids[2])
    dead = rf"rank 2 \(host h1, pid {pid}\)"
    mpich = job.flags.mpi == "mpich"
    named = r"rank [23] \(host h1, pid \d+\)" if mpich else dead
    patterns = {r: f": {named} has died" for r in (0, 1, 3)}
    silent = patterns if mpich else ()
    os.kill(job.pids[2], signal.SIGKILL)
    took = job.survivors_say(patterns, silent)
    if silent:
        job.launcher_names(pid)
    else:
        job.doctor_says(3, f"dead: {dead} died")
    return took


def stop(job):
    job.two.stop("h1")
    took = job.survivors_say({0: H1, 1: H1}, ())
    job.two.kill("h1")
    job.doctor_says(2, r"late: .*rank [23] \(host h1, ")
    return took


FAULTS = {"cut": cut, "kill": kill, "stop": stop}


def once(fault, flags):
    with tempfile.TemporaryDirectory(prefix="lockstep-faults-") as folder:
        with hosts.Hosts(len(RANKS), keep=[folder]) as two:
            job = Job(two, folder, flags)
            job.wait_until_it_goes()
            took = FAULTS[fault](job)
            job.nothing_is_left()
            mark = two.environment()["LOCKSTEP_HOSTS"]
        until(lambda: not hosts.left(mark), 30,
              lambda: f"processes {hosts.left(mark)} are left")
        return took


def some_times(fault, flags):
    """Once, or with more time if that goes wrong: the machine may be busy."""
    for flags.factor in [4 ** k for k in range(flags.tries)]:
        try:
            return once(fault, flags)
        except Failure as reason:
            if flags.factor == 4 ** (flags.tries - 1):
                raise
            print(f"{fault}: {reason}", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--repeat", type=int, default=1, metavar="N")
    parser.add_argument("--mpi", default="openmpi",
                        choices=("openmpi", "mpich", "ucx"))
    parser.add_argument("--patience", type=float, default=2, metavar="S",
                        help="how long after the timeout (default 2 s)")
    parser.add_argument("--tries", type=int, default=1, metavar="N",
                        help="with 4 times the time each (default 1)")
    parser.add_argument("--patient", action="store_true",
                        help="the launcher is to leave the others alone")
    parser.add_argument("--fault", action="append", choices=FAULTS,
                        help="only this one (default all)")
    flags = parser.parse_args()
    hosts.skip_if(hosts.missing() or hosts.missing_module(flags.mpi))
    failed = 0
    for fault in flags.fault or FAULTS:
        times = []
        for i in range(flags.repeat):
            try:
                times.append(some_times(fault, flags))
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
