"""The backend for PyTorch; the package lockstep-dp carries the library.

The C++ module is built for the installed PyTorch, also where pip builds
in an isolated environment. It links to the library, and finds it loaded: the
package imports `lockstep` first.
"""
import glob
import os
import shutil
import site
import sys
import sysconfig

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "lockstep"))
from build_library import (ROOT, BuildAfresh, HasLibrary,  # noqa: E402
                           WithSources, addresses, comm_library,
                           fresh_folder, version)

PACKAGES = ("cmake make g++ pkg-config libjansson-dev librandom123-dev "
            "python3-dev")


def cpp_extension():
    """torch.utils.cpp_extension of the PyTorch that is installed, or None."""
    for path in (sysconfig.get_path("platlib"), sysconfig.get_path("purelib"),
                 "/usr/lib/python3/dist-packages"):
        if os.path.isdir(path):
            site.addsitedir(path)  # at the end: pip's own come first
    try:
        from torch.utils import cpp_extension as found
    except ImportError:
        return None
    return found


TORCH = cpp_extension()


def missing():
    """The sentence about what the build needs and does not find, or None."""
    if not TORCH:
        return (f"lockstep_torch: '{sys.executable}' has no PyTorch to build for; "
                "install it first: pip install torch --index-url "
                "https://download.pytorch.org/whl/cpu")
    compiler = (os.environ.get("CXX") or sysconfig.get_config_var("CXX") or
                "c++").split()[0]
    header = os.path.join(sysconfig.get_path("include"), "Python.h")
    if not shutil.which(compiler):
        wanted = f"a C++ compiler, and '{compiler}' is not installed"
    elif not os.path.exists(header):
        wanted = f"Python's headers, and '{header}' does not exist"
    else:
        return None
    return (f"lockstep_torch: the build needs {wanted}; on Debian and Ubuntu: "
            f"apt install {PACKAGES}")


class BuildIfPossible(BuildAfresh):
    """Says what is missing before anything is built."""

    def run(self):
        sentence = missing()
        if sentence:
            sys.exit(sentence)
        super().run()


class BuildModule(TORCH.BuildExtension if TORCH else build_ext):
    def copy_extensions_to_source(self):
        pass

    def build_extensions(self):
        library, _ = comm_library()
        for extension in self.extensions:
            extension.extra_objects = [library]
        super().build_extensions()


class Sources(WithSources):
    files = ("csrc", os.path.join("lockstep", "build_library.py"))


def extension():
    if not TORCH:
        return Extension("lockstep_torch._C", [])  # which is not built
    import torch
    return TORCH.CppExtension(
        "lockstep_torch._C", sorted(glob.glob("csrc/*.cpp")),
        include_dirs=[os.path.join(ROOT, "include")],
        define_macros=[("LOCKSTEP_TORCH_VERSION", '"%s"' % ".".join(
            torch.__version__.split(".")[:2]))],
        extra_compile_args=["-O2", "-g0", "-fvisibility=hidden", "-Wall"],
        extra_link_args=["-s"])


os.chdir(HERE)
fresh_folder()
setup(version=version(), **addresses(), distclass=HasLibrary,
      ext_modules=[extension()],
      install_requires=["torch>=2.6", f"lockstep-dp=={version()}"],
      options={"egg_info": {"egg_base": "build"}},  # not among the sources
      cmdclass={"build_py": BuildIfPossible, "build_ext": BuildModule,
                "sdist": Sources})
