"""The table of exit statuses in docs/exit-status.md, beside the header."""

import os
import re
import unittest

from program import SOURCE, ProgramTest

HEADER = "program/launch/exit_status.h"
PAGE = "docs/exit-status.md"


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


if __name__ == "__main__":
    unittest.main()
