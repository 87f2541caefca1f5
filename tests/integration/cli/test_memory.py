#!/usr/bin/env python3
"""lockstep memory: what its tables say, and what it refuses."""

import json
import os
import re
import shutil
import tempfile
import unittest

from program import SOURCE, ProgramTest, environment

KINDS = ("parameters", "gradients", "optimizer state", "activations",
         "workspace", "communication", "data", "other", "gathered weights",
         "kept by pools")
MODEL = ("--layers", "2", "--d-model", "32", "--heads", "2", "--d-ff", "64",
         "--context", "16", "--steps", "2", "--quiet")


class MemoryTest(ProgramTest):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="lockstep-memory-")
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def result(self, *words):
        done = self.call("memory", *words, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def table(self, *words):
        """The titles of the first table that is shown, and its rows."""
        done = self.call("memory", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [line for line in done.stdout.split("\n")
                 if line.startswith("|")]
        if "--wide" not in words:
            self.assertLessEqual(max(len(line) for line in lines), 100,
                                 done.stdout)
        cells = [[cell.strip() for cell in line.strip("|").split("|")]
                 for line in lines]
        rows = [row for row in cells[2:] if len(row) == len(cells[0])]
        return cells[0], rows, done.stdout

    def fails(self, status, message, *words):
        done = self.call("memory", *words)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertIn(message, done.stderr)
        self.assertEqual(len(done.stderr.strip().split("\n")), 1, done.stderr)

    def test_a_model(self):
        found = self.result("--size", "tiny", "--context", "32", "--batch-size",
                            "3", "--mode", "forward,step", "--threads", "1")
        forward, step = found["rows"]
        self.assertEqual([r["mode"] for r in found["rows"]], ["forward", "step"])
        weights = step["parameters_mib"]
        self.assertAlmostEqual(forward["gradients_mib"], 0, delta=0.1)
        self.assertAlmostEqual(step["gradients_mib"], weights, delta=0.1)
        self.assertAlmostEqual(step["state_mib"], 2 * weights, delta=0.1)
        # oneDNN and OpenMP allocate memory, too, which does not grow.
        apart = step["resident_bytes"] - step["peak_bytes"]
        self.assertGreater(apart, -0.05 * step["peak_bytes"])
        self.assertLess(apart, 0.05 * step["peak_bytes"] + (64 << 20))
        for row, detail in zip(found["rows"], found["details"]):
            self.assertTrue(detail["whole"])
            self.assertEqual(detail["peak_bytes"], row["peak_bytes"])
            self.assertEqual(detail["residual"]["formula_bytes"],
                             3 * 32 * 256 * 4)
            self.assertEqual(detail["residual"]["recorded_bytes"],
                             3 * 32 * 256 * 4)
            at_peak = detail["at_live_peak"]
            self.assertEqual(
                sum(at_peak[k] for k in KINDS if k != "kept by pools"),
                detail["live_peak_bytes"])
            layers = sum(r["bytes"] for r in detail["layers"])
            self.assertEqual(layers,
                             sum(r["bytes"] for r in detail["operations"]))
            self.assertLessEqual(layers, detail["live_peak_bytes"])
            # Plans of matrix products count as other memory, without a layer.
            self.assertGreater(layers, 0.999 * detail["live_peak_bytes"] -
                               at_peak["other"])
            points = detail["timeline"]
            self.assertEqual(max(sum(p[k] for k in KINDS) for p in points),
                             detail["peak_bytes"])
            self.assertEqual([p["ms"] for p in points],
                             sorted(p["ms"] for p in points))
        names = {r["layer"] for r in found["details"][1]["layers"]}
        self.assertTrue({"block 0/attention", "block 3/feed forward", "head"} <=
                        names, names)
        names = {r["operation"] for r in found["details"][1]["operations"]}
        self.assertTrue({"linear", "swiglu", "rms_norm"} <= names, names)

    def test_a_run(self):
        data = self.path("text")
        with open(data, "w", encoding="ascii") as file:
            file.write("abcdefgh " * 400)
        done = self.call("train", "lm", "--data", data, *MODEL, "-n", "2",
                         "--threads", "1", "--record-memory", self.path("m"))
        self.assertEqual(done.returncode, 0, done.stderr)
        found = self.result(self.path("m"))
        self.assertEqual([r["rank"] for r in found["rows"]], [0, 1])
        self.assertEqual([r["status"] for r in found["rows"]], ["ok", "ok"])
        for detail in found["details"]:
            names = {r["layer"] for r in detail["layers"]}
            self.assertIn("block 1/attention", names)
            self.check_lines(detail["largest"])
        one = self.path("m/rank-1.lsmem")
        done = self.call("memory", one)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("rank 1 of 2", done.stdout)
        self.assertIn("block 1/feed forward", done.stdout)
        self.fails(1, "--out draws a single rank", self.path("m"), "--out",
                   self.path("x.svg"))
        with open(one, "rb") as file:
            data = file.read()
        with open(self.path("cut.lsmem"), "wb") as file:
            file.write(data[:len(data) // 2])
        done = self.call("memory", self.path("cut.lsmem"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("is incomplete", done.stdout)

    def check_lines(self, blocks):
        """A block is blamed on a line of the model, not of its layers."""
        for block in blocks:
            if block["line"] == "":  # without debug information
                continue
            file = block["line"].partition(" at ")[2].rpartition(":")[0]
            self.assertTrue(os.path.isfile(os.path.join(SOURCE, file)), block)
            if block["layer"].startswith("block "):
                self.assertIn(os.path.basename(file),
                              ("transformer.c", "loop.c"), block)

    def test_the_layers_that_are_not_blamed(self):
        code = os.path.join(SOURCE, "program/cli/commands/memory_code.c")
        with open(code, encoding="ascii") as file:
            table = file.read().partition("inner[] = {")[2].partition("}")[0]
        paths = re.findall(r'"([^"]+)"', table)
        self.assertGreater(len(paths), 5)
        for path in paths:
            self.assertTrue(os.path.exists(os.path.join(SOURCE, path)), path)

    def test_what_tables_show(self):
        data = self.path("text")
        with open(data, "w", encoding="ascii") as file:
            file.write("abcdefgh " * 400)
        done = self.call("train", "lm", "--data", data, *MODEL, "-n", "2",
                         "--threads", "1", "--record-memory", self.path("m"))
        self.assertEqual(done.returncode, 0, done.stderr)
        parts = ["Peak MiB", "Params", "Grads", "State", "Activ.", "Kept",
                 "Rest"]
        titles, rows, _ = self.table(self.path("m"))
        self.assertEqual(titles, ["Rank", "Process", *parts, "Gath.", "Status"])
        self.assertEqual([row[0] for row in rows], ["0", "1"])
        for row in rows:
            self.assertNotIn("", row)
            peak, *held = [float(cell) for cell in row[2:9]]
            self.assertAlmostEqual(peak, sum(held), delta=0.05 * 7)
        titles, rows, _ = self.table(self.path("m"), "--wide")
        self.assertEqual(titles, ["Rank", "Process", "Host", *parts, "Gath.",
                                  "Status"])
        self.assertNotIn("", rows[1])
        _, _, text = self.table(self.path("m/rank-1.lsmem"))
        self.assertNotIn("| Kind ", text)
        _, _, text = self.table(self.path("m/rank-1.lsmem"), "--wide")
        self.assertIn("| Kind ", text)
        self.assertIn("| Function ", text)
        model = ("--size", "tiny", "--context", "8", "--batch-size", "1",
                 "--iterations", "1", "--threads", "1")
        titles, rows, _ = self.table(*model)
        self.assertEqual(titles, ["Size", "Context", "Type", "Mode",
                                  *parts[:5], "Status"])
        self.assertNotIn("", rows[0])
        titles, rows, _ = self.table(*model, "--wide")
        self.assertEqual(titles, ["Size", "Context", "Batch", "Type", "Mode",
                                  *parts, "Of resident (%)", "Status"])
        self.assertNotIn("", rows[0])
        self.table("--size", "tiny", "--budget", "8m")

    def test_a_process_without_a_rank(self):
        done = self.call("train", "lm", "--help",
                         env=environment(LOCKSTEP_MEMORY=self.path("m")))
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.call("memory", self.path("m"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        text = done.stdout
        name, = os.listdir(self.path("m"))
        # It has taken nothing, so there are no tables.
        self.assertNotIn("|", text)
        self.assertIn("The recording contains no allocations", text)
        process = name[len("process-"):-len(".lsmem")]
        self.assertIn(f"{name}: process {process} on ", text)

    def test_pictures(self):
        words = ("memory", "--size", "tiny", "--context", "8", "--batch-size",
                 "1", "--mode", "forward", "--threads", "1", "--out",
                 self.path("a.svg"))
        empty = self.path("empty")
        os.mkdir(empty)
        done = self.call(*words, env=environment(PATH=empty))
        self.assertEqual(done.returncode, 1)
        self.assertIn("gnuplot", done.stderr)
        self.assertFalse(os.path.exists(self.path("a.svg")))
        if shutil.which("gnuplot") is None:
            self.skipTest("gnuplot is not installed")
        done = self.call(*words)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.path("a.svg"), encoding="utf-8") as file:
            picture = file.read()
        self.assertIn("<svg", picture)
        self.assertIn("memory (MiB)", picture)
        self.assertIn("activations", picture)

    def test_what_does_not_fit_is_a_row(self):
        done = self.call("memory", "--size", "tiny", "--budget", "8m")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("out of memory", done.stdout)
        self.assertIn("memory budget of", done.stderr)

    def test_what_is_refused(self):
        self.fails(2, "huge", "--size", "huge")
        self.fails(2, "choose one of: forward, step", "--mode", "sideways")
        self.fails(2, "--out draws a single case", "--context", "8,16", "--out", "x")
        self.fails(1, "contains no recordings of memory", self.folder)
        self.fails(1, "/nonexistent", "/nonexistent")
        for text, message in (("", "is not a trace or a recording of memory"),
                              ("\x7fELF", "is not a trace or a recording of memory"),
                              ("lockstep memory 1\nk\n",
                               "was written by an older version of Lockstep"),
                              ("LSTRACE1", "was written by an older version of Lockstep"),
                              ("LSTRACE2", "it ends within its header")):
            with open(self.path("a.lsmem"), "w", encoding="ascii") as file:
                file.write(text)
            self.fails(1, message, self.path("a.lsmem"))


if __name__ == "__main__":
    unittest.main()
