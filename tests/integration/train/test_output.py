"""The output of training: on terminals of several widths, in files, and elsewhere."""

import fcntl
import math
import os
import pty
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import termios
import threading
import time
import unittest

import events
import files
from program import LOCKSTEP, ProgramTest, environment

CIFAR = ("train", "cifar100", "--threads", "1", "--limit", "300",
         "--batch-size", "4", "--epochs", "2")
LM = ("train", "lm", "--threads", "1", "--layers", "1", "--d-model", "16",
      "--heads", "2", "--d-ff", "16", "--context", "8", "--batch-size", "2",
      "--steps", "600", "--validate-every", "200")


def on_terminal(words, columns, term="xterm-256color", **changes):
    """The exit status, and what a terminal of that width has been sent."""
    main, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ,
                struct.pack("HHHH", 24, columns, 0, 0))
    shown = []

    def read():
        while True:
            try:
                data = os.read(main, 1 << 16)
            except OSError:  # nobody has it open any more
                return
            shown.append(data)

    reader = threading.Thread(target=read)
    env = environment(TERM=term, **changes)
    with subprocess.Popen([LOCKSTEP, *words], env=env, stderr=terminal,
                          stdout=subprocess.DEVNULL,
                          stdin=subprocess.DEVNULL) as process:
        os.close(terminal)
        reader.start()
        try:
            process.wait(timeout=60)
        finally:
            process.kill()
            reader.join()
            os.close(main)
    return process.returncode, b"".join(shown).decode()


def drawn(text):
    """The live lines, each without what clears the rest."""
    return [line for line in re.findall(r"\r([^\r\n\033]+)\033\[K", text)]


def on_screen(text):
    """The lines that are there at the end."""
    lines = text.replace("\r\n", "\n").split("\n")
    return [re.sub(r".*\r", "", line).replace("\033[K", "") for line in lines]


def without_advice(lines):
    """Some processors could multiply bf16 faster, and the run says so."""
    return [line for line in lines if not line.startswith("f32: with ")]


class Terminal(ProgramTest):
    def test_widths(self):
        for words, unit, widths in ((CIFAR, "images", (200,)),
                                    (LM, "tokens", (40, 80, 200))):
            for columns in widths:
                status, text = on_terminal(words, columns)
                self.assertEqual(status, 0, text)
                lines = drawn(text)
                self.assertTrue(lines, text)
                for line in lines:
                    self.assertLess(len(line), columns)
                    self.assertRegex(line, r"step \d+/\d+, .*loss \d")
                self.check_parts(lines[-1], columns, unit)

    def check_parts(self, line, columns, unit):
        everything = rf" \[[#.]+\], loss .*lr .* ms/step, \d+ {unit}/s, " \
                     r"\d+:\d\d elapsed, \d+:\d\d left$"
        if columns == 40:
            self.assertNotIn("lr", line)
        else:
            self.assertRegex(line, rf"\d {unit}/s, .*\d+:\d\d left$")
        if columns == 200:
            self.assertRegex(line, everything)

    def test_what_stays(self):
        _, text = on_terminal(CIFAR, 120)
        lines = without_advice(on_screen(text))
        self.assertRegex(lines[0], "^results go to 'runs/cifar100-.*'$")
        self.assertRegex(lines[1], "^cifar100: 300 images")
        self.assertRegex(lines[2], r"^epoch 1/2: loss \d")
        self.assertRegex(lines[3], r"^epoch 2/2: loss \d")
        self.assertNotIn("elapsed", "".join(lines))
        _, text = on_terminal(LM, 120)
        lines = without_advice(on_screen(text))
        self.assertEqual([line.split(":")[0] for line in lines[2:6]],
                         [f"step {n}/600" for n in (0, 200, 400, 600)])
        self.assertIn("perplexity", lines[2])
        _, text = on_terminal((*LM, "--log-every", "300"), 120)
        self.assertIn("step 300/600: loss ", "\n".join(on_screen(text)))

    def test_dumb(self):
        for changes in ({"term": "dumb"}, {"term": ""}):
            status, text = on_terminal(LM, 80, **changes)
            self.assertEqual(status, 0, text)
            self.assertNotIn("\033", text)
            self.assertNotRegex(text, r"\r[^\n]")

    def test_no_colour(self):
        """stderr has none: clearing a line is all that is sent."""
        for changes in ({}, {"NO_COLOR": "1"}):
            _, text = on_terminal(LM, 80, **changes)
            self.assertEqual(set(re.findall(r"\033\[[\d;]*.", text)),
                             {"\033[K"})

    def test_errors_stand_alone(self):
        status, text = on_terminal((*LM, "--metrics", "/dev/full"), 80)
        self.assertEqual(status, 1)
        self.assertRegex(on_screen(text)[-2], r"^lockstep: .*/dev/full")


