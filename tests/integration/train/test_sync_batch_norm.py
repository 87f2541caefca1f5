"""lockstep bench sync-batch-norm."""

import json
import shutil
import tempfile
import unittest

from program import ProgramTest

FLAGS = ("--features", "17,128", "--batch-size", "4,32", "--iterations", "20",
         "--warmup", "2", "--threads", "1")


class Bench(ProgramTest):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="lockstep-norm-")
        self.addCleanup(shutil.rmtree, self.folder)

    def rows(self, *words):
        done = self.call("bench", "sync-batch-norm", *FLAGS, "--json",
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

    def test_memory_by_hand(self):
        """The bytes that a pass holds, for each implementation separately.

        Of rows (n, c): y and, at the peak, the gradients of y and x, n c floats
        each; the loss; mean and 1 / deviation, padded to 16 floats. For images
        (n, c, h, w): the gradient of x takes the place of that of y. The peak
        comes when the gradient of y is made from that of its first half. The
        statistics are mean, 1 / deviation, scale and bias. The layer has the
        variance, a slot of (16, mean, spread) for each rank and one more,
        and two sums.
        """
        for ranks, side, more in ((1, 0, ()), (2, 0, ()), (2, 3, ()),
                                  (2, 5, ()), (2, 0, ("--record-memory", self.folder))):
            rows = self.rows("-n", str(ranks), "--side", str(side), *more)
            self.assertEqual(len(rows), 8)
            layers = {}
            for row in rows:
                c, n = row["features"], row["batch"]
                padded = (c + 15) // 16 * 16
                y = 4 * n * c * max(side, 1) ** 2
                stats = 4 * 4 * c if side else 4 * 2 * padded
                half = 4 * (n // 2) * c * side ** 2
                label = f"{row} of {ranks} ranks"
                self.assertEqual(row["side"], side)
                self.assertEqual(row["saved_bytes"], y + stats + 4, label)
                self.assertEqual(row["peak_bytes"], y + stats + 4 +
                                 (y + half if side else 2 * y), label)
                slot = 16 + 2 * padded
                layers.setdefault(row["implementation"], set()).add(
                    row["layer_bytes"] - 4 * (3 * padded + (ranks + 1) * slot))
            # The rest are its descriptions, for any number of features.
            self.assertEqual(sorted(layers), ["fused", "gathered"])
            for left in layers.values():
                self.assertEqual(len(left), 1, layers)
                self.assertLess(max(left), 16384)

    def test_choice(self):
        self.assertEqual({row["implementation"] for row in
                          self.rows("--impl", "gathered")},
                         {"gathered"})

    def test_usage(self):
        self.fails(2, "--features", "bench", "sync-batch-norm", "--features",
                   "0")
        self.fails(2, "--side", "bench", "sync-batch-norm", "--side", "-1")
        self.fails(2, "--batch-size", "bench", "sync-batch-norm",
                   "--batch-size", "a")
        self.fails(2, "unknown --impl 'mine'; choose one of: fused, gathered", "bench",
                   "sync-batch-norm", "--impl", "mine")
        self.fails(2, "--impl lists more than 2", "bench", "sync-batch-norm",
                   "--impl", "fused,gathered,fused")


if __name__ == "__main__":
    unittest.main()
