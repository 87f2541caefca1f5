"""The backend for PyTorch; the package lockstep-dp carries the library.

The C++ bridge is built for the installed PyTorch, also where pip builds in an
isolated environment. LOCKSTEP_TORCH_FOLDERS=FOLDER:FOLDER:... builds one bridge for each
of these "torch" folders of unpacked wheels, and imports none of them. A bridge does
not depend on Python's version. It links to the library, and finds it loaded: the
package imports `lockstep` first.
"""
import glob
import os
import re
import shutil
import site
import subprocess
import sys
import sysconfig

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "lockstep"))
from build_library import (ROOT, BuildAfresh, HasLibrary,  # noqa: E402
                           PlatformWheel, WithSources, addresses,
                           comm_library, fresh_folder, version)

PACKAGES = "cmake make g++ pkg-config libjansson-dev librandom123-dev"


class Torch:
    """A PyTorch to build a bridge for."""

    def __init__(self, version_, headers, libraries, new_strings):
        self.release = ".".join(version_.split(".")[:2])  # 2.15
        self.headers = headers
        self.libraries = libraries
        self.new_strings = int(new_strings)  # std::string as since gcc 5

    def standard(self):
        """The C++ standard that its headers ask for."""
        for folder in self.headers:
            path = os.path.join(folder, "ATen", "ATen.h")
            if os.path.exists(path):
                with open(path, encoding="utf-8") as file:
                    return re.search(r"C\+\+(\d+) or later", file.read()).group(1)
        raise FileNotFoundError("ATen/ATen.h is in none of " + ", ".join(self.headers))


def unpacked(folder):
    """The PyTorch of a wheel that has been unpacked."""
    path = os.path.join(folder, "version.py")
    if not os.path.exists(path):
        sys.exit(f"lockstep_torch: LOCKSTEP_TORCH_FOLDERS names '{folder}', but '{path}' "
                 "does not exist; name the folder 'torch' of an unpacked wheel of PyTorch")
    with open(path, encoding="utf-8") as file:
        found = re.search(r"__version__ = '(.+)'", file.read()).group(1)
    headers = os.path.join(folder, "include")
    return Torch(found, [headers, os.path.join(headers, "torch", "csrc", "api", "include")],
                 [os.path.join(folder, "lib")], True)


def installed():
    """The PyTorch that is installed, or nothing."""
    for path in (sysconfig.get_path("platlib"), sysconfig.get_path("purelib"),
                 "/usr/lib/python3/dist-packages"):
        if os.path.isdir(path):
            site.addsitedir(path)  # at the end: pip's own come first
    try:
        import torch
        from torch.utils import cpp_extension
    except ImportError:
        return []
    return [Torch(torch.__version__, cpp_extension.include_paths(),
                  cpp_extension.library_paths(), torch.compiled_with_cxx11_abi())]


FOLDERS = os.environ.get("LOCKSTEP_TORCH_FOLDERS")
TORCHS = [unpacked(folder) for folder in FOLDERS.split(os.pathsep)] if FOLDERS \
    else installed()


def has_header(name):
    """Whether it is where CMake looks."""
    folders = [os.path.dirname(os.path.realpath(path))
               for path in os.environ.get("PATH", "").split(os.pathsep)]
    folders += os.environ.get("CMAKE_PREFIX_PATH", "").split(os.pathsep)
    return any(os.path.exists(os.path.join(folder, "include", name))
               for folder in folders)


def missing():
    """The sentence about what the build needs and does not find, or None."""
    if not TORCHS:
        return (f"lockstep_torch: '{sys.executable}' has no PyTorch to build for; "
                "install it first: pip install torch --index-url "
                "https://download.pytorch.org/whl/cpu")
    compiler = (os.environ.get("CXX") or sysconfig.get_config_var("CXX") or
                "c++").split()[0]
    wanted = []
    if not shutil.which(compiler):
        wanted.append(f"a C++ compiler, and '{compiler}' is not installed")
    if not os.environ.get("LOCKSTEP_COMM_LIBRARY"):
        wanted += [f"'{tool}', which is not installed"
                   for tool in ("cmake", "pkg-config") if not shutil.which(tool)]
        if shutil.which("pkg-config") and subprocess.run(
                ["pkg-config", "--exists", "jansson"], check=False).returncode:
            wanted.append("jansson's headers")
        if not has_header("Random123/philox.h"):
            wanted.append("Random123's headers")
    return wanted and (
        f"lockstep_torch: the build needs {'; and '.join(wanted)}. On Debian and "
        f"Ubuntu: apt install {PACKAGES}")


class BuildIfPossible(BuildAfresh):
    """Says what is missing before anything is built."""

    def run(self):
        sentence = missing()
        if sentence:
            sys.exit(sentence)
        super().run()


class BuildBridges(build_ext):
    """Each of one source: PyTorch's headers take most of the time, and are read once."""

    def get_ext_filename(self, fullname):
        return os.path.join(*fullname.split(".")) + ".so"  # of no version of Python

    def get_export_symbols(self, ext):
        return []  # PyInit_... is of modules

    def get_source_files(self):
        return []  # which an sdist carries in any case

    def copy_extensions_to_source(self):
        pass

    def build_extensions(self):
        library, _ = comm_library()
        for extension in self.extensions:
            with open(extension.sources[0], "w", encoding="utf-8") as file:
                file.writelines(f'#include "{path}"\n'
                                for path in sorted(glob.glob("csrc/*.cpp")))
            extension.extra_objects = [library]
        self.parallel = os.cpu_count()
        super().build_extensions()


class Sources(WithSources):
    files = ("csrc", os.path.join("lockstep", "build_library.py"))


def bridge(torch):
    name = "_bridge_" + torch.release.replace(".", "_")
    return Extension(
        "lockstep_torch." + name, [os.path.join("build", name + ".cpp")], language="c++",
        include_dirs=[HERE, os.path.join(HERE, "csrc"), os.path.join(ROOT, "include"),
                      *torch.headers],
        define_macros=[("_GLIBCXX_USE_CXX11_ABI", str(torch.new_strings))],
        library_dirs=torch.libraries, libraries=["torch_cpu", "c10"],
        extra_compile_args=["-std=c++" + torch.standard(), "-O2", "-g0",
                            "-fvisibility=hidden", "-Wall"],
        extra_link_args=["-s"])


os.chdir(HERE)
fresh_folder()
setup(version=version(), **addresses(), distclass=HasLibrary,
      ext_modules=[bridge(torch) for torch in TORCHS],
      install_requires=["torch>=2.6", f"lockstep-dp=={version()}"],
      options={"egg_info": {"egg_base": "build"}},  # not among the sources
      cmdclass={"build_py": BuildIfPossible, "build_ext": BuildBridges,
                "bdist_wheel": PlatformWheel, "sdist": Sources})
