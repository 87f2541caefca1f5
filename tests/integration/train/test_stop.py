"""Training that is asked to end: it saves, and goes on with the same bits."""

import os
import random
import re
import shutil
import signal
import unittest

from program import children, is_running, wait_until
from test_resume import kill_all, read, steps
import test_resume

# How often each run is disturbed; what is drawn follows from the seed.
STOPS = int(os.environ.get("LOCKSTEP_TEST_STOPS", "2"))
SEED = int(os.environ.get("LOCKSTEP_TEST_SEED", "1"))

SAVED = re.compile(r"saved step (\d+); continue with --resume")


def descendants(pid):
    """Also of those that are no child of a child any more."""
    found = [pid]
    for each in found:
        found += children(each)
    return found


def ranks_of(pid):
    """The processes that train: those without children."""
    return [each for each in descendants(pid) if not children(each)]


# To whom a signal may go: everybody, as systemd and Slurm do, or one alone.
TARGETS = {
    "launcher": lambda pid: [pid],
    "all": descendants,
    "a rank": lambda pid: ranks_of(pid)[-1:],
    "rank by rank": ranks_of,
}


class StopTest(test_resume.ResumeTest):
    before = ()
    status = None  # that a launcher may have instead
    stops = STOPS

    def lines(self, name):
        """Steps, or epochs, of which there is a line."""
        try:
            return read(self.path(name + ".jsonl")).count(b"\n")
        except FileNotFoundError:
            return 0

    def begin(self, name, *words, ranks):
        """Starts it and waits until it has taken a step that is new."""
        known = self.lines(name)
        if os.path.exists(self.path(name + ".jsonl")):
            os.rename(self.path(name + ".jsonl"), self.path("kept"))
            shutil.copy(self.path("kept"), self.path(name + ".jsonl"))
        process = self.start(*self.words(name, *words, ranks=ranks),
                             before=self.before)
        self.assertTrue(wait_until(
            lambda: self.lines(name) > known or process.poll() is not None,
            90))
        return process

    def send(self, process, number, target):
        for pid in TARGETS[target](process.pid):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def stop(self, name, number, target, pause, *words, ranks):
        """Asks it to end at a random moment; whether it had ended before."""
        process = self.begin(name, *words, ranks=ranks)
        wait_until(lambda: False, pause)
        last = self.lines(name)
        if number == signal.SIGKILL:
            for pid in kill_all(process):
                self.assertTrue(
                    wait_until(lambda pid=pid: not is_running(pid)))
            return process.returncode == 0
        self.send(process, number, target)
        status, _, said = self.ended(process)
        if os.path.exists(self.path(name)):  # all has been trained
            return True
        self.assertIn(status, (128 + number, self.status), said)
        found = SAVED.findall(said)
        self.assertEqual(len(found), 1, said)
        self.assertEqual(int(found[0]), max(steps(self.checkpoints, True)))
        self.last(int(found[0]), last)
        return False

    def last(self, saved, lines):
        """No step is lost of which there was a line."""
        self.assertGreaterEqual(saved, lines)

    def disturb(self, pick, ranks, *words):
        words = (*words, "--checkpoint-dir", self.checkpoints, "--resume",
                 "--save-every", "40")
        for _ in range(self.stops):
            number = pick.choice((signal.SIGINT, signal.SIGTERM, signal.SIGINT,
                                  signal.SIGTERM, signal.SIGKILL))
            target = pick.choice(sorted(TARGETS))
            with self.subTest(ranks=ranks, number=number, target=target):
                if self.stop("other", number, target, pick.uniform(0, 0.05),
                             *words, ranks=ranks):
                    break
        self.train("other", *words, ranks=ranks)
        self.same("whole", "other")
        shutil.rmtree(self.checkpoints)
        os.unlink(self.path("other"))
        os.unlink(self.path("other.jsonl"))