class FolderTest(ProgramTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def run_well(self, *words):
        done = self.call(*words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def refuses(self, text, *words):
        done = self.call(*words)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(text, done.stderr)
        self.assertEqual(done.stderr.count("lockstep: "), 1, done.stderr)


class Plain(FolderTest):
    def test_files_get_lines(self):
        done = self.run_well(*LM)
        self.assertNotIn("\r", done.stderr)
        self.assertNotIn("\033", done.stderr)
        steps = re.findall(r"^step (\d+)/600: loss [\d.]+, lr [\d.e-]+, gradient "
                           r"norm [\d.]+, \d+ tokens/s, perplexity [\d.]+$",
                           done.stderr, re.M)
        self.assertEqual([int(step) for step in steps],
                         [1, *range(10, 601, 10)])

    def test_saved(self):
        runs = self.path("runs")
        done = self.run_well(
            *CIFAR, "-n", "2", "--save-every", "20", "--checkpoint-dir", runs)
        self.assertEqual(re.findall(r"^saved step (\d+) in '(.*)'$",
                                    done.stderr, re.M),
                         [(str(n), runs) for n in (20, 40, 60)])

    def test_summary(self):
        """The summary shows the configuration of the training."""
        done = self.run_well(*LM, "-n", "2", "--dtype", "bf16", "--optimizer",
                             "sgd", "--strategy", "naive", "--seed", "3",
                             "--save", self.path("model"))
        for text in ("trained: lm: rope, 1 layer, d_model 16, 2 heads, d_ff "
                     "16, vocabulary 256, context 8; 10032 parameters",
                     "data: built-in, 235930 tokens to train",
                     "on: 2 ranks x 1 thread, strategy naive, bf16",
                     "recipe: -n 2 --strategy naive --dtype bf16 --batch-size "
                     "2 --accumulate 1 --steps 600 --optimizer sgd --lr 0.01 "
                     "--momentum 0.5",
                     " --seed 3\n", "result: 600 steps, loss ",
                     f"\nsaved '{self.path('model')}' (40.5 KiB)\n"):
            self.assertIn(text, done.stderr)
        self.assertEqual(len(done.stdout.splitlines()), 3)
        done = self.run_well(*CIFAR)
        for text in ("trained: cifar100: cifar-net, 825988 parameters\n",
                     "data: built-in, 300 images to train, 1000 to validate",
                     "result: 2 epochs, 150 steps, training loss "):
            self.assertIn(text, done.stderr)

    def test_the_recipe_can_be_given_again(self):
        for job, flags in (
                (LM, ("--optimizer", "lion", "--steps", "20", "--clip-norm",
                      "0", "--tokens-per-step", "64")),
                (CIFAR, ("--epochs", "1", "--accumulate", "2", "--schedule",
                         "cosine", "--ema", "0.9", "--seed", "7"))):
            said = self.run_well(*job, *flags, "-n", "2", "--no-save").stderr
            recipe, = re.findall("^recipe: (.*)$", said, re.M)
            result, = re.findall("^result: .*$", said, re.M)
            again = self.run_well(*job, *recipe.split(), "--no-save")
            self.assertIn(result, again.stderr)

    def test_lines_fit_a_terminal(self):
        status, text = on_terminal((*LM, "--no-save"), 60)
        self.assertEqual(status, 0)
        lines = on_screen(text)
        self.assertIn("recipe: -n 1 --strategy flat --dtype f32 --batch-size 2 "
                      "\\", lines)
        for line in lines:
            self.assertLessEqual(len(line), 60, line)

    def test_quiet(self):
        for words, lines in ((CIFAR, 2), (LM, 604)):
            metrics = self.path("metrics")
            loud = self.run_well(*words)
            done = self.run_well(*words, "--quiet", "-n", "2", "--metrics",
                                    metrics)
            self.assertEqual(done.stderr, "")
            self.assertEqual(done.stdout.splitlines()[0].split("|")[1].strip(),
                             loud.stdout.splitlines()[0].split("|")[1].strip())
            self.assertEqual(len(files.read_lines(metrics)), lines)


class TensorBoard(FolderTest):
    def assert_same(self, values, wanted, tag):
        """(step, value, time) and (step, value), but for the rounding to f32
        and to the 15 digits of JSON."""
        self.assertEqual([v[0] for v in values], [w[0] for w in wanted], tag)
        for (step, value, *_), (_, want) in zip(values, wanted):
            self.assertLessEqual(abs(value - want), 1e-7 * abs(want),
                                 f"{tag} of step {step}")

    def read(self, folder):
        scalars, starts = events.read(folder)
        for values in scalars.values():
            steps = [step for step, _, _ in values]
            self.assertEqual(steps, sorted(set(steps)))
            times = [when for _, _, when in values]
            self.assertEqual(times, sorted(times))
        return scalars, starts

    def test_same_numbers_as_metrics(self):
        folder, metrics = self.path("a/b"), self.path("metrics")
        before = time.time()
        self.run_well(*LM, "-n", "2", "--dtype", "f16", "--tensorboard",
                      folder, "--metrics", metrics)
        scalars, starts = self.read(folder)
        self.assertEqual(starts, [0])
        lines = files.read_lines(metrics)
        steps = [line for line in lines if line["event"] == "step"]
        for tag, key in (("loss/train", "loss"), ("learning_rate", "lr"),
                         ("gradient_norm", "gradient_norm"),
                         ("loss_scale", "loss_scale"),
                         ("throughput/step_seconds", "seconds"),
                         ("throughput/tokens_per_second",
                          "tokens_per_second")):
            self.assert_same(scalars[tag], [(line["step"], line[key])
                                            for line in steps], tag)
        for step, value, when in scalars["perplexity/train"]:
            self.assertAlmostEqual(value / math.exp(steps[step - 1]["loss"]),
                                   1, 6)
            self.assertTrue(before <= when <= time.time())
        self.assert_same(scalars["loss/validation"],
                         [(line["step"], line["val_loss"])
                          for line in lines if line["event"] != "step"],
                         "loss/validation")

    def test_epochs(self):
        folder, metrics = self.path("board"), self.path("metrics")
        self.run_well(*CIFAR, "-n", "2", "--tensorboard", folder, "--metrics",
                      metrics)
        scalars, _ = self.read(folder)
        self.assertEqual([v[0] for v in scalars["loss/train"]],
                         list(range(1, 77)))
        for tag, key in (("loss/epoch", "train_loss"),
                         ("loss/validation", "val_loss"),
                         ("accuracy/validation", "val_accuracy")):
            self.assert_same(scalars[tag],
                             [(38 * line["epoch"], line[key])
                              for line in files.read_lines(metrics)], tag)

    def test_resumed(self):
        """As if it had not ended, wherever it did."""
        whole, folder = self.path("whole"), self.path("board")
        runs = ("--checkpoint-dir", self.path("runs"), "--save-every", "20",
                "--keep", "0", "--resume")
        for words, ends in ((CIFAR, (100, 80)), (LM, (400, 380))):
            self.run_well(*words, "--tensorboard", whole)
            for end in ends:
                self.run_well(*words, *runs, "--tensorboard", folder)
                for name in os.listdir(self.path("runs")):
                    if name[:5] == "step-" and int(name[5:]) > end:
                        shutil.rmtree(os.path.join(self.path("runs"), name))
            self.run_well(*words, *runs, "--tensorboard", folder)
            scalars, starts = self.read(folder)
            # The file between them had nothing that stayed.
            self.assertEqual(starts, [1, ends[1] + 1])
            for tag, values in self.read(whole)[0].items():
                self.assertEqual([v[0] for v in scalars[tag]],
                                 [v[0] for v in values], tag)
                if tag.startswith(("loss", "accuracy")):
                    self.assertEqual([v[1] for v in scalars[tag]],
                                     [v[1] for v in values], tag)
            for name in (whole, folder, self.path("runs")):
                shutil.rmtree(name)

    def test_unwritable(self):
        self.refuses("'/dev/null/x'", *LM, "--tensorboard", "/dev/null/x")
        with open(self.path("file"), "w", encoding="ascii"):
            pass
        self.refuses("file'", *CIFAR, "-n", "2", "--tensorboard",
                     self.path("file"))

    def test_full_disk(self):
        """As the file of metrics: it ends the run, with one sentence."""
        def small_files():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

        for words in (LM, CIFAR):
            done = subprocess.run(
                [LOCKSTEP, *words, "--tensorboard", self.path("board")],
                env=environment(), preexec_fn=small_files, timeout=60,
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                check=False)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertRegex(done.stderr, "\nlockstep: train .*: cannot write .*/board/"
                             "events.*: File too large\n$")
            self.assertEqual(done.stderr.count("\nlockstep: "), 1)


class Prometheus(FolderTest):
    def samples(self, path):
        """{name: value}; checks what the text format wants of a file."""
        out, kinds, name = {}, {}, None
        with open(path, encoding="utf-8") as file:
            lines = file.read().split("\n")
        self.assertEqual(lines.pop(), "")
        for line in lines:
            if line.startswith("#"):
                word, name, rest = line[2:].split(" ", 2)
                self.assertIn(word, ("HELP", "TYPE"))
                self.assertNotIn(name, out)
                if word == "TYPE":
                    kinds[name] = rest
                continue
            found = re.fullmatch(r'(\w+)\{((?:\w+="[^"]*",?)+)\} (\S+)', line)
            self.assertTrue(found, line)
            self.assertEqual(found[1], name)
            self.assertNotIn(name, out)
            self.assertIn(f'host="{socket.gethostname()}"', found[2])
            out[name] = float(found[3])
        for name, kind in kinds.items():
            self.assertEqual(kind == "counter", name.endswith("_total"), name)
        return out

    def test_language_model(self):
        path, metrics = self.path("run.prom"), self.path("metrics")
        self.run_well(*LM, "-n", "2", "--prometheus", path, "--metrics",
                      metrics)
        self.assertEqual(sorted(os.listdir(self.folder)),
                         ["metrics", "run.prom"])
        samples = self.samples(path)
        steps = [line for line in files.read_lines(metrics)
                 if line["event"] == "step"]
        get = lambda name: samples["lockstep_train_" + name]  # noqa: E731
        self.assertEqual(get("running"), 0)
        self.assertEqual(get("steps_total"), 600)
        self.assertEqual(get("tokens_total"), 600 * 2 * 2 * 8)
        self.assertAlmostEqual(get("loss"), steps[-1]["loss"], 12)
        self.assertAlmostEqual(get("perplexity"), math.exp(get("loss")), 9)
        self.assertAlmostEqual(get("step_seconds"), steps[-1]["seconds"], 12)
        self.assertEqual(get("remaining_seconds"), 0)
        self.assertGreater(get("memory_peak_bytes"), 0)
        with open(path, encoding="utf-8") as file:
            self.assertIn('{job="lm",run="run",host="', file.read())

    def test_images(self):
        path, metrics = self.path("a.prom"), self.path("metrics")
        self.run_well(*CIFAR, "--prometheus", path, "--metrics", metrics,
                      "--save-every", "100", "--checkpoint-dir",
                      self.path("runs"))
        samples = self.samples(path)
        last = files.read_lines(metrics)[-1]
        for name, value in (("epochs_total", 2), ("images_total", 600),
                            ("checkpoint_step", 100),
                            ("validation_loss", last["val_loss"]),
                            ("validation_accuracy_ratio",
                             last["val_accuracy"])):
            self.assertAlmostEqual(samples["lockstep_train_" + name], value,
                                   12, name)

    def test_odd_names(self):
        path = self.path('a "b"\\c\n.prom')
        self.run_well(*LM, "--prometheus", path)
        with open(path, encoding="utf-8") as file:
            self.assertIn('run="a \\"b\\"\\\\c\\n"', file.read())

    def test_refused(self):
        self.refuses("no-folder", *LM, "--prometheus",
                     "/proc/no-folder/x.prom")
        self.refuses("--prometheus cannot write to standard output (-)", *LM, "--prometheus", "-")
        self.refuses("/dev/null", *LM, "--prometheus", "/dev/null")

    def test_a_failed_run_does_not_go_on(self):
        path = self.path("x.prom")
        self.refuses("/dev/full", *LM, "--prometheus", path, "--metrics",
                     "/dev/full")
        self.assertEqual(self.samples(path)["lockstep_train_running"], 0)


if __name__ == "__main__":
    unittest.main()
