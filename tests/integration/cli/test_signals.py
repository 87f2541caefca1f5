"""lockstep run: signals that the launcher receives."""

import fcntl
import os
import re
import select
import signal
import tempfile
import termios
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

WAITER = """
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
os.write(1, b"ready\\n")
signal.sigwait([signal.SIGUSR1])
os.write(1, b"waited\\n")
"""

# Blocks the signal for a moment only, and has no handler.
BLOCKER = """
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGUSR2])
os.write(1, b"ready\\n")
signal.sigwait([signal.SIGUSR2])
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])
os.write(1, b"lives\\n")
"""

# Answers no to the first, and does not end.
DEAF = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGINT, lambda *_: os.write(1, b"no\\n"))
os.write(1, b"ready\\n")
while True:
    time.sleep(10)
"""

# Saves for the given seconds; prints when it begins and when it ends. Rank 1 may do
# something else: what the signal does by default, or end with that status.
SAVER = """
import os, signal, sys, time
asked = []
other = sys.argv[2] if os.environ["RANK"] == "1" else ""
if not other:
    signal.signal(signal.SIGTERM, lambda *_: asked.append(1))
elif other != "default":
    signal.signal(signal.SIGTERM, lambda *_: os._exit(int(other)))
os.write(1, b"ready\\n")
while not asked:
    time.sleep(0.01)
