"""lockstep run: which of several ranks that end has failed first."""

import json
import os
import signal
import tempfile
import unittest

from program import ProgramTest, children, wait_until

# One that ends slowly: it has much memory to give back. Another, which sees that
# it has begun to end (PF_EXITING), fails at once.
SLOW = r"""
import mmap, os, signal, sys
rank, folder = int(os.environ["RANK"]), sys.argv[1]
place = os.path.join(folder, "pid")
if rank == 1:
    memory = mmap.mmap(-1, 1 << 30)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    for i in range(0, len(memory), 4096):
        memory[i] = 1
    with open(place + ".new", "w") as file:
        file.write(str(os.getpid()))
    os.rename(place + ".new", place)
    os.kill(os.getpid(), signal.SIGBUS if sys.argv[2] == "bus" else 9)
while not os.path.exists(place):
    pass
pid = int(open(place).read())
while True:
    stat = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    if int(os.read(stat, 4096).rpartition(b")")[2].split()[6]) & 4:
        os._exit(3)
    os.close(stat)
"""


def state(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return file.read().rpartition(")")[2].split()[0]


class FirstFailure(ProgramTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def test_one_that_ends_slowly(self):
        for how, number in (("bus", 7), ("kill", 9)):
            with tempfile.TemporaryDirectory() as folder:
                done = self.call("run", "-n", "2", "python3", "-c", SLOW,
                                 folder, how)
            self.assertEqual(done.returncode, 128 + number, done.stderr)
            self.assertRegex(done.stderr, r"^lockstep: rank 1 \(pid \d+\) was "
                             rf"killed by signal {number} ")
            self.assertEqual(done.stderr.count("(pid"), 1, done.stderr)

    def test_in_the_order_of_their_ends(self):
        """Also if all have ended before the supervisor looks.

        Tagged output comes through the supervisor, which forwards it when it
        has started all and watches them.
        """
        for order in ([2, 0, 1], [1, 2, 0]):
            process = self.start("run", "-n", "3", "--tag-output", "sh", "-c",
                                 "echo; until [ -e "
                                 f"{self.folder}/$RANK ]; do "
                                 "sleep 0.01; done; exit $((RANK + 10))")
            for _ in range(3):
                process.stdout.readline()
            supervisor, = children(process.pid)
            ranks = children(supervisor)
            os.kill(supervisor, signal.SIGSTOP)
            for rank in order:
                path = os.path.join(self.folder, str(rank))
                with open(path, "w", encoding="ascii"):
                    pass
                wait_until(lambda pid=ranks[rank]: state(pid) == "Z")
                os.remove(path)
            os.kill(supervisor, signal.SIGCONT)
            status, _, errors = self.ended(process)
            self.assertEqual(status, order[0] + 10, errors)
            self.assertIn(f"lockstep: rank {order[0]} (pid", errors)

    def test_one_that_ends_early_with_status_0(self):
        """It is named, as the others may have failed because of it."""
        gone = os.path.join(self.folder, "gone")
        script = (f"case $RANK in 1|2) echo >> {gone}; exit;; esac; until "
                  f"[ $(cat {gone} | wc -l) = 2 ]; do sleep 0.01; done; "
                  "sleep 0.3; exit 3")
        report = os.path.join(self.folder, "report")
        done = self.call("run", "-n", "4", f"--json={report}", "sh", "-c",
                         script + " 2> /dev/null")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertRegex(done.stderr, r"lockstep: ranks 1-2 ended first, with "
                         r"status 0; rank [03] then failed, on \S+: exit status"
                         r" 3\n")
        self.assertNotIn("failed first", done.stderr)
        with open(report, encoding="utf-8") as file:
            attempt, = json.load(file)["attempts"]
        self.assertEqual(attempt["ended_before"], [1, 2])

    def test_one_that_ends_after_the_failure(self):
        done = self.call("run", "-n", "2", "sh", "-c",
                         "[ $RANK = 0 ] || exit 3; sleep 0.3")
        self.assertIn("lockstep: rank 1 failed first", done.stderr)
        self.assertNotIn("ended first", done.stderr)

    def test_a_signal_has_another_cause(self):
        done = self.call("run", "-n", "2", "sh", "-c",
                         "[ $RANK = 1 ] || exit 0; sleep 0.3; kill -9 $$")
        self.assertIn("lockstep: rank 1 failed first", done.stderr)
        self.assertNotIn("ended first", done.stderr)

    def test_those_that_notice_a_death_that_was_asked_for(self):
        """Rank 1 fails because the signal has killed rank 0."""
        pid = os.path.join(self.folder, "pid")
        process = self.start(
            "run", "-n", "2", "--tag-output", "sh", "-c",
            f"[ $RANK = 1 ] || echo $$ > {pid};"
            f"[ $RANK = 0 ] || trap 'while kill -0 $(cat {pid}); do :; done;"
            " exit 3' TERM; echo; while :; do sleep 0.01; done 2> /dev/null")
        for _ in range(2):
            process.stdout.readline()
        process.terminate()
        status, _, errors = self.ended(process)
        self.assertEqual(status, 143, errors)
        self.assertIn("lockstep: the job was ended by SIGTERM\n", errors)
        self.assertNotIn("lockstep: rank", errors)

    def test_a_signal_that_nobody_passed_on_is_a_failure(self):
        script = ("[ $LOCKSTEP_RESTART = 1 ] || kill -TERM $$")
        done = self.call("run", "-n", "2", "--max-restarts", "1", "sh", "-c",
                         script)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("was killed by signal 15 (SIGTERM)", done.stderr)
        self.assertIn("restart 1 of 1", done.stderr)


if __name__ == "__main__":
    unittest.main()
