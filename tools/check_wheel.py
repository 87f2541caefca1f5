#!/usr/bin/env python3
"""Fails if a wheel needs more than the platform of its name promises, or is large.

    check_wheel.py WHEEL

By auditwheel, of the Python that runs this. The libraries of EXPECTED are those of other
packages: of lockstep-dp, of PyTorch, and of UCX, which is loaded if ranks span machines.
"""
import json
import os
import re
import subprocess
import sys

EXPECTED = {"lockstep_dp": r"libuc[ps]\.so\.0",
            "lockstep_dp_torch": r"lib(torch\w*|c10)\.so|liblockstep-comm\.so\.[\d.]+"}
MOST_BYTES = 2 * 1000 * 1000


def main():
    path = sys.argv[1]
    name, *_, platform = os.path.basename(path).removesuffix(".whl").split("-")
    # Without libraries of this machine, which are not those of others.
    shown = json.loads(subprocess.run(
        [sys.executable, "-m", "auditwheel", "show", "--json", "--ldpaths", "/nonexistent",
         path], check=True, stdout=subprocess.PIPE, text=True).stdout)
    others = [library for library in shown["external_libs"]
              if not re.fullmatch(EXPECTED[name], library)]
    size = os.path.getsize(path)
    print(f"{os.path.basename(path)}: {size} bytes, symbols of {shown['sym_tag']}")
    if shown["sym_tag"] != platform:
        sys.exit(f"{path}: its symbols are those of {shown['sym_tag']}, not of {platform}")
    if others:
        sys.exit(f"{path}: it needs {', '.join(others)}, which it does not contain")
    if size > MOST_BYTES:
        sys.exit(f"{path}: it has {size} bytes, and should have {MOST_BYTES} at most")


if __name__ == "__main__":
    main()
