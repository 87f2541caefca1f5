"""The check of commits reads titles and sizes, of new commits only."""

import os
import subprocess
import unittest

from gate import GateTest


class Commits(GateTest):
    gate = "check_commits.py"

    def setUp(self):
        super().setUp()
        self.git("init", "-q", "-b", "main")
        self.write("a.c", "int a;\n" * 3000)
        self.commit("Everything, before anybody looked.")
        self.git("checkout", "-q", "-b", "change")

    def git(self, *args):
        subprocess.run(
            ["git", "-C", self.folder.name, "-c", "user.name=n", "-c",
             "user.email=e", "-c", "commit.gpgsign=false", *args], check=True,
            env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull})

    def commit(self, title):
        self.git("add", "-A")
        self.git("commit", "-q", "-m", title)

    def test_good_commit(self):
        self.write("b.c", "int b;\n" * 2000)
        self.commit("comm: add b")
        self.assertIn("1 checked, 0 errors", self.passes())

    def test_titles(self):
        for title in ("comm: Add b", "add b", "comm: add b.",
                      "comm: " + 55 * "b"):
            self.write("b.c", title)
            self.commit(title)
        self.assertEqual(self.fails().count("commit title"), 4)

    def test_large_commit(self):
        self.write("b.c", "int b;\n" * 2001)
        self.commit("comm: add b")
        self.fails("\"comm: add b\": changes 2001 lines, at most 2000")

    def test_added_and_taken_away_count(self):
        self.write("a.c", "int a;\n" * 1900 + "int c;\n" * 1000)
        self.commit("comm: change a")
        self.fails("changes 2100 lines")

    def test_moves_deletions_and_generated_files_do_not_count(self):
        os.makedirs(os.path.join(self.folder.name, "docs"))
        self.git("mv", "a.c", "b.c")
        self.commit("comm: move a")
        self.git("rm", "-q", "b.c")
        self.write("docs/reference/commands.md", "x\n" * 3000)
        self.commit("comm: remove b")
        self.assertIn("2 checked, 0 errors", self.passes())

    def test_newest_commit_of_main(self):
        self.git("checkout", "-q", "main")
        self.fails("commit title \"Everything", "1 errors")
        self.write("b.c", "int b;\n" * 2001)
        self.commit("comm: add b")
        self.fails("changes 2001 lines", "1 errors")

    def test_no_repository(self):
        with self.subTest("an archive of the sources"):
            os.rename(os.path.join(self.folder.name, ".git"),
                      os.path.join(self.folder.name, "git"))
            self.assertIn("0 checked, 0 errors", self.passes())


if __name__ == "__main__":
    unittest.main()
