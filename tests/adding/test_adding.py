#!/usr/bin/env python3
"""Each patch of this folder adds one thing to a copy of the tree, as
docs/dev/adding-one.md describes it. The copy is built, and the new things run.

The text before the first "diff" says what to build (Build:), what to run (Run:, a
line of the shell; several run in order), and what the last one prints (Prints:).

With --check it only asks whether each patch still applies."""

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.environ["LOCKSTEP_SOURCE"]
HERE = os.path.dirname(os.path.abspath(__file__))
CHECK = sys.argv[1:] == ["--check"]
ONLY = [] if CHECK else sys.argv[1:]  # names of patches; none: all of them


class Patch:
    def __init__(self, path):
        self.path = path
        self.name = os.path.basename(path)[:-len(".patch")]
        with open(path, encoding="utf-8") as file:
            self.head = file.read().partition("\ndiff ")[0]
        self.targets = " ".join(self.lines("Build")).split()

    def lines(self, key):
        return re.findall(rf"^{key}: (.*)$", self.head, re.MULTILINE)


PATCHES = [Patch(path)
           for path in sorted(glob.glob(os.path.join(HERE, "*.patch")))]
PATCHES = [patch for patch in PATCHES if not ONLY or patch.name in ONLY]


def call(words, cwd, **more):
    """Runs a program; its output, which is in the error if it fails."""
    done = subprocess.run(words, cwd=cwd, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False, **more)
    if done.returncode != 0:
        raise AssertionError(f"{words}: exit status {done.returncode}\n"
                             f"{done.stdout[-6000:]}")
    return done.stdout


class CheckTest(unittest.TestCase):
    def test_each_applies(self):
        for patch in PATCHES:
            with self.subTest(patch.name):
                call(["git", "apply", "--check", patch.path], SOURCE)


class AddingTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="lockstep-adding-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.tree = os.path.join(cls.folder, "tree")
        shutil.copytree(SOURCE, cls.tree, symlinks=True,
                        ignore=shutil.ignore_patterns("build", "build-*",
                                                      ".git", "shared"))
        for patch in PATCHES:
            call(["git", "apply", patch.path], cls.tree)
        cls.build = os.path.join(cls.tree, "build")
        call(["cmake", "--preset", "bare", "-B", cls.build,
              "-DLOCKSTEP_BUILD_TESTS=ON"], cls.tree)
        targets = sorted({t for patch in PATCHES for t in patch.targets})
        call(["cmake", "--build", cls.build, "-j", str(os.cpu_count()),
              "--target", *targets], cls.tree)
        programs = {os.path.dirname(path) for path in
                    glob.glob(os.path.join(cls.build, "tests/unit/*/test_*"))}
        cls.path = os.pathsep.join([os.path.join(cls.build, "bin"), *programs,
                                    os.environ["PATH"]])

    def run_patch(self, patch):
        cwd = tempfile.mkdtemp(dir=self.folder)
        lines = patch.lines("Run")
        self.assertTrue(lines, "the patch says nothing to run")
        for line in lines:
            output = call(["sh", "-c", line], cwd,
                          env={**os.environ, "PATH": self.path})
        for text in patch.lines("Prints"):
            self.assertIn(text, output)


def make_test(patch):
    return lambda self: self.run_patch(patch)


for one in PATCHES:
    setattr(AddingTest, f"test_{one.name}", make_test(one))

if __name__ == "__main__":
    if shutil.which("git") is None:
        print("git is not installed")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1],
                  defaultTest="CheckTest" if CHECK else "AddingTest")
