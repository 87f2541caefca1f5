#!/usr/bin/env python3
"""Fails if the list of exports differs from the names that liblockstep imports.

lib/comm/exports.txt lists the private names that liblockstep-comm exports. The
check compares it with the names that the other library and the modules leave
undefined and liblockstep-comm defines. It reads the static libraries, so that a
missing name does not stop it as it stops the linker.
"""

import argparse
import os
import subprocess
import sys

LIST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib",
                    "comm", "exports.txt")


def names(path, *options):
    """The private names that nm prints with these options."""
    if path.endswith(".so"):
        options += ("-D",)
    lines = subprocess.run(["nm", *options, path], check=True,
                           capture_output=True, text=True).stdout.splitlines()
    found = {line.split()[-1].split("@")[0] for line in lines if line.strip()}
    return {name for name in found if name.startswith("lsi_")}


def imported(comm, users):
    defined, needed = names(comm, "--defined-only"), set()
    for user in users:
        needed |= names(user, "--undefined-only") - names(user, "--defined-only")
    return needed & defined


def read(path):
    """(lines of the comment, names) of the list."""
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines()
    return ([line for line in lines if line.startswith("#")],
            [line for line in lines if line and not line.startswith("#")])


def check(path, needed, part):
    _, listed = read(path)
    errors = [f"{path}: {name} is missing, but liblockstep or a module needs it"
              for name in sorted(needed - set(listed))]
    if not part:
        errors += [f"{path}: {name} is listed, but liblockstep and the modules do not need it"
                   for name in sorted(set(listed) - needed)]
    if listed != sorted(set(listed)):
        errors.append(f"{path}: the names are not sorted, or a name is listed twice")
    return errors


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--list", default=os.path.normpath(LIST))
    parser.add_argument("--part", action="store_true",
                        help="allow names that this build does not need")
    parser.add_argument("--write", action="store_true", help="write the list")
    parser.add_argument("comm", help="liblockstep-comm.a")
    parser.add_argument("users", nargs="+", help="liblockstep.a, modules")
    args = parser.parse_args()
    needed = imported(args.comm, args.users)
    if args.write:
        comment, _ = read(args.list)
        with open(args.list, "w", encoding="utf-8") as file:
            file.write("\n".join(comment + sorted(needed)) + "\n")
    errors = check(args.list, needed, args.part)
    for error in errors:
        print(error)
    print(f"exports: {len(needed)} names needed, {len(errors)} errors")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
