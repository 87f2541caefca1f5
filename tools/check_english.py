#!/usr/bin/env python3
"""Fails on sentences that are hard to read, in Markdown and in comments of COVERED.

  - words that hide the subject or are not the field's: BANNED below
  - a sentence of more than 30 words
  - a sentence that begins with What, Who, Whose or That as its subject

Code, quotations and generated text do not count; a question may begin with What or Who.
"""

import argparse
import os
import re
import subprocess
import sys

MOST_WORDS = 30
BANNED = re.compile(r"\b(of (?:its|one's|their|his|your|my|our) own|there is no|is no(?! longer)|"
                    r"so many|anew|likewise|the like|beside|unless told)\b", re.I)
SUBJECT = re.compile(r"(?:What|Who|Whose|That)\b(?!['’])")
FENCE = re.compile(r"^( *)(```|~~~).*?^\1\2[^\n]*$", re.M | re.S)
INDENTED = re.compile(r"(?<=\n\n)(?: {4,}(?![-*] |\d+\. ).*\n+)+")
REMARK = re.compile(r"<!--.*?-->", re.S)
QUOTED = re.compile(r"`[^`]*`|\"[^\"]*\"|“[^”]*”", re.S)
TARGET = re.compile(r"(?<=\])\([^)\s]*\)")
PIECE = re.compile(r"\n\s*\n|\n(?= *(?:[-*] |\d+\. |#|\||:::))")
END = re.compile(r"(?<=[.!?:;])[)\"*]*\s+(?=[A-Z\[(*0-9_])|(?<=;)\s+")
COMMENT = re.compile(r"/\*(.*?)\*/", re.S)
COVERED = ("include/", "lib/", "program/", "python/csrc/")
EXEMPT = {"docs/reference/commands.md", "docs/results.md",  # generated
          "THIRD-PARTY.md"}  # quotes licences


def blank(match):
    """As many lines, without their text."""
    return "\n" * match.group().count("\n")


def word(match):
    """One word in place of a quotation."""
    return "Q" + "\n" * match.group().count("\n")


def sentences(text, line):
    """(line, sentence) for each sentence of a text that begins at that line."""
    at = 0
    for gap in list(PIECE.finditer(text)) + [None]:
        piece = text[at:gap.start() if gap else len(text)]
        first = line + text.count("\n", 0, at)
        at = gap.end() if gap else len(text)
        if re.match(r"\s*(#|\|[ :|-]+\|\s*$|:::)", piece):
            continue  # a heading; the line below the head of a table; a directive
        cells = piece.strip().strip("|").split("|") \
            if piece.lstrip().startswith("|") else [piece]
        for cell in cells:
            number, begin = first, 0
            for end in list(END.finditer(cell)) + [None]:
                sentence = cell[begin:end.start() if end else len(cell)]
                lead = len(sentence) - len(sentence.lstrip())
                yield number + sentence.count("\n", 0, lead), " ".join(sentence.split())
                begin = end.end() if end else len(cell)
                number = first + cell.count("\n", 0, begin)


def markdown(text):
    for pattern in (FENCE, REMARK, INDENTED):
        text = pattern.sub(blank, text)
    text = QUOTED.sub(word, TARGET.sub("", text))
    yield from sentences(text, 1)


def header(text):
    for comment in COMMENT.finditer(text):
        body = re.sub(r"^ *\* ?", "", comment.group(1), flags=re.M)
        body = re.sub(r"^ {2,}.*$", "", body, flags=re.M)  # code and tables
        if body.strip().startswith("----"):
            continue
        line = text.count("\n", 0, comment.start()) + 1
        yield from sentences(QUOTED.sub(word, body), line)


def faults(sentence):
    for found in BANNED.findall(sentence):
        yield f"\"{found}\""
    words = len(re.findall(r"[\w'’`-]+", sentence))
    if words > MOST_WORDS:
        yield f"{words} words"
    start = sentence.lstrip("-*([ 0123456789.")
    if SUBJECT.match(start) and not sentence.rstrip(")*\"").endswith("?"):
        yield f"begins with {start.split()[0]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--root", default=os.path.join(
        os.path.dirname(os.path.abspath(__file__)), ".."))
    root = parser.parse_args().root
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=root,
                           check=True, capture_output=True, text=True).stdout.split("\n")
    count = errors = 0
    for name in sorted(set(names)):
        path = os.path.join(root, name)
        if name in EXEMPT or not os.path.isfile(path):
            continue
        if name.endswith(".md"):
            read = markdown
        elif name.startswith(COVERED) and name.endswith((".c", ".cpp", ".h", ".def")):
            read = header
        else:
            continue
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for line, sentence in read(text):
            count += 1
            for fault in faults(sentence):
                errors += 1
                print(f"{name}:{line}: {fault}: {sentence[:120]}")
    print(f"english: {count} sentences, {errors} errors")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
