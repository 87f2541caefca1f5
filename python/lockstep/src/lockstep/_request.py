"""Requests, and functions that check the arguments of calls."""

from __future__ import annotations

import copy
import functools
import time
from ctypes import byref, c_int, c_void_p
from typing import (Any, Callable, Iterable, Optional, Sequence, TypeVar, cast,
                    get_args)

import numpy as np
from numpy.typing import NDArray

from . import _library
from ._core import (SLICE, Core, Flight, in_flight_at_close, test_request,
                    wait_for_request)
from ._library import IN_PROGRESS, Error, call, call_on
from ._types import DTypeName, ReduceOp

_NUMBERS = (0, 1, 2, 4, 5, 6, 7, 8)  # of ls_dtype; NumPy has no bfloat16, 3
_TYPES = {np.dtype(name): number
          for name, number in zip(get_args(DTypeName), _NUMBERS)}
_OPS: tuple[str, ...] = get_args(ReduceOp)
_POLLS = 300  # polls without a sleep between them
_LONGEST = 1e-3  # seconds of the longest sleep between two polls

Array = NDArray[Any]
_Method = TypeVar("_Method", bound=Callable[..., Any])


def type_of(array: Array) -> int:
    if array.dtype not in _TYPES:
        names = ", ".join(str(dtype) for dtype in _TYPES)
        raise _library.ArgumentError(
            f"cannot send arrays of {array.dtype}; use one of {names}")
    return _TYPES[array.dtype]


def op_of(op: str) -> int:
    if not isinstance(op, str):
        hint = "; pass an array for the result as out=" if isinstance(op, np.ndarray) else ""
        kind = "an array" if hint else f"of type {type(op).__name__}"
        raise _library.ArgumentTypeError(
            f"op is {kind}{hint or '; it must be a str'}")
    if op not in _OPS:
        raise _library.ArgumentError(
            f"unknown reduction '{op}'; use one of {', '.join(_OPS)}")
    return _OPS.index(op)


def contiguous(data: Any) -> Array:
    array = np.asarray(data)
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def at(array: Optional[Array]) -> Optional[int]:
    return None if array is None else array.ctypes.data


def writable(array: Any, what: str = "out") -> Array:
    """Return the array. Raise an error if no result can be written to it."""
    if not isinstance(array, np.ndarray):
        raise _library.ArgumentTypeError(f"{what} is of type {type(array).__name__}; "
                                         "it must be a NumPy array")
    if not array.flags.c_contiguous:
        raise _library.ArgumentError(
            f"{what} has shape {array.shape} and strides {array.strides}; it must "
            "be C-contiguous")
    if not array.flags.writeable:
        raise _library.ArgumentError(f"{what} is read-only; it must be writable")
    return array


def into(out: Optional[Array], shape: tuple[int, ...], dtype: Any) -> Array:
    """Return the array for a result: `out`, or a new array if `out` is None."""
    if out is None:
        return np.empty(shape, dtype)
    given = writable(out)
    if given.shape != shape or given.dtype != dtype:
        raise _library.ArgumentError(
            f"out has type {given.dtype} and shape {given.shape}; it must have type "
            f"{dtype} and shape {shape}")
    return given


def pause(polls: int) -> None:
    """Sleep before the next poll: at first not at all, later up to 1 ms."""
    time.sleep(max(0.0, min(_LONGEST, (polls - _POLLS) * 1e-5)))


