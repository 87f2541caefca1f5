#!/usr/bin/env python3
"""The texts of help(), the words that types list, and the quickstart of README.md.

The quickstart is run by the program that LOCKSTEP names. Exits with 77 without
NumPy.
"""
import doctest
import inspect
import os
import pydoc
import re
import shlex
import subprocess
import sys
import typing
import unittest

from test_group import lockstep, np

PACKAGE = os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))
ROOT = os.path.dirname(os.path.dirname(PACKAGE))
CLASSES = ("Group", "Request", "GradientAverager", "StoreLike")


def public_functions():
    for name in CLASSES:
        kind = getattr(lockstep, name)
        for attribute, function in inspect.getmembers(kind, callable):
            if not attribute.startswith("_"):
                yield f"{name}.{attribute}", function
    yield "GradientAverager.__init__", lockstep.GradientAverager.__init__
    for name in ("wait_all", "wait_any"):
        yield name, getattr(lockstep, name)


def takes(function):
    return [name for name in inspect.signature(function).parameters
            if name not in ("self", "cls")]


class Docstrings(unittest.TestCase):
    def test_each_says_what_it_takes_and_returns(self):
        found = dict(public_functions())
        self.assertGreater(len(found), 45)
        for name, function in found.items():
            with self.subTest(name):
                text = inspect.getdoc(function) or ""
                summary = text.split("\n")[0]
                self.assertTrue(summary.endswith("."), summary)
                arguments = re.search(r"^Args:\n((?:    .*\n?)+)", text, re.M)
                listed = re.findall(r"^    (\w+): ", arguments.group(1), re.M) \
                    if arguments else []
                self.assertEqual(listed, takes(function))
                returns = inspect.signature(function).return_annotation
                self.assertEqual("Returns:\n" in text, returns != "None")

    def test_none_leans_on_another(self):
        for name, function in public_functions():
            for words in ("he same on the root", "ikewise", "s above", "The same"):
                self.assertNotIn(words, inspect.getdoc(function) or "", name)

    def test_reductions_say_which_types(self):
        found = [name for name, function in public_functions()
                 if "op" in takes(function)]
        self.assertEqual(len(found), 8)
        for name, function in public_functions():
            if name in found:
                self.assertIn('"avg": floating types only',
                              inspect.getdoc(function), name)

    def test_collectives_say_what_they_raise(self):
        for name, function in public_functions():
            text = inspect.getdoc(function)
            if "ollective" in text.split("\n")[0]:
                self.assertRegex(text, r"Raises:\n(    .*\n)*    Error: ", name)


class Module(unittest.TestCase):
    def test_dir_lists_all(self):
        self.assertEqual(dir(lockstep), sorted(lockstep.__all__))

    def test_help_shows_what_is_loaded_late(self):
        text = pydoc.render_doc(lockstep, renderer=pydoc.plaintext)
        for name in ("Group", "Request", "Message", "GradientAverager"):
            self.assertRegex(text, rf"(?m)^    class {name}\(")
        for name in ("wait_all", "wait_any"):
            self.assertRegex(text, rf"(?m)^    {name}\(")


class Types(unittest.TestCase):
    def test_reductions(self):
        with lockstep.Group.open(f"docs {os.getpid()}", 0, 1) as group:
            for op in typing.get_args(lockstep.ReduceOp):
                kind = float if op == "avg" else int
                self.assertEqual(group.allreduce(np.array([3], kind), op), [3])
            for name in typing.get_args(lockstep.DTypeName):
                array = group.shared_array(2, name)
                self.assertEqual(array.dtype, np.dtype(name))
                self.assertEqual(group.allgather(array).dtype, np.dtype(name))

    def test_annotations(self):
        hints = typing.get_type_hints(lockstep.Group.iallreduce)
        self.assertEqual(hints["op"], lockstep.ReduceOp)

    def test_repr(self):
        group = lockstep.Group.open(f"repr {os.getpid()}", 0, 1)
        self.assertEqual(repr(group), "<lockstep.Group rank 0 of 1>")
        group.close()
        self.assertEqual(repr(group), "<lockstep.Group rank 0 of 1, closed>")


class Quickstart(unittest.TestCase):
    """By the command that README.md gives."""

    def setUp(self):
        with open(os.path.join(PACKAGE, "README.md"), encoding="utf-8") as file:
            self.text = file.read()
        [line] = re.findall(r"^lockstep run .* -m doctest .*$", self.text, re.M)
        self.command = [{"lockstep": os.environ["LOCKSTEP"],
                         "python3": sys.executable}.get(word, word)
                        for word in shlex.split(line)]

    def run_by(self, command):
        return subprocess.run(
            command, cwd=ROOT, text=True, check=False, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, env={
                **os.environ, "PYTHONPATH": os.path.join(PACKAGE, "src")})

    def test_results_are_as_shown(self):
        self.assertGreater(len(doctest.DocTestParser().get_examples(self.text)), 15)
        done = self.run_by(self.command)
        self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_other_results_would_be_noticed(self):
        alone = ["1" if word == "2" else word for word in self.command]
        done = self.run_by(alone)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("Expected:\n    2\nGot:\n    1\n", done.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
