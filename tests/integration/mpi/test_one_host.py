#!/usr/bin/env python3
"""One host: MPI is used to meet, and the ranks then are those of any launcher.
Models that are trained under mpirun have the bits of those under `lockstep
run`; a module that does not fit is an error that names both."""

import hashlib
import os
import shutil
import subprocess
import tempfile
import time
import unittest

import mpirun

OTHER = {"openmpi": ("mpich", "MPICH", "Open MPI"),
         "mpich": ("openmpi", "Open MPI", "MPICH")}


def train(path):
    return [mpirun.LOCKSTEP, "train", "cifar100", "--limit", "64",
            "--epochs", "1", "--batch-size", "8", "--threads", "1", "--save",
            path]


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


class OneHost(unittest.TestCase):
    def test_ranks_meet_and_add_up(self):
        done = mpirun.run([3], [mpirun.LOCKSTEP, "demo", "hello"])
        self.assertEqual(done.returncode, 0, done.stderr)
        after = [line.split(":")[1] for line in done.stdout.splitlines()
                 if "after" in line]
        self.assertEqual(len(after), 3)
        self.assertEqual(len(set(after)), 1)

    def test_trains_the_same_bits(self):
        with tempfile.TemporaryDirectory() as folder:
            by_mpi = os.path.join(folder, "mpi.safetensors")
            alone = os.path.join(folder, "run.safetensors")
            done = mpirun.run([2], train(by_mpi))
            self.assertEqual(done.returncode, 0, done.stderr)
            subprocess.run(train(alone) + ["-n", "2"],
                           check=True, capture_output=True, timeout=60)
            self.assertEqual(digest(by_mpi), digest(alone))

    def test_ranks_meet_again(self):
        done = mpirun.meet_again([3])
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_rank_that_does_not_come_again_is_named(self):
        mpirun.miss_the_last([3], "2 of 3 ranks have joined; missing ranks: 2")

    def test_who_starts_without_us_is_not_waited_for_for_ever(self):
        line = mpirun.command([1], [mpirun.LOCKSTEP, "demo", "hello"],
                              {"LOCKSTEP_TIMEOUT": "2"})
        since = time.monotonic()
        done = subprocess.run([*line, ":", "-n", "1", "sleep", "60"],
                              capture_output=True, text=True, timeout=100)
        self.assertLess(time.monotonic() - since, 40)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("rank 0: the 2 ranks cannot connect through MPI", done.stderr)
        self.assertIn("MPI_Init did not finish within 2 s", done.stderr)

    def test_a_module_that_does_not_fit_is_named(self):
        name, asked, started = OTHER[mpirun.MPI]
        done = mpirun.run([2], [mpirun.LOCKSTEP, "demo", "hello"],
                          {"LOCKSTEP_MPI": name})
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(f"selects {asked}, but {started} started",
                      done.stderr)

    def fails_with(self, folder, *texts):
        done = mpirun.run([2], [os.path.join(folder, "bin", "lockstep"),
                                "demo", "hello"])
        self.assertNotEqual(done.returncode, 0)
        for text in texts:
            self.assertIn(text, done.stderr)

    def test_a_module_that_is_missing_is_named(self):
        other, _, started = OTHER[mpirun.MPI]
        module = "liblockstep-mpi-{}.so".format
        from_program = os.path.relpath(mpirun.MODULES,
                                       os.path.dirname(mpirun.LOCKSTEP))
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "bin"))
            shutil.copy(mpirun.LOCKSTEP, os.path.join(folder, "bin"))
            there = os.path.normpath(
                os.path.join(folder, "bin", from_program))
            os.makedirs(there)
            why = (f"{started} started these ranks, but "
                   f"{module(mpirun.MPI)} was not found")
            self.fails_with(folder, why, "modules found there: none")
            built = os.path.join(mpirun.MODULES, module(other))
            if os.path.exists(built):
                shutil.copy(built, there)
                self.fails_with(folder, why, f"modules found there: {other}")
            damaged = os.path.join(there, module(mpirun.MPI))
            with open(damaged, "w", encoding="ascii") as file:
                file.write("no library")
            self.fails_with(folder, f"{started} started these ranks",
                            "cannot be loaded")

    def test_no_launcher_is_named(self):
        env = {**os.environ, "LOCKSTEP_TRANSPORT": "mpi"}
        done = subprocess.run(
            [mpirun.LOCKSTEP, "demo", "hello", "-n", "2"], env=env,
            capture_output=True, text=True, timeout=60)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("these ranks were not started by an MPI launcher", done.stderr)


if __name__ == "__main__":
    mpirun.skip_unless_there()
    unittest.main()
