"""Running the program from tests."""

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
import time
import unittest

LOCKSTEP = os.path.abspath(os.environ["LOCKSTEP"])
SOURCE = os.path.abspath(os.environ["LOCKSTEP_SOURCE"])

# The working folder of programs that are given no other: what they write to it
# is removed at the end.
SCRATCH = tempfile.TemporaryDirectory(prefix="lockstep-test-")
os.chdir(SCRATCH.name)

# Variables that a launcher around the tests may have set.
LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
             "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_ID",
             "OMP_NUM_THREADS")


def environment(**changes):
    env = {k: v for k, v in os.environ.items() if k not in LAUNCHERS}
    env.update({k: str(v) for k, v in changes.items()})
    return env


def wait_until(condition, seconds=60.0):
    """Whether the condition came true in time; a busy machine needs some."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.01)
    return condition()


def is_running(pid):
    """Whether there is such a process, zombies not counted."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
            return [int(word) for word in f.read().split()]
    except FileNotFoundError:
        return []


@contextlib.contextmanager
def busy_machine():
    """All CPUs have something else to do, too."""
    spinning = [subprocess.Popen([sys.executable, "-c", "while True: pass"])
                for _ in os.sched_getaffinity(0)]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


class MoreTime:
    """Of tests: those whose times a busy machine can make too short."""

    def with_more_time(self, play, factors=(1, 4, 16)):
        """Plays something. If it goes wrong, plays it once more from the beginning
        with each of its times longer by a factor.

        A busy machine may keep any process from its CPU for long.
        """
        for i, factor in enumerate(factors):
            try:
                play(factor)
                return
            except unittest.SkipTest:
                raise
            except Exception as error:
                if i + 1 == len(factors):
                    raise
                print(f"{self.id()} with {factor} times the time: {error}",
                      file=sys.stderr)
            self.doCleanups()
            self.setUp()


class ProgramTest(MoreTime, unittest.TestCase):
    maxDiff = None

    def call(self, *words, stdin=subprocess.DEVNULL, env=None, text=None,
             cwd=None, before=()):
        """Runs lockstep to its end, by another program if one is before it."""
        where = {"input": text} if text is not None else {"stdin": stdin}
        return subprocess.run(
            [*before, LOCKSTEP, *words], env=env or environment(), timeout=150,
            cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            universal_newlines=True, check=False, **where)

    def start(self, *words, out=subprocess.PIPE, err=None, before=(),
              env=None, **more):
        """Starts lockstep; it is killed if the test leaves it running."""
        errors = tempfile.TemporaryFile("w+", encoding="utf-8")
        process = subprocess.Popen(
            [*before, LOCKSTEP, *words], env=env or environment(),
            stdin=subprocess.DEVNULL, stdout=out,
            stderr=errors if err is None else err, universal_newlines=True,
            **more)
        process.errors = errors

        def clean():
            if process.poll() is None:
                process.kill()
            if process.stdout is not None:
                process.stdout.close()
            process.wait()
            errors.close()
        self.addCleanup(clean)
        return process

    def ended(self, process):
        """Exit status, the lines not read yet in order, stderr. It is killed
        if it does not end."""
        lines = []
        limit = threading.Timer(60, process.kill)
        limit.start()
        if process.stdout is not None:
            lines = sorted(process.stdout.read().splitlines())
        status = process.wait()
        limit.cancel()
        process.errors.seek(0)
        return status, lines, process.errors.read()

    def succeeds(self, *words, **more):
        done = self.call(*words, **more)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def fails(self, status, message, *words, **more):
        """It ends with that status and one line on stderr."""
        done = self.call(*words, **more)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertTrue(done.stderr.startswith("lockstep: "), done.stderr)
        self.assertIn(message, done.stderr)
        return done

    def fails_in_a_rank(self, status, message, *words, **more):
        """The first line names it, and what follows is the last screen."""
        done = self.call(*words, **more)
        self.assertEqual(done.returncode, status, done.stderr)
        first, _, screen = done.stderr.partition("\n")
        self.assertTrue(first.startswith("lockstep: "), done.stderr)
        self.assertIn(message, first)
        self.assertRegex(screen, r"^lockstep: (ranks? [\d, -]+ ended first, with "
                         r"status 0; )?rank \d+ (failed first|then failed), on ")
        self.assertNotIn("(pid", screen)
        return done
