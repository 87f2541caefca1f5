#!/usr/bin/env python3
"""Fails where two things inside the library have one name.

A name with the prefix lsi_ crosses files, so a reader who meets it must know at
once what it is:

  - it is declared in one header only
  - a type lsi_x is not there if a public type ls_x is
  - functions lsi_x_... of a type lsi_x are declared in the folder of lib/ or program/ that
    declares the type
  - what is local to a .c file has no such prefix

A static function whose whole name is one of VAGUE does not say what it does.

Headers without a guard are templates, which several files include on purpose;
they may repeat each other.
"""

import argparse
import os
import re
import sys

from source_texts import COMMENT

INTERNAL = ("lib", "program")
STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')
NEW_TYPE = re.compile(r"^}\s*(lsi?_\w+)\s*;|^typedef\b[^{;]*?\b(lsi?_\w+)\s*;|"
                      r"^typedef\b[^{;(]*\(\s*\*?\s*(lsi?_\w+)\s*\)\s*\(|"
                      r"^(?:struct|union|enum)\s+(lsi?_\w+)\s*{", re.M)
FORWARD = re.compile(r"^typedef\s+(?:struct|union|enum)\s+(lsi?_\w+)\s+\1\s*;",
                     re.M)
FUNCTION = re.compile(r"^(?!typedef\b|\s|#)[\w\s*]*?\b(lsi_\w+)\s*\(", re.M)
STATIC = re.compile(r"^static\b[^;{}()=]*?\b(lsi_\w+)\s*[(=;\[]", re.M)
VAGUE = ("run", "take", "tell", "say", "look", "hear", "news", "heard")
VAGUE_FUNCTION = re.compile(r"^static\b[^;{}()=]*?\b(" + "|".join(VAGUE) + r")\s*\(", re.M)


def read(path):
    """The text without comments, strings and preprocessor lines."""
    with open(path, encoding="utf-8") as file:
        text = file.read()

    def blank(match):
        return "\n" * match.group().count("\n")

    text = STRING.sub('""', COMMENT.sub(blank, text))
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", blank, text, flags=re.M)


def has_guard(path):
    with open(path, encoding="utf-8") as file:
        text = COMMENT.sub("", file.read()).lstrip()
    return text.startswith("#ifndef")


def sources(root, tops, ends):
    for top in tops:
        for where, folders, files in os.walk(os.path.join(root, top)):
            folders.sort()
            for name in sorted(files):
                if name.endswith(ends):
                    yield os.path.relpath(os.path.join(where, name), root)


def line_of(text, match):
    return text.count("\n", 0, match.start()) + 1


class Checker:
    def __init__(self, root):
        self.root = root
        self.errors = []
        self.types = {}      # name: [place]
        self.functions = {}  # the same
        self.public = {}     # public types: place

    def read_public(self):
        for path in sources(self.root, ["include"], ".h"):
            text = read(os.path.join(self.root, path))
            for match in NEW_TYPE.finditer(text):
                name = next(g for g in match.groups() if g)
                self.public.setdefault(name, path)

    def read_header(self, path):
        text = read(os.path.join(self.root, path))
        forward = {match.start() for match in FORWARD.finditer(text)}
        found = {}
        for match in NEW_TYPE.finditer(text):
            name = next(g for g in match.groups() if g)
            # A name that is told beforehand is not declared twice by that.
            if name.startswith("lsi_") and match.start() not in forward:
                found.setdefault(name, f"{path}:{line_of(text, match)}")
        for name, place in found.items():
            self.types.setdefault(name, []).append(place)
        seen = {}
        for match in FUNCTION.finditer(text):
            seen.setdefault(match.group(1), f"{path}:{line_of(text, match)}")
        for name, place in seen.items():
            self.functions.setdefault(name, []).append(place)

    def check_twice(self):
        for kind in (self.types, self.functions):
            for name, places in sorted(kind.items()):
                if len(places) > 1:
                    self.errors.append(f"{places[1]}: {name} is declared in "
                                       f"{places[0]}, too")
        for name, places in sorted(self.functions.items()):
            if name in self.types:
                self.errors.append(f"{places[0]}: {name} is also a type, "
                                   f"{self.types[name][0]}")

    def check_public(self):
        for name, places in sorted(self.types.items()):
            public = "ls_" + name[len("lsi_"):]
            if public in self.public:
                self.errors.append(f"{places[0]}: {name} is too similar to "
                                   f"{public} of {self.public[public]}")

    def check_families(self):
        for name, places in sorted(self.functions.items()):
            parts = name.split("_")
            for n in range(len(parts) - 1, 1, -1):
                family = "_".join(parts[:n])
                if family in self.types:
                    self.check_home(name, places[0], family)
                    break

    def check_home(self, name, place, family):
        home = self.types[family][0]
        if place.split("/")[1] != home.split("/")[1]:
            self.errors.append(f"{place}: {name} looks like a function of the type "
                               f"{family}, {home}")

    def check_locals(self):
        for path in sources(self.root, INTERNAL, (".c", ".cpp")):
            text = read(os.path.join(self.root, path))
            for match in STATIC.finditer(text):
                self.errors.append(f"{path}:{line_of(text, match)}: "
                                   f"{match.group(1)} is static; remove its "
                                   "prefix")

    def check_vague(self):
        for path in sources(self.root, INTERNAL, (".c", ".cpp", ".h")):
            text = read(os.path.join(self.root, path))
            # Once for a function that is declared ahead of its definition.
            found = {match.group(1): match for match in
                     reversed(list(VAGUE_FUNCTION.finditer(text)))}
            for name, match in found.items():
                self.errors.append(f"{path}:{line_of(text, match)}: {name} is too vague for a "
                                   "function; add the object: run_bench, read_card")

    def check(self):
        self.read_public()
        for path in sources(self.root, INTERNAL, ".h"):
            if has_guard(os.path.join(self.root, path)):
                self.read_header(path)
        self.check_twice()
        self.check_public()
        self.check_families()
        self.check_locals()
        self.check_vague()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    here = os.path.dirname(os.path.abspath(__file__))
    parser.add_argument("--root", default=os.path.dirname(here),
                        help="tree to check (default: this one)")
    checker = Checker(parser.parse_args().root)
    checker.check()
    for error in checker.errors:
        print(error)
    print(f"names: {len(checker.types)} types, {len(checker.functions)} "
          f"functions, {len(checker.errors)} errors")
    return 1 if checker.errors else 0


if __name__ == "__main__":
    sys.exit(main())
