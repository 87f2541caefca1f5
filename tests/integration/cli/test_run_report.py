"""lockstep run: the last screen, and --json."""

import json
import os
import socket
import subprocess
import tempfile
import unittest

from program import ProgramTest

HOST = socket.gethostname()


def shell(script):
    return ("--", "sh", "-c", script)


class Reports(ProgramTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def report(self, *words, status):
        """The report and what was said on the error stream."""
        path = os.path.join(self.folder, "report.json")
        done = self.call("run", "--json=" + path, *words)
        self.assertEqual(done.returncode, status, done.stderr)
        with open(path, encoding="utf-8") as file:
            report = json.load(file)
        self.assertEqual(report["exit_status"], status)
        self.assertEqual(report["format"], "lockstep run report")
        self.assertEqual(report["version"], 1)
        return report, done.stderr

    def test_success(self):
        for ranks in (1, 2, 5):
            report, errors = self.report("-n", str(ranks), "true", status=0)
            self.assertEqual(errors, "")
            self.assertEqual(report["reason"], "success")
            self.assertEqual(report["command"], ["true"])
            self.assertEqual((report["ranks"], report["max_restarts"]),
                             (ranks, 0))
            attempt, = report["attempts"]
            self.assertEqual(attempt["attempt"], 0)
            self.assertIsNone(attempt["first_failure"])
            self.assertEqual(attempt["others"], [])
            self.assertLessEqual(report["started"], report["ended"])
            self.assertRegex(report["started"],
                             r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")

    def test_exit_status_and_consequences(self):
        report, errors = self.report(
            "-n", "5", "--grace", "0.2", "--console", "rank0", *shell(
                "[ $RANK = 3 ] && { seq 25 >&2; exit 7; }; sleep 300"),
            status=7)
        first = report["attempts"][0]["first_failure"]
        self.assertEqual((first["rank"], first["host"], first["exit_status"],
                          first["signal"]), (3, HOST, 7, None))
        self.assertEqual(first["stderr"], [str(i) for i in range(6, 26)])
        self.assertEqual({(o["rank"], o["ended_by_launcher"], o["consequence"])
                          for o in report["attempts"][0]["others"]},
                         {(r, True, True) for r in (0, 1, 2, 4)})
        lines = "\n".join(str(i) for i in range(6, 26))
        self.assertIn(f"lockstep: rank 3 failed first, on {HOST}: exit status 7"
                      "\nlockstep: last lines on stderr of rank "
                      f"3:\n{lines}\nlockstep: ranks"
                      " 0-2, 4 then were ended by the launcher\n", errors)

    def test_others_that_fail_then(self):
        """They fail by themselves once the first is seen to have gone."""
        flag = os.path.join(self.folder, "flag")
        report, errors = self.report("-n", "3", *shell(
            f"[ $RANK = 1 ] && {{ echo $$ >{flag}; kill -ABRT $$; }};"
            f"until [ -s {flag} ] && ! [ -d /proc/$(cat {flag}) ];"
            "do sleep 0.01; done; sleep 0.1; exit 9"), status=134)
        self.assertIn(f"rank 1 failed first, on {HOST}: killed by signal 6 "
                      "(SIGABRT)", errors)
        self.assertIn("ranks 0, 2 then failed: exit status 9 (a consequence)\n",
                      errors)
        self.assertIn("the output of rank 1 is above, mixed with the",
                      errors)
        first = report["attempts"][0]["first_failure"]
        self.assertEqual((first["signal"], first["signal_name"]),
                         (6, "SIGABRT"))
        self.assertIsNone(first["stderr"])

    def test_one_rank_says_no_more_than_it_has_to(self):
        _, errors = self.report(*shell("exit 3"), status=3)
        self.assertEqual(len(errors.splitlines()), 1, errors)

    def test_python(self):
        script = os.path.join(self.folder, "s.py")
        with open(script, "w", encoding="ascii") as file:
            file.write("import os, sys, time\n"
                       "if os.environ['RANK'] == '0': time.sleep(300)\n"
                       "raise ValueError('bad 17')\n")
        report, errors = self.report("-n", "2", "--grace", "0.2", "--console",
                                     "rank0", script, status=1)
        self.assertIn("exit status 1: ValueError: bad 17\n", errors)
        first = report["attempts"][0]["first_failure"]
        self.assertEqual(first["message"], "ValueError: bad 17")

    def test_error_file_of_torch(self):
        script = ("[ $RANK = 0 ] && exec sleep 300;"
                  'printf %s \'{"message": {"message": "RuntimeError: \\u00e9\\nmore"'
                  ', "extraInfo": {"py_callstack": "x"}}}\''
                  " >$TORCHELASTIC_ERROR_FILE; exit 1")
        for flags in ([], ["--log-dir", self.folder]):
            report, errors = self.report("-n", "2", "--grace", "0.2", *flags,
                                         *shell(script), status=1)
            self.assertIn(": exit status 1: RuntimeError: \u00e9\n", errors)
            first = report["attempts"][0]["first_failure"]
            self.assertEqual(first["message"], "RuntimeError: \u00e9")
            self.assertEqual(first["error_file"]["message"]["extraInfo"],
                             {"py_callstack": "x"})
            self.assertEqual(first["logs"] is not None, bool(flags))

    def test_error_file_of_an_earlier_run(self):
        script = ('[ -z "$1" ] || echo \'{"message": "old"}\''
                  ' >$TORCHELASTIC_ERROR_FILE; exit 1')
        for word, message in (("now", "old"), ("", None)):
            report, _ = self.report("-n", "2", "--log-dir", self.folder,
                                    "--rdzv-id", "again", "--", "sh", "-c",
                                    script, "sh", word, status=1)
            first = report["attempts"][0]["first_failure"]
            self.assertEqual(first["message"], message)

    def test_error_files_do_not_stay(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.call("run", "-n", "2", *shell(
                "echo x >$TORCHELASTIC_ERROR_FILE; exit 1"),
                             env={**os.environ, "TMPDIR": folder})
            self.assertEqual(done.returncode, 1)
            self.assertEqual(os.listdir(folder), [])

    def test_bytes_that_are_no_text(self):
        path = os.path.join(self.folder, "report.json")
        process = self.start("run", "--json=" + path, "--console", "rank0",
                             *shell(r"printf 'a\377b\n\001' >&2; exit 1"),
                             err=subprocess.DEVNULL)
        self.assertEqual(process.wait(100), 1)
        with open(path, encoding="utf-8") as file:
            report = json.load(file)
        self.assertEqual(report["attempts"][0]["first_failure"]["stderr"],
                         ["a\ufffdb", "\x01"])

    def test_restarts(self):
        report, _ = self.report("-n", "2", "--max-restarts", "3", *shell(
            "[ $RANK = 0 ] || [ $LOCKSTEP_RESTART = 2 ] || exit 5"), status=0)
        self.assertEqual([(a["attempt"], a["exit_status"], a["reason"])
                          for a in report["attempts"]],
                         [(0, 5, "failure"), (1, 5, "failure"),
                          (2, 0, "success")])
        self.assertEqual(report["reason"], "success")

    def test_on_standard_output(self):
        for flags in ((), ("--tag-output",)):
            done = self.call("run", "-n", "2", *flags, "--json", "echo", "ran")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            lines = done.stdout.splitlines()
            self.assertEqual({line[-3:] for line in lines[:2]}, {"ran"})
            self.assertEqual(json.loads("\n".join(lines[2:]))["reason"],
                             "success")

    def test_other_ends(self):
        report, _ = self.report("--timeout", "0.1", "--grace", "0.1", "sleep",
                                "300", status=124)
        self.assertEqual(report["reason"], "timeout")
        report, _ = self.report("nonesuch-program", status=127)
        self.assertEqual(report["reason"], "could not be started")
        self.assertIsNone(report["attempts"][0]["first_failure"])

    def test_report_that_cannot_be_written(self):
        done = self.call("run", "--json=/proc/nonesuch/r.json", "echo", "ran")
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot write the report of --json: ", done.stderr)
        self.assertEqual(done.stdout, "")  # it is said before the ranks start


class OutOfMemory(ProgramTest):
    """In a control group with a limit, if this test may make one."""

    def setUp(self):
        name = f"lockstep-test-{os.getpid()}"
        for root, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
                            ("/sys/fs/cgroup", "memory.max")):
            self.group = os.path.join(root, name)
            try:
                os.mkdir(self.group)
            except OSError:
                continue
            self.addCleanup(os.rmdir, self.group)
            try:
                with open(os.path.join(self.group, limit), "w",
                          encoding="ascii") as file:
                    file.write(str(64 << 20))
                return
            except OSError:
                continue
        self.skipTest("no control group with a limit can be made here")

    def test_it_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "r.json")
            done = self.call(
                "run", "-n", "2", "--grace", "0.2", "--json=" + path, *shell(
                    "[ $RANK = 0 ] && exec sleep 300;"
                    "exec python3 -c 'x = b\"x\" * (300 << 20)'"),
                before=("sh", "-c", f'echo $$ >{self.group}/cgroup.procs &&'
                        ' exec "$@"', "sh"))
            self.assertEqual(done.returncode, 137, done.stderr)
            self.assertIn(f"rank 1 failed first, on {HOST}: killed by signal 9 "
                          "(SIGKILL), out of memory\n", done.stderr)
            with open(path, encoding="utf-8") as file:
                first = json.load(file)["attempts"][0]["first_failure"]
            self.assertTrue(first["out_of_memory"])
            self.assertGreaterEqual(first["oom_kills"], 1)


if __name__ == "__main__":
    unittest.main()
