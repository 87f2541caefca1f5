"""lockstep train cifar100 when something is wrong: one line, nothing left."""

import os
import signal
import tempfile
import time
import unittest

import files
from program import (LOCKSTEP, ProgramTest, children, environment, is_running,
                     wait_until)


class FailureTest(ProgramTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def refuses(self, status, message, *words):
        """With one rank and with several: one line, and no file appears."""
        before = sorted(os.listdir(self.folder))
        for ranks in ((), ("-n", "2")):
            self.fails(status, message, "train", "cifar100", "--threads", "1",
                       "--limit", "16", "--epochs", "1", *ranks, *words)
            self.assertEqual(sorted(os.listdir(self.folder)), before)


class Usage(FailureTest):
    def test_flags(self):
        for message, words in (
                ("--batch-size", ("--batch-size", "-4")),
                ("--batch-size", ("--batch-size", "0")),
                ("--epochs", ("--epochs", "many")),
                ("--lr", ("--lr", "0")),
                ("--momentum", ("--momentum", "1")),
                ("sgd|adamw|lion", ("--optimizer", "lamb")),
                ("constant|cosine|linear", ("--schedule", "spiral")),
                ("--clip-norm", ("--clip-norm", "-1")),
                ("--warmup-steps", ("--warmup-steps", "-1")),
                ("--beta2", ("--beta2", "1")),
                ("--eps", ("--eps", "0")),
                ("fused|gathered|off", ("--sync-bn", "fast")),
                ("naive|flat|overlap|bucketed|owners|zero1|shared|fsdp", ("--strategy", "ring")),
                ("--bucket-mb 0 is out of range", ("--bucket-mb", "0")),
                ("--bucket-mb -1 is out of range", ("--bucket-mb", "-1")),
                ("not a finite number", ("--bucket-mb", "nan")),
                ("--bucket-mb 1 cannot be used with --strategy flat", ("--bucket-mb", "1")),
                ("--epochs", ("--epoch", "3")),
                ("--accumulate", ("--accumulate", "0")),
                ("'extra'; --data PATH gives the data", ("extra",))):
            with self.subTest(words=words):
                self.fails(2, message, "train", "cifar100", *words)

    def test_ranks(self):
        self.fails(2, "-n", "train", "cifar100", "-n", "0")
        self.fails(2, "-n", "train", "cifar100", "-n", "-2")

    def test_unknown_model(self):
        self.fails(2, "lockstep train images --data PATH", "train", "cifar10")


class Recipe(FailureTest):
    def test_rates_that_rise(self):
        self.refuses(1, "--min-lr 0.2 is above --lr 0.1", "--schedule", "cosine", "--lr",
                     "0.1", "--min-lr", "0.2")


class Ranks(FailureTest):
    """Each rank is started with its own flags, by a shell."""

    def differ(self, ranks, job, name, first, last):
        """The last rank has another value of a flag; "" leaves the flag out."""
        words = [f"{name} {value}".strip() for value in (first, last)]
        script = (f'if [ $RANK = {ranks - 1} ]; then set -- {words[1]}; '
                  f'else set -- {words[0]}; fi; exec {LOCKSTEP} train {job} '
                  '--threads 1 --no-save "$@"')
        return self.call("run", "-n", str(ranks), "--", "sh", "-c", script,
                         cwd=self.folder).stderr

    def test_settings(self):
        lm = ("lm --layers 1 --d-model 16 --heads 2 --d-ff 16 --context 8 "
              "--validate-every 0")
        images = "cifar100 --limit 16"
        for ranks, job, name, first, last in (
                (2, lm, "--lr", "0.1", "0.2"), (3, lm, "--steps", "5", "6"),
                (2, lm, "--batch-size", "2", "3"),
                (2, lm, "--strategy", "flat", "auto"),
                (3, images, "--epochs", "1", "2")):
            with self.subTest(name=name, first=first):
                self.assertIn(
                    "all ranks must have the same training settings, but rank "
                    f"0 has {name} {first} and rank {ranks - 1} has {name} "
                    f"{last}\n",
                    self.differ(ranks, job, name, first, last))
        self.assertIn("rank 0 has --checkpoint-dir none and rank 1 has "
                      "--checkpoint-dir given\n",
                      self.differ(2, lm, "", "", "--checkpoint-dir c --resume"))

    def test_rank_once(self):
        """The rank that failed is named, and not the one that prints it."""
        lm = "lm --layers 1 --d-model 16 --heads 2 --d-ff 16 --context 8"
        for first, last, rank in (("", "--data none", 1),
                                  ("--data none", "", 0)):
            self.assertIn(f"lockstep: train lm: rank {rank}: cannot open "
                          "'none'", self.differ(2, lm, "", first, last))

    def test_other_settings(self):
        """Those that change no result may differ."""
        said = self.differ(2, "lm --steps 2 --size tiny", "", "",
                           "--activation-checkpointing --quiet")
        self.assertIn("\nresult: 2 steps", said)


class Data(FailureTest):
    def test_no_such_data(self):
        self.refuses(1, "nothing-here", "--data", self.path("nothing-here"))

    def test_truncated_record(self):
        folder = files.write_folder(self.path("data"),
                                    files.records(4, 1)[:-5],
                                    files.records(2, 2))
        self.refuses(1, "train.bin", "--data", folder)

    def test_label_out_of_range(self):
        folder = files.write_folder(self.path("data"), files.records(4, 1),
                                    files.records(2, 2, label=100))
        self.refuses(1, "100", "--data", folder)

    def test_no_images(self):
        folder = files.write_folder(self.path("data"), b"",
                                    files.records(2, 2))
        self.refuses(1, "data", "--data", folder)

    def test_not_an_archive(self):
        path = self.path("data.tar.gz")
        with open(path, "wb") as file:
            file.write(b"this is no archive")
        self.refuses(1, "data.tar.gz", "--data", path)


class Outputs(FailureTest):
    def test_unwritable_model(self):
        self.refuses(1, "no-folder", "--save", "/proc/no-folder/model")
        os.mkdir(self.path("folder"))
        self.refuses(1, "folder", "--save", self.path("folder"))
        self.refuses(1, "/dev/full", "--save", "/dev/full")

    def test_unwritable_metrics(self):
        self.refuses(1, "no-folder", "--metrics", "/proc/no-folder/lines")

    def test_full_disk(self):
        done = self.call("train", "cifar100", "--threads", "1", "-n", "2",
                         "--limit", "16", "--epochs", "3", "--metrics",
                         "/dev/full")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stderr.count("lockstep: "), 1, done.stderr)
        self.assertIn("/dev/full", done.stderr)

    def test_an_older_model_stays(self):
        path = self.path("model")
        with open(path, "wb") as file:
            file.write(b"older")
        self.refuses(1, "nothing", "--save", path, "--data", "/nothing")
        with open(path, "rb") as file:
            self.assertEqual(file.read(), b"older")


