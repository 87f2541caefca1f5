"""The backend for PyTorch; the wheel carries the library and needs only torch.

The C++ part is built for the PyTorch that is installed, also where pip builds
in an environment of its own. Without one, or without a C++ compiler, the wheel
is made without that part, and ctypes serves. LOCKSTEP_TORCH=cpp makes that an
error, LOCKSTEP_TORCH=ctypes does not try.
"""
import glob
import os
import site
import sys
import sysconfig

from setuptools import setup
from setuptools.command.build_ext import build_ext

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # before 70.1
    from wheel.bdist_wheel import bdist_wheel

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "lockstep"))
from build_library import (NAME, ROOT, BuildWithLibrary,  # noqa: E402
                           HasLibrary, WithSources, fresh_folder, version)

WANTED = os.environ.get("LOCKSTEP_TORCH", "")


def cpp_extension():
    """torch.utils.cpp_extension of the PyTorch that is installed, or None."""
    if WANTED == "ctypes":
        return None
    for path in (sysconfig.get_path("platlib"), sysconfig.get_path("purelib"),
                 "/usr/lib/python3/dist-packages"):
        if os.path.isdir(path):
            site.addsitedir(path)  # at the end: pip's own come first
    try:
        from torch.utils import cpp_extension as found
    except ImportError as error:
        if WANTED == "cpp":
            raise
        print(f"no PyTorch to build for ({error}): ctypes will serve")
        return None
    return found


TORCH = cpp_extension()


class BuildOrGoWithout(TORCH.BuildExtension if TORCH else build_ext):
    """An extension that cannot be built is left out."""

    def run(self):
        try:
            super().run()
        except Exception as error:
            if WANTED == "cpp":
                raise
            print(f"the C++ part is left out, ctypes will serve: {error}")

    def copy_extensions_to_source(self):
        pass

    def build_extensions(self):
        library = os.path.join(os.path.abspath(
            self.get_finalized_command("build_py").build_lib),
            "lockstep", "lib", NAME)
        for extension in self.extensions:
            extension.extra_objects = [library]
        super().build_extensions()


class Wheel(bdist_wheel):
    """Any Python will do where nothing is compiled against it."""

    def get_tag(self):
        tag = super().get_tag()
        built = glob.glob(os.path.join(self.bdist_dir or "", "lockstep_torch",
                                       "_C*.so"))
        return tag if TORCH or built else ("py3", "none", tag[2])


class Sources(WithSources):
    files = ("csrc", os.path.join("lockstep", "build_library.py"))


def extensions():
    if not TORCH:
        return []
    import torch
    return [TORCH.CppExtension(
        "lockstep_torch._C", sorted(glob.glob("csrc/*.cpp")),
        include_dirs=[os.path.join(ROOT, "include")],
        define_macros=[("LOCKSTEP_TORCH_VERSION", '"%s"' % ".".join(
            torch.__version__.split(".")[:2]))],
        extra_compile_args=["-O2", "-g0", "-fvisibility=hidden", "-Wall"],
        extra_link_args=["-Wl,-rpath,$ORIGIN/../lockstep/lib", "-s"])]


os.chdir(HERE)
fresh_folder()
setup(version=version(), distclass=HasLibrary, ext_modules=extensions(),
      options={"egg_info": {"egg_base": "build"}},  # not among the sources
      cmdclass={"build_py": BuildWithLibrary, "build_ext": BuildOrGoWithout,
                "sdist": Sources, "bdist_wheel": Wheel})
