#!/usr/bin/env python3
"""The package on 1, 2, 3 and 5 processes, beside NumPy alone.

Exits with 77 where there is no NumPy.
"""
import os
import signal
import sys
import time
import traceback
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "src"))
try:
    import numpy as np
except ImportError:
    print("no NumPy here: not tested")
    sys.exit(77)
import lockstep

SIZES = (1, 2, 3, 5)
TYPES = ("float32", "float64", "float16", "int8", "uint8", "int32", "int64")
names = 0


def run(size, work, expect=None, timeout=60):
    """work(group) in `size` processes; expect: their exit statuses."""
    global names
    names += 1
    name = f"python test {os.getpid()} {names}"
    pids = []
    for rank in range(size):
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                with lockstep.Group.open(name, rank, size,
                                         timeout=timeout) as group:
                    work(group)
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(status)
        pids.append(pid)
    got = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    if got != (expect or [0] * size):
        raise AssertionError(f"exit statuses {got}")


def data(rank, shape, dtype):
    """Small whole numbers: sums and products are exact."""
    n = int(np.prod(shape))
    x = (np.arange(n) * 7 + rank * 3) % 5 + (np.arange(n) + rank) % 2
    return (x % 3).astype(dtype).reshape(shape)


def equal(got, want):
    np.testing.assert_array_equal(got, want)
    assert np.asarray(got).dtype == np.asarray(want).dtype, (got, want)


def reductions(group, shape, dtype):
    all_of = np.stack([data(r, shape, dtype) for r in range(group.size)])
    mine = all_of[group.rank]
    how = {"sum": np.sum, "min": np.min, "max": np.max, "prod": np.prod}
    for op, reduce in how.items():
        want = reduce(all_of, axis=0).astype(dtype)
        equal(group.allreduce(mine, op), want)
        got = group.reduce(mine, op, root=group.size - 1)
        if group.rank == group.size - 1:
            equal(got, want)
        else:
            assert got is None
    if np.issubdtype(dtype, np.integer):
        for op, reduce in (("band", np.bitwise_and), ("bor", np.bitwise_or),
                           ("bxor", np.bitwise_xor)):
            equal(group.allreduce(mine, op), reduce.reduce(all_of, axis=0))
    else:
        mean = all_of.astype("float64").mean(axis=0)
        np.testing.assert_allclose(group.allreduce(mine, "avg"), mean,
                                   rtol=2e-3 if dtype == "float16" else 1e-6)
    rows = np.stack([mine] * group.size)
    equal(group.reduce_scatter(rows), np.sum(all_of, axis=0).astype(dtype))
    out = mine.copy()
    assert group.allreduce(out, out=out) is out
    equal(out, np.sum(all_of, axis=0).astype(dtype))


def moves(group, shape, dtype):
    all_of = np.stack([data(r, shape, dtype) for r in range(group.size)])
    mine, last = all_of[group.rank], group.size - 1
    equal(group.allgather(mine), all_of)
    got = group.gather(mine, root=last)
    if group.rank == last:
        equal(got, all_of)
    equal(group.bcast(mine.copy(), root=last), all_of[last])
    out = np.empty(shape, dtype)
    equal(group.scatter(all_of if group.rank == last else None, out, last), mine)
    table = np.stack([data(group.rank * 10 + r, shape, dtype)
                      for r in range(group.size)])
    equal(group.alltoall(table),
          np.stack([data(r * 10 + group.rank, shape, dtype)
                    for r in range(group.size)]))
    ahead, behind = (group.rank + 1) % group.size, (group.rank - 1) % group.size
    sent = group.isend(mine, ahead)
    equal(group.recv(np.empty(shape, dtype), behind), all_of[behind])
    sent.wait()
    group.barrier()


def everything(group):
    for shape in ((0,), (1,), (3, 5), (20011,)):
        for dtype in TYPES:
            reductions(group, shape, dtype)
        moves(group, shape, "int32")
        moves(group, shape, "float64")


def other_things(group):
    n, rank = group.size, group.rank
    total = group.allreduce(rank + 1)
    assert total == n * (n + 1) // 2 and np.ndim(total) == 0
    flags = np.array([True, rank == 0, False])
    equal(group.allreduce(flags), np.array([True, True, False]))
    equal(group.allreduce(flags, "min"), np.array([True, n == 1, False]))
    # Columns are no contiguous memory, and are copied.
    table = np.arange(12.0).reshape(3, 4)
    equal(group.allreduce(table[:, 1]), table[:, 1] * n)
    assert group.allgather_object({"rank": rank, "text": "x" * rank * 100}) == [
        {"rank": r, "text": "x" * r * 100} for r in range(n)]
    assert group.bcast_object(["of", rank], n - 1) == ["of", n - 1]
    half = group.split(rank % 2, -rank)
    assert half.size == (n + 1 - rank % 2) // 2
    assert half.allreduce(1) == half.size
    half.close()
    assert group.split(-1 if rank else 0) is None or rank == 0
    assert group.counters()["collectives"] > 0
    many = [group.iallreduce(np.full(100, i)) for i in range(20)]
    for i in reversed(range(20)):
        equal(many[i].wait(), np.full(100, i * n))
    request = group.ibarrier()
    while not request.test():
        time.sleep(0)
    assert request.wait() is None


