"""README.md: its program does what it says, its command lines exist."""

import os
import re
import shlex
import subprocess
import tempfile
import unittest

from program import LOCKSTEP, SOURCE, ProgramTest

with open(os.path.join(SOURCE, "README.md"), encoding="utf-8") as readme:
    TEXT = readme.read()


def block(language):
    """What stands between the first ```language and the next ```."""
    return re.search(f"```{language}\n(.*?)```", TEXT, re.S)[1]


class Readme(ProgramTest):
    def test_hello(self):
        libraries = os.environ["LOCKSTEP_LIBRARIES"].split(":")
        run, *expected = block("console").split("$ ")[2].splitlines()
        self.assertIn("lockstep run -n 3 -- ./hello", run)
        with tempfile.TemporaryDirectory() as folder:
            source = os.path.join(folder, "hello.c")
            program = os.path.join(folder, "hello")
            with open(source, "w", encoding="utf-8") as file:
                file.write(block("c"))
            subprocess.run(
                [os.environ["CC"], "-std=c17", "-Wall", "-Werror", source, "-o",
                 program, "-I", os.path.join(SOURCE, "include"), *libraries,
                 f"-Wl,-rpath,{os.path.dirname(libraries[0])}"], check=True)
            out = self.succeeds("run", "-n", "3", "--", program)
        self.assertEqual(sorted(out.splitlines()), expected)

    def commands(self):
        for line in TEXT.splitlines():
            if line.startswith("lockstep "):
                yield shlex.split(line, comments=True)[1:]

    def test_command_lines(self):
        """With --help a command only checks the flags before it."""
        commands = list(self.commands())
        self.assertGreater(len(commands), 5)
        for words in commands:
            end = words.index("--") if "--" in words else len(words)
            out = self.succeeds(*words[:end], "--help")
            self.assertTrue(out.startswith("usage: lockstep " + words[0]))

    def test_commands_of_dev(self):
        dev = subprocess.run([os.path.join(SOURCE, "dev"), "help"], check=True,
                             stdout=subprocess.PIPE, universal_newlines=True)
        for command in re.findall(r"\./dev ([a-z]+)", TEXT):
            self.assertRegex(dev.stdout, rf"(?m)^  {command}\b")

    def test_folders(self):
        for path in re.findall(r"^\| (.*?) \|", TEXT, re.M):
            for name in re.findall(r"`([^`]+)`", path):
                self.assertTrue(os.path.exists(os.path.join(SOURCE, name)), name)


if __name__ == "__main__":
    unittest.main()
