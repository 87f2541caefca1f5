"""The check of calls finds circles of files and of rooms, and nothing else."""

import unittest

from gate import GateTest


def calls(own, *others):
    """The text of a file that defines a function and calls some."""
    return (f"/* lsi_comment() */\nvoid lsi_{own}(void)\n{{\n" +
            "".join(f"    lsi_{name}(1);\n" for name in others) + "}\n")


class Calls(GateTest):
    gate = "check_calls.py"

    def file(self, path, *others):
        name = path.split("/")[-1].split(".")[0]
        self.write(f"lib/comm/{path}", calls(name, *others))

    def test_good_tree(self):
        self.file("low/a.c")
        self.file("high/b.c", "a", "unknown")
        self.assertIn("0 errors", self.passes())

    def test_small_circle_in_a_room(self):
        self.file("low/a.c", "b")
        self.file("low/b.c", "a")
        self.assertIn("2 files, the largest circle: 2, 0 errors", self.passes())

    def test_large_circle(self):
        names = "abcdef"
        for one, other in zip(names, names[1:] + names[0]):
            self.file(f"low/{one}.c", other)
        self.fails("6 files call each other in a circle",
                   "comm/low/a -> comm/low/b: lsi_b")

    def test_rooms(self):
        self.file("low/a.c", "b")
        self.file("low/c.c")
        self.file("high/b.c", "c")
        self.fails("these rooms call each other: comm/high comm/low",
                   "comm/high/b: lsi_c of comm/low/c")

    def test_the_program_counts(self):
        for one, other in zip("abcdef", "bcdefa"):
            self.write(f"program/x/{one}.c", calls(one, other))
        self.fails("6 files call each other in a circle")

    def test_header_counts_as_its_file(self):
        self.write("lib/comm/low/a.h",
                   "static inline int lsi_peek(void)\n{\n"
                   "    return lsi_b();\n}\n")
        self.file("low/a.c")
        self.file("high/b.c", "a")
        self.fails("these rooms call each other: comm/high comm/low")

    def test_callbacks_and_prototypes_are_no_calls(self):
        self.write("lib/comm/low/a.c",
                   "void lsi_b(int x);\nvoid lsi_a(void)\n{\n"
                   '    take(lsi_b, "lsi_b(1)");\n}\n')
        self.file("high/b.c", "a")
        self.passes()

    def test_several_lines(self):
        self.write("lib/comm/low/a.c",
                   "static const struct thing *\nlsi_a(const int *x,\n"
                   "      int y)\n{\n    return y ? x\n"
                   "             : lsi_b(\n                 1);\n}\n")
        self.file("high/b.c", "a")
        self.fails("these rooms call each other")


if __name__ == "__main__":
    unittest.main()
