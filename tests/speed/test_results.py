#!/usr/bin/env python3
"""docs/results.md and README.md say what the rows say, and `results.py check` finds it
where they do not."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


def check(root):
    return subprocess.run([sys.executable, os.path.join(HERE, "results.py"), "check",
                           "--root", root], stdout=subprocess.PIPE, text=True, check=False)


class Results(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        shutil.copytree(os.path.join(ROOT, "docs/results"),
                        os.path.join(self.root, "docs/results"))
        for page in ("README.md", "docs/results.md"):
            shutil.copy(os.path.join(ROOT, page), os.path.join(self.root, page))

    def test_the_pages_are_what_the_rows_say(self):
        done = check(self.root)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_another_row_is_found(self):
        path = os.path.join(self.root, "docs/results/rows/mpi.json")
        with open(path, encoding="utf-8") as file:
            rows = json.load(file)
        for row in rows:
            row["lockstep_us"] = [2 * time for time in row["lockstep_us"]]
        with open(path, "w", encoding="utf-8") as file:
            json.dump(rows, file)
        done = check(self.root)
        self.assertEqual(done.returncode, 1)
        self.assertIn("docs/results.md: the rows say: ", done.stdout)

    def test_another_figure_is_found(self):
        path = os.path.join(self.root, "README.md")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace("all-reduce of 1 KB takes ", "all-reduce of 1 KB takes 9"))
        done = check(self.root)
        self.assertEqual(done.returncode, 1)
        self.assertIn("README.md: the rows say: ", done.stdout)


if __name__ == "__main__":
    unittest.main()
