#!/usr/bin/env python3
"""Arrays, requests and groups that end in any order, also by a raising handler."""
import gc
import os
import subprocess
import sys
import unittest
import weakref

from test_group import run  # exits with 77 without NumPy

import numpy as np

import lockstep
from lockstep import _core, _library

PACKAGE = os.path.dirname(lockstep.__file__)
ALONE = f"lifetimes {os.getpid()}"


def alone():
    return lockstep.Group.open(ALONE, 0, 1)


def raises(kind, text, work):
    try:
        work()
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"no {kind.__name__}")


def other(group, work):
    """A second group, by which the ranks still meet."""
    with lockstep.Group.open(f"other {os.getppid()}", group.rank, group.size,
                             timeout=30) as second:
        work(second)


# ---- the end of a group ----

def results_after_close(group):
    n, rank = group.size, group.rank
    result = group.iallreduce(np.full(1 << 16, rank + 1))
    message = group.irecv(np.empty(5), lockstep.ANY_RANK, 80)
    group.isend(np.arange(5.0), (rank + 1) % n, 80)
    never = group.irecv(np.empty(1000), (rank + 1) % n, 77)
    kept = weakref.ref(never._flight.kept[0])
    gone = group.irecv(np.empty(1000), (rank + 1) % n, 78)
    group.barrier()
    while not message.test():
        pass
    del gone

    def close(second):
        second.barrier()
        group.close()
        second.barrier()
    other(group, close)
    for _ in range(2):
        assert (result.wait() == n * (n + 1) // 2).all()
        assert message.wait()[4] == 4 and message.source == (rank - 1) % n
        raises(lockstep.StateError, "was closed while this request was in flight",
               never.wait)
        raises(lockstep.StateError, "call wait() on all requests before close()",
               never.test)
    del never
    gc.collect()
    assert kept() is not None  # another rank may be about to use it
    raises(lockstep.ArgumentError, "closed", group.ibarrier)
    assert group._core not in _core._open and not group._core.flights


def maps():
    with open("/proc/self/maps", encoding="ascii") as file:
        return sum("memfd" in line for line in file)


def memory_after_close(group):
    n, rank = group.size, group.rank

    def work(second):
        before = maps()
        part = group.split(0)
        own = part.shared_array((1 << 16,), np.int64)
        unused = part.shared_array(1 << 16)
        own[:] = rank
        part.barrier()
        theirs = part.peer(own[5:], (rank + 1) % n)
        del unused
        part.close()
        second.barrier()
        own[7] = 100 + rank
        piece = own[6:9]
        del own
        second.barrier()
        assert piece.tolist() == [rank, 100 + rank, rank]
        assert theirs[2] == 100 + (rank + 1) % n  # still shared
        assert theirs[-1] == (rank + 1) % n
        del piece
        assert maps() > before or n == 1
        assert theirs[2] == 100 + (rank + 1) % n
        del theirs
        gc.collect()
        assert maps() == before, (before, maps())
        second.barrier()
    other(group, work)


def memory_given_back(group):
    n, rank = group.size, group.rank
    array = group.shared_array((3, 1 << 10))
    array[:] = rank + 1
    group.barrier()
    theirs = group.peer(array, (rank + 1) % n)
    request = group.iallreduce(array, out=array)  # must be over first
    group.free_shared(array)
    assert request.wait() is array
    for there in (array, theirs, array[1:]):
        assert not there.any()
    array[:] = 7  # its own, and nobody else's
    assert not theirs.any() or n == 1
    raises(lockstep.ArgumentError, "not returned by shared_array",
           lambda: group.free_shared(array))
    again = group.shared_array((3, 1 << 10))
    assert not again.any()
    raises(lockstep.ArgumentError, "must be C-contiguous",
           lambda: group.peer(again[::-1], 0))
    raises(lockstep.Error, "", lambda: group.shared_array(1 << 48, np.uint8))
    group.free_shared(group.shared_array(100))  # found, after that failure
    r = None
    if n > 1:  # a message out of another rank's part is over before
        from_peer = group.peer(again, (rank + 1) % n)[0]
        again[:] = rank + 1
        group.barrier()
        if rank == 0:
            r = group.isend(from_peer, 1)
        elif rank == 1:
            got = np.zeros(1 << 10, from_peer.dtype)
            group.recv(got, 0)
            assert (got == 2).all()
        group.free_shared(again)
        assert r is None or r.test()
        again = group.shared_array((3, 1 << 10))
    before = maps()
    for _ in range(20):
        group.free_shared(group.shared_array(1 << 12))
    gc.collect()
    assert maps() == before and len(group._core.buffers) == 1


def averaged(group, first):
    """Gradients after the end of the averager, or of the group, in flight."""
    averager = lockstep.GradientAverager(
        group, {"a": np.zeros(1 << 15), "b": np.zeros(3)}, bucket_mb=0.01)
    averager.begin()
    for name in ("b", "a"):
        averager.gradients[name][...] = group.rank + 1
        averager.ready(name)
    gradients = averager.finish()
    mean = (group.size + 1) / 2
    assert (gradients["a"] == mean).all()
    kept = dict(gradients)
    averager.begin()
    averager.ready("b")
    averager.ready("a")  # in flight
    if first == "averager":
        averager.close()
        assert not kept["a"].any() and not kept["b"].any()
        averager.close()
        raises(lockstep.StateError, "closed", averager.begin)
        group.barrier()
        return
    while not all(request.test() for request in averager._in_flight()):
        pass
    group.barrier()
    group.close()
    assert np.allclose(kept["a"], mean * group.size)
    kept["a"][...] = 3
    averager.close()
    assert kept["a"][-1] == 3


# ---- what is dropped ----

def dropped(group):
    n, rank = group.size, group.rank
    ahead, behind = (rank + 1) % n, (rank - 1) % n
    arrays = []
    for i in range(500):
        array = np.full(2000, i)
        arrays.append(weakref.ref(array))
        group.isend(array, ahead)
        group.irecv(np.empty_like(array), behind)
        del array
        if i % 50 == 49:
            group.barrier()
    for _ in range(1000):  # later calls of the group free them
        group.ibarrier().wait()
    assert len(group._core.flights) <= 1, len(group._core.flights)
    assert not any(array() is not None for array in arrays)


def end_of_process(how):
    """A program that ends with arrays, requests and a group."""
    work = {
        "open": "",
        "closed": "group.close()",
        "interrupted": "raise KeyboardInterrupt"}[how]
    program = f"""
import sys
sys.path.insert(0, {os.path.abspath(os.path.dirname(PACKAGE))!r})
import numpy as np, lockstep
group = lockstep.Group.open("end {os.getpid()} {how}", 0, 1)
shared = group.shared_array(1000)
flying = group.irecv(np.empty(1000), 0)
group.irecv(np.empty(1000), 0)
class Late:
    def __del__(self):
        shared[:] = 3
late = Late()
sys.late = late
{work}
"""
    return subprocess.run([sys.executable, "-c", program], timeout=60,
                          capture_output=True, text=True)


# ---- a handler that raises ----

class Interrupt(BaseException):
    pass


def interrupted_after(name):
    """As a handler does that raises right after that C function has returned."""
    function = getattr(_library._library, name)

    def call(*arguments):
        function(*arguments)
        setattr(_library._library, name, function)
        raise Interrupt
    setattr(_library._library, name, call)


def started(group):
    """Collectives and messages whose start a handler has interrupted."""
    n, rank = group.size, group.rank
    ahead, behind = (rank + 1) % n, (rank - 1) % n
    for i, (name, start) in enumerate((
            ("ls_iall_reduce", lambda x, y: group.allreduce(x, out=y)),
            ("ls_iall_gather", lambda x, y: group.iallgather(x)),
            ("ls_isend", lambda x, y: group.send(x, ahead, 5)),
            ("ls_irecv", lambda x, y: group.recv(y, behind, 5)))):
        x, y = np.full(1 << 20, rank + 1.0), np.zeros(1 << 20)
        interrupted_after(name)
        raises(Interrupt, "", lambda: start(x, y))
        there = weakref.ref(x), weakref.ref(y)
        wanted = [flight for flight in group._core.flights
                  if any(array is x or array is y for array in flight.kept)]
        assert len(wanted) == 1, name
        del x, y, wanted
        if i != 2:  # the receive is the next
            while group.allreduce(int(there[0]() is not None or
                                      there[1]() is not None)) > 0:
                pass  # later calls free what is done


def in_package(code):
    return code.co_filename.startswith(PACKAGE)


def watch_by_trace(count):
    def trace(frame, event, _):
        if not in_package(frame.f_code):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            count()
        return trace
    sys.settrace(count and trace)


def watch_by_monitoring(count):
    def instruction(code, _):
        if not in_package(code):
            return monitoring.DISABLE
        return count()
    monitoring.register_callback(monitoring.DEBUGGER_ID, INSTRUCTION,
                                 count and instruction)
    monitoring.set_events(monitoring.DEBUGGER_ID, INSTRUCTION if count else 0)


# watch(count) calls count() ahead of each bytecode in the package; watch(None) ends
# that. Since Python 3.13, f_trace_opcodes is a property of the function, not of the
# call: it begins with the next call, and a call without sys.settrace ends it.
if sys.version_info >= (3, 12):
    monitoring = sys.monitoring
    INSTRUCTION = monitoring.events.INSTRUCTION
    monitoring.use_tool_id(monitoring.DEBUGGER_ID, "test_lifetimes")
    watch = watch_by_monitoring
else:
    watch = watch_by_trace


class EachBytecode:
    """Raises before the bytecode of that number in the package."""

    def __init__(self, number):
        self.left = number

    def count(self):
        self.left -= 1
        if self.left == 0:
            watch(None)
            raise Interrupt

    def run(self, work):
        """Whether it has raised."""
        watch(self.count)
        try:
            work()
        except Interrupt:
            pass
        finally:
            watch(None)
        return self.left <= 0  # what ends with an array cannot raise


def at_each_bytecode(work, check, step=1):
    """How many there are; check() after each that has raised."""
    hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        return _at_each(work, check, step)
    finally:
        sys.unraisablehook = hook


def _at_each(work, check, step):
    number = 1
    while True:
        each = EachBytecode(number)
        if not each.run(work):
            return number - 1
        check()
        number += step


class Lifetimes(unittest.TestCase):
    def test_results_after_close(self):
        for size in (1, 2, 3):
            run(size, results_after_close)

    def test_memory_after_close(self):
        for size in (1, 2, 3):
            run(size, memory_after_close)

    def test_memory_given_back(self):
        for size in (1, 2, 3):
            run(size, memory_given_back)

    def test_averager(self):
        for size in (1, 3):
            for first in ("averager", "group"):
                run(size, lambda group, first=first: averaged(group, first))

    def test_dropped(self):
        for size in (1, 2, 3):
            run(size, dropped)

    def test_end_of_process(self):
        for how, status in (("open", 0), ("closed", 0), ("interrupted", -2)):
            with self.subTest(how):
                ended = end_of_process(how)
                self.assertEqual(ended.returncode, status, ended.stderr)

    def test_interrupted_start(self):
        for size in (1, 2, 3):
            run(size, started)

    def test_each_bytecode(self):
        """Operations of a group that goes on."""
        group = alone()
        self.addCleanup(group.close)
        x = np.arange(1000.0)
        out = np.empty_like(x)

        def messages():
            receive = group.irecv(out, 0, 3)
            group.isend(x, 0, 3)
            receive.wait()
            assert receive.source == 0 and (out == x).all()

        def still_works():
            while group._core.flights:  # the received values do not matter
                if group.iprobe() is not None:
                    group.recv(np.empty_like(x), 0, lockstep.ANY_TAG)
                elif not group._core.dropped:
                    break
                else:
                    group.isend(x, 0, 3)
                    group.barrier()
            assert not group._core.flights, group._core.flights
            for buffer in list(group._core.buffers):
                if buffer.begin:
                    group._core.free_buffer(buffer)
            group._core.buffers.clear()  # without memory, if there are some
            assert group.allreduce(1) == 1

        def shared():
            array = group.shared_array(100)
            array[:] = 1
            assert group.peer(array, 0)[99] == 1
            group.free_shared(array)

        counts = {}
        for work in (lambda: group.allreduce(x, out=out), messages,
                     lambda: group.alltoallv(x, [1000], None, out, [0], [0]),
                     shared):
            counts[work.__code__.co_firstlineno] = at_each_bytecode(
                work, still_works)
        self.assertTrue(all(n > 50 for n in counts.values()), counts)

    def test_each_bytecode_of_wait(self):
        """A wait that is interrupted can be repeated, whenever that was."""
        group = alone()
        self.addCleanup(group.close)
        for number in range(1, 1000):
            request = group.irecv(np.empty(10), 0, 3)
            group.send(np.arange(10.0), 0, 3)
            raised = EachBytecode(number).run(request.wait)
            self.assertEqual(request.wait()[9], 9)
            self.assertEqual((request.source, request.tag), (0, 3))
            if not raised:
                break
        self.assertGreater(number, 20)
        self.assertFalse(raised)

    def test_each_bytecode_of_groups(self):
        """Opening, dividing and closing: what was made is closed."""
        before = len(_core._open)
        groups = []

        def life():
            with alone() as group:
                groups.append(group)
                array = group.shared_array(10)
                groups.append(array)
                groups.append(group.irecv(np.empty(3), 0))
                part = group.split(0)
                groups.append(part)

        def closes():
            for thing in groups:
                if isinstance(thing, lockstep.Group):
                    thing.close()
                    thing.close()
            for thing in groups:
                if isinstance(thing, np.ndarray):
                    thing[:] = 3
            groups.clear()
            # Between the end of a call and what its result is stored in
            # nobody can close it.
            for core in list(_core._open)[:]:
                core.close()

        count = at_each_bytecode(life, closes, 3)
        self.assertGreater(count, 100)
        closes()
        self.assertEqual(len(_core._open), before)

    def test_each_bytecode_of_averager(self):
        """After one that was interrupted no step can be taken for right."""
        group = alone()
        self.addCleanup(group.close)
        weights = {"a": np.zeros(100), "b": np.zeros(3)}
        averagers = []

        def make():
            averagers.append(lockstep.GradientAverager(group, weights))

        def step():
            averager = averagers[0]
            averager.begin(2)
            averager.ready("b", np.ones(3))
            averager.ready("a", np.ones(100))
            assert averager.finish()["a"][99] == 0.5

        def check():
            for averager in averagers:
                gradients = dict(averager.gradients)
                halfway = averager._halfway
                averager.close()
                for gradient in gradients.values():
                    gradient[...] = 3
                if halfway:
                    raises(lockstep.StateError, "signal handler raised",
                           averager.begin)
            averagers.clear()
            for buffer in list(group._core.buffers):
                if buffer.begin:
                    group._core.free_buffer(buffer)
            group._core.buffers.clear()
            assert group.allreduce(1) == 1

        def check_step():
            check()
            make()

        self.assertGreater(at_each_bytecode(make, check, 5), 500)
        check_step()
        self.assertGreater(at_each_bytecode(step, check_step), 500)


if __name__ == "__main__":
    unittest.main(verbosity=2)
