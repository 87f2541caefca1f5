#!/usr/bin/env python3
"""Kills processes of `lockstep run` at random, and looks at what is left.

    kills.py [--rounds 300] [--seed S] [--round K]

Each round starts 2, 4 or 8 ranks, each with a child in its process group and
one in a separate session; with --max-restarts, --log-dir and --tag-output or
without. At a random moment it kills the front, the supervisor, a rank or one of
the children, in any of several ways. Then: the status is right; the first line
of the launcher names who failed, and how; two seconds later none of the
processes is there, none of the sockets and files in /dev/shm that they had
open, and no cgroup more than before.
"""

import argparse
import collections
import os
import random
import re
import secrets
import signal
import sys
import tempfile
import time

from job import Broken, Job, check, read, until

RANKS = os.environ["SOAK_RANKS"]
# A rank that ends by itself once it has been started again often enough.
PROGRAM = """
sleep 300 &
(setsid sleep 300 &)
[ "$LOCKSTEP_RESTART" -lt "$KILLS" ] || exec "$SOAK_RANKS" 1 0
exec "$SOAK_RANKS" 1 30
"""
FATAL = ["KILL", "KILL", "SEGV", "ABRT", "BUS", "STOP"]
REQUESTS = ["TERM", "INT", "HUP", "QUIT"]
VICTIMS = {"rank": 6, "child": 1, "front": 3, "supervisor": 3}


def parent_of(pid):
    try:
        return int(read(f"/proc/{pid}/stat").rpartition(b")")[2].split()[1])
    except OSError:
        return None


def opened(pids):
    """Sockets (by inode) and files in /dev/shm that the processes hold."""
    found = set()
    for pid in pids:
        try:
            for fd in os.listdir(f"/proc/{pid}/fd"):
                link = os.readlink(f"/proc/{pid}/fd/{fd}")
                if link.startswith(("socket:", "/dev/shm/")):
                    found.add(link)
        except OSError:
            pass
    return found


def still_there(links):
    inodes = set()
    for table in ("unix", "tcp", "tcp6"):
        with open(f"/proc/net/{table}", encoding="ascii",
                  errors="replace") as file:
            for line in file:
                inodes.update(line.split()[6:10])
    return [link for link in links
            if (link[8:-1] in inodes if link.startswith("socket:")
                else os.path.exists(link))]


def cgroups():
    """Those below the one that this process is in, but for those that other
    tests make meanwhile."""
    with open("/proc/self/cgroup", encoding="ascii") as file:
        own = [line.strip().split(":")[2] for line in file
               if line.startswith("0::")]
    return {path for group in own
            for path, _, _ in os.walk("/sys/fs/cgroup" + group)
            if "/lockstep-test-" not in path}


