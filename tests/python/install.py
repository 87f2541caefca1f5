"""Installs lockstep_torch in a folder, as pip does it: install.py PACKAGE FOLDER."""

import importlib.util
import subprocess
import sys

package, folder = sys.argv[1:]
if not importlib.util.find_spec("torch"):
    print("no PyTorch here: not tested")
    sys.exit(77)
sys.exit(subprocess.run(
    [sys.executable, "-m", "pip", "install", "--no-index", "--no-build-isolation",
     "--no-deps", "--upgrade", "--target", folder, package],
    check=False).returncode)
