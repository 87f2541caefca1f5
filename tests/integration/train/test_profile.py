"""The output of `lockstep profile` for traces."""

import json
import os
import shutil
import tempfile
import time
import unittest

from program import LOCKSTEP, ProgramTest, busy_machine, environment

SLOW_RANK = os.environ["TEST_SLOW_RANK"]
LM = ("train", "lm", "--threads", "1", "--layers", "3", "--d-model", "128",
      "--heads", "2", "--d-ff", "256", "--context", "64", "--batch-size", "4",
      "--validate-every", "0", "-q")


class ProfileTest(ProgramTest):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.env = environment(XDG_CACHE_HOME=self.folder)

    def traces(self, name):
        return os.path.join(self.folder, name)

    def profile(self, name, *flags):
        done = self.call("profile", self.traces(name), "--force", "--json",
                         *flags, env=self.env)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)

    def train(self, name, *flags, ranks=2):
        self.succeeds(*LM, "-n", str(ranks), "--trace", self.traces(name),
                      *flags)


class Kernels(ProfileTest):
    def test_rows(self):
        self.train("t", "--steps", "6")
        whole = self.profile("t")
        self.assertEqual((whole["ranks"], whole["steps"]), (2, 10))
        rows = {row["kernel"]: row for row in whole["rows"]}
        # Three layers of seven products, and the head; backward has two each.
        self.assertEqual(rows["gemm_f32"]["calls"], 10 * 3 * (3 * 7 + 1))
        self.assertEqual(rows["step_adamw"]["calls"], 10)
        self.assertAlmostEqual(sum(r["share"] for r in whole["rows"]), 100,
                               delta=0.1)
        total = sum(r["total_ms"] for r in whole["rows"])
        self.assertAlmostEqual(total, whole["steps"] * whole["step_ms"],
                               delta=0.001 * total)
        # 2 m n k of all of them, by hand.
        rows_, d, ff, vocabulary = 4 * 64, 128, 256, 256
        forward = 2 * rows_ * (3 * (4 * d * d + 3 * d * ff) + d * vocabulary)
        work = rows["gemm_f32"]["gflops"] * 1e9 * \
            rows["gemm_f32"]["total_ms"] * 1e-3
        self.assertAlmostEqual(work, 10 * 3 * forward, delta=0.001 * work)
        self.assertIn("gemm_f32 takes the most time",
                      whole["answers"]["longest"])
        self.assertIn("22 calls (", whole["answers"]["longest"])
        self.assertIn("By the wall clock", whole["answers"]["forward"])
        forward = {r["kernel"]: r for r in
                   self.profile("t", "--phase", "forward")["rows"]}
        self.assertEqual(forward["gemm_f32"]["calls"], 10 * (3 * 7 + 1))
        self.assertNotIn("step_adamw", forward)
        self.part_is_told(whole)
        inside = {r["kernel"]: r for r in
                  self.profile("t", "--range", "attention")["rows"]}
        self.assertLessEqual({"flash_attention", "rope", "gemm_f32",
                              "(between kernels)"}, set(inside))
        self.assertNotIn("swiglu", inside)
        one = self.profile("t", "--rank", "1", "--warmup", "2")
        self.assertEqual((one["ranks"], one["steps"]), (1, 4))
        text = self.call("profile", self.traces("t"), env=self.env)
        self.assertEqual(text.returncode, 0)
        for title in ("Forward pass and its kernels", "Longest kernel", "Other kernels",
                      "Share of matrix products", "Softmax compared with matrix products",
                      "Overlap of communication", "Slowest rank"):
            self.assertIn(f"\n{title}: ", text.stdout)

    def test_the_first_line_is_what_a_step_is_made_of(self):
        self.train("t", "--steps", "6")
        whole = self.profile("t")
        split = whole["split"]
        self.assertAlmostEqual(sum(split.values()), 1, delta=1e-9)
        all_ms = whole["steps"] * whole["step_ms"]
        phases = {p["phase"]: p for p in whole["phases"]}
        for name in ("forward", "backward", "optimizer"):
            busy = phases[name]["alone_ms"] - phases[name]["waited_ms"]
            self.assertAlmostEqual(split[name], busy / all_ms, delta=1e-6)
            self.assertGreater(split[name], 0)
        sync = phases["gradient sync"]
        waited = sum(p["waited_ms"] for p in phases.values())
        self.assertAlmostEqual(
            split["exposed_communication"],
            (waited + sync["alone_ms"] - sync["waited_ms"]) / all_ms,
            delta=1e-6)
        text = self.succeeds("profile", self.traces("t"), "--force",
                             env=self.env)
        first = text.splitlines()[0]
        self.assertRegex(first, r"^Forward [\d.]+%, backward [\d.]+%, optimizer "
                         r"[\d.]+%, exposed communication [\d.]+%, rest "
                         r"-?[\d.]+%$")
        shown = [float(word.rstrip(",%")) for word in first.split()
                 if "%" in word]
        for number, share in zip(shown, split.values()):
            self.assertAlmostEqual(number, 100 * share, delta=0.51)
        part = self.succeeds("profile", self.traces("t"), "--force", "--phase",
                             "backward", env=self.env)
        self.assertNotIn("optimizer", part.splitlines()[0])
        self.assertIsNone(self.profile("t", "--phase", "backward")["split"])

    def part_is_told(self, whole):
        """With --phase, every sentence and share is about that phase."""
        found = self.profile("t", "--phase", "backward")
        wall = [p["wall_ms"] for p in whole["phases"]
                if p["phase"] == "backward"][0]
        self.assertEqual((whole["part"], found["part"]),
                         ("whole steps", "phase backward"))
        self.assertAlmostEqual(found["part_ms"] * found["steps"], wall,
                               delta=1e-6 * wall)
        kernels = sum(r["total_ms"] for r in found["rows"]
                      if r["calls"] > 0 and "(" not in r["kernel"])
        share = 100 * kernels / wall
        answers = found["answers"]
        self.assertGreater(kernels, 0)
        self.assertIn("By the wall clock, phase backward takes "
                      f"{found['part_ms']:.3f} ms per step", answers["forward"])
        self.assertIn(f"take {kernels / found['steps']:.3f} ms of this time "
                      f"({share:.1f}%)", answers["forward"])
        for key in "forward", "longest", "rest", "products", "attention":
            self.assertIn("phase backward", answers[key], key)
            self.assertNotIn("whole step", answers[key], key)
        text = self.call("profile", self.traces("t"), "--phase", "backward",
                         env=self.env)
        self.assertIn("Only phase backward: ", text.stdout)
        self.assertIn("Overlap of communication (of the whole step): ", text.stdout)

    def test_what_is_not_there(self):
        self.train("t", "--steps", "2", ranks=1)
        for flags, message in (
                (("--range", "lunch"), "do not contain the range 'lunch'"),
                (("--phase", "lunch"), "do not contain the phase 'lunch'"),
                (("--rank", "7"), "no steps after the warm-up on the selected rank"),
                (("--warmup", "2"), "no steps after the warm-up")):
            self.fails(1, message, "profile", self.traces("t"), *flags,
                       env=self.env)
        self.fails(2, "--range or --phase, not both", "profile",
                   self.traces("t"), "--range", "attention", "--phase",
                   "forward", env=self.env)
        self.fails(1, "contains no traces", "profile", self.folder,
                   env=self.env)

    def attention(self, method):
        done = self.call("bench", "attention", "--impl", method, "-l", "256",
                         "--head-size", "32", "--iterations", "3", "--threads", "1",
                         "--trace", self.traces(method))
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.profile(method, "--range", "attention")

    def test_softmax_and_products(self):
        naive, flash = self.attention("naive"), self.attention("flash")
        self.assertIn("softmax takes", naive["answers"]["attention"])
        # Of all calls: the benchmark has no steps.
        softmax = {r["kernel"]: r for r in naive["rows"]}["attention_softmax"]
        self.assertIn(f"takes {softmax['total_ms']:.3f} ms in total",
                      naive["answers"]["attention"])
        self.assertIn("ms in total in forward", flash["answers"]["attention"])
        # Five operations for a key against 2 d in each of two products.
        self.assertIn(f"are {5 / (4 * 32):.3f} times those of the products",
                      naive["answers"]["attention"])
        self.assertIn("one kernel computes softmax",
                      flash["answers"]["attention"])
        rows = {r["kernel"]: r for r in naive["rows"]}
        self.assertEqual(rows["gemm_f32"]["calls"],
                         2 * rows["attention_softmax"]["calls"])


