#!/usr/bin/env python3
"""A package is built in a copied checkout whose build folders came along.

    test_copied.py numpy|torch
"""
import glob
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

PYTHON = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOT = os.path.dirname(PYTHON)
try:
    import setuptools  # noqa: F401
    try:
        from setuptools.command import bdist_wheel  # noqa: F401
    except ImportError:  # before 70.1
        import wheel  # noqa: F401
except ImportError:
    print("no setuptools or no wheel here: not tested")
    sys.exit(77)

CACHE = """CMAKE_CACHEFILE_DIR:INTERNAL=/elsewhere/python/lockstep/build/comm
CMAKE_HOME_DIRECTORY:INTERNAL=/elsewhere
CMAKE_C_COMPILER:FILEPATH=/usr/bin/cc
CMAKE_MAKE_PROGRAM:FILEPATH=/usr/bin/make
"""


def write(text, *path):
    os.makedirs(os.path.join(*path[:-1]), exist_ok=True)
    with open(os.path.join(*path), "w", encoding="utf-8") as file:
        file.write(text)


def call(command, folder):
    """Its output; an error if it fails."""
    ended = subprocess.run(
        command, cwd=folder, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT)
    if ended.returncode:
        raise AssertionError(ended.stdout)
    return ended.stdout


def wheel_of(top):
    """The names in the wheel."""
    call([sys.executable, "-m", "pip", "wheel", "--no-index",
          "--no-build-isolation", "--no-deps", "--wheel-dir", "made", "."], top)
    [made] = glob.glob(os.path.join(top, "made", "*.whl"))
    return zipfile.ZipFile(made).namelist()


def python_of(top):
    """The names in the wheel, but for the module in C++, which takes minutes."""
    call([sys.executable, "setup.py", "egg_info", "build_py"], top)
    [package] = glob.glob(os.path.join(top, "build", "lib*", "lockstep_torch"))
    made = os.path.dirname(package)
    return [os.path.relpath(os.path.join(folder, name), made)
            for folder, _, files in os.walk(made) for name in files]


class Copied(unittest.TestCase):
    def copy(self, package):
        """A checkout in which that package has been built elsewhere."""
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        for name in ("cmake", "include", "lib", "python"):
            shutil.copytree(os.path.join(ROOT, name), os.path.join(folder, name),
                            ignore=shutil.ignore_patterns("build", "__pycache__"))
        for name in ("CMakeLists.txt", "LICENSE", "project.txt"):
            shutil.copy(os.path.join(ROOT, name), folder)
        top = os.path.join(folder, package)
        build = os.path.join(top, "build")
        write(CACHE, folder, "python", "lockstep", "build", "comm",
              "CMakeCache.txt")
        for kind in ("lib", "lib.linux-x86_64-cpython-39",
                     f"lib.linux-{os.uname().machine}-cpython-"
                     f"{sys.version_info[0]}{sys.version_info[1]}"):
            write("gone = True\n", build, kind, "lockstep", "_gone.py")
        for name in ("lockstep_dp", "lockstep_dp_torch"):
            write("/elsewhere/setup.py\nsrc/gone.py\n", build,
                  name + ".egg-info", "SOURCES.txt")
            write("nonsense\n", build, name + ".egg-info", "PKG-INFO")
        return top

    def check(self, package, name, pack):
        top = self.copy(package)
        # The files of the wheel, with a library that was built before.
        names = pack(top)
        self.assertIn(name, names)
        self.assertFalse([name for name in names if "gone" in name], names)
        # The library itself, which both build in the same place.
        builder = top if package.endswith("lockstep") else \
            os.path.join(top, "lockstep")
        program = (f"import sys; sys.path.insert(0, {builder!r})\n"
                   "import os, build_library as b\n"
                   "b.configure(os.path.join(b.HERE, 'build', 'comm'), "
                   "{'COMM_ONLY': True, 'WERROR': False, 'OPENMPI': False, "
                   "'MPICH': False, 'UCX': False})\n")
        self.assertIn("another checkout", call([sys.executable, "-c", program], top))
        self.assertNotIn("another checkout",
                         call([sys.executable, "-c", program], top))

    def numpy(self):
        self.check("python/lockstep", "lockstep/_core.py", wheel_of)

    def torch(self):
        self.check("python", "lockstep_torch/buckets.py", python_of)


if __name__ == "__main__":
    if not os.environ.get("LOCKSTEP_COMM_LIBRARY"):
        print("LOCKSTEP_COMM_LIBRARY should name a built library: not tested")
        sys.exit(77)
    [asked] = sys.argv[1:]
    if asked == "torch" and not importlib.util.find_spec("torch"):
        print("no PyTorch here: not tested")
        sys.exit(77)
    done = unittest.TextTestRunner().run(Copied(asked))
    sys.exit(not done.wasSuccessful())
