"""The command line as a whole: help, mistakes, the documentation."""

import json
import os
import re
import subprocess
import unittest

from program import LOCKSTEP, SOURCE, ProgramTest, environment


class Help(ProgramTest):
    def test_overview(self):
        text = self.succeeds()
        self.assertTrue(text.startswith("usage: lockstep COMMAND"))
        self.assertEqual(self.succeeds("--help"), text)
        self.assertEqual(self.succeeds("-h"), text)
        self.assertEqual(self.succeeds("help"), text)

    def test_one_command(self):
        text = self.succeeds("help", "run")
        self.assertTrue(text.startswith("usage: lockstep run [FLAGS]"))
        self.assertEqual(self.succeeds("run", "--help"), text)
        self.assertEqual(self.succeeds("run", "-n", "2", "--help", "x"), text)
        self.assertIn("Exit status", text)

    def test_group_of_commands(self):
        text = self.succeeds("help", "bench")
        self.assertEqual(self.succeeds("bench", "--help"), text)
        done = self.call("bench")
        self.assertEqual((done.returncode, done.stdout, done.stderr),
                         (2, "", text))

    def test_lines_are_not_long(self):
        for line in self.succeeds("help", "--markdown").splitlines():
            self.assertLessEqual(len(line), 80, line)

    def test_lines_are_filled(self):
        """No paragraph has line breaks from its source."""
        lines = self.succeeds("help", "--markdown").splitlines()
        for line, after in zip(lines, lines[1:]):
            if line[:1] in ("", " ", "`", "#") or after[:1] in ("", " ", "`"):
                continue
            word = after.split(" ", 1)[0]
            self.assertGreater(len(line) + 1 + len(word), 79, line)

    def test_documentation_is_current(self):
        path = os.path.join(SOURCE, "docs", "reference", "commands.md")
        with open(path, encoding="utf-8") as file:
            self.assertEqual(
                file.read(), self.succeeds("help", "--markdown"),
                "run: lockstep help --markdown > docs/reference/commands.md")


class Version(ProgramTest):
    def test_it_is_that_of_the_header(self):
        path = os.path.join(SOURCE, "include", "lockstep", "version.h")
        with open(path, encoding="utf-8") as file:
            version = re.search(r'VERSION_STRING "(.*)"', file.read())[1]
        for words in (["version"], ["--version"], ["-V"]):
            self.assertEqual(self.succeeds(*words), f"lockstep {version}\n")

    def test_it_has_help(self):
        text = self.succeeds("version", "--help")
        self.assertIn("'lockstep -V' print the same", text)
        self.assertIn("--help", text.split("Flags:")[1])


class Mistakes(ProgramTest):
    def test_unknown_commands(self):
        self.fails(2, "unknown command 'rnu'; did you mean 'lockstep run'?",
                   "rnu")
        self.fails(2, "'lockstep --help' lists", "quite-different")
        self.fails(2, "unknown command 'x'", "help", "x")
        self.fails(2, "unknown command 'nope'; 'lockstep --help' lists",
                   "help", "nope")
        self.fails(2, "unknown flag -v; did you mean 'lockstep --version'?",
                   "-v")
        self.fails(2, "unexpected argument 'x'", "help", "run", "x")

    def test_unknown_flags(self):
        self.fails(2, "unknown flag --bogus; 'lockstep --help' lists",
                   "--bogus")
        self.fails(2, "version: unexpected argument", "version", "x")
        # A command without --data does not point to it.
        self.assertEqual(self.call("info", "extra").stderr,
                         "lockstep: info: unexpected argument 'extra'\n")
        self.fails(2, "info: unknown flag --verbose; --help lists the valid flags",
                   "info", "--verbose")

    def test_flags_of_a_group(self):
        first = ("name a sub-command (cifar100, images or lm) before the "
                 "flag")
        self.fails(2, f"train: {first} --lr; for "
                   "example 'lockstep train cifar100 --lr 3e-4'\n",
                   "train", "--lr", "3e-4", "--seed", "1")
        self.fails(2, f"train: {first} --size=xl; "
                   "for example 'lockstep train lm --size=xl'\n",
                   "train", "--size=xl")
        self.fails(2, f"train: {first} --bogus\n",
                   "train", "--bogus", "3")
        self.fails(2, "bench: name a sub-command ('lockstep bench --help' lists "
                   "them) before the flag -n; for example 'lockstep bench all-reduce -n 2'\n",
                   "bench", "-n", "2")

    def test_unknown_flags_of_commands(self):
        self.fails(2, "info: unknown flag --jsn; did you mean --json?", "info",
                   "--jsn")
        self.fails(2, "train lm: unknown flag -v; progress is shown by "
                   "default; --quiet hides it", "train", "lm", "-v")

    def test_full_disk(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            done = subprocess.run([LOCKSTEP, "info"], stdout=full,
                                  stderr=subprocess.PIPE, check=False,
                                  universal_newlines=True, env=environment())
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr,
                         "lockstep: cannot write to standard output\n")

    def test_closed_streams(self):
        """Files that it opens must not become its output."""
        done = subprocess.run(
            f"{LOCKSTEP} run -n 2 -- sh -c 'echo $RANK' 0<&- 2>&-",
            shell=True, stdout=subprocess.PIPE, check=False,
            universal_newlines=True, env=environment())
        self.assertEqual((done.returncode, sorted(done.stdout)),
                         (0, ["\n", "\n", "0", "1"]))


class Info(ProgramTest):
    def test_json(self):
        document = json.loads(self.succeeds("info", "--json"))
        self.assertEqual(document["command"][1:], ["info", "--json"])
        info, = document["rows"]
        for name, value in document["machine"].items():
            self.assertEqual(info[name], value)
        cpus = len(os.sched_getaffinity(0))
        self.assertTrue(1 <= info["cpus"] <= cpus)
        self.assertEqual(info["page_bytes"], os.sysconf("SC_PAGESIZE"))
        self.assertEqual(
            info["memory_bytes"],
            os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE"))
        self.assertIn(info["isa"], ("ref", "avx2", "avx512", "avx512_bf16", "amx"))

    def test_text_has_the_same(self):
        info, = json.loads(self.succeeds("info", "--json"))["rows"]
        lines = self.succeeds("info").splitlines()
        self.assertEqual([line.split()[0] for line in lines], list(info))

    def test_lower_level(self):
        out = self.succeeds("info", "--json",
                            env=environment(LOCKSTEP_ISA="ref"))
        self.assertEqual(json.loads(out)["rows"][0]["isa"], "ref")
        self.fails(1, "sse9", "info",
                   env=environment(LOCKSTEP_ISA="sse9"))


if __name__ == "__main__":
    unittest.main()
