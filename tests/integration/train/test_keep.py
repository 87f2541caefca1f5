"""The files that a training run leaves: its folder, by default and by flags."""

import datetime
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

import files
from program import LOCKSTEP, SCRATCH, ProgramTest, children, wait_until

SHAPE = ("--threads", "1", "--layers", "1", "--d-model", "16", "--heads", "2",
         "--d-ff", "16", "--context", "8", "--batch-size", "2")
LM = ("train", "lm", *SHAPE, "--steps", "20", "--validate-every", "10")
LONG = ("train", "lm", *SHAPE, "--steps", "1000000", "--validate-every", "0",
        "--schedule", "constant")
DATA = files.write_folder(os.path.join(SCRATCH.name, "data"),
                          files.records(16, 1), files.records(4, 2))
FEW = ("--threads", "1", "--data", DATA, "--batch-size", "4", "--epochs", "2")
CIFAR = ("train", "cifar100", *FEW)
IMAGES = ("train", "images", "--arch", "cifar-net", *FEW)

RESULT = ["metrics.jsonl", "model.safetensors", "run.json"]
# Those of transformers, too.
LM_RESULT = sorted([*RESULT, "config.json", "tokenizer.json",
                    "tokenizer_config.json"])


def read(path):
    with open(path, "rb") as file:
        return file.read()


def timeless(path):
    """Its lines without times and memory."""
    return [{name: value for name, value in line.items()
             if name != "ranks" and
             not name.endswith(("seconds", "per_second", "peak_bytes"))}
            for line in files.read_lines(path)]


def flags(values):
    """As words of a command line."""
    for name, value in values.items():
        if isinstance(value, bool):
            yield f"--{name}" if value else f"--no-{name}"
        else:
            yield f"--{name}={value}"


