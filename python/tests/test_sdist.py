#!/usr/bin/env python3
"""An sdist of either package has all that a wheel is built of."""
import glob
import os
import subprocess
import sys
import tarfile
import tempfile
import unittest

PYTHON = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
try:
    import setuptools  # noqa: F401
    try:
        from setuptools.command import bdist_wheel  # noqa: F401
    except ImportError:  # before 70.1
        import wheel  # noqa: F401
except ImportError:
    print("no setuptools or no wheel here: not tested")
    sys.exit(77)


class Sdist(unittest.TestCase):
    def unpacked(self, package, folder):
        """Where its sdist has been unpacked, without the rest of a checkout."""
        subprocess.run(
            [sys.executable, "setup.py", "-q", "sdist", "--dist-dir", folder],
            cwd=package, stderr=subprocess.DEVNULL, check=True)
        [packed] = glob.glob(os.path.join(folder, "*.tar.gz"))
        with tarfile.open(packed) as file:
            file.extractall(folder)
        return packed.removesuffix(".tar.gz")

    def check(self, package, builder):
        with tempfile.TemporaryDirectory() as folder:
            top = self.unpacked(package, folder)
            found = subprocess.run(
                [sys.executable, "setup.py", "--version"], cwd=top, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                check=True).stdout.split()[-1]
            self.assertTrue(top.endswith("-" + found), (top, found))
            for name in (builder, "LICENSE", "library/CMakeLists.txt",
                         "library/lib/comm/api/group.c",
                         "library/include/lockstep/group.h"):
                self.assertTrue(os.path.isfile(os.path.join(top, name)), name)
            with open(os.path.join(PYTHON, "..", "project.txt"),
                      encoding="utf-8") as file:
                addresses = dict(line.split() for line in file if line[0] != "#")
            with open(os.path.join(top, "PKG-INFO"), encoding="utf-8") as file:
                about = file.read()
            for name, label in (("contact", "Maintainer-email: "),
                                ("url", "Project-URL: Homepage, ")):
                self.assertIn(f"\n{label}{addresses[name]}\n", about)
            return {os.path.basename(name)
                    for name in glob.glob(os.path.join(top, "csrc", "*"))}

    def test_numpy(self):
        self.check(os.path.join(PYTHON, "lockstep"), "build_library.py")

    def test_torch(self):
        carried = self.check(PYTHON, "lockstep/build_library.py")
        self.assertEqual(carried, set(os.listdir(os.path.join(PYTHON, "csrc"))))


if __name__ == "__main__":
    unittest.main()
