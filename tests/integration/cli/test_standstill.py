"""lockstep run: supervision goes on when who reads the output stands still."""

import os
import pty
import select
import signal
import termios
import unittest

from program import (LOCKSTEP, ProgramTest, children, environment, is_running,
                     wait_until)


class Standstill(ProgramTest):
    def setUp(self):
        self.read_end, self.write_end = os.pipe()
        self.open = {self.read_end, self.write_end}
        self.addCleanup(lambda: [os.close(end) for end in self.open])

    def close(self, end):
        self.open.remove(end)
        os.close(end)

    def is_full(self):
        return not select.select([], [self.write_end], [], 0)[1]

    def fill(self):
        """Fills the pipe, so that what is written to it next stands still."""
        os.set_blocking(self.write_end, False)
        try:
            while True:
                os.write(self.write_end, b"\n" * 4096)
        except BlockingIOError:
            os.set_blocking(self.write_end, True)

    def endless(self, *flags, program=("yes",)):
        """A job whose output nobody reads, when it has noticed."""
        process = self.start("run", "--tag-output", *flags, "--", *program,
                             out=self.write_end)
        self.assertTrue(wait_until(self.is_full))
        supervisor, = children(process.pid)
        ranks = children(supervisor)
        self.addCleanup(self.assert_gone, ranks)
        return process, ranks

    def assert_gone(self, pids):
        self.assertTrue(wait_until(
            lambda: not any(is_running(pid) for pid in pids)))

    def test_timeout(self):
        def play(seconds):
            process, ranks = self.endless("-n", "2", "--timeout", str(seconds),
                                          "--grace", "0.1")
            status, _, errors = self.ended(process)
            self.assertEqual(status, 124)
            self.assertEqual(
                errors, "lockstep: timeout: 2 of 2 ranks did not end within "
                f"{seconds} s (--timeout)\nlockstep: output is lost: the "
                "program that reads it has read nothing for 0.1 s\n")
            self.assert_gone(ranks)
        self.with_more_time(play)

    def test_request_to_end(self):
        process, ranks = self.endless("--grace", "0.1")
        process.send_signal(signal.SIGTERM)
        status, _, errors = self.ended(process)
        self.assertEqual(status, 128 + signal.SIGTERM)
        self.assertIn("ended by SIGTERM", errors)
        self.assert_gone(ranks)

    def test_launcher_killed(self):
        process, ranks = self.endless("-n", "2")
        process.kill()
        self.assert_gone(ranks)

    def test_failure_that_cannot_be_said(self):
        """The others are ended although stderr takes nothing more."""
        self.fill()
        process = self.start(
            "run", "-n", "2", "--grace", "0.1", "--", "sh", "-c",
            "echo $$; [ $RANK = 0 ] && exit 7; exec sleep 300",
            err=self.write_end)
        self.assert_gone([int(process.stdout.readline()) for _ in range(2)])
        self.assertIsNone(process.poll())  # it waits for its reader
        self.assertIn(b"ended with exit status 7", self.read_until_end())
        self.assertEqual(process.wait(100), 7)

    def read_until_end(self):
        os.set_blocking(self.read_end, False)
        heard = b""

        def hear():
            nonlocal heard
            try:
                heard += os.read(self.read_end, 1 << 20)
            except BlockingIOError:
                pass
            return b" to end\n" in heard  # what it says first
        self.assertTrue(wait_until(hear))
        return heard

    def test_what_is_read_late_is_whole(self):
        """A job that has ended by itself waits for its reader."""
        process = self.start("run", "--tag-output", "--", "sh", "-c",
                             "seq 1 20000; echo end >&2", out=self.write_end)
        self.assertTrue(wait_until(self.is_full))
        self.assertTrue(wait_until(lambda: self.said(process) == "[0] end\n"))
        self.assertIsNone(process.poll())
        self.assert_heard(process, 20000)

    def said(self, process):
        process.errors.seek(0)
        return process.errors.read()

    def assert_heard(self, process, lines):
        self.close(self.write_end)
        with os.fdopen(self.read_end, closefd=False) as file:
            self.assertEqual(file.read().splitlines(),
                             [f"[0] {i}" for i in range(1, lines + 1)])
        self.assertEqual(process.wait(100), 0)

    def test_a_pipe_that_does_not_block(self):
        os.set_blocking(self.write_end, False)
        process = self.start("run", "--tag-output", "--", "seq", "1",
                             "200000", out=self.write_end)
        self.assertTrue(wait_until(self.is_full))
        self.assert_heard(process, 200000)

    def test_who_asks_twice_waits_for_nobody(self):
        process = self.start("run", "--tag-output", "--grace", "300", "--",
                             "sh", "-c", "seq 1 20000; echo $$ >&2",
                             out=self.write_end)
        self.assertTrue(wait_until(
            lambda: self.said(process).endswith("\n")))
        self.assert_gone([int(self.said(process).split()[1])])

        def ask():
            process.send_signal(signal.SIGTERM)
            return process.poll() is not None
        self.assertTrue(wait_until(ask))
        # By one that came when all was over, it is ended itself.
        self.assertIn(process.wait(), (128 + signal.SIGTERM, -signal.SIGTERM))

    def test_a_reader_that_goes(self):
        """The ranks are told as they would be: by SIGPIPE."""
        process, _ = self.endless()
        self.close(self.read_end)
        status, _, errors = self.ended(process)
        self.assertEqual(status, 128 + signal.SIGPIPE)
        self.assertIn("(SIGPIPE)", errors)

    def test_a_full_disk_ends_nobody(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            process = self.start("run", "--tag-output", "--", "sh", "-c",
                                 "echo lost; read line; echo end >&2",
                                 out=full)
            status, _, errors = self.ended(process)
        self.assertEqual(status, 1)
        self.assertEqual(sorted(errors.splitlines()), [
            "[0] end", "lockstep: output is lost: cannot write to stdout: No "
            "space left on device"])

    def test_one_stream_keeps_its_order(self):
        """stdout and stderr in one pipe: 2>&1."""
        script = "for i in $(seq 1 50); do echo $i; echo $i >&2; done"
        process = self.start("run", "--tag-output", "--", "sh", "-c", script,
                             out=self.write_end, err=self.write_end)
        self.close(self.write_end)
        with os.fdopen(self.read_end, closefd=False) as file:
            lines = sorted(int(line.split()[1]) for line in file)
        self.assertEqual(lines, sorted(2 * list(range(1, 51))))
        self.assertEqual(process.wait(100), 0)

    def test_a_terminal_that_stops_the_background(self):
        """stty tostop: the supervisor is not in the foreground."""
        pid, terminal = pty.fork()
        if pid == 0:
            mode = termios.tcgetattr(1)
            mode[3] |= termios.TOSTOP
            termios.tcsetattr(1, termios.TCSANOW, mode)
            os.execve(LOCKSTEP, ["lockstep", "run", "sh", "-c", "exit 7"],
                      environment())
        self.addCleanup(os.close, terminal)
        heard = b""
        while b"status 7" not in heard:
            self.assertTrue(select.select([terminal], [], [], 30)[0], heard)
            heard += os.read(terminal, 4096)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 7)


if __name__ == "__main__":
    unittest.main()
