"""lockstep run: backtraces of ranks that crash."""

import json
import os
import resource
import subprocess
import tempfile
import unittest

from program import ProgramTest

CRASHES = os.environ["TEST_CRASHES"]
NAMED = os.environ["TEST_NAMES"] == "ON"  # with libdw


class Backtraces(ProgramTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def crash(self, how, ranks, rank, status, *flags):
        """The lines of the backtrace, in the report and on the screen."""
        path = os.path.join(self.folder, "report.json")
        done = self.call("run", "-n", str(ranks), "--grace", "0.1", "--json=" + path, *flags, "--", CRASHES, how, str(rank),
                         env={**os.environ, "TMPDIR": self.folder})
        self.assertEqual(done.returncode, status, done.stderr)
        with open(path, encoding="utf-8") as file:
            first = json.load(file)["attempts"][0]["first_failure"]
        self.assertEqual(first["rank"], rank)
        lines = first["backtrace"]
        if lines is not None:
            self.assertIn("\n".join(lines), done.stderr)
        self.assertEqual([n for n in os.listdir(self.folder)
                          if n.startswith("lockstep-")], [])
        return lines

    def assert_names(self, lines, *names):
        """Function by function, each with the file that it is in."""
        at = 0
        for name in names:
            if NAMED:
                while at < len(lines) and f" {name}" not in lines[at]:
                    at += 1
                self.assertLess(at, len(lines), (name, lines))
                self.assertRegex(lines[at], rf"{name}\S*\+0x[0-9a-f]+ at .*"
                                 r"crashes\.c:\d+ \(/\S+crashes\+0x[0-9a-f]+\)$")
            at += 1
        self.assertTrue(any("crashes+0x" in line for line in lines), lines)

    def test_nested_functions(self):
        for ranks in (1, 2, 5):
            for how, number in (("segv", 11), ("abort", 6)):
                lines = self.crash(how, ranks, ranks - 1, 128 + number)
                self.assert_names(lines, "innermost", "middle", "outermost",
                                  "main")

    def test_division_by_zero(self):
        if os.uname().machine != "x86_64":
            self.skipTest("it does not end a program here")
        self.assert_names(self.crash("fpe", 2, 1, 136), "innermost", "middle")

    def test_a_function_that_is_not_there(self):
        lines = self.crash("null", 2, 0, 139)
        self.assertRegex(lines[0], "^#0  0x0$")
        self.assert_names(lines, "innermost")

    def test_a_full_stack(self):
        lines = self.crash("deep", 2, 1, 139)
        self.assertEqual(len(lines), 64)
        self.assert_names(lines, *["deeper"] * 60)

    def test_threads_that_crash_together(self):
        for _ in range(5):
            lines = self.crash("thread", 2, 1, 139)
            self.assertRegex(lines[0], "^in thread [0-9]+:$")
            self.assert_names(lines, "innermost", "middle", "outermost",
                              "in_thread")

    def test_a_handler_of_its_own_stays(self):
        self.assertIsNone(self.crash("handler", 2, 1, 42))

    def test_logs_have_it_of_each_rank(self):
        lines = self.crash("segv", 2, 1, 139, "--log-dir", self.folder,
                           "--rdzv-id", "x")
        names = sorted(os.listdir(os.path.join(self.folder, "x/0/1")))
        self.assertEqual(names, ["backtrace.txt", "stderr.log", "stdout.log"])
        path = os.path.join(self.folder, "x/0/1/backtrace.txt")
        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read().splitlines(), lines)

    def test_a_program_that_a_rank_started(self):
        path = os.path.join(self.folder, "report.json")
        done = self.call("run", "--json=" + path, "--", "sh", "-c",
                         f"{CRASHES} segv 0; exit 3")
        self.assertEqual(done.returncode, 3)
        self.assertRegex(done.stderr, r"\nin process \d+, which the rank had "
                                      r"started")

    def test_cores_are_as_before(self):
        """The rank dies of the signal itself, with a core where that is on."""
        before = subprocess.run(
            ["sh", "-c", f"ulimit -c unlimited; exec {CRASHES} segv 0"],
            env={**os.environ, "RANK": "0", "WORLD_SIZE": "1"},
            cwd=self.folder, check=False)
        self.assertEqual(before.returncode, -11)
        core = any("core" in n for n in os.listdir(self.folder))
        for name in os.listdir(self.folder):
            os.remove(os.path.join(self.folder, name))
        limits = resource.getrlimit(resource.RLIMIT_CORE)
        if limits[1] != resource.RLIM_INFINITY:
            self.skipTest("no cores are allowed here")
        done = self.call("run", "--", CRASHES, "segv", "0", cwd=self.folder,
                         before=("sh", "-c", 'ulimit -c unlimited; exec "$@"',
                                 "sh"))
        self.assertEqual(done.returncode, 139)
        self.assertEqual(any("core" in n for n in os.listdir(self.folder)),
                         core)


if __name__ == "__main__":
    unittest.main()
