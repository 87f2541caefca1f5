#!/usr/bin/env python3
"""Fails if the files about the project as a whole disagree, or lack an entry.

  - project.txt: an address is missing; an address, or the host of a placeholder,
    appears in another file. README.md and CITATION.cff may contain a real url.
  - CMakeLists.txt, version.h, CITATION.cff, CHANGELOG.md: the versions differ
  - CHANGELOG.md: a version with more than 60 lines, or a heading that Keep a Changelog
    does not have
  - SECURITY.md: its table names other fuzz targets than tests/fuzz has
  - examples/README.md: a program of examples/ has no section, or a section does not match a program
  - THIRD-PARTY.md: a library that debian/control builds with is missing
"""

import argparse
import os
import re
import sys

import source_texts

ADDRESSES = ("contact", "url")
WITH_URL = ("README.md", "CITATION.cff")
VERSIONS = {
    "CMakeLists.txt": r"^project\(lockstep VERSION ([\d.]+)",
    "include/lockstep/version.h": r'^#define LS_VERSION_STRING "([\d.]+)"',
    "CITATION.cff": r"^version: ([\d.]+)$",
    "CHANGELOG.md": r"^## \[?([\d.]+)\b",  # the first heading of a version
}
CHANGES = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
EXAMPLE = re.compile(r"examples/(\w+)\.c")
FUZZ_TARGET = re.compile(r"tests/fuzz/fuzz_(\w+)\.c")
FUZZ_TABLE = re.compile(r"^\|[^|]*\| fuzz targets \|\n\|[-|]+\n((?:\|.*\n)+)", re.M)
LIBRARY = re.compile(r"^ +([\w.+-]+-dev)\b", re.M)
HOST = re.compile(r"[\w.-]+\.example(?![\w.-])")


class Checker:
    def __init__(self, root):
        self.root = root
        self.errors = []
        self.paths = source_texts.files(root)

    def error(self, path, text):
        self.errors.append(f"{path}: {text}")

    def read(self, path):
        """The file's text, without bytes that are not text; empty if it does not exist."""
        try:
            with open(os.path.join(self.root, path), encoding="utf-8",
                      errors="ignore") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def addresses(self):
        """(name, value) of each address."""
        lines = self.read("project.txt").splitlines()
        for name in ADDRESSES:
            values = [line[len(name) + 1:] for line in lines
                      if line.startswith(name + " ")]
            if len(values) == 1 and values[0].strip():
                yield name, values[0]
            else:
                self.error("project.txt", f"one line '{name} VALUE' is needed, "
                           f"but {len(values)} were found")

    def check_addresses(self):
        """Each stands in project.txt alone."""
        addresses = list(self.addresses())
        placeholders = {host for _, value in addresses
                        for host in HOST.findall(value)}
        for path in self.paths:
            if path == "project.txt":
                continue
            text = self.read(path)
            for name, value in addresses:
                if value in text and not (name == "url" and path in WITH_URL):
                    self.error(path, f"'{value}' is the {name} of project.txt; "
                               "refer to that file")
            for host in sorted(placeholders):
                if host in text:
                    self.error(path, f"'{host}' is a placeholder; it belongs in "
                               "project.txt only")

    def check_versions(self):
        found = {path: re.search(pattern, self.read(path), re.M)
                 for path, pattern in VERSIONS.items()}
        found = {path: match.group(1) if match else "none"
                 for path, match in found.items()}
        want = found["CMakeLists.txt"]
        for path, version in found.items():
            if version != want or version == "none":
                self.error(path, f"its version is {version}, but the version in "
                           f"CMakeLists.txt is {want}")

    def check_changelog(self):
        for section in re.split(r"^## ", self.read("CHANGELOG.md"), flags=re.M)[1:]:
            version, lines = section.split()[0], section.rstrip("\n").count("\n") + 1
            if lines > 60:
                self.error("CHANGELOG.md", f"the section {version} has {lines} lines; "
                           "describe the changes for users in at most 60 lines")
            for name in re.findall(r"^### (.*)$", section, re.M):
                if name not in CHANGES:
                    self.error("CHANGELOG.md", f"{version} has the heading '{name}'; "
                               f"use one of {', '.join(sorted(CHANGES))}")

    def check_fuzz_targets(self):
        table = FUZZ_TABLE.search(self.read("SECURITY.md"))
        rows = table.group(1).splitlines() if table else []
        named = {name for row in rows
                 for name in re.findall(r"`(\w+)`", row.split("|")[2])}
        targets = {match.group(1) for match in map(FUZZ_TARGET.fullmatch, self.paths)
                   if match}
        for name in sorted(targets - named):
            self.error("SECURITY.md", f"its table does not list the fuzz target '{name}'")
        for name in sorted(named - targets):
            self.error("SECURITY.md", f"its table names '{name}', and "
                       f"tests/fuzz/fuzz_{name}.c does not exist")

    def check_examples(self):
        programs = {match.group(1) for match in map(EXAMPLE.fullmatch, self.paths)
                    if match}
        sections = set(re.findall(r"^## (.*)$", self.read("examples/README.md"), re.M))
        for name in sorted(programs - sections):
            self.error("examples/README.md", f"{name}.c has no section '## {name}'")
        for name in sorted(sections - programs - {"Building"}):
            self.error("examples/README.md", f"section '{name}' does not match a program")

    def check_libraries(self):
        build = self.read("debian/control").partition("\n\n")[0]
        for package in LIBRARY.findall(build):
            if f"| {package} |" not in self.read("THIRD-PARTY.md"):
                self.error("THIRD-PARTY.md", f"{package} is missing; debian/control "
                           "lists this package in Build-Depends")

    def check(self):
        self.check_addresses()
        self.check_versions()
        self.check_changelog()
        self.check_fuzz_targets()
        self.check_examples()
        self.check_libraries()
        return self.errors


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--root", default=os.path.join(
        os.path.dirname(os.path.abspath(__file__)), ".."))
    errors = Checker(os.path.normpath(parser.parse_args().root)).check()
    for error in errors:
        print(error)
    print(f"project: {len(errors)} errors")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
