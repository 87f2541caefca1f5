#!/usr/bin/env python3
"""Fails if files that call each other form too large a circle.

Looks at the calls between the files of lib/ and program/. A file and the
header of its name count as one. A call is the name of a function that another
file defines, followed by a parenthesis. A function that is handed over or stands in
a table is a callback, which does not count as a call. Of such circles
none may have more than MOST_FILES files, and none may lead through two rooms or
parts of a room.
"""

import argparse
import os
import re
import sys

from source_texts import COMMENT

TOPS = ("lib", "program")
MOST_FILES = 5
TEXT = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'')
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.M)
# A definition begins at the left margin; its body's brace does, too, or ends
# the line (clang-format puts it on a separate line).
DEFINITION = re.compile(r"^[a-z][^;={}()]*?\b(\w+)\([^;{}]*?\)\s*\{", re.M)
# Calls stand in bodies, which are indented; prototypes do not.
BODY = re.compile(r"^[ \t].*$", re.M)
CALL = re.compile(r"\b(lsi?_\w+)\s*\(")


def code(path):
    """The text of a file without comments, strings and directives."""
    with open(path, encoding="utf-8") as file:
        text = COMMENT.sub(" ", file.read())
    return DIRECTIVE.sub("", TEXT.sub('""', text))


def files(root):
    for top in TOPS:
        for where, folders, names in os.walk(os.path.join(root, top)):
            folders.sort()
            for name in sorted(names):
                if name.endswith((".c", ".cpp", ".h")):
                    yield os.path.relpath(os.path.join(where, name), root)


def circles(graph):
    """The strongly connected components of more than one node (Tarjan)."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(graph[node]):
            if other not in index:
                visit(other)
            if other in stack:
                low[node] = min(low[node], low[other])
        if low[node] == index[node]:
            at = stack.index(node)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return sorted(found, key=len, reverse=True)


def part(unit):
    folder = os.path.dirname(unit)
    return folder if folder.startswith("comm/") else "/".join(
        folder.split("/")[:2])


class Calls:
    """The calls: {caller: {callee: {name of a function}}}."""

    def __init__(self, root):
        texts = {}
        for path in files(root):
            unit = os.path.splitext(path.partition("/")[2])[0]
            texts[unit] = texts.get(unit, "") + code(os.path.join(root, path))
        where = {name: unit for unit, text in texts.items()
                 for name in DEFINITION.findall(text)
                 if name.startswith(("ls_", "lsi_"))}
        self.units = {unit: {} for unit in texts}
        for unit, text in texts.items():
            for name in CALL.findall("\n".join(BODY.findall(text))):
                other = where.get(name, unit)
                if other != unit:
                    self.units[unit].setdefault(other, set()).add(name)

    def rooms(self):
        """The same between the parts of rooms ("room/part"; in comm each
        folder); names are "caller -> function"."""
        made = {}
        for unit, others in self.units.items():
            room = part(unit)
            made.setdefault(room, {})
            for other, names in others.items():
                to = part(other)
                if to != room:
                    made[room].setdefault(to, set()).update(
                        f"{unit}: {name} of {other}" for name in names)
        return made


def explain(circle, graph):
    """A line for each edge inside a circle."""
    return [f"  {one} -> {other}: " + ", ".join(sorted(graph[one][other]))
            for one in circle for other in sorted(graph[one])
            if other in circle]


def check(root, most):
    calls = Calls(root)
    errors, lines = [], []
    found = circles(calls.units)
    for circle in found:
        if len(circle) > most:
            errors.append(f"{len(circle)} files call each other in a circle, "
                          f"at most {most} are allowed: " + " ".join(circle))
            errors += explain(circle, calls.units)
    rooms = calls.rooms()
    for circle in circles(rooms):
        errors.append("these rooms call each other: " +
                      " ".join(circle))
        errors += explain(circle, rooms)
    largest = len(found[0]) if found else 1
    lines.append(f"calls: {len(calls.units)} files, the largest circle: "
                 f"{largest}, {len(errors)} errors")
    return errors, lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--root", default=os.path.join(
        os.path.dirname(os.path.abspath(__file__)), ".."))
    parser.add_argument("--most", type=int, default=MOST_FILES,
                        help=f"largest circle in files (default: {MOST_FILES})")
    args = parser.parse_args()
    errors, lines = check(args.root, args.most)
    print("\n".join(errors + lines))
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
