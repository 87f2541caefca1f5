"""What is under way, and what all kinds of calls have in common."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_int, c_void_p
from typing import Any, Callable, Optional, Sequence

import numpy as np
from numpy.typing import NDArray

from . import _library
from ._library import call, make

_TYPES = {np.dtype(name): number for number, name in enumerate(
    ("float32", "float64", "float16", None, "int8", "uint8", "int32", "int64",
     "bool")) if name is not None}
_OPS = ("sum", "avg", "min", "max", "prod", "band", "bor", "bxor")

_SLICE = 0.05  # seconds between two looks at Python's signals

Array = NDArray[Any]


def type_of(array: Array) -> int:
    if array.dtype not in _TYPES:
        names = ", ".join(str(dtype) for dtype in _TYPES)
        raise _library.ArgumentError(
            f"arrays of {array.dtype} do not travel; those of {names} do")
    return _TYPES[array.dtype]


def op_of(op: str) -> int:
    if op not in _OPS:
        raise _library.ArgumentError(
            f'"{op}" is no reduction; {", ".join(_OPS)} are')
    return _OPS.index(op)


def contiguous(data: Any) -> Array:
    array = np.asarray(data)
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def at(array: Optional[Array]) -> Optional[int]:
    return None if array is None else array.ctypes.data


def into(out: Optional[Array], shape: tuple[int, ...], dtype: Any) -> Array:
    """The array for a result: the caller's, if it fits, or a new one."""
    if out is None:
        return np.empty(shape, dtype)
    if out.shape != shape or out.dtype != dtype or not out.flags.c_contiguous \
            or not out.flags.writeable:
        raise _library.ArgumentError(
            f"out should be a writable C-contiguous array of {dtype} with shape "
            f"{shape}, but is one of {out.dtype} with shape {out.shape}")
    return out


class Request:
    """Something under way; wait() returns its result.

    The arrays that it reads and writes are kept, and must be left alone, until
    it is done. Of a receive that is done, `source` is the rank that has sent
    the message, and `tag` its tag.
    """

    source: Optional[int] = None
    tag: Optional[int] = None

    def __init__(self, handle: c_void_p, result: Any, *kept: Any) -> None:
        self._handle: Optional[c_void_p] = handle
        self._result = result
        self._kept = kept
        self._at_end: Optional[Callable[[], None]] = None

    def _over(self) -> None:
        if self._handle is not None:
            _library.ask("ls_request_free", byref(self._handle))
        self._handle = None
        self._kept = ()
        self._at_end = None

    def _ask(self, name: str, *arguments: Any) -> bool:
        """Whether it is done; what has failed is over, too."""
        if self._handle is None:
            return True
        try:
            if call(name, self._handle, *arguments) == _library.IN_PROGRESS:
                return False
        except _library.Error:
            self._over()
            raise
        if self._at_end is not None:
            self._at_end()
        self._over()
        return True

    def test(self) -> bool:
        """Moves it on; True once it is done."""
        return self._ask("ls_test")

    def wait(self) -> Any:
        """Returns the result once it is there. Ctrl-C ends the waiting."""
        while not self._ask("ls_wait_for", _SLICE):
            pass  # where Python runs the handlers of signals
        return self._result

    def then(self, work: Callable[[], None]) -> Request:
        """Has `work` called once it is done, before the result is returned."""
        self._at_end = work
        return self

    def find_sender(self) -> None:
        """Takes over, of a receive that is done, from whom it was."""
        found = c_int()
        call("ls_request_source", self._handle, byref(found))
        self.source = found.value
        call("ls_request_tag", self._handle, byref(found))
        self.tag = found.value

    def __del__(self) -> None:
        # Freeing would wait for the others; what is under way keeps its arrays.
        if getattr(self, "_handle", None) is not None:
            _abandoned.append((self._handle, self._kept))


_abandoned: list[Any] = []


class Member:
    """A rank of a group, and how it starts something."""

    def __init__(self, handle: c_void_p) -> None:
        self._handle: Optional[c_void_p] = handle
        self.rank: int = _library.ask("ls_group_rank", handle)
        self.size: int = _library.ask("ls_group_size", handle)

    @property
    def _open(self) -> c_void_p:
        if self._handle is None:
            raise _library.ArgumentError("the group has been closed")
        return self._handle

    def _start(self, name: str, result: Any, kept: Sequence[Any],
               *arguments: Any) -> Request:
        handle = make(name, self._open, *arguments)
        return Request(handle, result, self, *kept)
