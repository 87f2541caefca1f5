"""Training that is killed and goes on: the run that was not, bit for bit."""

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest

import files
from program import (LOCKSTEP, ProgramTest, children, environment,
                     is_running, wait_until)

KILLS = int(os.environ.get("LOCKSTEP_TEST_KILLS", "2"))

# Values from a clock or from the memory of a process differ between runs.
MEASURED = {"train_seconds", "waited_seconds", "images_per_second", "peak_bytes", "seconds",
            "tokens_per_second"}


def steps(folder, whole):
    """Steps that have a folder; if `whole`, those whose save has ended."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    return [int(name[5:]) for name in names if name.startswith("step-") and
            (not whole or
             os.path.exists(os.path.join(folder, name, "manifest.json")))]


def kill_all(process):
    """The program and the ranks that it has started, at once."""
    pids = [process.pid]
    for pid in pids:
        pids += children(pid)
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    process.wait()
    return pids


def metrics(path, but):
    """The lines but for what is measured, as they are written."""
    def kept(line):
        return {k: [kept(rank) for rank in v] if k == "ranks" else v
                for k, v in line.items() if k not in MEASURED | but}
    return [json.dumps(kept(line)) for line in files.read_lines(path)]


def read(path):
    with open(path, "rb") as file:
        return file.read()


class ResumeTest(ProgramTest):
    command = ()

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.checkpoints = self.path("checkpoints")

    def path(self, name):
        return os.path.join(self.folder, name)

    def words(self, name, *more, ranks=2):
        return ("train", *self.command, "--threads", "1", "-n", str(ranks),
                "--save", self.path(name), "--metrics",
                self.path(name + ".jsonl"), *more)

    def train(self, name, *more, ranks=2):
        done = self.call(*self.words(name, *more, ranks=ranks))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stderr

    def saving(self):
        return ("--save-every", "3", "--checkpoint-dir", self.checkpoints,
                "--resume")

    def kill_when(self, condition, pause, *words):
        """Starts it, and kills it so long after the condition came true."""
        process = self.start(*words)
        self.assertTrue(wait_until(
            lambda: condition() or process.poll() is not None))
        wait_until(lambda: False, pause)
        for pid in kill_all(process):
            self.assertTrue(wait_until(lambda pid=pid: not is_running(pid)))

    def kill_after_new(self, whole, pause, *words):
        before = max(steps(self.checkpoints, False), default=0)
        self.kill_when(
            lambda: max(steps(self.checkpoints, whole), default=0) > before,
            pause, *words)

    def resume_after(self, step, *words, ranks=2):
        """As if the whole run had been killed after that step."""
        shutil.copy(self.path("whole.jsonl"), self.path("again.jsonl"))
        for later in steps(self.checkpoints, True):
            if later > step:
                shutil.rmtree(os.path.join(self.checkpoints,
                                           f"step-{later:012}"))
        said = self.train("again", *words, "--resume", ranks=ranks)
        self.assertIn(f"resumed after step {step} from", said)
        self.same("whole", "again")

    def same(self, one, other, but=frozenset()):
        self.assertEqual(read(self.path(one)), read(self.path(other)))
        self.assertEqual(metrics(self.path(one + ".jsonl"), but),
                         metrics(self.path(other + ".jsonl"), but))


class Cifar100(ResumeTest):
    def setUp(self):
        super().setUp()
        data = files.write_folder(self.path("data"), files.records(93, 1),
                                  files.records(13, 2))
        # 12 micro-steps, 6 steps of the optimizer an epoch.
        self.command = ("cifar100", "--data", data, "--epochs", "3",
                        "--accumulate", "2", "--momentum", "0.9",
                        "--schedule", "cosine")

    def test_kills(self):
        """Each run is killed while it saves, and after."""
        pick = random.Random(7)
        for ways in (("--strategy", "flat"),
                     ("--strategy", "bucketed", "--bucket-mb", "0.04"),
                     ("--strategy", "zero1", "--bucket-mb", "1",
                      "--sync-bn", "off"),
                     ("--strategy", "shared", "--optimizer", "adamw",
                      "--ema", "0.9"),
                     ("--strategy", "fsdp", "--bucket-mb", "0.04")):
            with self.subTest(ways=ways):
                self.train("whole", "--batch-size", "4", *ways)
                words = ("--batch-size", "4", *ways, *self.saving())
                for kill in range(KILLS):
                    self.kill_after_new(kill % 2 == 1, pick.uniform(0, 0.01),
                                        *self.words("killed", *words))
                said = self.train("killed", *words)
                if steps(self.checkpoints, True):
                    self.assertIn("resumed after step", said)
                self.same("whole", "killed")
                self.assertLessEqual(len(steps(self.checkpoints, True)), 2)
                shutil.rmtree(self.checkpoints)

    def test_every_place(self):
        """From the checkpoint of each step, ends of epochs among them."""
        words = ("--batch-size", "4", "--save-every", "2", "--keep", "0",
                 "--checkpoint-dir", self.checkpoints)
        self.train("whole", *words)
        self.assertEqual(sorted(steps(self.checkpoints, True)),
                         list(range(2, 19, 2)))
        for step in sorted(steps(self.checkpoints, True), reverse=True)[::2]:
            self.resume_after(step, *words)

    def test_other_numbers_of_ranks(self):
        def flags(ranks):
            return ("--no-dropout", "--batch-size", str(8 // ranks))
        self.train("whole", *flags(1), ranks=1)
        for first, second in ((2, 4), (4, 1), (1, 2)):
            with self.subTest(first=first, second=second):
                self.kill_after_new(True, 0, *self.words(
                    "killed", *flags(first), *self.saving(), ranks=first))
                self.train("killed", *flags(second), *self.saving(),
                           ranks=second)
                self.assertEqual(read(self.path("whole")),
                                 read(self.path("killed")))
                shutil.rmtree(self.checkpoints)

    def test_other_strategies(self):
        """The division among ranks may change, and the buffers of ranks differ."""
        words = ("--limit", "40", "--batch-size", "4", "--sync-bn", "off",
                 "--optimizer", "adamw")
        self.train("whole", *words)
        for i, strategy in enumerate(("flat", "shared", "fsdp", "zero1",
                                      "owners")):
            for step in steps(self.checkpoints, True):
                if step > 2 * i:
                    shutil.rmtree(os.path.join(self.checkpoints,
                                               f"step-{step:012}"))
            said = self.train("again", *words, "--strategy", strategy,
                              "--save-every", "2", "--keep", "0", "--resume",
                              "--checkpoint-dir", self.checkpoints)
            if i > 0:
                self.assertIn(f"resumed after step {2 * i} from", said)
            self.same("whole", "again", but={"collectives"})

    def chosen(self, name):
        line, = [line for line in files.read_lines(self.path(name + ".jsonl"))
                 if line["event"] == "strategy"]
        return line

    def test_strategy_that_was_chosen(self):
        """It goes on with it, and as if it had been named."""
        words = ("--limit", "40", "--batch-size", "4", "--optimizer", "adamw")
        auto = ("--strategy", "auto", "--bucket-mb", "0.1")
        for ranks in (1, 2, 3):
            with self.subTest(ranks=ranks):
                some = ("--no-dropout", *words)
                said = self.train("whole", *some, *auto, ranks=ranks)
                line = self.chosen("whole")
                self.assertIn(f"strategy: {line['strategy']}", said)
                self.assertIn(f", strategy {line['strategy']}, ", said)
                self.assertEqual(
                    set(line["measured_seconds"]), set() if ranks == 1 else
                    {"flat", "bucketed", "zero1", "shared", "fsdp"})
                for seconds in line["measured_seconds"].values():
                    self.assertLess(0, seconds)
                self.train("named", *some, "--strategy", line["strategy"],
                           ranks=ranks)
                self.assertEqual(read(self.path("whole")),
                                 read(self.path("named")))
        self.train("whole", *words)
        self.kill_after_new(True, 0, *self.words(
            "killed", *words, *auto, *self.saving()))
        before = self.chosen("killed")
        said = self.train("killed", *words, *auto, *self.saving())
        self.assertIn("(auto; as in the checkpoint's run)", said)
        self.assertEqual(self.chosen("killed"), before)
        self.assertEqual(read(self.path("whole")), read(self.path("killed")))
        shutil.rmtree(os.path.join(
            self.checkpoints, f"step-{max(steps(self.checkpoints, True)):012}"))
        said = self.train("killed", *words, *self.saving())
        self.assertEqual(self.chosen("killed"), before)
        self.assertEqual(metrics(self.path("whole.jsonl"), {"collectives"}),
                         metrics(self.path("killed.jsonl"),
                                 {"collectives"})[1:])
        shutil.rmtree(os.path.join(
            self.checkpoints, f"step-{max(steps(self.checkpoints, True)):012}"))
        said = self.train("killed", *words, *auto, "--batch-size", "8",
                          *self.saving(), ranks=1)
        self.assertIn("strategy: flat (auto; one rank)", said)

    def test_strategy_chosen_at_the_end_of_an_epoch(self):
        """There are no steps left to measure: the whole epoch's are taken."""
        words = ("--limit", "40", "--batch-size", "4", "--save-every", "5",
                 "--keep", "0")
        self.train("whole", *words, "--strategy", "flat",
                   "--checkpoint-dir", self.checkpoints)
        for step in steps(self.checkpoints, True):
            if step > 5:
                shutil.rmtree(os.path.join(self.checkpoints,
                                           f"step-{step:012}"))
        said = self.train("resumed", *words, "--strategy", "auto", "--resume",
                          "--checkpoint-dir", self.checkpoints)
        self.assertIn("resumed after step 5 from", said)
        self.assertEqual(len(self.chosen("resumed")["measured_seconds"]), 5)
        self.assertEqual(read(self.path("whole")), read(self.path("resumed")))

    def test_decay_that_nobody_asked_for(self):
        """A checkpoint keeps its own, whatever is usual by now."""
        words = ("--limit", "40", "--batch-size", "4", "--optimizer", "adamw")
        none = ("--weight-decay", "0")
        self.train("whole", *words, *none)
        self.train("usual", *words)
        self.train("same", *words, "--weight-decay", "0.01")
        self.assertEqual(read(self.path("usual")), read(self.path("same")))
        self.assertNotEqual(read(self.path("usual")), read(self.path("whole")))
        self.train("again", *words, *none, *self.saving())
        shutil.rmtree(os.path.join(
            self.checkpoints, f"step-{max(steps(self.checkpoints, True)):012}"))
        self.fails(1, "--weight-decay 0, but this run has 0.01", *self.words(
            "again", *words, "--weight-decay", "0.01", *self.saving()))
        said = self.train("again", *words, *self.saving())
        self.assertIn("resumed after step", said)
        self.assertIn("--weight-decay 0 ", said)
        self.same("whole", "again")

    def test_beginning(self):
        words = ("--limit", "32", "--batch-size", "4", *self.saving())
        said = self.train("first", *words)
        self.assertIn("no checkpoint in", said)
        self.assertIn("starting from the beginning", said)
        # Folders of saves that have not ended are no checkpoints either.
        for step in steps(self.checkpoints, True):
            os.unlink(os.path.join(self.checkpoints, f"step-{step:012}",
                                   "manifest.json"))
        self.assertIn("from the beginning", self.train("second", *words))
        self.same("first", "second")

    def test_lost_lines(self):
        words = ("--limit", "32", "--batch-size", "4", *self.saving())
        self.train("first", *words)
        os.unlink(self.path("first.jsonl"))
        said = self.train("first", *words)
        self.assertIn("contains only 0 of the 2 lines", said)
        self.assertEqual(len(metrics(self.path("first.jsonl"), set())), 1)


