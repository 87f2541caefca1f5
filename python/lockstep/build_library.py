"""liblockstep-comm for the wheels: built here, or one that is there already.

The wheel of NumPy's package carries the library, PyTorch's links to it. The libraries that it
depends on go into the wheel with it, except the C library.
Where UCX's headers are installed, so does the module that joins machines. UCX
itself stays where it is, as it loads separate modules. LOCKSTEP_COMM_LIBRARY=FILE
takes a library that is built already, without modules. An sdist carries the
library's sources, in a folder "library".
"""
import glob
import os
import re
import shutil
import subprocess

from setuptools import Distribution
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # before 70.1
    from wheel.bdist_wheel import bdist_wheel

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES = ("CMakeLists.txt", "LICENSE", "cmake", "include", "lib", "project.txt",
           "python/lockstep/csrc")
SYSTEM = re.compile(r"(linux-vdso|ld-linux|lib(c|m|dl|rt|pthread|gcc_s))[.-]")


def find_root():
    """Where the library's sources are: in a checkout, or in either's sdist."""
    up = os.path.dirname(HERE)
    for root in (os.path.join(HERE, "library"), os.path.join(up, "library"),
                 os.path.dirname(up)):
        if all(os.path.exists(os.path.join(root, name)) for name in SOURCES):
            return root
    raise FileNotFoundError(
        f"the sources of liblockstep-comm are neither at {os.path.dirname(up)} nor "
        "in a folder \"library\": build from a checkout of lockstep, or an sdist")


ROOT = find_root()


def version():
    with open(os.path.join(ROOT, "CMakeLists.txt"), encoding="utf-8") as file:
        return re.search(r"VERSION (\d+\.\d+\.\d+)", file.read()).group(1)


def addresses():
    """Those of project.txt, as setup() wants them."""
    with open(os.path.join(ROOT, "project.txt"), encoding="utf-8") as file:
        found = dict(line.split() for line in file if not line.startswith("#"))
    return {"maintainer": "Lockstep developers", "maintainer_email": found["contact"],
            "project_urls": {"Homepage": found["url"]}}


# The name that linked programs look for, with the version of the interface.
NAME = "liblockstep-comm.so." + version().rpartition(".")[0]
# The folder of its modules, next to it.
MODULES = "lockstep-" + version().rpartition(".")[0]


def is_installed(package):
    return subprocess.run(["pkg-config", "--exists", package]).returncode == 0


def fresh_folder():
    """The folder for everything; what setuptools has noted there may be about
    another checkout, of which this one is a copy."""
    os.makedirs("build", exist_ok=True)
    for noted in glob.glob(os.path.join("build", "*.egg-info")):
        shutil.rmtree(noted)


def is_configured(folder):
    """Whether CMake can go on there: for these sources, with tools that exist."""
    with open(os.path.join(folder, "CMakeCache.txt"), encoding="utf-8",
              errors="replace") as file:
        found = dict(re.findall(r"^(\w+):\w+=(.*)$", file.read(), re.M))
    same = all(os.path.realpath(found.get(name, "")) == os.path.realpath(path)
               for name, path in (("CMAKE_HOME_DIRECTORY", ROOT),
                                  ("CMAKE_CACHEFILE_DIR", folder)))
    return same and all(os.path.exists(found.get(name, "")) for name in
                        ("CMAKE_C_COMPILER", "CMAKE_MAKE_PROGRAM"))


def configure(folder, options):
    if os.path.exists(os.path.join(folder, "CMakeCache.txt")) and \
            not is_configured(folder):
        print(f"{folder} was made for another checkout: built again")
        shutil.rmtree(folder)
    subprocess.run(["cmake", "-S", ROOT, "-B", folder, "-DCMAKE_BUILD_TYPE=Release",
                    "-DCMAKE_BUILD_WITH_INSTALL_RPATH=ON",
                    "-DCMAKE_INSTALL_LIBDIR=lib",
                    *(f"-DLOCKSTEP_{name}={'ON' if on else 'OFF'}"
                      for name, on in options.items())], check=True)


def build(folder):
    """(the library, its modules), built in `folder`."""
    # nettle is what hosts need that meet without a torch Store.
    options = {"COMM_ONLY": True, "OPENMPI": False, "MPICH": False, "WERROR": False,
               "NETTLE": is_installed("nettle"), "UCX": is_installed("ucx")}
    configure(folder, options)
    targets, names = ["lockstep_comm_shared", "lockstep_lightgbm"], ["lightgbm"]
    if options["UCX"]:
        targets.append("lockstep_ucx")
        names.append("ucx")
    subprocess.run(["cmake", "--build", folder, "--parallel",
                    str(os.cpu_count() or 1), "--target", *targets], check=True)
    return os.path.join(folder, "lib", NAME), [
        os.path.join(folder, "lib", MODULES, f"liblockstep-{name}.so") for name in names]


def comm_library():
    """(the library, its modules): LOCKSTEP_COMM_LIBRARY, or built for both wheels."""
    told = os.environ.get("LOCKSTEP_COMM_LIBRARY")
    return (told, []) if told else build(os.path.join(HERE, "build", "comm"))


def needs(library):
    """The libraries that it is linked to, except the C library: (name, path)."""
    linked = subprocess.run(["readelf", "--dynamic", "--wide", library], check=True,
                            capture_output=True, text=True).stdout
    names = re.findall(r"\(NEEDED\) .*\[(\S+)\]", linked)
    if all(SYSTEM.match(name) for name in names):
        return  # ldd reads libraries for this machine only
    lines = subprocess.run(["ldd", library], check=True, capture_output=True,
                           text=True).stdout.splitlines()
    for line in lines:
        match = re.match(r"\s*(\S+) => (/\S+)", line)
        if match and not SYSTEM.match(match.group(1)):
            yield match.groups()


class BuildAfresh(build_py):
    """Else all that is there goes into the wheel, whoever has built it."""

    def run(self):
        shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()


class BuildWithLibrary(BuildAfresh):
    """Puts it into lockstep/lib of the wheel."""

    def run(self):
        super().run()
        library, modules = comm_library()
        for name, path in [
                (NAME, library), *needs(library),
                *((os.path.join(MODULES, os.path.basename(path)), path)
                  for path in modules)]:
            target = os.path.join(self.build_lib, "lockstep", "lib", name)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copyfile(os.path.realpath(path), target)
            subprocess.run([os.environ.get("STRIP", "strip"), "--strip-unneeded",
                            target], check=True)


class WithSources(sdist):
    """Carries what the wheel is built of."""

    files = ()  # of the package itself, in addition to those that setuptools finds

    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, files)
        copied = [*((os.path.join(ROOT, name), os.path.join("library", name))
                    for name in SOURCES),
                  *((name, name) for name in self.files),
                  (os.path.join(ROOT, "LICENSE"), "LICENSE")]
        for path, name in copied:
            target = os.path.join(base_dir, name)
            if os.path.isdir(path):
                shutil.rmtree(target, ignore_errors=True)
                shutil.copytree(path, target, ignore=shutil.ignore_patterns(
                    "__pycache__", "build"))
                continue
            os.makedirs(os.path.dirname(target), exist_ok=True)
            if os.path.lexists(target):
                os.remove(target)  # a link, maybe
            shutil.copyfile(path, target)


class HasLibrary(Distribution):
    """Is for this kind of machine only, whatever else is built."""

    def has_ext_modules(self):
        return True


class PlatformWheel(bdist_wheel):
    """For this machine, and any Python: nothing is compiled against it."""

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]
