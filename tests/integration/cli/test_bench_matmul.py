"""lockstep bench matmul: its rows, and flags that make no sense."""
import json
import os
import tempfile
import unittest

from program import ProgramTest

PASSES = ["forward", "input gradient", "weight gradient"]


class Rows(ProgramTest):
    def rows(self, *words):
        """The JSON rows of a bench that ends well."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "rows.json")
            done = self.call("bench", "matmul", *words, "--warmup", "1", "--iterations",
                             "2", "--threads", "1", "--json=" + path)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(path, encoding="utf-8") as file:
                return json.load(file)["rows"]

    def test_every_pass_has_a_row_of_each_kind(self):
        rows = self.rows("--rows", "5,300", "--in-features", "40",
                         "--out-features", "33,7")
        cases = [(r["rows"], r["out"], r["pass"], r["bits"]) for r in rows]
        self.assertEqual(cases, [(n, out, name, bits) for n in (5, 300) for out in (33, 7)
                                 for name in PASSES for bits in ("fast", "portable")])
        for row in rows:
            self.assertAlmostEqual(row["gflops"] * row["time_ms"]["min"],
                                   2e-6 * row["rows"] * row["in"] * row["out"])

    def test_one_kind(self):
        rows = self.rows("--rows", "64", "--in-features", "64",
                         "--out-features", "64", "--bits", "portable")
        self.assertEqual([r["bits"] for r in rows], 3 * ["portable"])

    def test_words(self):
        for part, *words in (("--bits: 'exact' names no bits", "--bits", "exact"),
                             ("more than 2 names", "--bits", "fast,portable,fast"),
                             ("--out-features", "--out-features", "0")):
            self.fails(2, part, "bench", "matmul", *words)


if __name__ == "__main__":
    unittest.main()
