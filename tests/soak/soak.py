#!/usr/bin/env python3
"""Disturbs jobs at random, and looks whether every promise holds.

    soak.py [--minutes 10 | --rounds N] [--seed S] [--round K] [--only NAME,...]

Each round starts a job. At a random moment it kills, stops or pauses some of its processes,
lets a rank call what the others do not, or damages what a run
has saved. Then the job must end in time, with the right status and a sentence that
names the culprit. Nothing is left running. Saved files are whole. A resumed run
ends with the bits of an undisturbed run. Descriptors, mappings
and memory of launcher and ranks do not grow.

A round is determined by the seed and its number; both are printed when
something is wrong, and `--seed S --round K` does it again.
"""

import argparse
import collections
import hashlib
import json
import os
import random
import secrets
import shutil
import signal
import sys
import tempfile
import time

from job import LOCKSTEP, PATIENCE, Broken, Growth, Job, check, read, until

RANKS = os.environ["SOAK_RANKS"]
STEPS = 12
MODEL = ["--d-model", "32", "--layers", "1", "--heads", "2", "--context", "16",
         "--batch-size", "2", "--steps", str(STEPS), "--lr", "0.01",
         "--schedule", "constant"]
IMAGES = ["--threads", "1", "--limit", "64", "--epochs", "2", "--batch-size", "4"]
STRATEGIES = ["bucketed", "flat", "zero1", "shared"]
TIMEOUT = 2  # of a collective, in seconds, without patience