def shared(group):
    array = group.shared_array((1000,), np.float32)
    array[:] = group.rank
    group.allreduce(array, out=array)
    equal(array, np.full(1000, sum(range(group.size)), np.float32))
    array[0] = group.rank
    group.barrier()
    for r in range(group.size):
        assert group.peer(array, r)[0] == r
    group.barrier()
    group.free_shared(array)


def wrong(group):
    def refuses(kind, text, work):
        try:
            work()
        except kind as error:
            assert text in str(error), error
        else:
            raise AssertionError(f"no {kind.__name__}")

    refuses(lockstep.ArgumentError, "complex128",
            lambda: group.allreduce(np.ones(2, complex)))
    refuses(lockstep.ArgumentError, "no reduction",
            lambda: group.allreduce(np.ones(2), "mean"))
    refuses(lockstep.ArgumentError, "should be a writable",
            lambda: group.allreduce(np.ones(2), out=np.empty(3)))
    refuses(lockstep.ArgumentError, "one entry a rank",
            lambda: group.alltoall(np.ones(group.size + 1)))
    refuses(ValueError, "there is no rank",
            lambda: group.bcast(np.ones(2), root=group.size))
    assert group.allreduce(1) == group.size  # it goes on
    count = 2 if group.rank == 0 else 3
    refuses(lockstep.MismatchError, "count differs",
            lambda: group.allreduce(np.ones(count)))


class Groups(unittest.TestCase):
    def test_everything(self):
        for size in SIZES:
            run(size, everything)

    def test_other_things(self):
        for size in SIZES:
            run(size, other_things)

    def test_shared(self):
        for size in SIZES:
            run(size, shared)

    def test_wrong(self):
        run(2, wrong)

    def test_dead(self):
        def work(group):
            if group.rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            then = time.monotonic()
            with self.assertRaisesRegex(lockstep.PeerDeadError, "rank 1 "):
                group.barrier()
            self.assertLess(time.monotonic() - then, 2)
        run(3, work, [0, -signal.SIGKILL, 0])

    def test_late(self):
        def work(group):
            if group.rank == 1:
                with self.assertRaises(lockstep.Error):
                    while True:
                        group.recv(np.empty(1), 0)
            else:
                with self.assertRaisesRegex(TimeoutError, "rank 1 "):
                    group.barrier()
        run(2, work, timeout=0.5)

    def test_interrupt(self):
        """Ctrl-C ends a wait at once, and abort those of the others."""
        def work(group):
            if group.rank == 0:
                with self.assertRaisesRegex(lockstep.AbortedError, "rank 1 "):
                    group.recv(np.empty(1), 1)
                return
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            signal.signal(signal.SIGALRM, signal.default_int_handler)
            then = time.monotonic()
            with self.assertRaises(KeyboardInterrupt):
                group.barrier()
            self.assertLess(time.monotonic() - then, 5)
            group.abort()
        run(2, work)

    def test_store(self):
        class Files:
            """In a folder that all processes see."""

            def __init__(self, path):
                self.path = path

            def name(self, key):
                return os.path.join(self.path, key.replace("/", "_"))

            def set(self, key, value):
                with open(self.name(key) + ".new", "wb") as file:
                    file.write(value)
                os.rename(self.name(key) + ".new", self.name(key))

            def get(self, key):
                while not os.path.exists(self.name(key)):
                    time.sleep(0.001)
                with open(self.name(key), "rb") as file:
                    return file.read()

        import tempfile
        with tempfile.TemporaryDirectory() as folder:
            pids = []
            for rank in range(3):
                pid = os.fork()
                if pid == 0:
                    status = 1
                    try:
                        with lockstep.Group.open("default", rank, 3,
                                                 Files(folder), 60) as group:
                            status = int(group.allreduce(1) != 3)
                    finally:
                        os._exit(status)
                pids.append(pid)
            for pid in pids:
                self.assertEqual(os.waitpid(pid, 0)[1], 0)

    def test_closed(self):
        group = lockstep.Group.open("alone", 0, 1)
        group.close()
        group.close()
        with self.assertRaisesRegex(lockstep.ArgumentError, "closed"):
            group.barrier()


if __name__ == "__main__":
    unittest.main(verbosity=2)
