"""The text check fails on dead links, missing comments and leftovers."""

import unittest

from gate import GateTest

UNFINISHED = "TO" + "DO"  # in two parts, as the check reads this file, too


def guard(name):
    return f"#ifndef {name}\n#define {name}\n#endif\n"


class Text(GateTest):
    gate = "check_text.py"

    def setUp(self):
        super().setUp()
        self.write("README.md", "# Top\n\n[doc](docs/a.md#two-words) "
                   "[web](https://example.org) `lib/base/x.h`\n")
        self.write("docs/a.md", "## Two words!\n[up](../README.md) [#](#two-words)"
                   "\n```\n[in code](nowhere.md)\n```\n`lib/<layer>/`\n")
        self.write("lib/base/x.h", "/* About x. */\n" + guard("LS_BASE_X_H"))
        self.write("lib/base/x.c", '#include "base/x.h"\n')
        self.write("include/lockstep/a.h", "/* About a. */\n" +
                   guard("LOCKSTEP_A_H") + "\n/* Does both. */\nLS_API int f(void);\n"
                   "LS_API int g(int a,\n             int b);\n\n"
                   "/* For struct and function. */\ntypedef struct s {\n"
                   "    int a; /* a */\n} s;\n\nLS_API int h(s *s);\n")

    def test_good_tree(self):
        self.assertIn("0 errors", self.passes())

    def test_dead_links(self):
        self.write("docs/b.md", "x\n[gone](gone.md)\n[no](a.md#none)\n"
                   "`lib/base/gone.c`\n")
        self.fails("docs/b.md:2: link to gone.md", "docs/b.md:3: link to a.md#",
                   "docs/b.md:4: `lib/base/gone.c`")

    def test_public_function_without_comment(self):
        self.write("include/lockstep/b.h", "/* About b. */\n\n"
                   "LS_API int f(void);\n\nLS_API int g(int a); /* a */\n"
                   "LS_API int h(void);\n")
        self.fails("include/lockstep/b.h:3: this public function",
                   "include/lockstep/b.h:5: this public function",
                   "include/lockstep/b.h:6: this public function")

    def test_experimental_functions_are_listed(self):
        self.write("include/lockstep/b.h", "/* About b. */\n" +
                   "#define LS_EXPERIMENTAL\n/* New. */\n"
                   "LS_API LS_EXPERIMENTAL const char *ls_new(void);\n"
                   "LS_API LS_EXPERIMENTAL int ls_newer(int a);\n"
                   "LS_API int ls_old(void);\n" + guard("LOCKSTEP_B_H"))
        self.write("docs/reference/experimental.md", "# May change\n\n`ls_new` `ls_old`\n")
        self.fails("ls_newer is experimental, but not listed",
                   "ls_old is listed, but not experimental")

    def test_source_without_comment(self):
        self.write("lib/base/y.c", "int y;\n")
        self.write("lib/base/z.h", "int z;\n")
        self.fails("lib/base/y.c:1", "lib/base/z.h:1")

    def test_variables_of_the_environment_are_listed(self):
        self.write("lib/base/y.c", '/* Y. */\nchar *y = getenv("LOCKSTEP_Y");\n')
        self.write("docs/reference/environment.md", "# Variables\n\n`LOCKSTEP_Y`\n")
        self.passes()
        self.write("docs/reference/environment.md", "# Variables\n\n`LOCKSTEP_X`\n")
        self.fails("LOCKSTEP_Y is missing", "no source reads LOCKSTEP_X")

    def test_names_that_do_not_exist(self):
        self.write("include/lockstep/c.h",
                   "/* See ls_gone and f. ls_kind_* are kinds. */\n"
                   "enum {\n    LS_KIND_A = 1,\n    LS_KIND_B\n};\n" +
                   guard("LOCKSTEP_C_H"))
        self.write("docs/b.md", "LS_KIND_B, LS_KIND_C and ls_f()\n")
        output = self.fails("c.h:1: ls_gone does not exist",
                            "docs/b.md:1: LS_KIND_C does not exist",
                            "docs/b.md:1: ls_f does not exist")
        self.assertIn("3 errors", output)

    def test_guards(self):
        self.write("lib/base/ops/ops.h", "/* O. */\n" + guard("LS_BASE_OPS_H"))
        self.write("lib/array/kernels/simd/t.h", "/* A template. */\n")
        self.write("lib/array/kernels/simd/u.h", "/* U. */\n" +
                   guard("LS_ARRAY_KERNELS_SIMD_U_H"))
        self.passes()
        self.write("lib/base/y.h", "/* Y. */\n" + guard("LS_BASE_X_H"))
        self.write("lib/base/z.h", "/* Z. */\n")
        self.write("include/lockstep/y.h", "/* Y. */\n" + guard("LS_Y_H"))
        self.fails("lib/base/y.h:1: the include guard is not LS_BASE_Y_H",
                   "lib/base/z.h:1: the include guard is not LS_BASE_Z_H",
                   "lockstep/y.h:1: the include guard is not LOCKSTEP_Y_H")

    def test_leftovers(self):
        self.write("lib/base/y.c", "/* Y. */\n#if 0\nint y;\n#endif\n"
                   f"/* {UNFINISHED}: more */\n")
        self.fails("y.c:2: disabled code", f"y.c:5: {UNFINISHED}")

    def test_streams_that_lose_text(self):
        self.write("lib/base/y.c", "/* Y. */\nopen_memstream(&a, &b);\n")
        self.fails("y.c:2: open_memstream loses")

    def test_whitespace(self):
        self.write("docs/b.md", "a \nb")
        self.write("tools/c.txt", "a\r\n")
        self.fails("docs/b.md:1: blanks", "docs/b.md:2: no newline",
                   "tools/c.txt:1: blanks")

    def test_build_folders_are_skipped(self):
        self.write("build/x.md", "[gone](gone.md)\n")
        self.passes()


if __name__ == "__main__":
    unittest.main()
