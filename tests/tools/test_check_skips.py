"""tools/check_skips.py: skips fail unless the list expects them on this machine."""

import os
import unittest
import unittest.mock

from gate import GateTest

PASSED = '<testcase name="{}" status="run"><system-out>{}</system-out></testcase>'
SKIPPED = ('<testcase name="{}" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/>'
           '<system-out>{}</system-out></testcase>')
LACKS = "LOCKSTEP_ISA is 'amx', but this processor does not have that instruction level"


class Skips(GateTest):
    gate = "check_skips.py"

    def setUp(self):
        super().setUp()
        self.write("cpuinfo", "model name\t: one\nflags\t\t: fpu avx2 avx512f\n")
        self.more = []

    def arguments(self):
        return ["--list", self.path("list"), "--cpuinfo", self.path("cpuinfo"),
                *self.more, self.path("junit.xml")]

    def given(self, rows, *tests):
        self.write("list", "# a comment\n\n" + "\n".join(rows) + "\n")
        self.write("junit.xml", f"<testsuite>{''.join(tests)}</testsuite>")

    def test_nothing_skipped(self):
        self.given([], PASSED.format("one", "fine"))
        self.assertIn("1 tests, 0 skips", self.passes())

    def test_unexpected(self):
        self.given([], SKIPPED.format("python_sdist", "no wheel here"))
        self.fails("1 of these not expected", "no wheel here: python_sdist")

    def test_expected(self):
        self.given(["python_* | any | no wheel"],
                   SKIPPED.format("python_sdist", "no wheel here"))
        self.assertIn("no wheel: python_sdist", self.passes())

    def test_another_reason(self):
        self.given(["python_* | any | no wheel"],
                   SKIPPED.format("python_sdist", "no setuptools here"))
        self.fails("no setuptools here: python_sdist")

    def test_processor(self):
        """Where the processor has the instructions, their tests must run."""
        row = "*_{} | cpu {} | this processor does not have that"
        self.given([row.format("amx", "amx_bf16")], SKIPPED.format("gemm_amx", LACKS))
        said = self.passes()
        self.assertIn("processor of this machine lacks instructions", said)
        self.assertIn("no amx_bf16: gemm_amx", said)
        self.given([row.format("avx2", "avx2")], SKIPPED.format("gemm_avx2", LACKS))
        self.fails("gemm_avx2")

    def test_root(self):
        self.given(["hosts_* | no root | "], SKIPPED.format("hosts_run", "no root"))
        if os.geteuid() == 0:
            self.fails("hosts_run")
        else:
            self.assertIn("no root: hosts_run", self.passes())

    def test_namespaces(self):
        for status, expected in ((1, True), (0, False)):
            self.write("bin/unshare", f"#!/bin/sh\nexit {status}\n")
            os.chmod(self.path("bin/unshare"), 0o755)
            path = self.path("bin") + ":" + os.environ["PATH"]
            for kind in ("no namespaces", "no user namespaces"):
                self.given([f"sandbox | {kind} | no mounts"],
                           SKIPPED.format("sandbox", "no mounts here"))
                with unittest.mock.patch.dict(os.environ, PATH=path):
                    if expected:
                        self.assertIn(f"{kind}: sandbox", self.passes())
                    else:
                        self.fails("no mounts here: sandbox")

    def test_control_groups(self):
        """The row counts on machines where no folder of control groups is."""
        self.given(["quota | no control groups | no group"],
                   SKIPPED.format("quota", "no group here"))
        self.more = ["--cgroups", self.path("nonesuch")]
        self.assertIn("no control groups: quota", self.passes())

    def test_module(self):
        """A missing module is a reason, but not under `./dev test all`."""
        self.given(["bridge | no module no_such_module | "],
                   SKIPPED.format("bridge", "not tested"))
        self.passes()
        self.more = ["--all"]
        self.fails("bridge")

    def test_cases_of_cmocka(self):
        out = ("[ RUN      ] first\n[  SKIPPED ] first\n"
               "[  SKIPPED ] 1 test(s), listed below:\n[  SKIPPED ] first\n")
        self.given([], PASSED.format("comm", out))
        self.fails("1 skips", "comm/first")
        self.given(["comm/first | any |"], PASSED.format("comm", out))
        self.passes()

    def test_cases_of_unittest(self):
        self.given([], PASSED.format("cli", "Ran 3 tests\n\nOK (skipped=1)\n"))
        self.fails("OK (skipped=1): cli")
        self.given(["cli | any | skipped=1"],
                   PASSED.format("cli", "Ran 3 tests\n\nOK (skipped=2)\n"))
        self.fails("OK (skipped=2): cli")

    def test_damaged_list(self):
        for row in ("python_sdist", "python_sdist | no wheel", "x | moon | y"):
            self.given([row], PASSED.format("one", ""))
            self.fails(f"list:3: '{row}' should be")


if __name__ == "__main__":
    unittest.main()
