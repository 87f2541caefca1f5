"""Training that is killed and started again by `lockstep run --max-restarts`."""

import hashlib
import os
import signal
import tempfile
import unittest

from program import LOCKSTEP, ProgramTest, children, wait_until

STEPS = 40
LM = ("train", "lm", "--size", "tiny", "--batch-size", "2", "--context", "32",
      "--threads", "1", "--steps", str(STEPS), "--validate-batches", "2")


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def ranks_of(process, n):
    """The pids of n ranks, or fewer while they start or end."""
    supervisor = children(process.pid)
    return children(supervisor[0])[:n] if supervisor else []


class Restarts(ProgramTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def steps_saved(self, name):
        try:
            return [int(n.split("-")[1]) for n in os.listdir(self.path(name))
                    if n.startswith("step-") and n[5:].isdigit()]
        except FileNotFoundError:
            return []

    def train(self, *flags, name, restarts=3, before=()):
        return (*before, "run", "-n", "2", "--max-restarts", str(restarts), "--",
                LOCKSTEP, *LM, "--checkpoint-dir", self.path(name),
                "--save-every", "5", "--save", self.path(name + ".st"), *flags)

    def trains(self, *flags, **more):
        done = self.call(*self.train(*flags, **more))
        self.assertEqual(done.returncode, 0, done.stderr)

    def killed_until_done(self, name, kills, *flags):
        process = self.start(*self.train(*flags, name=name))
        for i in range(kills):
            mark = 5 * (2 * i + 1)
            wait_until(lambda: max(self.steps_saved(name), default=0) >= mark
                       or process.poll() is not None, 100)
            pids = ranks_of(process, 2)
            self.assertEqual(len(pids), 2, "the job ended before the kill")
            os.kill(pids[i % 2], signal.SIGKILL)
            wait_until(lambda: not set(pids) & set(ranks_of(process, 2)))
        return self.ended(process)

    def test_bits_are_those_of_an_undisturbed_run(self):
        self.with_more_time(lambda factor: self.same_bits(STEPS * factor))

    def same_bits(self, steps):
        flags = ("--steps", str(steps))
        status, _, errors = self.killed_until_done("a", 2, *flags)
        self.assertEqual(status, 0, errors)
        self.assertEqual(errors.count("all ranks start again"), 2, errors)
        self.assertIn("resumed after step", errors)
        self.assertEqual(errors.count("was killed by signal 9"), 2, errors)
        self.trains(*flags, name="b", restarts=0)
        self.assertEqual(digest(self.path("a.st")), digest(self.path("b.st")))

    def test_another_runs_checkpoints_are_left_alone(self):
        """Arguments that it refuses at first it refuses after a restart, too."""
        self.trains("--steps", "5", name="a")
        done = self.call(*self.train("--steps", "5", name="a", restarts=1))
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr.count("already has a checkpoint of step 5"),
                         2, done.stderr)


if __name__ == "__main__":
    unittest.main()