class Layers(ProfileTest):
    """The products of layers, and the slow ones among them."""
    passes = "forward", "backward of data", "backward of weights"

    def work(self, row):
        return row["gflops"] * 1e9 * row["total_ms"] * 1e-3

    def test_rows(self):
        """One for each layer and pass, with the work of the shapes."""
        self.train("t", "--steps", "6")
        found = self.profile("t")
        rows = {(r["layer"], r["pass"]): r for r in found["layers"]}
        expected = {"lm_head": (256, 128)}
        for layer in range(3):
            for name in "q_proj", "k_proj", "v_proj", "output_proj":
                expected[f"layers.{layer}.attn.{name}"] = (128, 128)
            for name in "w1", "w3":
                expected[f"layers.{layer}.ffn.{name}"] = (256, 128)
            expected[f"layers.{layer}.ffn.w2"] = (128, 256)
        self.assertEqual(set(rows), {(name, way) for name in expected
                                     for way in self.passes})
        self.assertEqual(len(found["layers"]), len(rows))
        peak = found["peaks"]["f32_gflops"]
        for (name, _), row in rows.items():
            out, into = expected[name]
            # Five steps of two ranks; 2 m n k by hand.
            work = 10 * 2 * (4 * 64) * out * into
            self.assertEqual((row["weight"], row["type"], row["calls"]),
                             (f"{out}x{into}", "f32", 10))
            self.assertAlmostEqual(self.work(row), work, delta=1e-6 * work)
            self.assertAlmostEqual(row["of_product_rate"],
                                   100 * row["gflops"] / peak, places=6)
            self.assertAlmostEqual(
                row["gain_ms"],
                max(0, row["total_ms"] - work / (peak * 1e6)), places=6)
        gains = [r["gain_ms"] for r in found["layers"]]
        self.assertEqual(gains, sorted(gains, reverse=True))
        products = [r for r in found["rows"] if r["kernel"] == "gemm_f32"][0]
        self.assertAlmostEqual(sum(r["total_ms"] for r in found["layers"]),
                               products["total_ms"], places=6)
        forward = self.profile("t", "--phase", "forward")["layers"]
        self.assertEqual({r["pass"] for r in forward}, {"forward"})
        self.assertEqual(len(forward), len(expected))

    def test_slow_ones_are_named(self):
        """No product reaches this rate, so all are slow."""
        self.train("t", "--steps", "3", ranks=1)
        self.profile("t")
        file = os.path.join(self.folder, "lockstep", "peaks-1-threads.json")
        with open(file, encoding="utf-8") as stream:
            rates = json.load(stream)
        with open(file, "w", encoding="utf-8") as stream:
            json.dump({**rates, "f32": 1e15}, stream)
        text = self.succeeds("profile", self.traces("t"), "--force", "--rows",
                             "5", env=self.env)
        self.assertIn("Slow layers: 66 of 66 products of layers run below 80% "
                      "of the product rate", text.replace("\n", " "))
        table = text.split("| Layer ")[1].split("\n\n")[0].splitlines()[2:]
        layers = self.profile("t")["layers"]
        self.assertEqual(
            [[cell.strip() for cell in line.split("|")[1:4]] for line in table],
            [[r["layer"], r["weight"], r["pass"]] for r in layers[:5]])

    def test_convolutions(self):
        """2 n o c k k for each place; no gradient of the images is needed."""
        self.succeeds("train", "cifar100", "-q", "--no-save", "-e", "1",
                      "--limit", "128", "--threads", "1", "--trace",
                      self.traces("t"))
        found = self.profile("t", "--warmup", "0", "--phase", "backward")
        work = {}
        for row in found["layers"]:
            self.assertNotEqual(row["pass"], "forward")
            work[row["layer"], row["weight"], row["pass"]] = self.work(row)
        images = 64 * found["steps"]
        data, weights = self.passes[1:]
        conv1 = 2 * images * 32 * 3 * 9 * 30 * 30
        conv2 = 2 * images * 32 * 32 * 9 * 28 * 28
        expected = {("conv1", "32x3x3x3", weights): conv1}
        for way in data, weights:
            expected["conv2", "32x32x3x3", way] = conv2
            expected["fc1", "128x6272", way] = 2 * images * 6272 * 128
            expected["fc2", "100x128", way] = 2 * images * 128 * 100
        self.assertEqual(set(work), set(expected))
        for key, value in expected.items():
            self.assertAlmostEqual(work[key], value, delta=1e-6 * value)

    def test_a_trace_without_layers(self):
        self.succeeds("bench", "attention", "--impl", "naive", "-l", "64",
                      "--head-size", "16", "--iterations", "2", "--threads",
                      "1", "--trace", self.traces("t"))
        text = self.succeeds("profile", self.traces("t"), "--force",
                             env=self.env)
        self.assertIn("\nSlow layers: The trace names no layer of a product. ",
                      text)
        self.assertEqual(self.profile("t")["layers"], [])


