"""lockstep run: what is shown of many ranks, and what is in files."""

import os
import re
import socket
import subprocess
import tempfile
import unittest

from program import ProgramTest, wait_until

HOST = socket.gethostname()


def shell(script):
    return ("--", "sh", "-c", script)


class Console(ProgramTest):
    def rank0(self, ranks, script, *flags, status=0):
        done = self.call("run", "-n", str(ranks), "--console", "rank0",
                         *flags, *shell(script))
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout, done.stderr

    def test_rank_0_is_whole(self):
        for ranks in (1, 2, 5):
            out, errors = self.rank0(
                ranks, "echo out $RANK; echo second; printf 'no end'")
            self.assertEqual(out, "out 0\nsecond\nno end")
            self.assertEqual(errors, "")

    def test_errors_of_the_others_are_folded(self):
        for ranks, count in ((2, ""), (3, " (x2 ranks)"), (5, " (x4 ranks)")):
            _, errors = self.rank0(ranks, "echo same >&2; echo hidden")
            self.assertEqual(
                sorted(re.sub(r":\d+:", ":R:", errors).splitlines()),
                sorted(["same", f"{HOST}:R: same{count}"]))

    def test_errors_that_differ_are_not(self):
        _, errors = self.rank0(3, "echo rank $RANK >&2")
        self.assertEqual(sorted(errors.splitlines()), sorted(
            ["rank 0", f"{HOST}:1: rank 1", f"{HOST}:2: rank 2"]))

    def test_no_more_than_200_a_second(self):
        _, errors = self.rank0(
            2, "[ $RANK = 0 ] || seq 100000 >&2")
        lines = errors.splitlines()
        self.assertLess(len(lines), 3000)
        left_out = sum(int(n) for n in re.findall(
            r"lockstep: (\d+) lines? not shown \(limit: 200 lines per "
            r"second\); --log-dir DIR would keep all lines", errors))
        shown = sum(line.startswith(HOST) for line in lines)
        self.assertEqual(left_out + shown, 100000)

    def test_lines_of_rank_0_that_have_only_begun(self):
        process = self.start("run", "--console", "rank0", *shell(
            "printf begun >&2; sleep 300 & wait"))
        self.assertTrue(wait_until(
            lambda: self.errors_of(process).endswith("begun")))
        process.terminate()
        self.assertEqual(self.ended(process)[0], 143)

    @staticmethod
    def errors_of(process):
        with open(f"/proc/self/fd/{process.errors.fileno()}",
                  encoding="utf-8") as file:
            return file.read()

    def test_it_does_not_slow_the_others(self):
        """Nobody reads; all but rank 0 write more than any buffer has."""
        reading, writing = os.pipe()
        with tempfile.TemporaryDirectory() as folder:
            process = self.start(
                "run", "-n", "3", "--console", "rank0", "--log-dir", folder,
                "--rdzv-id", "x", *shell(
                    "[ $RANK = 0 ] || { seq 200000 >&2; touch "
                    f"{folder}/$RANK; }}"), err=writing)
            os.close(writing)
            self.assertTrue(wait_until(lambda: all(
                os.path.exists(f"{folder}/{r}") for r in (1, 2))))
            os.close(reading)
            self.assertEqual(process.wait(100), 0)

    def test_what_excludes_it(self):
        for flags in (["--tag-output"], ["-r", "3"], ["-t", "3"],
                      ["--local-ranks-filter", "0"]):
            self.fails(2, "--console rank0 already sets the output", "run",
                       "--console", "rank0", "--log-dir", "x", *flags, "true")
        self.fails(2, "all", "run", "--console", "rank1", "true")


class Files(ProgramTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def log(self, rank, name, older=0):
        path = os.path.join(self.folder, "x", "0", str(rank), name + ".log")
        parts = [f"{path}.{i}" for i in range(1, older + 1)] + [path]
        text = b""
        for part in parts:
            with open(part, "rb") as file:
                text += file.read()
        return text

    def run_ranks(self, ranks, script, *flags):
        process = self.start("run", "-n", str(ranks), "--log-dir", self.folder,
                             "--rdzv-id", "x", *flags, *shell(script),
                             out=subprocess.DEVNULL)
        self.assertEqual(process.wait(100), 0)

    def test_nothing_is_lost(self):
        script = ("seq 100000; seq 50000 >&2; head -c 1000000 /dev/zero; "
                  "printf '\\377\\n\\001end'")
        expected = "".join(f"{i}\n" for i in range(1, 100001)).encode()
        errors = "".join(f"{i}\n" for i in range(1, 50001)).encode()
        for flags in (("-r", "3"), ("--console", "rank0")):
            for ranks in (1, 2, 5):
                with tempfile.TemporaryDirectory() as self.folder:
                    self.run_ranks(ranks, script, *flags)
                    for rank in range(ranks):
                        self.assertEqual(
                            self.log(rank, "stdout"),
                            expected + bytes(1000000) + b"\xff\n\x01end")
                        self.assertEqual(self.log(rank, "stderr"), errors)

    def older(self, rank):
        names = os.listdir(os.path.join(self.folder, "x/0", str(rank)))
        return sorted(int(n[11:]) for n in names if n.startswith("stdout.log."))

    def test_rotation_loses_nothing(self):
        self.run_ranks(2, "seq 100000; printf end", "-r", "3", "--log-size",
                       "64k")
        expected = "".join(f"{i}\n" for i in range(1, 100001)) + "end"
        for rank in range(2):
            older = self.older(rank)
            self.assertEqual(older, list(range(1, 9)))
            self.assertEqual(self.log(rank, "stdout", len(older)),
                             expected.encode())
            for i in older:
                path = os.path.join(self.folder, f"x/0/{rank}/stdout.log.{i}")
                self.assertLess(os.path.getsize(path), (64 << 10) + 7)

    def test_so_many_files_are_kept(self):
        self.run_ranks(1, "seq 100000", "-r", "3", "--log-size", "64k",
                       "--log-files", "2")
        self.assertEqual(self.older(0), [7, 8])

    def test_files_need_a_folder(self):
        self.fails(2, "give a folder for them with --log-dir", "run", "--log-size", "1m",
                   "true")


if __name__ == "__main__":
    unittest.main()
