"""README.md and docs/: the commands that they show exist, with their flags."""

import glob
import os
import re
import shlex
import subprocess
import unittest

from program import SOURCE, ProgramTest

PAGES = [os.path.join(SOURCE, "README.md"),
         *sorted(glob.glob(os.path.join(SOURCE, "docs", "**", "*.md"),
                           recursive=True))]
FENCE = re.compile(r"^ *```(?:sh|console)?\n(.*?)^ *```", re.S | re.M)
END = {"--", "|", ">", ">>", "2>", "2>&1", "&&", "||", ";", "&"}


def read(path):
    with open(path, encoding="utf-8") as page:
        return page.read()


def commands(text):
    """The words of each line that calls lockstep, as far as flags go."""
    for block in FENCE.findall(text):
        for line in re.sub(r"\\\n", " ", block).splitlines():
            line = re.sub(r"^\s*\$ ", "", line)
            if not re.match(r"lockstep [a-z]", line) or "..." in line or "[" in line:
                continue
            words = shlex.split(line, comments=True)[1:]
            ends = [i for i, word in enumerate(words) if word in END]
            words = words[:ends[0] if ends else len(words)]
            if words[0] == "report":  # it opens files while it reads its flags
                words = [word for word in words if not word.endswith(".jsonl")]
            yield words


class Pages(ProgramTest):
    def test_command_lines(self):
        """With --help a command only checks the flags before it."""
        seen = 0
        for path in PAGES:
            for words in commands(read(path)):
                with self.subTest(page=os.path.relpath(path, SOURCE), words=words):
                    out = self.succeeds(*words, "--help")
                    self.assertTrue(out.startswith("usage: lockstep " + words[0]))
                    seen += 1
        self.assertGreater(seen, 30)

    def test_commands_of_dev(self):
        dev = subprocess.run([os.path.join(SOURCE, "dev"), "help"], check=True,
                             stdout=subprocess.PIPE, universal_newlines=True)
        for path in PAGES:
            for command in re.findall(r"\./dev ([a-z]+)", read(path)):
                self.assertRegex(dev.stdout, rf"(?m)^  {command}\b", path)


if __name__ == "__main__":
    unittest.main()
