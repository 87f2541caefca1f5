"""lockstep plan: its figures as JSON and as text, flags that make no sense."""
import json
import os
import tempfile
import time
import unittest

from program import ProgramTest, busy_machine, environment


# So that nothing is measured.
DEVICE = ("--tflops", "1", "--device-gbps", "20")


class Plan(ProgramTest):
    def plan(self, *words):
        return json.loads(self.succeeds("plan", *words, "--json"))

    def test_communication(self):
        plan = self.plan("--preset", "communication-accounting")
        self.assertEqual(plan["preset"], "communication-accounting")
        self.assertEqual((plan["parameters"], plan["state_bytes"],
                          plan["devices"], plan["sharded_devices"]),
                         (219848638464, 3517578215424, 44, 38))
        self.assertEqual((round(plan["state_gb"], 1),
                          round(plan["tokens_per_device"], 1),
                          round(plan["tokens_overall"])),
                         (3517.6, 319.4, 20444))
        self.assertEqual(len(plan["smaller_batch_options"]), 6)

    def test_other_numbers(self):
        plan = self.plan("--preset", "communication-accounting", "--d-model",
                         "1000", "--d-ff", "4000", "--layers", "10",
                         "--device-gb", "0.64")
        self.assertEqual(plan["parameters"], 80000000)
        self.assertEqual(plan["devices"], 2)

    def test_sharding(self):
        plan = self.plan("--preset", "sharding-accounting")
        self.assertEqual((plan["model"], plan["parameters"], plan["ranks"]),
                         ("xl", 1998235200, 2))
        gib = {(row["sharding"], row["moment"]):
               round(row["total"] / 2 ** 30, 2) for row in plan["rows"]}
        self.assertEqual([gib["none", moment] for moment in
                          ("init", "before_step", "after_step")],
                         [7.44, 14.89, 29.78])
        self.assertEqual([gib["state", moment] for moment in
                          ("init", "before_step", "after_step")],
                         [7.44, 14.89, 22.33])
        small = self.plan("--preset", "sharding-accounting", "--size",
                          "small", "-n", "4")
        self.assertEqual(small["parameters"], 128625408)

    def test_text(self):
        for preset, texts in (
                ("communication-accounting", ("219848638464", "3517.6",
                                              "20444.4", "319.4")),
                ("sharding-accounting", ("1998235200 parameters", "22.33"))):
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "plan.json")
                out = self.succeeds("plan", "--preset", preset, "--json=" + path)
                with open(path, encoding="utf-8") as file:
                    self.assertEqual(json.load(file)["preset"], preset)
            for text in texts:
                self.assertIn(text, out)
            self.assertLessEqual(max(len(line) for line in out.splitlines()
                                     if line.startswith("|")), 100)

    def test_model(self):
        plan = self.plan("--size", "small", "-n", "4", "--strategy", "zero1",
                         "--batch-size", "2", "--context", "256", *DEVICE)
        self.assertEqual((plan["model"], plan["strategy"], plan["ranks"]),
                         ("small", "zero1", 4))
        parameters = 128625408
        self.assertEqual((plan["parameters"], plan["parameter_bytes"],
                          plan["gradient_bytes"], plan["state_bytes"]),
                         (parameters, 4 * parameters, 4 * parameters,
                          2 * parameters))
        kept = 12 * (8 * 768 + 3 * 3072 + 12 + 2)
        besides = 2 * 10000 + 3 * 3072 + 7 * 768
        self.assertEqual(plan["activation_bytes"],
                         4 * 2 * 256 * (kept + besides))
        self.assertEqual(plan["total_bytes"], sum(
            plan[kind + "_bytes"] for kind in
            ("parameter", "gradient", "state", "activation", "other")))
        one_copy = self.plan("--size", "small", "-n", "8", "--strategy", "fsdp",
                             "--bucket-mb", "1", "--batch-size", "1", "--context",
                             "8", *DEVICE)
        self.assertEqual(one_copy["node_bytes"], 8 * one_copy["total_bytes"])
        half = self.plan("--size", "tiny", "--dtype", "bf16", "--layers",
                         "2", "--vocab-size", "500", *DEVICE)
        block = 4 * 256 * 256 + 3 * 256 * 1024
        self.assertEqual(half["parameter_bytes"],
                         4 * half["parameters"] + 2 * (2 * block + 500 * 256))

        self.assertFalse(plan["calibrated"])
        forward = plan["forward_seconds"]
        products = parameters - 10000 * 768 - 25 * 768
        tokens = 2 * 256
        self.assertAlmostEqual(
            forward, (2 * products + 2 * 12 * 768 * 256) * tokens / 1e12 +
            3 * plan["activation_bytes"] / 20e9)
        self.assertEqual((plan["buckets"], plan["collectives"]), (1, 4))
        self.assertEqual(plan["rank_sent_bytes"], 8 * parameters * 3 // 4)

    def test_sweep(self):
        flags = ("--size", "10B", "--strategy", "zero1", "--bucket-mb", "25",
                 "--ranks-per-node", "8", "--link-gbps", "50", "--link-us",
                 "3", *DEVICE)
        rows = self.plan(*flags, "--sweep", "ranks=1..4096")["rows"]
        self.assertEqual([row["ranks"] for row in rows],
                         [2 ** i for i in range(13)])
        self.assertEqual([row["nodes"] for row in rows],
                         [1] * 4 + [2 ** i for i in range(1, 10)])
        for less, more in zip(rows, rows[1:]):
            self.assertLess(more["state_bytes"], less["state_bytes"])
            self.assertLess(less["tokens_per_second"],
                            more["tokens_per_second"])
        for row in rows[4:]:  # both ways over the link, but for one's own
            nodes = row["nodes"]
            self.assertAlmostEqual(
                row["node_sent_bytes"],
                8 * row["parameters"] * (nodes - 1) / nodes,
                delta=1e-6 * row["node_sent_bytes"])
        text = self.succeeds("plan", *flags, "--sweep", "ranks=2,8,24")
        self.assertEqual(len(text.splitlines()), 5)
        self.fails(2, "12 ranks do not fill nodes of 8", "plan", *flags,
                   "--sweep", "ranks=4,12")
        for sweep in ("4..8", "ranks=8..4", "ranks=0..4", "ranks=", "ranks=a"):
            self.fails(2, "--sweep", "plan", *flags, "--sweep", sweep)

    def measured(self, cache):
        """The file of rates that a plan has measured; it is not believed."""
        env = environment(XDG_CACHE_HOME=cache)
        self.succeeds("plan", "--size", "tiny", "--force", env=env)
        folder = os.path.join(cache, "lockstep")
        path, = (os.path.join(folder, name) for name in os.listdir(folder))
        return path

    def change(self, path, days=0, **rates):
        """As if they had been measured so on an idle machine, before."""
        with open(path, encoding="utf-8") as file:
            kept = json.load(file)
        kept.update(f32=2e15, bf16=4e15, bytes=5e12, others_cpus=0)
        kept.update(rates, measured=kept["measured"] - days * 24 * 60 * 60)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(kept, file)
        return kept["measured"], time.strftime(
            "%Y-%m-%d", time.localtime(kept["measured"]))

    def test_where_rates_come_from(self):
        """From a file that has them measured, and nowhere else."""
        words = "--size", "tiny", "-n", "2"
        with tempfile.TemporaryDirectory() as cache:
            env = environment(XDG_CACHE_HOME=cache)
            path = self.measured(cache)
            measured, date = self.change(path, days=10)
            threads = int(path.split("-")[-2])
            line = ("Peak rates of this machine: 2000000.0 GFLOP/s in f32, 4000000.0 GFLOP/s in bf16, "
                    f"5000.0 GB/s over 64 MiB. Measured {date} on this machine ({threads} "
                    f"thread{'' if threads == 1 else 's'}), kept in {path}")
            for flags in words, (*words[:2], "--sweep", "ranks=1..2"):
                self.assertIn(line, self.succeeds(
                    "plan", *flags, env=env).splitlines())
                plan = json.loads(self.succeeds("plan", *flags, "--json",
                                                env=env))
                self.assertEqual(plan["rates"], {
                    "threads": threads, "measured": measured,
                    "others_cpus": 0, "kept_in": path, "f32_gflops": 2e6,
                    "bf16_gflops": 4e6, "gb_per_s": 5e3})
            text = self.succeeds("plan", *words, *DEVICE, env=env)
            self.assertNotIn("Rates", text)
        self.assertIsNone(self.plan(*words, *DEVICE)["rates"])
        text = self.succeeds("plan", *words, "--force", env=environment(
            XDG_CACHE_HOME="/proc/nonexistent"))
        self.assertIn("not kept (cannot write '/proc/nonexistent/", text)

    def test_a_busy_machine_is_not_measured(self):
        words = "plan", "--size", "tiny"
        with tempfile.TemporaryDirectory() as cache, busy_machine():
            env = environment(XDG_CACHE_HOME=cache)
            done = self.fails(1, "must measure the peak rates of this machine, "
                              f"because '{cache}/lockstep/peaks-", *words,
                              env=env)
            self.assertRegex(
                done.stderr, r"other processes use \d+\.\d of the \d+ CPUs\. Wait "
                "until they end, or give --force, or give the rates with --tflops")
            self.assertEqual(os.listdir(cache), [])
            for flag in "--calibrate", "--verify":
                self.fails(1, f"must measure steps of the model, because {flag} "
                           "is given, but other processes use", *words, flag, env=env)
            self.succeeds(*words, *DEVICE, env=env)

            path = self.measured(cache)
            text = self.succeeds(*words, "--force", env=env)
            self.assertRegex(text, r"\nPeak rates of this machine: .* GB/s over 64 MiB\. Measured [-\d]+ on this machine "
                             r"\(\d+ threads?\) while other processes used "
                             r"\d+\.\d of the \d+ CPUs, kept in " + path)
            done = self.fails(1, "because the rates of ", *words, env=env)
            self.assertIn(" were measured while other processes used ",
                          done.stderr)

            self.change(path)
            self.assertIn("2000000.0 GFLOP/s",
                          self.succeeds(*words, env=env))
            _, date = self.change(path, days=31)
            self.fails(1, f"because the rates of {date} are more than 30 days old", *words,
                       env=env)

    def test_pages(self):
        words = ("--size", "tiny", "-n", "2", "--bucket-mb", "10")
        shared = self.plan(*words, "--strategy", "shared", *DEVICE)
        fsdp = self.plan(*words, "--strategy", "fsdp", *DEVICE)
        self.assertNotIn("pages", shared)
        self.assertEqual(fsdp["pages"], 9316608 * 4 // 2 // 4096)
        self.assertAlmostEqual(fsdp["page_seconds"],
                               9316608 * 2 / 4096 * 3e-6)
        self.assertAlmostEqual(fsdp["step_seconds"], shared["step_seconds"] +
                               fsdp["page_seconds"])
        with tempfile.TemporaryDirectory() as cache:
            here = json.loads(self.succeeds(
                "plan", *words, "--strategy", "fsdp", "--force", "--json",
                env=environment(XDG_CACHE_HOME=cache)))
        self.assertGreater(here["page_us"], 0.05)
        self.assertLess(here["page_us"], 100)

    def test_calibrated(self):
        """Real steps of two ranks; how long they take is not looked at."""
        plan = self.plan("--size", "tiny", "-n", "2", "--calibrate",
                         "--force", "--batch-size", "1", "--context", "8")
        self.assertTrue(plan["calibrated"])
        self.assertEqual(plan["model"], "tiny")
        for name in ("forward", "backward", "optimizer", "communication"):
            self.assertGreater(plan[name + "_seconds"], 0)
        self.assertGreater(plan["step_seconds"], plan["forward_seconds"] +
                           plan["backward_seconds"] +
                           plan["optimizer_seconds"])

    def test_calibrated_of_another_shape(self):
        small = ("--layers", "1", "--d-model", "32", "--heads", "2", "--d-ff",
                 "48", "--vocab-size", "64")
        plan = self.plan("--size", "tiny", "-n", "2", "--calibrate",
                         "--force", "--batch-size", "1", "--context", "8",
                         *small)
        self.assertEqual(plan["model"], "1x32")
        whole = self.plan("--size", "tiny", "-n", "2", "--calibrate",
                          "--force", "--batch-size", "1", "--context", "8")
        # A hundredth of the parameters, of which AdamW reads and writes all.
        self.assertLess(plan["optimizer_seconds"],
                        whole["optimizer_seconds"] / 4)
        self.assertGreater(plan["best_bucket_mb"], 0)

    def test_sizes(self):
        rows = {row["model"]: row for row in
                self.plan("--size", "all", "--device-gb", "20")["rows"]}
        self.assertEqual(list(rows), ["tiny", "small", "medium", "large", "xl",
                                      "2.7B", "10B", "gpt2"])
        self.assertEqual(rows["10B"]["parameters"], 12832823808)
        self.assertEqual([rows[name]["fits"] for name in
                          ("tiny", "large", "xl")], [1, 1, 0])
        out = self.succeeds("plan", "--size", "all", "--device-gb", "20")
        self.assertIn("1998235200", out)
        self.assertIn("at most 20.0 GB", out)

    def test_mistakes(self):
        for message, *flags in (
                ("choose what to calculate",),
                ("is not one of communication", "--preset", "sharding"),
                ("cannot be used with --preset sharding-accounting", "--preset",
                 "sharding-accounting", "--tokens", "4"),
                ("cannot be used with --preset communication-accounting",
                 "--preset", "communication-accounting", "-n", "4"),
                ("out of range", "--preset", "communication-accounting",
                 "--tflops", "0")):
            self.fails(2, message, "plan", *flags)
        for message, *flags in (
                ("unknown model size 'huge'; choose one of: tiny", "huge"),
                ("cannot plan 4 ranks on 3 nodes", "tiny", "-n", "4", "--nodes",
                 "3"),
                ("unknown strategy 'x'; choose one of: naive", "tiny",
                 "--strategy", "x"),
                ("--bucket-mb 4 cannot be used with --strategy flat", "tiny",
                 "--bucket-mb", "4"),
                ("--heads 4 does not divide --d-model 255", "tiny", "--d-model",
                 "255")):
            self.fails(2, message, "plan", "--size", *flags)
        self.fails(2, "cannot be used with --preset", "plan", "--preset",
                   "sharding-accounting", "--force")
        for words in (("--size", "tiny"), ("--verify",)):
            self.fails(2, "--tokens can only be used with --preset", "plan", *words,
                       "--tokens", "4")
        for message, *flags in (
                ("must be given together", "tiny", "--tflops", "1"),
                ("out of range", "tiny", "--link-gbps", "0"),
                ("another machine", "tiny", "--calibrate", *DEVICE),
                ("named sizes", "tiny", "--verify", "--layers", "2"),
                ("leave --force out", "tiny", "--force", *DEVICE),
                ("leave --force out", "all", "--force"),
                ("cannot measure --activation-checkpointing", "tiny", "--verify", "--activation-checkpointing"),
                ("leave --ranks", "tiny", "--sweep", "ranks=2", "-n", "2"),
                ("needs --sweep", "tiny", "--ranks-per-node", "2"),
                ("chooses ranks", "tiny", "--verify", "-n", "2"),
                ("also need times; give one size", "all", "--calibrate")):
            self.fails(2, message, "plan", "--size", *flags)
        self.fails(2, "out of range", "plan", "--size", "tiny", "-n", "0")
        self.fails(2, "unknown model size 'huge'", "plan", "--preset",
                   "sharding-accounting", "--size", "huge")
        self.fails(1, "/proc/nonexistent/x", "plan", "--preset",
                   "sharding-accounting", "--json=/proc/nonexistent/x")


if __name__ == "__main__":
    unittest.main()
