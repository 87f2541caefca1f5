#!/usr/bin/env python3
"""Errors where the C++ bridge does not fit, or cannot be built."""
import os
import shutil
import subprocess
import sys
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


class Bridge(unittest.TestCase):
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
        self.fails(COMMAND, "contains no C++ bridge")

    def test_of_other_pytorchs(self):
        for release in ("1_13", "1_4"):
            written("nothing", self.package, f"_bridge_{release}.so")
        self.fails(COMMAND, "this package is for PyTorch 1.4, 1.13, but PyTorch "
                   f"{torch.__version__} is installed")

    def test_does_not_load(self):
        release = "_".join(torch.__version__.split(".")[:2])
        written("nothing", self.package, f"_bridge_{release}.so")
        self.fails(COMMAND, f"cannot load the C++ bridge with PyTorch {torch.__version__}",
                   f"_bridge_{release}.so")

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
        self.fails("a C++ compiler, and 'no-compiler' is not installed",
                   "apt install cmake make g++", CXX="no-compiler")

    def test_no_tools(self):
        """All that is missing is named in one line."""
        environment = {"PATH": "/nowhere", "CXX": "no-compiler"}
        os.environ.pop("LOCKSTEP_COMM_LIBRARY", None)
        self.fails("'no-compiler'", "'cmake'", "'pkg-config'", "Random123's headers",
                   "apt install cmake make g++", **environment)

    def test_no_such_folder(self):
        self.fails("LOCKSTEP_TORCH_FOLDERS names '/nowhere'", "an unpacked wheel",
                   LOCKSTEP_TORCH_FOLDERS="/nowhere")

    def test_no_pytorch(self):
        with tempfile.TemporaryDirectory() as folder:
            written("raise ImportError", folder, "torch", "__init__.py")
            self.fails("has no PyTorch", "pip install torch", PYTHONPATH=folder)


if __name__ == "__main__":
    unittest.main()
