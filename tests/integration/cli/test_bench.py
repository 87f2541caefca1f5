"""lockstep bench of collectives: rows, files, definitions, mistakes."""

import csv
import io
import json
import os
import signal
import tempfile
import unittest

from program import (LOCKSTEP, ProgramTest, children, environment,
                     wait_until)

OPERATIONS = ("all-reduce", "reduce", "reduce-scatter", "broadcast",
              "all-gather", "gather", "scatter", "all-to-all", "send-recv",
              "barrier")
FIELDS = ("op", "ranks", "bytes", "count", "dtype", "redop", "algorithm",
          "buffers", "in_place", "time_us", "algbw_gbps", "busbw_gbps",
          "wrong", "peak_bytes")
QUICK = ("--warmup", "1", "--iterations", "3")


def bus_factor(operation, ranks):
    if operation == "all-reduce":
        return 2 * (ranks - 1) / ranks
    if operation in ("reduce-scatter", "all-gather", "gather", "scatter",
                     "all-to-all"):
        return (ranks - 1) / ranks
    return 1


class Benches(ProgramTest):
    def document(self, *words):
        return json.loads(self.succeeds("bench", *words, *QUICK, "--json"))

    def rows_and_reasons(self, *words):
        """The rows, and what stderr says of those that did not fit."""
        done = self.call("bench", *words, *QUICK, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["rows"], done.stderr

    def rows(self, *words):
        return self.document(*words)["rows"]


class Collectives(Benches):
    def check_row(self, row, operation, ranks):
        self.assertEqual(row["op"], operation)
        self.assertEqual(row["ranks"], ranks)
        self.assertEqual(row["wrong"], 0)
        fields = set(FIELDS)
        if operation in ("reduce", "broadcast", "gather", "scatter"):
            fields.add("root")
        self.assertEqual(set(row), fields)
        time = row["time_us"]
        self.assertEqual(set(time), {"min", "median", "mean", "p99", "max"})
        self.assertTrue(0 < time["min"] <= time["median"] <= time["p99"]
                        <= time["max"])
        self.assertTrue(time["min"] <= time["mean"] <= time["max"])
        algbw = row["bytes"] / time["median"] / 1e3
        self.assertAlmostEqual(row["algbw_gbps"], algbw, delta=1e-9 + algbw / 1e9)
        self.assertAlmostEqual(row["busbw_gbps"],
                               algbw * bus_factor(operation, ranks),
                               delta=1e-9 + algbw / 1e9)

    def test_every_operation(self):
        for operation in OPERATIONS:
            rows = self.rows(operation, "--ranks", "1,3", "--sizes",
                             "0,4,1k,100001", "-d", "f64")
            barrier = operation == "barrier"
            both = operation not in ("barrier", "broadcast", "gather", "scatter",
                                     "send-recv")
            self.assertEqual(len(rows), 2 * (1 if barrier else 4) * (1 + both))
            for i, row in enumerate(rows):
                self.check_row(row, operation, 1 if i < len(rows) // 2 else 3)
                self.assertEqual(row["dtype"], None if barrier else "f64")

    def test_types_and_reductions(self):
        for dtype in ("f16", "bf16", "i8", "u8", "i32", "i64"):
            bits = ("band", "bor", "bxor") if dtype[0] in "iu" else ()
            for op in ("sum", "prod", "min", "max", *bits):
                rows = self.rows("all-reduce", "-n", "3", "--sizes", "5k,100k",
                                 "-d", dtype, "--op", op)
                self.assertEqual({row["wrong"] for row in rows}, {0})
                self.assertEqual({row["redop"] for row in rows}, {op})

    def test_averages(self):
        for dtype in ("f32", "f64", "f16", "bf16"):
            for operation in ("all-reduce", "reduce", "reduce-scatter"):
                rows = self.rows(operation, "-n", "3", "--sizes", "100k", "-d",
                                 dtype, "--op", "avg")
                self.assertEqual({row["wrong"] for row in rows}, {0})

    def test_a_rank_per_cpu(self):
        cpus = len(self.succeeds("run", "-n", "auto", "echo"))
        rows = self.rows("barrier", "-n", "1,auto")
        self.assertEqual([row["ranks"] for row in rows], [1, cpus])
        # A launcher's ranks are any number.
        done = self.call("run", "-n", "3", LOCKSTEP, "bench", "barrier", "-n",
                         "auto", "--iterations", "1", "--json")
        rows = json.loads(done.stdout)["rows"]
        self.assertEqual([row["ranks"] for row in rows], [3])

    def test_sizes(self):
        def sizes(*flags):
            return [row["bytes"] for row in self.rows(
                "all-reduce", "--place", "in", *flags)]
        self.assertEqual(sizes("-b", "1k", "-e", "16k", "-f", "2"),
                         [1024 << i for i in range(5)])
        self.assertEqual(sizes("-b", "1k", "-e", "4k", "-i", "1k"),
                         [1024, 2048, 3072, 4096])
        self.assertEqual(sizes("--sizes", "8,1k"), [8, 1024])
        self.assertEqual(sizes("--sizes", "1,0,8,8"), [0, 0, 8, 8])
        # Each number of elements is a row, whatever their type.
        self.assertEqual(sizes("-b", "0", "-e", "8", "-f", "2"),
                         [0, 4, 8])
        self.assertEqual(sizes("-b", "1", "-e", "32", "-f", "2", "-d", "f64"),
                         [0, 8, 16, 32])

    def test_size_is_that_of_the_larger_buffer(self):
        for operation in ("all-gather", "reduce-scatter", "gather", "scatter",
                          "all-to-all"):
            for row in self.rows(operation, "-n", "4", "--sizes", "4k"):
                self.assertEqual((row["bytes"], row["count"]), (4096, 256))

    def test_buffers(self):
        # The algorithm for private memory differs between machines.
        for buffers, algorithms in (("shared", ["direct"]),
                                    ("private", ["copy", "staged"])):
            for row in self.rows("all-reduce", "--sizes", "1m", "--buffers",
                                 buffers):
                self.assertEqual(row["buffers"], buffers)
                self.assertIn(row["algorithm"], algorithms)
                self.assertGreaterEqual(row["peak_bytes"], 2 << 20)

    def test_fresh_buffers(self):
        for operation in ("all-reduce", "all-gather", "broadcast", "scatter"):
            for row in self.rows(operation, "-n", "3", "--sizes", "0,4,1k,100001",
                                 "--buffers", "fresh"):
                self.assertEqual((row["buffers"], row["wrong"]), ("fresh", 0))

    def test_algorithms(self):
        for algorithm in ("ring", "butterfly", "staged"):
            for row in self.rows("all-reduce", "-n", "3", "--sizes", "4k,100k",
                                 "--algorithm", algorithm):
                self.assertEqual(row["algorithm"], algorithm)
                self.assertEqual(row["wrong"], 0)

    def test_root(self):
        for operation in ("reduce", "broadcast"):
            for row in self.rows(operation, "-n", "3", "--sizes", "1k", "--root",
                                 "2"):
                self.assertEqual((row["root"], row["wrong"]), (2, 0))

    def test_under_a_launcher(self):
        out = self.succeeds("run", "-n", "2", LOCKSTEP, "bench", "barrier",
                            *QUICK, "--json")
        rows = json.loads(out)["rows"]
        self.assertEqual([row["ranks"] for row in rows], [2])


class FlagsOfNcclTests(Benches):
    def test_ranks(self):
        for words, ranks in ((("--nthreads", "3"), 3), (("-g", "2"), 2),
                             (("--nthreads", "2", "-g", "2"), 4)):
            self.assertEqual({row["ranks"] for row in self.rows(
                "all-reduce", "--sizes", "1k", *words)}, {ranks})

    def test_more_ranks_than_cpus(self):
        cpus = len(os.sched_getaffinity(0))
        done = self.call("bench", "barrier", *QUICK, "-n", str(cpus + 1))
        self.assertIn("if you meant the number of runs, use --iterations", done.stderr)
        self.succeeds("bench", "barrier", *QUICK, "-n", "1")

    def test_names_of_types(self):
        for name, ours in (("float", "f32"), ("double", "f64"),
                           ("half", "f16"), ("bfloat16", "bf16"),
                           ("int8", "i8"), ("uint8", "u8"), ("int", "i32"),
                           ("int32", "i32"), ("int64", "i64")):
            self.assertEqual({row["dtype"] for row in self.rows(
                "broadcast", "--sizes", "1k", "-d", name)}, {ours})

    def test_all(self):
        rows = self.rows("all-reduce", "-n", "3", "--sizes", "1k,5000",
                         "--place", "in", "-d", "all", "--op", "all")
        kinds = [(row["dtype"], row["redop"]) for row in rows]
        self.assertEqual(len(set(kinds)), 4 * 5 + 4 * 4)
        self.assertEqual(len(kinds), 2 * len(set(kinds)))
        self.assertEqual({row["wrong"] for row in rows}, {0})
        self.assertNotIn(("i32", "avg"), kinds)
        self.assertEqual({row["dtype"] for row in self.rows(
            "all-gather", "--sizes", "1k", "-d", "all", "--op", "all")},
            {"f32", "f64", "f16", "bf16", "i8", "u8", "i32", "i64"})

    def test_checks(self):
        for checks, wrong in (("0", {None}), ("1", {0}), ("5", {0})):
            self.assertEqual({row["wrong"] for row in self.rows(
                "all-reduce", "--sizes", "1k", "--check", checks)}, wrong)
        self.assertIn("# Out of bounds values : not checked\n", self.succeeds(
            "bench", "all-reduce", "--sizes", "1k", "--check", "0", *QUICK))


class Tune(Benches):
    def test_line_can_be_used(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "select")
            out = self.succeeds("tune", "--sizes", "1k", "--warmup",
                                "0", "--iterations", "1", "--out", path)
            line = out.split("\n")[0]
            self.assertTrue(line.startswith("LOCKSTEP_SELECT='all_reduce:0-"))
            self.assertIn("| all-to-all ", out)
            with open(path) as file:
                saved = [entry for entry in file.read().split("\n")
                         if ":0-" in entry]
            self.assertEqual(len(saved), 9)
            self.assertEqual(line, "LOCKSTEP_SELECT='%s'" % ",".join(saved))
            self.succeeds("bench", "reduce", "--sizes", "1k", *QUICK,
                          env=environment(LOCKSTEP_SELECT="@" + path))
            with open(path, "a") as file:
                file.write("all_reduce:0-1k\n")
            self.fails(1, path + ":12: ", "bench", "reduce", "--sizes", "1k",
                       *QUICK, env=environment(LOCKSTEP_SELECT="@" + path))

    def test_rows(self):
        rows = json.loads(self.succeeds("tune", "-n", "1", "--sizes", "1k,64k",
                                        *QUICK, "--json"))["rows"]
        chosen = [row for row in rows if row["chosen"]]
        self.assertEqual(len(chosen), 8 * 2 * 2)
        self.assertEqual({row["buffers"] for row in rows},
                         {"private", "shared"})
        self.assertTrue(all(row["time_us"] > 0 for row in rows))
        names = {row["algorithm"] for row in rows}
        self.assertLess({"flat", "staged", "halving"}, names)
        self.assertFalse({"ring", "nodes"} & names) # they add in another order

    def test_mistakes(self):
        for flags, message in ((("--ranks", "2,4"), "one number"),
                               (("--sizes", "4k,1k"), "not in ascending order"),
                               (("--out", "/proc/nowhere/at/all"), "/proc/nowhere")):
            self.fails(2, message, "tune", *flags)


class Outputs(Benches):
    def test_document(self):
        document = self.document("barrier")
        self.assertEqual(document["lockstep"],
                         self.succeeds("version").split()[1])
        self.assertEqual(document["command"][1:],
                         ["bench", "barrier", *QUICK, "--json"])
        self.assertGreaterEqual(document["machine"]["cpus"], 1)

    def test_all_forms_hold_the_same(self):
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, name) for name in ("j", "c")]
            out = self.succeeds("bench", "all-reduce", *QUICK, "--ranks", "1,2",
                                "--sizes", "1k", "--json=" + paths[0],
                                "--csv=" + paths[1])
            with open(paths[0], encoding="utf-8") as file:
                rows = json.load(file)["rows"]
            with open(paths[1], encoding="utf-8", newline="") as file:
                lines = list(csv.DictReader(file))
            self.assertEqual(sorted(os.listdir(folder)), ["c", "j"])
        self.assertEqual(len(rows), 4)
        self.assertEqual(len(out.splitlines()), 2 + 4 + 3)
        for row, line, shown in zip(rows, lines, out.splitlines()[2:]):
            self.assertEqual(line["time_us.median"],
                             f"{row['time_us']['median']:.15g}")
            cells = [cell.strip() for cell in shown.strip("|").split("|")]
            self.assertEqual(cells[:3], [str(row["ranks"]), "1024", "f32"])

    def test_rows_are_shown_as_they_finish(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "rows.json")
            process = self.start("bench", "all-reduce", "--sizes", "1k,64m",
                                 "--place", "in", "--warmup", "0",
                                 "--iterations", "1000000", "--json=" + path)
            shown = [process.stdout.readline() for _ in range(3)]
            self.assertIsNone(process.poll())
            self.assertIn("1024", shown[2])
            process.send_signal(signal.SIGINT)
            rest = process.stdout.read()
            self.assertNotEqual(process.wait(100), 0)
            with open(path, encoding="utf-8") as file:
                rows = json.load(file)["rows"]
        self.assertEqual([row["bytes"] for row in rows], [1024])
        # The title stays what it is, however many rows there are.
        self.assertEqual({len(line) for line in shown}, {len(shown[0])})
        self.assertRegex(rest, "# Out of bounds values : 0 OK\n"
                               "# Avg bus bandwidth    : [0-9.e-]+\n$")

    def test_width(self):
        small = ("--warmup", "0", "--iterations", "1")
        model = ("--arch", "mlp:64", "--context", "8", "--batch-size", "1",
                 "--threads", "1", *small)
        benches = (("reduce", "-n", "2", "-b", "1k", "-e", "1m", *small),
                   ("barrier", *small),
                   ("ring", "--elements", "1000", *small),
                   ("sync-batch-norm", "--features", "128", *small),
                   ("ddp", *model), ("zero", *model),
                   ("flash", "--length", "128", "--head-size", "16", "--iterations",
                    "1"),
                   ("loader", "--items", "100"),
                   ("lm", "--size", "tiny", "--context", "4", "--batch-size", "1",
                    "--iterations", "1", "--warmup", "0", "--budget", "1m"))
        for words in (("tune", "--sizes", "1k", *small),
                      *(("bench", *words) for words in benches)):
            for wide in (False, True):
                done = self.call(*words, *(["--wide"] if wide else []))
                self.assertEqual(done.returncode, 0, done.stderr)
                table = [line for line in done.stdout.splitlines()
                         if line.startswith("|")]
                self.assertEqual({len(line) for line in table},
                                 {len(table[0])}, words)
                if not wide: # on terminals: test_tables.py
                    self.assertLessEqual(len(table[0]), 110, words)

    def test_a_maximum_is_called_so(self):
        for runs, title in (("99", "| max (us) |"), ("100", "| p99 (us) |")):
            out = self.succeeds("bench", "barrier", "--wide", "--iterations",
                                runs)
            self.assertIn(title, " ".join(out.split()))

    def test_csv_on_standard_output(self):
        out = self.succeeds("bench", "barrier", *QUICK, "--csv")
        lines = list(csv.DictReader(io.StringIO(out)))
        self.assertEqual([line["op"] for line in lines], ["barrier"])

    def test_files_are_checked_before_the_work(self):
        huge = ("--iterations", "1000000000")
        self.fails(1, "cannot write '/proc/nonexistent/x'", "bench", "barrier",
                   *huge, "--json=/proc/nonexistent/x")
        self.fails(1, "cannot write '/tmp': it is a folder", "bench", "barrier",
                   *huge, "--csv=/tmp")


