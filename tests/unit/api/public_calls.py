#!/usr/bin/env python3
"""Writes what the public headers say about pointers, as C.

usage: public_calls.py FILE HEADER...

NULL_ARGUMENT(function, argument) for each argument that is a pointer, of a
function that has several; and for each function that has one or more, a call
with NULLs and zeros alone, by what it returns:

    ALL_NULL_STATUS(function, argument, call)   argument: "" if there are several
    ALL_NULL_VALUE(function, call)
    ALL_NULL_NOTHING(function, call)
"""
import re
import sys

FUNCTION = re.compile(r"LS_API\s+([^;{}()]*?)\b(ls_\w+)\s*\(([^;]*?)\)\s*"
                      r"(?:__attribute__\s*\(\(.*?\)\)\s*\)*)?;", re.S)


def strip_comments(text):
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.S)


def split_parameter(text):
    """("const char *", "name") of "const char *name"."""
    match = re.fullmatch(r"(.*?)(\w+)", " ".join(text.split()))
    return match.group(1).strip(), match.group(2)


def parameters(text):
    if text.strip() in ("void", ""):
        return []
    return [split_parameter(p) for p in text.split(",") if p.strip() != "..."]


def write_function(out, returns, name, params):
    pointers = [p for kind, p in params if kind.endswith("*")]
    if not pointers:
        return
    for pointer in pointers if len(pointers) > 1 else []:
        out.write(f"NULL_ARGUMENT({name}, {pointer})\n")
    values = ["null" if kind.endswith("*") else
              "1" if (kind, param) == ("size_t", "n") else  # of what is not there
              f"({kind}){{0}}" for kind, param in params]
    call = f"{name}({', '.join(values)})"
    if returns == "ls_status":
        argument = pointers[0] if len(pointers) == 1 else ""
        out.write(f'ALL_NULL_STATUS({name}, "{argument}", {call})\n')
    elif returns == "void":
        out.write(f"ALL_NULL_NOTHING({name}, {call})\n")
    else:
        out.write(f"ALL_NULL_VALUE({name}, {call})\n")


def functions(path):
    """(what it returns, its name, its parameters) of each. LS_MUST_CHECK marks
    those that return a status, and no others."""
    with open(path, encoding="utf-8") as file:
        text = strip_comments(file.read())
    declared = len(re.findall(r"^LS_API\b", text, re.M))
    found = FUNCTION.findall(text)
    if declared != len(found):
        sys.exit(f"{path}: LS_API {declared} times, but {len(found)} functions "
                 "are understood")
    functions = []
    for returns, name, params in found:
        words = [w for w in returns.split() if w != "LS_EXPERIMENTAL"]
        if (words[-1] == "ls_status") != (words[0] == "LS_MUST_CHECK"):
            sys.exit(f"{path}: {name}: LS_MUST_CHECK is for functions that return "
                     "ls_status, and for all of them")
        returns = " ".join(w for w in words if w != "LS_MUST_CHECK")
        functions.append((returns, name, parameters(params)))
    return functions


def check_order(path, name, params):
    """The object that a function makes is its first argument, other results are its
    last; an array is followed by the number of its items (lockstep.h)."""
    makes = re.search(r"_(new|open|from)(_|$)", name)
    last = len(params) - 1
    if params and params[last][0] == "size_t *" and params[last - 1][0].endswith("**"):
        last -= 1
    for i, (kind, param) in enumerate(params):
        if kind.endswith("**") and "const" not in kind and \
                i != (0 if makes else last) and \
                not name.endswith(("_zeros", "_wrap")):
            sys.exit(f"{path}: {name}: {param} should be the "
                     f"{'first' if makes else 'last'} argument")


def main():
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        for path in sys.argv[2:]:
            for returns, name, params in functions(path):
                check_order(path, name, params)
                write_function(out, returns, name, params)


main()