# A separate file system, which only these processes see.
SMALL_DISK = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c")


class FullDisk(ResumeTest):
    command = ("lm", "--steps", "6", "--validate-every", "0", "--context",
               "16", "--layers", "2", "--d-model", "64", "--heads", "2",
               "--d-ff", "128", "--batch-size", "2")

    def disk(self, script, *words):
        """Runs it where the checkpoints' disk has room for two of them."""
        mount = (f'mount -t tmpfs -o size=3m none "{self.checkpoints}" '
                 f'&& {script}')
        return subprocess.run([*SMALL_DISK, mount, LOCKSTEP, *words],
                              env=environment(), capture_output=True,
                              text=True, timeout=50, check=False)

    def test_no_space_left(self):
        os.mkdir(self.checkpoints)
        if self.disk("true").returncode != 0:
            self.skipTest("no separate file system can be mounted here")
        self.train("whole")
        words = self.words("killed", "--save-every", "2", "--keep", "0",
                           "--strategy", "zero1", "--resume",
                           "--checkpoint-dir", self.checkpoints)
        done = self.disk(f'"$0" "$@"; echo exit $?; ls "{self.checkpoints}"; '
                         f'mount -o remount,size=64m "{self.checkpoints}"; '
                         '"$0" "$@"', *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, "cannot (write|sync) '.*': No space left "
                                      r"on device\. The run ended after step "
                                      r"6; saved '")
        self.assertEqual(done.stderr.count("lockstep: "), 1, done.stderr)
        self.assertIn("exit 1\nstep-000000000002\nstep-000000000004\n",
                      done.stdout)
        self.assertIn("resumed after step 4 from", done.stderr)
        self.same("whole", "killed")


