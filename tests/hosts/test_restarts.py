#!/usr/bin/env python3
"""lockstep run --max-restarts on two hosts whose ranks speak UCX: training goes
on from its last checkpoint when a rank is killed and when a host is cut off and
comes back, and ends with the same bits."""

import hashlib
import os
import signal
import subprocess
import tempfile
import time
import unittest

import hosts

LOCKSTEP = os.environ["LOCKSTEP"]
BIN = os.path.dirname(LOCKSTEP)
TRAIN = (LOCKSTEP, "train", "lm", "--layers", "1", "--d-model", "32", "--heads", "2",
         "--batch-size", "2", "--context", "16", "--threads", "1", "--steps", "300",
         "--validate-batches", "2", "--deterministic", "--save-every", "10")


class Restarts(unittest.TestCase):
    def train(self, two, folder, disturb=None):
        """The hash of the weights, and what the launchers said."""
        weights = os.path.join(folder, "weights.safetensors")
        jobs, said = [], []
        for name in two.names:
            said.append(os.path.join(folder, f"said-{name}"))
            with open(said[-1], "wb") as out:
                jobs.append(subprocess.Popen(
                    two.words(name, LOCKSTEP, "run", "--nnodes", "2",
                              "--node-rank", name[1:], "--rdzv-endpoint",
                              "h0:29400", "-n", "1", "--max-restarts", "3",
                              "--monitor-interval", "0.04", "--grace", "0.5",
                              "--", *TRAIN, "--checkpoint-dir",
                              os.path.join(folder, "steps"), "--save",
                              weights),
                    stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                    env={**os.environ, "OMP_NUM_THREADS": "1",
                         "LOCKSTEP_SECRET": "what only these hosts know"}))
        try:
            if disturb is not None:
                disturb(os.path.join(folder, "steps"))
            ends = [job.wait(80) for job in jobs]
        finally:
            for name, job in zip(two.names, jobs):
                two.kill(name)
                job.wait()
        texts = []
        for path in said:
            with open(path, encoding="utf-8") as file:
                texts.append(file.read())
        self.assertEqual(ends, [0, 0], texts)
        with open(weights, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest(), "".join(texts)

    @staticmethod
    def saved(steps):
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                if any(name[5:].isdigit() for name in os.listdir(steps)):
                    return
            except FileNotFoundError:
                pass
            time.sleep(0.02)

    def test_the_same_bits(self):
        with tempfile.TemporaryDirectory(prefix="lockstep-again-") as base, \
                hosts.Hosts(2, keep=[base, BIN]) as two:
            def folder(name):
                path = os.path.join(base, name)
                os.mkdir(path)
                return path

            def kill(steps):
                self.saved(steps)
                rank = max(two.processes("h1"))
                os.kill(rank, signal.SIGKILL)

            def cut(steps):
                self.saved(steps)
                two.cut("h1")
                time.sleep(4)  # longer than a host may be silent
                two.join("h1")
            plain, _ = self.train(two, folder("plain"))
            killed, said = self.train(two, folder("killed"), kill)
            self.assertIn("was killed by signal 9", said)
            self.assertIn("restart 1 of 3", said)
            self.assertEqual(killed, plain)
            cut_off, said = self.train(two, folder("cut"), cut)
            self.assertIn("is lost: nothing came from it", said)
            self.assertEqual(cut_off, plain)


if __name__ == "__main__":
    hosts.skip_if(hosts.missing() or hosts.missing_module("ucx"))
    unittest.main()
