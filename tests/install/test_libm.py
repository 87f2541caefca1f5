"""test_libm.py LIBRARY.a...: no object calls a function of libm but those whose results
are exact or correctly rounded. The others give other bits with another C library or
processor; base/math.h has those that are needed."""

import os
import re
import subprocess
import sys
import tempfile

EXACT = {"sqrt", "fma", "fabs", "floor", "ceil", "trunc", "round", "rint", "nearbyint",
         "lround", "llround", "lrint", "llrint", "ldexp", "scalbn", "scalbln", "frexp",
         "modf", "logb", "ilogb", "fmod", "remainder", "copysign", "nextafter", "fmin",
         "fmax", "fdim", "isnan", "isinf", "finite"}
CC = os.environ.get("CC", "cc")


def nm(*words):
    return subprocess.run(["nm", *words], check=True, capture_output=True,
                          text=True).stdout.splitlines()


def libm():
    """The names that libm defines."""
    found = subprocess.run([CC, "-print-file-name=libm.so.6"], check=True,
                           capture_output=True, text=True).stdout.strip()
    names = {line.split()[-1].split("@")[0] for line in nm("-D", "--defined-only", found)}
    assert {"exp", "logf", "sincos", "powl"} <= names, f"{found} is not libm"
    return names


def is_exact(name):
    return name in EXACT or re.sub("[fl]$", "", name) in EXACT


def refused(path, names):
    """(object, function) of each call."""
    calls, place = [], ""
    for line in nm("--undefined-only", path):
        if line.endswith(":"):
            place = line[:-1]
        elif line.split() and line.split()[-1] in names and \
                not is_exact(line.split()[-1]):
            calls.append((place, line.split()[-1]))
    return calls


def check_itself(names):
    """Of an object that calls exp and sqrt, exp alone is found."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x")
        subprocess.run([CC, "-x", "c", "-c", "-fno-builtin", "-o", path + ".o", "-"],
                       input="double exp(double), sqrt(double);\n"
                             "double f(double x) { return exp(sqrt(x)); }\n",
                       text=True, check=True)
        subprocess.run(["ar", "rc", path + ".a", path + ".o"], check=True)
        assert refused(path + ".a", names) == [("x.o", "exp")], "the test is broken"


def main():
    names = libm()
    check_itself(names)
    calls = [(path, *call) for path in sys.argv[1:] for call in refused(path, names)]
    for path, place, name in calls:
        print(f"{os.path.basename(path)}: {place} calls {name}, which C libraries round "
              "differently; use base/math.h")
    sys.exit(1 if calls else 0)


main()
