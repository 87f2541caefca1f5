#!/usr/bin/env python3
"""Fails on what compilers and formatters do not see in text.

  - Markdown: a link or a path in backticks that leads nowhere; C that ignores a
    status
  - public headers: a function without a comment
  - docs/reference/experimental.md: a function too many, or too few, by the marks of the
    public headers
  - comments and Markdown: a public name (ls_..., LS_...) that does not exist
  - docs/reference/environment.md: a variable LOCKSTEP_... that no source reads, or one
    too few
  - sources: no comment at the top about the purpose of the file (a .c file
    may leave that to the header of its name); a header whose guard is missing
    or not named after it (kernels aside: there a header can be a template);
    code that is switched off; marks of unfinished work
  - lib/ and program/: a call of open_memstream, which reports no loss
  - lib/: code other than lib/base/log.c that writes to stderr
  - everywhere: trailing blanks, carriage returns, no newline at the end
"""

import argparse
import os
import re
import sys

SOURCE = (".c", ".cpp", ".h", ".def", ".inc", ".cu")
TEXT = SOURCE + (".md", ".txt", ".py", ".sh", ".cmake", ".in", ".json", ".yml",
                 ".clang-tidy", ".clang-format", ".editorconfig", ".gitignore",
                 "dev", "run")
SKIPPED = {".git", "build", "shared", "__pycache__"}
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.S | re.M)
TICKS = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"(?:lib|program|include|tests|tools|examples|docs|cmake|bench)/"
                  r"[\w./-]+")
NAME = re.compile(r"(?<![\w.$\"])(?:ls|LS)_\w*\w(?![\w*<])")
C_BLOCK = re.compile(r"^```c\n(.*?)^```", re.S | re.M)
MUST_CHECK = re.compile(r"\bLS_MUST_CHECK\s+ls_status\s+(\w+)\(")
EXPERIMENTAL = re.compile(r"\bLS_API\s+LS_EXPERIMENTAL\b[^;(#]*?(\w+)\(")
VARIABLE = re.compile(r"[\"`](LOCKSTEP_[A-Z_]+)[\"`]")
COMMENT = re.compile(r"/\*.*?\*/", re.S)
TO_STDERR = re.compile(r"\bSTDERR_FILENO\b|\bperror\(|[(,]\s*stderr\s*[,)]")
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")  # unfinished: the marks
SWITCHED_OFF = re.compile(r"^\s*#\s*if\s+(0|1)\b")


def files(root):
    for where, folders, names in os.walk(root):
        folders[:] = sorted(f for f in folders if f not in SKIPPED and
                            not f.startswith("build-"))
        for name in sorted(names):
            if name.endswith(TEXT):
                yield os.path.relpath(os.path.join(where, name), root)


def anchors(text):
    """The fragments that the headings of a Markdown text can be linked by."""
    for line in text.split("\n"):
        if line.startswith("#"):
            title = re.sub(r"[^\w\- ]", "", line.lstrip("#").strip().lower())
            yield title.replace(" ", "-")


def start_of_block(lines, i):
    """The first of the lines that stand with line i, up to a gap or a comment
    that fills its line."""
    while i > 0 and lines[i - 1].strip() and \
            not re.match(r"\s*(/?\*.*)?\*/$", lines[i - 1]):
        i -= 1
    return i


