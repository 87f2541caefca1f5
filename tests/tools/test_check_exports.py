"""The check of exports accepts the list of what is imported and nothing else."""

import os
import subprocess
import unittest

from gate import TOOLS, GateTest


class Exports(GateTest):
    def path(self, name):
        return os.path.join(self.folder.name, name)

    def archive(self, name, text):
        self.write(f"{name}.c", text)
        subprocess.run([os.environ.get("CC", "cc"), "-c", self.path(f"{name}.c"), "-o",
                        self.path(f"{name}.o")], check=True)
        subprocess.run(["ar", "rc", self.path(f"{name}.a"), self.path(f"{name}.o")],
                       check=True)

    def setUp(self):
        super().setUp()
        self.archive("comm", "int lsi_a; void lsi_b(void) {} void lsi_c(void) {}\n")
        self.archive("user", "extern int lsi_a; void lsi_b(void); void lsi_own(void) {}\n"
                             "int f(void) { lsi_b(); lsi_own(); return lsi_a; }\n")

    def run_with(self, text, *options):
        self.write("exports.txt", text)
        return subprocess.run(
            [os.path.join(TOOLS, "check_exports.py"), "--list",
             self.path("exports.txt"), *options, self.path("comm.a"),
             self.path("user.a")], capture_output=True, text=True, check=False)

    def refused(self, text, sentence):
        done = self.run_with(text)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn(sentence, done.stdout)

    def test_good_list(self):
        done = self.run_with("# why\nlsi_a\nlsi_b\n")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("2 names needed, 0 errors", done.stdout)

    def test_missing_name(self):
        self.refused("lsi_a\n", "lsi_b is missing")

    def test_name_that_nobody_needs(self):
        text = "lsi_a\nlsi_b\nlsi_c\n"
        self.refused(text, "lsi_c is listed, but liblockstep and the modules do not")
        self.assertEqual(self.run_with(text, "--part").returncode, 0)

    def test_order(self):
        self.refused("lsi_b\nlsi_a\n", "not sorted")
        self.refused("lsi_a\nlsi_a\nlsi_b\n", "not sorted")

    def test_write(self):
        self.assertEqual(self.run_with("# why\nlsi_c\n", "--write").returncode, 0)
        with open(self.path("exports.txt"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "# why\nlsi_a\nlsi_b\n")


if __name__ == "__main__":
    unittest.main()
