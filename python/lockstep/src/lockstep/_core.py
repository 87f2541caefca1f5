"""What a group owns: its requests with their arrays, and its shared buffers.

A handler of a signal, such as that of Ctrl-C, may raise between any two
bytecodes. So C writes a handle only into an object that is registered here
already, together with the arrays that go with it; and what C returns about the
end of a request is stored by the bytecode that calls it. Nothing that C may
still read or write is freed before C has let go of it.
"""

from __future__ import annotations

import collections
import ctypes
import functools
import os
import weakref
from ctypes import byref, c_size_t, c_void_p
from typing import TYPE_CHECKING, Any, Callable, Deque, Optional, TypeVar

from . import _library
from ._library import IN_PROGRESS, ArgumentError, Error, StateError, call_on

if TYPE_CHECKING:
    from ._request import Request

_LOOKS = 4  # at dropped requests, before another one is started
_Made = TypeVar("_Made")

SLICE = (0.05,)  # seconds between two looks at Python's signals

test_request = _library._library.ls_test
wait_for_request = _library._library.ls_wait_for
_free = _library._library.ls_shared_free
_free_request = _library._library.ls_request_free
_munmap = ctypes.CDLL(None).munmap
_munmap.argtypes = [c_void_p, c_size_t]
_mmap = ctypes.CDLL(None).mmap
_mmap.argtypes = [c_void_p, c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int,
                  ctypes.c_long]
_mmap.restype = c_void_p
_READ_WRITE = 0x1 | 0x2
_AT_THAT_PLACE = 0x02 | 0x20 | 0x4000 | 0x100000  # private, no file, no reserve

# Groups that have not been closed, whoever has forgotten them: C moves on what
# is under way in one while it waits in another.
_open: set[Core] = set()

# The arrays of requests that were in flight when their group was closed. Another
# rank may be reading them, so they stay until the process ends.
_left: list[Any] = []

# Also while the interpreter ends, which empties its modules.
for _kept in (_open, _left):
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_kept))


class Flight(weakref.ref):  # type: ignore[type-arg]
    """A request of C's, with the arrays that it reads and writes.

    As a weak reference to the Request it says when nobody wants that any more:
    C code then appends it to what has been dropped.
    """

    __slots__ = ("handle", "kept", "last")
    __hash__ = object.__hash__  # not those of the Request, which may be gone
    __eq__ = object.__eq__

    handle: c_void_p
    kept: tuple[Any, ...]
    last: list[int]  # one number: what C has said last

    def ask(self, function: Callable[..., int],
            *arguments: tuple[Any]) -> bool:
        """Whether it is over, by ls_test or ls_wait_for.

        C is called, and its answer stored, by one bytecode.
        """
        last = self.last
        if last[0] == IN_PROGRESS and self.handle.value is not None:
            last[:] = map(function, (self.handle,), *arguments)
            return last[0] != IN_PROGRESS
        return True

    def free(self) -> None:
        """Of one that is over."""
        _free_request(byref(self.handle))  # which may be NULL
        self.kept = ()

    def touches(self, begin: int, end: int) -> bool:
        """Whether it reads or writes memory there."""
        return any(begin <= array.ctypes.data < end for array in self.kept
                   if hasattr(array, "ctypes"))


def _memory(address: int, size: int) -> Any:
    """Memory for arrays, to which weak references are possible."""
    kind: Any = type("Shared", (ctypes.c_ubyte * size,), {})
    return kind.from_address(address)


class Buffer:
    """Memory that the ranks of a machine share."""

    def __init__(self, size: int) -> None:
        self.handle = c_void_p()
        self.size = size
        self.block: Callable[[], Any] = lambda: None  # what its arrays keep
        self.mapping = c_void_p()  # all ranks' parts, once they are ours
        self.mapped = c_size_t()

    @property
    def begin(self) -> int:
        return self.handle.value or 0

    def of_peer(self, address: int, size: int) -> Any:
        """Another rank's part; its arrays keep the whole."""
        block = _memory(address, max(size, 1))
        block.owner = self.block()
        return block

    def unmap(self) -> None:
        """No array is left."""
        at = self.mapping.value
        if at is not None:
            self.mapping.value = None  # first: better never than twice
            _munmap(at, self.mapped)

    def outlive(self, block: Any) -> None:
        """The mapping is given back with the last array."""
        if block is None:
            self.unmap()
        else:
            finalizer = weakref.finalize(block, self.unmap)
            finalizer.atexit = False  # arrays may be there after that


