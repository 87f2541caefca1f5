"""tools/draw_strings.py on a small tree."""

import subprocess
import unittest

from gate import GateTest


class Draw(GateTest):
    gate = "draw_strings.py"

    def setUp(self):
        super().setUp()
        subprocess.run(["git", "init", "-q", self.folder.name], check=True)
        self.more = ("--seed", "a")
        self.write("lib/a.c", "/* a comment of a few words */\n"
                              "const char *a = \"the first \"\n    \"long literal\\n\";\n"
                              "const char *b = \"two words\", *c = \"{s:s, s:I, s:i}\";\n")
        self.write("python/src/a.py", '"""A few words\nfirst.\n\nThen more words."""\n'
                                      'raise ValueError(f"a bad value: {x}")\n')
        self.write("tests/a.c", "const char *a = \"no string for any user\";\n")

    def arguments(self):
        return [*super().arguments(), *self.more]

    def test_strings_of_three_words(self):
        self.assertEqual(sorted(self.passes().splitlines()), [
            "lib/a.c:2: the first long literal\\n",
            "python/src/a.py:1: A few words first.",
            "python/src/a.py:5: a bad value: {}"])

    def test_the_seed_decides(self):
        for k in range(9):
            self.write(f"lib/{k}.c", f"const char *a = \"literal of file {k}\";\n")
        self.more = ("--seed", "a", "-n", "5")
        first = self.passes()
        self.assertEqual(first.count("\n"), 5)
        self.assertEqual(self.passes(), first)
        self.more = ("--seed", "b", "-n", "5")
        self.assertNotEqual(self.passes(), first)


if __name__ == "__main__":
    unittest.main()
