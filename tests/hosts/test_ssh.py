#!/usr/bin/env python3
"""lockstep run --hosts over namespaces: where ranks run, and random kills.

    test_ssh.py [--rounds 300] [--seed S] [--round K]

Each round starts 2, 4 or 8 ranks, each with a child in its process group and one
in a separate session, on three hosts. At a random moment it kills the front,
what it has started in place of ssh, a host's agent, launcher or supervisor, a
rank or one of the children. Then: the status is right, the host and rank that
failed first are named, and two seconds later nothing is left on any host.
"""

import argparse
import collections
import os
import random
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import time

import hosts

LOCKSTEP = os.environ["LOCKSTEP"]
# By how much all times are longer that may be too short on a busy machine.
PATIENCE = float(os.environ.get("LOCKSTEP_TEST_PATIENCE", "1"))
MARK = "LOCKSTEP_TEST_MARK"
PROGRAM = "sleep 300 & (setsid sleep 300 &); echo up $RANK; while :; do sleep 9; done"
RANKS = {2: (1, 1, 0), 4: (2, 1, 1), 8: (3, 3, 2)}
VICTIMS = {"rank": 6, "child": 1, "front": 3, "agent": 2, "on-host": 2,
           "launcher": 2, "supervisor": 2}


class Broken(Exception):
    """A promise that does not hold."""


def check(condition, what):
    if not condition:
        raise Broken(what)


def until(condition, seconds, what):
    end = time.monotonic() + PATIENCE * seconds
    while not condition():
        check(time.monotonic() < end, what() if callable(what) else what)
        time.sleep(0.01)


def read(pid, name):
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read()
    except OSError:
        return b""


class Job:
    def __init__(self, where, ranks, folder, *flags):
        self.mark = secrets.token_hex(8)
        self.said = os.path.join(folder, f"said-{self.mark}")
        places = ",".join(f"{name}:{n}" for name, n in
                          zip(where.names, RANKS[ranks]) if n > 0)
        with open(self.said, "wb") as out:
            self.process = subprocess.Popen(
                where.words(hosts.HEAD, LOCKSTEP, "run", "--hosts", places,
                            "--ssh", hosts.AGENT, "--grace", "1", *flags,
                            "--", "sh", "-c", PROGRAM),
                env=where.environment(**{MARK: self.mark}), stdout=out,
                stderr=out, stdin=subprocess.DEVNULL)

    def text(self):
        with open(self.said, encoding="utf-8") as file:
            return file.read()

    def processes(self):
        """Each of the job's, by what it is."""
        found = collections.defaultdict(list)
        for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
            stat = read(pid, "stat").rpartition(b")")[2].split()
            env = read(pid, "environ").split(b"\0")
            if f"{MARK}={self.mark}".encode() not in env or stat[:1] == [b"Z"]:
                continue
            words = read(pid, "cmdline").split(b"\0")
            ranks = [e for e in env if e.startswith(b"RANK=")]
            kind = ("front" if b"--hosts" in words else
                    "on-host" if b"--on-host" in words else
                    "launcher" if b"--node-rank" in words else
                    "rank" if words[:2] == [b"sh", b"-c"] and ranks and
                    words[2:3] == [PROGRAM.encode()] else
                    "child" if ranks else "agent")
            found[kind].append((pid, int(stat[1]) if len(stat) > 1 else 0,
                                ranks[0][5:].decode() if ranks else None))
        fronts = {pid for pid, _, _ in found["launcher"]}
        found["supervisor"] = [p for p in found["launcher"] if p[1] in fronts]
        found["launcher"] = [p for p in found["launcher"]
                             if p[1] not in fronts]
        return {kind: p for kind, p in found.items() if p}

    def end(self, seconds):
        try:
            status = self.process.wait(PATIENCE * seconds)
        except subprocess.TimeoutExpired:
            raise Broken("it has not ended after "
                         f"{PATIENCE * seconds:g} s") from None
        until(lambda: not self.processes(), 2,
              lambda: f"left: {self.processes()}")
        return status

    def clean(self):
        for processes in self.processes().values():
            for pid, _, _ in processes:
                hosts.signal_if_there(pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait()


def play(where, source, folder):
    """One round: what it did, and what is wrong or None."""
    ranks = source.choice(list(RANKS))
    victim, = source.choices(list(VICTIMS), VICTIMS.values())
    number = source.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGSEGV,
                            signal.SIGABRT, signal.SIGTERM])
    stops = source.random() < 0.2
    what = f"{number.name} to {victim}{', stopped' if stops else ''} of {ranks}"
    job = Job(where, ranks, folder)
    try:
        until(lambda: len(set(re.findall(r"up (\d+)", job.text()))) == ranks or
              job.process.poll() is not None, 20, "the ranks do not start")
        time.sleep(source.uniform(0, 0.1))
        candidates = job.processes().get(victim)
        check(candidates, f"no {victim} was found")
        pid, _, rank = source.choice(candidates)
        if stops:
            hosts.signal_if_there(pid, signal.SIGSTOP)
            time.sleep(source.uniform(0, 0.2))
        hosts.signal_if_there(pid, number)
        if stops:
            hosts.signal_if_there(pid, signal.SIGCONT)
        judge(job, victim, number, rank)
    except Broken as error:
        return victim, f"{what}: {error}\n{job.text()}"
    finally:
        job.clean()
    return victim, None