class KeepTest(ProgramTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def runs(self):
        """The folders that runs have made."""
        try:
            return sorted(os.listdir(self.path("runs")))
        except FileNotFoundError:
            return []

    def good(self, *words, **more):
        done = self.call(*words, cwd=self.folder, **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stderr.splitlines()

    def weights(self, model, job="file"):
        """Its tensors, as --save has them."""
        if job == "lm":
            self.good("train", "lm", "--weights", model, "--steps", "0",
                      "--validate-every", "0", "--threads", "1", "--save",
                      "again")
            model = "again"
        elif job != "file":
            model = os.path.join(model, "model.safetensors")
        return files.read_safetensors(self.path(model))[1]

    def name(self, job, number):
        return f"{job}-{datetime.date.today():%Y-%m-%d}-{number}"


class Folder(KeepTest):
    def test_default(self):
        """The folder of any job and number of ranks has what flags write."""
        for job, words, ranks in (("lm", LM, 1), ("lm", LM, 3),
                                  ("cifar100", CIFAR, 2),
                                  ("images", IMAGES, 1)):
            with self.subTest(job=job, ranks=ranks):
                shutil.rmtree(self.path("runs"), ignore_errors=True)
                words = (*words, "-n", str(ranks))
                lines = self.good(*words)
                name = self.name(job, 1)
                self.assertEqual(self.runs(), [name])
                self.assertEqual(sorted(os.listdir(self.path("runs", name))),
                                 LM_RESULT if job == "lm" else RESULT)
                self.assertEqual(lines[0], f"results go to 'runs/{name}'")
                self.assertRegex(lines[-1], f"^saved 'runs/{name}/model."
                                            r"safetensors' \([\d.]+ [KM]iB\)$")
                self.good(*words, "--save", "model", "--metrics", "metrics")
                self.assertEqual(self.runs(), [name])
                self.assertEqual(self.weights("model"),
                                 self.weights(f"runs/{name}", job))
                self.assertEqual(
                    timeless(self.path("metrics")),
                    timeless(self.path("runs", name, "metrics.jsonl")))

    def test_numbers(self):
        """Runs that begin at once, or after each other, have a folder each."""
        started = [self.start(*LM, "-n", ranks, cwd=self.folder)
                   for ranks in "1212"]
        for process in started:
            self.assertEqual(self.ended(process)[0], 0)
        self.good(*CIFAR, "--quiet")
        self.assertEqual(self.runs(), [self.name("cifar100", 1),
                                       *(self.name("lm", n)
                                         for n in range(1, 5))])
        for name in self.runs():
            self.assertEqual(sorted(os.listdir(self.path("runs", name))),
                             LM_RESULT if name[:2] == "lm" else RESULT)

    def test_configuration(self):
        """The flags in it repeat the run, also without what was chosen."""
        text = self.path("text")
        with open(text, "w", encoding="ascii") as file:
            file.write("all work and no play " * 500)
        for words in ((*LM, "-n", "2", "--strategy", "auto", "--data", text,
                       "--lr", "0.0123456789012345678", "--ema", "0.9"),
                      (*CIFAR, "--optimizer", "lion", "--no-dropout")):
            self.good(*words, "--output-dir", "one")
            with open(self.path("one", "run.json"), encoding="utf-8") as file:
                config = json.load(file)
            self.assertEqual(config["command"], " ".join(words[:2]))
            self.assertRegex(config["lockstep"], r"^\d+\.\d+\.\d+$")
            known = config["flags"]
            self.assertEqual(known.pop("output-dir"), "one")
            self.assertEqual(known["threads"], 1)
            self.assertNotIn(known["strategy"], ("auto", None))
            self.assertGreater(known["weight-decay"], 0)
            self.good(*words[:2], *flags(known), "--output-dir=two")
            self.assertEqual(read(self.path("one", "model.safetensors")),
                             read(self.path("two", "model.safetensors")))
            for name in ("one", "two"):
                shutil.rmtree(self.path(name))

    def test_config(self):
        """--config of a result repeats the run, bit for bit, in a new folder."""
        for job, words, other in (("lm", (*LM, "-n", "2", "--strategy", "auto"),
                                   "momentum"),
                                  ("cifar100", (*CIFAR, "-n", "2"), "beta2")):
            self.good(*words)
            first, second, third = (
                os.path.join("runs", self.name(job, n)) for n in (1, 2, 3))
            config = os.path.join(first, "run.json")
            self.good("train", job, "--config", config)
            self.assertEqual(read(self.path(first, "model.safetensors")),
                             read(self.path(second, "model.safetensors")))
            flags_of = json.loads(read(self.path(config)))["flags"]
            self.assertEqual(flags_of, json.loads(
                read(self.path(second, "run.json")))["flags"])
            self.assertNotIn(other, flags_of)
            self.assertNotIn("config", flags_of)
            # Flags override the file.
            self.good("train", job, "--config", config, "--seed", "5", "-n",
                      "1")
            self.assertNotEqual(read(self.path(first, "model.safetensors")),
                                read(self.path(third, "model.safetensors")))
            flags_of.update({"seed": 5, "ranks": 1})
            self.assertEqual(
                json.loads(read(self.path(third, "run.json")))["flags"],
                flags_of)
        with open(self.path("c.json"), "w", encoding="ascii") as file:
            json.dump({"learning-rate": 1, "steps": 3}, file)
        self.fails(2, "train lm: --config 'c.json': unknown flag "
                   "--learning-rate; did you mean --lr?", "train", "lm",
                   "--config", "c.json", cwd=self.folder)
        self.fails(2, "the file contains flags of 'lockstep train lm'", "train",
                   "images", "--config", os.path.join(
                       "runs", self.name("lm", 1), "run.json"),
                   cwd=self.folder)
        self.fails(2, "cannot open 'none'", "train", "lm", "--config", "none",
                   cwd=self.folder)

    def test_config_of_a_resumed_run(self):
        """It repeats the whole run, and not what was left of it."""
        words = ("train", "lm", *SHAPE, "--schedule", "constant", "--save-every", "2",
                 "--checkpoint-dir", "saved")
        self.good(*words, "--steps", "4", "--output-dir", "half")
        self.good(*words, "--steps", "8", "--resume", "--output-dir", "whole")
        self.assertNotIn("resume", self.config("whole")["flags"])
        again = ("train", "lm", "--config", "whole/run.json", "--output-dir", "again")
        self.fails(1, "give another --checkpoint-dir", *again,
                   cwd=self.folder)
        self.good(*again, "--checkpoint-dir", "others")
        self.assertEqual(read(self.path("again", "model.safetensors")),
                         read(self.path("whole", "model.safetensors")))

    def config(self, path):
        with open(self.path(path, "run.json"), encoding="utf-8") as file:
            return json.load(file)

    def test_config_contradicted(self):
        """The command line wins over what excludes it, and says so."""
        few = (*LM[:-4], "--steps", "2", "--validate-every", "0")
        self.good(*few, "-n", "2", "--strategy", "bucketed", "--bucket-mb",
                  "25", "--output-dir", "one")
        again = ("train", "lm", "--config", "one/run.json")
        for words, dropped in (
                (("--no-save",), "output-dir"),
                (("--strategy", "flat", "--output-dir", "flat"), "bucket-mb"),
                (("--optimizer", "sgd", "--output-dir", "sgd"),
                 "lr, weight-decay"),
                (("--steps", "40", "--output-dir", "long"), "warmup-steps"),
                (("--optimizer", "sgd", "--steps", "40", "--lr", "1",
                  "--warmup-steps", "1", "--output-dir", "given"),
                 "weight-decay")):
            lines = self.good(*again, *words)
            self.assertEqual(
                [line for line in lines if "ignored" in line],
                ["lockstep: train lm: ignored these flags from 'one/run.json', because "
                 f"flags on the command line replace them: {dropped}"])
        self.assertNotIn("bucket-mb", self.config("flat")["flags"])
        sgd = self.config("sgd")["flags"]
        self.assertEqual((sgd["lr"], sgd["weight-decay"]), (0.01, 0.0))
        self.assertEqual(self.config("long")["flags"]["warmup-steps"], 2)
        given = self.config("given")
        self.assertEqual((given["flags"]["lr"], given["flags"]["warmup-steps"]),
                         (1.0, 1))
        self.assertNotIn("lr", given["chosen"])
        # A value that was given stays, as one that the run chose does until
        # the command line changes what it follows from.
        self.good(*few, "--lr", "0.5", "--output-dir", "two")
        self.assertNotIn("lr", self.config("two")["chosen"])
        self.good("train", "lm", "--config", "two/run.json", "--seed", "1",
                  "--output-dir", "three")
        self.assertEqual(sorted(self.config("three")["chosen"]),
                         sorted(self.config("two")["chosen"]))
        lines = self.good("train", "lm", "--config", "three/run.json",
                          "--optimizer", "sgd", "--output-dir", "four")
        self.assertEqual(self.config("four")["flags"]["lr"], 0.5)
        self.assertIn("replace them: weight-decay", "".join(lines))
        with open(self.path("c.json"), "w", encoding="ascii") as file:
            json.dump({"no-save": True}, file)
        self.good(*few, "--config", "c.json", "--save", "m")
        self.assertTrue(os.path.exists(self.path("m")))

    def test_config_accumulate(self):
        """A flag of the command line wins, though it says the usual."""
        few = (*LM[:-4], "--steps", "1", "--validate-every", "0")
        self.good(*few, "--tokens-per-step", "64", "--output-dir", "one")
        self.assertNotIn("accumulate", self.config("one")["flags"])
        lines = self.good("train", "lm", "--config", "one/run.json",
                          "--accumulate", "1", "--output-dir", "two")
        self.assertIn("replace them: tokens-per-step", lines[0])
        self.assertIn("16 per step", lines[2])
        lines = self.good("train", "lm", "--config", "two/run.json",
                          "--tokens-per-step", "64", "--output-dir", "three")
        self.assertIn("replace them: accumulate", lines[0])
        self.assertIn("64 per step", lines[2])
        self.fails(2, "both set the number of micro-steps", *few,
                   "--tokens-per-step", "64", "--accumulate", "1")

    def test_config_of_size(self):
        """A size keeps its name, though the file has its shape, too."""
        with open(self.path("text"), "w", encoding="ascii") as file:
            file.write("all work and no play " * 100)
        for words in (("--size", "tiny", "--context", "8", "--steps", "1",
                       "--batch-size", "1", "--threads", "1", "--data", "text"),
                      ("--config", "1/run.json")):
            done = self.call("train", "lm", *words, "--output-dir",
                             str(len(os.listdir(self.folder))),
                             cwd=self.folder)
            self.assertRegex(done.stdout, r"\| tiny \|", done.stderr)

    def test_places(self):
        """--output-dir, --save and --metrics say where each file goes."""
        out = self.path("a", "b")
        lines = self.good(*LM, "--output-dir", out)
        self.assertEqual(lines[0], f"results go to '{out}'")
        self.assertTrue(lines[-1].startswith(f"saved '{out}/model."), lines)
        self.assertEqual(sorted(os.listdir(out)), LM_RESULT)
        model = read(os.path.join(out, "model.safetensors"))
        done = self.call(*CIFAR, "--output-dir", out, cwd=self.folder)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"'{out}' already contains 'model.safetensors' of "
                      "another run",
                      done.stderr)
        self.assertEqual(read(os.path.join(out, "model.safetensors")), model)
        self.good(*LM, "--output-dir", "c", "--save", "m", "--metrics", "l")
        self.assertEqual(os.listdir(self.path("c")), ["run.json"])
        self.assertEqual(self.weights("m"), self.weights(out, "lm"))
        self.assertEqual(len(files.read_lines(self.path("l"))), 23)
        self.assertEqual(self.runs(), [])

    def test_nothing(self):
        """A run that keeps its files elsewhere, or none, makes no folder."""
        for words in (("--no-save",), ("--save", "m"),
                      ("--checkpoint-dir", "c", "--save-every", "20"),
                      ("--no-save", "--checkpoint-dir", "d", "--save-every",
                       "20")):
            self.assertNotIn("results", "".join(self.good(*LM, *words)))
        self.assertEqual(sorted(os.listdir(self.folder)), ["c", "d", "m"])
        for other in ("--save", "--output-dir"):
            self.fails(2, f"--no-save and {other} exclude each other", *LM,
                       "--no-save", other, "x")

    def test_resumed(self):
        """A run goes on in its folder, with the same bits and lines."""
        saving = ("--checkpoint-dir", "steps", "--save-every", "5", "--resume",
                  "--output-dir")
        self.good(*LM, *saving, "out")
        whole = [read(self.path("out", "model.safetensors")),
                 timeless(self.path("out", "metrics.jsonl"))]
        shutil.rmtree(self.path("steps", f"step-{20:012}"))
        lines = self.good(*LM, *saving, "out")
        self.assertIn("resumed after step 15 from 'steps'", lines)
        self.assertEqual([read(self.path("out", "model.safetensors")),
                          timeless(self.path("out", "metrics.jsonl"))], whole)
        shutil.rmtree(self.path("steps"))
        done = self.call(*LM, *saving, "out", cwd=self.folder)
        self.assertIn("already contains 'model.safetensors' of another run",
                      done.stderr)
        os.unlink(self.path("out", "model.safetensors"))  # as if it had died
        self.good(*LM, *saving, "out")
        self.assertEqual([read(self.path("out", "model.safetensors")),
                          timeless(self.path("out", "metrics.jsonl"))], whole)


class Elsewhere(KeepTest):
    """The files of a language model's folder that other programs read."""

    def test_shapes(self):
        """Names of transformers; ours, and the same bits, come back."""
        for size, more, kind, name in (
                ("tiny", (), "llama", "model.layers.0.self_attn.q_proj"),
                ("tiny", ("--rope", "halves"), "llama", "lm_head"),
                ("gpt2", (), "gpt2", "transformer.h.0.attn.c_attn"),
                ("gpt2", ("--untied-head",), "gpt2", "lm_head")):
            with self.subTest(size=size, more=more):
                words = (*LM, "--size", size, *more)
                self.good(*words, "--output-dir", "out")
                self.good(*words, "--save", "m")
                header, _ = files.read_safetensors(
                    self.path("out", "model.safetensors"))
                self.assertIn(f"{name}.weight", header)
                self.assertEqual(header["__metadata__"]["format"], "pt")
                with open(self.path("out", "config.json"),
                          encoding="utf-8") as file:
                    self.assertEqual(json.load(file)["model_type"], kind)
                self.assertEqual(self.weights("m"), self.weights("out", "lm"))
                self.assertEqual(self.loss("m"), self.loss("out"))
                shutil.rmtree(self.path("out"))

    def loss(self, model):
        with open(self.path("text"), "w", encoding="ascii") as file:
            file.write("all work and no play " * 20)
        self.good("eval", "lm", "--weights", model, "--threads", "1", "--data",
                  "text", "--json=rows")
        with open(self.path("rows"), encoding="utf-8") as file:
            return json.load(file)["rows"][0]["loss"]

    def test_others_are_left_alone(self):
        """Files of another model in the folder, such as its shards' index."""
        for name in ("config.json", "tokenizer.json",
                     "model.safetensors.index.json"):
            os.mkdir(self.path("theirs"))
            with open(self.path("theirs", name), "w", encoding="ascii"):
                pass
            self.fails(1, f"'theirs' already contains '{name}' of another "
                       "run", *LM,
                       "--output-dir", "theirs", cwd=self.folder)
            shutil.rmtree(self.path("theirs"))


class Stopped(KeepTest):
    def begin(self, *words):
        """Starts it and waits for lines of its first steps."""
        process = self.start(*words, cwd=self.folder)
        self.assertTrue(wait_until(
            lambda: self.steps() > 2 or process.poll() is not None, 60))
        return process

    def steps(self):
        try:
            return read(self.path("runs", self.runs()[0],
                                  "metrics.jsonl")).count(b"\n")
        except (FileNotFoundError, IndexError):
            return 0

    def said(self, process):
        return os.pread(process.errors.fileno(), 1 << 20, 0)

    def test_signals(self):
        for number, ranks in ((signal.SIGINT, 1), (signal.SIGTERM, 2),
                              (signal.SIGHUP, 3), (signal.SIGTERM, 1)):
            with self.subTest(number=number, ranks=ranks):
                process = self.begin(*LONG, "-n", str(ranks))
                os.kill(process.pid, number)
                self.ends(process, number)

    def test_stop(self):
        process = self.begin(*LONG, "-n", "2")
        self.call("stop", str(process.pid))
        self.ends(process, signal.SIGTERM)

    def ends(self, process, number):
        """The model is that of the last step, and can be read."""
        status, _, said = self.ended(process)
        self.assertEqual(status, 128 + number, said)
        name = self.name("lm", 1)
        self.assertEqual(self.runs(), [name])
        folder = self.path("runs", name)
        self.assertEqual(sorted(os.listdir(folder)), LM_RESULT)
        found = re.search(rf"ended by {number.name} after step (\d+); saved "
                          rf"'runs/{name}/model.safetensors' \(.*\)", said)
        self.assertTrue(found, said)
        lines = files.read_lines(os.path.join(folder, "metrics.jsonl"))
        self.assertEqual(int(found[1]), lines[-1]["step"])
        header, _ = files.read_safetensors(
            os.path.join(folder, "model.safetensors"))
        self.assertEqual(header["__metadata__"]["steps"], found[1])
        text = self.path("text")
        with open(text, "w", encoding="ascii") as file:
            file.write("all work and no play " * 50)
        self.generates(folder)
        self.good("eval", "lm", "--weights", folder, text)
        self.good("eval", "lm", text, "--weights", folder, text, "-n", "2")
        self.fails(2, "give a file of text or tokens to evaluate, as an "
                   "argument or with --data PATH", "eval", "lm", "--weights", folder)
        shutil.rmtree(folder)

    def generates(self, model):
        """Bytes of a model that has learned little are no text."""
        process = self.start("generate", "--weights", model,
                             "--max-new-tokens", "3",
                             out=subprocess.DEVNULL)
        self.assertEqual(process.wait(60), 0)

    def test_weights(self):
        """They are those of a run that ends at that step, averages too."""
        process = self.begin(*LONG, "--ema", "0.9")
        os.kill(process.pid, signal.SIGINT)
        said = self.ended(process)[2]
        step = re.search(r"after step (\d+)", said)[1]
        self.good(*LONG, "--ema", "0.9", "--steps", step, "--save", "m")
        self.assertEqual(self.weights("m"),
                         self.weights(f"runs/{self.runs()[0]}", "lm"))

    def test_file(self):
        """--save is written, too, unless there are checkpoints."""
        process = self.start(*LONG, "--save", "m", "--metrics", "l",
                             cwd=self.folder)
        self.assertTrue(wait_until(
            lambda: os.path.exists(self.path("l")) and
            read(self.path("l")).count(b"\n") > 2, 60))
        os.kill(process.pid, signal.SIGTERM)
        self.assertRegex(self.ended(process)[2], "; saved 'm' ")
        self.generates(self.path("m"))
        self.assertEqual(self.runs(), [])

    def test_nothing(self):
        process = self.start(*LONG, "--no-save", "--metrics", "l",
                             cwd=self.folder)
        self.assertTrue(wait_until(
            lambda: os.path.exists(self.path("l")) and
            read(self.path("l")).count(b"\n") > 2, 60))
        os.kill(process.pid, signal.SIGTERM)
        status, _, said = self.ended(process)
        self.assertEqual(status, 128 + signal.SIGTERM)
        self.assertIn("; nothing was saved (--no-save)", said)
        self.assertEqual(os.listdir(self.folder), ["l"])

    def test_images(self):
        for words in (IMAGES, CIFAR):
            process = self.begin(*words, "--epochs", "100000", "-n", "2")
            os.kill(process.pid, signal.SIGINT)
            status, _, said = self.ended(process)
            self.assertEqual(status, 128 + signal.SIGINT, said)
            name, = self.runs()
            model = self.path("runs", name, "model.safetensors")
            self.assertIn(f"saved 'runs/{name}/model.safetensors'", said)
            header, tensors = files.read_safetensors(model)
            self.assertGreater(int(header["__metadata__"]["epochs"]), 0)
            self.assertTrue(tensors)
            shutil.rmtree(self.path("runs"))

    def test_restarted(self):
        """An attempt that was killed, and the next one, have one folder."""
        for words in ((), ("--output-dir", "runs/mine")):
            shutil.rmtree(self.path("runs"), ignore_errors=True)
            process = self.begin("run", "-n", "2", "--max-restarts", "1", "--",
                                 LOCKSTEP, *LONG, *words)
            supervisor, = children(process.pid)
            ranks = children(supervisor)
            os.kill(ranks[0], signal.SIGKILL)
            self.assertTrue(wait_until(
                lambda: self.said(process).count(b"\nstep 1/") == 2, 60))
            self.assertEqual(len(self.runs()), 1)
            os.kill(process.pid, signal.SIGTERM)
            said = self.ended(process)[2]
            name, = self.runs()
            self.assertEqual(said.count(f"results go to 'runs/{name}'"), 2)
            self.assertIn(f"saved 'runs/{name}/model.safetensors'", said)


class Diverged(KeepTest):
    def test_no_model(self):
        """All ranks end, one says why, and what was trained is not kept."""
        for job, words in (
                ("lm", (*LM, "--clip-norm", "0", "--warmup-steps", "0")),
                ("cifar100", (*CIFAR, "--weight-decay", "1e6"))):
            for ranks in "1", "2", "3":
                done = self.call(*words, "--lr", "1e6", "-n", ranks,
                                 cwd=self.folder)
                self.assertEqual(done.returncode, 65, done.stderr)
                name = f"runs/{self.name(job, 1)}"
                self.assertRegex(
                    done.stderr, r"\nlockstep: train \w+: (rank 0: )?step \d+: (loss|"
                    r"gradient norm|validation loss) is (nan|inf): .*\. "
                    f"'{name}/model.safetensors' was not written\n$")
                self.assertEqual(done.stderr.count("lockstep: "), 1)
                self.assertEqual(sorted(os.listdir(self.path(name))),
                                 ["metrics.jsonl", "run.json"])
                reader = (("generate", "--prompt", "a") if job == "lm" else
                          ("predict", "x.png"))
                self.fails(1, f"no checkpoint found in '{name}'. The folder "
                           "contains no model.safetensors either; a run writes this "
                           "file when it ends, but not if it fails or diverges",
                           *reader, "--weights", name, cwd=self.folder)
                shutil.rmtree(self.path("runs"))


    def test_too_few_steps(self):
        """A run that ends too early to be refused warns, with its model."""
        for ranks, words, n in ((1, (), 1), (2, (), 1), (1, ("--quiet",), 1),
                                (1, ("--no-divergence-check",), 0),
                                (1, ("--lr", "0.01"), 0)):
            lines = self.good(*CIFAR, "--lr", "1e6", *words, "--save", "m",
                              "-n", str(ranks))
            warnings = [line for line in lines if "warn" in line]
            self.assertEqual(len(warnings), n, lines)
            if n > 0:
                self.assertRegex(
                    warnings[0], r"the model has probably diverged: the loss "
                    r"of the last \d+ steps was above [\d.]+\. This limit is .*"
                    r"Try a lower --lr than 1e\+06$")


class Rescued(KeepTest):
    def test_metrics(self):
        """A run ends where its metrics cannot be written, with its model."""
        more = ("--schedule", "constant", "--metrics", "/dev/full",
                "--validate-every", "0")
        one = ("train", "lm", *SHAPE, "--steps", "1", "--warmup-steps", "0",
               *more[:2], *more[4:])
        self.good(*one, "--save", "one")
        for ranks in "1", "3":
            done = self.call("train", "lm", *SHAPE, *more, "--warmup-steps",
                             "0", "-n", ranks, "--output-dir", ranks,
                             cwd=self.folder)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertRegex(
                done.stderr, r"\nlockstep: train lm: (rank 0: )?cannot write "
                r"'/dev/full': No space left on device\. The run ended after "
                r"step 1; "
                fr"saved '{ranks}/model.safetensors' \([\d.]+ KiB\)\n$")
            self.assertEqual(sorted(os.listdir(self.path(ranks))),
                             [name for name in LM_RESULT
                              if name != "metrics.jsonl"])
        self.assertEqual(self.weights("1", "lm"), self.weights("one"))

    def test_epochs(self):
        done = self.call(*CIFAR, "-n", "2", "--metrics", "/dev/full",
                         cwd=self.folder)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, "cannot write '/dev/full': .*The run "
                                      "ended "
                                      r"after step \d+; saved 'runs/")

    def test_nothing_to_save(self):
        """Neither before the first step nor with --no-save."""
        for words in ((), ("--validate-every", "0", "--no-save")):
            done = self.call(*LM, *words, "--metrics", "/dev/full",
                             cwd=self.folder)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertTrue(done.stderr.endswith(
                "cannot write '/dev/full': No space left on device\n"))


