"""Reads the texts of source files that people read: comments, docstrings, string literals.

Each reader yields (line, kind, text). The kind is "comment", "docstring" or "string".
Adjacent literals are one text. A value that a program inserts is %s (%d, ...) in C, {} in Python.
"""

import ast
import io
import re
import subprocess
import tokenize

TOKEN = re.compile(
    r"/\*.*?\*/|//[^\n]*"                                  # comments
    r"|^[ \t]*#[ \t]*(?:include|pragma)[^\n]*"             # file names are no texts
    r"|(?<!\w)R\"(?P<mark>[^()\s]*)\((?P<raw>.*?)\)(?P=mark)\""
    r"|(?P<plain>\"(?:\\.|[^\"\\\n])*\")(?:\s*PRI(?P<value>\w+))?"
    r"|'(?:\\.[0-7a-fA-F]*|[^'\\\n])'", re.S | re.M)
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
GAP = re.compile(r"(?:\s|\\\n)*(?:([A-Z]\w*)(?:\s|\\\n)*)?")  # between adjacent literals
VALUES = re.compile(r"\s*,[^\";{}]+,\s*")  # of C++: f("rank ", rank, " is late")
ESCAPE = re.compile(r"\\(?:\n|x[0-9a-fA-F]+|[0-7]{1,3}|.)", re.S)
ESCAPED = {"\\n": "\n", "\\t": "\t", "\\\\": "\\", "\\\"": "\"", "\\'": "'", "\\\n": ""}
SHELL_COMMENT = re.compile(r"(?:^|(?<=\s))#(?!!)(.*)$")
DIRECTIVE = re.compile(r"%[-+#0]*(?:\*|\d+)?(?:\.(?:\*|\d+))?(?:hh?|ll?|[jztL])?[a-zA-Z](?:64|32)?|"
                       r"{\w*}")
WORD = re.compile(r"(?<![\w\\./-])[A-Za-z][a-z]+(?:['’-][a-z]+)*(?![\w./-]*[\w/])|\b[aAI]\b")
CODE = re.compile(r";\s*$|^\s*(?:[<{}]|#\w)|=>|</|\w=\"|&&|\|\||\\[sdwb(.]|{[\w-]+:", re.M)


def files(root):
    """The names of all files of the tree that git does not ignore, sorted."""
    listed = subprocess.run(["git", "ls-files", "-coz", "--exclude-standard"], cwd=root,
                            check=True, capture_output=True, text=True).stdout
    return sorted(name for name in set(listed.split("\0"))
                  if name and not name.startswith("shared/"))


def unescape(match):
    return ESCAPED.get(match.group(), " ")


def starts_line(text, at):
    """Whether only blanks stand before a place in its line."""
    return not text[text.rfind("\n", 0, at) + 1:at].strip()


def literal(token):
    """The text of one literal of C, or None for another token."""
    if token.group("raw") is not None:
        return token.group("raw")
    if token.group("plain"):
        return ESCAPE.sub(unescape, token.group("plain")[1:-1]) + (token.group("value") or "")
    return None


def between(gap, joins_values):
    """The part of a joined text that stands for the source between two literals, or None."""
    gap = COMMENT.sub(" ", gap)
    if joins_values and VALUES.fullmatch(gap) and gap.count("(") == gap.count(")"):
        return "{}"
    macro = GAP.fullmatch(gap)
    if not macro:
        return None
    return "{" + macro.group(1) + "}" if macro.group(1) else ""


def read_c(text, joins_values=False):
    """The comments and literals of C. Line comments below each other are one text."""
    comment, strings = None, []  # [line, last line, text]; [line, end, text]
    for token in TOKEN.finditer(text):
        line = text.count("\n", 0, token.start()) + 1
        body = literal(token)
        if body is not None:
            join = between(text[strings[-1][1]:token.start()], joins_values) \
                if strings else None
            if join is None:
                strings.append([line, token.end(), body])
            else:
                strings[-1][1:] = token.end(), strings[-1][2] + join + body
        elif token.group().startswith("/*"):
            yield line, "comment", re.sub(r"^ *\* ?", "", token.group()[2:-2], flags=re.M)
        elif token.group().startswith("//"):
            if comment and comment[1] == line - 1 and starts_line(text, token.start()):
                comment[1:] = line, comment[2] + "\n" + token.group()[2:]
            else:
                if comment:
                    yield comment[0], "comment", comment[2]
                comment = [line, line, token.group()[2:]]
    if comment:
        yield comment[0], "comment", comment[2]
    for line, _, body in strings:
        yield line, "string", body


def read_cpp(text):
    """As read_c, but literals and values that a call puts together are one text."""
    return read_c(text, joins_values=True)


def join_lines(comments):
    """One text for each run of comments that have their lines to themselves."""
    last = None
    for line, column, alone, body in comments:
        if last and alone and last[1:4] == [line - 1, column, True]:
            last[1], last[4] = line, last[4] + "\n" + body
            continue
        if last:
            yield last[0], "comment", last[4]
        last = [line, line, column, alone, body]
    if last:
        yield last[0], "comment", last[4]


def read_shell(text):
    """The comments of a shell script or a CMake file."""
    comments = []
    for number, line in enumerate(text.split("\n"), 1):
        found = SHELL_COMMENT.search(line)
        if found:
            before = line[:found.start()]
            if before.count("\"") % 2 == 0 and before.count("'") % 2 == 0:
                comments.append((number, found.start(), not before.strip(), found.group(1)))
    return join_lines(comments)


class PythonStrings(ast.NodeVisitor):
    def __init__(self):
        self.found = []
        self.docstrings = set()

    def visit(self, node):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) \
                and ast.get_docstring(node, clean=False) is not None:
            self.docstrings.add(node.body[0].value)
        super().visit(node)

    def visit_Constant(self, node):  # pylint: disable=invalid-name
        if isinstance(node.value, str):
            kind = "docstring" if node in self.docstrings else "string"
            self.found.append((node.lineno, kind, node.value))

    def visit_JoinedStr(self, node):  # pylint: disable=invalid-name
        parts = [part.value if isinstance(part, ast.Constant) else "{}" for part in node.values]
        self.found.append((node.lineno, "string", "".join(parts)))


def read_python(text):
    """The comments, docstrings and literals of Python."""
    comments = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith("#!"):
            line, column = token.start
            comments.append((line, column, not token.line[:column].strip(), token.string[1:]))
    yield from join_lines(comments)
    strings = PythonStrings()
    strings.visit(ast.parse(text))
    yield from strings.found


def reader(name):
    """The function that reads a file of this name, or None."""
    base = name.rsplit("/", maxsplit=1)[-1]
    if name.endswith((".c", ".h", ".def", ".cu")):
        return read_c
    if name.endswith(".cpp"):
        return read_cpp
    if name.endswith(".py"):
        return read_python
    if name.endswith((".sh", ".cmake")) or base == "CMakeLists.txt" or name in ("dev", ".ci/run"):
        return read_shell
    return None


def is_prose(text, least=2):
    """Whether a literal has words for people: not code, a path, a key or only a format."""
    words = DIRECTIVE.sub(" ", text)
    return len(WORD.findall(words)) >= least and not CODE.search(words)
