#!/usr/bin/env python3
"""Fails on commits that are too large to review, or with unclear titles.

Looks at the commits that the main branch does not have yet, or at the newest
one. A title is "area: what changed", at most 60 characters, no full stop. A
commit changes at most MOST_LINES lines, counted as lines added plus lines
removed. Moved files, deleted files and generated files do not count.
"""

import argparse
import os
import re
import subprocess
import sys

MOST_LINES = 2000
TITLE = re.compile(r"[a-z_/]+: [a-z]")
GENERATED = re.compile(r"docs/(?:reference/)?commands\.md|.*\.svg|.*/unicode_classes\.def")


class Checker:
    def __init__(self, root):
        self.root = root
        self.errors = []

    def git(self, *args):
        """The output of git, or None if it fails."""
        try:
            done = subprocess.run(["git", "-C", self.root, *args], text=True,
                                  capture_output=True, check=False)
        except OSError:
            return None  # no git: an archive of the sources
        return done.stdout if done.returncode == 0 else None

    def commits(self):
        base = (self.git("rev-parse", "--verify", "-q", "origin/main") or
                self.git("rev-parse", "--verify", "-q", "main") or "").strip()
        new = self.git("rev-list", "--no-merges", f"{base}..HEAD") if base else ""
        return (new or self.git("rev-list", "--no-merges", "-1", "HEAD") or
                "").split()

    def check_title(self, title):
        if len(title) > 60 or title.endswith(".") or not TITLE.match(title):
            self.errors.append(f"commit title \"{title}\": write \"area: what "
                               "changed\", at most 60 characters, no full stop")

    def check_size(self, commit, title):
        if self.git("rev-parse", "--verify", "-q", f"{commit}^") is None:
            return  # the first one, or all that a shallow clone has
        lines = 0
        listed = self.git("show", "--format=", "--numstat", "--find-renames",
                          "--diff-filter=d", "-z", commit)
        fields = iter((listed or "").split("\0"))
        for field in fields:
            if not field:
                continue
            added, removed, path = field.split("\t")
            if not path:  # renamed: two more fields
                next(fields)
                path = next(fields)
            if added != "-" and not GENERATED.fullmatch(path):
                lines += int(added) + int(removed)
        if lines > MOST_LINES:
            self.errors.append(f"commit {commit[:9]} \"{title}\": changes "
                               f"{lines} lines, at most {MOST_LINES} are "
                               "allowed; split this commit")

    def check(self):
        commits = self.commits()
        for commit in commits:
            title = self.git("show", "-s", "--format=%s", commit).strip()
            self.check_title(title)
            self.check_size(commit, title)
        return len(commits)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--root", default=os.path.join(
        os.path.dirname(os.path.abspath(__file__)), ".."))
    checker = Checker(parser.parse_args().root)
    count = checker.check()
    for error in checker.errors:
        print(error)
    print(f"commits: {count} checked, {len(checker.errors)} errors")
    return 1 if checker.errors else 0


if __name__ == "__main__":
    sys.exit(main())
