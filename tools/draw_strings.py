#!/usr/bin/env python3
"""Prints user-visible strings of the tree, drawn at random, for a fresh reader to judge.

    tools/draw_strings.py                # 70 strings, by the hash of the parent of HEAD
    tools/draw_strings.py -n 20 --seed x

User-visible are literals of three words or more in lib/, program/, python/csrc/ and the
packages in Python, and the first paragraphs of docstrings of these packages.
"""

import argparse
import os
import random
import subprocess

import source_texts

LEAST_WORDS = 3
DRAWN_FROM = ("lib/", "program/", "python/csrc/", "python/src/", "python/lockstep/src/")


def strings(root):
    """(file, line, text) of each user-visible string, in the order of the tree."""
    for name in source_texts.files(root):
        read = source_texts.reader(name)
        if not name.startswith(DRAWN_FROM) or not read or read is source_texts.read_shell:
            continue
        with open(os.path.join(root, name), encoding="utf-8") as file:
            found = sorted(read(file.read()))
        for line, kind, text in found:
            if kind == "docstring":
                text = " ".join(text.split("\n\n", maxsplit=1)[0].split())
            if kind != "comment" and source_texts.is_prose(text, LEAST_WORDS):
                yield name, line, text


def parent_of_head(root):
    return subprocess.run(["git", "rev-parse", "HEAD^"], cwd=root, check=True,
                          capture_output=True, text=True).stdout.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("-n", type=int, default=70, help="strings to print (default: 70)")
    parser.add_argument("--seed", help="text that determines the draw (default: the hash of HEAD^)")
    parser.add_argument("--root", default=os.path.join(
        os.path.dirname(os.path.abspath(__file__)), ".."))
    arguments = parser.parse_args()
    seed = arguments.seed or parent_of_head(arguments.root)
    every = list(strings(arguments.root))
    drawn = random.Random(seed).sample(every, min(arguments.n, len(every)))
    for name, line, text in drawn:
        print(f"{name}:{line}: " + text.replace("\n", "\\n"))


if __name__ == "__main__":
    main()
