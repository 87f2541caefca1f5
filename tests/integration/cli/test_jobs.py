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
        rows = json.loads(self.succeeds("jobs", "--json", "-"))["rows"]
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
        self.fails(1, "2 jobs begin with", "stop", self.prefix)
        self.assertIn("asked", self.succeeds("stop", self.prefix + "a"))
        self.assertEqual(self.ended(a)[0], 143)
        self.assertIsNone(ab.poll())
        self.succeeds("stop", str(ab.pid))
        self.assertEqual(self.ended(ab)[0], 143)
        self.assertEqual(self.rows(), {})

    def test_kill(self):
        a = self.running("a", 2, "trap '' TERM; echo $$; sleep 300")
        self.succeeds("stop", "--kill", self.prefix)
        self.assertEqual(self.ended(a)[0], -9)
        self.assertTrue(wait_until(lambda: not self.rows()))

    def test_mistakes(self):
        self.fails(1, "no job of yours is called nonesuch", "stop", "nonesuch")
        for words in ((), ("",), ("a", "b")):
            self.fails(2, "which job?", "stop", *words)


if __name__ == "__main__":
    unittest.main()
