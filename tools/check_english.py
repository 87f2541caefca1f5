#!/usr/bin/env python3
"""Fails on sentences that are hard to read.

  - words that hide the subject or are not the field's: BANNED below
  - a sentence of more than 30 words
  - a sentence that begins with What, Who, Whose or That as its subject

It reads Markdown, the comments of all sources, the docstrings and strings of Python, and the
string literals of C and C++ except those of tests.
Code, quotations and generated text do not count; a question may begin with What or Who.
"""

import argparse
import os
import re
import sys

import source_texts

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
SINGLE = re.compile(r"(?<![\w])'[^'\n]*'(?!\w)")
ENTRY = re.compile(r"^( *)(?=(?:--)?[\w-]+(?: [A-Z]+)?: )", re.M)  # of a list of arguments
STRINGS_OF = ("lib/", "program/", "python/csrc/", "examples/")  # C; of Python all are read
EXEMPT = {"docs/reference/commands.md",  # generated
          "THIRD-PARTY.md"}  # quotes licences
EXEMPT_STRINGS = {
    "tools/check_english.py": "the patterns of the banned words",
    "tests/tools/test_check_english.py": "faults that the gate must find",
}


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


def comment(text, line):
    text = re.sub(r"^ {2,}.*$", "", text, flags=re.M)  # code and tables
    if not text.strip().startswith("----"):
        yield from sentences(QUOTED.sub(word, text), line)


def docstring(text, line):
    text = re.sub(r"^ {%d}" % indent(text), "", text, flags=re.M)
    text = ENTRY.sub(r"\1* ", text)
    yield from sentences(QUOTED.sub(word, INDENTED.sub(blank, text)), line)


def indent(text):
    """The least indentation of the lines after the first."""
    return min((len(line) - len(line.lstrip()) for line in text.split("\n")[1:] if line.strip()),
               default=0)


def string(text, line):
    for part in QUOTED.sub(word, text).split("\n"):
        for _, sentence in sentences(SINGLE.sub("Q", part), line):
            yield line, sentence


def source(name, text):
    kinds = {"comment": comment, "docstring": docstring, "string": string}
    for line, kind, body in source_texts.reader(name)(text):
        if kind == "string" and (name in EXEMPT_STRINGS or not source_texts.is_prose(body) or
                                 not name.startswith(STRINGS_OF) and not name.endswith(".py")):
            continue
        yield from kinds[kind](body, line)


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
    count = errors = 0
    for name in source_texts.files(root):
        path = os.path.join(root, name)
        if name in EXEMPT or not os.path.isfile(path):
            continue
        if not name.endswith(".md") and not source_texts.reader(name):
            continue
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for line, sentence in markdown(text) if name.endswith(".md") else source(name, text):
            count += 1
            for fault in faults(sentence):
                errors += 1
                print(f"{name}:{line}: {fault}: {sentence[:120]}")
    print(f"english: {count} sentences, {errors} errors")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