class LanguageModel(ResumeTest):
    command = ("lm", "--steps", "14", "--validate-every", "3",
               "--validate-batches", "1", "--context", "16", "--layers", "2",
               "--d-model", "32", "--heads", "2", "--d-ff", "64",
               "--schedule", "cosine", "--warmup-steps", "3",
               "--accumulate", "2")

    def test_kills(self):
        for ways in (("--strategy", "flat"), ("--strategy", "bucketed"),
                     ("--strategy", "owners"), ("--strategy", "shared"),
                     ("--strategy", "fsdp", "--dtype", "bf16",
                      "--ema", "0.9"),
                     ("--dtype", "f16")):
            with self.subTest(ways=ways):
                words = ("--batch-size", "2", *ways)
                self.train("whole", *words, "--activation-checkpointing")
                for kill in range(KILLS):
                    self.kill_after_new(
                        kill % 2 == 1, 0,
                        *self.words("killed", *words, *self.saving()))
                self.train("killed", *words, *self.saving())
                self.same("whole", "killed")
                shutil.rmtree(self.checkpoints)

    def test_every_place(self):
        """With the last step among them, of which only the end is left."""
        words = ("--batch-size", "2", "--save-every", "1", "--keep", "0",
                 "--checkpoint-dir", self.checkpoints)
        self.train("whole", *words)
        for step in (14, 13, 9, 6, 1):
            self.resume_after(step, *words)

    def test_scale_of_losses(self):
        """It falls where the gradient of one token overflows."""
        words = ("--batch-size", "1", "--accumulate", "1", "--context", "1",
                 "--dtype", "f16", "--lr", "0.1", "--save-every", "1",
                 "--keep", "0", "--checkpoint-dir", self.checkpoints)
        self.train("whole", *words, ranks=1)
        skipped = [line["skipped"] for line in files.read_lines(
            self.path("whole.jsonl")) if line["event"] == "step"]
        self.assertEqual((skipped[0], skipped[-1]), (0, 1))
        fall = skipped.index(1)
        for step in (13, fall + 1, fall, 1):
            self.resume_after(step, *words, ranks=1)

    def test_damaged_newest_ones(self):
        """They neither count nor take the place of those that are saved."""
        words = ("--batch-size", "2", "--schedule", "constant",
                 "--checkpoint-dir", self.checkpoints)
        for keep, damaged in (("1", (12,)), ("2", (8, 12))):
            with self.subTest(keep=keep):
                self.train("model", *words, "--save-every", "4", "--keep", "0",
                           "--steps", "12")
                for step in damaged:
                    os.truncate(os.path.join(
                        self.checkpoints, f"step-{step:012}",
                        "model.safetensors"), 1000)
                said = self.train("model", *words, "--save-every", "1",
                                  "--steps", "10", "--keep", keep, "--resume")
                self.assertEqual(said.count("' is not intact: "), 1)
                self.assertEqual(sorted(steps(self.checkpoints, True)),
                                 [9, 10, 12][-1 - int(keep):])
                # The last one is where the next run goes on.
                self.assertIn("resumed after step 10", self.train(
                    "model", *words, "--steps", "11", "--resume"))
                shutil.rmtree(self.checkpoints)

    def test_other_flags(self):
        self.train("model", "--batch-size", "2", *self.saving())
        for message, words in (
                ("--layers 2, but this run has 1", ("--layers", "1")),
                ("--rope pairs, but this run has halves", ("--rope", "halves")),
                ("batch size over all ranks is 4 in the checkpoint, but 6",
                 ("--batch-size", "3")),
                ("--dtype f32, but this run has bf16", ("--dtype", "bf16")),
                ("--validate-every 3, but this run has 2",
                 ("--validate-every", "2")),
                ("learning rate schedule ends with step 14, but this run has "
                 "15 steps. Add "
                 "--new-schedule", ("--steps", "15"))):
            with self.subTest(words=words):
                self.fails(1, message, *self.words(
                    "model", "--batch-size", "2", *self.saving(), *words))

    def test_other_text(self):
        path = self.path("text")
        words = ("--data", path, *self.saving())
        with open(path, "wb") as file:
            file.write(b"one text. " * 100)
        self.train("whole", *words)
        with open(path, "wb") as file:
            file.write(b"two text. " * 100)
        self.fails(1, "made with other data (the checksum of the tokens is", *self.words("other", *words))

    def test_other_ends(self):
        """Without a cosine a run may go on further than was planned."""
        words = ("--batch-size", "2", "--schedule", "constant")
        self.train("whole", *words)
        self.train("longer", *words, *self.saving(), "--steps", "9")
        self.fails(1, "this run has --steps 8", *self.words(
            "model", *words, *self.saving(), "--steps", "8"))
        self.train("longer", *words, *self.saving())
        self.same("whole", "longer")

    def test_beyond_the_end_of_a_schedule(self):
        """By default there is one, with a separate warm-up."""
        words = ("--batch-size", "2")
        end = self.command.index("--schedule")  # the warm-up follows it
        self.command = self.command[:end]
        self.train("first", *words, "--steps", "18", *self.saving())
        self.fails(1, "cannot resume from the checkpoint of step 18: its "
                      "learning rate schedule ends with step 18, but this run "
                      "has 36 steps. Add --new-schedule", *self.words(
                       "second", *words, "--steps", "36", *self.saving()))
        self.train("second", *words, "--steps", "36", "--new-schedule",
                   *self.saving())
        rates = [line["lr"] for line in files.read_lines(
            self.path("second.jsonl")) if line["event"] == "step"]
        self.assertEqual(len(rates), 18)
        self.assertEqual(rates, sorted(rates, reverse=True))
        self.assertGreater(rates[0], 0.0005)

    def test_another_schedule_if_told_so(self):
        """Steps are counted from the beginning of the run."""
        self.train("first", "--steps", "6", "--lr", "0.001", *self.saving())
        new = ("--steps", "12", "--lr", "0.002", "--schedule", "linear",
               "--warmup-steps", "0", *self.saving())
        self.assertIn("use --new-schedule",
                      self.call(*self.words("second", *new)).stderr)
        self.train("second", *new, "--new-schedule")
        rates = [line["lr"] for line in files.read_lines(
            self.path("second.jsonl")) if line["event"] == "step"]
        wanted = [0.002 * (1 - step / 12) for step in range(6, 12)]
        self.assertEqual(len(rates), len(wanted))
        for rate, exact in zip(rates, wanted):
            self.assertAlmostEqual(rate, exact, delta=1e-12)
        # Its checkpoints have the new one.
        self.train("third", *new)
        self.fails(2, "--new-schedule needs --resume", "train", "lm",
                   "--new-schedule")


