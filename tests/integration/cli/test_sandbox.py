"""lockstep run where little is allowed: calls that are denied, no /proc."""

import ctypes
import os
import platform
import signal
import struct
import subprocess
import unittest

from program import (LOCKSTEP, ProgramTest, children, environment, is_running,
                     wait_until)

SCHED_GETAFFINITY = {"x86_64": 204, "aarch64": 123}.get(platform.machine())
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD_NUMBER, JUMP_UNLESS_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, FAIL_WITH_EPERM = 0x7fff0000, 0x00050001


def deny(number):
    """From now on, that system call fails with EPERM."""
    program = b"".join(struct.pack("HBBI", *line) for line in (
        (LOAD_NUMBER, 0, 0, 0), (JUMP_UNLESS_EQUAL, 0, 1, number),
        (RETURN, 0, 0, FAIL_WITH_EPERM), (RETURN, 0, 0, ALLOW)))
    buffer = ctypes.create_string_buffer(program)
    filters = ctypes.create_string_buffer(struct.pack(
        "HxxxxxxP", len(program) // 8, ctypes.addressof(buffer)))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    if prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 or \
            prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filters, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "seccomp")


class Sandbox(ProgramTest):
    def start(self, *words, **more):
        """Whatever comes of it, nothing of it stays."""
        process = super().start(*words, **more)

        def clean():
            for pid in children(process.pid):
                os.kill(pid, signal.SIGKILL)
        self.addCleanup(clean)
        return process

    @unittest.skipIf(SCHED_GETAFFINITY is None, "its number is not known here")
    def test_affinity_that_is_denied(self):
        """Ranks are not bound then."""
        process = self.start("run", "-n", "2", "--", "echo", "here",
                             preexec_fn=lambda: deny(SCHED_GETAFFINITY))
        self.assertTrue(wait_until(lambda: process.poll() is not None))
        self.assertEqual(self.ended(process), (0, ["here"] * 2, ""))


class NoProc(ProgramTest):
    BEFORE = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
              'mount -t tmpfs none /proc && exec "$@"', "sh")

    def setUp(self):
        if subprocess.run([*self.BEFORE, "true"], stderr=subprocess.DEVNULL,
                          check=False).returncode != 0:
            self.skipTest("no mount namespace can be made here")

    def test_the_program_starts_itself(self):
        """By argv[0]: a whole path, one from here, a name in PATH."""
        folder, name = os.path.split(LOCKSTEP)
        for argv0, path, cwd in (
                (LOCKSTEP, "/usr/bin:/bin", "/"),
                (f"./{name}", "/usr/bin:/bin", folder),
                (name, f"/usr/bin:/bin:{folder}", "/"),
                (name, ":/usr/bin:/bin", folder)):
            done = subprocess.run(
                [*self.BEFORE, argv0, "demo", "hello", "-n", "2"], check=False,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                cwd=cwd, env=environment(PATH=path), timeout=30)
            self.assertEqual(done.returncode, 0, (argv0, done.stderr))
            self.assertIn("rank 1", done.stdout)

    def test_a_name_that_is_no_program(self):
        done = subprocess.run(
            [*self.BEFORE[:-4], "bash", "-c", "mount -t tmpfs none /proc;"
             f"exec -a nowhere {LOCKSTEP} demo hello -n 2"], check=False,
            stderr=subprocess.PIPE, text=True, env=environment(), timeout=30)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("start lockstep by its full path", done.stderr)

    def test_nothing_is_left_behind(self):
        """In the rank's process group, and in a separate session."""
        for flags in ((), ("--tag-output",)):
            process = self.start("run", *flags, "--", "sh", "-c",
                                 "sleep 300 & echo $!;"
                                 "setsid sh -c 'echo $$; exec sleep 300' & "
                                 "read line", before=self.BEFORE)
            self.assertTrue(wait_until(lambda: process.poll() is not None))
            status, out, errors = self.ended(process)
            self.assertEqual((status, len(out)), (1, 2), errors)
            for line in out:
                self.assertFalse(is_running(int(line.split()[-1])))


if __name__ == "__main__":
    unittest.main()
