"""Builds both wheels and installs them in a folder, as pip does it.

    install.py PYTHON-FOLDER WHEELS FOLDER
"""

import glob
import importlib.util
import os
import shutil
import subprocess
import sys

package, wheels, folder = sys.argv[1:]
if not importlib.util.find_spec("torch"):
    print("no PyTorch here: not tested")
    sys.exit(77)


def pip(*words):
    subprocess.run([sys.executable, "-m", "pip", *words, "--no-index", "--no-deps"],
                   check=True)


for made in (wheels, folder):  # else what an earlier version left stays there
    shutil.rmtree(made, ignore_errors=True)
pip("wheel", "--no-build-isolation", "--wheel-dir", wheels,
    os.path.join(package, "lockstep"), package)
pip("install", "--target", folder,
    *glob.glob(os.path.join(wheels, "*.whl")))
