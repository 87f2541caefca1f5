#!/usr/bin/env python3
"""Makes lib/input/text/unicode_classes.def: the characters that are letters (general
category L) and numbers (N) in Unicode 16.0. By this version Hugging Face's
`tokenizers` 0.23 and `tiktoken` 0.14 split text.

usage: make_unicode_classes.py FILE, with `pip install unicodedata2==16.0.0`"""
import sys

import unicodedata2

VERSION = "16.0.0"


def ranges():
    """(class, first, last) of neighbours of the same class."""
    begin, kind = 0, None
    for c in range(0x110001):
        new = unicodedata2.category(chr(c))[0] if c < 0x110000 else None
        if new != kind:
            if kind in ("L", "N"):
                yield kind, begin, c - 1
            begin, kind = c, new


def main():
    if unicodedata2.unidata_version != VERSION:
        sys.exit(f"unicodedata2 has Unicode {unicodedata2.unidata_version}, "
                 f"not {VERSION}")
    names = {"L": "LETTER", "N": "NUMBER"}
    with open(sys.argv[1], "w") as out:
        out.write("/* Letters and numbers of Unicode 16.0: X(class, first, "
                  "last). Made by\n * tools/make_unicode_classes.py. */\n"
                  "/* clang-format off */\n")
        for kind, first, last in ranges():
            out.write(f"X({names[kind]}, 0x{first:04x}, 0x{last:04x})\n")
        out.write("/* clang-format on */\n")


main()
