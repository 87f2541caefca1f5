"""Completion in shells, and manual pages."""

import os
import shutil
import subprocess
import tempfile
import unittest

from program import ProgramTest, environment

BASH = r"""
source "$SCRIPT"
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_lockstep
printf '%s\n' "${COMPREPLY[@]}"
"""

# Command line, what must be offered, what must not.
CASES = (
    (("",), {"run", "train", "bench"}, {"cifar100", "--ranks"}),
    (("tr",), {"train"}, {"run"}),
    (("train", ""), {"cifar100", "lm"}, {"run"}),
    (("train", "cifar100", "--opt"), {"--optimizer"}, {"--epochs"}),
    (("train", "cifar100", "--optimizer", ""), {"sgd", "adamw"},
     {"--epochs"}),
    (("train", "cifar100", "-n", "2", "--ep"), {"--epochs"}, set()),
    (("run", "--no"), {"--no-bind", "--no-python"}, {"--bind"}),
)


class Completion(ProgramTest):
    def script(self, shell):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, "script")
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.succeeds("completion", shell))
        return path

    def output(self, *words, **variables):
        done = subprocess.run(words, env=environment(**variables), timeout=50,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              universal_newlines=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""), words)
        return done.stdout

    def shell(self, name):
        if shutil.which(name) is None:
            self.skipTest(f"{name} is not installed")
        return self.script(name)

    def check(self, offered_for):
        for words, wanted, unwanted in CASES:
            offered = set(offered_for(words))
            self.assertLessEqual(wanted, offered, words)
            self.assertFalse(unwanted & offered, words)

    def test_bash(self):
        script = self.shell("bash")
        self.check(lambda words: self.output(
            "bash", "-c", BASH, "bash", "lockstep", *words,
            SCRIPT=script).split())

    def test_bash_leaves_the_program_alone(self):
        self.assertEqual(self.output("bash", "-c", BASH, "bash", "lockstep",
                                     "run", "--", "--n",
                                     SCRIPT=self.shell("bash")).strip(), "")

    def test_fish(self):
        script = self.shell("fish")
        # One shell for all cases: it takes long to start.
        lines = [f"complete -C 'lockstep {' '.join(words)}'; echo ---"
                 for words, _, _ in CASES]
        out = self.output("fish", "-c", "; ".join([f"source {script}"] + lines))
        parts = iter(out.split("---\n"))
        self.check(lambda words: [line.split("\t")[0]
                                  for line in next(parts).splitlines()])

    def test_zsh_can_read_it(self):
        self.output("zsh", "-n", self.shell("zsh"))

    def test_which_shell(self):
        for words in ((), ("tcsh",), ("bash", "zsh")):
            self.fails(2, "name one shell", "completion", *words)


class Manual(ProgramTest):
    def commands(self):
        """Every command, from the headings of the whole help."""
        text = self.succeeds("help", "--markdown")
        return [line[3:] for line in text.splitlines()
                if line.startswith("## ")]

    def test_a_page_for_each_command(self):
        with tempfile.TemporaryDirectory() as folder:
            self.succeeds("help", "--man", folder)
            names = [name.strip().replace(" ", "-") + ".1"
                     for name in self.commands()]
            self.assertEqual(sorted(os.listdir(folder)), sorted(names))
            if shutil.which("man") is None:
                return
            for name in names:
                done = subprocess.run(
                    ["man", "--warnings", "-l", os.path.join(folder, name)],
                    env=environment(MAN_KEEP_FORMATTING=0, LC_ALL="C.UTF-8"),
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                    universal_newlines=True, timeout=50, check=False)
                self.assertEqual((done.returncode, done.stderr), (0, ""), name)
                self.assertIn(name[:-2], done.stdout)

    def test_folder_that_is_not_there(self):
        self.fails(1, "cannot create the folder '/proc/nonesuch'", "help",
                   "--man", "/proc/nonesuch")


if __name__ == "__main__":
    unittest.main()
