#!/usr/bin/env python3
"""doxygen_filter.py HEADER: the header with its comments in Doxygen's form.

The headers are written to be read as they are. A comment of plain text is above a
declaration, above several that follow without a gap, or next to a member. Here each
declaration gets the comment, and names of functions become links.
"""

import os
import re
import sys

FUNCTION = re.compile(r"^(?:LS_API|static inline)\b[^;{]*?\b(ls_\w+)\(", re.M)
BLOCK = re.compile(r"^/\*(?:[^*]|\*(?!/))*\*/\n", re.M)
SECTION = re.compile(r"^/\* ---- (?:[^*]|\*(?!/))*\*/\n", re.M)
ABOVE_MEMBER = re.compile(r"^( +)/\*(?!\*)((?:[^*]|\*(?!/))*)\*/\n(?=\1\S)", re.M)
NEXT_TO_MEMBER = re.compile(r"(?<=[;,])( +)/\*(?!\*)((?:[^*]|\*(?!/))*)\*/$", re.M)
LAST_OF_ENUM = re.compile(r"^( +LS_\w+(?: = [^,\n]+)?)( +)/\*(?!\*)((?:[^*]|\*(?!/))*)\*/$",
                          re.M)
ROW_OF_TABLE = re.compile(r"^ \*   ([^\s-](?:.*?\S)?) {2,}(\S.*)$", re.M)
TYPE_OR_CALL = re.compile(r"\b(ls_[a-z0-9_]+)\b(?!\()")


def functions(folder):
    """The names of all functions of the headers."""
    names = set()
    for name in os.listdir(folder):
        if name.endswith(".h"):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                names.update(FUNCTION.findall(file.read()))
    return names


def link(text, names):
    """The text of a comment with what Doxygen would read as a command escaped."""
    def line(match):
        text = match.group()
        if not re.match(r" \*   +[^\s-]", text):  # these are code and tables
            text = re.sub(r"(?<![\\\"])([<#])(?=[/\w])", r"\\\1", text)
        return text

    text = re.sub(r"^.*$", line, text, flags=re.M)
    text = ROW_OF_TABLE.sub(r" *   - \1: \2", text)
    return TYPE_OR_CALL.sub(
        lambda m: m.group() + "()" if m.group() in names else m.group(), text)


def members(text, names):
    """The comments of the members of a struct or an enum."""
    text = ABOVE_MEMBER.sub(
        lambda m: f"{m[1]}/**{link(m[2], names)}*/\n", text)
    text = LAST_OF_ENUM.sub(
        lambda m: f"{m[1]}{m[2]}/**<{link(m[3], names)}*/", text)
    return NEXT_TO_MEMBER.sub(lambda m: f"{m[1]}/**<{link(m[2], names)}*/", text)


def declarations(text):
    """Splits what stands without a gap; the lines of one stay together."""
    found, lines, depth = [], [], 0
    for line in text.splitlines(keepends=True):
        lines.append(line)
        depth += line.count("{") - line.count("}")
        more = line.rstrip().endswith("\\")
        if depth == 0 and not more and re.search(r"[;}]\s*(/\*.*\*/)?\s*$", line):
            found.append("".join(lines))
            lines = []
        elif not more and lines[0].startswith("#"):
            found.append("".join(lines))
            lines = []
    return found + (["".join(lines)] if lines else [])


def convert(text, names):
    text = SECTION.sub("", text)
    out, at, first = [], 0, True
    for match in BLOCK.finditer(text):
        if match.start() < at:
            continue
        out.append(text[at:match.start()])
        comment = "/**" + link(match.group()[2:], names)
        at = match.end()
        if first:
            out.append(comment.replace("/**", "/** @file\n", 1))
            first = False
            continue
        gap = re.search(r"\n\n(?! )|\n(?=/\*)|\Z", text[at:])
        block = text[at:at + gap.start()]
        if not block.strip():
            continue  # a remark on what follows, not on a declaration
        for declaration in declarations(block):
            out.append(comment + members(declaration, names) + "\n")
        at += gap.start()
    return "".join(out) + text[at:]


def main():
    path = sys.argv[1]
    with open(path, encoding="utf-8") as file:
        text = file.read()
    print(convert(text, functions(os.path.dirname(path))), end="")


if __name__ == "__main__":
    main()