class Ring(Benches):
    def test_rows(self):
        rows = self.rows("ring", "--ranks", "1,2,5", "--elements", "0,1,1000")
        self.assertEqual(len(rows), 3 * 3 * 3)
        self.assertEqual([row["algorithm"] for row in rows],
                         ["ring", "butterfly", "library"] * 9)
        self.assertEqual([row["elements"] for row in rows[::3]],
                         [1, 1, 1000, 2, 1, 1000, 5, 1, 1000])
        for row in rows:
            self.assertTrue(row["same_bits"])
            self.assertLessEqual(row["error"], (row["ranks"] + 2) * 2 ** -24)

    def test_memory(self):
        """The memory of each algorithm is that of its description."""
        rows = self.rows("ring", "-n", "4", "--elements", "1000")
        memory = {row["algorithm"]: row["memory_bytes"] for row in rows}
        self.assertGreaterEqual(memory["ring"], 1000)
        self.assertLess(memory["ring"], 4000)
        self.assertGreaterEqual(memory["butterfly"], 3000)
        self.assertLess(memory["library"], memory["ring"])


class Ddp(Benches):
    small = ("ddp", "--threads", "1", "--arch", "mlp:64", "--context", "8",
             "--batch-size", "1")

    def one(self, *words):
        rows = self.rows(*self.small, *words)
        self.assertEqual(len(rows), 1)
        return rows[0]

    def test_rows(self):
        rows = self.rows(*self.small, "--bucket-mb", "0.02,1")
        self.assertEqual([(row["strategy"], row["bucket_mb"]) for row in rows],
                         [("naive", None), ("flat", None), ("overlap", None),
                          ("bucketed", 0.02), ("bucketed", 1),
                          ("owners", None), ("zero1", 0.02), ("zero1", 1),
                          ("shared", 0.02), ("shared", 1),
                          ("fsdp", 0.02), ("fsdp", 1)])
        # Eight weights of 16,384 bytes and biases of 256, in pairs below 0.02.
        self.assertEqual([row["collectives_per_step"] for row in rows],
                         [16, 1, 16, 8, 1, 17, 11, 4, 11, 4, 11, 4])
        for row in rows:
            self.assertEqual((row["ranks"], row["batch"],
                              row["global_batch_size"], row["warmup_steps"],
                              row["benchmark_steps"]), (2, 1, 2, 1, 3))
            self.assertGreaterEqual(row["comm_frac_avg"], 0)
            self.assertLessEqual(row["comm_frac_avg"], 1)
            parts = sum(row[part] for part in (
                "forward_s", "backward_s", "optimizer_s", "comm_time_avg_s"))
            self.assertLessEqual(parts, row["step_time_avg_s"] * 1.0001)

    def test_shapes(self):
        rows = self.rows(
            "ddp", "--threads", "1", "--context", "8", "--layers", "1",
            "--d-model", "32", "--heads", "2", "--d-ff", "48", "--vocab-size",
            "64", "--strategy", "flat")
        self.assertEqual([(row["model"], row["d_ff"], row["vocab_size"],
                           row["batch"]) for row in rows],
                         [("1x32", 48, 64, 4)])
        numbers = 2 * 64 * 32 + 4 * 32 * 32 + 3 * 32 * 48 + 3 * 32
        # Behind them the weight of the samples, in whole lines of the cache.
        self.assertIn(rows[0]["bytes_sent"] - 4 * numbers, range(4, 129))
        self.fails(2, "--arch mlp:64 does not support --layers", "bench", *self.small,
                   "--layers", "1")

    def test_memory(self):
        numbers = 8 * (64 * 64 + 64)
        for strategy, weights, state in (("flat", 1, 1), ("zero1", 1, 2),
                                         ("shared", 2, 2)):
            peaks = self.one("--strategy", strategy,
                             "--bucket-mb", "1")["peak_bytes"]
            for moment in ("init", "before_step", "after_step"):
                kinds = peaks[moment]
                self.assertAlmostEqual(kinds["parameters"],
                                       4 * numbers / weights,
                                       delta=0.05 * 4 * numbers)
                self.assertAlmostEqual(kinds["state"], 8 * numbers / state,
                                       delta=0.05 * 8 * numbers)
                self.assertGreaterEqual(kinds["gradients"], 4 * numbers)
            self.assertEqual(peaks["init"]["activations"], 0)
            self.assertGreater(peaks["before_step"]["activations"], 0)

    def test_language_model(self):
        row = self.rows("ddp", "--threads", "1", "--size", "tiny",
                        "--context", "4", "--batch-size", "1", "--strategy",
                        "bucketed", "--bucket-mb", "5", "-n", "1")[0]
        self.assertEqual((row["model"], row["ranks"]), ("tiny", 1))
        self.assertEqual(row["bytes_sent"], 0)

    def test_types(self):
        """Strategies end with the same bits in each, and are compared."""
        rows = self.rows(*self.small, "--strategy", "flat,shared,zero1",
                         "--bucket-mb", "1", "--dtype", "bf16,f32")
        self.assertEqual([(row["strategy"], row["dtype"]) for row in rows],
                         [(strategy, dtype) for dtype in ("bf16", "f32")
                          for strategy in ("flat", "shared", "zero1")])

    def test_what_does_not_fit_is_a_row(self):
        """2,101,248 parameters; numbers of each on two ranks."""
        words = ("--arch", "mlp:512", "--context", "8", "--batch-size", "1",
                 "--threads", "1", "--bucket-mb", "1")
        numbers = {"flat": 2 + 2 + 4, "owners": 2 + 2 + 2, "zero1": 2 + 2 + 2,
                   "shared": 1 + 2 + 2, "fsdp": 1 + 1 + 2}
        rows, told = self.rows_and_reasons("ddp", *words, "--strategy",
                                           ",".join(numbers), "--budget",
                                           "45m")
        self.assertEqual(told.count("need at least"), 3)
        for row in rows:
            needed = 4 * 2101248 * numbers[row["strategy"]]
            fits = needed <= 45 << 20
            self.assertEqual(row["needed_bytes"], needed)
            self.assertEqual(row["available_bytes"], 45 << 20)
            self.assertEqual(row["status"], "ok" if fits else "out of memory")
            self.assertEqual(row["step_time_avg_s"] is not None, fits)
        self.assertEqual([row["status"] for row in rows],
                         3 * ["out of memory"] + 2 * ["ok"])

    def test_what_a_step_lacks_is_a_row(self):
        """The model fits, its activations do not."""
        rows, told = self.rows_and_reasons(*self.small, "--strategy", "flat",
                                           "--context", "4096", "--budget",
                                           "16m")
        row = rows[0]
        self.assertIn("flat: ", told)
        self.assertIn("(activations)", told)
        self.assertEqual(row["status"], "out of memory")
        self.assertGreater(row["needed_bytes"], row["available_bytes"])

    def rows_after_a_kill(self, *launcher):
        """The rows of a bench of which rank 1 is killed in the second case,
        and what it said."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "rows.json")
            ranks = () if launcher else ("-n", "2")
            process = self.start(
                *launcher, "bench", "ddp", *ranks, "--threads", "1", "--arch",
                "mlp:512", "--batch-size", "1", "--context", "8", "--budget", "45m",
                "--strategy", "flat,fsdp", "--bucket-mb", "1", "--iterations",
                "1000000", "--json=" + path)

            def told():
                return os.pread(process.errors.fileno(), 1 << 16, 0).decode()

            self.assertTrue(wait_until(lambda: "flat: " in told()), told())
            pids = [rank for child in children(process.pid)
                    for rank in children(child)]
            self.assertEqual(len(pids), 2)
            os.kill(pids[1], signal.SIGKILL)
            self.assertNotEqual(process.wait(100), 0)
            with open(path, encoding="utf-8") as file:
                return json.load(file)["rows"], told()

    def test_rows_stay_when_a_rank_is_killed(self):
        for launcher in ((), ("run", "-n", "2", "--", LOCKSTEP)):
            with self.subTest(launcher=launcher):
                rows, told = self.rows_after_a_kill(*launcher)
                self.assertEqual([(row["strategy"], row["status"])
                                  for row in rows],
                                 [("flat", "out of memory")])
                self.assertEqual("stopped early, after 1 row\n" in told,
                                 launcher == ())

    def test_mistakes(self):
        for message, words in (
                ("choose one of: naive, flat", ("--strategy", "fast")),
                ("is not a number above 0", ("--bucket-mb", "1,0")),
                ("is not a number above 0", ("--bucket-mb", "-2")),
                ("is not a number above 0", ("--bucket-mb", "nan")),
                ("give f32 or bf16", ("--dtype", "f32,f64")),
                ("mlp:WIDTH", ("--arch", "cnn")),
                ("width", ("--arch", "mlp:0")),
                ("each name a model", ("--arch", "mlp", "--size", "tiny")),
                ("--size NAME", ("--arch", "lm:tiny")),
                ("small", ("--size", "huge"))):
            with self.subTest(words=words):
                self.fails(2, message, "bench", "ddp", *words)


class Zero(Benches):
    def test_rows(self):
        rows = self.rows("zero", "--threads", "1", "--arch", "mlp:128",
                         "--context", "4", "--batch-size", "1", "-n", "2,3")
        self.assertEqual(len(rows), 2 * 5 * 3)
        numbers = 8 * (128 * 128 + 128)
        for row in rows:
            n = row["ranks"]
            sent = {"flat": 2, "owners": 3, "zero1": 2, "shared": 1,
                    "fsdp": 1}
            self.assertEqual(row["bytes_sent"]["formula"], int(
                sent[row["strategy"]] * 4 * numbers * (n - 1) / n))
            self.assertEqual(row["state"]["formula"], int(
                8 * numbers / (1 if row["strategy"] == "flat" else n)))
            self.assertEqual(row["status"], "ok")
        self.assertEqual([row["moment"] for row in rows[:3]],
                         ["init", "before_step", "after_step"])

    def test_what_does_not_fit_is_a_row(self):
        rows, _ = self.rows_and_reasons(
            "zero", "--threads", "1", "--arch", "mlp:512", "--context", "4",
            "--batch-size", "1", "--budget", "45m")
        told = [(row["strategy"], row["moment"], row["status"])
                for row in rows]
        self.assertEqual(told[:3], [(strategy, None, "out of memory")
                                    for strategy in ("flat", "owners",
                                                     "zero1")])
        self.assertEqual(told[3:], [(strategy, moment, "ok")
                                    for strategy in ("shared", "fsdp")
                                    for moment in ("init", "before_step",
                                                   "after_step")])

    def test_mistakes(self):
        self.fails(2, "mlp:WIDTH", "bench", "zero", "--arch", "cnn")


class Mistakes(ProgramTest):
    def test_flags(self):
        for message, *flags in (
                ("out of range: 1 to 1024", "--ranks", "0"),
                ("neither a whole number nor", "--ranks", "2,,4"),
                ("is not one of private|shared", "--buffers", "x"),
                ("choose one of: f32", "-d", "floating"),
                ("-n 2 and --nthreads or --ngpus both set", "-n", "2", "--nthreads", "2"),
                ("out of range: 0 to", "--check", "-1"),
                ("choose one of: sum", "--op", "mean"),
                ("out of range: 1 to", "--iterations", "0"),
                ("is not a size", "--sizes", "4q"),
                ("no algorithm 'foo'", "--algorithm", "foo"),
                ("is more than -e", "-b", "2k", "-e", "1k"),
                ("more than 256 sizes", "-b", "0", "-e", "1g", "-i", "1"),
                ("did you mean --sizes?", "--size", "4")):
            self.fails(2, message, "bench", "all-reduce", *flags)
        self.fails(2, "send-recv has a single algorithm", "bench", "send-recv",
                   "--algorithm", "flat")
        self.fails(2, "does not support --place in", "bench", "send-recv",
                   "--place", "in")
        self.fails(2, "does not support --place out", "bench", "broadcast",
                   "--place", "out")

    def test_found_by_ranks(self):
        for message, *flags in (
                ("avg is not defined for i32", "--op", "avg", "-d", "i32"),
                ("flat handles at most", "--algorithm", "flat", "--sizes",
                 "1m")):
            self.fails(1, message, "bench", "all-reduce", *flags)
        self.fails(1, "rank 5 is not in the group, which has ranks 0 to 1", "bench", "reduce", "--root", "5")

    def test_launcher_and_flag_disagree(self):
        done = self.call("run", "-n", "2", LOCKSTEP, "bench", "barrier", "-n",
                         "3,4")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--ranks 3,4 does not match the 2 ranks that the launcher",
                      done.stderr)


class Loader(Benches):
    def test_threads_and_ranks(self):
        rows = self.rows("loader", "--ranks", "1,2", "--loader-threads", "1,3",
                         "--items", "100", "-b", "7")
        self.assertEqual([(r["ranks"], r["loader_threads"]) for r in rows],
                         [(1, 1), (1, 3), (2, 1), (2, 3)])
        for row in rows:
            self.assertEqual(row["items"], 100)
            self.assertGreater(row["items_per_second"], 0)
            self.assertAlmostEqual(
                row["ratio"] * row["alone_per_second"] /
                row["items_per_second"], 1, 6)

    def test_tables(self):
        with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
            file.write("a,b\n" + "1,2\n" * 30)
            file.flush()
            words = ("--data", file.name, "--as", "table")
            self.assertEqual(self.rows("loader", *words)[0]["items"], 30)
            done = self.call("bench", "loader", "--data", file.name)
            self.assertEqual(done.returncode, 1)
            self.assertIn("is a file of an unknown kind; supported sources of images",
                          done.stderr)
            file.truncate(0)
            self.fails(1, f"'{file.name}' is empty", "bench", "loader", "--data", file.name)


if __name__ == "__main__":
    unittest.main()
