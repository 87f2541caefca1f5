"""lockstep run: signals that the launcher receives."""

import os
import signal
import tempfile
import time
import unittest

from program import (LOCKSTEP, ProgramTest, children, environment, is_running,
                     wait_until)

HANDLER = """
import os, signal
def end(*_):
    os.write(1, b"got\\n")
    os._exit(0)
signal.signal(signal.SIG%s, end)
os.write(1, b"ready\\n")
while True:
    signal.pause()
"""


class Signals(ProgramTest):
    def started(self, script, *flags, ranks=2):
        """Ranks that have said that they are ready."""
        process = self.start("run", "-n", str(ranks), *flags, "--", "bash",
                             "-c", script)
        for _ in range(ranks):
            self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def test_every_rank_gets_them(self):
        for name in ("INT", "TERM", "HUP", "QUIT", "USR1", "USR2"):
            process = self.started("exec python3 -c '" + HANDLER % name + "'")
            process.send_signal(getattr(signal, "SIG" + name))
            status, out, errors = self.ended(process)
            self.assertEqual((status, errors), (0, ""))
            self.assertEqual(out, ["got"] * 2, name)

    def test_a_request_for_records_comes_too_early(self):
        """It spares ranks that have no group yet."""
        with tempfile.TemporaryDirectory() as folder:
            go = os.path.join(folder, "go")
            process = self.start(
                "run", "-n", "2", "--", "bash", "-c",
                "trap 'echo two' USR2; echo ready; while [ ! -e $0 ]; do sleep 0.02;"
                "done; exec \"$1\" demo hello", go, LOCKSTEP,
                env=environment(LOCKSTEP_RECORD=folder))
            for word in ("ready", "two"):
                for _ in range(2):
                    self.assertEqual(process.stdout.readline(), word + "\n")
                process.send_signal(signal.SIGUSR1)
                process.send_signal(signal.SIGUSR2)
            for _ in range(2):
                self.assertEqual(process.stdout.readline(), "two\n")
            with open(go, "w", encoding="ascii"):
                pass
            status, _, errors = self.ended(process)
            self.assertEqual(status, 0, errors)

    def test_default_action(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            # exec: a shell would wait for its child before it dies.
            process = self.started("echo ready; exec sleep 60")
            process.send_signal(number)
            status, _, errors = self.ended(process)
            self.assertEqual(status, 128 + number)
            self.assertEqual(errors, f"lockstep: ended by {number.name}\n")

    def test_they_reach_children_of_ranks(self):
        process = self.started("trap : USR1; bash -c 'trap \"echo inner; exit 0\" USR1;"
                               "echo ready; while :; do sleep 0.02; done';"
                               "exit 0", ranks=1)
        process.send_signal(signal.SIGUSR1)
        _, out, _ = self.ended(process)
        self.assertEqual(out, ["inner"])

    def test_second_request_ends_them(self):
        process = self.started("trap 'echo no' INT; trap '' TERM; echo ready;"
                               "while :; do sleep 0.02; done",
                               "--grace", "0.1", ranks=1)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.stdout.readline(), "no\n")
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGINT)
        status, _, _ = self.ended(process)
        self.assertEqual(status, 128 + signal.SIGKILL)

    def test_ignored_ones_stay_ignored(self):
        def ignore():
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
        process = self.start("run", "--", "sh", "-c",
                             "echo ready; read line; echo after",
                             preexec_fn=ignore)
        self.assertEqual(process.stdout.readline(), "ready\n")
        process.send_signal(signal.SIGHUP)
        self.assertEqual(self.ended(process)[1], ["after"])

    def state(self, pid):
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0]

    def test_stop_and_continue(self):
        process = self.start("run", "--", "sh", "-c",
                             "echo $$; exec sleep 60")
        rank = int(process.stdout.readline())
        process.send_signal(signal.SIGTSTP)
        self.assertTrue(wait_until(
            lambda: self.state(rank) == self.state(process.pid) == "T"))
        process.send_signal(signal.SIGCONT)
        self.assertTrue(wait_until(
            lambda: "T" not in (self.state(rank), self.state(process.pid))))
        process.send_signal(signal.SIGTERM)
        self.assertEqual(self.ended(process)[0], 128 + signal.SIGTERM)
        self.assertFalse(is_running(rank))

    def started_with_a_timeout(self):
        process = self.started("trap 'exit 7' USR1; echo ready;"
                               "while :; do sleep 0.02; done",
                               "--timeout", "2", ranks=1)
        supervisor, = children(process.pid)
        rank, = children(supervisor)
        return process, supervisor, rank

    def goes_on(self, process):
        process.send_signal(signal.SIGUSR1)
        status, _, errors = self.ended(process)
        self.assertEqual(status, 7, errors)
        self.assertNotIn("timeout", errors)

    def test_a_stop_of_the_job_does_not_count(self):
        process, _, rank = self.started_with_a_timeout()
        process.send_signal(signal.SIGTSTP)
        self.assertTrue(wait_until(lambda: self.state(rank) == "T"))
        time.sleep(2.5)
        process.send_signal(signal.SIGCONT)
        self.goes_on(process)

    def test_a_pause_of_all_processes_does_not_count(self):
        process, supervisor, rank = self.started_with_a_timeout()
        for pid in (supervisor, rank):
            os.kill(pid, signal.SIGSTOP)
        time.sleep(2.5)
        for pid in (rank, supervisor):
            os.kill(pid, signal.SIGCONT)
        self.goes_on(process)

    def test_stopped_ranks_end_too(self):
        process = self.start("run", "-n", "2", "--grace", "0.1", "--", "sh",
                             "-c", "[ $RANK = 1 ] && sleep 0.2 && exit 5;"
                             "kill -STOP $$")
        status, _, errors = self.ended(process)
        self.assertEqual(status, 5, errors)


if __name__ == "__main__":
    unittest.main()
