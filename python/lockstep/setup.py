"""Builds liblockstep-comm beside the package: the wheel needs nothing else.

What that library stands on goes into the wheel with it, but for the C library.
LOCKSTEP_COMM_LIBRARY=FILE takes one that is built already.
"""
import os
import re
import shutil
import subprocess

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
NAME = "liblockstep-comm.so"
SYSTEM = re.compile(r"(linux-vdso|ld-linux|lib(c|m|dl|rt|pthread|gcc_s))[.-]")
WITHOUT = ("ONEDNN", "LIBARCHIVE", "PNG", "JPEG", "HWLOC", "UTF8PROC", "PCRE2",
           "OPENMPI", "MPICH", "UCX", "BUILD_TESTS", "WERROR")


def version():
    with open(os.path.join(ROOT, "CMakeLists.txt"), encoding="utf-8") as file:
        return re.search(r"VERSION (\d+\.\d+\.\d+)", file.read()).group(1)


def build(folder):
    """The library, built in `folder`."""
    flags = [f"-DLOCKSTEP_{name}=OFF" for name in WITHOUT]
    subprocess.run(["cmake", "-S", ROOT, "-B", folder, "-DCMAKE_BUILD_TYPE=Release",
                    "-DCMAKE_BUILD_WITH_INSTALL_RPATH=ON", *flags], check=True)
    subprocess.run(["cmake", "--build", folder, "--parallel",
                    str(os.cpu_count() or 1), "--target", "lockstep_comm_shared"],
                   check=True)
    return os.path.join(folder, "src", NAME)


def needs(library):
    """What it is linked to, but for the C library: (name, path)."""
    lines = subprocess.run(["ldd", library], check=True, capture_output=True,
                           text=True).stdout.splitlines()
    for line in lines:
        match = re.match(r"\s*(\S+) => (/\S+)", line)
        if match and not SYSTEM.match(match.group(1)):
            yield match.groups()


class BuildWithLibrary(build_py):
    def run(self):
        super().run()
        library = os.environ.get("LOCKSTEP_COMM_LIBRARY") or build(
            os.path.abspath(os.path.join("build", "comm")))
        folder = os.path.join(self.build_lib, "lockstep", "lib")
        os.makedirs(folder, exist_ok=True)
        for name, path in [(NAME, library), *needs(library)]:
            shutil.copyfile(os.path.realpath(path), os.path.join(folder, name))
            subprocess.run(["strip", "--strip-unneeded",
                            os.path.join(folder, name)], check=True)


class PlatformWheel(bdist_wheel):
    """For this machine, and any Python: nothing is compiled against it."""

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


class HasLibrary(Distribution):
    def has_ext_modules(self):
        return True


setup(version=version(), distclass=HasLibrary,
      cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": PlatformWheel})
