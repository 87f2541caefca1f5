"""The layer check accepts what it should and fails on everything else."""

import os
import unittest

from gate import GateTest


class Layers(GateTest):
    gate = "check_layers.py"

    def setUp(self):
        super().setUp()
        self.write("tools/layers.txt", "# comment\nlow:\nhigh: low\n")
        self.write("include/lockstep/a.h", "#include <stdio.h>\n")
        self.write("src/low/x.h", '#include "lockstep/a.h"\n')
        self.write("src/high/y.c",
                   '#include "low/x.h"\n#include <math.h>\n'
                   '/* #include "nowhere/z.h" */\n')

    def test_good_tree(self):
        self.assertIn("0 errors", self.passes())

    def test_upward_include(self):
        self.write("src/high/y.h", "")
        self.write("src/low/x.c", 'int a;\n#  include "high/y.h"\n')
        self.fails('src/low/x.c:2: "high/y.h": low may include: only itself')

    def test_sideways_include(self):
        self.write("tools/layers.txt", "low:\nhigh: low\nside: low\n")
        self.write("src/side/s.h", "")
        self.write("src/high/z.c", '#include "side/s.h"\n')
        self.fails("src/high/z.c:1", "high may include: low")

    def divide_into_rooms(self):
        self.write("tools/layers.txt",
                   "low:\nhigh: low\nhigh/cellar:\nhigh/hall: high/cellar\n"
                   "top: high/hall\n")
        os.remove(os.path.join(self.folder.name, "src/high/y.c"))
        self.write("src/high/cellar/c.h", '#include "low/x.h"\n')
        self.write("src/high/hall/sub/h.h", '#include "high/cellar/c.h"\n')
        self.write("src/high/hall/h.c", '#include "high/hall/sub/h.h"\n')
        self.write("src/top/t.c", '#include "high/hall/sub/h.h"\n')

    def test_rooms(self):
        self.divide_into_rooms()
        self.assertIn("0 errors", self.passes())

    def test_upward_room(self):
        self.divide_into_rooms()
        self.write("src/high/hall/g.h", "")
        self.write("src/high/cellar/c.c", '#include "high/hall/g.h"\n')
        self.fails("src/high/cellar/c.c:1",
                   "high/cellar may include: only itself")

    def test_single_room_for_others(self):
        self.divide_into_rooms()
        self.write("src/top/u.c", '#include "high/cellar/c.h"\n')
        self.fails("src/top/u.c:1", "top may include: high/hall")

    def test_file_outside_rooms(self):
        self.divide_into_rooms()
        self.write("src/high/attic/a.c", "")
        self.write("src/high/loose.c", "")
        self.fails("src/high/attic/a.c: high is divided into rooms",
                   "src/high/loose.c: high is divided into rooms")

    def test_x_macro_files_count(self):
        self.write("src/high/y.h", "")
        self.write("src/low/rows.def", '#include "high/y.h"\n')
        self.fails("src/low/rows.def:1")

    def test_unknown_folder(self):
        self.write("src/misc/m.c", "")
        self.fails("src/misc/m.c: misc has no line")

    def test_file_outside_layers(self):
        self.write("src/loose.c", "")
        self.fails("src/loose.c: belongs into a layer's folder")

    def test_missing_files(self):
        self.write("src/low/x.c",
                   '#include "low/gone.h"\n#include "lockstep/gone.h"\n')
        self.fails('"low/gone.h": there is no such file',
                   '"lockstep/gone.h": there is no such public header')

    def test_relative_paths(self):
        self.write("src/low/x.c",
                   '#include "x.h"\n#include "low/../low/x.h"\n')
        self.fails("src/low/x.c:1", "src/low/x.c:2", "write the path")

    def test_public_headers_see_no_internals(self):
        self.write("include/lockstep/b.h", '#include "low/x.h"\n')
        self.fails("only public headers may be included")

    def test_examples_see_no_internals(self):
        self.write("examples/e.c", '#include "low/x.h"\n')
        self.fails("examples/e.c:1")

    def test_cycle_of_layers(self):
        self.write("tools/layers.txt", "low: high\nhigh: low\n")
        self.fails("a cycle: low -> high -> low")

    def test_cycle_of_headers(self):
        self.write("src/low/a.h", '#include "low/b.h"\n')
        self.write("src/low/b.h", '#include "low/a.h"\n')
        self.fails("includes in a cycle")

    def test_bad_list(self):
        self.write("tools/layers.txt", "low\nhigh: low\nhigh:\n")
        self.fails("no colon", "two lines", "high may include low, which has")


if __name__ == "__main__":
    unittest.main()
