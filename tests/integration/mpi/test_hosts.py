#!/usr/bin/env python3
"""Hosts that LOCKSTEP_HOSTID plays: two with two ranks each, and uneven ones.
Training on them gives the bits of one host, under every strategy, a rank that
is killed is named by all others, and ranks may meet more than once."""

import hashlib
import os
import re
import signal
import subprocess
import tempfile
import time
import unittest

import mpirun


def train(path, *words):
    return [mpirun.LOCKSTEP, "train", "cifar100", "--limit", "32", "--epochs",
            "1", "--batch-size", "4", "--threads", "1", "--no-dropout",
            "--deterministic", "--save", path, *words]


def train_lm(path, *words):
    return [mpirun.LOCKSTEP, "train", "lm", "--layers", "1", "--d-model", "32",
            "--heads", "2", "--d-ff", "64", "--context", "16", "--batch-size",
            "1", "--steps", "4", "--dtype", "bf16", "--threads", "1",
            "--deterministic", "--save", path, *words]


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def rank_of(pid):
    """Which rank a process is; None for one that is not a rank of this job."""
    try:
        if os.readlink(f"/proc/{pid}/exe") != os.path.realpath(mpirun.LOCKSTEP):
            return None
        with open(f"/proc/{pid}/environ", "rb") as file:
            match = re.search(rb"(?:OMPI_COMM_WORLD|PMI)_RANK=(\d+)",
                              file.read())
    except OSError:
        return None
    return int(match[1]) if match else None


def descendants(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
            children = [int(word) for word in f.read().split()]
    except OSError:
        return []
    return children + [d for child in children for d in descendants(child)]


def catches(pid, number):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        caught = re.search(r"^SigCgt:\s*(\w+)$", file.read(), re.M)
    return int(caught[1], 16) >> (number - 1) & 1 == 1


FOREVER = [mpirun.LOCKSTEP, "bench", "all-reduce", "-b", "256k", "-e", "256k",
           "--iterations", "100000000"]


class Hosts(unittest.TestCase):
    def test_uneven_hosts_add_up(self):
        done = mpirun.run([2, 1, 3], [
            mpirun.LOCKSTEP, "bench", "all-reduce", "--sizes", "1k,1m",
            "--iterations", "1", "--warmup", "0", "--markdown"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("| nodes ", done.stdout)

    def test_trains_the_same_bits(self):
        with tempfile.TemporaryDirectory() as folder:
            alone = os.path.join(folder, "alone")
            subprocess.run(train(alone, "-n", "4"), check=True,
                           capture_output=True, timeout=100)
            for strategy in ("bucketed", "shared", "fsdp"):
                path = os.path.join(folder, strategy)
                done = mpirun.run([2, 2], train(path, "--strategy", strategy))
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(digest(path), digest(alone), strategy)

    def test_halves_are_the_same(self):
        with tempfile.TemporaryDirectory() as folder:
            alone = os.path.join(folder, "alone")
            subprocess.run(train_lm(alone, "-n", "4"), check=True,
                           capture_output=True, timeout=100)
            for strategy in ("shared", "fsdp"):
                path = os.path.join(folder, strategy)
                done = mpirun.run([2, 2], train_lm(path, "--strategy", strategy))
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(digest(path), digest(alone), strategy)

    def test_ranks_meet_again(self):
        done = mpirun.meet_again([2, 2])
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_ranks_wait_in_two_groups_at_once(self):
        for ranks in ([1, 1], [2, 1], [2, 1, 2]):
            done = mpirun.scene(ranks, "cross")
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_child_exits_and_its_parent_goes_on(self):
        done = mpirun.scene([1, 1], "fork")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_signal_asks_for_records(self):
        with tempfile.TemporaryDirectory() as folder, \
                tempfile.TemporaryFile("w+") as heard, subprocess.Popen(
                    mpirun.command([2, 2], FOREVER,
                                   {"LOCKSTEP_RECORD": folder}),
                    stdout=subprocess.DEVNULL, stderr=heard) as launcher:
            end = time.monotonic() + 60
            found = set()  # ranks; each writes a file for each of its groups
            while len(found) < 4 and time.monotonic() < end and \
                    launcher.poll() is None:
                # MPICH handles SIGUSR1 for a while before the rank does; only
                # the rank handles SIGTERM, and that later.
                for pid in descendants(launcher.pid):
                    if rank_of(pid) is not None and \
                            catches(pid, signal.SIGTERM):
                        os.kill(pid, signal.SIGUSR1)
                time.sleep(0.1)
                found |= set(re.findall(r"-rank-(\d+)\.json",
                                        " ".join(os.listdir(folder))))
            launcher.terminate()
            launcher.wait(timeout=60)
            heard.seek(0)
            self.assertEqual(sorted(found), ["0", "1", "2", "3"], heard.read())

    def test_a_rank_that_does_not_come_again_is_named(self):
        mpirun.miss_the_last(
            [2, 2], "1 of 4 ranks did not join within {} s: rank 3")

    @unittest.skipIf(mpirun.MPI == "mpich",
                     "its launcher kills the others at once")
    def test_a_killed_rank_is_named(self):
        line = mpirun.command([2, 2], FOREVER, options=["--enable-recovery"])
        with tempfile.TemporaryFile("w+") as words, \
                subprocess.Popen(line, stdout=subprocess.DEVNULL,
                                 stderr=words) as launcher:
            ranks = {}
            end = time.monotonic() + 60
            while len(ranks) < 4 and time.monotonic() < end:
                ranks = {rank_of(p): p for p in descendants(launcher.pid)
                         if rank_of(p) is not None}
                time.sleep(0.1)
            time.sleep(3)
            os.kill(ranks[2], signal.SIGKILL)
            launcher.wait(timeout=60)
            words.seek(0)
            said = words.read()
        for rank in (0, 1, 3):
            self.assertRegex(said, rf"rank {rank}: rank 2 \(host \S+, pid "
                                   r"\d+\) has died")


if __name__ == "__main__":
    mpirun.skip_unless_there()
    unittest.main()
