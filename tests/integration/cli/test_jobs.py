"""lockstep jobs and stop."""

import json
import os
import unittest

from program import ProgramTest, environment, wait_until
from test_run import shell
from test_topo import numbers


class Jobs(ProgramTest):
    def rows(self):
        """Those of jobs that this test has started."""
        rows = json.loads(self.succeeds("jobs", "--json"))["rows"]
        return {row["run"]: row for row in rows
                if row["run"].startswith(self.prefix)}

    def setUp(self):
        self.prefix = f"jobs-{os.getpid()}-{self._testMethodName}-"

    def running(self, name, n, script="echo $$; sleep 300 & wait"):
        process = self.start("run", "-n", str(n), "--rdzv-id",
                             self.prefix + name, *shell(script))
        for _ in range(n):
            process.stdout.readline()
        return process

    def test_list(self):
        self.assertEqual(self.rows(), {})
        a, b = self.running("a", 3), self.running("b", 1)
        rows = self.rows()
        self.assertEqual(
            {name: (row["launcher"], row["ranks"], row["started"],
                    row["restart"]) for name, row in rows.items()},
            {self.prefix + "a": (a.pid, 3, 3, 0),
             self.prefix + "b": (b.pid, 1, 1, 0)})
        self.assertEqual({cpu for row in rows.values()
                          for cpu in numbers(row["cpus"])},
                         os.sched_getaffinity(0))
        self.assertIn("sleep 300", rows[self.prefix + "a"]["command"])
        self.assertIn(self.prefix + "b", self.succeeds("jobs"))

    def test_jobs_of_commands_with_ranks(self):
        env = environment(LOCKSTEP_TIMEOUT=60)
        process = self.start("run", "--rdzv-id", self.prefix + "outer",
                             *shell("$LOCKSTEP run -n 2 --rdzv-id "
                                    + self.prefix + "inner sleep 300"),
                             env=env)
        inner = self.prefix + "inner"
        self.assertTrue(wait_until(
            lambda: self.rows().get(inner, {}).get("ranks") == 2))
        self.assertEqual(self.rows()[self.prefix + "outer"]["ranks"], 1)
        self.assertIsNone(process.poll())

    def test_stop(self):
        a, ab = self.running("a", 2), self.running("ab", 2)
        done = self.fails(1, f"begin with '{self.prefix}'", "stop", self.prefix)
        for name, job in ("a", a), ("ab", ab):
            self.assertIn(f"{self.prefix}{name} (launcher {job.pid})",
                          done.stderr)
        self.assertIn("asked", self.succeeds("stop", self.prefix + "a"))
        self.assertEqual(self.ended(a)[0], 143)
        self.assertIsNone(ab.poll())
        self.succeeds("stop", str(ab.pid))
        self.assertEqual(self.ended(ab)[0], 143)
        self.assertEqual(self.rows(), {})

    def test_stop_by_a_rank(self):
        script = "echo $$; sleep 300 & echo $!; wait"
        a, b = (self.running(name, 1, script) for name in "ab")
        child = a.stdout.readline().strip()
        self.fails(1, f"the PID '{child}'", "stop", child)
        ranks = {row["run"]: json.loads(self.succeeds(
            "topo", "--json", row["run"]))["ranks"][0]["pid"]
                 for row in self.rows().values()}
        self.succeeds("stop", str(ranks[self.prefix + "a"]))
        self.assertEqual(self.ended(a)[0], 143)
        self.assertIsNone(b.poll())

    def test_digits_of_two_jobs(self):
        """The id of one is the PID of the other's launcher."""
        a = self.running("a", 1)
        b = self.start("run", "--rdzv-id", str(a.pid),
                       *shell("echo $$; sleep 300 & wait"))
        rank = b.stdout.readline().strip()
        done = self.fails(1, f"'{a.pid}' is the id of one job and a PID of "
                          "another", "stop", str(a.pid))
        for job in (f"{self.prefix}a (launcher {a.pid})",
                    f"{a.pid} (launcher {b.pid})"):
            self.assertIn(job, done.stderr)
        self.assertIsNone(a.poll())
        self.succeeds("stop", rank)
        self.assertEqual(self.ended(b)[0], 143)
        self.assertIsNone(a.poll())
        self.succeeds("stop", str(a.pid))
        self.assertEqual(self.ended(a)[0], 143)

    def test_no_job_ends_by_a_slip(self):
        """Beginnings that are short, or digits: of a PID, of an id."""
        a = self.running("a", 1)
        b = self.start("run", "--rdzv-id", f"7777777{os.getpid()}",
                       *shell("echo $$; sleep 300 & wait"))
        b.stdout.readline()
        for name in "j", "job", "1":
            done = self.call("stop", name)
            self.assertEqual(done.returncode, 1, name)
            self.assertIn("Running: ", done.stderr)
        self.fails(1, "Give a complete id, or the PID", "stop", "7777777")
        self.assertEqual((a.poll(), b.poll()), (None, None))
        self.succeeds("stop", f"7777777{os.getpid()}")
        self.assertEqual(self.ended(b)[0], 143)

    def test_kill(self):
        a = self.running("a", 2, "trap '' TERM; echo $$; sleep 300")
        self.succeeds("stop", "--kill", self.prefix)
        self.assertEqual(self.ended(a)[0], -9)
        self.assertTrue(wait_until(lambda: not self.rows()))

    def test_mistakes(self):
        self.fails(1, "no running job of this user has an id that equals "
                      "'nonesuch' or begins with it. Running: ",
                   "stop", "nonesuch")
        for words in ((), ("",), ("a", "b")):
            self.fails(2, "name one job", "stop", *words)


if __name__ == "__main__":
    unittest.main()
