"""lockstep bench lm: its rows, what does not fit, flags that make no sense."""
import json
import os
import signal
import tempfile
import unittest

from program import ProgramTest

COLUMNS = sorted(["size", "layers", "d_model", "heads", "d_ff", "vocab_size",
                  "context", "batch", "dtype", "passes", "ranks", "threads",
                  "warmup", "iterations", "forward_ms", "backward_ms",
                  "optimizer_ms", "step_ms", "peak_bytes", "status"])


class BenchLm(ProgramTest):
    def rows(self, *words):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "rows.json")
            done = self.call("bench", "lm", "--size", "tiny", "--iterations",
                             "2", "--batch-size", "1", "--threads", "1",
                             "--json=" + path, *words)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(path, encoding="utf-8") as file:
                return json.load(file)["rows"], done

    def test_every_case_is_a_row(self):
        rows, done = self.rows("--context", "8", "--warmup", "1,0")
        self.assertEqual([(r["context"], r["warmup"]) for r in rows],
                         [(8, 1), (8, 0)])
        for row in rows:
            self.assertEqual(sorted(row), COLUMNS)
            self.assertEqual(row["status"], "ok")
            self.assertEqual((row["dtype"], row["ranks"], row["threads"],
                              row["iterations"]), ("f32", 1, 1, 2))
            phases = ("forward_ms", "backward_ms", "optimizer_ms")
            for column in (*phases, "step_ms"):
                self.assertEqual(sorted(row[column]),
                                 ["mean", "median", "min", "std"])
                self.assertGreater(row[column]["mean"], 0)
            self.assertLessEqual(sum(row[c]["mean"] for c in phases),
                                 row["step_ms"]["mean"] * 1.001)
            # 9,316,608 parameters: weights, gradients, two moments.
            self.assertGreater(row["peak_bytes"], 16 * 9316608)
            self.assertLess(row["peak_bytes"], 17 * 9316608)
        self.assertEqual(done.stdout.count("| tiny "), 2)

    def test_shapes(self):
        shape = ("--layers", "1", "--d-model", "32", "--heads", "2", "--d-ff",
                 "48", "--vocab-size", "64")
        rows, done = self.rows("--context", "8", "--warmup", "0", "--size",
                               "tiny,small", *shape)
        for row in rows:
            self.assertEqual(
                (row["size"], row["layers"], row["d_model"], row["heads"],
                 row["d_ff"], row["vocab_size"], row["status"]),
                ("1x32", 1, 32, 2, 48, 64, "ok"))
            self.assertLess(row["peak_bytes"], 2e6)
        self.assertEqual(done.stdout.count("| 1x32 "), 2)
        rows, _ = self.rows("--context", "8", "--warmup", "0", "--layers", "4")
        self.assertEqual([row["size"] for row in rows], ["tiny"])
        rows, _ = self.rows("--context", "8", "--warmup", "0", "--vocab-size",
                            "512")
        self.assertEqual([row["vocab_size"] for row in rows], [512])
        self.assertNotEqual(rows[0]["size"], "tiny")

    def test_types_of_products(self):
        rows, done = self.rows("--context", "8", "--warmup", "0", "--dtype",
                               "f32,bf16")
        self.assertEqual([r["dtype"] for r in rows], ["f32", "bf16"])
        self.assertEqual(done.stderr.count("bf16: matrix products"), 1)
        # Products' weights in bf16: all but the embedding, 256 x 10,000.
        more = rows[1]["peak_bytes"] - rows[0]["peak_bytes"]
        self.assertGreater(more, 1.9 * (9316608 - 2560000))
        # A processor without such products widens one factor at a time; the
        # largest is the head, in f32.
        self.assertLess(more, 2 * 9316608 + 1.1 * 4 * 2560000)

    def test_peak_is_what_the_passes_have_to_keep(self):
        # docs/how-to/language-models.md
        context, batch = 128, 4
        d, ff, layers, vocabulary = 256, 1024, 4, 10000
        kept = layers * (8 * d + 3 * ff) + 2 * d + 2 * vocabulary
        at_once = 3 * ff + 5 * d
        one_layer = 8 * d + 3 * ff + vocabulary
        words = ["--context", str(context), "--batch-size", str(batch), "--warmup",
                 "0", "--passes"]
        # Numbers stored for each parameter, and for each token.
        for passes, numbers, of_token in (("all", 4, kept + at_once),
                                          ("backward", 2, kept + at_once),
                                          ("forward", 1, one_layer)):
            rows, _ = self.rows(*words, passes)
            row = rows[0]
            self.assertEqual(row["passes"], passes)
            wanted = 4 * context * batch * of_token
            beyond = row["peak_bytes"] - numbers * 4 * 9316608
            self.assertGreaterEqual(beyond, 0.98 * wanted)
            self.assertLess(beyond, 1.1 * wanted)
            self.assertGreater(row["forward_ms"]["mean"], 0)
            for phase, where in (("optimizer_ms", ("all",)),
                                 ("backward_ms", ("all", "backward"))):
                ran = row[phase]["mean"] is not None
                self.assertEqual(ran, passes in where)

    def test_quick_is_for_what_is_not_told(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "rows.json")
            done = self.call("bench", "lm", "--quick", "--warmup", "2",
                             "--context", "4", "--batch-size", "1", "--json=" + path)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(path, encoding="utf-8") as file:
                rows = json.load(file)["rows"]
        self.assertEqual([(r["size"], r["warmup"], r["iterations"])
                          for r in rows], [("tiny", 2, 3)])

    def test_what_does_not_fit_says_so(self):
        rows, done = self.rows("--context", "4", "--warmup", "0", "--budget",
                               "100m")
        self.assertEqual(rows[0]["status"], "out of memory")
        self.assertIn("weights, gradients and moments", done.stderr)
        self.assertIn("| out of memory |", done.stdout)

    def test_rows_so_far_are_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "rows.json")
            process = self.start(
                "bench", "lm", "--size", "tiny", "--iterations", "1",
                "--context", "4", "--batch-size", "1", "--threads", "1",
                "--warmup", "0,1000000", "--json=" + path)

            shown = [process.stdout.readline() for _ in range(3)]
            self.assertIn("| tiny ", shown[2])
            process.send_signal(signal.SIGINT)
            self.assertNotEqual(process.wait(100), 0)
            told = os.pread(process.errors.fileno(), 1 << 16, 0).decode()
            self.assertIn("stopped early, after 1 row\n", told)
            with open(path, encoding="utf-8") as file:
                rows = json.load(file)["rows"]
            self.assertEqual([(r["warmup"], r["status"]) for r in rows],
                             [(0, "ok")])

    def test_flags(self):
        for words, text in ((["--size", "huge"], "unknown model size 'huge'"),
                            (["--context", "0"], "--context: 0"),
                            (["--dtype", "i8"], "give f32 or bf16"),
                            (["--warmup", "x"], "--warmup")):
            done = self.call("bench", "lm", *words)
            self.assertEqual(done.returncode, 2)
            self.assertIn(text, done.stderr)


if __name__ == "__main__":
    unittest.main()