class Core:
    """A group of C's, and all that belongs to it."""

    def __init__(self) -> None:
        self.handle = c_void_p()
        self.flights: set[Flight] = set()  # all that C has not let go of
        self.dropped: Deque[Flight] = collections.deque()
        self.buffers: list[Buffer] = []
        self.process = os.getpid()
        _open.add(self)

    @classmethod
    def make(cls, start: Callable[[Any], Any],
             use: Callable[[Core], _Made]) -> _Made:
        """What `use` makes of the group that a C function has put there."""
        core = cls()
        try:
            start(byref(core.handle))
            return use(core)
        except BaseException:
            core.close()
            raise

    def is_none(self) -> bool:
        """Whether C has made no group for this rank; it is then over."""
        if self.handle.value is None:
            self.close()
            return True
        return False

    @property
    def opened(self) -> c_void_p:
        if self.handle.value is None:
            raise ArgumentError("the group has been closed")
        return self.handle

    # ---- requests ----

    def flight_of(self, request: Request, kept: tuple[Any, ...]) -> Flight:
        """To be added to `flights` before C sees it."""
        flight = Flight(request, self.dropped.append)
        flight.handle = c_void_p()
        flight.kept = kept
        flight.last = [IN_PROGRESS]
        return flight

    def remove(self, flight: Flight) -> None:
        """What is over."""
        flight.free()
        self.flights.discard(flight)

    def sweep(self) -> None:
        """Frees what has been dropped and is done; looks at a few."""
        if self.process != os.getpid():
            return
        for _ in range(min(len(self.dropped), _LOOKS)):
            flight = self.dropped[0]
            if flight.ask(test_request):
                self.remove(flight)
                self.dropped.popleft()
            else:
                self.dropped.rotate(-1)

    # ---- shared memory ----

    def share(self, size: int) -> Any:
        """Shared memory; an array of it keeps it."""
        buffer = Buffer(size)
        self.buffers.append(buffer)
        try:
            call_on("ls_shared_alloc", self.opened, c_size_t(size),
                 byref(buffer.handle))
        except Error:
            self.buffers.remove(buffer)
            raise
        block = _memory(buffer.begin, size)
        buffer.block = weakref.ref(block)
        return block

    def find(self, address: int) -> Optional[Buffer]:
        for buffer in self.buffers:
            begin = buffer.handle.value
            if begin is not None and begin <= address < begin + buffer.size:
                return buffer
        return None

    def give_back(self, buffer: Buffer) -> None:
        """Collective; once what is under way there is over."""
        parts = [_library.ask("ls_shared_peer", self.opened, buffer.begin, rank)
                 for rank in range(_library.ask("ls_group_size", self.opened))]
        first = min(part for part in parts if part is not None)
        end = max(part for part in parts if part is not None) + buffer.size
        for flight in list(self.flights):
            if flight.touches(first, end):
                while not flight.ask(wait_for_request, SLICE):
                    pass  # where Python runs the handlers of signals
        # Arrays that are left get private zeros there, and no fault. One
        # bytecode does both, so that no handler sees memory that is not there.
        done: list[Any] = list(map(functools.partial.__call__, [
            functools.partial(_free, self.opened, byref(buffer.handle)),
            functools.partial(_mmap, first, end - first, _READ_WRITE,
                              _AT_THAT_PLACE, -1, 0)]))
        if done[1] == first:
            buffer.mapping.value, buffer.mapped.value = first, end - first
            buffer.outlive(buffer.block())
        if buffer.handle.value is None:
            self.buffers.remove(buffer)
        _library.check(done[0], self.opened)
        if done[1] != first and buffer.block() is not None:
            raise StateError("another thread has mapped memory where the "
                             "freed buffer was: do not use the arrays of it "
                             "that are left")

    # ---- the end ----

    def close(self) -> None:
        """Leaves the group. Can be repeated if a signal has interrupted it."""
        if self.handle.value is not None:
            if self.process == os.getpid():
                self._settle()
            for buffer in self.buffers:
                self._keep(buffer)
            _left.extend(flight.kept for flight in self.flights)
            _library.ask("ls_group_close", byref(self.handle))
        self.flights.clear()
        self.dropped.clear()
        self.buffers.clear()
        _open.discard(self)

    def _settle(self) -> None:
        """What is done by now has its result, or its error."""
        for flight in list(self.flights):
            request = flight()
            if request is None:
                if flight.ask(test_request):
                    self.remove(flight)
                continue
            try:
                request.test()
            except Error:
                pass  # for who waits for it

    def _keep(self, buffer: Buffer) -> None:
        """Memory of which there are arrays is theirs from now on."""
        block = buffer.block()
        if block is None or buffer.handle.value is None:
            return
        if buffer.mapping.value is None:
            call_on("ls_shared_keep", self.handle, buffer.handle,
                 byref(buffer.mapping), byref(buffer.mapped))
        buffer.outlive(block)


def in_flight_at_close() -> StateError:
    return StateError(
        "the group was closed while this request was in flight, so it has no "
        "result; call wait() on all requests before close()")
