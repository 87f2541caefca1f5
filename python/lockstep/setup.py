"""The package for NumPy; the wheel carries the library and needs nothing else."""
import os
import sys

from setuptools import setup

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # before 70.1
    from wheel.bdist_wheel import bdist_wheel

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from build_library import (BuildWithLibrary, HasLibrary,  # noqa: E402
                           WithSources, addresses, fresh_folder, version)


class Sources(WithSources):
    files = ("build_library.py",)


class PlatformWheel(bdist_wheel):
    """For this machine, and any Python: nothing is compiled against it."""

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


fresh_folder()
setup(version=version(), **addresses(), distclass=HasLibrary,
      options={"egg_info": {"egg_base": "build"}},  # not among the sources
      cmdclass={"build_py": BuildWithLibrary, "sdist": Sources,
                "bdist_wheel": PlatformWheel})