os.write(1, b"saving\\n")
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    time.sleep(0.01)
os.write(1, b"saved\\n")
"""


class SignalTest(ProgramTest):
    def started(self, script, *flags, ranks=2):
        """Ranks that have said that they are ready."""
        process = self.start("run", "-n", str(ranks), *flags, "--", "bash",
                             "-c", script)
        for _ in range(ranks):
            self.assertEqual(process.stdout.readline(), "ready\n")
        return process


class Signals(SignalTest):
    def test_every_rank_gets_them(self):
        for name in ("INT", "TERM", "HUP", "QUIT", "USR1", "USR2"):
            process = self.started("exec python3 -c '" + HANDLER % name + "'")
            process.send_signal(getattr(signal, "SIG" + name))
            status, out, errors = self.ended(process)
            self.assertEqual(status, 0)
            self.assertEqual(out, ["got"] * 2, name)
            if name != "USR1":
                self.assertEqual(errors, "")

    def asked(self, process, line, times=1):
        """SIGUSR1 that often; the last answer has such a line."""
        for _ in range(times):
            process.send_signal(signal.SIGUSR1)

        def answer():
            process.errors.seek(0)
            return process.errors.read()
        self.assertTrue(wait_until(lambda: re.search(line, answer(), re.M)),
                        answer())
        return answer()

    def test_a_question_ends_nobody(self):
        """Only those with a handler get it; it is said how to learn more."""
        process = self.started("[ $RANK = 1 ] || trap 'echo got; exit 0' USR1;"
                               "echo ready; [ $RANK = 0 ] || exec sleep 60;"
                               "while :; do sleep 0.02; done")
        said = self.asked(process, "LOCKSTEP_RECORD=FOLDER")
        self.assertEqual(process.stdout.readline(), "got\n")
        self.assertRegex(said, r"(?m)^lockstep: rank 0 \(pid \d+\): no step "
                         r"reported yet$")
        self.assertRegex(said, r"(?m)^lockstep: rank 1 \(pid \d+\): no step "
                         r"reported yet; it does not handle SIGUSR1$")
        self.asked(process, "(rank 1.*[^$]*){2}")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(self.ended(process)[0], 143)

    def test_a_question_ends_no_child(self):
        """Children between fork and exec have the handler of their parent."""
        process = self.started(
            "trap : USR1; trap 'echo end; exit 0' USR2; echo ready;"
            "while /bin/true; do :; done; echo died $?", ranks=1)
        for _ in range(40):
            process.send_signal(signal.SIGUSR1)
            time.sleep(0.005)
        process.send_signal(signal.SIGUSR2)
        self.assertEqual(process.stdout.readline(), "end\n")

    def test_a_question_to_who_blocks_it(self):
        process = self.started("exec python3 -c '" + WAITER + "'", ranks=1)
        answered = []
        while not answered:  # the first may come before it waits
            process.send_signal(signal.SIGUSR1)
            answered = select.select([process.stdout], [], [], 0.5)[0]
        self.assertEqual(process.stdout.readline(), "waited\n")

    def test_a_question_to_who_blocks_it_for_a_moment(self):
        process = self.started("exec python3 -c '" + BLOCKER + "'", ranks=1)
        said = self.asked(process, "it does not handle SIGUSR1")
        self.assertIn("it does not handle SIGUSR1", said)
        process.send_signal(signal.SIGUSR2)
        self.assertEqual(process.stdout.readline(), "lives\n")

    def test_a_question_to_a_launcher_in_a_launcher(self):
        process = self.started(f"exec {LOCKSTEP} run -- python3 -c '" +
                               HANDLER % "USR1" + "'", ranks=1)
        process.send_signal(signal.SIGUSR1)
        self.assertEqual(process.stdout.readline(), "got\n")

    def test_what_ranks_do(self):
        process = self.start("train", "lm", "-n", "2", "--layers", "1",
                             "--d-model", "16", "--heads", "1", "--context",
                             "8", "--threads", "1", "--steps", "1000000")
        self.assertTrue(wait_until(lambda: children(process.pid)))

        def answer():
            return self.asked(process, "LOCKSTEP_RECORD=FOLDER")
        self.assertTrue(wait_until(lambda: re.search(
            r"rank 1 \(pid \d+\): .*\d+ steps done", answer())), answer())

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

    def test_a_signal_without_a_name(self):
        with tempfile.TemporaryDirectory() as folder:
            report = os.path.join(folder, "report.json")
            done = self.call("run", "--json=" + report, "--", "sh", "-c",
                             f"kill -{signal.SIGRTMIN + 3} $$")
            self.assertIn("was killed by signal 37 (SIGRTMIN+3)", done.stderr)
            self.assertNotIn("null)", done.stderr)
            with open(report, encoding="utf-8") as file:
                self.assertIn('"SIGRTMIN+3"', file.read())

    def test_default_action(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            # exec: a shell would wait for its child before it dies.
            process = self.started("echo ready; exec sleep 60")
            process.send_signal(number)
            status, _, errors = self.ended(process)
            self.assertEqual(status, 128 + number)
            self.assertEqual(
                errors, f"lockstep: the job was ended by {number.name}\n")

    def test_they_reach_children_of_ranks(self):
        process = self.started("trap : USR1; bash -c 'trap \"echo inner; exit 0\" USR1;"
                               "echo ready; while :; do sleep 0.02; done';"
                               "exit 0", ranks=1)
        process.send_signal(signal.SIGUSR1)
        _, out, _ = self.ended(process)
        self.assertEqual(out, ["inner"])

    def test_second_request_ends_them(self):
        process = self.started("exec python3 -c '" + DEAF + "'",
                               "--grace", "0.1", ranks=1)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.stdout.readline(), "no\n")
        self.assertIsNone(process.poll())

        def ask_again():
            process.send_signal(signal.SIGINT)
            return select.select([process.stdout], [], [], 0.1)[0]
        self.assertTrue(wait_until(ask_again))
        status, out, _ = self.ended(process)
        self.assertEqual((status, out), (128 + signal.SIGKILL, ["no"]))

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

    def started_with_a_timeout(self, seconds):
        process = self.started("trap 'exit 7' USR1; echo ready;"
                               "while :; do sleep 0.02; done",
                               "--timeout", str(seconds), ranks=1)
        supervisor, = children(process.pid)
        rank, = children(supervisor)
        return process, supervisor, rank

    def goes_on(self, process):
        process.send_signal(signal.SIGUSR1)
        status, _, errors = self.ended(process)
        self.assertEqual(status, 7, errors)
        self.assertNotIn("timeout", errors)

    def test_a_stop_of_the_job_does_not_count(self):
        def play(factor):
            process, _, rank = self.started_with_a_timeout(2 * factor)
            process.send_signal(signal.SIGTSTP)
            self.assertTrue(wait_until(lambda: self.state(rank) == "T"))
            time.sleep(2.5 * factor)
            process.send_signal(signal.SIGCONT)
            self.goes_on(process)
        self.with_more_time(play)

    def test_a_pause_of_all_processes_does_not_count(self):
        def play(factor):
            process, supervisor, rank = self.started_with_a_timeout(2 * factor)
            for pid in (supervisor, rank):
                os.kill(pid, signal.SIGSTOP)
            time.sleep(2.5 * factor)
            for pid in (rank, supervisor):
                os.kill(pid, signal.SIGCONT)
            self.goes_on(process)
        self.with_more_time(play)

    def test_stopped_ranks_end_too(self):
        process = self.start("run", "-n", "2", "--grace", "0.1", "--", "sh",
                             "-c", "[ $RANK = 1 ] && sleep 0.2 && exit 5;"
                             "kill -STOP $$")
        status, _, errors = self.ended(process)
        self.assertEqual(status, 5, errors)


class Requests(SignalTest):
    """Ranks that need longer than the grace to save what they have."""

    def savers(self, other="", ranks=2, grace=0.1, seconds=1):
        process = self.start("run", "-n", str(ranks), "--grace", str(grace),
                             "--", "python3", "-c", SAVER, str(seconds), other)
        for _ in range(ranks):
            self.assertEqual(process.stdout.readline(), "ready\n")
        supervisor, = children(process.pid)
        return process, [process.pid, supervisor, *children(supervisor)]

    def test_one_sent_to_every_process_is_one(self):
        def play(factor, turned):
            process, everyone = self.savers(seconds=factor)
            for pid in reversed(everyone) if turned else everyone:
                os.kill(pid, signal.SIGTERM)
            status, out, errors = self.ended(process)
            self.assertEqual((status, errors), (0, ""))
            self.assertEqual(out, ["saved", "saved", "saving", "saving"])
        for turned in (False, True):
            self.with_more_time(lambda factor, t=turned: play(factor, t))

    def test_one_sent_twice_at_once_is_one(self):
        """As timeout(1) does: to its child, then to its child's group."""
        ends = []
        for _ in range(10):
            process, _ = self.savers(ranks=1)
            since = time.monotonic()
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.stdout.readline(), "saving\n")
            process.send_signal(signal.SIGTERM)
            in_time = time.monotonic() - since < 0.9
            status, out, _ = self.ended(process)
            if in_time and (status, out) == (0, ["saved"]):
                return
            # A launcher without a CPU may have received the second late.
            ends += [(status, out)] if in_time else []
        self.assertEqual(ends, [])
        self.skipTest("this machine is too slow to send two signals at once")

    def test_one_to_the_supervisor_counts_but_never_twice(self):
        process, (_, supervisor, *_) = self.savers(ranks=1)
        os.kill(supervisor, signal.SIGTERM)
        self.assertEqual(process.stdout.readline(), "saving\n")
        os.kill(supervisor, signal.SIGTERM)
        self.assertEqual(self.ended(process)[:2], (0, ["saved"]))

    def test_who_ends_by_the_signal_ends_nobody_else(self):
        for other in ("143", "default"):
            process, _ = self.savers(other)
            process.send_signal(signal.SIGTERM)
            status, out, errors = self.ended(process)
            self.assertEqual((status, out), (143, ["saved", "saving"]))
            self.assertEqual(errors, "lockstep: the job was ended by "
                                     "SIGTERM\n")

    def test_ranks_that_get_it_before_the_launcher(self):
        def play(factor):
            process, (_, _, *ranks) = self.savers(
                "143", grace=2 * factor, seconds=5 * factor)
            os.kill(ranks[1], signal.SIGTERM)
            self.assertTrue(wait_until(lambda: not is_running(ranks[1])))
            process.send_signal(signal.SIGTERM)
            status, out, _ = self.ended(process)
            self.assertEqual((status, out), (143, ["saved", "saving"]))
        self.with_more_time(play, (1, 4))

    def test_who_fails_while_others_save_is_named(self):
        process, _ = self.savers("5")
        process.send_signal(signal.SIGTERM)
        status, _, errors = self.ended(process)
        self.assertEqual(status, 5)
        self.assertRegex(errors, r"^lockstep: rank 1 \(pid \d+\) ended with exit "
                         r"status 5; the other ranks have 0.1 s to end\n")

    def test_keys_count_each(self):
        """Ctrl-C twice in a terminal, however quickly."""
        terminal, its_other_end = os.openpty()
        self.addCleanup(os.close, terminal)
        self.addCleanup(os.close, its_other_end)

        def take_terminal():
            os.setsid()
            fcntl.ioctl(its_other_end, termios.TIOCSCTTY, 0)
        process = self.start(
            "run", "--grace", "0.1", "--", "python3", "-c", DEAF,
            preexec_fn=take_terminal)
        for answer in ("ready\n", "no\n"):
            self.assertEqual(process.stdout.readline(), answer)
            self.assertIsNone(process.poll())
            os.write(terminal, b"\x03")
        self.assertEqual(self.ended(process)[0], 128 + signal.SIGKILL)


if __name__ == "__main__":
    unittest.main()
