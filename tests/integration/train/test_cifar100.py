"""lockstep train cifar100: what it prints, writes and learns."""

import os
import re
import tempfile
import unittest

import files
from program import LOCKSTEP, ProgramTest

KEYS = ["event", "epoch", "train_loss", "train_accuracy", "train_seconds",
        "waited_seconds", "images_per_second", "val_loss", "val_accuracy", "peak_bytes",
        "collectives", "ranks"]
RANK_KEYS = ["rank", "train_loss", "train_accuracy", "train_seconds", "waited_seconds",
             "images_per_second", "val_loss", "val_accuracy", "peak_bytes"]

SHAPES = {
    "conv1.weight": [32, 3, 3, 3], "conv1.bias": [32],
    "conv2.weight": [32, 32, 3, 3], "conv2.bias": [32],
    "fc1.weight": [128, 6272], "fc1.bias": [128],
    "fc2.weight": [100, 128], "fc2.bias": [100],
    "bn1.running_mean": [128], "bn1.running_var": [128],
}


class TrainTest(ProgramTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def train(self, *words, env=None):
        done = self.call("train", "cifar100", "--threads", "1", *words,
                         env=env)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def saved(self, name, *words):
        path = self.path(name)
        self.train(*words, "--save", path)
        with open(path, "rb") as file:
            return file.read()


class Output(TrainTest):
    def test_metrics(self):
        path = self.path("metrics.jsonl")
        self.train("-n", "2", "--limit", "64", "--epochs", "2", "--batch-size",
                   "8", "--accumulate", "2", "--metrics", path)
        lines = files.read_lines(path)
        self.assertEqual([line["epoch"] for line in lines], [1, 2])
        for line in lines:
            self.assertEqual(list(line), KEYS)
            self.assertEqual(line["event"], "epoch")
            self.assertGreater(line["train_loss"], 3)
            self.assertGreater(line["val_loss"], 3)
            self.assertTrue(0 <= line["train_accuracy"] <= 1)
            self.assertTrue(0 <= line["val_accuracy"] <= 1)
            self.assertAlmostEqual(
                line["images_per_second"] * line["train_seconds"], 64, 3)
            # Parameters, gradients and momentum of 825,988 floats, at least.
            self.assertGreater(line["peak_bytes"], 3 * 4 * 825988)
            # 4 micro-steps: 2 steps, 8 of batch norm, 1 of totals; then
            # 2 buffers, indices, totals, the slowest rank's time, and twice
            # whether all is well.
            self.assertEqual(line["collectives"], 2 + 8 + 1 + 2 + 3 + 2)
            self.check_ranks(line, (504, 496))

    def check_ranks(self, line, validated):
        """All ranks together are what the line says of all, by hand."""
        n = len(validated)
        ranks = line["ranks"]
        self.assertEqual([r["rank"] for r in ranks], list(range(n)))
        for rank in ranks:
            self.assertEqual(list(rank), RANK_KEYS)
        # Ranks have as many images each in training, whole batches in validation.
        for key in ("train_loss", "train_accuracy"):
            self.assertAlmostEqual(sum(r[key] for r in ranks) / n, line[key], 9)
        self.check_validated(line, validated)
        self.assertNotEqual(ranks[0]["val_loss"], ranks[1]["val_loss"])
        for key in ("train_seconds", "waited_seconds", "peak_bytes"):
            self.assertEqual(max(r[key] for r in ranks), line[key])
        for rank in ranks:
            self.assertAlmostEqual(rank["images_per_second"] * rank["train_seconds"],
                                   64 / n, 3)

    def test_metrics_of_uneven_shares(self):
        """3 ranks: 125 batches to validate are 42, 42 and 41."""
        path = self.path("metrics.jsonl")
        self.train("-n", "3", "--limit", "48", "--epochs", "1", "--batch-size",
                   "8", "--metrics", path)
        line, = files.read_lines(path)
        self.check_validated(line, (336, 336, 328))

    def check_validated(self, line, images):
        for key in ("val_loss", "val_accuracy"):
            mean = sum(n * r[key] for n, r in zip(images, line["ranks"]))
            self.assertAlmostEqual(mean / 1000, line[key], 9)

    def test_summary_and_log(self):
        done = self.train("-n", "2", "--limit", "32", "--epochs", "3",
                          "--batch-size", "16", "--sync-bn", "gathered")
        header, rule, row = done.stdout.splitlines()
        cells = [cell.strip() for cell in header.strip("|").split("|")]
        self.assertEqual(cells, [
            "SyncBatchNorm", "Ranks", "Epochs", "Final validation accuracy",
            "Mean peak memory (MB)", "Mean epoch time (s)"])
        values = [cell.strip() for cell in row.strip("|").split("|")]
        self.assertEqual(values[:3], ["gathered", "2", "3"])
        epochs = [line for line in done.stderr.splitlines()
                  if re.match(r"epoch \d/3: loss", line)]
        self.assertEqual(len(epochs), 3, done.stderr)
        self.assertNotIn("\r", done.stderr)
        self.assertIn("32 images to train, 1000 to validate", done.stderr)

    def test_model(self):
        path = self.path("model.safetensors")
        self.train("-n", "2", "--limit", "16", "--epochs", "1", "--seed", "3",
                   "--save", path)
        header, tensors = files.read_safetensors(path)
        self.assertEqual({name: row["shape"] for name, row in header.items()
                          if name != "__metadata__"}, SHAPES)
        self.assertEqual(sum(len(tensors[name]) for name in SHAPES
                             if "running" not in name), 4 * 825988)
        self.assertEqual(header["__metadata__"]["epochs"], "1")
        self.assertEqual(header["__metadata__"]["seed"], "3")
        self.assertEqual(os.listdir(self.folder), ["model.safetensors"])


class Training(TrainTest):
    flags = ("--limit", "96", "--epochs", "2", "--batch-size", "8")

    def test_runs_repeat(self):
        for n in ("1", "3"):
            first = self.saved("a", "-n", n, *self.flags)
            self.assertEqual(first, self.saved("b", "-n", n, *self.flags))
            other = self.saved("c", "-n", n, *self.flags, "--seed", "1")
            self.assertNotEqual(first, other)

    def test_prefetch_and_strategy_change_nothing(self):
        flags = ("-n", "2", "--limit", "48", "--epochs", "1",
                 "--batch-size", "8", "--accumulate", "2")
        plain = self.saved("a", *flags)
        for ways in (("--prefetch", "3", "--strategy", "naive"),
                     ("--strategy", "overlap"),
                     ("--strategy", "bucketed", "--bucket-mb", "0.04"),
                     ("--strategy", "zero1", "--bucket-mb", "1"),
                     ("--strategy", "shared"),
                     ("--strategy", "fsdp", "--bucket-mb", "0.04"),
                     ("--strategy", "fsdp", "--prefetch", "3")):
            with self.subTest(ways=ways):
                self.assertEqual(plain, self.saved("b", *flags, *ways))

    def test_learns(self):
        path = self.path("metrics.jsonl")
        self.train("-n", "2", "--limit", "1000", "--epochs", "4",
                   "--batch-size", "16", "--metrics", path)
        lines = files.read_lines(path)
        self.assertLess(lines[-1]["val_loss"], lines[0]["val_loss"] - 0.1)
        self.assertGreater(lines[-1]["val_accuracy"], 0.05)

    def test_many_ranks(self):
        for n, limit in (("8", "64"), ("32", "64")):
            path = self.path(n)
            self.train("-n", n, "--limit", limit, "--epochs", "1",
                       "--batch-size", "1", "--metrics", path)
            self.assertEqual(len(files.read_lines(path)), 1)

    def test_local_statistics(self):
        path = self.path("metrics.jsonl")
        self.train("-n", "2", "--limit", "32", "--epochs", "1", "--batch-size",
                   "8", "--sync-bn", "off", "--metrics", path)
        # As in test_metrics, with 2 steps and no batch norm.
        self.assertEqual(files.read_lines(path)[0]["collectives"],
                         2 + 1 + 2 + 3 + 2)

    def test_under_another_launcher(self):
        words = ("train", "cifar100", "--limit", "32", "--epochs", "1")
        done = self.call("run", "-n", "2", "--", LOCKSTEP, *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("| fused"), 1)
        done = self.call("run", "-n", "2", "--", LOCKSTEP, *words, "-n", "3")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("-n 3", done.stderr)


class Recipe(TrainTest):
    def differ(self, base, *flags):
        """Each flag, added to the others, leads to another model."""
        short = ("--limit", "32", "--epochs", "1", "--batch-size", "8")
        seen = {self.saved("model", *short, *base)}
        for name, value in flags:
            with self.subTest(flag=name):
                model = self.saved("model", *short, *base, name, value)
                self.assertNotIn(model, seen)
                seen.add(model)

    def test_every_flag_matters(self):
        self.differ((), ("--lr", "0.02"), ("--momentum", "0.9"),
                    ("--weight-decay", "0.1"), ("--warmup-steps", "2"),
                    ("--schedule", "cosine"), ("--clip-norm", "0.01"),
                    ("--optimizer", "adamw"), ("--dtype", "bf16"),
                    ("--dtype", "f16"))
        self.differ(("--optimizer", "adamw", "--schedule", "cosine"),
                    ("--lr", "0.002"), ("--beta1", "0.5"),
                    ("--beta2", "0.9"), ("--eps", "0.01"),
                    ("--weight-decay", "0.1"), ("--min-lr", "0.0005"))

    def test_the_usual(self):
        flags = ("-n", "2", "--limit", "32", "--epochs", "1")
        self.assertEqual(
            self.saved("a", *flags),
            self.saved("b", *flags, "--optimizer", "sgd", "--lr", "0.01",
                       "--schedule", "constant", "--clip-norm", "1e9"))

    def test_adamw_learns(self):
        path = self.path("metrics.jsonl")
        self.train("-n", "2", "--limit", "1000", "--epochs", "3",
                   "--batch-size", "16", "--optimizer", "adamw", "--schedule",
                   "cosine", "--warmup-steps", "10", "--clip-norm", "1",
                   "--metrics", path)
        lines = files.read_lines(path)
        self.assertLess(lines[-1]["val_loss"], lines[0]["val_loss"] - 0.1)
        self.assertGreater(lines[-1]["val_accuracy"], 0.05)


class Data(TrainTest):
    def test_folder_and_archive(self):
        folder = files.write_folder(self.path("data"), files.records(70, 1),
                                    files.records(13, 2))
        archive = files.write_archive(self.path("data.tar.gz"), folder)
        flags = ("-n", "2", "--epochs", "1", "--batch-size", "8")
        done = self.train(*flags, "--data", folder)
        self.assertIn("70 images to train, 13 to validate", done.stderr)
        self.assertEqual(self.saved("a", *flags, "--data", folder),
                         self.saved("b", *flags, "--data", archive))
        done = self.train(*flags, "--data", archive, "--limit", "20")
        self.assertIn("20 images to train, 13 to validate", done.stderr)


if __name__ == "__main__":
    unittest.main()
