#!/usr/bin/env python3
"""Runs the command blocks of pages and compares what they show with what the pages say.

    run_blocks.py [--prefix PREFIX] [--python PYTHON] PAGE...
    run_blocks.py --check PAGE...        only read them

The blocks of a page run in order, in one shell on a terminal of 80 columns, in a new
folder, on two CPUs. The shell finds the programs of PREFIX, an installed tree, and of
PYTHON's folder; its HOME is another new folder, in which `lockstep` is PREFIX. After the
opening fence:

  console   `$ COMMAND`, and below it what the command shows (expected.py says how numbers
            are compared). A command goes on after a backslash at its end, and up to the
            end of a here-document. Its exit status must be 0.
  sh        commands whose output is not compared. Each exit status must be 0.
  c cmake python text ...
            not run.

HTML comments directly above the opening fence say more:

  <!-- file: NAME -->             writes the block to this file
  <!-- file: NAME, continued -->  adds the block to it
  <!-- status: N -->              the exit status of the last command
  <!-- unordered -->              lines come in any order
  <!-- varies: REASON -->         what the last command shows is not compared
  <!-- interrupt: TEXT -->        presses Ctrl-C when the last command has shown
                                  a line with TEXT
  <!-- needs: MODULE -->          skipped if PYTHON does not have this module
  <!-- not run: REASON -->        needs a registry, root, a second host, ...

A file that a page writes under the name of a file in examples/ must be equal to it. At
most 10 blocks of all pages are not run.
"""

import argparse
import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile

import expected
import terminal

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FENCE = re.compile(r"^( *)(```+|~~~+)\s*(.*?)\s*$")
COMMENT = re.compile(r"<!--\s*([a-z ]+?)\s*(?::\s*(.*?))?\s*-->")
HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")
KEYS = {"file": True, "status": True, "unordered": False, "interrupt": True,
        "needs": True, "not run": True, "varies": True}
LANGUAGES = {"console", "sh", "c", "cmake", "python", "text", "json", "yaml", "toml",
             "bibtex", "mermaid"}
MOST_NOT_RUN = 10
TIMEOUT = 100  # seconds of a command
CPUS = 2

Block = collections.namedtuple("Block", "page line language text says")
Step = collections.namedtuple("Step", "command output line")


class Wrong(Exception):
    """A block is not as it should be, or does not do what it says."""

    def __init__(self, page, line, text):
        super().__init__(f"{page}:{line}: {text}")


def directives(page, lines, at):
    """The directives in the comments directly above line `at`."""
    says = {}
    while at > 0:
        found = COMMENT.fullmatch(lines[at - 1].strip())
        if not found:
            break
        key, value = found.groups()
        if KEYS.get(key) is not (value is not None):
            raise Wrong(page, at, f"unknown comment '{lines[at - 1].strip()}'")
        says[key] = value
        at -= 1
    return says


def read_blocks(page, text):
    lines, blocks, i = text.split("\n"), [], 0
    while i < len(lines):
        fence = FENCE.match(lines[i])
        if not fence:
            i += 1
            continue
        indent, mark, language = fence.groups()
        end = next((j for j in range(i + 1, len(lines))
                    if lines[j].strip() == mark), None)
        if end is None:
            raise Wrong(page, i + 1, "a fence that is not closed")
        if language not in LANGUAGES:
            raise Wrong(page, i + 1, f"unknown language '{language}': one of "
                        f"{', '.join(sorted(LANGUAGES))}")
        inside = [line[len(indent):] for line in lines[i + 1:end]]
        blocks.append(Block(page, i + 1, language, "\n".join(inside),
                            directives(page, lines, i)))
        i = end + 1
    return blocks


def command_end(lines, at):
    """The number of lines of the command that begins there."""
    found = HEREDOC.search(lines[at])
    end = at
    while lines[end].endswith("\\") and end + 1 < len(lines):
        end += 1
        found = found or HEREDOC.search(lines[end])
    if found:
        while end + 1 < len(lines) and lines[end].strip() != found.group(2):
            end += 1
    return end + 1 - at


def read_steps(block):
    lines, steps, i = block.text.split("\n"), [], 0
    if not lines[0].startswith("$ "):
        raise Wrong(block.page, block.line + 1,
                    f"'{lines[0]}' should be a command: $ COMMAND")
    while i < len(lines):
        count = command_end(lines, i)
        command = "\n".join(lines[i:i + count])[2:]
        end = i + count
        while end < len(lines) and not lines[end].startswith("$ "):
            end += 1
        steps.append(Step(command, "\n".join(lines[i + count:end]),
                          block.line + 1 + i))
        i = end
    return steps


def is_run(block):
    return block.language in ("console", "sh") and "not run" not in block.says