class Death(FailureTest):
    def test_killed_rank_ends_all(self):
        save = self.path("model")
        metrics = self.path("lines")
        process = self.start(
            "train", "cifar100", "-n", "3", "--threads", "1", "--limit", "96",
            "--batch-size", "8", "--epochs", "100000", "--save", save,
            "--metrics", metrics)
        self.assertTrue(wait_until(
            lambda: os.path.exists(metrics) and os.path.getsize(metrics) > 0))
        supervisor, = children(process.pid)
        ranks = children(supervisor)
        self.assertEqual(len(ranks), 3)
        begin = time.monotonic()
        os.kill(ranks[1], signal.SIGKILL)
        status, _, errors = self.ended(process)
        self.assertLess(time.monotonic() - begin, 15)
        self.assertEqual(status, 128 + signal.SIGKILL)
        self.assertIn("rank 1", errors)
        self.assertFalse(os.path.exists(save))
        self.assertFalse(any(is_running(pid) for pid in ranks))

    def test_a_rank_that_stands_still_is_shown_in_a_table(self):
        metrics = self.path("lines")
        process = self.start(
            "train", "cifar100", "-n", "3", "--threads", "1", "--limit", "96",
            "--batch-size", "8", "--epochs", "100000", "--no-save",
            "--metrics", metrics, env=environment(LOCKSTEP_TIMEOUT="1"))
        self.assertTrue(wait_until(
            lambda: os.path.exists(metrics) and os.path.getsize(metrics) > 0))
        supervisor, = children(process.pid)
        stopped = children(supervisor)[1]
        self.addCleanup(lambda: is_running(stopped) and
                        os.kill(stopped, signal.SIGKILL))
        os.kill(stopped, signal.SIGSTOP)
        status, _, errors = self.ended(process)
        self.assertNotEqual(status, 0)
        self.assertRegex(errors, r"(?m)gave up waiting for rank 1 .* State of the ranks:$"
                         r"\n  rank 1 ")
        self.assertRegex(errors, r"(?m)^  rank 2 ")

    def test_interrupt_ends_all(self):
        metrics = self.path("lines")
        process = self.start(
            "train", "cifar100", "-n", "2", "--threads", "1", "--limit", "32",
            "--batch-size", "8", "--epochs", "100000", "--metrics", metrics)
        self.assertTrue(wait_until(
            lambda: os.path.exists(metrics) and os.path.getsize(metrics) > 0))
        process.send_signal(signal.SIGINT)
        status, _, _ = self.ended(process)
        self.assertEqual(status, 128 + signal.SIGINT)


if __name__ == "__main__":
    unittest.main()
