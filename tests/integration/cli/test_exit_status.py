"""The table of exit statuses in docs/reference/exit-status.md, compared with the header."""

import os
import re
import unittest

from program import SOURCE, ProgramTest

HEADER = "program/launch/exit_status.h"
PAGE = "docs/reference/exit-status.md"


def read(name):
    with open(os.path.join(SOURCE, name), encoding="utf-8") as file:
        return file.read()


class ExitStatus(ProgramTest):
    def test_the_page_lists_those_of_the_header(self):
        named = re.findall(r"^ +LSI_EXIT_\w+ = (\d+)", read(HEADER), re.M)
        listed = re.findall(r"^\| (\S[^|]*?) \|", read(PAGE), re.M)
        self.assertGreater(len(named), 4)
        self.assertEqual(listed, ["status", "0", *named, "128 + n"])

    def test_commands_end_so(self):
        for status, *words in ((0, "version"), (1, "report", "/no/folder"),
                               (2, "run"), (2, "no-command"),
                               (124, "run", "--timeout", "0.1", "sleep", "60"),
                               (126, "run", "/etc/passwd"),
                               (127, "run", "/no/program"),
                               (143, "run", "sh", "-c", "kill $$")):
            done = self.call(*words)
            self.assertEqual(done.returncode, status, (words, done.stderr))

    def test_no_restart_where_it_would_repeat(self):
        """An error that all ranks found is not blamed on one rank."""
        for status, why in ((2, "the command line is wrong"),
                            (65, "training has diverged")):
            done = self.call("run", "-n", "3", "--max-restarts", "2", "--",
                             "sh", "-c", f"echo begun; exit {status}")
            self.assertEqual(done.returncode, status)
            self.assertEqual(done.stdout, 3 * "begun\n")
            self.assertIn("lockstep: all 3 ranks ended with exit status "
                          f"{status}: {why}\n", done.stderr)
            self.assertIn(f"lockstep: no restart: exit status {status} means "
                          f"that {why}\n", done.stderr)
            self.assertNotIn("failed first", done.stderr)
            self.assertNotIn("consequence", done.stderr)

    def test_one_that_ends_so_alone_is_blamed(self):
        done = self.call("run", "-n", "2", "--grace", "0.2", "--", "sh", "-c",
                         "[ $RANK = 1 ] && exit 65; exec sleep 60")
        self.assertEqual(done.returncode, 65)
        self.assertIn("rank 1 failed first", done.stderr)
        self.assertNotIn("all 2 ranks", done.stderr)


if __name__ == "__main__":
    unittest.main()