class Request:
    """A call that may still be in progress. wait() returns the result of the call.

    The group keeps the arrays of a Request until the call is complete, even if the
    program drops the Request. Do not change the arrays until then. A later call on
    the group frees dropped Requests that are complete. When the group is closed,
    complete Requests keep their results. wait() and test() of other Requests then
    raise a StateError.

    Attributes:
        source: the rank that sent the message, after a receive is complete.
        tag: the tag of the message, after a receive is complete.
    """

    source: Optional[int] = None
    tag: Optional[int] = None

    def __init__(self, core: Core, result: Any, kept: tuple[Any, ...]) -> None:
        self._core = core
        self._result = result
        self._error: Optional[Error] = None
        self._at_end: Optional[Callable[[Request], None]] = None
        # None once complete, so that the flight ends before this object and does
        # not count as dropped.
        self._flight: Optional[Flight] = core.flight_of(self, kept)
        core.flights.add(self._flight)

    def _ask(self, function: Callable[..., int],
             *arguments: tuple[Any]) -> bool:
        """Return True if the request is complete. Raise its error if it has failed."""
        flight = self._flight
        if flight is not None:
            if self._core.handle.value is None and flight.last[0] == IN_PROGRESS:
                raise in_flight_at_close()
            if not flight.ask(function, *arguments):
                return False
            if flight.last[0] < 0 and self._error is None:
                self._error = _library.error_of(flight.last[0],
                                                self._core.handle)
            if self._error is None and self._at_end is not None:
                self._at_end(self)
            self._at_end = None
            self._core.remove(flight)
            self._flight = None
        if self._error is not None:
            raise copy.copy(self._error)  # a copy keeps no frames alive
        return True

    def test(self) -> bool:
        """Check whether the request is done, and make progress without waiting.

        Returns:
            True once the request is done.

        Raises:
            StateError: the group was closed while the request was in flight.
            Error: a rank is dead, late, or makes another call; close the group.
        """
        return self._ask(test_request)

    def is_over(self) -> bool:
        """Check whether the request is done or has failed, without raising its error.

        Returns:
            True once the request is done or has failed.
        """
        try:
            return self.test()
        except Error:
            return True

    def wait(self) -> Any:
        """Wait until the request is done. After Ctrl-C, wait() may be called again.

        Returns:
            The result of the call that made the request, such as an array; None
            if the call has no result.

        Raises:
            StateError: the group was closed while the request was in flight.
            Error: a rank is dead, late, or makes another call; close the group.
        """
        while not self._ask(wait_for_request, SLICE):
            pass  # where Python runs the handlers of signals
        return self._result

    def then(self, work: Callable[[Request], None]) -> Request:
        """Call a function when the request is done, before wait() returns.

        Args:
            work: the function; its argument is the request. It must not keep a
                reference to the request; otherwise the request is never dropped.

        Returns:
            This request.
        """
        self._at_end = work
        return self

    def find_sender(self) -> None:
        """Set `source` and `tag` when a receive is complete."""
        found = c_int()
        assert self._flight is not None
        handle = self._flight.handle
        call("ls_request_source", handle, byref(found))
        self.source = found.value
        call("ls_request_tag", handle, byref(found))
        self.tag = found.value


def wait_all(requests: Iterable[Optional[Request]]) -> list[Any]:
    """Wait until all requests are done.

    The requests may belong to different groups.
    If a request fails, wait_all still waits for the other requests. After Ctrl-C,
    wait_all may be called again.

    Args:
        requests: the requests; entries may be None.

    Returns:
        A list of the requests' results, in their order. An entry None gives None.

    Raises:
        Error: the error of the first of `requests` that has failed.
    """
    results: list[Any] = []
    first: Optional[Error] = None
    for request in requests:
        try:
            results.append(None if request is None else request.wait())
        except Error as error:
            first = first or error
    if first is not None:
        raise first
    return results


def wait_any(requests: Sequence[Optional[Request]]) -> Optional[int]:
    """Wait until one of the requests is done or has failed.

    The requests may belong to different groups. wait() of that request then returns
    its result, or raises its error, at once. To wait for the next request, replace
    that request by None. After Ctrl-C, wait_any may be called again.

    Args:
        requests: the requests; entries may be None.

    Returns:
        The index of that request; None if no request is left.
    """
    polls = 0
    while any(request is not None for request in requests):
        for i, request in enumerate(requests):
            if request is not None and request.is_over():
                return i
        polls += 1
        pause(polls)
    return None


def collective(name: str) -> Callable[[_Method], _Method]:
    """Decorate a method that starts a collective with the C function `name`.

    If Python refuses an argument on this rank, the collective fails on all ranks.
    """
    def wrap(method: _Method) -> _Method:
        @functools.wraps(method)
        def checked(self: Member, *arguments: Any, **named: Any) -> Any:
            try:
                return method(self, *arguments, **named)
            except _library.ArgumentError as error:
                if not error._is_of_library and self._core.handle.value is not None:
                    _library.refuse(name, self._core.handle)
                raise
        return cast(_Method, checked)
    return wrap


class Member:
    """Base class of Group: a rank that can start requests."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.rank: int = _library.ask("ls_group_rank", core.handle)
        self.size: int = _library.ask("ls_group_size", core.handle)

    @property
    def _open(self) -> c_void_p:
        return self._core.opened

    def _start(self, name: str, result: Any, kept: Sequence[Any],
               *arguments: Any) -> Request:
        core = self._core
        group = core.opened
        if core.dropped:
            core.sweep()
        request = Request(core, result, tuple(kept))
        flight = request._flight
        assert flight is not None
        call_on(name, group, *arguments, byref(flight.handle))
        return request
