#!/usr/bin/env python3
"""Fails if a file includes a header that its room may not include.

tools/layers.txt lists the rooms of the tree, the folders of lib/ and program/,
from the lowest to the highest. A file may include its own room, the rooms
listed above it, and the public headers. Indented lines divide the room before
them: a file may include its own part and the parts listed above it. After a
name with a colon, only the rooms (or parts) that follow the colon are allowed.
Public headers and examples may include only public headers. Includes are written from lib/,
program/ or include/: "base/error.h", "cli/frame/command.h",
"lockstep/group.h".

A row of a .def file is compiled where it is included, so it can name what its
own room does not see. A name in such a file that only headers of higher rooms
declare fails, too.
"""

import argparse
import os
import re
import sys

SOURCE = (".c", ".cpp", ".h", ".def", ".inc")
ROOTS = ("lib", "program")
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]*)"')
COMMENT = re.compile(r"/\*.*?\*/", re.S)
TEXT = re.compile(r'"(?:\\.|[^"\\\n])*"')
WORD = re.compile(r"[A-Za-z_]\w*")
# A name that a header declares: of a function or a variable at the left margin,
# of a constant of an enum, of a macro.
DECLARED = re.compile(
    r"^(?!typedef\b|#|\s|\})[^;{}()=]*?\b([A-Za-z_]\w*)(?:\[[^\]]*\])*\s*[(;=]|"
    r"^\s+([A-Z][A-Z0-9_]+)\s*(?:=[^,}]*)?,?$|^#\s*define\s+(\w+)", re.M)


class Layers:
    """Reads layers.txt, and reports the faults of the file itself."""

    def __init__(self, path):
        self.root = {}  # of a room: lib or program
        self.lower = {}  # of a room, or "room/part": what it may include
        self.errors = []
        rooms, parts, room = [], [], None
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                line = line.split("#")[0].rstrip()
                if not line:
                    continue
                name, colon, only = line.strip().partition(":")
                if line[0] == " ":
                    known, key = parts, f"{room}/{name}"
                else:
                    root, _, room = name.partition("/")
                    if root not in ROOTS or not room or "/" in room:
                        self.errors.append(f"{path}:{number}: \"{name}\" is not a "
                                           "folder of lib/ or program/")
                        continue
                    self.root[room], parts = root, []
                    known, key, name = rooms, room, room
                if key in self.lower:
                    self.errors.append(f"{path}:{number}: {key} is listed twice")
                for other in only.split():
                    if other not in known:
                        self.errors.append(f"{path}:{number}: {key} may include "
                                           f"{other}, but {other} is not listed above {key}")
                self.lower[key] = only.split() if colon else list(known)
                known.append(name)

    def divided(self, room):
        return any(name.startswith(room + "/") for name in self.lower)


def find_cycle(edges):
    """Some cycle of a graph as a list of nodes, or None."""
    done, path = set(), []

    def visit(node):
        if node in path:
            return path[path.index(node):] + [node]
        if node in done:
            return None
        path.append(node)
        for other in edges.get(node, ()):
            cycle = visit(other)
            if cycle:
                return cycle
        path.pop()
        done.add(node)
        return None

    for node in edges:
        cycle = visit(node)
        if cycle:
            return cycle
    return None


def includes(path):
    """(line number, text) of each include with quotes outside comments."""
    with open(path, encoding="utf-8") as file:
        text = COMMENT.sub(lambda m: "\n" * m.group().count("\n"), file.read())
    for number, line in enumerate(text.split("\n"), 1):
        match = INCLUDE.match(line)
        if match:
            yield number, match.group(1)


def sources(root, folder):
    for where, folders, files in os.walk(os.path.join(root, folder)):
        folders.sort()
        for name in sorted(files):
            if name.endswith(SOURCE):
                yield os.path.relpath(os.path.join(where, name), root)