class Round:
    """The disturbances of a round; each method is one kind."""

    def __init__(self, seed, number, folder, references):
        self.random = random.Random(f"{seed}:{number}")
        self.folder, self.references = folder, references
        self.jobs = []
        self.told = ""

    def start(self, *words, **more):
        self.jobs.append(Job(self.folder, [str(w) for w in words], **more))
        return self.jobs[-1]

    def collectives(self, ranks, *other, seconds=30, timeout=TIMEOUT):
        return self.start("run", "-n", ranks, "--", RANKS,
                          self.random.randrange(1 << 30), seconds, *other,
                          timeout=timeout)

    def ranks(self):
        return self.random.choice([2, 3, 4])

    def ready(self, job, ranks):
        """All ranks run, for a random moment."""
        until(lambda: len({job.rank_of(p) for p in job.pids()} - {None}) ==
              ranks or job.process.poll() is not None, 10,
              "the ranks do not start")
        time.sleep(self.random.uniform(0, 0.15))

    def rank_pid(self, job):
        pids = [p for p in job.pids() if job.rank_of(p) is not None]
        return self.random.choice(pids)

    # ---- collectives -------------------------------------------------------

    def kill_rank(self):
        ranks = self.ranks()
        job = self.collectives(ranks)
        self.ready(job, ranks)
        pid = self.rank_pid(job)
        rank = job.rank_of(pid)
        job.send([pid], signal.SIGKILL)
        status = job.end(5)
        check(status == 137, f"the status is {status}")
        check(f"rank {rank}" in job.text(), f"rank {rank} is not named")

    def kill_above(self):
        """The launcher, or whoever else is not a rank."""
        ranks = self.ranks()
        job = self.collectives(ranks)
        self.ready(job, ranks)
        pids = [p for p in job.pids() if job.rank_of(p) is None]
        job.send([self.random.choice(pids)], signal.SIGKILL)
        check(job.end(5) != 0, "the status is 0")

    def stop_rank(self):
        ranks = self.ranks()
        job = self.collectives(ranks, timeout=1)
        self.ready(job, ranks)
        pid = self.rank_pid(job)
        rank = job.rank_of(pid)
        job.send([pid], signal.SIGSTOP)
        status = job.end(12)
        check(status not in (0, 4), f"the status is {status}")
        check(f"rank {rank}" in job.text(), f"rank {rank} is not named")

    def pause_all(self):
        ranks = self.ranks()
        job = self.collectives(ranks, seconds=2, timeout=1)
        self.ready(job, ranks)
        pids = job.pids()
        job.send(pids, signal.SIGSTOP)
        time.sleep(1.6 * PATIENCE)
        job.send(pids, signal.SIGCONT)
        check(job.end(10) == 0, "a pause has ended it")

    def differ(self):
        ranks = self.ranks()
        who = self.random.randrange(ranks)
        how = self.random.choice(["count", "operation", "exit", "fail"])
        job = self.collectives(ranks, who, self.random.randrange(300), how)
        status = job.end(5)
        check(status not in (0, 4), f"{how}: the status is {status}")
        check(f"rank {who}" in job.text(), f"{how}: rank {who} is not named")

    # ---- what is held ------------------------------------------------------

    def restart_traces(self):
        """The launcher holds no more after restarts of ranks that trace."""
        ranks, kills = self.random.choice([1, 2, 4]), 12
        traces = os.path.join(self.folder, "traces")
        flags = self.random.choice(
            [(), ("--tag-output",), ("--log-dir", self.folder + "/logs")])
        job = self.start("run", "-n", ranks, "--max-restarts", kills, *flags,
                         "--", RANKS, self.random.randrange(1 << 30), 30,
                         timeout=10, LOCKSTEP_TRACE=traces)
        growth = Growth(3)
        old = set()
        for _ in range(kills):
            until(lambda: len({job.rank_of(p) for p in set(job.pids()) - old} -
                              {None}) == ranks, 10, "the ranks do not start")
            pids = [p for p in job.pids() if job.rank_of(p) is not None]
            old |= set(pids)
            time.sleep(self.random.uniform(0, 0.1))
            for k, pid in enumerate(job.above()):
                growth.look(("the launcher", "the supervisor")[k], pid)
            job.send([self.random.choice(pids)], self.random.choice(
                [signal.SIGKILL, signal.SIGABRT, signal.SIGTERM]))
        until(lambda: len({job.rank_of(p) for p in set(job.pids()) - old} -
                          {None}) == ranks, 10, "the last ranks do not start")
        # A rank writes its trace once it has recorded enough.
        until(lambda: sum(name.endswith(".lstrace") for _, _, names in
                          os.walk(traces) for name in names) >= ranks,
              10, "there are no traces of all ranks")
        job.send(job.above()[:1], signal.SIGTERM)
        check(job.end(15) in (143, 137), "the status is that of no request")
        growth.judge()

    def steady(self):
        """Ranks hold no more after many calls, with traces and without."""
        ranks = self.ranks()
        more = self.random.choice(
            [{}, {"LOCKSTEP_TRACE": os.path.join(self.folder, "traces")}])
        job = self.start("run", "-n", ranks, "--", RANKS,
                         self.random.randrange(1 << 30), 7, timeout=10, **more)
        self.ready(job, ranks)
        growth = Growth(3)
        for i in range(6):
            time.sleep(0.6)
            for pid in job.pids():
                number = job.rank_of(pid)
                growth.look(f"process {pid}" if number is None else
                            f"rank {number}", pid)
        check(job.end(20) == 0, "it has failed")
        growth.judge()

    # ---- runs that save ----------------------------------------------------

    def config(self):
        return (self.random.choice([1, 2, 3]), self.random.choice(STRATEGIES))

    def train(self, config, out, *more):
        ranks, strategy = config
        return self.start("train", "lm", "-n", ranks, "--strategy", strategy,
                          *MODEL, "--save", out, "--seed", "5", *more)

    def finish(self, config, *more):
        """The bits of the weights at the end, or None and the sentence."""
        out = os.path.join(self.folder, "weights")
        job = self.train(config, out, *more)
        status = job.end(30)
        check(status in (0, 1), f"going on, the status is {status}")
        if status == 1:
            self.told = job.text()
            check("lockstep: " in self.told, "it ends without a sentence")
            return None
        return hashlib.sha256(read(out)).hexdigest()

    def reference(self, config):
        if config not in self.references:
            self.references[config] = self.finish(config)
        return self.references[config]

    def kill_training(self):
        config = self.config()
        wanted = self.reference(config)
        place = os.path.join(self.folder, "steps")
        flags = ["--checkpoint-dir", place, "--save-every", "1"]
        for _ in range(self.random.choice([1, 1, 2, 3])):
            job = self.train(config, os.path.join(self.folder, "weights"),
                             *flags, "--resume")
            time.sleep(self.random.uniform(0.005, 0.12))
            victims = job.pids()
            if victims:
                job.send([self.random.choice(victims)], signal.SIGKILL)
            job.end(8)
        got = self.finish(config, *flags, "--resume")
        check(got is not None, f"it does not go on: {self.told}")
        check(got == wanted, "other bits than undisturbed")

    def restart_training(self):
        """`lockstep run --max-restarts` goes on by itself: with the same bits."""
        job = self.random.choice(["lm", "cifar100"])
        words = ["train", job, "--seed", "5",
                 *(MODEL if job == "lm" else IMAGES),
                 "--strategy", self.random.choice(STRATEGIES)]
        ranks = self.random.choice([1, 2, 4])
        key = (ranks, *words)
        out = os.path.join(self.folder, "weights")
        if key not in self.references:
            plain = self.start(*words, "-n", ranks, "--save", out, timeout=20)
            check(plain.end(60) == 0, "the undisturbed run has failed")
            self.references[key] = hashlib.sha256(read(out)).hexdigest()
        this = self.start("run", "-n", ranks, "--max-restarts", 5, "--",
                          LOCKSTEP, *words, "--save", out + "2",
                          "--checkpoint-dir", os.path.join(self.folder, "s"),
                          "--save-every", "1", timeout=20)
        for _ in range(self.random.choice([1, 2, 3, 4, 5])):
            time.sleep(self.random.uniform(0.02, 0.6))
            victims = [p for p in this.pids() if this.rank_of(p) is not None]
            if victims:
                this.send([self.random.choice(victims)], self.random.choice(
                    [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT]))
        status = this.end(90)
        check(status == 0, f"the status is {status}")
        check(hashlib.sha256(read(out + "2")).hexdigest() ==
              self.references[key], "other bits than undisturbed")

    def damage(self):
        config = self.config()
        wanted = self.reference(config)
        place = os.path.join(self.folder, "steps")
        flags = ["--checkpoint-dir", place, "--save-every", "1", "--keep", "3"]
        half = self.start("train", "lm", "-n", config[0], "--strategy",
                          config[1], *MODEL, "--steps",
                          self.random.randrange(3, STEPS), "--seed", "5",
                          *flags)
        check(half.end(30) == 0, "the first half has failed")
        steps = step_folders(place)
        damaged = self.random.sample(steps, self.random.choice([1, 1, 2, 3]))
        done = [mutate(self.random, os.path.join(place, step), place)
                for step in damaged]
        got = self.finish(config, *flags, "--resume")
        if got is None:
            check(len(damaged) == len(steps),
                  f"after {done} of {steps}: {self.told}")
        else:
            check(got == wanted, f"after {done}: other bits")


