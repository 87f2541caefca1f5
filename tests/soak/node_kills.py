#!/usr/bin/env python3
"""Kills processes of `lockstep run` on several nodes at random.

    node_kills.py [--rounds 100] [--seed S] [--round K] [--hosts]

Each round starts launchers of 2 or 3 nodes with 1 to 3 ranks each, on hosts of
tests/hosts or all here. At a random moment, also while they meet, it kills the
front, the supervisor or a rank of one of them. Then: each launcher ends in
time, with the status that is right, and says who was the first; of none of
them anything is left.
"""

import argparse
import collections
import contextlib
import os
import random
import re
import secrets
import signal
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(os.path.dirname(HERE), "hosts"), os.path.dirname(HERE)]

import hosts  # noqa: E402
from ports import free_port  # noqa: E402
from job import LOCKSTEP, PATIENCE, Broken, Job, check, read, until  # noqa: E402

PROGRAM = """
sleep 300 &
(setsid sleep 300 &)
[ "$LOCKSTEP_RESTART" = 0 ] || exec true
exec sleep 30
"""
VICTIMS = {"rank": 3, "front": 2, "supervisor": 3}
# Seconds for meeting again in vain and for the graces. A busy machine slows the
# clock of those who wait (base/suspending_clock.h): 8 were too few once.
MOST = 15


def parent_of(pid):
    return int(read(f"/proc/{pid}/stat").rpartition(b")")[2].split()[1])


class Round:
    def __init__(self, seed, number, folder, some):
        self.random = random.Random(f"{seed}:{number}")
        self.folder, self.hosts = folder, some
        self.nodes = self.random.choice([2, 3])
        self.ranks = [self.random.randint(1, 3) for _ in range(self.nodes)]
        self.restarts = self.random.choice([0, 0, 1])
        self.victim, = self.random.choices(list(VICTIMS), VICTIMS.values())
        self.node = self.random.randrange(self.nodes)
        self.early = self.victim != "rank" and self.random.random() < 0.4
        self.jobs = []

    def __str__(self):
        early = " early" if self.early else ""
        return (f"{self.victim} of node {self.node}{early}, ranks {self.ranks}, "
                f"{self.restarts} restarts")

    def start(self):
        where = "h0" if self.hosts else "127.0.0.1"
        endpoint = f"{where}:{free_port()}"
        order = list(range(self.nodes))
        self.random.shuffle(order)
        jobs = {}
        for k in order:
            before = self.hosts.words(f"h{k}") if self.hosts else ()
            jobs[k] = Job(self.folder, [
                "run", "--nnodes", str(self.nodes), "--node-rank", str(k),
                "--rdzv-endpoint", endpoint, "-n", str(self.ranks[k]),
                "--rdzv-conf", f"join_timeout={2 * PATIENCE:g}", "--grace", "0.3",
                "--max-restarts", str(self.restarts), "--", "sh", "-c",
                PROGRAM], before=before, LOCKSTEP_SECRET="x" * 20)
        self.jobs = [jobs[k] for k in range(self.nodes)]

    def processes(self, job):
        """The front, the supervisor, the ranks; None if they are not there."""
        pids = job.pids()
        ours = [p for p in pids if os.path.realpath(f"/proc/{p}/exe") ==
                os.path.realpath(LOCKSTEP)]
        front = [p for p in ours if parent_of(p) not in ours]
        above = [p for p in ours if parent_of(p) in front]
        ranks = [p for p in pids if parent_of(p) in above and p not in ours and
                 os.getpgid(p) == p and os.getsid(p) != p]
        return {"front": front, "supervisor": above, "rank": ranks}

    def find(self, job, what, n=1):
        try:
            found = self.processes(job)[what]
        except (OSError, ValueError):
            return None
        return found if len(found) >= n else None

    def play(self):
        self.start()
        if self.early:
            time.sleep(self.random.uniform(0, 0.15))
        else:
            until(lambda: all(self.find(j, "rank", n) for j, n in
                              zip(self.jobs, self.ranks)), 20,
                  "the ranks do not start")
            time.sleep(self.random.uniform(0, 0.1))
        job = self.jobs[self.node]
        seen = []  # a second look may find less: processes come and go
        until(lambda: seen.extend(self.find(job, self.victim) or ()) or seen, 5,
              "no process to kill was found")
        pid = self.random.choice(seen)
        rank = job.rank_of(pid) if self.victim == "rank" else None
        job.send([pid], signal.SIGKILL)
        ends = [j.end(MOST) for j in self.jobs]
        for k, (j, status) in enumerate(zip(self.jobs, ends)):
            if self.victim == "rank":
                self.look_at_rank(j, status, pid, rank)
            elif k != self.node:
                self.look_at_other(j, status)
            elif self.hosts is None:
                check(status == (-9 if self.victim == "front" else 137),
                      f"the status of the victim is {status}")

    def look_at_rank(self, job, status, pid, rank):
        wanted = 0 if self.restarts > 0 else 137
        check(status == wanted, f"the status is {status}, not {wanted}")
        number = r"\d+" if self.hosts else pid  # the PID differs there
        check(re.search(rf"lockstep: rank {rank} on host \S+ \(node {self.node}"
                        rf", pid {number}\) was killed by signal 9 \(SIGKILL\)",
                        job.text()), "the first failure is not named")

    def look_at_other(self, job, status):
        check(status == 1, f"the status is {status}, not 1")
        what = (rf"\(node {self.node}\) is lost|node 0 at \S+ is lost|given up"
                if self.node == 0 else rf"\(node {self.node}\) is lost|given up")
        check(re.search(what, job.text()), "the loss is not named")


def play(seed, number, some):
    with tempfile.TemporaryDirectory(prefix="lockstep-kills-") as folder:
        this = Round(seed, number, folder, some)
        try:
            this.play()
        except Broken as error:
            said = "".join(f"--- node {k}\n{j.text()}"
                           for k, j in enumerate(this.jobs))
            return this, f"{this}: {error}\n{said}"
        finally:
            for job in this.jobs:
                job.clean()
    return this, None


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 32))
    parser.add_argument("--round", type=int)
    parser.add_argument("--hosts", action="store_true")
    given = parser.parse_args()
    print(f"node kills: seed {given.seed}", flush=True)
    rounds = range(given.rounds) if given.round is None else [given.round]
    done, wrong = collections.Counter(), 0
    if given.hosts:
        hosts.skip_if(hosts.missing())
    with hosts.Hosts(3) if given.hosts else contextlib.nullcontext() as some:
        for number in rounds:
            this, error = play(given.seed, number, some)
            done[this.victim] += 1
            if error is not None:
                wrong += 1
                print(f"node kills: wrong, again by --seed {given.seed} "
                      f"--round {number}: {error}", flush=True)
    counts = ", ".join(f"{done[name]} {name}" for name in VICTIMS)
    print(f"node kills: {sum(done.values())} rounds ({counts}), {wrong} wrong")
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main())
