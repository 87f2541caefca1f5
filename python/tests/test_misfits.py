#!/usr/bin/env python3
"""Errors where the C++ module does not fit, or cannot be built."""
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import unittest

import ranks
import torch

PYTHON = os.path.dirname(ranks.HERE)
COMMAND = "pip install --force-reinstall --no-deps ./python"


def written(text, *path):
    os.makedirs(os.path.join(*path[:-1]), exist_ok=True)
    with open(os.path.join(*path), "w", encoding="utf-8") as file:
        file.write(text)


def said(command, **changes):
    """The last line of a command that fails."""
    done = subprocess.run([sys.executable, *command], text=True, cwd=PYTHON,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env={**os.environ, **changes}, check=False)
    assert done.returncode == 1, done.stdout
    return done.stdout.splitlines()[-1]


class Module(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.package = os.path.join(folder.name, "lockstep_torch")
        self.path = os.pathsep.join([folder.name, os.environ["PYTHONPATH"]])
        shutil.copytree(os.path.join(PYTHON, "src", "lockstep_torch"), self.package)

    def fails(self, *words):
        line = said(["-c", "import lockstep_torch as l; l.create(None, 0, 1)"],
                    PYTHONPATH=self.path)
        for word in ("ImportError: lockstep_torch: ", *words):
            self.assertIn(word, line)

    def test_not_built(self):
        self.fails(COMMAND, "contains no C++ module for Python "
                   f"{sys.version_info[0]}.{sys.version_info[1]}")

    def test_of_another_pytorch(self):
        written('built_for = "1.13"', self.package, "_C.py")
        self.fails(COMMAND, f"built for PyTorch 1.13, but PyTorch {torch.__version__}")

    def test_does_not_load(self):
        written("nothing", self.package, "_C" + sysconfig.get_config_var("EXT_SUFFIX"))
        self.fails(COMMAND, f"cannot load the C++ module with PyTorch {torch.__version__}")

    def test_without_the_package_of_the_library(self):
        self.path = os.path.dirname(self.package)
        self.fails("the package lockstep-dp", f"{COMMAND}/lockstep")

    def test_with_a_library_that_does_not_load(self):
        os.environ["LOCKSTEP_COMM_LIBRARY"] = "/nowhere/library.so"
        self.addCleanup(os.environ.pop, "LOCKSTEP_COMM_LIBRARY")
        self.fails("/nowhere/library.so", f"{COMMAND}/lockstep")


class Build(unittest.TestCase):
    """By setup.py, whose last line is the last one of pip's, too."""

    def fails(self, *words, **changes):
        with tempfile.TemporaryDirectory() as made:
            line = said(["setup.py", "-q", "build_py", "--build-lib", made],
                        **changes)
            self.assertEqual(os.listdir(made), [])
        for word in ("lockstep_torch: ", *words):
            self.assertIn(word, line)

    def test_no_compiler(self):
        self.fails("a C++ compiler", "'no-compiler' is not installed",
                   "apt install cmake make g++", "python3-dev", CXX="no-compiler")

    def test_no_pytorch(self):
        with tempfile.TemporaryDirectory() as folder:
            written("raise ImportError", folder, "torch", "__init__.py")
            self.fails("has no PyTorch", "pip install torch", PYTHONPATH=folder)


if __name__ == "__main__":
    unittest.main()
