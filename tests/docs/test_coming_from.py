#!/usr/bin/env python3
"""docs/how-to/coming-from.md names no flag and no command that `lockstep` does not have,
and no function that the packages for Python do not have."""

import os
import re
import subprocess
import unittest

ROOT = os.environ["LOCKSTEP_SOURCE"]
PAGE = os.path.join(ROOT, "docs", "how-to", "coming-from.md")
FLAG = re.compile(r"(?<![\w-])--?[a-z][a-z-]*")
NEGATED = re.compile(r"--no-([a-z-]+)")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def right_hand_names(page):
    """The names in backticks in the last columns of tables."""
    for line in page.split("\n"):
        if line.startswith("|"):
            yield from re.findall(r"`([^`]+)`", line.rstrip("| ").rpartition("|")[2])


def unknown(page, manual, python):
    flags = set(FLAG.findall(manual)) | {
        "--" + name for name in NEGATED.findall(manual)}
    commands = set(re.findall(r"^## (lockstep [a-z0-9 -]+)$", manual, re.M))
    for name in right_hand_names(page):
        yield from (flag for flag in FLAG.findall(name) if flag not in flags)
        command = re.match(r"lockstep( [a-z][a-z0-9-]*)+", name)
        if command and command.group() not in commands:
            yield command.group()
        method = re.match(r"group\.(\w+)", name)
        if method and f"def {method.group(1)}(" not in python:
            yield name


class Tests(unittest.TestCase):
    def test_page(self):
        manual = subprocess.run([os.environ["LOCKSTEP"], "help", "--markdown"],
                                check=True, stdout=subprocess.PIPE, text=True).stdout
        python = read(os.path.join(ROOT, "python/lockstep/src/lockstep/_group.py"))
        self.assertEqual(list(unknown(read(PAGE), manual, python)), [])

    def test_names_that_do_not_exist(self):
        page = ("| `--left` | `--right`, `-q`, `--quiet` |\n| a | `lockstep top` |\n"
                "| a | `lockstep stop` |\n| a | `group.bcast(x)`, `group.scan()` |\n")
        manual = "## lockstep top\n  -q, --quiet\n"
        self.assertEqual(list(unknown(page, manual, "def bcast(self)")),
                         ["--right", "lockstep stop", "group.scan()"])


if __name__ == "__main__":
    unittest.main()