class Checker:
    def __init__(self, root):
        self.root = root
        self.errors = []
        self.files = 0
        self.names = self.public_names()
        self.must_check = {
            name for path in files(root) if path.startswith("include" + os.sep)
            for name in MUST_CHECK.findall(self.read(path))}

    def public_names(self):
        """Every word of the public headers outside comments."""
        words = set()
        folder = os.path.join(self.root, "include", "lockstep")
        for name in os.listdir(folder) if os.path.isdir(folder) else ():
            code = COMMENT.sub("", self.read(f"include/lockstep/{name}"))
            words.update(re.findall(r"\w+", code))
        return words

    def error(self, path, line, text):
        self.errors.append(f"{path}:{line}: {text}")

    def read(self, path):
        with open(os.path.join(self.root, path), encoding="utf-8",
                  newline="") as file:
            return file.read()

    def check_lines(self, path, text):
        if text and not text.endswith("\n"):
            self.error(path, text.count("\n") + 1, "no newline at the end")
        for number, line in enumerate(text.split("\n"), 1):
            if line != line.rstrip():
                self.error(path, number, "blanks at the end of the line")
            if path.endswith(SOURCE + (".py", ".sh", "dev")):
                mark = UNFINISHED.search(line)
                if mark and "unfinished" not in line:
                    self.error(path, number, f"{mark.group()}: finish this, or "
                               "file an issue")
                if SWITCHED_OFF.match(line):
                    self.error(path, number, "disabled code; remove this block")
                if path.startswith(("lib/", "program/")) and "open_memstream(" in line:
                    self.error(path, number, "open_memstream loses text when "
                               "memory runs out; use report/text_stream.h")
                if path.startswith("lib/") and path != "lib/base/log.c" and \
                        TO_STDERR.search(line):
                    self.error(path, number, "do not write to stderr; use "
                               "lsi_log, which ls_set_log can redirect")

    def check_names(self, path, text):
        for number, line in enumerate(text.split("\n"), 1):
            for match in NAME.finditer(line):
                if match.group() not in self.names:
                    self.error(path, number, f"{match.group()} does not exist")

    def check_link(self, path, line, target):
        if re.match(r"[a-z]+:", target):
            return
        name, _, fragment = target.partition("#")
        full = os.path.normpath(os.path.join(os.path.dirname(path), name)) \
            if name else path
        if not os.path.exists(os.path.join(self.root, full)):
            self.error(path, line, f"link to {target}: this file does not exist")
        elif fragment and full.endswith(".md") and \
                fragment not in anchors(self.read(full)):
            self.error(path, line, f"link to {target}: this heading does not exist")

    def check_statuses(self, path, text):
        """C that can be pasted gives no warning."""
        for block in C_BLOCK.finditer(text):
            first = text.count("\n", 0, block.start(1)) + 1
            for number, line in enumerate(block.group(1).split("\n"), first):
                call = re.match(r"\s*(ls_\w+)\(", line)
                if call and call.group(1) in self.must_check and \
                        line.rstrip().endswith((";", "*/")):
                    self.error(path, number, f"the status of {call.group(1)} must be "
                               "used; put the call in check()")

    def check_markdown(self, path, text):
        self.check_statuses(path, text)
        text = FENCE.sub(lambda m: "\n" * m.group().count("\n"), text)
        for number, line in enumerate(text.split("\n"), 1):
            for match in LINK.finditer(line):
                self.check_link(path, number, match.group(1))
            for match in TICKS.finditer(line):
                named = match.group(1)
                if PATH.fullmatch(named) and not os.path.exists(
                        os.path.join(self.root, named)):
                    self.error(path, number, f"`{named}` does not exist")

    def check_public_header(self, path, text):
        lines = text.split("\n")
        for i, line in enumerate(lines):
            if not line.startswith("LS_API"):
                continue
            # A comment is for what follows it without a gap, and if that is
            # the definition of a type, for the function behind it, too.
            above = start_of_block(lines, i)
            if above > 1 and not lines[above - 1].strip() and \
                    re.match(r"}.*;", lines[above - 2]):
                above = start_of_block(lines, above - 2)
            if above < 1 or not lines[above - 1].rstrip().endswith("*/"):
                self.error(path, i + 1, "this public function has no comment")

    def check_environment(self):
        page = os.path.join("docs", "reference", "environment.md")
        if not os.path.exists(os.path.join(self.root, page)):
            return
        listed = set(VARIABLE.findall(self.read(page)))
        used = set()
        for path in files(self.root):
            if path.startswith(("lib/", "program/", "python/")) and \
                    path.endswith(SOURCE + (".py",)) and "/tests/" not in path and \
                    not path.endswith("setup.py"):
                used.update(VARIABLE.findall(self.read(path)))
        for name in sorted(used - listed):
            self.error(page, 1, f"{name} is missing, but a source reads it")
        for name in sorted(listed - used):
            self.error(page, 1, f"no source reads {name}")

    def check_experimental(self):
        """Checks that exactly the functions marked in the headers are listed."""
        folder, path = "include/lockstep", "docs/reference/experimental.md"
        marked, listed = set(), set()
        for name in os.listdir(os.path.join(self.root, folder)) \
                if os.path.isdir(os.path.join(self.root, folder)) else ():
            marked.update(EXPERIMENTAL.findall(
                COMMENT.sub("", self.read(f"{folder}/{name}"))))
        if os.path.exists(os.path.join(self.root, path)):
            listed.update(re.findall(r"`(ls_\w+)`", self.read(path)))
        for name in sorted(marked - listed):
            self.error(path, 1, f"{name} is experimental, but not listed")
        for name in sorted(listed - marked):
            self.error(path, 1, f"{name} is listed, but not experimental")

    def check_source(self, path, text):
        header = path[:-2] + ".h"
        if path.endswith(".c") and os.path.exists(
                os.path.join(self.root, header)):
            return
        if not text.startswith("/*"):
            self.error(path, 1, "the file must begin with a comment about its contents")

    def check_guard(self, path, text):
        words = path[:-len(".h")].split(os.sep)[1:]
        if path.startswith(("lib" + os.sep, "program" + os.sep)):
            words.insert(0, "ls")
        want = "_".join(words + ["h"]).upper()
        wanted = [want]
        if words[-2:-1] == words[-1:]:  # ops/ops.h, lockstep/lockstep.h
            wanted.append("_".join(words[:-1] + ["h"]).upper())
        guard = re.search(r"^#ifndef (\w+)\n#define \1$", text, re.M)
        if not guard and path.startswith(os.path.join("lib", "array", "kernels")):
            return
        if not guard or guard.group(1) not in wanted:
            self.error(path, 1, f"the include guard is not {want}")

    def check(self):
        for path in files(self.root):
            self.files += 1
            text = self.read(path)
            self.check_lines(path, text)
            if path.endswith(".md"):
                self.check_markdown(path, text)
            if path.startswith("include" + os.sep):
                self.check_public_header(path, text)
            if path.startswith(("include", "docs")) or path == "README.md":
                self.check_names(path, text)
            if path.endswith(SOURCE):
                self.check_source(path, text)
            if path.endswith(".h") and path.startswith(("include", "lib", "program")):
                self.check_guard(path, text)
        self.check_experimental()
        self.check_environment()
        return self.errors


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--root", default=os.path.join(
        os.path.dirname(os.path.abspath(__file__)), ".."))
    checker = Checker(os.path.normpath(parser.parse_args().root))
    errors = checker.check()
    for error in errors:
        print(error)
    print(f"text: {checker.files} files, {len(errors)} errors")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
