"""The records of --trace of training and benchmarks, and the reports made of them."""

import collections
import json
import os
import resource
import shutil
import signal
import statistics
import subprocess
import tempfile
import unittest

from program import LOCKSTEP, ProgramTest, environment

LM = ("train", "lm", "--threads", "1", "--layers", "2", "--d-model", "64",
      "--heads", "2", "--d-ff", "128", "--context", "32", "--batch-size", "4",
      "--validate-every", "0", "-q")

# The clock has nanoseconds, the file three digits behind microseconds.
ROUNDING = 0.002


class TraceTest(ProgramTest):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="a[1]")
        self.addCleanup(shutil.rmtree, self.folder)

    def merged(self, *more, warns=False):
        out = os.path.join(self.folder, "all.json")
        done = self.call("trace", "merge", self.folder, "--out", out, *more)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("spans of", done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1 + warns, done.stderr)
        with open(out, encoding="utf-8") as file:
            return json.load(file)["traceEvents"]


def named(events, name, phase="X"):
    return [e for e in events if e["ph"] == phase and e["name"] == name]


def seconds(events):
    return sum(e["dur"] for e in events) * 1e-6


def covered(events, step):
    """Microseconds of a slice that lie in others of its row."""
    end = step["ts"] + step["dur"] + ROUNDING
    at, total = step["ts"], 0.0
    slices = [e for e in events if e["ph"] == "X" and e is not step
              and e["tid"] == step["tid"] and e["ts"] + e["dur"] <= end]
    for e in sorted(slices, key=lambda e: (e["ts"], -e["dur"])):
        if e["ts"] >= at - ROUNDING:
            total += e["dur"]
            at = e["ts"] + e["dur"]
    return total


def rows(events):
    by_row = collections.defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            by_row[event["pid"], event["tid"]].append(event)
    return by_row.values()


