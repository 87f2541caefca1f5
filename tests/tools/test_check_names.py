"""The check of names accepts what it should and fails on everything else."""

import unittest

from gate import GateTest


class Names(GateTest):
    gate = "check_names.py"

    def header(self, path, text):
        self.write(path, f"#ifndef GUARD_H\n#define GUARD_H\n{text}#endif\n")

    def setUp(self):
        super().setUp()
        self.header("include/lockstep/a.h",
                    "typedef struct ls_group ls_group;\n"
                    "struct ls_group {\n    int n;\n};\n")
        self.header("lib/low/x.h",
                    "typedef struct lsi_part lsi_part; /* told beforehand */\n"
                    "typedef struct lsi_part {\n    int n;\n} lsi_part;\n"
                    "int lsi_part_size(const lsi_part *part);\n"
                    "int lsi_group_look(void);\n")
        self.write("lib/low/x.c", "static int size(void)\n{\n    return 1;\n}\n"
                                  "int lsi_part_size(const lsi_part *part)\n"
                                  "{\n    return part->n;\n}\n")

    def test_good_tree(self):
        self.assertIn("1 types, 2 functions, 0 errors", self.passes())

    def test_function_twice(self):
        self.header("lib/high/y.h", "void lsi_group_look(void);\n")
        self.fails("lib/low/x.h:8: lsi_group_look is declared in "
                   "lib/high/y.h:3, too")

    def test_type_twice(self):
        self.header("lib/high/y.h",
                    "typedef enum lsi_part {\n    LSI_A\n} lsi_part;\n")
        self.fails("lsi_part is declared in lib/high/y.h:5, too")

    def test_pointers_to_functions_are_types(self):
        self.header("lib/high/y.h", "typedef int (*lsi_part)(void);\n")
        self.fails("lsi_part is declared in lib/high/y.h:3, too")

    def test_templates_may_repeat(self):
        self.write("lib/high/y.h", "int lsi_group_look(void);\n")
        self.passes()

    def test_comments_and_strings_declare_nothing(self):
        self.header("lib/high/y.h", "/*\nint lsi_group_look(void);\n*/\n"
                                    '"\\"int lsi_part(";\n')
        self.passes()

    def test_type_beside_a_public_one(self):
        self.header("lib/high/y.h",
                    "typedef struct lsi_group {\n    int n;\n} lsi_group;\n")
        self.fails("lsi_group is too similar to ls_group of include/lockstep/a.h")

    def test_function_of_another_folders_type(self):
        self.header("lib/high/y.h", "void lsi_part_draw(void);\n")
        self.fails("lib/high/y.h:3: lsi_part_draw looks like a function of the type "
                   "lsi_part, lib/low/x.h")

    def test_longest_type_owns_a_function(self):
        self.header("lib/high/y.h",
                    "typedef struct lsi_part_list {\n    int n;\n"
                    "} lsi_part_list;\nvoid lsi_part_list_add(void);\n")
        self.passes()

    def test_function_named_as_a_type(self):
        self.header("lib/high/y.h", "int lsi_part(int n);\n")
        self.fails("lsi_part is also a type, lib/low/x.h")

    def test_static_names(self):
        self.write("lib/low/z.c", "static int lsi_local(int n)\n{\n}\n"
                                  "static const char *lsi_text[3];\n")
        self.fails("lib/low/z.c:1: lsi_local is static", "lib/low/z.c:4: "
                   "lsi_text is static")

    def test_vague_names(self):
        self.write("lib/low/z.c", "static void run(int n);\n\nstatic void\nrun(int n)\n{\n"
                                  "    run(n);\n}\nstatic void run_all(int n)\n{\n}\n"
                                  "static int look, heard;\nvoid say(void)\n{\n}\n")
        output = self.fails("lib/low/z.c:1: run is too vague")
        self.assertIn("1 errors", output)
        self.write("lib/low/z.c", "static inline struct a *const take(int n)\n{\n}\n")
        self.fails("lib/low/z.c:1: take is too vague")


if __name__ == "__main__":
    unittest.main()