def step_folders(place):
    return sorted(n for n in os.listdir(place) if n.startswith("step-"))


def mutate(source, step, place):
    """Damages one checkpoint; says how."""
    names = sorted(os.listdir(step))
    victim = os.path.join(step, source.choice(names))
    how = source.choice(["flip", "cut", "grow", "remove", "empty", "swap",
                         "other", "link", "manifest"])
    data = bytearray(read(victim))
    if how == "flip":
        data[source.randrange(len(data))] ^= 1 << source.randrange(8)
    elif how == "cut":
        data = data[:source.randrange(len(data))]
    elif how == "grow":
        data += source.randbytes(source.randrange(1, 100))
    elif how == "empty":
        data = b""
    elif how == "other":
        data = read(os.path.join(step, source.choice(names)))
    if how == "remove":
        os.remove(victim)
    elif how == "swap":
        other = source.choice(step_folders(place))
        where = os.path.join(place, other, os.path.basename(victim))
        if os.path.exists(where):
            shutil.copy(where, victim + ".new")
            os.replace(victim + ".new", victim)
    elif how == "link":
        os.rename(step, step + ".moved")
        os.symlink(step + ".moved", step)
        os.remove(os.path.join(step, "manifest.json"))
    elif how == "manifest":
        manifest = os.path.join(step, "manifest.json")
        tree = json.loads(read(manifest))
        key = source.choice(sorted(tree))
        tree[key] = source.choice([None, -1, "", [], {}, 1e300])
        with open(manifest, "w", encoding="utf-8") as file:
            json.dump(tree, file)
    else:
        with open(victim, "wb") as file:
            file.write(bytes(data))
    return f"{how} of {os.path.basename(step)}/{os.path.basename(victim)}"


KINDS = {"kill-rank": (Round.kill_rank, 6), "kill-above": (Round.kill_above, 3),
         "stop-rank": (Round.stop_rank, 1), "pause-all": (Round.pause_all, 1),
         "differ": (Round.differ, 4), "kill-training": (Round.kill_training, 6),
         "restart-training": (Round.restart_training, 2),
         "damage": (Round.damage, 8), "steady": (Round.steady, 2),
         "restart-traces": (Round.restart_traces, 2)}


def play(seed, number, names, references):
    """One round; returns its kind, and what is wrong or None."""
    with tempfile.TemporaryDirectory(prefix="lockstep-soak-") as folder:
        this = Round(seed, number, folder, references)
        weights = [KINDS[name][1] for name in names]
        kind = this.random.choices(names, weights)[0]
        try:
            KINDS[kind][0](this)
        except Broken as error:
            said = "".join(f"\n--- {' '.join(job.process.args)}\n{job.text()}"
                           for job in this.jobs)
            return kind, f"{error}{said}"
        finally:
            for job in this.jobs:
                job.clean()
    return kind, None


def options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--round", type=int)
    parser.add_argument("--only", default=",".join(KINDS))
    given = parser.parse_args()
    given.only = given.only.split(",")
    for name in given.only:
        if name not in KINDS:
            parser.error(f"no kind is called {name}: {', '.join(KINDS)}")
    if given.seed is None:
        given.seed = secrets.randbelow(1 << 32)
    return given


def main():
    given = options()
    print(f"soak: seed {given.seed}", flush=True)
    done, wrong, references = collections.Counter(), 0, {}
    end = time.monotonic() + 60 * given.minutes
    number = given.round if given.round is not None else 0
    last = number + 1 if given.round is not None else given.rounds
    while number < last if last is not None else time.monotonic() < end:
        kind, error = play(given.seed, number, given.only, references)
        done[kind] += 1
        if error is not None:
            wrong += 1
            print(f"soak: {kind} is wrong, again by --seed {given.seed} "
                  f"--round {number}: {error}", flush=True)
        number += 1
    counts = ", ".join(f"{done[kind]} {kind}" for kind in KINDS if done[kind])
    print(f"soak: {sum(done.values())} rounds ({counts}), {wrong} wrong")
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main())
