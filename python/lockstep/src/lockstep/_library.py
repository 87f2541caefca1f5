"""Declare the functions of liblockstep-comm for ctypes; turn errors into exceptions."""

from __future__ import annotations

import ctypes
import operator
import os
import re
import time
from ctypes import POINTER, byref, c_char_p, c_double, c_int, c_size_t, c_void_p
from typing import Any, NoReturn, Optional, Protocol, Sequence

_FILE = "liblockstep-comm.so.0.1"


class Error(RuntimeError):
    """A call has failed. The text of the exception explains the failure.

    If the group has failed, the attributes contain the details; an unknown detail is
    None. After other errors, such as a wrong argument, all attributes are None.

    Attributes:
        rank: the rank that caused the failure: it died, left, aborted or is late.
            For a mismatch: one of the two ranks.
        other_rank: for a mismatch: the other rank. If `rank` is late: the rank that
            gave up waiting.
        host: name of the host of `rank`.
        pid: process id of `rank` on that host.
        operation: the collective that failed, such as "all_reduce"; for a mismatch,
            the call of `rank`.
        sequence: number of that collective, as in the text.
    """

    rank: Optional[int] = None
    other_rank: Optional[int] = None
    host: Optional[str] = None
    pid: Optional[int] = None
    operation: Optional[str] = None
    sequence: Optional[int] = None

    _is_of_library = False  # whether a call of the library has returned it


class PeerDeadError(Error):
    """Another rank has died or closed the group. The attribute `rank` names this rank."""


class LateError(Error, TimeoutError):
    """Another rank has not made the call within the timeout."""


class MismatchError(Error):
    """Two ranks made different calls, or the same call with different sizes or types."""


class AbortedError(Error):
    """A rank has called Group.abort. Waiting calls on all ranks raise this error."""


class StateError(Error):
    """A call came at the wrong time, such as wait() after the group was closed."""


class ArgumentError(Error, ValueError):
    """An argument is wrong, on this rank or another rank."""


class ArgumentTypeError(ArgumentError, TypeError):
    """An argument has the wrong type, such as a float instead of an int."""


class OutOfMemoryError(Error, MemoryError):
    """This rank or another rank could not allocate memory."""


class SystemCallError(Error, OSError):
    """A system call has failed, such as one that opens or writes a file."""


OK, IN_PROGRESS, ERR_ARGUMENT, ERR_IO, ERR_TIMEOUT = 0, 1, -1, -6, -12
# As in the table of README.md. Other statuses are an Error.
_ERRORS: dict[int, type[Error]] = {
    -1: ArgumentError, -2: ArgumentError, -3: ArgumentError,
    -4: OutOfMemoryError, -5: OutOfMemoryError,
    ERR_IO: SystemCallError, -9: StateError, -10: SystemCallError,
    -11: PeerDeadError, ERR_TIMEOUT: LateError, -13: MismatchError,
    -15: AbortedError}


def _load() -> ctypes.CDLL:
    """Load liblockstep-comm.

    Uses the path in LOCKSTEP_COMM_LIBRARY, else the wheel's file, else the library that
    is installed on the system.
    """
    named = os.environ.get("LOCKSTEP_COMM_LIBRARY")
    own = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib", _FILE)
    try:
        return ctypes.CDLL(named or (own if os.path.exists(own) else _FILE))
    except OSError as error:
        raise OSError(f"cannot load liblockstep-comm: {error}. Set "
                      "LOCKSTEP_COMM_LIBRARY to the path of liblockstep-comm.so"
                      ) from None


_library = _load()

SET = ctypes.CFUNCTYPE(c_int, c_void_p, c_char_p, c_void_p, c_size_t)
GET = ctypes.CFUNCTYPE(c_int, c_void_p, c_char_p, c_void_p, POINTER(c_size_t),
                       c_double)


class Store(ctypes.Structure):
    """ls_store."""

    _fields_ = [("struct_size", c_size_t), ("context", c_void_p), ("set", SET),
                ("get", GET)]

    raised: Optional[BaseException] = None

    def fail(self, error: Error) -> NoReturn:
        """Raise `error`.

        If an exception such as KeyboardInterrupt interrupted the store, raise that
        exception instead.
        """
        if self.raised is None or isinstance(self.raised, Exception):
            raise error from self.raised
        raise self.raised


class Counters(ctypes.Structure):
    """ls_group_counters."""

    _fields_ = [("collectives", ctypes.c_uint64), ("messages", ctypes.c_uint64),
                ("bytes_sent", ctypes.c_uint64)]


