"""Weights divided over nodes: fsdp ends with the bits of flat, on any hosts, across a
checkpoint, and names a rank that dies."""

import os
import subprocess
import tempfile
import time
import unittest

import hosts

LOCKSTEP = os.environ["LOCKSTEP"]
PROGRAM = os.path.join(hosts.tree(LOCKSTEP), "tests", "hosts", "test_hosts_fsdp")
LM = ("train", "lm", "--deterministic", "--size", "tiny", "--batch-size", "2")
FSDP = ("--strategy", "fsdp", "--bucket-mb", "0.5")


class Fsdp(unittest.TestCase):
    def start(self, some, ranks, *words):
        return subprocess.Popen(
            some.mpirun("ucx", ranks, *words), text=True,
            env=some.environment(OMP_NUM_THREADS=1, LOCKSTEP_TIMEOUT=20),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def run_on(self, ranks, folder, *words):
        with hosts.Hosts(len(ranks), keep=[folder]) as some:
            job = self.start(some, ranks, *words)
            said, _ = job.communicate(timeout=100)
        self.assertEqual(job.returncode, 0, said)
        return said

    def weights(self, ranks, folder, *words):
        path = os.path.join(folder, "weights.safetensors")
        self.run_on(ranks, folder, LOCKSTEP, *LM, "--save", path, *words)
        with open(path, "rb") as file:
            return file.read()

    def test_a_program(self):
        for ranks in ((2, 2), (1, 1, 1), (1, 2)):
            with self.subTest(ranks=ranks), \
                    tempfile.TemporaryDirectory(prefix="lockstep-") as folder:
                said = self.run_on(ranks, folder, PROGRAM,
                                   os.path.join(folder, "weights"))
                self.assertEqual(said.count("equal"), sum(ranks), said)

    def test_weights_are_those_of_flat(self):
        cases = (((2, 2), ()), ((1, 1, 1), ("--dtype", "bf16")),
                 ((1, 2), ("--activation-checkpointing", "--accumulate", "2",
                           "--ema", "0.9", "--clip-norm", "0.5")))
        for ranks, words in cases:
            with self.subTest(ranks=ranks, words=words), \
                    tempfile.TemporaryDirectory(prefix="lockstep-") as folder:
                words = (*words, "--steps", "4")
                self.assertEqual(
                    self.weights(ranks, folder, *FSDP, *words),
                    self.weights((sum(ranks),), folder, *words))

    def test_checkpoints_fit_other_strategies(self):
        for first, then in ((FSDP, ()), ((), FSDP)):
            with self.subTest(first=first), \
                    tempfile.TemporaryDirectory(prefix="lockstep-") as folder:
                runs = os.path.join(folder, "run")
                same = ("--schedule", "constant", "--steps")
                keep = ("--checkpoint-dir", runs, "--save-every", "2")
                self.weights((1, 1), folder, *first, *keep, *same, "2")
                self.assertEqual(self.weights((1, 1), folder, *then, *keep,
                                              "--resume", *same, "4"),
                                 self.weights((2,), folder, *same, "4"))

    def test_auto_measures_it(self):
        with tempfile.TemporaryDirectory(prefix="lockstep-") as folder:
            said = self.run_on((1, 1), folder, LOCKSTEP, *LM, "--steps", "2",
                               "--no-save", "--strategy", "auto")
        self.assertRegex(said, "strategy: .*auto; 5 measured: .*fsdp")

    def test_a_rank_that_dies_is_named(self):
        with hosts.Hosts(2) as two:
            job = self.start(two, (1, 1), LOCKSTEP, *LM, *FSDP, "--steps", "5000")
            time.sleep(4)
            two.kill("h1")
            said, _ = job.communicate(timeout=60)
        self.assertNotEqual(job.returncode, 0)
        self.assertRegex(said, "rank 1 .*died", said)


if __name__ == "__main__":
    hosts.skip_if(hosts.missing() or hosts.missing_module("ucx"))
    unittest.main()