class Refusals(ResumeTest):
    command = ("cifar100", "--limit", "32", "--epochs", "2", "--no-dropout",
               "--batch-size", "4")

    def refuses(self, message, *words):
        for ranks in (1, 2):
            flags = ("--batch-size", str(8 // ranks), *words)
            self.fails(1, message, *self.words("model", *flags, ranks=ranks))

    def test_other_flags(self):
        self.train("model", *self.saving())
        before = read(self.path("model.jsonl"))
        for message, words in (
                ("--seed 0, but this run has 1", ("--seed", "1")),
                ("number of training images is 32 in the checkpoint, but 31",
                 ("--limit", "31")),
                ("batch size over all ranks is 8 in the checkpoint, but",
                 ("--batch-size", "2")),
                ("--accumulate 1, but this run has 2", ("--accumulate", "2")),
                ("--slices 4, but this run has 8", ("--slices", "8")),
                ("--sync-bn fused, but this run has off", ("--sync-bn", "off")),
                ("--dtype f32, but this run has bf16", ("--dtype", "bf16")),
                ("--dropout off, but this run has on", ("--dropout",)),
                ("--optimizer sgd, but this run has adamw",
                 ("--optimizer", "adamw")),
                ("--momentum 0.5, but this run has 0.9", ("--momentum", "0.9")),
                ("in epoch 2, but this run has --epochs 1", ("--epochs", "1"))):
            with self.subTest(words=words):
                self.refuses(message, *self.saving(), *words)
        self.assertEqual(read(self.path("model.jsonl")), before)

    def test_not_asked_to_go_on(self):
        self.train("model", *self.saving())
        self.refuses("already has a checkpoint of step 6", "--checkpoint-dir",
                     self.checkpoints, "--save-every", "3")

    def test_damage(self):
        self.train("model", *self.saving(), "--keep", "1")
        newest = max(steps(self.checkpoints, True))
        with open(os.path.join(self.checkpoints, f"step-{newest:012}",
                               "model.safetensors"), "r+b") as file:
            file.truncate(1000)
        files_before = sorted(os.listdir(self.checkpoints))
        done = self.call(*self.words("model", *self.saving()))
        self.assertEqual(done.returncode, 1)
        self.assertIn("no intact checkpoint found in", done.stderr)
        self.assertIn("The newest saved checkpoint cannot be used: ", done.stderr)
        self.assertEqual(sorted(os.listdir(self.checkpoints)), files_before)

    def test_two_runs(self):
        """The second is told who saves there; nothing of the first is lost."""
        endless = ("--epochs", "100000", *self.saving(), "--keep", "0")
        first = self.start(*self.words("first", *endless))
        self.assertTrue(wait_until(lambda: steps(self.checkpoints, True)))
        for words in (endless, (*endless[:-1], "1"),
                      tuple(w for w in endless if w != "--resume")):
            before = steps(self.checkpoints, True)
            supervisor, = children(first.pid)
            writer = children(supervisor)[0]
            self.refuses(f"process {writer} on host {socket.gethostname()} "
                         "is writing to ", *words)
            self.assertLessEqual(set(before),
                                 set(steps(self.checkpoints, True)))
        # Readers may, also now; and a killed run leaves no lock.
        said = self.call(*self.words("reader", "--resume", "--checkpoint-dir",
                                     self.checkpoints)).stderr
        self.assertNotIn("is writing to ", said)
        for pid in kill_all(first):
            self.assertTrue(wait_until(lambda pid=pid: not is_running(pid)))
        before = max(steps(self.checkpoints, True))
        said = self.train("third", "--epochs", str(before // 4 + 2),
                          *self.saving())
        self.assertIn("resumed after step", said)

    def test_folder(self):
        with open(self.path("file"), "w", encoding="utf-8"):
            pass
        self.refuses("cannot", "--checkpoint-dir", self.path("file"),
                     "--save-every", "3")
        self.refuses("cannot create the folder", "--checkpoint-dir",
                     self.path("file/b"), "--save-every", "3")

    def test_usage(self):
        for message, words in (
                ("--save-every needs --checkpoint-dir",
                 ("--save-every", "3")),
                ("--resume needs --checkpoint-dir", ("--resume",)),
                ("--checkpoint-dir needs", ("--checkpoint-dir", "x")),
                ("--save-every", ("--save-every", "-1")),
                ("--keep", ("--keep", "-1"))):
            for command in ("cifar100", "lm"):
                with self.subTest(words=words, command=command):
                    self.fails(2, message, "train", command, *words)


if __name__ == "__main__":
    unittest.main()