MOUNT = ("unshare", "--mount", "sh", "-c",
         'mount -t tmpfs -o "$1" none "$0" && cd "$0" && shift && "$@"; '
         'status=$?; ls -A; exit $status')


def can_mount():
    with tempfile.TemporaryDirectory() as folder:
        return shutil.which("unshare") is not None and subprocess.run(
            [*MOUNT, folder, "size=1m", "true"], stderr=subprocess.DEVNULL,
            check=False).returncode == 0


class Refused(KeepTest):
    def refused(self, ranks, *words, **more):
        """One sentence, also on several ranks, and nothing is left."""
        done = self.call(*words, "-n", str(ranks), **more)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stderr.count("lockstep: "), 1, done.stderr)
        self.assertRegex(done.stderr, r"The result needs [\d.]+ [KM]iB; give "
                                      "another (folder with --output-dir, or use "
                                      "--no-save|file with --save)")
        self.assertNotIn("step 1/", done.stderr)
        self.assertEqual(done.stdout, "")
        return done.stderr

    def test_under_a_file(self):
        with open(self.path("runs"), "w", encoding="ascii"):
            pass
        for ranks in (1, 2, 3):
            for words in (LM, CIFAR):
                self.assertIn(
                    "Not a directory", self.refused(ranks, *words,
                                                    cwd=self.folder))
            for flag in ("--output-dir", "--save"):
                self.assertIn("Not a directory",
                              self.refused(ranks, *LM, flag, "runs/x",
                                           cwd=self.folder))
        self.assertEqual(os.listdir(self.folder), ["runs"])

    def test_folders_above(self):
        """A refused run removes the folders that it has made, and no other."""
        os.mkdir(self.path("old"))
        for out in ("new/a/b", "old/a/b/", self.path("new/a"),
                    "old/a/" + "x" * 300):
            done = self.call(*LM, "--init", "none", "--output-dir", out,
                             cwd=self.folder)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertEqual([(path, names) for path, names, _ in
                              os.walk(self.folder)],
                             [(self.folder, ["old"]), (self.path("old"), [])])

    @unittest.skipUnless(can_mount(), "no file systems can be mounted")
    def test_file_systems(self):
        for options, reason in (
                ("size=100k", r"100 KiB are free. The result needs [\d.]+ [KM]iB;"),
                ("ro", "Read-only file system")):
            before = (*MOUNT, self.folder, options)
            for ranks, words in ((1, LM), (2, CIFAR), (3, LM)):
                self.assertRegex(self.refused(ranks, *words, before=before),
                                 reason)
            for flag in ("--output-dir", "--save"):
                self.assertRegex(
                    self.refused(2, *LM, flag, "x/y", before=before), reason)
        done = self.call(*LM, "--quiet",
                         before=(*MOUNT, self.folder, "size=1m"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("\nruns\n", done.stdout)

    @unittest.skipUnless(can_mount(), "no file systems can be mounted")
    def test_filled_meanwhile(self):
        """A disk that others fill has room for the model."""
        script = ('mount -t tmpfs -o size=1m none "$0" && cd "$0" || exit 9; '
                  '"$@" & until [ -s out/run.json ]; do sleep 0.02; done; '
                  'cat /dev/zero >fill; ls out; wait $!; status=$?; ls out; '
                  'exit $status')
        words = ("train", "lm", *SHAPE, "--steps", "4000", "--validate-every",
                 "0", "--quiet", "--output-dir", "out", "--metrics",
                 "/dev/null")
        done = self.call(*words, before=("unshare", "--mount", "sh", "-c",
                                         script, self.folder))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("No space left", done.stderr)  # of cat
        lines = done.stdout.splitlines()
        self.assertEqual(lines[0], "run.json")  # there was no model then
        self.assertIn("model.safetensors", lines)

    def test_failed_later(self):
        """A run that is refused for another reason leaves no folder."""
        for words in ((), ("--output-dir", "a")):
            for flag in ("--metrics", "--tensorboard"):
                self.fails(1, "/dev/null/x", *LM, flag, "/dev/null/x", *words,
                           cwd=self.folder)
        done = self.call(*LM, "--d-model", "15", cwd=self.folder)
        self.assertNotEqual(done.returncode, 0)
        self.fails(1, "missing", *LM, "--data", "missing", cwd=self.folder)
        self.assertEqual(os.listdir(self.folder), [])


if __name__ == "__main__":
    unittest.main()