class Timeline(TraceTest):
    def check_rows(self, events):
        """On each row time goes on, and slices lie in each other or apart."""
        for row in rows(events):
            last, within = 0.0, []
            for e in row:
                self.assertGreaterEqual(e["ts"], last)
                last = e["ts"]
                while within and within[-1] <= e["ts"] + ROUNDING:
                    within.pop()
                end = e["ts"] + e["dur"]
                if within:
                    self.assertLessEqual(end, within[-1] + ROUNDING, e)
                within.append(end)

    def check_flows(self, events, ranks):
        """Each goes from one rank to all others, and never back in time."""
        slices = {(e["pid"], e["tid"], e["ts"]) for e in events
                  if e["ph"] == "X"}
        flows = collections.defaultdict(list)
        for e in events:
            if e["ph"] in "stf":
                flows[e["id"]].append(e)
                self.assertIn((e["pid"], e["tid"], e["ts"]), slices)
        self.assertGreater(len(flows), 0)
        for flow in flows.values():
            self.assertEqual("".join(e["ph"] for e in flow),
                             "s" + "t" * (ranks - 2) + "f")
            self.assertEqual({e["pid"] for e in flow}, set(range(ranks)))
            times = [e["ts"] for e in flow]
            self.assertEqual(times, sorted(times))

    def check_async(self, events):
        open_, seen = {}, 0
        for e in events:
            if e["ph"] == "b":
                self.assertNotIn(e["id"], open_)
                open_[e["id"]] = e["ts"]
            elif e["ph"] == "e":
                self.assertGreaterEqual(e["ts"], open_.pop(e["id"]))
                seen += 1
        self.assertEqual(open_, {})
        self.assertGreater(seen, 0)

    def test_two_ranks(self):
        self.succeeds(*LM, "--steps", "6", "-n", "2", "--trace", self.folder)
        events = self.merged()
        self.check_rows(events)
        self.check_flows(events, 2)
        self.check_async(events)
        for rank in (0, 1):
            own = [e for e in events if e["pid"] == rank]
            steps = named(own, "step")
            self.assertEqual([e["args"]["step"] for e in steps],
                             list(range(1, 7)))
            # The parts of a step add up to nearly all of it, on any machine:
            # the time that ranks wait for each other is a separate part. A
            # rank may lose its processor between two parts of some step.
            shares = [covered(own, step) / step["dur"] for step in steps]
            self.assertLessEqual(max(shares), 1 + ROUNDING)
            self.assertGreaterEqual(statistics.median(shares), 0.75)
            for name in ("linear", "linear backward", "gemm_f32",
                         "step_adamw", "wait for ranks"):
                self.assertTrue(named(own, name), name)
            gemm = named(own, "gemm_f32")[0]["args"]
            self.assertGreater(gemm["operations"], 0)
            self.assertGreater(gemm["bytes"], 0)
            memory = named(own, "memory in use", "C")
            self.assertGreater(memory[-1]["args"]["parameters"], 0)
            self.assertIn("activations", memory[-1]["args"])

    def two_clocks(self):
        """Seconds of each part of a step, by the trace and by the bench."""
        rows_ = os.path.join(self.folder, "rows.json")
        done = self.call("bench", "lm", "--size", "tiny", "--warmup", "1",
                         "--context", "64", "--iterations", "4", "--threads",
                         "1", "--trace", self.folder, "--json=" + rows_)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(rows_, encoding="utf-8") as file:
            row = json.load(file)["rows"][0]
        events = self.merged()
        self.check_rows(events)
        outside = named(events, "warm-up")[0]
        after = outside["ts"] + outside["dur"]
        events = [e for e in events if e["ph"] == "X" and e["ts"] >= after]
        clocks = []
        for name, column in (("forward", "forward_ms"),
                             ("backward", "backward_ms"),
                             ("optimizer", "optimizer_ms"),
                             ("step", "step_ms")):
            found = named(events, name)
            self.assertEqual(len(found), 4)
            clocks.append((seconds(found) / 4, row[column]["mean"] * 1e-3))
        return clocks

    def test_totals_agree_with_the_wall_clock(self):
        """Within 2%, and 50 us between the two looks at the clock.

        A process that loses its CPU between them is asked again.
        """
        seen = []
        for _ in range(5):
            seen.append(self.two_clocks())
            if all(abs(trace - bench) <= 0.02 * trace + 50e-6
                   for trace, bench in seen[-1]):
                return
        self.fail(f"seconds by the trace and by the bench: {seen}")

    def test_a_killed_rank_leaves_what_it_had(self):
        words = [LOCKSTEP, *LM, "--steps", "1000000", "--trace", self.folder]
        path = os.path.join(self.folder, "rank-0.lstrace")
        with subprocess.Popen(words, env=environment(),
                              stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as process:
            try:
                while process.poll() is None and (
                        not os.path.exists(path) or
                        os.path.getsize(path) < 100000):
                    try:
                        process.wait(0.05)
                    except subprocess.TimeoutExpired:
                        pass
            finally:
                process.kill()
        events = self.merged(warns=True)
        self.check_rows(events)
        self.assertTrue(named(events, "step"))

    def test_a_timeline_that_cannot_be_written(self):
        """The status says so, and a file of before stays what it was."""
        self.succeeds("bench", "barrier", "--iterations", "50", "--trace",
                      self.folder)
        self.merged()
        with open("/dev/full", "wb") as full:
            done = subprocess.run(
                [LOCKSTEP, "trace", "merge", self.folder, "-o", "-"],
                env=environment(), stdout=full, stderr=subprocess.PIPE,
                check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(b"cannot write the timeline: No space left",
                      done.stderr)
        out = os.path.join(self.folder, "all.json")
        with open(out, "rb") as file:
            before = file.read()

        def limit_files():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        done = subprocess.run(
            [LOCKSTEP, "trace", "merge", self.folder, "-o", out],
            env=environment(), stderr=subprocess.PIPE, check=False,
            preexec_fn=limit_files)
        self.assertEqual(done.returncode, 1, done.stderr)
        with open(out, "rb") as file:
            self.assertEqual(file.read(), before)
        self.assertEqual(sorted(os.listdir(self.folder)),
                         ["all.json", "rank-0.lstrace", "rank-1.lstrace"])

    def test_only_some_steps(self):
        self.succeeds(*LM, "--steps", "6", "-n", "2", "--trace", self.folder,
                      "--trace-steps", "3:2")
        events = self.merged()
        self.check_rows(events)
        for rank in (0, 1):
            own = [e for e in events if e["pid"] == rank]
            self.assertEqual([e["args"]["step"] for e in named(own, "step")],
                             [3, 4])
            self.assertEqual(len(named(own, "forward")), 2)
            self.assertEqual(len(named(own, "optimizer")), 2)

    def test_only_some_steps_by_the_variable(self):
        done = self.call("bench", "lm", "--size", "tiny", "--warmup", "1",
                         "--context", "32", "--iterations", "4", "--threads",
                         "1", env=environment(LOCKSTEP_TRACE=self.folder,
                                              LOCKSTEP_TRACE_STEPS="2:2"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([e["args"]["step"]
                          for e in named(self.merged(), "step")], [2, 3])

    def test_the_oldest_make_room(self):
        """Of three million spans in 9 MB, with 4 MiB for each rank."""
        done = self.call("bench", "barrier", "--iterations", "100000",
                         "--trace", self.folder,
                         env=environment(LOCKSTEP_TRACE_LIMIT="4m"))
        self.assertEqual(done.returncode, 0, done.stderr)
        files = sorted(os.listdir(self.folder))
        self.assertGreater(len(files), 4)
        self.assertNotIn("rank-0.lstrace", files)
        for rank in "01":
            self.assertLessEqual(
                sum(os.path.getsize(os.path.join(self.folder, name))
                    for name in files if name.startswith(f"rank-{rank}.")),
                4 << 20)
        out = os.path.join(self.folder, "all.json")
        done = self.call("trace", "merge", self.folder, "-o", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        for rank in "01":
            self.assertRegex(done.stderr, f"the trace of rank {rank} .*lacks "
                             "[0-9]+ spans: the oldest parts were deleted")
        self.assertIn("of 2 processes", done.stderr)
        self.assertNotIn("is missing", done.stderr)
        between = [name for name in files if name.startswith("rank-1.")][1]
        os.remove(os.path.join(self.folder, between))
        done = self.call("trace", "merge", self.folder, "-o", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, "the trace of rank 1 .*lacks [0-9]+ "
                         "spans: one of its files is missing or cut off")

    def test_memory_does_not_grow_with_the_trace(self):
        """360,000 spans of 48 bytes, and JSON of 60 MB, in 24 MiB."""
        self.succeeds("bench", "barrier", "--iterations", "30000", "--trace",
                      self.folder)
        out = os.path.join(self.folder, "all.json")

        def limit_memory():
            resource.setrlimit(resource.RLIMIT_DATA, (24 << 20, 24 << 20))
        done = subprocess.run(
            [LOCKSTEP, "trace", "merge", self.folder, "-o", out],
            env=environment(), stderr=subprocess.PIPE, check=False,
            preexec_fn=limit_memory)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(out, "rb") as file:
            file.seek(-4, os.SEEK_END)
            self.assertEqual(file.read(), b"]}}\n")

    def test_several_numbers_of_ranks(self):
        done = self.call("bench", "all-reduce", "-n", "1,2", "--sizes", "1k",
                         "--iterations", "3", "--warmup", "0", "--trace",
                         self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(os.listdir(self.folder)),
                         ["1-ranks", "2-ranks"])
        self.assertEqual(
            sorted(os.listdir(os.path.join(self.folder, "2-ranks"))),
            ["rank-0.lstrace", "rank-1.lstrace"])

    def test_any_program_under_run(self):
        """By the variable, and with ranks that record nothing else."""
        self.call("run", "-n", "3", "--", LOCKSTEP, "bench", "barrier",
                  "--iterations", "5",
                  env=environment(LOCKSTEP_TRACE=self.folder))
        events = self.merged()
        self.check_flows(events, 3)


class Attempts(TraceTest):
    """Ranks that are started again leave what they recorded before."""

    # The first two attempts fail; each has one barrier more.
    PROGRAM = ('"$0" bench barrier --warmup 0 --iterations '
               '$((5 + LOCKSTEP_RESTART)) && test "$LOCKSTEP_RESTART" = 2')

    def barriers(self, *words):
        out = os.path.join(self.folder, "all.json")
        done = self.call("trace", "merge", self.folder, "--out", out, *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(out, encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        ids = {e["args"]["sequence"] for e in events
               if e["ph"] == "X" and e["name"].startswith("barrier")}
        return len(ids), done.stderr

    def check_traces(self):
        first, _ = self.barriers("--attempt", "0")
        second, _ = self.barriers("--attempt", "1")
        newest, told = self.barriers()
        self.assertGreaterEqual(first, 5)
        self.assertGreater(second, first)
        self.assertEqual(newest - second, second - first)
        self.assertIn("attempt 2; the newest is attempt 2", told)
        self.fails(1, "of attempt 7; it contains records of these attempts: 0, 1, 2",
                   "trace", "merge", self.folder, "--attempt", "7")
        self.assertEqual(self.call("trace", "merge", self.folder).returncode, 0)
        self.assertEqual(
            sorted(os.listdir(os.path.join(self.folder, "attempt-2"))),
            ["rank-0.lsmem", "rank-0.lstrace", "rank-1.lsmem",
             "rank-1.lstrace", "timeline.json"])

    def check_recordings(self):
        for words in ((), ("--attempt", "0"), ("--attempt", "1")):
            done = self.call("memory", self.folder, "--json", *words)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual([row["rank"]
                              for row in json.loads(done.stdout)["rows"]],
                             [0, 1])
        self.fails(1, "no records (*.lsmem) of attempt 3", "memory",
                   self.folder, "--attempt", "3")

    def test_each_has_its_own(self):
        done = self.call("run", "-n", "2", "--max-restarts", "2", "--", "sh",
                         "-c", self.PROGRAM, LOCKSTEP,
                         env=environment(LOCKSTEP_TRACE=self.folder,
                                         LOCKSTEP_MEMORY=self.folder))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.check_traces()
        self.check_recordings()


class Refused(TraceTest):
    def test_what_is_no_folder_of_traces(self):
        self.fails(1, "contains no traces", "trace", "merge", self.folder)
        out = os.path.join(self.folder, "x")
        self.fails(1, "the folder '/nonexistent': No such file", "trace", "merge",
                   "/nonexistent", "--out", out)
        self.fails(1, "is not a folder", "trace", "merge", __file__, "--out", out)
        self.fails(1, "is not a folder", "trace", "merge", __file__)
        self.fails(2, "give one folder", "trace", "merge")

    def test_foreign_files(self):
        path = os.path.join(self.folder, "a.lstrace")
        for data, message in ((b"", "is not a trace or a recording"),
                              (b"{}", "is not a trace or a recording"),
                              (b"LSTRACE1", "was written by an older version of Lockstep"),
                              (b"LSTRACE2", "it ends within its header"),
                              (b"LSTRACE2Q\0\0\0\0", "not a valid trace")):
            with open(path, "wb") as file:
                file.write(data)
            self.fails(1, message, "trace", "merge", self.folder)

    def test_steps_and_sizes(self):
        for steps in ("5", "0:1", "1:0", "a:b"):
            self.fails(2, f"--trace-steps '{steps}' is not FIRST:COUNT", *LM,
                       "--trace", self.folder, "--trace-steps", steps)
        self.fails(2, "--trace-steps 'x' is not FIRST:COUNT", "bench", "lm",
                   "--trace-steps", "x")
        done = self.call(*LM, "--steps", "1", "--trace", self.folder,
                         env=environment(LOCKSTEP_TRACE_LIMIT="1k"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("LOCKSTEP_TRACE_LIMIT '1k' is not a size of 4m or more",
                      done.stderr)
        self.assertEqual(os.listdir(self.folder), [])

    def test_two_runs(self):
        for steps, n in (("1", "2"), ("1", "1")):
            self.succeeds(*LM, "--steps", steps, "-n", n, "--trace",
                          self.folder)
        self.fails(1, "traces of two jobs", "trace", "merge", self.folder)

    def test_a_folder_that_cannot_be_written(self):
        done = self.call(*LM, "--steps", "1", "--trace", "/dev/null/x")
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot write traces to the folder '/dev/null/x'",
                      done.stderr)


if __name__ == "__main__":
    unittest.main()
