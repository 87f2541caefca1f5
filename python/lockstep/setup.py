"""The package for NumPy; the wheel carries the library and needs nothing else."""
import os
import sys

from setuptools import setup

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from build_library import (BuildWithLibrary, HasLibrary,  # noqa: E402
                           PlatformWheel, WithSources, addresses,
                           fresh_folder, version)


class Sources(WithSources):
    files = ("build_library.py",)


fresh_folder()
setup(version=version(), **addresses(), distclass=HasLibrary,
      options={"egg_info": {"egg_base": "build"}},  # not among the sources
      cmdclass={"build_py": BuildWithLibrary, "sdist": Sources,
                "bdist_wheel": PlatformWheel})
