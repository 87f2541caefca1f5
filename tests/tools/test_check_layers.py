"""The layer check accepts what it should and fails on everything else."""

import os
import unittest

from gate import GateTest


class Layers(GateTest):
    gate = "check_layers.py"

    def setUp(self):
        super().setUp()
        self.write("tools/layers.txt",
                   "# comment\nlib/low\nlib/high\nprogram/top\n")
        self.write("include/lockstep/a.h", "#include <stdio.h>\n")
        self.write("lib/low/x.h", '#include "lockstep/a.h"\n')
        self.write("lib/high/y.c",
                   '#include "low/x.h"\n#include <math.h>\n'
                   '/* #include "nowhere/z.h" */\n')
        self.write("program/top/t.c", '#include "low/x.h"\n')

    def test_good_tree(self):
        self.assertIn("0 errors", self.passes())

    def test_upward_include(self):
        self.write("lib/high/y.h", "")
        self.write("lib/low/x.c", 'int a;\n#  include "high/y.h"\n')
        self.fails('lib/low/x.c:2: "high/y.h": low may include: only itself')

    def test_libraries_do_not_see_the_program(self):
        self.write("program/top/t.h", "")
        self.write("lib/high/z.c", '#include "top/t.h"\n')
        self.fails('lib/high/z.c:1: "top/t.h": high may include: low')

    def test_colon_narrows(self):
        self.write("tools/layers.txt", "lib/low\nlib/high\nprogram/top: high\n")
        self.fails("program/top/t.c:1", "top may include: high")

    def divide(self, parts="    cellar\n    hall: cellar\n"):
        self.write("tools/layers.txt",
                   f"lib/low\nlib/high\n{parts}program/top\n")
        os.remove(os.path.join(self.folder.name, "lib/high/y.c"))
        self.write("lib/high/cellar/c.h", '#include "low/x.h"\n')
        self.write("lib/high/hall/sub/h.h", '#include "high/cellar/c.h"\n')
        self.write("lib/high/hall/h.c", '#include "high/hall/sub/h.h"\n')
        self.write("program/top/t.c", '#include "high/hall/sub/h.h"\n')

    def test_parts(self):
        self.divide()
        self.assertIn("0 errors", self.passes())

    def test_upward_part(self):
        self.divide()
        self.write("lib/high/hall/g.h", "")
        self.write("lib/high/cellar/c.c", '#include "high/hall/g.h"\n')
        self.fails("lib/high/cellar/c.c:1",
                   "high/cellar may include: only itself")

    def test_colon_narrows_parts(self):
        self.divide("    cellar\n    hall:\n")
        self.fails("lib/high/hall/sub/h.h:1",
                   "high/hall may include: only itself")

    def test_file_outside_parts(self):
        self.divide()
        self.write("lib/high/attic/a.c", "")
        self.write("lib/high/loose.c", "")
        self.fails("lib/high/attic/a.c: high is divided",
                   "lib/high/loose.c: high is divided")

    def test_x_macro_files_count(self):
        self.write("lib/high/y.h", "")
        self.write("lib/low/rows.def", '#include "high/y.h"\n')
        self.fails("lib/low/rows.def:1")

    def test_rows_name_nothing_from_above(self):
        self.write("lib/high/help.h",
                   "extern const char *const decay_help;\n"
                   "enum level {\n    LSI_LEVEL_HIGH,\n};\n"
                   "#define TWICE(x) (2 * (x))\n"
                   "int lsi_both(int a,\n             int b);\n")
        self.write("lib/low/both.h", "int lsi_both(int a, int b);\n")
        self.write("lib/low/rows.def",
                   "/* decay_help */\nX(a, decay_help)\n"
                   'X(b, "TWICE", lsi_both)\nX(c, LSI_LEVEL_HIGH)\n'
                   "X(d, TWICE(2))\n")
        self.fails("lib/low/rows.def:2: decay_help is declared in "
                   "lib/high/help.h", "rows.def:4: LSI_LEVEL_HIGH",
                   "rows.def:5: TWICE", "3 errors")

    def test_unknown_folder(self):
        self.write("lib/misc/m.c", "")
        self.write("program/low/l.c", "")
        self.fails("lib/misc/m.c: tools/layers.txt does not list lib/misc",
                   "program/low/l.c: tools/layers.txt does not list program/low")

    def test_file_outside_rooms(self):
        self.write("lib/loose.c", "")
        self.fails("lib/loose.c: move this file into the folder of a room")

    def test_missing_files(self):
        self.write("lib/low/x.c",
                   '#include "low/gone.h"\n#include "lockstep/gone.h"\n')
        self.fails('"low/gone.h": this file does not exist',
                   '"lockstep/gone.h": this public header does not exist')

    def test_relative_paths(self):
        self.write("lib/low/x.c",
                   '#include "x.h"\n#include "low/../low/x.h"\n')
        self.fails("lib/low/x.c:1", "lib/low/x.c:2", "write the path")

    def test_public_headers_see_no_internals(self):
        self.write("include/lockstep/b.h", '#include "low/x.h"\n')
        self.fails("only public headers may be included")

    def test_examples_see_no_internals(self):
        self.write("examples/e.c", '#include "low/x.h"\n')
        self.fails("examples/e.c:1")

    def test_cycle_of_headers(self):
        self.write("lib/low/a.h", '#include "low/b.h"\n')
        self.write("lib/low/b.h", '#include "low/a.h"\n')
        self.fails("these files include each other in a cycle")

    def test_bad_list(self):
        self.write("tools/layers.txt",
                   "lib/low: high\nlib/high\nlib/high\nlow\n")
        self.fails("low may include high, but high is not listed above low",
                   "high is listed twice", '"low" is not a folder of lib/')


if __name__ == "__main__":
    unittest.main()
