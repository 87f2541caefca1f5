#!/usr/bin/env python3
"""Fails if a function, a file or a parameter list is longer than its budget.

The budgets are constants in this file. An exception is a line of tools/budgets.txt:

    path function lines|parameters LIMIT reason in words
    path - lines LIMIT reason in words                     (a whole file)

An exception that nothing needs any more is an error too.
"""

import argparse
import os
import re
import statistics
import sys

FUNCTION_LINES = 60
FUNCTION_LINES_HARD = 80  # no reason is good enough in lib/ and program/,
# kernels aside
FILE_LINES = 700
FILE_LINES_HARD = 1000
PARAMETERS = 6
MEDIAN_LINES = 15  # of all functions in lib/ and program/
P90_LINES = 40

FOLDERS = ("include", "lib", "program", "tests", "examples", "bench")
SOURCE = (".c", ".cpp", ".h", ".cu")
KERNELS = (os.path.join("lib", "array", "kernels") + os.sep,
           os.path.join("lib", "fold") + os.sep)
NOT_CODE = re.compile(
    r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
ATTRIBUTE = re.compile(r"__attribute__\s*\(\(.*?\)\)", re.S)


def blank(match):
    """As many lines as the text had, with nothing on them."""
    text = match.group()
    return "\n" * text.count("\n") if text[0] == "/" else '""'


def strip(text):
    """The code of `text`, line for line: no comments, no literals, no
    directives. Of alternatives (#if ... #else ...) the first one is kept, so
    that braces balance."""
    text = NOT_CODE.sub(blank, text)
    lines, skipping, continued = [], [], False
    for line in text.split("\n"):
        directive = line.lstrip()
        if continued or directive.startswith("#"):
            if not continued:
                word = directive[1:].lstrip()
                if word.startswith("if"):
                    skipping.append(False)
                elif word.startswith("el") and skipping:
                    skipping[-1] = True
                elif word.startswith("endif") and skipping:
                    skipping.pop()
            continued = line.endswith("\\")
            lines.append("")
        else:
            lines.append("" if any(skipping) else line)
    return "\n".join(lines)


def split_parameters(text):
    """The parameters between parentheses, not cut inside inner ones."""
    parts, depth, part = [], 0, ""
    for c in text:
        depth += (c in "([{") - (c in ")]}")
        if c == "," and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += c
    parts.append(part)
    parts = [p.strip() for p in parts]
    return [] if parts in ([""], ["void"]) else parts


def signature(head):
    """(name, parameters) if `head`, the text before a brace, is a function's."""
    head = ATTRIBUTE.sub(lambda m: "\n" * m.group().count("\n"), head)
    stripped = head.rstrip()
    if not stripped.endswith(")") or "=" in re.sub(r"\(.*\)", "", stripped,
                                                   flags=re.S):
        return None
    depth, open_at = 0, None
    for i in range(len(stripped) - 1, -1, -1):
        depth += (stripped[i] == ")") - (stripped[i] == "(")
        if depth == 0:
            open_at = i
            break
    if open_at is None:
        return None
    name = re.search(r"(\w+(?:\s*\([^()]*\))?)\s*$", stripped[:open_at])
    if not name or name.group(1) in ("if", "for", "while", "switch"):
        return None
    return name.group(1), split_parameters(stripped[open_at + 1:-1])


def functions(text):
    """(name, first line, lines, parameter count) of each definition."""
    code = strip(text)
    depth, head, head_line, line = 0, "", 0, 1
    current, transparent = None, 0
    for c in code:
        if depth == 0 and c not in "{};" and (head or not c.isspace()):
            if not head:
                head_line = line
            head += c
        if c == "{":
            if depth == 0 and re.fullmatch(r'extern\s*""\s*', head):
                transparent += 1
                head = ""
            else:
                if depth == 0:
                    found = signature(head)
                    current = (found, head_line) if found else None
                depth += 1
        elif c == "}":
            if depth == 0:
                transparent -= 1
            else:
                depth -= 1
                if depth == 0 and current:
                    (name, parameters), first = current
                    yield name, first, line - first + 1, len(parameters)
                    head, current = "", None
        elif c == ";" and depth == 0:
            head = ""
        if c == "\n":
            line += 1
    if depth != 0 or transparent != 0:
        raise ValueError("braces do not balance")


def read_exceptions(path):
    exceptions, errors = {}, []
    if not os.path.exists(path):
        return exceptions, errors
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.strip() or line.startswith("#"):
                continue
            fields = line.split(None, 4)
            if (len(fields) < 5 or fields[2] not in ("lines", "parameters") or
                    not fields[3].isdigit() or len(fields[4].split()) < 3):
                errors.append(f"{path}:{number}: write: path function|- "
                              "lines|parameters LIMIT reason in words")
            else:
                exceptions[tuple(fields[:3])] = int(fields[3])
    return exceptions, errors


class Checker:
    def __init__(self, root):
        self.root = root
        self.lengths = []  # of the functions in lib/ and program/
        self.files = 0
        self.used = set()
        self.exceptions, self.errors = read_exceptions(
            os.path.join(root, "tools", "budgets.txt"))

    def judge(self, where, key, value, limit, hard):
        """One number against its budget, or the exception made for it."""
        if value <= limit:
            return
        allowed = self.exceptions.get(key, limit)
        self.used.add(key)
        if hard is not None and value > hard:
            self.errors.append(f"{where}: {value} {key[2]}, over the limit of "
                               f"{hard}, for which no exception is possible")
        elif value > allowed:
            self.errors.append(f"{where}: {value} {key[2]}, budget {allowed}")

    def check_function(self, path, name, first, lines, parameters):
        kernel = path.startswith(KERNELS)
        where = f"{path}:{first}: {name}"
        self.judge(where, (path, name, "lines"), lines, FUNCTION_LINES,
                   None if kernel else FUNCTION_LINES_HARD)
        if not kernel and not name.startswith("ls_"):
            self.judge(where, (path, name, "parameters"), parameters,
                       PARAMETERS, None)
        if path.startswith(("lib" + os.sep, "program" + os.sep)):
            self.lengths.append(lines)

    def check_file(self, path):
        with open(os.path.join(self.root, path), encoding="utf-8") as file:
            text = file.read()
        self.files += 1
        self.judge(path, (path, "-", "lines"), text.count("\n"), FILE_LINES,
                   FILE_LINES_HARD)
        try:
            for function in functions(text):
                self.check_function(path, *function)
        except ValueError as error:
            self.errors.append(f"{path}: {error}")

    def check_distribution(self):
        if len(self.lengths) < 50:
            return "too few functions to check their median"
        median = statistics.median(self.lengths)
        p90 = statistics.quantiles(self.lengths, n=10)[-1]
        if median > MEDIAN_LINES:
            self.errors.append(f"lib, program: the median function has {median:g} "
                               f"lines, the budget is {MEDIAN_LINES}")
        if p90 > P90_LINES:
            self.errors.append(f"lib, program: a tenth of the functions is longer than "
                               f"{p90:g} lines, the budget is {P90_LINES}")
        return (f"{len(self.lengths)} functions in lib/ and program/, median {median:g} "
                f"lines, 90% have at most {p90:g}, the longest has {max(self.lengths)}")

    def check(self):
        for folder in FOLDERS:
            for where, folders, names in os.walk(
                    os.path.join(self.root, folder)):
                folders.sort()
                for name in sorted(names):
                    if name.endswith(SOURCE):
                        self.check_file(os.path.relpath(
                            os.path.join(where, name), self.root))
        summary = self.check_distribution()
        for key in self.exceptions:
            if key not in self.used:
                self.errors.append("tools/budgets.txt: remove this exception, it is not needed: " +
                                   " ".join(key))
        return summary


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--root", default=os.path.join(
        os.path.dirname(os.path.abspath(__file__)), ".."))
    checker = Checker(os.path.normpath(parser.parse_args().root))
    summary = checker.check()
    for error in checker.errors:
        print(error)
    print(f"budgets: {checker.files} files, {len(checker.errors)} errors; "
          f"{summary}")
    return 1 if checker.errors else 0


if __name__ == "__main__":
    sys.exit(main())
