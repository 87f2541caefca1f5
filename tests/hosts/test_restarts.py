#!/usr/bin/env python3
"""lockstep run --max-restarts on two hosts whose ranks use UCX. Training goes
on from its last checkpoint and ends with the same bits. It does so when a rank is
killed, when a host is cut off and comes back, and when the launcher that serves the
endpoint is killed and started again."""

import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import hosts

sys.path.insert(0, os.path.join(os.path.dirname(hosts.HERE), "integration",
                                "cli"))
from program import MoreTime  # noqa: E402

LOCKSTEP = os.environ["LOCKSTEP"]
TRAIN = (LOCKSTEP, "train", "lm", "--layers", "1", "--d-model", "32", "--heads", "2",
         "--batch-size", "2", "--context", "16", "--threads", "1",
         "--validate-batches", "2", "--deterministic", "--save-every", "10")


def is_launcher(pid):
    """Or its supervisor."""
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read().split(b"\0")[1:2] == [b"run"]


class Restarts(MoreTime, unittest.TestCase):
    def launch(self, two, name, folder, nodes):
        with open(os.path.join(folder, f"said-{name}"), "ab") as out:
            return subprocess.Popen(
                two.words(name, LOCKSTEP, "run", "--nnodes", nodes,
                          "--node-rank", name[1:], "--rdzv-endpoint",
                          "h0:29400", "-n", "1", "--max-restarts", "3",
                          "--monitor-interval", "0.04", "--grace", "0.5",
                          "--", *TRAIN, "--steps", str(self.steps),
                          "--checkpoint-dir",
                          os.path.join(folder, "steps"), "--save",
                          os.path.join(folder, "weights.safetensors")),
                stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                env={**os.environ, "OMP_NUM_THREADS": "1",
                     "LOCKSTEP_SECRET": "what only these hosts know"})

    def train(self, two, folder, disturb=None, nodes="2"):
        """The hash of the weights, and what the launchers said."""
        weights = os.path.join(folder, "weights.safetensors")
        jobs = [self.launch(two, name, folder, nodes) for name in two.names]
        try:
            if disturb is not None:
                self.saved(os.path.join(folder, "steps"))
                disturb(jobs, folder, nodes)
            ends = [job.wait(100) for job in jobs]
        finally:
            for name, job in zip(two.names, jobs):
                two.kill(name)
                job.wait()
        texts = []
        for name in two.names:
            path = os.path.join(folder, f"said-{name}")
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
        """A busy machine can be too late to disturb a short run."""
        self.with_more_time(self.same_bits, (1, 3))

    def same_bits(self, factor):
        self.steps = 300 * factor
        with tempfile.TemporaryDirectory(prefix="lockstep-again-") as base, \
                hosts.Hosts(2, keep=[base]) as two:
            def folder(name):
                path = os.path.join(base, name)
                os.mkdir(path)
                return path

            def kill(*_):
                rank = max(two.processes("h1"))
                os.kill(rank, signal.SIGKILL)

            def cut(*_):
                two.cut("h1")
                time.sleep(4)  # longer than a host may be silent
                two.join("h1")

            def kill_launcher(jobs, into, nodes):
                for pid in [p for p in two.processes("h0") if is_launcher(p)]:
                    os.kill(pid, signal.SIGKILL)
                jobs[0].wait()
                jobs[0] = self.launch(two, "h0", into, nodes)
            plain, _ = self.train(two, folder("plain"))
            killed, said = self.train(two, folder("killed"), kill)
            self.assertIn("was killed by signal 9", said)
            self.assertIn("restart 1 of 3", said)
            self.assertEqual(killed, plain)
            cut_off, said = self.train(two, folder("cut"), cut)
            self.assertIn("is lost: it sent no message", said)
            self.assertEqual(cut_off, plain)
            for nodes in ("2", "1:2"):
                again, said = self.train(two, folder(f"again-{nodes}"),
                                         kill_launcher, nodes)
                self.assertIn("is lost: its launcher has ended", said)
                self.assertIn("restart 1 of 3: continuing the earlier job of "
                              "host h1", said)
                self.assertEqual(again, plain)


if __name__ == "__main__":
    hosts.skip_if(hosts.missing() or hosts.missing_module("ucx"))
    unittest.main()
