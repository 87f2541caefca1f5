#!/usr/bin/env python3
"""Builds the library for 64-bit ARM, and runs its tests under qemu.

    test_aarch64.py FOLDER          (the build tree)
    test_aarch64.py FOLDER --bits   instead, training: portable_bits.py --tiny

The whole library is compiled; the tests are those of kernels, tensors and tape.
If their libraries are not installed for this processor, stand-ins take their
places, and the tests that read JSON and training are left out. Debian has the
libraries as libjansson-dev:arm64 and so on, once dpkg knows the second
architecture. libraries.sh unpacks them into a folder, which LOCKSTEP_ARM64 names.
"""

import contextlib
import os
import shutil
import subprocess
import sys

SOURCE = os.environ["LOCKSTEP_SOURCE"]
TOOLS = ("aarch64-linux-gnu-gcc", "aarch64-linux-gnu-g++",
         "aarch64-linux-gnu-ar")
LIBRARIES = ("jansson", "zlib", "cmocka")
ROOT = os.environ.get("LOCKSTEP_ARM64", "/")
FOLDERS = [os.path.join(ROOT, folder, "aarch64-linux-gnu")
           for folder in ("usr/lib", "lib")]
FOREIGN = os.path.join(FOLDERS[0], "pkgconfig")
QEMU = ("qemu-aarch64", "qemu-aarch64-static")
TESTS = "^(base_cpu|kernels|attention_(exp2|op|order|(shapes|portable)_neon)|tensor|autograd)"
# Left out: tests that need ranks, as qemu lacks their futexes; tests that run twice; and the
# reference, which other builds test: qemu takes some 30 times as long.
LEFT_OUT = "autograd_params|autograd_gradients$|_ref$"
NEEDS_JSON = "|safetensors|tensor_pieces"
JOBS = str(len(os.sched_getaffinity(0)))


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def run(*command, **options):
    result = subprocess.run(command, check=False, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, **options)
    if result.returncode != 0:
        print(result.stdout)
        sys.exit(f"failed: {' '.join(command)}")
    return result.stdout


def check_tools():
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        skip(f"{missing[0]} is not installed (g++-aarch64-linux-gnu)")
    if not os.path.isdir("/usr/aarch64-linux-gnu/include"):
        skip("no C library for aarch64 is installed (libc6-dev-arm64-cross)")
    if not any(map(shutil.which, QEMU)):
        skip("qemu-aarch64 is not installed (qemu-user)")


def have_libraries():
    return all(os.path.exists(f"{FOREIGN}/{name}.pc") for name in LIBRARIES)


def build_stand_ins(folder):
    """Libraries of the same names, found by pkg-config in the folder."""
    os.makedirs(folder, exist_ok=True)
    for name in LIBRARIES:
        source = f"{SOURCE}/tests/aarch64/stand_ins/{name}.c"
        made = f"{folder}/{name}.o"
        run("aarch64-linux-gnu-gcc", "-O1", "-fPIC", "-Wall", "-Wextra",
            "-Werror", "-c", source, "-o", made)
        run("aarch64-linux-gnu-ar", "rcs", f"{folder}/lib{name}.a", made)
        with open(f"{folder}/{name}.pc", "w", encoding="utf-8") as file:
            file.write(f"Name: {name}\nDescription: a stand-in\nVersion: 2\n"
                       f"Libs: -L{folder} -l{name}\n")


def environment():
    # Threads that spin keep an emulated processor from the others. The outer
    # ctest must not affect the inner one.
    env = {name: value for name, value in os.environ.items()
           if not name.startswith("CTEST_")}
    env["OMP_WAIT_POLICY"] = "passive"
    env["LD_LIBRARY_PATH"] = ":".join(FOLDERS)
    return env


def build_library(build, env, *targets):
    # Which would keep stand-ins after the libraries have come.
    with contextlib.suppress(FileNotFoundError):
        os.remove(f"{build}/CMakeCache.txt")
    log = run("cmake", "--preset", "aarch64", "-B", build, cwd=SOURCE, env=env)
    print("\n".join(line for line in log.split("\n") if "Without" in line))
    run("cmake", "--build", build, "-j", JOBS, "--target", *targets, env=env)


def test_units(build, env):
    build_library(build, env, "lockstep_static", "unit_tests")
    leave_out = LEFT_OUT if have_libraries() else LEFT_OUT + NEEDS_JSON
    print(run("ctest", "--test-dir", build, "-j", JOBS, "--output-on-failure",
              "--no-tests=error", "-R", TESTS, "-E", leave_out, env=env)[-3000:])


def test_bits(build, env):
    build_library(build, env, "lockstep")
    print(run(sys.executable, f"{SOURCE}/tests/portable_bits.py", "--tiny",
              "--lockstep", f"{build}/bin/lockstep", "--runner",
              f"{next(filter(shutil.which, QEMU))} -L /usr/aarch64-linux-gnu",
              env=env))


def main():
    build, *bits = sys.argv[1:]
    check_tools()
    if bits and not have_libraries():
        skip(f"no libjansson for aarch64 is in {ROOT} "
             "(tests/aarch64/libraries.sh)")
    env = environment()
    if not have_libraries():
        build_stand_ins(f"{build}-libraries")
        env["PKG_CONFIG_LIBDIR"] = f"{build}-libraries"
    elif ROOT != "/":
        env["PKG_CONFIG_LIBDIR"] = FOREIGN
        env["PKG_CONFIG_SYSROOT_DIR"] = ROOT
    (test_bits if bits else test_units)(build, env)


if __name__ == "__main__":
    main()