class Ranks(ProfileTest):
    def test_a_slow_rank_is_named(self):
        """200 ms in one rank's backward, in 19 of 20 steps at least; on a busy
        machine, which slows others as well, it needs more to be the slowest."""
        self.with_more_time(lambda factor: self.slow_rank(200 * factor))

    def slow_rank(self, ms):
        done = self.call("run", "-n", "3", "--", SLOW_RANK, "21", "1", str(ms),
                         env=environment(LOCKSTEP_TRACE=self.traces("t"),
                                         OMP_NUM_THREADS=1))
        self.assertEqual(done.returncode, 0, done.stderr)
        found = self.profile("t")
        self.assertEqual(len(found["slowest"]), 20)
        named = [s for s in found["slowest"]
                 if (s["rank"], s["phase"]) == (1, "backward")]
        self.assertGreaterEqual(len(named), 19)
        # A busy machine may add to any one of them, and never takes away.
        took = sorted(step["phase_ms"] for step in named)
        self.assertGreaterEqual(took[0], ms - 1)
        self.assertLess(took[len(took) // 2], 2 * ms)
        self.assertIn("Rank 1 was the slowest in", found["answers"]["slowest"])
        self.assertIn("steps, mostly in 'backward': ", found["answers"]["slowest"])
        # Its own range, and where it lies.
        own = self.profile("t", "--range", "stumble", "--rank", "1")
        total = own["rows"][-1]["total_ms"]
        self.assertGreaterEqual(total, 20 * (ms - 1))
        self.assertLess(total, 20 * 2 * ms)

    def overlap(self, strategy):
        self.train(strategy, "--steps", "8", "--strategy", strategy)
        overlap = self.profile(strategy)["overlap"]
        self.assertGreaterEqual(overlap, 0)
        self.assertLessEqual(overlap, 1)
        return overlap

    def test_overlap(self):
        """Two traces, and the number that says the same.

        A rank may lose its CPU between the start of a collective and the
        wait for it, and then looks as if it had computed. A busy machine so changes
        both numbers: one undisturbed pair of five suffices.
        """
        pairs = []
        for _ in range(5):
            pairs.append((self.overlap("flat"), self.overlap("overlap")))
            flat, behind = pairs[-1]
            if flat < 0.5 and behind > flat + 0.2:
                return
        self.fail(f"flat and overlap: {pairs}")

    def test_one_rank(self):
        self.train("t", "--steps", "3", ranks=1)
        found = self.profile("t")
        self.assertEqual(found["slowest"], [])
        self.assertEqual(found["answers"]["slowest"], "The run has only one rank.")
        # Its collectives, if there are any, hide nothing behind computation.
        self.assertIsNone(found["overlap"])
        self.assertEqual(found["answers"]["overlap"],
                         "The run has only one rank, so it does not communicate.")
        self.assertNotIn("other ranks", found["answers"]["forward"])

    def test_one_of_two_ranks(self):
        """It communicates, but there is nobody to compare it with."""
        self.train("t", "--steps", "3")
        found = self.profile("t", "--rank", "1")
        self.assertGreaterEqual(found["overlap"], 0)
        self.assertIn("of communication. In a step, collectives", found["answers"]["overlap"])
        self.assertEqual(found["answers"]["slowest"],
                         "The profile contains the steps of only one of 2 ranks.")
        self.assertIn("waiting for other ranks", found["answers"]["forward"])


class Peaks(ProfileTest):
    def peaks(self, *flags):
        return self.profile("t", "--threads", "1", *flags)["peaks"]

    def kept(self):
        with open(self.file, encoding="utf-8") as file:
            return json.load(file)

    def keep(self, **rates):
        """As if they had been measured, which takes the rest from the file."""
        rates = {**self.kept(), **rates}
        with open(self.file, "w", encoding="utf-8") as file:
            json.dump(rates, file)

    def test_they_are_kept(self):
        self.file = os.path.join(self.folder, "lockstep", "peaks-1-threads.json")
        self.train("t", "--steps", "3", ranks=1)
        first = self.peaks()
        self.assertEqual((first["threads"], first["kept_in"]), (1, self.file))
        for name in "f32_gflops", "bf16_gflops", "gb_per_s":
            self.assertGreater(first[name], 0)
        self.assertAlmostEqual(self.kept()["f32"] * 1e-9, first["f32_gflops"],
                               places=6)
        # No product is as fast as this, so it is believed.
        high = {"f32": 1e15, "bf16": 2e15, "bytes": 1e3}
        self.keep(**high)
        found = self.peaks()
        self.assertAlmostEqual(found["f32_gflops"], 1e6, places=3)
        self.assertAlmostEqual(found["gb_per_s"], 1e-6, places=9)
        self.assertEqual({key: self.kept()[key] for key in high}, high)
        date = time.strftime("%Y-%m-%d", time.localtime(found["measured"]))
        self.keep(others_cpus=0)
        self.assertIn(f"Measured {date} on this machine (1 thread), kept "
                      f"in {self.file}\n", self.succeeds(
                          "profile", self.traces("t"), "--threads", "1",
                          env=self.env))
        # All products are faster than that, so it is measured again, and what
        # was higher stays.
        self.keep(f32=1.0)
        found = self.peaks()
        self.assertGreater(found["f32_gflops"], 1e-3)
        self.assertLess(found["f32_gflops"], 1e6)
        self.assertGreater(found["gb_per_s"], 1e-6)
        self.assertAlmostEqual(found["bf16_gflops"], 2e6, places=3)
        self.assertAlmostEqual(self.kept()["f32"] * 1e-9, found["f32_gflops"],
                               places=6)
        # Nothing stays of what was kept when that is asked for.
        self.keep(**high)
        self.assertLess(self.peaks("--measure")["f32_gflops"], 1e6)
        # Old files, those of another machine, and invalid JSON are not used.
        month = 31 * 24 * 60 * 60
        self.keep(**high, measured=self.kept()["measured"] - month)
        self.assertLess(self.peaks()["f32_gflops"], 1e6)
        self.assertLess(time.time() - self.kept()["measured"], 600)
        for name in "kernel", "allowed_cpus":
            self.keep(**high, machine={**self.kept()["machine"], name: "other"})
            self.assertLess(self.peaks()["f32_gflops"], 1e6, name)
        with open(self.file, "w", encoding="utf-8") as file:
            file.write("{")
        self.assertGreater(self.peaks()["f32_gflops"], 0)

    def test_they_are_those_of_the_run(self):
        """With its threads; other instructions are named."""
        self.succeeds(*LM, "-n", "1", "--steps", "3", "--trace",
                      self.traces("t"), env=environment(LOCKSTEP_ISA="ref"))
        found = self.succeeds("profile", self.traces("t"), "--force",
                              "--json=rates.json", env=self.env,
                              cwd=self.folder)
        with open(os.path.join(self.folder, "rates.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file)["peaks"]["threads"], 1)
        isa = self.kept_isa()
        self.assertEqual("The run used the instruction set ref, and the peak "
                         f"rates are those of {isa}." in found.replace("\n", " "), isa != "ref")

    def kept_isa(self):
        with open(os.path.join(self.folder, "lockstep", "peaks-1-threads.json"),
                  encoding="utf-8") as file:
            return json.load(file)["machine"]["isa"]

    def test_a_busy_machine_is_not_measured(self):
        """Then the table is there without the column of the roofline."""
        self.train("t", "--steps", "3", ranks=1)
        why = "must measure the peak rates of this machine, because '"
        with busy_machine():
            text = self.succeeds("profile", self.traces("t"), env=self.env)
            self.assertIn("\nNo roofline: " + why, text)
            self.assertIn("| gemm_f32 ", text)
            self.assertIn("\nSlow layers: The peak rates are unknown, ", text)
            found = json.loads(self.succeeds("profile", self.traces("t"),
                                             "--json", env=self.env))
            self.assertIsNone(found["peaks"])
            for row in found["rows"]:
                self.assertIsNone(row["of_roofline"])
            for row in found["layers"]:
                self.assertIsNone(row["of_product_rate"])
            self.assertEqual(os.listdir(self.folder), ["t"])
            self.fails(1, "peak rates of this machine, because --measure is "
                       "given, but other processes use", "profile", self.traces("t"), "--measure",
                       env=self.env)
            self.assertGreater(self.peaks()["others_cpus"], 0)
        self.assertIn("lockstep", os.listdir(self.folder))


if __name__ == "__main__":
    unittest.main()