class Failure(ctypes.Structure):
    """ls_failure."""

    _fields_ = [("struct_size", c_size_t), ("status", c_int), ("rank", c_int),
                ("other_rank", c_int), ("pid", c_int),
                ("sequence", ctypes.c_uint64), ("operation", c_char_p),
                ("host", ctypes.c_char * 64)]


_G, _P, _N, _I, _R = c_void_p, c_void_p, c_size_t, c_int, POINTER(c_void_p)

_SIGNATURES: dict[str, list[Any]] = {
    "ls_group_from_env": [_R],
    "ls_group_open": [_R, c_char_p, _I, _I, POINTER(Store), c_double],
    "ls_group_split": [_G, _I, _I, _R],
    "ls_group_set_timeout": [_G, c_double],
    "ls_group_dump": [_G, c_char_p],
    "ls_all_reduce": [_G, _P, _P, _N, _I, _I],
    "ls_shared_alloc": [_G, _N, _R],
    "ls_shared_free": [_G, _R],
    "ls_shared_keep": [_G, _P, _R, POINTER(c_size_t)],
    "ls_ibarrier": [_G, _R],
    "ls_ibroadcast": [_G, _P, _N, _I, _I, _R],
    "ls_iall_reduce": [_G, _P, _P, _N, _I, _I, _R],
    "ls_ireduce": [_G, _P, _P, _N, _I, _I, _I, _R],
    "ls_iall_gather": [_G, _P, _P, _N, _I, _R],
    "ls_ireduce_scatter": [_G, _P, _P, _N, _I, _I, _R],
    "ls_igather": [_G, _P, _P, _N, _I, _I, _R],
    "ls_iscatter": [_G, _P, _P, _N, _I, _I, _R],
    "ls_iall_to_all": [_G, _P, _P, _N, _I, _R],
    "ls_iall_gatherv": [_G, _P, _N, _P, _P, _I, _R],
    "ls_ireduce_scatterv": [_G, _P, _P, _P, _I, _I, _R],
    "ls_iall_to_allv": [_G, _P, _P, _P, _P, _I, _R],
    "ls_all_gather_bytes": [_G, _P, _N, _P, _R],
    "ls_isend": [_G, _P, _N, _I, _I, _I, _R],
    "ls_irecv": [_G, _P, _N, _I, _I, _I, _R],
    "ls_request_source": [_P, POINTER(c_int)],
    "ls_request_tag": [_P, POINTER(c_int)],
    "ls_iprobe": [_G, _I, _I, POINTER(c_int), POINTER(c_int), POINTER(c_size_t)],
    "ls_iall_reduce_premul": [_G, _P, _P, _N, _I, c_double, _R],
    "ls_ireduce_scatter_premul": [_G, _P, _P, _N, _I, c_double, _R],
    "ls_test": [_P],
    "ls_wait_for": [_P, c_double],
}
for _name, _arguments in _SIGNATURES.items():
    getattr(_library, _name).argtypes = _arguments
    getattr(_library, _name).restype = c_int
for _name in ("rank", "size", "local_rank", "local_size"):
    getattr(_library, "ls_group_" + _name).argtypes = [_G]
    getattr(_library, "ls_group_" + _name).restype = c_int
for _name in ("ls_group_close", "ls_request_free"):
    getattr(_library, _name).argtypes = [_R]
    getattr(_library, _name).restype = None
_library.ls_group_abort.argtypes = [_G]
_library.ls_group_abort.restype = None
_library.ls_group_get_counters.argtypes = [_G, POINTER(Counters)]
_library.ls_group_get_counters.restype = None
_library.ls_group_failure.argtypes = [_G, POINTER(Failure)]
_library.ls_group_failure.restype = ctypes.c_bool
_library.ls_shared_peer.argtypes = [_G, _P, _I]
_library.ls_shared_peer.restype = c_void_p
_library.ls_free.argtypes = [c_void_p]
_library.ls_free.restype = None
_library.ls_last_error.argtypes = []
_library.ls_last_error.restype = c_char_p
_library.ls_version_string.restype = c_char_p


def call(name: str, *arguments: Any) -> int:
    """Call a C function that returns a status. Raise an exception if it fails."""
    return check(ask(name, *arguments))


def call_on(name: str, group: c_void_p, *arguments: Any) -> int:
    """Call a C function on a group. Raise an exception if it fails.

    The exception contains the details of the group's failure.
    """
    return check(ask(name, group, *arguments), group)