def judge(job, victim, number, rank):
    if victim == "child":  # which is the rank's own affair
        job.process.send_signal(signal.SIGTERM)
        number = signal.SIGTERM
    status = job.end(12)
    wanted = {128 + number, -number}
    if victim in ("rank", "child"):
        wanted = {128 + number}
    elif victim not in ("front",) or number != signal.SIGTERM:
        wanted = set(range(1, 256)) | {-number}
    check(status in wanted, f"the status is {status}")
    failed = re.findall(r"lockstep: .*rank (\d+) on host h\d \(node \d, pid "
                        r"\d+\) was killed by signal (\d+)", job.text())
    if victim == "rank":
        check(failed == [(rank, str(int(number)))],
              f"rank {rank} was killed by {int(number)}")
    elif victim != "front":
        check("lockstep: " in job.text(), "it ends without a sentence")


def first_words(where, folder):
    """Ranks run where they should; what a host lacks is said of it."""
    def call(*words, cwd="/"):
        return subprocess.run(
            where.words(hosts.HEAD, "env", "-C", cwd, LOCKSTEP, "run", "--ssh",
                        hosts.AGENT, *words), env=where.environment(),
            timeout=30, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, check=False)
    done = call("--hosts", "h0:2,h1,h2:1", "--", "sh", "-c",
                "echo $RANK of $WORLD_SIZE on $(hostname)")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [
        "0 of 4 on h0", "1 of 4 on h0", "2 of 4 on h1", "3 of 4 on h2"], done
    done = call("--hosts", "h0,h9", "--", "true")
    assert done.returncode == 1 and "host h9 cannot be reached" in done.stderr
    done = call("--hosts", "h0", "--", "nonesuch")
    assert done.returncode == 127, done
    assert "host h0: cannot run 'nonesuch'" in done.stderr, done.stderr
    done = call("--hosts", "h0", "--", "true", cwd=folder)
    assert done.returncode == 1, done
    assert f"host h0: cannot change to the folder '{folder}'" in done.stderr


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 32))
    parser.add_argument("--round", type=int)
    given = parser.parse_args()
    hosts.skip_if(hosts.missing())
    rounds = range(given.rounds) if given.round is None else [given.round]
    done, wrong = collections.Counter(), 0
    print(f"ssh: seed {given.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="lockstep-ssh-") as folder, \
            hosts.Hosts(3) as where:
        first_words(where, folder)
        for i in rounds:
            source = random.Random(f"{given.seed}:{i}")
            victim, error = play(where, source, folder)
            done[victim] += 1
            if error is not None:
                wrong += 1
                print(f"ssh: wrong, again by --seed {given.seed} --round {i}: "
                      f"{error}", flush=True)
    counts = ", ".join(f"{done[name]} {name}" for name in VICTIMS)
    print(f"ssh: {sum(done.values())} rounds ({counts}), {wrong} wrong")
    sys.exit(wrong != 0)


if __name__ == "__main__":
    main()
