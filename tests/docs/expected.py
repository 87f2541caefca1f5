"""Compares what a command shows with what a page says it shows.

Text must be equal. Values that differ between runs and machines match any value of
their kind:

    17  1,024           an integer
    0.5  1e-08  -3.2    a number with a fraction or an exponent
    12 ms  0.4 GiB/s    either, if a unit of time or a rate follows
    2026-01-31  12:00   a date, a time of day, a duration
    1f0a93c2b7d4e855    a hexadecimal number of 8 digits or more
    node7               the name of this host
    %                   ("50.0%") as the number ahead of it
    ---                 a rule of any length

Any number of blanks matches any other, as the columns of tables have other widths then.
A line `...` matches any lines, none included. Within a line, `...` matches any text.
"""

import re
import socket

UNIT = r"(?= ?(?:ns|us|ms|s|min|h)\b| ?[KMG]?i?[A-Za-z]+/(?:s|step)\b)"
INTEGER = r"-?\d[\d,]*"
DECIMAL = r"-?(?:\d[\d,]*\.\d+(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+)"
WORD = r"(?<![\w.])"
ANY_LINES = object()

# (what the page has, what matches it), the first that fits.
KINDS = [
    (r"\.\.\.", ".*"),
    (r"\d{4}-\d\d-\d\d", r"\d{4}-\d\d-\d\d"),
    (r"\d+:\d\d(?::\d\d)?(?![\d:])", r"\d+:\d\d(?::\d\d)?"),
    (WORD + r"(?=\d*[a-f])(?=[a-f]*\d)[0-9a-f]{8,}\b", r"[0-9a-f]{8,}"),
    (r"(?<![\w.])(?:" + DECIMAL + "|" + INTEGER + ")" + UNIT,
     "(?:" + DECIMAL + "|" + INTEGER + ")"),
    (r"(?<![\w.])" + DECIMAL + r"(?![\w.])", DECIMAL),
    (r"(?<![\w.])-?\d[\d,]*(?<!,)", INTEGER),
    (r"\bnode7\b", "(?:node7|" + re.escape(socket.gethostname()) + ")"),
    (r"[-=\u2500]{3,}", r"[-=\u2500]{3,}"),
    (r"\s+", r"\s+"),
]
KIND = re.compile("|".join(f"(?P<k{i}>{seen})" for i, (seen, _) in enumerate(KINDS)))


def pattern(line):
    """The lines that match a line of a page."""
    made, at = "", 0
    for found in KIND.finditer(line):
        made += re.escape(line[at:found.start()])
        made += KINDS[int(found.lastgroup[1:])][1]
        at = found.end()
    return re.compile(made + re.escape(line[at:]))


def patterns(text):
    return [ANY_LINES if line.strip() == "..." else pattern(line.strip())
            for line in text.split("\n")] if text else []


def in_order(wanted, lines):
    """The number of wanted lines that match before the first that does not."""
    reached = {0}  # the numbers of lines that what is wanted so far may have matched
    for i, one in enumerate(wanted):
        if one is ANY_LINES:
            reached = set(range(min(reached), len(lines) + 1))
        else:
            reached = {at + 1 for at in reached
                       if at < len(lines) and one.fullmatch(lines[at])}
        if not reached:
            return i
    return len(wanted) + 1 if len(lines) in reached else len(wanted)


def in_any_order(wanted, lines):
    """Whether each wanted line matches a different one, and no line is left, unless `...`
    is wanted."""
    ones = [one for one in wanted if one is not ANY_LINES]
    owner = {}  # line -> wanted

    def place(i, seen):
        for at, line in enumerate(lines):
            if at not in seen and ones[i].fullmatch(line):
                seen.add(at)
                if at not in owner or place(owner[at], seen):
                    owner[at] = i
                    return True
        return False

    return all(place(i, set()) for i in range(len(ones))) and \
        (len(ones) < len(wanted) or len(lines) == len(ones))


def difference(text, shown, unordered=False):
    """None if `shown` is what the page says, or a sentence."""
    wanted = patterns(text)
    lines = [line.strip() for line in shown.split("\n")] if shown else []
    if unordered:
        return None if in_any_order(wanted, lines) else \
            "the lines, in any order, differ"
    count = in_order(wanted, lines)
    if count > len(wanted):
        return None
    if count == len(wanted):
        return "lines follow that the page does not have"
    return f"no line matches: {text.split(chr(10))[count]}"
