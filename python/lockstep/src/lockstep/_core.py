"""Resources of a group: requests, the arrays that they use, and shared buffers.

A handler of a signal, such as that of Ctrl-C, may raise between any two
bytecodes. So each object is registered here, together with its arrays, before C
writes a handle into it. The bytecode that calls C also stores the status that C
returns for a request. Memory that C may still read or write is freed only
after C has released it.
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

_MOST_TESTED = 4  # dropped requests tested before a new one starts
_Made = TypeVar("_Made")

SLICE = (0.05,)  # seconds between two checks for Python's signals

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

# Groups that have not been closed, even if the program has dropped them. C makes
# progress on the requests of one group while it waits in another.
_open: set[Core] = set()

# The arrays of requests that were in flight when their group was closed. Another
# rank may be reading them, so they stay until the process ends.
_left: list[Any] = []

# Also while the interpreter ends, which empties its modules.
for _kept in (_open, _left):
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_kept))


class Flight(weakref.ref):  # type: ignore[type-arg]
    """A request in the C library, and the arrays that this request reads and writes.

    A Flight is a weak reference to the Request. When the program drops the Request,
    the callback of the weak reference appends the Flight to the dropped flights. The
    callback is a C function.
    """

    __slots__ = ("handle", "kept", "last")
    __hash__ = object.__hash__  # not those of the Request, which may be gone
    __eq__ = object.__eq__

    handle: c_void_p
    kept: tuple[Any, ...]
    last: list[int]  # one number: the last status that C returned

    def ask(self, function: Callable[..., int],
            *arguments: tuple[Any]) -> bool:
        """Call ls_test or ls_wait_for, and return True if the request is complete.

        One bytecode calls C and stores the status.
        """
        last = self.last
        if last[0] == IN_PROGRESS and self.handle.value is not None:
            last[:] = map(function, (self.handle,), *arguments)
            return last[0] != IN_PROGRESS
        return True

    def free(self) -> None:
        """Free a complete request."""
        _free_request(byref(self.handle))  # which may be NULL
        self.kept = ()

    def touches(self, begin: int, end: int) -> bool:
        """Return True if the request uses memory between `begin` and `end`."""
        return any(begin <= array.ctypes.data < end for array in self.kept
                   if hasattr(array, "ctypes"))


def _memory(address: int, size: int) -> Any:
    """Wrap memory in an object that arrays can use and weak references can refer to."""
    kind: Any = type("Shared", (ctypes.c_ubyte * size,), {})
    return kind.from_address(address)


class Buffer:
    """Memory that all ranks of one machine share."""

    def __init__(self, size: int) -> None:
        self.handle = c_void_p()
        self.size = size
        self.block: Callable[[], Any] = lambda: None  # the object that its arrays keep alive
        self.mapping = c_void_p()  # all ranks' parts, once this object owns them
        self.mapped = c_size_t()

    @property
    def begin(self) -> int:
        return self.handle.value or 0

    def of_peer(self, address: int, size: int) -> Any:
        """Return another rank's part of the buffer, as an object for arrays.

        The object keeps the whole buffer alive.
        """
        block = _memory(address, max(size, 1))
        block.owner = self.block()
        return block

    def unmap(self) -> None:
        """Unmap the memory. Call this only when no array uses the memory."""
        at = self.mapping.value
        if at is not None:
            self.mapping.value = None  # first, so that it is never unmapped twice
            _munmap(at, self.mapped)

    def outlive(self, block: Any) -> None:
        """Unmap the memory when the last array that uses it is freed."""
        if block is None:
            self.unmap()
        else:
            finalizer = weakref.finalize(block, self.unmap)
            finalizer.atexit = False  # arrays may still exist after that


class Core:
    """A group in the C library, and the group's requests and shared buffers."""

    def __init__(self) -> None:
        self.handle = c_void_p()
        self.flights: set[Flight] = set()  # those that C has not released
        self.dropped: Deque[Flight] = collections.deque()
        self.buffers: list[Buffer] = []
        self.process = os.getpid()
        _open.add(self)

    @classmethod
    def make(cls, start: Callable[[Any], Any],
             use: Callable[[Core], _Made]) -> _Made:
        """Open a group with the C function `start`, and return use(core)."""
        core = cls()
        try:
            start(byref(core.handle))
            return use(core)
        except BaseException:
            core.close()
            raise

    def is_none(self) -> bool:
        """Return True if the C library made no group for this rank.

        In this case, the call also closes the object.
        """
        if self.handle.value is None:
            self.close()
            return True
        return False

    @property
    def opened(self) -> c_void_p:
        if self.handle.value is None:
            raise ArgumentError("the group is closed; make this call before close()")
        return self.handle

    # ---- requests ----

    def flight_of(self, request: Request, kept: tuple[Any, ...]) -> Flight:
        """Create a Flight for a request. Add the Flight to `flights` before calling C."""
        flight = Flight(request, self.dropped.append)
        flight.handle = c_void_p()
        flight.kept = kept
        flight.last = [IN_PROGRESS]
        return flight

    def remove(self, flight: Flight) -> None:
        """Free a complete request, and remove its Flight from `flights`."""
        flight.free()
        self.flights.discard(flight)

    def sweep(self) -> None:
        """Check a few requests that the program dropped, and free the complete ones."""
        if self.process != os.getpid():
            return
        for _ in range(min(len(self.dropped), _MOST_TESTED)):
            flight = self.dropped[0]
            if flight.ask(test_request):
                self.remove(flight)
                self.dropped.popleft()
            else:
                self.dropped.rotate(-1)

    # ---- shared memory ----

    def share(self, size: int) -> Any:
        """Allocate shared memory, and return an object from which arrays can be made.

        The memory stays until free_buffer or close. If arrays use the memory when the
        group is closed, the memory stays as long as these arrays.
        """
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

    def free_buffer(self, buffer: Buffer) -> None:
        """Free the buffer on all ranks. Collective.

        First waits for the requests that use the buffer.
        """
        parts = [_library.ask("ls_shared_peer", self.opened, buffer.begin, rank)
                 for rank in range(_library.ask("ls_group_size", self.opened))]
        first = min(part for part in parts if part is not None)
        end = max(part for part in parts if part is not None) + buffer.size
        for flight in list(self.flights):
            if flight.touches(first, end):
                while not flight.ask(wait_for_request, SLICE):
                    pass  # where Python runs the handlers of signals
        # Remaining arrays get private zeros, so that they can still be read. One
        # bytecode does both, so that no signal handler sees unmapped memory.
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
            raise StateError("free_shared: the memory was freed, and then another thread "
                             "mapped other memory at its address. Do not use the "
                             "remaining arrays of the freed memory")

    # ---- the end ----

    def close(self) -> None:
        """Leave the group. If a signal interrupts this call, call it again."""
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
        """Store the result or the error of each request that is complete."""
        for flight in list(self.flights):
            request = flight()
            if request is None:
                if flight.ask(test_request):
                    self.remove(flight)
                continue
            try:
                request.test()
            except Error:
                pass  # wait() raises it

    def _keep(self, buffer: Buffer) -> None:
        """Keep the memory mapped after close, as long as an array uses it."""
        block = buffer.block()
        if block is None or buffer.handle.value is None:
            return
        if buffer.mapping.value is None:
            call_on("ls_shared_keep", self.handle, buffer.handle,
                 byref(buffer.mapping), byref(buffer.mapped))
        buffer.outlive(block)


def in_flight_at_close() -> StateError:
    return StateError(
        "the group was closed while this request was in flight, so the request has no "
        "result; call wait() on all requests before close()")
