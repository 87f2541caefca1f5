"""Training without memory: one request of many fails, or a limit is reached.
Whichever it is, the program ends with a sentence about it, and no rank reports a
different reason.

`test_out_of_memory.py whole` fails every request, not one in N."""

import os
import resource
import subprocess
import sys
import tempfile
import unittest

from program import LOCKSTEP, environment

PRELOAD = os.environ["FAILING_MALLOC"]
WHOLE = sys.argv[1:2] == ["whole"]

LM = ("train", "lm", "--layers", "1", "--d-model", "32", "--heads", "2",
      "--d-ff", "64", "--context", "16", "--steps", "1", "--batch-size", "2",
      "--validate-every", "0")
CIFAR = ("train", "cifar100", "--limit", "16", "--batch-size", "8", "--epochs",
         "1", "--optimizer", "adamw")


class OutOfMemory(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.count = os.path.join(folder.name, "count")

    def call(self, words, limit=None, **env):
        def take_limit():
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
        return subprocess.run(
            [LOCKSTEP, *words], env=environment(**env), timeout=100,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, universal_newlines=True, check=False,
            preexec_fn=take_limit if limit is not None else None)

    def requests(self, words, **env):
        """How many a run makes if all are granted."""
        done = self.call(words, LD_PRELOAD=PRELOAD, FAILING_COUNT=self.count,
                         **env)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.count, encoding="ascii") as file:
            return int(file.read())

    def check(self, done, where):
        """It went well after all, or the last thing said is why it did not."""
        if done.returncode == 0:
            return
        about = f"{where}: {done.returncode}: {done.stderr}"
        self.assertIn(done.returncode, (1, 2), about)
        said = [line for line in done.stderr.splitlines()
                if line.startswith("lockstep: ")]
        self.assertEqual(len(said), 1, about)
        self.assertRegex(said[0], "no memory|not enough memory|out of memory|"
                         "cannot start|cannot allocate|cannot map|the system cannot provide", about)

    def walk(self, words, who, runs, **env):
        env["FAILING_WHO"] = who
        n = self.requests(words, **env)
        self.assertGreater(n, 100)
        step = 1 if WHOLE else n // runs + 1
        failed = 0
        for at in range(1, n + 1, step):
            done = self.call(words, LD_PRELOAD=PRELOAD, FAILING_AT=at, **env)
            with self.subTest(who=who, at=at):
                self.check(done, f"{who}, {at} of {n}")
            failed += done.returncode != 0
        # A few are for what is as well left out.
        self.assertGreater(2 * failed, len(range(1, n + 1, step)))

    def test_own_requests_of_lm(self):
        self.walk((*LM, "--threads", "1"), "own", 10)

    def test_requests_of_onednn(self):
        self.walk((*LM, "--threads", "2"), "onednn", 10)

    def test_own_requests_of_cifar100(self):
        self.walk((*CIFAR, "--threads", "1"), "own", 8)

    def test_one_of_two_ranks(self):
        """The sentence is about memory: no ranks that disagree."""
        self.walk((*LM, "-n", "2", "--threads", "1"), "own", 24,
                  FAILING_RANK=1)

    def test_limits(self):
        """Where the system grants no more, oneDNN does not try."""
        words = (*LM, "--threads", "2")
        low, high = 1 << 20, 1 << 30
        self.assertEqual(self.call(words, high).returncode, 0)
        while high - low > 1 << 20:
            middle = (low + high) // 2
            if self.call(words, middle).returncode == 0:
                high = middle
            else:
                low = middle
        runs = 200 if WHOLE else 12
        # Below a third of what is enough the program does not begin.
        for i in range(1, runs + 1):
            limit = high - i * (high * 2 // 3) // runs
            done = self.call(words, limit)
            with self.subTest(limit=limit):
                self.check(done, f"a limit of {limit}, {high} are enough")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