class Page:
    """A page, and the folder in which its blocks run."""

    def __init__(self, path, blocks, options, missing):
        self.path, self.blocks = path, blocks
        self.missing = missing  # modules that Python does not have
        self.ran = 0  # blocks
        self.work = tempfile.mkdtemp(prefix="lockstep-docs-")
        self.folder = os.path.join(self.work, "work")
        self.written = set()
        for name in ("work", "home", "commands"):
            os.mkdir(os.path.join(self.work, name))
        self.shell = terminal.Shell(self.folder, os.path.join(self.work, "commands"),
                                    self.environment(options))

    def environment(self, options):
        home = os.path.join(self.work, "home")
        kept = {name: value for name, value in os.environ.items() if name in (
            "PATH", "TMPDIR", "PYTHONPATH", "LOCKSTEP_COMM_LIBRARY")}
        folders = [kept["PATH"]]
        if options.prefix:
            os.symlink(os.path.abspath(options.prefix), os.path.join(home, "lockstep"))
            folders.insert(0, os.path.join(home, "lockstep", "bin"))
        if options.python:
            folders.insert(0, os.path.dirname(options.python))
        return dict(kept, HOME=home, PATH=os.pathsep.join(folders), TERM="xterm",
                    LC_ALL="C.UTF-8", PYTHONDONTWRITEBYTECODE="1")

    def write(self, block):
        name, _, more = block.says["file"].partition(", ")
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "a" if more else "w", encoding="utf-8") as file:
            file.write(block.text + "\n")
        self.written.add(name)

    def compare_with_examples(self):
        for name in sorted(self.written):
            example = os.path.join(ROOT, "examples", name)
            if not os.path.exists(example):
                continue
            diff = subprocess.run(["diff", "-u", example,
                                   os.path.join(self.folder, name)], check=False,
                                  stdout=subprocess.PIPE, text=True).stdout
            if diff:
                raise Wrong(self.path, 1, f"{name} is not examples/{name}:\n{diff}")

    def run_step(self, block, step, is_last):
        says = block.says if is_last else {}
        wanted = int(says.get("status", 0))
        where = (self.path, step.line)
        try:
            status, shown = self.shell.run(step.command, TIMEOUT,
                                           says.get("interrupt"))
        except terminal.Timeout as error:
            raise Wrong(*where, f"did not end in {TIMEOUT} s: {step.command}\n"
                        f"it shows:\n{error.shown}") from error
        free = block.language == "sh" or "varies" in says
        differs = None if free else expected.difference(
            step.output, shown, "unordered" in block.says)
        if status != wanted:
            differs = f"the exit status is {status}, not {wanted}"
        if differs:
            raise Wrong(*where, f"{differs}\n$ {step.command}\n{shown}")

    def run_block(self, block):
        needs = block.says.get("needs")
        if needs in self.missing:
            print(f"[  SKIPPED ] {needs}\n{self.path}:{block.line}: no module {needs}")
        elif "file" in block.says:
            self.write(block)
        elif is_run(block):
            steps = read_steps(block) if block.language == "console" else [
                Step("set -e\n" + block.text + "\nset +e", "", block.line + 1)]
            for step in steps:
                self.run_step(block, step, step is steps[-1])
            self.ran += 1

    def run(self):
        for block in self.blocks:
            self.run_block(block)
        self.compare_with_examples()

    def close(self):
        self.shell.close()
        shutil.rmtree(self.work)


def lacks(python, module):
    return subprocess.run(
        [python, "-c", "import importlib.util as i, sys; "
         "sys.exit(i.find_spec(sys.argv[1]) is None)", module],
        check=False).returncode != 0


def check(blocks):
    """Prints the blocks that are not run; raises Wrong if something cannot be run."""
    count = 0
    for block in blocks:
        if block.language == "console":
            read_steps(block)
        if "not run" in block.says:
            count += 1
            print(f"not run: {block.page}:{block.line}: {block.says['not run']}")
            if count > MOST_NOT_RUN:
                raise Wrong(block.page, block.line,
                            f"more than {MOST_NOT_RUN} blocks are not run")


def run(page, blocks, options, missing):
    made = Page(page, blocks, options, missing)
    try:
        made.run()
    finally:
        made.close()
    print(f"{page}: {made.ran} blocks ran as the page says")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prefix", help="an installed tree")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--check", action="store_true", help="only read the pages")
    parser.add_argument("pages", nargs="+", metavar="PAGE")
    options = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CPUS])
    try:
        pages = {}
        for path in options.pages:
            with open(path, encoding="utf-8") as file:
                pages[path] = read_blocks(path, file.read())
        blocks = sum(pages.values(), [])
        check(blocks)
        if options.check:
            return 0
        needed = {block.says["needs"] for block in blocks if "needs" in block.says}
        missing = {name for name in needed if lacks(options.python, name)}
        for path, of_page in pages.items():
            run(path, of_page, options, missing)
    except Wrong as error:
        print(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