LM = ("lm", "--validate-every", "0", "--context", "16", "--layers", "1",
      "--d-model", "32", "--heads", "2", "--d-ff", "64", "--schedule",
      "cosine", "--warmup-steps", "3", "--batch-size", "2")


class LanguageModel(StopTest):
    command = (*LM, "--steps", "200", "--ema", "0.9")

    def test_stops(self):
        pick = random.Random(SEED)
        for ranks, ways in ((1, ()), (2, ("--strategy", "zero1")),
                            (3, ("--accumulate", "2"))):
            self.train("whole", *ways, ranks=ranks)
            self.disturb(pick, ranks, *ways)

    def test_without_checkpoints(self):
        """The model is that of the last step."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            process = self.begin("none", "--steps", "1000000", ranks=2)
            os.kill(process.pid, number)
            status, _, said = self.ended(process)
            self.assertEqual(status, 128 + number, said)
            name = signal.Signals(number).name
            self.assertRegex(said, f"ended by {name} after step [0-9]+; "
                             f"saved '{self.path('none')}' ")
            os.unlink(self.path("none"))
            os.unlink(self.path("none.jsonl"))

    def test_second_ends_at_once(self):
        """By somebody impatient, and however long a step takes."""
        words = ("--steps", "1000000", "--accumulate", "100000",
                 "--checkpoint-dir", self.checkpoints, "--save-every", "100")
        process = self.start(*self.words("slow", *words, ranks=1))
        self.assertTrue(wait_until(
            lambda: b"built-in" in self.said(process) or
            b"to train" in self.said(process)))
        # In its first step, which takes minutes.
        self.assertTrue(wait_until(lambda: self.catches(process.pid)))
        os.kill(process.pid, signal.SIGINT)
        self.assertIsNone(process.poll())
        os.kill(process.pid, signal.SIGTERM)
        self.assertEqual(process.wait(60), -signal.SIGTERM)
        self.assertEqual(steps(self.checkpoints, False), [])

    def said(self, process):
        process.errors.flush()
        return os.pread(process.errors.fileno(), 10000, 0)

    def catches(self, pid):
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            caught = int(re.search(r"SigCgt:\s*(\w+)", file.read())[1], 16)
        return caught >> (signal.SIGINT - 1) & 1

    def test_ignored(self):
        """Signals that were ignored at the start, as under nohup, stay ignored."""
        process = self.start(*self.words("out", "--steps", "200", ranks=1),
                             before=("sh", "-c", "trap '' HUP; exec \"$0\" "
                                     "\"$@\""))
        self.assertTrue(wait_until(lambda: self.lines("out") > 0))
        os.kill(process.pid, signal.SIGHUP)
        self.assertEqual(self.ended(process)[0], 0)


class Images(StopTest):
    command = ("cifar100", "--limit", "60", "--epochs", "3", "--no-dropout",
               "--batch-size", "4")

    def last(self, saved, lines):
        """A line is an epoch: 15 images of a rank are 8 or 4 steps."""
        self.assertGreaterEqual(saved, lines * 5)

    def test_stops(self):
        pick = random.Random(SEED + 1)
        for ranks in (1, 3):
            self.train("whole", ranks=ranks)
            self.disturb(pick, ranks)


MPIRUN = ("mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--mca",
          "odls_base_sigkill_timeout", "30", "-n", "2")


@unittest.skipIf(shutil.which("mpirun.openmpi") is None, "no Open MPI")
class UnderMpi(StopTest):
    """Its launcher sends SIGTERM, whatever it gets, and later kills."""
    command = (*LM, "--steps", "40")
    stops = max(1, STOPS // 2)
    status = 1  # mpirun's own

    def begin(self, name, *words, ranks):
        self.before = MPIRUN
        try:
            return super().begin(name, *words, ranks=ranks)
        finally:
            self.before = ()

    def test_stops(self):
        self.train("whole")
        self.disturb(random.Random(SEED + 2), 2)


if __name__ == "__main__":
    unittest.main()
