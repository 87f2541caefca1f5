"""lockstep run where something is odd: variables, streams, disks, limits."""

import os
import subprocess
import tempfile
import unittest

from program import LOCKSTEP, ProgramTest, environment

STALE = {"RANK": 7, "WORLD_SIZE": 9, "LOCAL_RANK": 3, "LOCAL_WORLD_SIZE": 5,
         "GROUP_RANK": 2, "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": 1,
         "LOCKSTEP_JOB": "dead", "LOCKSTEP_RUN": "dead", "LOCKSTEP_RESTART": 4,
         "LOCKSTEP_RENDEZVOUS": "10.0.0.1:1", "LOCKSTEP_SECRET": "theirs",
         "LOCKSTEP_SECRET_FILE": "/nonesuch",
         "TORCHELASTIC_RUN_ID": "dead", "OMPI_COMM_WORLD_SIZE": 4}
HELLO = (LOCKSTEP, "demo", "hello")
SHOWN = sorted(["rank 0 data (before all-reduce): [8, 3, 3]",
                "rank 1 data (before all-reduce): [5, 2, 1]",
                "rank 0 data (after all-reduce): [13, 5, 4]",
                "rank 1 data (after all-reduce): [13, 5, 4]"])
# Each makes more, in a new process group.
BOMB = """
import os
while True:
    try:
        if os.fork() == 0:
            os.setpgid(0, 0)
    except OSError:
        pass
"""


class Surroundings(ProgramTest):
    def lines(self, *words, **more):
        return sorted(self.succeeds("run", *words, **more).splitlines())

    def test_variables_of_another_job(self):
        env = environment(**STALE)
        self.assertEqual(self.lines("-n", "2", *HELLO, env=env), SHOWN)
        left = self.lines("-n", "1", "env", env=env)
        for name, value in STALE.items():
            self.assertNotIn(f"{name}={value}", left)

    def test_a_launcher_in_a_launcher(self):
        found = self.lines("-n", "2", LOCKSTEP, "run", "-n", "2", *HELLO)
        self.assertEqual(found, sorted(2 * SHOWN))

    def test_many_at_once(self):
        jobs = [self.start("run", "-n", "2", *HELLO) for _ in range(50)]
        for job in jobs:
            self.assertEqual(self.ended(job), (0, SHOWN, ""))

    def shell(self, script, **more):
        return subprocess.run(["sh", "-c", script, "sh", LOCKSTEP],
                              env=environment(), timeout=30, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              universal_newlines=True, **more)

    def test_closed_streams(self):
        for closed, shown in (("<&-", SHOWN), (">&-", []), ("2>&-", SHOWN),
                              ("<&- >&- 2>&-", [])):
            for flags in ("", "--tag-output"):
                done = self.shell(f'"$1" run -n 2 {flags} "$1" demo hello '
                                  f"{closed}")
                self.assertEqual(done.returncode, 0, closed)
                self.assertEqual(done.stderr, "", closed)
                self.assertEqual(len(done.stdout.splitlines()), len(shown))
        done = self.shell('"$1" run -n 2 sh -c "exit 4" <&- >&- 2>&-')
        self.assertEqual(done.returncode, 4)

    def test_a_program_that_closes_its_streams(self):
        done = self.call("run", "-n", "2", "--tag-output", "sh", "-c",
                         "exec <&- >&- 2>&-; while [ -e /proc/self/fd/1 ]; do "
                         ":; done; exit 0")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_logs_on_a_full_disk(self):
        """The job goes on, and the console has all of it."""
        with tempfile.TemporaryDirectory() as folder:
            for rank in ("0", "1"):
                place = os.path.join(folder, "x", "0", rank)
                os.makedirs(place)
                os.symlink("/dev/full", os.path.join(place, "stdout.log"))
            done = self.call("run", "-n", "2", "--log-dir", folder,
                             "--rdzv-id", "x", "seq", "20000")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(len(done.stdout.splitlines()), 40000)
            self.assertRegex(done.stderr, r"^lockstep: output is lost: cannot "
                             r"write to the logs of rank [01]: No space left "
                             r"on device\n$")

    def test_logs_that_may_not_grow(self):
        with tempfile.TemporaryDirectory() as folder:
            # LLVM's OpenMP makes a file of 1 KiB.
            done = self.shell('ulimit -f 4; exec "$1" run -n 2 --log-dir '
                              f"{folder} seq 2000 | sort | uniq -c | wc -l")
            self.assertEqual(done.stdout.strip(), "2000")
            self.assertRegex(done.stderr, r"^lockstep: output is lost: cannot "
                             r"write to the logs of rank [01]: File too large"
                             r"\n$")

    def test_more_pipes_than_the_soft_limit(self):
        done = self.shell('ulimit -Sn 64; exec "$1" run -n 40 --tag-output '
                          "sh -c 'ulimit -Sn'")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(done.stdout.splitlines()),
                         sorted(f"[{rank}] 64" for rank in range(40)))

    def test_restarts_leave_no_descriptors(self):
        """Those of the supervisor, counted by the ranks of each attempt."""
        script = ('ls /proc/$PPID/fd | wc -l; [ $RANK != 0 ] || exit 0;'
                  'sleep 0.02; [ $LOCKSTEP_RESTART = 12 ]')
        for flags in ((), ("--tag-output",), ("--log-dir",)):
            with tempfile.TemporaryDirectory() as folder:
                more = (*flags, folder) if flags == ("--log-dir",) else flags
                out = self.call("run", "-n", "2", "--max-restarts", "12",
                                "--grace", "1", *more, "sh", "-c", script)
            self.assertEqual(out.returncode, 0, out.stderr)
            counts = [int(line.split()[-1])
                      for line in out.stdout.splitlines()]
            self.assertEqual(len(counts), 26)
            # It opens and closes some at any time.
            self.assertLess(min(counts[13:]), min(counts[:13]) + 5, counts)

    def test_too_few_descriptors_are_told(self):
        """Without an orphan guard, or a way to tell who has ended."""
        told = {"children of ranks may keep running": 0,
                "notices this only after LOCKSTEP_TIMEOUT": 0}
        for limit in (8, 14, 20):
            done = self.shell(f'ulimit -n {limit}; exec "$1" run -n 24 true')
            for what in told:
                said = what + ". Raise the limit"
                self.assertLessEqual(done.stderr.count(said), 1)
                told[what] += said in done.stderr
        self.assertTrue(all(told.values()), told)

    def limited(self, processes, *words):
        """As another user in a PID namespace, whose processes all end."""
        before = ("unshare", "--pid", "--fork", "--kill-child",
                  "--mount-proc", "setpriv", "--reuid", "12345",
                  "--clear-groups", "prlimit", f"--nproc={processes}")
        tried = subprocess.run([*before, LOCKSTEP, "version"], check=False,
                               stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
        if tried.returncode != 0:
            self.skipTest("no other user can be limited here")
        return self.call("run", *words, before=("timeout", "-s", "KILL", "45",
                                                *before))

    def test_no_more_processes(self):
        done = self.limited(4, "-n", "8", "sleep", "60")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stderr, "lockstep: cannot start the ranks: cannot "
                         "start a process: Resource temporarily unavailable\n")

    def test_processes_that_multiply(self):
        done = self.limited(40, "-n", "2", "--timeout", "0.5", "--grace", "0.1",
                            "python3", "-c", BOMB)
        self.assertEqual(done.returncode, 124, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)


if __name__ == "__main__":
    unittest.main()
