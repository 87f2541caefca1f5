"""tools/check_english.py on small trees."""

import os
import subprocess
import sys
import tempfile
import unittest

TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools",
                    "check_english.py")


class English(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        subprocess.run(["git", "init", "-q", self.root], check=True)

    def write(self, path, text):
        full = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(full) or ".", exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)

    def run_tool(self):
        done = subprocess.run([sys.executable, TOOL, "--root", self.root], check=False,
                              stdout=subprocess.PIPE, text=True)
        return done.returncode, done.stdout

    def fails(self, *messages):
        status, output = self.run_tool()
        self.assertEqual(status, 1, output)
        for message in messages:
            self.assertIn(message, output)

    def passes(self):
        status, output = self.run_tool()
        self.assertEqual(status, 0, output)

    def test_words(self):
        self.write("a.md", "# So many\n\nEach rank has a stack of its own.\n")
        self.fails('a.md:3: "of its own"')
        self.write("a.md", "Each rank has a separate stack. It is no longer `of its own`.\n")
        self.passes()

    def test_long_sentences(self):
        self.write("a.md", "One.\n\nThe " + "word " * 30 + "ends.\n")
        self.fails("a.md:3: 32 words")
        self.write("a.md", "The " + "word " * 27 + "ends. Another one.\n")
        self.passes()

    def test_subjects(self):
        self.write("a.md", "- Fine.\n- What a rank sends is lost.\n| Who | Whose turn |\n")
        self.fails("a.md:2: begins with What")
        self.write("a.md", "What is a rank? A process.\n")
        self.passes()

    def test_code_is_exempt(self):
        self.write("a.md", "Run:\n\n```sh\n# What there is no word for, so many\n```\n\n"
                   "    what is no sentence, likewise\n\nEnd.\n")
        self.passes()

    def test_public_headers(self):
        self.write("include/lockstep/a.h",
                   "/* A. */\nint a; /* likewise */\n/*\n * Fine.\n *\n"
                   " *     there is no code\n */\n")
        self.fails('include/lockstep/a.h:2: "likewise"')
        self.write("include/lockstep/a.h", "/* A. */\nint a; /* seconds */\n")
        self.passes()

    def test_literals(self):
        self.write("lib/a.c", '#include "so many"\nconst char *a =\n    "there is " /* here */\n'
                              '    "no file %" PRIu64 "; fine";\n')
        self.write("program/a.cpp", 'f("That "\n  "fails.\\nWho fails.");\n')
        self.write("python/csrc/a.cpp", 'f("There is ", of(x, 1), " no rank");\n'
                                        'f("there is ", a), g(b, "no rank");\n')
        self.write("examples/a.c", 'f("The ' + 'word " X " ' * 30 + '");\n')
        self.fails('lib/a.c:3: "there is no"', "program/a.cpp:1: begins with That",
                   "program/a.cpp:1: begins with Who", "examples/a.c:1: 61 words", " 4 errors")

    def test_literals_that_are_exempt(self):
        self.write("lib/a.c", 'f("so many" " = 1;", "x \'so many\' x `so many` \\"so many\\" x",\n'
                              '  "beside", "what fails there", "%s anew", "body{beside:so many}", \'a\');\n')
        self.write("tests/a.c", 'f("there is no file");\n')
        self.passes()

    def test_comments_of_sources(self):
        paths = ("tests/a.c", "examples/a.c", "python/csrc/a.h", "lib/a.cpp", "program/a.def")
        for path in paths:
            self.write(path, "int a; /* there is no rank */\nint b; // one\nint c; // of\n"
                             "       // its own\n")
        scripts = ("dev", ".ci/run", "a.sh", "a/CMakeLists.txt", "a.cmake")
        for path in scripts:
            self.write(path, "#!/bin/sh beside\necho 'x # beside' ${x#beside}\n"
                             "echo # so\n# there is\n# no rank\na=1 # anew\n")
        self.fails(*(f'{path}:1: "there is no"' for path in paths),
                   *(f'{path}:3: "of its own"' for path in paths),
                   *(f'{path}:4: "there is no"' for path in scripts),
                   *(f'{path}:6: "anew"' for path in scripts), " 20 errors")

    def test_python(self):
        self.write("comment.py", "# Fine: there is\n# no rank.\nx = 'beside'\n")
        self.write("docstring.py", '"""Does something.\n\nWho fails is named.\n"""\n')
        self.write("string.py", 'raise ValueError(f"{x}: there is "\n                 "no rank")\n')
        self.fails('comment.py:1: "there is no"', "docstring.py:3: begins with Who",
                   'string.py:1: "there is no"', " 3 errors")

    def test_arguments_are_sentences(self):
        words = "word " * 29
        self.write("a.py", 'def f():\n    """F.\n\n    Args:\n'
                           f'        a: {words}\n        b: two words\n    """\n')
        self.passes()

    def test_test_data(self):
        path = "tests/tools/test_check_english.py"
        self.write(path, 'x = "there is no rank"\n')
        self.passes()
        self.write(path, '# There is no rank.\n')
        self.fails('"There is no"')


if __name__ == "__main__":
    unittest.main()
