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


if __name__ == "__main__":
    unittest.main()
