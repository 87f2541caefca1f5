"""lockstep bench attention and bench flash: their rows, what does not fit,
and flags that make no sense."""
import json
import os
import tempfile
import unittest

from program import ProgramTest


class Rows(ProgramTest):
    def rows(self, *words):
        """The JSON rows of a bench that ends well."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "rows.json")
            done = self.call("bench", *words, "--warmup", "1", "--iterations",
                             "2", "--threads", "1", "--json=" + path)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(path, encoding="utf-8") as file:
                return json.load(file)["rows"]

    def test_every_case_is_a_row(self):
        rows = self.rows("flash", "--length", "32,50", "--head-size", "16,20",
                         "--causal", "both")
        cases = {(r["impl"], r["dtype"], r["length"], r["d"], r["causal"])
                 for r in rows}
        self.assertEqual(len(rows), 2 * 2 * 2 * 2 * 2)
        self.assertEqual(len(cases), len(rows))
        for row in rows:
            self.assertEqual(row["status"], "ok")
            self.assertEqual(row["batch"], 1)
            self.assertEqual(row["iterations"], 2)
            saved = row["length"] * 4
            saved *= 1 + (row["length"] if row["impl"] == "naive" else 2)
            self.assertEqual(row["saved_bytes"], saved)
            self.assertGreaterEqual(row["peak_bytes"], saved)
            self.assertGreater(row["live_bytes"], saved)
            for column in ("forward_ms", "backward_ms"):
                self.assertGreater(row[column]["median"], 0)
                self.assertIn("std", row[column])
            total = row["forward_ms"]["median"] + row["backward_ms"]["median"]
            self.assertAlmostEqual(row["total_ms"], total)
            flops = 4 * row["length"] ** 2 * row["d"]
            if row["causal"]:
                flops /= 2
            self.assertAlmostEqual(
                row["gflops_forward"] * row["forward_ms"]["median"],
                flops * 1e-6)

    def test_memory_is_that_of_the_case(self):
        """Whatever went before, and however large that was."""
        words = ["flash", "--head-size", "16", "--length"]
        alone = self.rows(*words, "32")
        after = [row for row in self.rows(*words, "1k,32")
                 if row["length"] == 32]
        self.assertEqual([(r["impl"], r["dtype"]) for r in alone],
                         [(r["impl"], r["dtype"]) for r in after])
        for row, other in zip(alone, after):
            for column in "live_bytes", "peak_bytes":
                self.assertEqual(row[column], other[column], row)
            # Eight arrays, what is saved, and the workspace of oneDNN.
            arrays = 8 * 32 * 16 * (4 if row["dtype"] == "f32" else 2)
            self.assertGreaterEqual(row["live_bytes"],
                                    arrays + row["saved_bytes"])
            self.assertLess(row["live_bytes"], arrays + 1e6)

    def test_batches_of_eight(self):
        rows = self.rows("attention", "--length", "64", "--head-size", "32")
        self.assertEqual([(r["impl"], r["batch"], r["causal"]) for r in rows],
                         [("flash", 8, False), ("naive", 8, False)])

    def test_what_does_not_fit_says_so(self):
        rows = self.rows("flash", "--length", "2k", "--head-size", "16", "--dtype",
                         "f32", "--budget", "8m")
        flash, naive = rows
        self.assertEqual(flash["status"], "ok")
        self.assertEqual(naive["status"], "out of memory")
        self.assertEqual(naive["saved_bytes"], (2048 + 1) * 2048 * 4)
        self.assertIsNone(naive["forward_ms"]["median"])
        self.assertEqual(naive["peak_bytes"],
                         ((2048 + 1) * 2048 + 2048 * (2048 + 2 * 16)) * 4)

    def test_nothing_is_begun_that_will_not_fit(self):
        # Scores for forward would fit, but not those of backward.
        naive, = self.rows("flash", "--length", "2k", "--head-size", "16", "--dtype",
                           "f32", "--budget", "24m", "--impl", "naive")
        self.assertEqual(naive["status"], "out of memory")

    def test_default_budget_is_the_machine(self):
        length = 2**21
        for row in self.rows("flash", "--length", str(length), "--head-size", "16",
                             "--batch-size", "8", "--impl", "naive"):
            self.assertEqual(row["status"], "out of memory")
            self.assertEqual(row["saved_bytes"], 8 * length * (length + 1) * 4)
            self.assertGreater(row["peak_bytes"], row["saved_bytes"])


class Refusals(ProgramTest):
    def refuse(self, part, *words):
        self.fails(2, part, "bench", "flash", *words)

    def test_words(self):
        self.refuse("choose one of: flash, naive", "--impl", "flashy")
        self.refuse("give f32 or bf16", "--dtype", "f64")
        self.refuse("--length", "--length", "0")
        self.refuse("--quick measures lengths up to 2048", "--quick", "--length", "4k")


if __name__ == "__main__":
    unittest.main()
