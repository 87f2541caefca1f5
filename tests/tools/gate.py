"""A made-up source tree for the tests of the gates in tools/."""

import os
import subprocess
import sys
import tempfile
import unittest

TOOLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..",
                     "tools")


class GateTest(unittest.TestCase):
    gate = None  # the script

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="lockstep-gate-")
        self.addCleanup(self.folder.cleanup)

    def write(self, path, text):
        full = os.path.join(self.folder.name, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def arguments(self):
        return ["--root", self.folder.name]

    def run_gate(self):
        return subprocess.run(
            [sys.executable, os.path.join(TOOLS, self.gate), *self.arguments()],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            check=False)

    def passes(self):
        done = self.run_gate()
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def fails(self, *parts):
        done = self.run_gate()
        self.assertEqual(done.returncode, 1, done.stdout)
        for part in parts:
            self.assertIn(part, done.stdout)
        return done.stdout
