"""lockstep demo: exact output, and ranks that die in the middle."""

import os
import re
import signal
import unittest

from program import LOCKSTEP, ProgramTest, is_running, wait_until


def sequence(ranks, iterations, two_way=False):
    up = [f"Process {r}\n" for r in range(ranks)]
    once = "".join(up + up[::-1] if two_way else up)
    return "---\n".join([once] * iterations)


class Sequential(ProgramTest):
    def test_up(self):
        for ranks in (1, 2, 3, 5, 8):
            out = self.succeeds("demo", "sequential", "-n", str(ranks))
            self.assertEqual(out, sequence(ranks, 10))

    def test_up_and_down(self):
        for ranks in (1, 2, 3, 5, 8):
            out = self.succeeds("demo", "sequential", "--two-way", "-n",
                                str(ranks), "--iterations", "3")
            self.assertEqual(out, sequence(ranks, 3, two_way=True))

    def test_it_is_the_same_every_time(self):
        for flags in ([], ["--two-way"]):
            outs = {self.succeeds("demo", "sequential", "-n", "4",
                                  "--iterations", "50", *flags)
                    for _ in range(5)}
            self.assertEqual(len(outs), 1)

    def test_nothing(self):
        self.assertEqual(
            self.succeeds("demo", "sequential", "--iterations", "0"), "")

    def test_under_another_launcher(self):
        out = self.succeeds("run", "-n", "3", LOCKSTEP, "demo", "sequential",
                            "--iterations", "2")
        self.assertEqual(out, sequence(3, 2))


class MixedPrecision(ProgramTest):
    def rows(self, *flags):
        """The cells of both tables, without titles."""
        out = self.succeeds("demo", "mixed-precision", *flags)
        tables = [part.splitlines()[2:] for part in out.split("\n\n")
                  if part.startswith("|")]
        return [[[cell.strip() for cell in line.strip("|").split("|")]
                 for line in table] for table in tables]

    def test_sums(self):
        sums, _ = self.rows()
        self.assertEqual(sums, [["f32", "f32", "10.0001"],
                                ["f16", "f16", "9.9531"],
                                ["f32", "f16", "10.0021"],
                                ["f32", "f16 made f32", "10.0021"]])

    def test_types(self):
        for half in ("f16", "bf16"):
            _, types = self.rows("--dtype", half)
            found = dict(types)
            self.assertEqual(len(found), 4 + 5 + 4)
            for name in ("fc1.weight", "ln.weight", "ln.bias", "fc2.weight"):
                self.assertEqual(found.pop(name), "f32")
                self.assertEqual(found.pop("gradient of " + name), "f32")
            self.assertEqual(found, {"output of fc1": half,
                                     "output of relu": half,
                                     "output of ln": "f32",
                                     "output of fc2 (logits)": half,
                                     "loss": "f32"})


class Hello(ProgramTest):
    def numbers(self, *flags):
        """{(rank, when): numbers}"""
        out = self.succeeds("demo", "hello", *flags)
        lines = re.findall(r"^rank (\d+) data \((before|after) all-reduce\): "
                           r"\[(\d+), (\d+), (\d+)\]$", out, re.M)
        self.assertEqual(len(lines), out.count("\n"), out)
        return {(int(rank), when): list(map(int, rest))
                for rank, when, *rest in lines}

    def check(self, found, ranks):
        self.assertEqual(len(found), 2 * ranks)
        before = [found[rank, "before"] for rank in range(ranks)]
        self.assertTrue(all(0 <= x < 10 for row in before for x in row))
        sums = [sum(column) for column in zip(*before)]
        for rank in range(ranks):
            self.assertEqual(found[rank, "after"], sums)

    def test_sums(self):
        self.check(self.numbers(), 4)
        for ranks in (1, 2, 7):
            self.check(self.numbers("-n", str(ranks)), ranks)

    def test_seed(self):
        self.assertEqual(self.numbers("--seed", "5"),
                         self.numbers("--seed", "5"))
        self.assertNotEqual(self.numbers("--seed", "5"),
                            self.numbers("--seed", "6"))


class Mistakes(ProgramTest):
    def test_number_of_ranks(self):
        self.fails(2, "out of range: 1 to 1024", "demo", "hello", "-n", "0")
        self.fails(2, "out of range: 1 to 1024", "demo", "hello", "-n", "-2")
        self.fails(2, "-n 'few' is neither a whole number nor one of auto|cpu",
                   "demo", "hello", "-n", "few")

    def test_a_rank_per_cpu(self):
        one = self.succeeds("run", "-n", "auto", "echo")
        said = self.succeeds("demo", "hello", "-n", "auto")
        self.assertEqual(said.count("\n"), 2 * len(one), said)

    def test_launcher_and_flag_disagree(self):
        done = self.call("run", "-n", "2", LOCKSTEP, "demo", "hello", "-n", "3")
        self.assertEqual(done.returncode, 2)
        self.assertIn("-n 3 differs from the 2 ranks", done.stderr)

    def test_one_error_of_many_ranks(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            process = self.start("demo", "hello", "-n", "4", out=full)
            status, _, errors = self.ended(process)
        self.assertEqual(status, 1)
        self.assertRegex(errors, r"^lockstep: demo hello: rank \d: cannot write standard "
                                 r"output: No space left on device\n$")


class Failures(ProgramTest):
    def ranks_of(self, process):
        """The pids of the ranks: grandchildren of the program."""
        def children(pid):
            found = []
            for entry in filter(str.isdigit, os.listdir("/proc")):
                try:
                    with open(f"/proc/{entry}/stat", encoding="ascii") as file:
                        if int(file.read().rpartition(")")[2].split()[1]) == pid:
                            found.append(int(entry))
                except (FileNotFoundError, ProcessLookupError):
                    pass
            return found
        return [rank for supervisor in children(process.pid)
                for rank in children(supervisor)]

    def started(self):
        process = self.start("demo", "sequential", "-n", "3", "--iterations",
                             "1000000000")
        for _ in range(8):
            process.stdout.readline()
        ranks = self.ranks_of(process)
        self.assertEqual(len(ranks), 3)
        return process, ranks

    def test_a_rank_dies(self):
        process, ranks = self.started()
        os.kill(ranks[1], signal.SIGKILL)
        status, _, errors = self.ended(process)
        self.assertEqual(status, 128 + signal.SIGKILL)
        self.assertIn(f"(pid {ranks[1]}) was killed by signal 9", errors)
        self.assertFalse(any(map(is_running, ranks)))

    def test_the_program_dies(self):
        process, ranks = self.started()
        process.kill()
        self.assertTrue(wait_until(lambda: not any(map(is_running, ranks))))


if __name__ == "__main__":
    unittest.main()
