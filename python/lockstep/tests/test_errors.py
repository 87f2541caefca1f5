#!/usr/bin/env python3
"""Which exception is raised for what, and what it says about the rank to blame.

Exits with 77 without NumPy.
"""
import os
import re
import signal
import socket
import subprocess
import sys
import unittest

from test_group import lockstep, np, run

PYTHON = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
STATUS_H = os.path.join(PYTHON, "..", "..", "include", "lockstep", "status.h")
NAMES = ("rank", "other_rank", "host", "pid", "operation", "sequence")
BOTH = {"OutOfMemoryError": MemoryError, "SystemCallError": OSError,
        "LateError": TimeoutError, "ArgumentError": ValueError}


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def caught(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


def about(error):
    return tuple(getattr(error, name) for name in NAMES)


def pid_of(group, rank):
    return int(group.allgather(np.array(os.getpid()))[rank])


class Table(unittest.TestCase):
    """README.md has a row for every status, as the package maps it."""

    def test_every_status(self):
        numbers = {name: int(number) for name, number in re.findall(
            r"^    (LS_ERR_\w+) = (-\d+)\b", read(STATUS_H), re.M)}
        listed = {}
        for row in re.findall(r"^\| (`LS_ERR.*) \|$", read(
                os.path.join(PYTHON, "README.md")), re.M):
            statuses, kind, also = row.split("|")
            for status in re.findall(r"LS_\w+", statuses):
                listed[status] = kind.strip(" `"), also.strip(" `")
        self.assertEqual(set(listed), set(numbers))
        for status, (kind, also) in listed.items():
            error = lockstep._library.error_of(numbers[status])
            self.assertIs(type(error), getattr(lockstep, kind), status)
            self.assertEqual(type(error).__module__, "lockstep")
            self.assertEqual(BOTH.get(kind, Exception).__name__,
                             also or "Exception", status)
            self.assertIsInstance(error, BOTH.get(kind, Exception))
            self.assertIsInstance(error, RuntimeError)
            self.assertEqual(about(error), (None,) * len(NAMES))


class Failed(unittest.TestCase):
    def test_dead(self):
        def work(group):
            pid = pid_of(group, 1)
            if group.rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            request = group.iallreduce(np.ones(3))
            error = caught(lockstep.PeerDeadError, request.wait)
            number = re.search(r"#(\d+)", str(error))
            self.assertEqual(about(error), (
                1, None, socket.gethostname()[:63], pid, "all_reduce",
                int(number.group(1))))
            # It stays so, for this request and what comes later.
            for call in (request.wait, request.test, group.barrier):
                again = caught(lockstep.PeerDeadError, call)
                self.assertIsNot(again, error)
                self.assertEqual(about(again)[:4], about(error)[:4])
        run(3, work, [0, -signal.SIGKILL, 0])

    def test_late(self):
        def work(group):
            pid = pid_of(group, 1)
            if group.rank == 1:
                group.set_timeout(60)  # rank 0 gives up first
                caught(lockstep.Error, lambda: group.recv(np.empty(1), 0))
                return
            error = caught(TimeoutError, group.barrier)
            self.assertEqual((error.rank, error.pid), (1, pid))
            self.assertIn(f"rank {error.other_rank} gave up waiting for rank 1 "
                          f"(host {error.host}, pid {error.pid})", str(error))
            self.assertEqual(error.operation, "barrier")
        run(2, work, timeout=0.5)

    def test_mismatch(self):
        def work(group):
            error = caught(lockstep.MismatchError,
                           lambda: group.allreduce(np.ones(group.rank + 1)))
            self.assertEqual({error.rank, error.other_rank}, {0, 1})
            self.assertIn(f"call #{error.sequence} ", str(error))
            self.assertIn(f"rank {error.rank} is in all_reduce of "
                          f"{error.rank + 1} ", str(error))
            self.assertEqual(error.operation, "all_reduce")
        run(2, work)

    def test_aborted(self):
        def work(group):
            if group.rank == 1:
                group.abort()
            error = caught(lockstep.AbortedError, group.barrier)
            self.assertEqual(about(error)[:2], (1, None))
            # The group is part of another one's calls, too.
            error = caught(lockstep.AbortedError, lambda: group.split(0))
            self.assertEqual(error.rank, 1)
            error = caught(lockstep.AbortedError,
                           lambda: group.shared_array(10))
            self.assertEqual(error.rank, 1)
            error = caught(lockstep.AbortedError, lambda: group.iprobe(0))
            self.assertEqual(error.rank, 1)
        run(2, work)


class NotFound(unittest.TestCase):
    def test_library(self):
        done = subprocess.run(
            [sys.executable, "-c", "import lockstep"], text=True, check=False,
            stderr=subprocess.PIPE, env={
                **os.environ, "LOCKSTEP_COMM_LIBRARY": "/nowhere/library.so",
                "PYTHONPATH": os.path.join(PYTHON, "src")})
        self.assertEqual(done.returncode, 1)
        last = done.stderr.splitlines()[-1]
        self.assertRegex(last, "OSError: .* /nowhere/library.so: .* Set "
                         "LOCKSTEP_COMM_LIBRARY to the path of ")


class GoesOn(unittest.TestCase):
    """Errors after which the group is as good as before."""

    def work(self, group):
        everything = (None,) * len(NAMES)
        error = caught(OSError, lambda: group.dump("/dev/null/record"))
        self.assertIs(type(error), lockstep.SystemCallError)
        self.assertIn("/dev/null/record", str(error))
        self.assertEqual(about(error), everything)
        error = caught(MemoryError, lambda: group.shared_array(1 << 55))
        self.assertIs(type(error), lockstep.OutOfMemoryError)
        self.assertEqual(about(error), everything)
        error = caught(ValueError, lambda: group.bcast(np.ones(1), root=9))
        self.assertIs(type(error), lockstep.ArgumentError)
        self.assertEqual(about(error), everything)
        self.assertEqual(group.allreduce(1), group.size)

    def test_two_ranks(self):
        run(2, self.work)

    def test_what_is_wrong_with_an_argument(self):
        group = lockstep.Group.open(f"arguments {os.getpid()}", 0, 1)
        x, ints = np.ones(4), np.ones(4, int)
        fixed = np.ones(4)
        fixed.flags.writeable = False
        for text, call in (
                ("'x' is of type str; it must be an int",
                 lambda: group.bcast(x, "x")),
                ("'y' is of type str; it must be an int",
                 lambda: group.split("y")),
                ("'z' is of type str; it must be a float",
                 lambda: group.allreduce(x, factor="z")),
                ("out is of type list; it must be a NumPy array",
                 lambda: group.allreduce(x, out=[0, 0])),
                ("out is of type NoneType; it must be a NumPy array",
                 lambda: group.scatter(x[None], None)),
                ("out is of type int; it must be a NumPy array",
                 lambda: group.recv(3, 0)),
                ("out is of type list; it must be a NumPy array",
                 lambda: group.sendrecv(x, 0, [0.0], 0)),
                ("strides (16,); it must be C-contiguous",
                 lambda: group.allreduce(x, out=np.ones(8)[::2])),
                ("out is read-only", lambda: group.allreduce(x, out=fixed)),
                ("op is an array; pass an array for the result as out=",
                 lambda: group.allreduce(x, np.empty(4))),
                ("op is of type int; it must be a str",
                 lambda: group.allreduce(x, 3)),
                ("allreduce: factor needs data of a floating type, but data "
                 "has type int64", lambda: group.allreduce(ints, factor=2))):
            with self.subTest(text):
                error = caught(ValueError, call)
                self.assertIsInstance(error, lockstep.ArgumentError)
                self.assertEqual(isinstance(error, TypeError),
                                 "of type" in text or "op is" in text)
                self.assertIn(text, str(error))
        self.assertEqual(group.allreduce(1), 1)
        group.close()

    def test_integers_of_any_type(self):
        """NumPy's, and those of any class with __index__; no floats."""
        class Own:
            def __index__(self):
                return 0
        group = lockstep.Group.open(f"integers {os.getpid()}", 0, 1)
        x, out = np.ones(4), np.zeros(4)
        for number in (np.int64(0), np.uint8(0), np.int32(0), Own(), True - 1):
            with self.subTest(type(number)):
                group.bcast(x, number)
                self.assertEqual(group.reduce(1, root=number), 1)
                self.assertEqual(group.gather(x, number).shape, (1, 4))
                group.scatter(x[None], out, number)
                group.isend(x, number, tag=number)
                group.recv(out, number, number)
                group.sendrecv(x, number, out, number, number)
                self.assertIsNone(group.iprobe(number, number))
                group.split(number, number).close()
        for number in (0.0, np.float64(0), np.float32(0), "0", None):
            with self.subTest(type(number)):
                for call in (lambda: group.bcast(x, number),
                             lambda: group.reduce(x, root=number),
                             lambda: group.send(x, 0, tag=number),
                             lambda: group.sendrecv(x, number, out, 0),
                             lambda: group.sendrecv(x, 0, out, 0, number),
                             lambda: group.probe(0, number)):
                    error = caught(TypeError, call)
                    self.assertIs(type(error), lockstep.ArgumentTypeError)
                    self.assertEqual(
                        str(error), f"argument {number!r} is of type "
                        f"{type(number).__name__}; it must be an int")
        self.assertEqual(group.allreduce(1), 1)
        group.close()

    def test_bcast_names_its_data(self):
        def work(group):
            fixed = np.ones(2)
            fixed.flags.writeable = False
            if group.rank == 1:
                for text, data in (("data is read-only", fixed),
                                   ("data has shape (2,) and strides (16,); it must "
                                    "be C-contiguous", np.ones(4)[::2]),
                                   ("data is of type list; it must be a NumPy array",
                                    [0.0, 0.0])):
                    error = caught(lockstep.ArgumentError,
                                   lambda: group.ibcast(data))
                    self.assertIn(text, str(error))
            else:
                for _ in range(3):
                    caught(lockstep.ArgumentError,
                           lambda: group.bcast(np.ones(2)))
            group.barrier()
        run(2, work)

    def test_all_ranks_get_what_one_refuses(self):
        def calls(g, x, rows, bad):
            """Collectives, whose argument Python refuses where bad is set."""
            out = [0] if bad else None
            one = [1] if bad else [1] * g.size
            return (lambda: g.allreduce(x, out=out),
                    lambda: g.allreduce(x, "mean" if bad else "sum"),
                    lambda: g.allreduce(x, x if bad else "sum"),
                    lambda: g.allreduce(x.astype(complex if bad else float)),
                    lambda: g.allreduce(x, factor="f" if bad else 2),
                    lambda: g.reduce(x, "mean" if bad else "sum"),
                    lambda: g.bcast(x, "x" if bad else 0),
                    lambda: g.allgather(x, out),
                    lambda: g.gather(x, "x" if bad else 0),
                    lambda: g.reduce_scatter(rows, out=out),
                    lambda: g.reduce_scatter(rows, "max" if bad else "sum",
                                             factor=2),
                    lambda: g.scatter(rows, out or np.empty(4)),
                    lambda: g.alltoall(rows[1:] if bad else rows),
                    lambda: g.allgatherv(1 if bad else rows[:1]),
                    lambda: g.allgatherv(rows[:1], one),
                    lambda: g.reduce_scatterv(rows, one),
                    lambda: g.alltoallv(rows, one),
                    lambda: g.alltoallv(rows, one, [1] * g.size),
                    lambda: g.split("x" if bad else 0))

        def work(group):
            for at in range(group.size):
                bad = group.rank == at
                x, rows = np.ones(4), np.ones((group.size, 4))
                for i, call in enumerate(calls(group, x, rows, bad)):
                    error = caught(lockstep.ArgumentError, call)
                    if not bad:
                        self.assertIn(f"rank {at} cannot take part", str(error),
                                      f"call {i}")
                    self.assertEqual(group.allreduce(1), group.size)
        run(3, work)

    def test_closed(self):
        group = lockstep.Group.open(f"closed {os.getpid()}", 0, 1)
        group.close()
        for out in (None, [0]):
            caught(lockstep.ArgumentError, lambda: group.allreduce(1.0, out=out))

    def test_no_group(self):
        error = caught(TimeoutError, lambda: lockstep.Group.open(
            f"alone {os.getpid()}", 0, 2, timeout=0.1))
        self.assertEqual(about(error), (None,) * len(NAMES))


if __name__ == "__main__":
    unittest.main(verbosity=2)