class Round:
    def __init__(self, seed, number, folder):
        self.random = random.Random(f"{seed}:{number}")
        self.folder = folder
        self.ranks = self.random.choice([2, 4, 8])
        self.restarts = self.random.choice([0, 0, 1, 2])
        self.victim, = self.random.choices(list(VICTIMS), VICTIMS.values())
        kills = FATAL + (REQUESTS if self.victim != "child" else [])
        self.how = self.random.choice(kills)
        # A rank may be killed as often as it is started.
        self.kills = (self.random.randint(1, self.restarts + 1)
                      if self.victim == "rank" else 1)
        self.early = self.random.random() < 0.25  # while ranks still start
        self.flags = ["-n", self.ranks, "--grace", "1"]
        if self.restarts > 0:
            self.flags += ["--max-restarts", self.restarts]
        if self.random.random() < 0.5:
            self.flags += ["--log-dir", os.path.join(folder, "logs")]
        if self.random.random() < 0.3:
            self.flags += ["--tag-output"]
        self.job = None
        self.open = set()

    def __str__(self):
        early = " early" if self.early else ""
        return (f"{self.how} to {self.victim}{early}, {self.kills} times: run "
                + " ".join(str(flag) for flag in self.flags))

    # ---- who is who --------------------------------------------------------

    def tree(self):
        """The processes of the job by what they are."""
        pids = self.job.pids()
        parents = {pid: parent_of(pid) for pid in pids}
        front = self.job.process.pid
        above = [pid for pid in pids if parents[pid] == front]
        # Processes without a parent belong to the supervisor, too.
        below = [pid for pid in pids if parents[pid] in above]
        ranks = [pid for pid in below if os.getpgid(pid) == pid and
                 os.getsid(pid) != pid]
        return {"front": [front] if front in pids else [],
                "supervisor": above, "rank": ranks,
                "child": [pid for pid in pids
                          if pid not in ranks + above + [front]]}

    def find(self, attempt):
        """A victim of that attempt, or None."""
        try:
            pids = self.tree()[self.victim]
        except ProcessLookupError:
            return None
        if self.victim == "rank":
            pids = [pid for pid in pids if
                    self.job.number_of(pid, b"LOCKSTEP_RESTART") == attempt]
        return self.random.choice(pids) if pids else None

    def all_run(self, attempt):
        """Each rank has become its program in this attempt."""
        found = set()
        for pid in self.job.pids():
            try:
                if (os.readlink(f"/proc/{pid}/exe") == os.path.realpath(RANKS)
                        and self.job.number_of(pid, b"LOCKSTEP_RESTART") ==
                        attempt):
                    found.add(self.job.rank_of(pid))
            except OSError:
                pass
        return len(found) == self.ranks

    # ---- killing -----------------------------------------------------------

    def kill(self, attempt):
        """Returns who it was, and its rank."""
        chosen = []

        def seen():
            pid = self.find(attempt)
            if pid is not None:
                chosen.append(pid)
            return chosen or self.job.process.poll() is not None
        if not self.early:
            until(lambda: self.all_run(attempt), 10, "the ranks do not start")
            time.sleep(self.random.uniform(0, 0.1))
        until(seen, 10, f"no {self.victim} was found")
        check(chosen, "it has ended before the kill")
        pid = chosen[0]
        rank = self.job.rank_of(pid) if self.victim == "rank" else None
        self.open |= opened(self.job.pids())
        if self.how == "STOP":
            self.job.send([pid], signal.SIGSTOP)
            time.sleep(self.random.uniform(0, 0.2))
        self.job.send([pid], self.number())
        return pid, rank

    def number(self):
        return signal.SIGKILL if self.how == "STOP" else \
            signal.Signals[f"SIG{self.how}"]

    def said(self):
        """The lines of the launcher, not of the ranks."""
        return [line for line in self.job.text().splitlines()
                if re.match(r"lockstep: (rank \d+ \(pid|the supervisor|restart|"
                            r"given up|the job was ended by)", line)]

    # ---- a round -----------------------------------------------------------

    def play(self):
        groups = cgroups()
        own = opened([os.getpid()])
        words = ["run", *self.flags, "--", "sh", "-c", PROGRAM]
        self.job = Job(self.folder, [str(word) for word in words], timeout=2,
                       KILLS=str(self.kills), SOAK_RANKS=RANKS)
        if self.early:
            time.sleep(self.random.uniform(0, 0.02))
        if self.victim == "rank":
            self.kill_ranks()
        else:
            self.kill_another()
        self.open -= own
        until(lambda: not still_there(self.open), 2,
              f"left: {still_there(self.open)}")
        until(lambda: cgroups() <= groups, 2,
              f"cgroups are left: {cgroups() - groups}")

    def kill_ranks(self):
        victims = [self.kill(attempt) for attempt in range(self.kills)]
        status = self.job.end(8)
        number = self.number()
        wanted = 128 + number if self.kills > self.restarts else 0
        check(status == wanted, f"the status is {status}, not {wanted}")
        said = self.said()
        named = [line for line in said if "(pid" in line]
        check(len(named) == self.kills, f"{self.kills} failures are named")
        for line, (pid, rank) in zip(named, victims):
            which = r"\d+" if rank is None else rank
            check(re.match(rf"lockstep: rank {which} \(pid {pid}\) was killed "
                           rf"by signal {int(number)} \(SIG", line),
                  f"rank {rank} (pid {pid}) was killed by {number}: {line}")
        if self.kills > self.restarts > 0:
            check(said[-1] == f"lockstep: given up after {self.restarts} "
                  f"restart{'s' if self.restarts > 1 else ''} (the limit of "
                  "--max-restarts)", "given up")

    def kill_another(self):
        self.kill(0)
        number = self.number()
        if self.victim == "child":  # which is the rank's own affair
            until(lambda: self.all_run(0), 10, "the ranks do not start")
            self.job.send([self.job.process.pid], signal.SIGTERM)
            number = signal.SIGTERM
        asked = self.victim == "child" or self.how in REQUESTS
        status = self.job.end(8)
        wanted = [128 + number]
        if self.victim == "front" and (self.early or not asked):
            wanted = [-number] if not asked else [-number, 128 + number]
        check(status in wanted, f"the status is {status}, not {wanted}")
        said = self.said()
        if asked and status > 0:
            check(said == [f"lockstep: the job was ended by {number.name}"],
                  f"the end was asked for: {said}")
        elif self.victim == "supervisor":
            check(said == ["lockstep: the supervisor process was killed by "
                           f"signal {int(number)}; all ranks were killed"],
                  f"who it was: {said}")


def play(seed, number):
    """One round; it, and what is wrong or None."""
    with tempfile.TemporaryDirectory(prefix="lockstep-kills-") as folder:
        this = Round(seed, number, folder)
        try:
            this.play()
        except Broken as error:
            return this, f"{this}: {error}\n{this.job.text()}"
        finally:
            if this.job is not None:
                this.job.clean()
    return this, None


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 32))
    parser.add_argument("--round", type=int)
    given = parser.parse_args()
    print(f"kills: seed {given.seed}", flush=True)
    rounds = range(given.rounds) if given.round is None else [given.round]
    done, wrong = collections.Counter(), 0
    for number in rounds:
        this, error = play(given.seed, number)
        done[this.victim] += 1
        if error is not None:
            wrong += 1
            print(f"kills: wrong, again by --seed {given.seed} --round "
                  f"{number}: {error}", flush=True)
    counts = ", ".join(f"{done[name]} {name}" for name in VICTIMS)
    print(f"kills: {sum(done.values())} rounds ({counts}), {wrong} wrong")
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main())
