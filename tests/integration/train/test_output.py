"""What training shows: on terminals of several widths, in files, and elsewhere."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import tempfile
import termios
import threading
import unittest

import files
from program import LOCKSTEP, ProgramTest, environment

CIFAR = ("train", "cifar100", "--threads", "1", "--limit", "600",
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


class Terminal(ProgramTest):
    def test_widths(self):
        for words, unit in ((CIFAR, "images"), (LM, "tokens")):
            for columns in (40, 80, 200):
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
        lines = on_screen(text)
        self.assertRegex(lines[0], "^cifar100: 600 images")
        self.assertRegex(lines[1], r"^epoch 1/2: loss \d")
        self.assertRegex(lines[2], r"^epoch 2/2: loss \d")
        self.assertNotIn("elapsed", "".join(lines))
        _, text = on_terminal(LM, 120)
        lines = on_screen(text)
        self.assertEqual([line.split(":")[0] for line in lines[1:5]],
                         [f"step {n}/600" for n in (0, 200, 400, 600)])
        self.assertIn("perplexity", lines[1])
        _, text = on_terminal((*LM, "--log-every", "300"), 120)
        self.assertIn("step 300/600: loss ", "\n".join(on_screen(text)))

    def test_dumb(self):
        for changes in ({"term": "dumb"}, {"term": ""}):
            status, text = on_terminal(CIFAR, 80, **changes)
            self.assertEqual(status, 0, text)
            self.assertNotIn("\033", text)
            self.assertNotRegex(text, r"\r[^\n]")

    def test_no_colour(self):
        """There is none anyway: clearing a line is all that is sent."""
        for changes in ({}, {"NO_COLOR": "1"}):
            _, text = on_terminal(LM, 80, **changes)
            self.assertEqual(set(re.findall(r"\033\[[\d;]*.", text)),
                             {"\033[K"})

    def test_errors_stand_alone(self):
        status, text = on_terminal((*CIFAR, "--metrics", "/dev/full"), 80)
        self.assertEqual(status, 1)
        self.assertRegex(on_screen(text)[-2], r"^lockstep: .*/dev/full")


class Plain(ProgramTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def run_quietly(self, *words):
        done = self.call(*words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def test_files_get_lines(self):
        done = self.run_quietly(*LM)
        self.assertNotIn("\r", done.stderr)
        self.assertNotIn("\033", done.stderr)
        steps = re.findall(r"^step (\d+)/600: loss [\d.]+, lr [\d.]+, gradient "
                           r"norm [\d.]+, \d+ tokens/s, perplexity [\d.]+$",
                           done.stderr, re.M)
        self.assertEqual([int(step) for step in steps],
                         [1, *range(10, 601, 10)])

    def test_saved(self):
        runs = self.path("runs")
        done = self.run_quietly(
            *CIFAR, "-n", "2", "--save-every", "50", "--checkpoint-dir", runs)
        self.assertEqual(re.findall(r"^saved step (\d+) in '(.*)'$",
                                    done.stderr, re.M),
                         [("50", runs), ("100", runs), ("150", runs)])

    def test_quiet(self):
        for words, lines in ((CIFAR, 2), (LM, 604)):
            metrics = self.path("metrics")
            loud = self.run_quietly(*words)
            done = self.run_quietly(*words, "--quiet", "-n", "2", "--metrics",
                                    metrics)
            self.assertEqual(done.stderr, "")
            self.assertEqual(done.stdout.splitlines()[0].split("|")[1].strip(),
                             loud.stdout.splitlines()[0].split("|")[1].strip())
            self.assertEqual(len(files.read_lines(metrics)), lines)


if __name__ == "__main__":
    unittest.main()
