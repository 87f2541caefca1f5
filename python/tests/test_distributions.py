#!/usr/bin/env python3
"""The two distributions share no file: each comes and goes without the other.

    test_distributions.py FOLDER-OF-WHEELS

Installs and uninstalls both in a virtual environment, offline. The bridge fits every
version of Python, and one is built for each PyTorch that is asked for.
"""
import csv
import glob
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import unittest
import venv

PYTHON = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NUMPY, TORCH = "lockstep-dp", "lockstep-dp-torch"
GROUP = ("import lockstep; group = lockstep.Group.open('alone %d', 0, 1); "
         "assert group.allreduce(2) == 2; group.close()" % os.getpid())
BACKEND = "import lockstep_torch; lockstep_torch._bridge()"


def wheel_of(name):
    [found] = glob.glob(os.path.join(WHEELS, name.replace("-", "_") + "-0*.whl"))
    return found


class Distributions(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        venv.create(folder.name)
        self.python = os.path.join(folder.name, "bin", "python")
        self.site = self.run_python(
            "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
        # NumPy and PyTorch, which are not to be installed again.
        with open(os.path.join(self.site, "others.pth"), "w",
                  encoding="utf-8") as file:
            for name in ("numpy", "torch"):
                package = os.path.dirname(importlib.util.find_spec(name).origin)
                file.write(os.path.dirname(package) + "\n")

    def run_python(self, program, status=0):
        environment = {name: value for name, value in os.environ.items()
                       if name not in ("PYTHONPATH", "LOCKSTEP_COMM_LIBRARY")}
        done = subprocess.run(
            [self.python, "-W", "ignore", "-c", program], env=environment,
            cwd=os.path.dirname(self.python), text=True, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, status, done.stdout)
        return done.stdout

    def pip(self, *words):
        subprocess.run([sys.executable, "-m", "pip", "-q", "--python", self.python,
                        *words], check=True, env={
                            name: value for name, value in os.environ.items()
                            if name != "PYTHONPATH"})

    def install(self, *names):
        self.pip("install", "--no-index", "--no-deps", *map(wheel_of, names))

    def files_of(self, name):
        """All that pip has installed, and will remove."""
        [record] = glob.glob(os.path.join(
            self.site, name.replace("-", "_") + "-0*.dist-info", "RECORD"))
        with open(record, encoding="utf-8", newline="") as file:
            return {row[0] for row in csv.reader(file)}

    def check_whole(self, name):
        for file in self.files_of(name):
            self.assertTrue(os.path.exists(os.path.join(self.site, file)), file)

    def test_either_stays_whole(self):
        self.install(NUMPY, TORCH)
        self.assertEqual(self.files_of(NUMPY) & self.files_of(TORCH), set())
        self.run_python(GROUP)
        self.run_python(BACKEND)
        self.pip("uninstall", "-y", TORCH)
        self.check_whole(NUMPY)
        self.run_python(GROUP)
        self.run_python(BACKEND, status=1)
        self.install(TORCH)
        self.run_python(BACKEND)
        self.pip("uninstall", "-y", NUMPY)
        self.check_whole(TORCH)
        self.assertIn("./python/lockstep", self.run_python(BACKEND, status=1))
        self.install(NUMPY)
        self.check_whole(NUMPY)
        self.run_python(GROUP)
        self.run_python(BACKEND)

    def test_the_same_version_is_needed(self):
        self.install(NUMPY, TORCH)
        needed = self.run_python(
            "from importlib.metadata import requires, version; "
            f"print(version('{NUMPY}'), *requires('{TORCH}'), sep='\\n')").split("\n")
        self.assertIn(f"{NUMPY}=={needed[0]}", needed[1:])


class Bridges(unittest.TestCase):
    def setUp(self):
        self.package = os.path.dirname(
            importlib.util.find_spec("lockstep_torch").origin)

    def listed(self, *command):
        return subprocess.run(command, text=True, stdout=subprocess.PIPE,
                              check=True).stdout

    def test_fits_every_python(self):
        self.assertIn("-py3-none-linux_", os.path.basename(wheel_of(TORCH)))
        [bridge] = glob.glob(os.path.join(self.package, "_bridge_*.so"))
        with open(os.path.join(PYTHON, "csrc", "process.cpp"), encoding="utf-8") as file:
            declared = set(re.findall(r"\b(Py\w+)\(.*\);$",
                                      file.read().split("\n}\n")[0], re.M))
        wanted = set(re.findall(r" U (_?Py\w+)",
                                self.listed("nm", "-D", "--undefined-only", bridge)))
        self.assertEqual(wanted, declared)
        needed = re.findall(r"NEEDED +(\S+)", self.listed("objdump", "-p", bridge))
        self.assertIn("libtorch_cpu.so", needed)
        self.assertFalse([name for name in needed if "python" in name], needed)

    def test_of_unpacked_wheels(self):
        from torch.utils import cpp_extension
        library = glob.glob(os.path.join(
            os.path.dirname(importlib.util.find_spec("lockstep").origin), "lib",
            "liblockstep-comm.so.*"))
        with tempfile.TemporaryDirectory() as folder:
            torchs = [os.path.join(folder, release) for release in ("1.4", "1.13")]
            for path in torchs:
                os.mkdir(path)
                os.symlink(cpp_extension.include_paths()[0], os.path.join(path, "include"))
                os.symlink(cpp_extension.library_paths()[0], os.path.join(path, "lib"))
                with open(os.path.join(path, "version.py"), "w", encoding="utf-8") as file:
                    file.write(f"__version__ = '{os.path.basename(path)}.1+cpu'\n")
            subprocess.run(
                [sys.executable, "setup.py", "-q", "build_ext", "--build-lib", folder],
                cwd=PYTHON, check=True, stdout=subprocess.DEVNULL,
                env={**os.environ, "LOCKSTEP_TORCH_FOLDERS": os.pathsep.join(torchs),
                     "LOCKSTEP_COMM_LIBRARY": library[0]})
            self.assertEqual(sorted(os.listdir(os.path.join(folder, "lockstep_torch"))),
                             ["_bridge_1_13.so", "_bridge_1_4.so"])


if __name__ == "__main__":
    WHEELS = sys.argv.pop()
    if not glob.glob(os.path.join(WHEELS, "*.whl")):
        print(f"no wheels in '{WHEELS}': not tested")
        sys.exit(77)
    unittest.main()
