"""lockstep tune for a whole machine: the table, and who uses it."""
import glob
import json
import os
import shutil
import signal
import stat
import subprocess
import tempfile
import unittest

from program import ProgramTest, environment


class Table(ProgramTest):
    @classmethod
    def setUpClass(cls):
        cls.cache = tempfile.mkdtemp()
        cls.environment = environment(XDG_CACHE_HOME=cls.cache,
                                      LOCKSTEP_TUNE="on")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.cache)

    def tuned(self, *words, **more):
        return self.succeeds(*words, env={**self.environment, **more})

    def path(self):
        paths = glob.glob(os.path.join(self.cache, "lockstep", "select-*.txt"))
        self.assertEqual(len(paths), 1)
        return paths[0]

    def shown(self, **more):
        rows = json.loads(self.tuned("info", "--json", **more))["rows"]
        return rows[0]["selection_table"]

    def algorithms(self, *flags, **more):
        rows = json.loads(self.tuned("bench", "all-reduce", "--sizes", "8",
                                     "--iterations", "1", "--json", *flags,
                                     **more))["rows"]
        return {row["algorithm"] for row in rows}

    def test_table_is_saved_and_used(self):
        self.assertIn("none; `lockstep tune` measures", self.shown())
        old = os.umask(0o002) # as where each user has a group
        try:
            done = self.call("tune", env=self.environment)
        finally:
            os.umask(old)
        self.assertEqual(done.returncode, 0, done.stderr)
        path = self.path()
        self.assertIn(path, " ".join(done.stdout.split()))
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
        self.assertTrue(lines[3].startswith("others: "))
        lines[3] = "others: 0% of 2 CPUs" # however busy this machine is
        ranks = [line.split(": ")[0] for line in lines[4:]]
        cpus = len(os.sched_getaffinity(0))
        self.assertEqual(ranks[:-1],
                         ["%d ranks" % n for n in range(2, min(cpus, 8) + 1)])
        self.assertEqual(ranks[-1], "crowded")
        for line in lines[4:-1]: # the last has more ranks than CPUs
            self.assertRegex(line, r": window:\d+k,spins:\d+,all_reduce:0-")
        for line in lines[4:]:
            for operation in ("all_reduce", "reduce", "reduce_scatter",
                              "reduce_shards", "broadcast", "all_gather",
                              "gather", "scatter", "all_to_all"):
                self.assertIn(operation + ":0-", line)
            self.assertNotIn("ring", line)
        self.check_use(path, lines)
        self.check_doubts(path, lines)

    def check_use(self, path, lines):
        """A table that chooses what the defaults never choose."""
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(lines[:4]) + "\n"
                       "2 ranks: all_reduce:0-1k:doubling\n"
                       "crowded: all_reduce:0-1k:butterfly\n")
        two = "doubling" if len(os.sched_getaffinity(0)) > 1 else "butterfly"
        many = str(len(os.sched_getaffinity(0)) + 1)
        self.assertEqual(self.algorithms("-n", "2"), {two})
        self.assertEqual(self.algorithms("-n", many), {"butterfly"})
        self.assertEqual(self.algorithms("-n", "2", LOCKSTEP_TUNE="off"), {"flat"})
        self.assertEqual(self.algorithms("-n", "2",
                                         LOCKSTEP_SELECT="all_reduce:0-8:flat"),
                         {"flat"})
        # Ranks that use other CPUs than the measured ones have no table.
        if len(os.sched_getaffinity(0)) > 1:
            done = self.tuned("run", "-n", "2", "taskset", "-c",
                              str(min(os.sched_getaffinity(0))),
                              os.environ["LOCKSTEP"], "bench", "all-reduce",
                              "--sizes", "8", "--iterations", "1", "--json")
            self.assertEqual(json.loads(done)["rows"][0]["algorithm"], "flat")

    def check_doubts(self, path, lines):
        self.assertEqual(self.shown(), path)
        self.assertEqual(self.shown(LOCKSTEP_TUNE="off"),
                         "ignored (LOCKSTEP_TUNE=off)")
        self.assertEqual(self.shown(LOCKSTEP_SELECT="spins:100"),
                         "ignored (LOCKSTEP_SELECT is set)")
        os.chmod(path, 0o620)
        self.assertIn("other users may write it (mode 620)", self.shown())
        self.assertEqual(self.algorithms("-n", "2"), {"flat"})
        os.chmod(path, 0o600)
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join([*lines[:3], "others: 83% of 6 CPUs",
                                  *lines[4:]]) + "\n")
        self.assertIn("measured while other processes used 5.0 of the 6 CPUs",
                      self.shown())
        with open(path, "a", encoding="utf-8") as file:
            file.write("2 ranks: all_reduce:0-inf:ring\n")
        self.assertIn(":%d: '2 ranks: all_reduce:0-inf:ring' names an algorithm"
                      % (len(lines) + 1), self.shown())

    def test_interrupted(self):
        """A bar says what is measured; nothing is saved if the job is stopped."""
        cache = tempfile.mkdtemp(dir=self.cache)
        process = subprocess.Popen([os.environ["LOCKSTEP"], "tune"],
                                   env={**self.environment, "XDG_CACHE_HOME": cache},
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True)
        line = process.stderr.readline() # the first progress
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=50)
        if not line: # many CPUs, whose jobs end before they show progress
            return
        self.assertRegex(line, r"tune: \d+% .*\d+ ranks, [a-z-]+")
        self.assertIn("; nothing is saved", err)
        self.assertNotEqual(process.returncode, 0)
        self.assertEqual((out, os.listdir(os.path.join(cache, "lockstep"))), ("", []))

    def test_mistakes(self):
        self.assertIn("LOCKSTEP_TUNE is 'yes'; it should be on or off",
                      self.call("bench", "barrier", "--iterations", "1",
                                env={**self.environment,
                                     "LOCKSTEP_TUNE": "yes"}).stderr)
        self.fails(1, "cannot save the selection table of this machine", "tune",
                   env=environment(XDG_CACHE_HOME="", HOME=""))
        self.fails(1, "/proc/nowhere", "tune",
                   env=environment(XDG_CACHE_HOME="/proc/nowhere"))


if __name__ == "__main__":
    unittest.main()
