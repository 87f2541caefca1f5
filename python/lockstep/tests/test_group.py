#!/usr/bin/env python3
"""The package on 1, 2, 3 and 5 processes, compared with NumPy alone.

Exits with 77 without NumPy.
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


def some_times(play):
    """play(factor), and if it goes wrong again with more time: a busy machine
    may keep a process from its CPU for long."""
    for factor in (1, 4, 16):
        try:
            return play(factor)
        except AssertionError:
            if factor == 16:
                raise


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


# ---- counts of their own ----

def counted(of, to=0, empty=False):
    """Rows: none, one and more; of some only the last rank has any."""
    return (of * 3 + to * 5 + 2) % 7 if not empty else 4 * (of == 2)


def begins(counts):
    return np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(int)


def gathers_counted(group, row, dtype, empty):
    n, rank = group.size, group.rank
    counts = [counted(r, 0, empty) for r in range(n)]
    parts = [data(r, (counts[r], *row), dtype) for r in range(n)]
    mine, whole = parts[rank], np.concatenate(parts)
    equal(group.allgatherv(mine), whole)
    equal(group.allgatherv(mine, counts), whole)
    begin = begins(counts)[rank]
    out = np.zeros_like(whole)
    out[begin:begin + len(mine)] = mine
    place = out[begin:begin + len(mine)]
    assert group.allgatherv(place, np.array(counts), out=out) is out  # in place
    equal(out, whole)
    # From the last rank to the first, with a row between two.
    displs = (begins([c + 1 for c in reversed(counts)]))[::-1]
    out = np.full((len(whole) + n, *row), 77, dtype)
    want = out.copy()
    for r in range(n):
        want[displs[r]:displs[r] + counts[r]] = parts[r]
    equal(group.iallgatherv(mine, counts, out, displs).wait(), want)
    sums = np.sum([data(r, whole.shape, dtype) for r in range(n)],
                  axis=0).astype(dtype)
    block = slice(begin, begin + counts[rank])
    whole = data(rank, whole.shape, dtype)
    equal(group.reduce_scatterv(whole, counts), sums[block])
    largest = np.max([data(r, whole.shape, dtype) for r in range(n)], axis=0)
    equal(group.ireduce_scatterv(whole, counts, "max").wait(), largest[block])
    group.reduce_scatterv(whole, counts, out=whole[block])  # in place
    equal(whole[block], sums[block])


def exchanges_counted(group, row, dtype, empty):
    n, rank = group.size, group.rank
    table = [[counted(r, to, empty) for to in range(n)] for r in range(n)]
    sent = [data(r, (sum(table[r]), *row), dtype) for r in range(n)]
    parts = [np.split(sent[r], np.cumsum(table[r])[:-1])[rank] for r in range(n)]
    want = np.concatenate(parts)
    going, coming = table[rank], [table[r][rank] for r in range(n)]
    equal(group.alltoallv(sent[rank], going), want)
    out = np.empty_like(want)
    assert group.alltoallv(sent[rank], going, coming, out) is out
    equal(out, want)
    # Blocks of which the last lies first, on both sides.
    there = begins(going[::-1])[::-1]
    turned = np.concatenate(np.split(sent[rank], np.cumsum(going)[:-1])[::-1])
    here = begins(coming[::-1])[::-1]
    request = group.ialltoallv(turned, going, coming, None, there, here)
    equal(request.wait(), np.concatenate(parts[::-1]))


def with_counts(group):
    for row in ((), (3,), (2, 5), (4001,)):
        for dtype in ("float32", "int64", "bool"):
            for empty in (False, True):
                if dtype != "bool":
                    gathers_counted(group, row, dtype, empty)
                exchanges_counted(group, row, dtype, empty)
    # Several at once, waited for in another order.
    n, rank = group.size, group.rank
    counts = [r + 1 for r in range(n)]
    many = [group.iallgatherv(np.full(rank + 1, rank * i), counts)
            for i in range(10)]
    for i in reversed(range(10)):
        equal(many[i].wait(), np.repeat(np.arange(n) * i, counts))


# ---- messages ----

def tagged(group):
    n, rank = group.size, group.rank
    ahead, behind = (rank + 1) % n, (rank - 1) % n
    sent = [group.isend(np.full(100 * tag + 1, rank + tag), ahead, tag)
            for tag in range(4)]
    for tag in (2, 0, 3, 1):
        equal(group.recv(np.empty(100 * tag + 1, int), behind, tag),
              np.full(100 * tag + 1, behind + tag))
    for request in sent:
        assert request.wait() is None
    group.barrier()
    # All to rank 0, who does not know from whom, how long, or in what order.
    if rank:
        group.send(np.arange(rank * 1000), 0, 10 + rank)
    else:
        missing = set(range(1, n))
        while missing:
            found = group.probe()
            assert found == group.iprobe(found.source, found.tag)
            assert found.tag == 10 + found.source
            assert found.bytes == found.source * 8000
            out = np.empty(found.bytes // 8, int)
            request = group.irecv(out, found.source, lockstep.ANY_TAG)
            equal(request.wait(), np.arange(found.source * 1000))
            assert (request.source, request.tag) == found[:2]
            missing.remove(request.source)
    group.barrier()
    assert group.iprobe() is None
    group.barrier()
    if rank:
        group.send(np.array([rank]), 0)
    else:
        came = np.empty((n - 1, 1), int)
        for row in came:
            request = group.irecv(row, lockstep.ANY_RANK)
            assert request.wait()[0] == request.source
            assert request.tag == 0
        equal(np.sort(came[:, 0]), np.arange(1, n))


# ---- several requests ----

def several(group):
    n, rank = group.size, group.rank
    ahead, behind = (rank + 1) % n, (rank - 1) % n
    for count in (0, 1, 7, 20011):
        out = np.empty(count, int)
        sent = np.full(count, rank)
        got = lockstep.wait_all([
            group.iallreduce(sent), None, group.irecv(out, behind, 3),
            group.isend(sent, ahead, 3)])
        equal(got[0], np.full(count, n * (n - 1) // 2))
        assert got[1] is None and got[2] is out and got[3] is None
        equal(out, np.full(count, behind))
    # They come in the order in which they are sent.
    outs = [np.empty(k + 1, int) for k in range(3)]
    waiting = [group.irecv(outs[k], behind, k) for k in range(3)]
    for k in (1, 2, 0):
        going = group.isend(np.full(k + 1, rank + k), ahead, k)
        assert lockstep.wait_any(waiting) == k
        equal(waiting[k].wait(), np.full(k + 1, behind + k))
        waiting[k] = None
        going.wait()
        group.barrier()
    assert lockstep.wait_any(waiting) is None
    assert lockstep.wait_any([]) is None and lockstep.wait_all([]) == []


def one_fails(group):
    """Rank 0 dies; what is in flight in another group is waited for."""
    others = group.split(0 if group.rank else -1)
    doomed = group.irecv(np.empty(1), 0) if group.rank else None
    group.barrier()
    if group.rank == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    requests = [others.iallreduce(1), doomed, others.iallreduce(2)]
    try:
        lockstep.wait_all(requests)
    except lockstep.PeerDeadError as error:
        assert error.rank == 0, error.rank
    else:
        raise AssertionError("no PeerDeadError")
    assert requests[0].wait() == 2 and requests[2].wait() == 4
    pair = [others.irecv(np.empty(1), 1 - others.rank), requests[1]]
    assert lockstep.wait_any(pair) == 1  # has failed, and says so in wait()
    others.barrier()  # nothing is sent before
    others.send(np.ones(1), 1 - others.rank)
    assert pair[0].wait() == 1


def both_ways(group):
    n, rank = group.size, group.rank
    ahead, behind = (rank + 1) % n, (rank - 1) % n
    for count in (0, 1, 7, 300007):  # the last is too long to be kept
        out = np.empty(count + behind, int)
        assert group.sendrecv(np.full(count + rank, rank), ahead, out, behind,
                              5) is out
        equal(out, np.full(count + behind, behind))
    x = np.ones(4)
    for text, call in (
            ("overlap", lambda: group.sendrecv(x[:2], ahead, x[1:3], behind)),
            ("rank 99", lambda: group.sendrecv(x[:1], 99, x[1:], behind)),
            ("tag is -1", lambda: group.sendrecv(x[:1], ahead, x[1:], behind,
                                                 lockstep.ANY_TAG))):
        try:
            call()
        except lockstep.ArgumentError as error:
            assert text in str(error), error
        else:
            raise AssertionError(text)
    group.barrier()


def timeouts(group):
    for seconds in (2.5, 0, None):
        group.set_timeout(seconds)
    try:
        group.set_timeout(-1)
    except lockstep.ArgumentError as error:
        assert "the timeout is -1 s" in str(error), error
    else:
        raise AssertionError("a timeout of -1 s was accepted")


# ---- bools and factors ----

def truths(group):
    n, rank = group.size, group.rank
    for count in (0, 1, 7, 4099):
        every = np.stack([(np.arange(count) * (r + 3) // 5) % 3 == 0
                          for r in range(n)])
        mine = every[rank]
        for op, reduce in (("sum", np.any), ("max", np.any), ("bor", np.any),
                           ("prod", np.all), ("min", np.all), ("band", np.all)):
            equal(group.allreduce(mine, op), reduce(every, axis=0))
        equal(group.allreduce(mine, "bxor"), every.sum(axis=0) % 2 == 1)
        equal(group.allgather(mine), every)
        equal(group.reduce_scatter(np.stack([mine] * n)), every.any(axis=0))


def factors(group):
    n, rank = group.size, group.rank
    every = np.stack([data(r, (n, 301), "float64") for r in range(n)])
    want = np.tensordot(np.arange(1, n + 1), every, 1)
    equal(group.allreduce(every[rank], factor=rank + 1), want)
    equal(group.reduce_scatter(every[rank], factor=rank + 1), want[rank])
    half = group.allreduce(every[rank].astype("float16"), factor=0.5)
    equal(half, (every.sum(axis=0) / 2).astype("float16"))


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

    refuses(lockstep.ArgumentError, "cannot send arrays of complex128; use one of float32",
            lambda: group.allreduce(np.ones(2, complex)))
    refuses(lockstep.ArgumentError, "unknown reduction 'mean'; use one of sum",
            lambda: group.allreduce(np.ones(2), "mean"))
    refuses(lockstep.ArgumentError, "and shape (3,); it must have type float64 and "
            "shape (2,)", lambda: group.allreduce(np.ones(2), out=np.empty(3)))
    refuses(lockstep.ArgumentError, "one entry per rank",
            lambda: group.alltoall(np.ones(group.size + 1)))
    refuses(ValueError, "is not in the group",
            lambda: group.bcast(np.ones(2), root=group.size))
    refuses(lockstep.ArgumentError, "counts are [2]; pass one integer per rank (2), each 0 or more",
            lambda: group.allgatherv(np.ones(2), [2]))
    refuses(lockstep.ArgumentError, "displacements are [0, -2]; pass one integer per rank (2), "
            "each 0 or more",
            lambda: group.allgatherv(np.ones(2), [2, 2], displs=[0, -2]))
    refuses(lockstep.ArgumentError, "displacements need 3",
            lambda: group.alltoallv(np.ones(2), [1, 2], [1, 2]))
    refuses(lockstep.ArgumentError, "data is a number",
            lambda: group.allgatherv(1.0, [1, 1]))
    refuses(lockstep.ArgumentError, "needs the reduction 'sum'",
            lambda: group.allreduce(np.ones(2), "max", factor=2))
    refuses(lockstep.ArgumentError, "tag is -3",
            lambda: group.isend(np.ones(2), 0, -3))
    refuses(ValueError, "is not in the group", lambda: group.probe(9))
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

    def test_counts(self):
        for size in SIZES:
            run(size, with_counts)

    def test_messages(self):
        for size in SIZES:
            run(size, tagged)

    def test_several(self):
        for size in SIZES:
            run(size, several)
        run(3, one_fails, [-signal.SIGKILL, 0, 0])

    def test_both_ways(self):
        for size in SIZES:
            run(size, both_ways)

    def test_timeouts(self):
        run(1, timeouts)

    def test_bools(self):
        for size in SIZES:
            run(size, truths)

    def test_factors(self):
        for size in SIZES:
            run(size, factors)

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
        some_times(lambda _: run(3, work, [0, -signal.SIGKILL, 0]))

    def test_late(self):
        def work(group):
            if group.rank == 1:
                with self.assertRaises(lockstep.Error):
                    while True:
                        group.recv(np.empty(1), 0)
            else:
                with self.assertRaisesRegex(TimeoutError, "rank 1 "):
                    group.barrier()
        some_times(lambda factor: run(2, work, timeout=0.5 * factor))

    def test_interrupt(self):
        """Ctrl-C ends a wait at once, and abort those of the others."""
        def work(group, how):
            if group.rank == 0:
                with self.assertRaisesRegex(lockstep.AbortedError, "rank 1 "):
                    group.recv(np.empty(1), 1)
                return
            signal.signal(signal.SIGALRM, signal.default_int_handler)
            then = time.monotonic()
            with self.assertRaises(KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_REAL, 0.3)
                group.barrier() if how == "wait" else group.probe(0)
            self.assertLess(time.monotonic() - then, 5)
            group.abort()
        for how in ("wait", "probe"):
            run(2, lambda group, how=how: work(group, how))

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
