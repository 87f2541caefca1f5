#!/usr/bin/env python3
"""Random kills while weights are gathered from other nodes.

    LOCKSTEP=build/dev/bin/lockstep fsdp_kills.py --kills 50 --ranks 2,2 --ranks 1,1,1

`lockstep run` trains a language model with fsdp. Each layout first trains without a
fault. Then each run loses one random rank, or one whole host with its launcher, by
SIGKILL at a random moment of a random step. The link is slow and a step has several
micro-steps, so most moments are within a gather. The others must name the dead rank or
host, the launchers must restart, and the weights must be those of the first run.
"""

import argparse
import hashlib
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

import hosts
from faults import Failure, check, environ, pid_on_host, program, read, until

LOCKSTEP = os.environ["LOCKSTEP"]
TRAIN = (LOCKSTEP, "train", "lm", "--layers", "4", "--d-model", "64", "--heads", "2",
         "--d-ff", "128", "--context", "16", "--batch-size", "1", "--accumulate", "4",
         "--threads", "1", "--validate-every", "0", "--save-every", "4", "--strategy",
         "fsdp", "--bucket-mb", "0.2")


class Run:
    """One job on all hosts; its files are in a new folder."""

    def __init__(self, some, ranks, folder, steps):
        self.some, self.ranks, self.folder, self.steps = some, ranks, folder, steps
        os.mkdir(folder)
        self.begin = time.monotonic()
        self.jobs = {name: self.launch(name) for name in some.names}

    def path(self, name):
        return os.path.join(self.folder, name)

    def launch(self, name):
        k = int(name[1:])
        with open(self.path(name), "ab") as out:
            return subprocess.Popen(
                self.some.words(
                    name, LOCKSTEP, "run", "--nnodes", str(len(self.ranks)),
                    "--node-rank", str(k), "--rdzv-endpoint", "h0:29400", "-n",
                    str(self.ranks[k]), "--max-restarts", "3", "--grace", "1", "--",
                    *TRAIN, "--steps", str(self.steps), "--metrics",
                    self.path("metrics"), "--checkpoint-dir", self.path("steps"),
                    "--save", self.path("weights")),
                stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                env={**os.environ, "OMP_NUM_THREADS": "1", "LOCKSTEP_TIMEOUT": "20",
                     "LOCKSTEP_SECRET": "what only these hosts know"})

    def said(self):
        return "".join(read(self.path(name)) for name in self.some.names)

    def steps_done(self):
        return read(self.path("metrics")).count('"step"')

    def wait_for_step(self, step, seconds):
        until(lambda: self.steps_done() >= step, seconds,
              lambda: f"step {step} was not reached: {self.said()}")

    def rank_pids(self, name):
        """The ranks of a host, without the launcher that waits for them."""
        found = []
        for pid in self.some.processes(name):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    is_rank = file.read().split(b"\0")[1:2] == [b"train"]
            except OSError:
                continue
            if is_rank and program(pid) == os.path.realpath(LOCKSTEP):
                found.append(pid)
        return sorted(found)

    def silent(self, dead, name):
        """The survivors that have not named one of the dead ranks of a host."""
        whom = "|".join(rf"rank {r} \(host {name}, pid {pid}\)"
                        for r, pid in dead.items())
        named = {int(n) for n in re.findall(rf"lm: rank (\d+): .*(?:{whom}) has died",
                                            self.said())}
        return set(range(sum(self.ranks))) - set(dead) - named

    def end(self, seconds):
        """The hash of the weights, once all launchers have ended well."""
        try:
            until(lambda: all(job.poll() is not None for job in self.jobs.values()),
                  seconds, lambda: f"the job does not end: {self.said()}")
            ends = [job.returncode for job in self.jobs.values()]
            check(not any(ends), f"launchers ended with {ends}: {self.said()}")
        finally:
            self.stop()
        with open(self.path("weights"), "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()

    def stop(self):
        for name, job in self.jobs.items():
            self.some.kill(name)
            job.wait()


def kill_rank(run, name, draw):
    """Returns the ranks that die, and the words with which the launcher names it."""
    pid = draw.choice(run.rank_pids(name))
    dead = {rank_of(pid): pid_on_host(pid)}
    os.kill(pid, signal.SIGKILL)
    return dead, rf"rank {min(dead)} .*was killed by signal 9"


def kill_host(run, name, _):
    dead = {rank_of(pid): pid_on_host(pid) for pid in run.rank_pids(name)}
    run.some.kill(name)
    run.jobs[name].wait()
    return dead, rf"(host|node \d at) {name}\b.* is lost"


def rank_of(pid):
    return int(re.search(rb"(?:^|\0)RANK=(\d+)", environ(pid))[1])


def traffic(some, name, seconds):
    before = sum(some.bytes(name))
    time.sleep(seconds)
    return sum(some.bytes(name)) - before


def one_kill(run, draw, step_seconds, limit):
    """Kills something; returns a line about it once the others have named it."""
    name = draw.choice(run.some.names)
    kill = draw.choice((kill_rank, kill_rank, kill_host))
    step = draw.randrange(1, run.steps - 1)
    run.wait_for_step(step, 60)
    time.sleep(draw.random() * step_seconds)
    moved = traffic(run.some, name, 0.002)
    dead, by_launcher = kill(run, name, draw)
    begin = time.monotonic()
    until(lambda: not run.silent(dead, name) and re.search(by_launcher, run.said()), limit,
          lambda: f"{kill.__name__} {name}: ranks {run.silent(dead, name)} do not name "
                  f"{dead}, or the launcher did not say '{by_launcher}': {run.said()}")
    took = time.monotonic() - begin
    if kill is kill_host:
        run.jobs[name] = run.launch(name)
    return (f"{kill.__name__[5:]} of {name} after step {step}, {moved} bytes in the 2 ms "
            f"before; named after {took:.2f} s"), moved > 0, took


def layout(ranks, flags, draw):
    """The number of kills that went wrong."""
    failed, busy, longest = 0, 0, 0.0
    with tempfile.TemporaryDirectory(prefix="lockstep-kills-") as base, \
            hosts.Hosts(len(ranks), rate=flags.rate, keep=[base]) as some:
        run = Run(some, ranks, os.path.join(base, "plain"), flags.steps)
        run.wait_for_step(1, 60)
        begin = time.monotonic()
        plain = run.end(120)
        step_seconds = (time.monotonic() - begin) / flags.steps
        print(f"{ranks}: {step_seconds * 1000:.0f} ms a step", flush=True)
        for i in range(flags.kills):
            run = Run(some, ranks, os.path.join(base, str(i)), flags.steps)
            try:
                line, moved, took = one_kill(run, draw, step_seconds, flags.limit)
                check(run.end(120) == plain, f"{line}: other weights")
                check("restart 1 of 3" in run.said(), f"no restart: {run.said()}")
                busy, longest = busy + moved, max(longest, took)
                print(f"{i}: {line}", flush=True)
            except Failure as reason:
                failed += 1
                print(f"{i}: {reason}", file=sys.stderr, flush=True)
            finally:
                run.stop()
    print(f"{ranks}: {flags.kills - failed} of {flags.kills} as it should be, {busy} of "
          f"them while bytes moved; named after at most {longest:.2f} s", flush=True)
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--kills", type=int, default=50, metavar="N",
                        help="of each layout (default 50)")
    parser.add_argument("--ranks", action="append", metavar="N,N,...",
                        help="ranks on each host; may be repeated "
                             "(default 2,2 and 1,1,1)")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", default="200mbit", help="of each host's link")
    parser.add_argument("--limit", type=float, default=10, metavar="S",
                        help="in which the others must name the dead (default 10)")
    flags = parser.parse_args()
    hosts.skip_if(hosts.missing() or hosts.missing_module("ucx") or
                  hosts.missing_shaping(flags.rate, None))
    draw = random.Random(flags.seed)
    failed = 0
    for ranks in flags.ranks or ("2,2", "1,1,1"):
        failed += layout([int(n) for n in ranks.split(",")], flags, draw)
    sys.exit(failed != 0)


if __name__ == "__main__":
    main()