def refuse(name: str, group: c_void_p) -> None:
    """Call a collective with NULL buffers, so that it fails on all ranks.

    The group stays usable.
    """
    function = getattr(_library, name)
    numbers = {c_int: 0, c_size_t: 1, c_double: 1.0}
    function(group, *(numbers.get(kind) for kind in function.argtypes[1:]))


def check(status: int, group: Optional[c_void_p] = None) -> int:
    if status < 0:
        raise error_of(status, group)
    return status


def error_of(status: int, group: Optional[c_void_p] = None) -> Error:
    """Create the exception for the last call, which returned `status`."""
    error = _ERRORS.get(status, Error)(_library.ls_last_error().decode())
    error._is_of_library = True
    why = Failure(struct_size=ctypes.sizeof(Failure))
    if group is None or not _library.ls_group_failure(group, byref(why)) or \
            why.status != status:
        return error
    error.rank = why.rank if why.rank >= 0 else None
    error.other_rank = why.other_rank if why.other_rank >= 0 else None
    error.host = why.host.decode(errors="replace") or None
    error.pid = why.pid or None
    error.operation = why.operation.decode() or None
    error.sequence = why.sequence or None
    return error


def ask(name: str, *arguments: Any) -> Any:
    """Call a C function, and return its result unchecked."""
    function = getattr(_library, name)
    try:
        return function(*arguments)
    except ctypes.ArgumentError as error:
        why = _conversion_error(error, function.argtypes, arguments)
    raise why


def _conversion_error(error: ctypes.ArgumentError, kinds: Sequence[Any],
                      arguments: Sequence[Any]) -> ArgumentError:
    """Turn ctypes' error "argument N: ..." into an ArgumentError that shows the value."""
    found = re.match(r"argument (\d+):", str(error))
    if found is None:
        return ArgumentError(str(error))
    at = int(found.group(1)) - 1
    return _type_error(arguments[at],
                       "a float" if kinds[at] is c_double else "an int")


def index(value: Any) -> int:
    """Convert a value of any integer type, such as NumPy's, to int."""
    try:
        return operator.index(value)
    except TypeError:
        raise _type_error(value, "an int") from None


def _type_error(value: Any, right: str) -> ArgumentTypeError:
    return ArgumentTypeError(f"argument {value!r} is of type {type(value).__name__}; "
                             f"it must be {right}")


class StoreLike(Protocol):
    """A key-value store that all processes can access, such as torch's TCPStore.

    If the store has a method check(keys), as torch's stores do, the package polls
    check() until the key is set, and then calls get(). Otherwise get() must wait.
    """

    def set(self, key: str, value: bytes) -> Any:
        """Set a key, so that get() returns its value in all processes.

        Args:
            key: text of less than 128 bytes, without blanks.
            value: up to 64 KiB.

        Returns:
            Anything; it is ignored.
        """

    def get(self, key: str) -> bytes:
        """Wait until a process has set the key.

        Args:
            key: the key.

        Returns:
            The value that was set.
        """


def wrap_store(store: StoreLike) -> Store:
    """Convert the store to an ls_store. Keep the result as long as C uses it.

    If the store has a method check(keys), it is polled before get(). Otherwise get()
    waits.
    """
    def reached(key: str, seconds: float) -> bool:
        check = getattr(store, "check", None)
        pause, until = 1e-4, time.monotonic() + seconds
        while check is not None and not check([key]):
            if 0 < seconds and time.monotonic() >= until:
                return False
            time.sleep(pause)  # where Python runs the handlers of signals
            pause = min(2 * pause, 5e-3)
        return True

    def set_key(_: Any, key: bytes, data: int, size: int) -> int:
        try:
            store.set(key.decode(), ctypes.string_at(data, size))
            return OK
        except BaseException as error:  # C cannot pass it on
            wrapped.raised = error
            return ERR_IO

    def get_key(_: Any, key: bytes, data: int, size: Any, seconds: float) -> int:
        try:
            if not reached(key.decode(), seconds):
                return ERR_TIMEOUT
            value = store.get(key.decode())
            if len(value) > size[0]:
                return ERR_ARGUMENT
            ctypes.memmove(data, bytes(value), len(value))
            size[0] = len(value)
            return OK
        except Exception as error:  # also a torch get whose wait has ended
            wrapped.raised = error
            return ERR_TIMEOUT
        except BaseException as error:
            wrapped.raised = error
            return ERR_IO

    wrapped = Store(ctypes.sizeof(Store), None, SET(set_key), GET(get_key))
    return wrapped
