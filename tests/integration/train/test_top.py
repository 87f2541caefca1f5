"""The output of `lockstep top` for running jobs."""

import json
import os
import statistics
import subprocess
import tempfile
import time
import unittest

from program import LOCKSTEP, ProgramTest, environment, wait_until

SLOW_RANK = os.environ["TEST_SLOW_RANK"]
HANG = os.environ["TEST_HANG"]
LOOKS = 20
IN_CALL = "in #505 all_reduce of 256 f32 (sum), waiting for rank 1"


class Top(ProgramTest):
    def begin(self, *words):
        env = environment(OMP_NUM_THREADS=1)
        process = subprocess.Popen(words, env=env, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)

        def end():
            process.terminate()
            process.wait(60)
        self.addCleanup(end)
        return process

    def looks(self, job, *flags):
        done = self.call("top", str(job), "--json", *flags)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return [json.loads(line) for line in done.stdout.splitlines()]

    def has_stepped(self, job):
        done = self.call("top", str(job), "--json", "--count", "1")
        return done.returncode == 0 and all(
            row.get("step", 0) > 1 for look in done.stdout.splitlines()
            for row in json.loads(look)["ranks"]) and done.stdout != ""

    def test_a_slow_rank_is_named(self):
        """200 ms in one rank's backward, in 19 of 20 steps; on a busy machine,
        which slows others as well, it needs more to be the slowest."""
        self.with_more_time(lambda factor: self.slow_rank(200 * factor), (1, 4))

    def slow_rank(self, ms):
        job = self.begin(LOCKSTEP, "run", "-n", "3", "--", SLOW_RANK, "10000",
                         "1", str(ms))
        self.assertTrue(wait_until(lambda: self.has_stepped(job.pid)))
        with tempfile.NamedTemporaryFile("r") as file:
            done = self.call("top", str(job.pid), "--count", "1",
                             "--json=" + file.name)
            self.assertIn("| Rank |", " ".join(done.stdout.split()))
            self.assertEqual(len(json.loads(file.read())["ranks"]), 3)
        looks = self.looks(job.pid, "--interval", str(0.0015 * ms), "--count",
                           str(LOOKS + 4))
        judged = [look["slowest"] for look in looks if look["slowest"]]
        self.assertGreaterEqual(len(judged), LOOKS)
        judged = judged[-LOOKS:]
        named = [s for s in judged
                 if (s["rank"], s["phase"]) == (1, "backward")]
        self.assertGreaterEqual(len(named), LOOKS - 1, judged)
        # A busy machine may add to any one of them. The numbers of top are up to one
        # refresh old.
        took = sorted(slowest["phase_ms"] for slowest in named)
        self.assertGreaterEqual(took[0], 0.75 * ms)
        self.assertLess(took[len(took) // 2], 2 * ms)
        self.assertEqual([row["rank"] for row in looks[-1]["ranks"]], [0, 1, 2])
        waiting = [statistics.median(look["ranks"][rank]["waiting"]
                                     for look in looks[-LOOKS:])
                   for rank in range(3)]
        self.assertGreater(waiting[0], 50)
        self.assertLess(waiting[1], 50)
        for row in looks[-1]["ranks"]:
            self.assertGreater(row["step"], 1)
            self.assertGreater(row["samples_per_second"], 0)
            self.assertGreater(row["memory_mb"], 0)
            self.assertGreaterEqual(row["peak_mb"], row["memory_mb"])
        text = self.call("top", str(job.pid), "--count", "3", "--interval",
                         str(0.0025 * ms)).stdout
        self.assertIn("Its phase backward took", text)
        of_a_rank, = self.looks(looks[-1]["ranks"][1]["pid"], "--count", "1")
        self.assertEqual([row["rank"] for row in of_a_rank["ranks"]], [0, 1, 2])

    def test_a_rank_that_nobody_has_launched(self):
        job = self.begin(SLOW_RANK, "100000", "0", "5")
        self.assertTrue(wait_until(lambda: self.has_stepped(job.pid)))
        first, *_, last = self.looks(job.pid, "--count", "4", "--interval",
                                     "0.2")
        self.assertEqual([row["rank"] for row in last["ranks"]], [0])
        self.assertIsNone(last["slowest"])
        self.assertGreater(last["ranks"][0]["step"], first["ranks"][0]["step"])

    def test_it_ends_with_the_job(self):
        def play(factor):
            job = self.begin(SLOW_RANK, str(400 * factor), "0", "5")
            self.assertTrue(wait_until(lambda: self.has_stepped(job.pid) or
                                       job.poll() is not None))
            top = self.begin(LOCKSTEP, "top", str(job.pid), "--interval", "0.1")
            job.wait(100)
            self.assertEqual(top.wait(60), 0)
        self.with_more_time(play)

    def waits(self, job, rank):
        """The row of a rank once it shows a wait."""
        def found():
            done = self.call("top", str(job), "--json", "--count", "1")
            lines = done.stdout.splitlines()
            self.row = next((row for line in lines
                             for row in json.loads(line)["ranks"]
                             if row["rank"] == rank and "awaits" in row), None)
            return self.row is not None
        self.assertTrue(wait_until(found))
        return self.row

    def test_a_program_without_steps_shows_what_it_waits_for(self):
        """A C program whose rank 1 does not come to the 501st all-reduce."""
        job = self.begin(LOCKSTEP, "run", "-n", "3", "--", HANG, "compute")
        first = self.waits(job.pid, 0)
        self.waits(job.pid, 2)
        self.assertEqual(first["phase"], IN_CALL)
        self.assertEqual(first["awaits"], 1)
        *_, last = self.looks(job.pid, "--count", "2", "--interval", "0.3")
        self.assertEqual(
            [(row.get("phase"), row.get("awaits"), row.get("waiting"))
             for row in last["ranks"]],
            [(IN_CALL, 1, 100), ("no step reported yet", None, None),
             (IN_CALL, 1, 100)])
        grown = last["ranks"][0]["seconds"] - first["seconds"]
        self.assertGreater(grown, 0.25)
        text = self.call("top", str(job.pid), "--count", "1").stdout
        self.assertEqual(text.count(IN_CALL), 2, text)

    def test_so_does_one_that_nobody_has_launched(self):
        env = {"WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2,
               "LOCKSTEP_JOB": f"top-{os.getpid()}"}
        jobs = [self.begin("env", *(f"{name}={value}" for name, value in
                                    {**env, "RANK": r, "LOCAL_RANK": r}.items()),
                           HANG, "compute") for r in range(2)]
        self.assertEqual(self.waits(jobs[0].pid, 0)["phase"], IN_CALL)

    def test_what_cannot_be_looked_at(self):
        self.fails(1, "has the id or the PID '4194305'", "top", "4194305")
        done = self.fails(1, "has not taken an optimizer step", "top",
                          str(os.getpid()))
        self.assertIn(f"has the id or the PID '{os.getpid()}'", done.stderr)
        self.fails(1, "equals 'no such job' or begins with it", "top", "no "
                                                                       "such "
                                                                       "job")
        self.fails(2, "top: give one job", "top")

    def test_no_job_is_disturbed(self):
        """A rank that is looked at goes on, and nothing is left of it."""
        job = self.begin(SLOW_RANK, "300", "0", "1")
        while job.poll() is None:
            self.call("top", str(job.pid), "--count", "1")
            time.sleep(0.01)
        self.assertEqual(job.returncode, 0)


if __name__ == "__main__":
    unittest.main()