class Checker:
    def __init__(self, root):
        self.root = root
        self.graph = {}
        self.layers = Layers(os.path.join(root, "tools", "layers.txt"))
        self.errors = self.layers.errors

    def exists(self, *parts):
        return os.path.isfile(os.path.join(self.root, *parts))

    def resolve(self, target):
        """The path of what is included, from the root of the tree."""
        first = target.split("/")[0]
        if first == "lockstep":
            return f"include/{target}"
        return f"{self.layers.root.get(first, 'lib')}/{target}"

    def problem(self, room, part, target):
        """The fault of including `target` from there, or None."""
        words = target.split("/")
        if words[0] == "lockstep":
            if not self.exists("include", target):
                return "this public header does not exist"
            return None
        if room is None:
            return "only public headers may be included here"
        if ".." in words or len(words) < 2:
            return "write the path from the root, as in \"base/error.h\""
        if not self.exists(self.resolve(target)):
            return "this file does not exist"
        who, other = room, words[0]
        if other == room:
            if not part or words[1] == part:
                return None
            who, other = f"{room}/{part}", words[1]
        lower = self.layers.lower.get(who, ())
        if other not in lower:
            return f"{who} may include: " + " ".join(lower or ["only itself"])
        return None

    def part_of(self, path):
        """(room, part or None) of a file of lib/ or program/."""
        words = path.split(os.sep)
        return words[1], (words[2] if self.layers.divided(words[1]) else None)

    def sees(self, path, header):
        """Whether a file may include a header, by their rooms."""
        (room, part), (other, inner) = self.part_of(path), self.part_of(header)
        if room == other:
            return part == inner or inner in self.layers.lower.get(
                f"{room}/{part}", ())
        return other in self.layers.lower.get(room, ())

    def check_rows(self):
        """Names in .def files that come from higher rooms."""
        declared, rows = {}, []
        for root in ROOTS:
            for path in sources(self.root, root):
                if path.endswith(".def"):
                    rows.append(path)
                elif path.endswith(".h"):
                    for groups in DECLARED.findall(self.text(path)):
                        name = "".join(groups)
                        declared.setdefault(name, set()).add(path)
        for path in rows:
            for number, line in enumerate(self.text(path).split("\n"), 1):
                for name in WORD.findall(line):
                    headers = declared.get(name, ())
                    if headers and not any(self.sees(path, header)
                                           for header in headers):
                        self.errors.append(
                            f"{path}:{number}: {name} is declared in "
                            f"{sorted(headers)[0]}; this room may not include that header")

    def text(self, path):
        """A file without comments and strings, its lines in their places."""
        with open(os.path.join(self.root, path), encoding="utf-8") as file:
            text = COMMENT.sub(lambda m: "\n" * m.group().count("\n"),
                               file.read())
        return TEXT.sub('""', text)

    def check_file(self, path, room):
        part = None
        if room and self.layers.divided(room):
            part = path.split("/")[2]
            if f"{room}/{part}" not in self.layers.lower:
                self.errors.append(f"{path}: {room} is divided into parts, but "
                                   f"tools/layers.txt does not list the part {part}")
        self.graph[path] = []
        for number, target in includes(os.path.join(self.root, path)):
            problem = self.problem(room, part, target)
            if problem:
                self.errors.append(
                    f"{path}:{number}: \"{target}\": {problem}")
            else:
                self.graph[path].append(self.resolve(target))

    def check(self):
        for folder in ("include", "examples"):
            for path in sources(self.root, folder):
                self.check_file(path, None)
        for root in ROOTS:
            for path in sources(self.root, root):
                parts = path.split(os.sep)
                if len(parts) < 3:
                    self.errors.append(f"{path}: move this file into the folder of a room")
                elif self.layers.root.get(parts[1]) != root:
                    self.errors.append(f"{path}: tools/layers.txt does not list "
                                       f"{root}/{parts[1]}")
                else:
                    self.check_file(path, parts[1])
        self.check_rows()
        cycle = find_cycle(self.graph)
        if cycle:
            self.errors.append("these files include each other in a cycle: " + " -> ".join(cycle))
        return self.errors


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--root", default=os.path.join(
        os.path.dirname(os.path.abspath(__file__)), ".."))
    checker = Checker(parser.parse_args().root)
    errors = checker.check()
    for error in errors:
        print(error)
    print(f"layers: {len(checker.graph)} files, {len(errors)} errors")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
