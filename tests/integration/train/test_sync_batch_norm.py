"""lockstep bench sync-batch-norm."""

import json
import unittest

from program import ProgramTest

FLAGS = ("--features", "17,128", "--batch", "4,32", "--iterations", "20",
         "--warmup", "2", "--threads", "1")


class Bench(ProgramTest):
    def rows(self, *words):
        done = self.call("bench", "sync-batch-norm", *FLAGS, "--json", "-",
                         *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["rows"]

    def test_rows(self):
        rows = self.rows("-n", "1,3")
        self.assertEqual(
            [(r["ranks"], r["implementation"], r["features"], r["batch"])
             for r in rows],
            [(n, kind, features, batch) for n in (1, 3)
             for kind in ("fused", "gathered")
             for features in (17, 128) for batch in (4, 32)])
        for row in rows:
            time = row["time_us"]
            self.assertEqual(list(time), ["min", "median", "mean", "p99",
                                          "max"])
            self.assertGreater(time["min"], 0)
            self.assertLessEqual(time["min"], time["median"])
            self.assertLessEqual(time["median"], time["p99"])
            self.assertLessEqual(time["p99"], time["max"])
            self.assertGreater(row["peak_bytes"],
                               4 * row["features"] * row["batch"])

    def test_choice(self):
        self.assertEqual({row["implementation"] for row in
                          self.rows("--implementation", "gathered")},
                         {"gathered"})

    def test_usage(self):
        self.fails(2, "--features", "bench", "sync-batch-norm", "--features",
                   "0")
        self.fails(2, "--batch", "bench", "sync-batch-norm", "--batch", "a")
        self.fails(2, "both|fused|gathered", "bench", "sync-batch-norm",
                   "--implementation", "mine")


if __name__ == "__main__":
    unittest.main()
