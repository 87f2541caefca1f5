#!/usr/bin/env python3
"""Fails if a file includes what its layer may not.

A file of src/<layer>/ may include its own folder, the public headers, and the
folders that tools/layers.txt lists for it. Where that has lines for a layer's
sub-folders, src/<layer>/<room>/, the same holds among these: a file may include
its own room and the rooms listed for it. Public headers and examples see public
headers only. Includes are written from src/ or include/:
"base/error.h", "lockstep/group.h".
"""

import argparse
import os
import re
import sys

SOURCE = (".c", ".cpp", ".h", ".def", ".inc", ".cu")
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]*)"')
COMMENT = re.compile(r"/\*.*?\*/", re.S)


def read_layers(path):
    """The lists of layers.txt, and what is wrong with the file itself."""
    layers, errors = {}, []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            line = line.split("#")[0].strip()
            if not line:
                continue
            name, colon, lower = line.partition(":")
            if not colon:
                errors.append(f"{path}:{number}: no colon in \"{line}\"")
            elif name in layers:
                errors.append(f"{path}:{number}: {name} has two lines")
            else:
                layers[name] = lower.split()
    for name, lower in layers.items():
        for other in lower:
            if other not in layers:
                errors.append(f"{path}: {name} may include {other}, which has "
                              "no line of its own")
    return layers, errors


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
        self.errors = []
        self.graph = {}
        self.layers, self.errors = read_layers(
            os.path.join(root, "tools", "layers.txt"))

    def room_of(self, path):
        """The room of a path from src/, or None if its layer has none."""
        parts = path.split("/")
        rooms = any(name.startswith(parts[0] + "/") for name in self.layers)
        return "/".join(parts[:2]) if rooms else None

    def exists(self, *parts):
        return os.path.isfile(os.path.join(self.root, *parts))

    def problem(self, layer, room, target):
        """What is wrong with including `target` from there, or None."""
        top = target.split("/")[0]
        if top == "lockstep":
            if not self.exists("include", target):
                return "there is no such public header"
            return None
        if layer is None:
            return "only public headers may be included here"
        if ".." in target.split("/") or "/" not in target:
            return "write the path from src/, as in \"base/error.h\""
        if not self.exists("src", target):
            return "there is no such file in src/"
        who, other = layer, self.room_of(target)
        if top == layer:
            who = room
        if top == layer and other == room:
            return None
        lower = self.layers.get(who, ())
        if other not in lower and (top == layer or top not in lower):
            return f"{who} may include: " + " ".join(lower or ["only itself"])
        return None

    def check_file(self, path, layer):
        room = None if layer is None else self.room_of(path[len("src/"):])
        if room is not None and room not in self.layers:
            self.errors.append(f"{path}: {layer} is divided into rooms, and "
                               f"{room} is none in tools/layers.txt")
        self.graph[path] = []
        for number, target in includes(os.path.join(self.root, path)):
            problem = self.problem(layer, room, target)
            if problem:
                self.errors.append(
                    f"{path}:{number}: \"{target}\": {problem}")
            else:
                folder = "include" if target.startswith("lockstep/") else "src"
                self.graph[path].append(f"{folder}/{target}")

    def check(self):
        cycle = find_cycle(self.layers)
        if cycle:
            self.errors.append("tools/layers.txt: a cycle: " +
                               " -> ".join(cycle))
        for folder in ("include", "examples"):
            for path in sources(self.root, folder):
                self.check_file(path, None)
        for path in sources(self.root, "src"):
            parts = path.split(os.sep)
            if len(parts) < 3:
                self.errors.append(f"{path}: belongs into a layer's folder")
            elif parts[1] not in self.layers:
                self.errors.append(
                    f"{path}: {parts[1]} has no line in tools/layers.txt")
            else:
                self.check_file(path, parts[1])
        cycle = find_cycle(self.graph)
        if cycle:
            self.errors.append("includes in a cycle: " + " -> ".join(cycle))
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
