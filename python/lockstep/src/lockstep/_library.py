"""liblockstep-comm as ctypes sees it, and its errors as exceptions."""

from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, byref, c_char_p, c_double, c_int, c_size_t, c_void_p
from typing import Any

_FILE = "liblockstep-comm.so"


class Error(RuntimeError):
    """A call has failed; the text is the library's sentence."""


class PeerDeadError(Error):
    """Another rank has died, or left the group."""


class LateError(Error, TimeoutError):
    """Another rank has not come in time."""


class MismatchError(Error):
    """The ranks do not make the same call."""


class AbortedError(Error):
    """A rank has ended all waiting (Group.abort)."""


class ArgumentError(Error, ValueError):
    """An argument is wrong, here or on another rank."""


OK, IN_PROGRESS, ERR_ARGUMENT = 0, 1, -1
_ERRORS: dict[int, type[Error]] = {
    -1: ArgumentError, -2: ArgumentError, -3: ArgumentError,
    -11: PeerDeadError, -12: LateError, -13: MismatchError, -15: AbortedError}


def _load() -> ctypes.CDLL:
    """LOCKSTEP_COMM_LIBRARY, or what the wheel carries, or what is installed."""
    told = os.environ.get("LOCKSTEP_COMM_LIBRARY")
    own = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib", _FILE)
    if told:
        return ctypes.CDLL(told)
    return ctypes.CDLL(own if os.path.exists(own) else _FILE + ".0.1")


_library = _load()

SET = ctypes.CFUNCTYPE(c_int, c_void_p, c_char_p, c_void_p, c_size_t)
GET = ctypes.CFUNCTYPE(c_int, c_void_p, c_char_p, c_void_p, POINTER(c_size_t),
                       c_double)


class Store(ctypes.Structure):
    """ls_store."""

    _fields_ = [("context", c_void_p), ("set", SET), ("get", GET)]


class Counters(ctypes.Structure):
    """ls_group_counters."""

    _fields_ = [("collectives", ctypes.c_uint64), ("messages", ctypes.c_uint64),
                ("bytes_sent", ctypes.c_uint64)]


_G, _P, _N, _I, _R = c_void_p, c_void_p, c_size_t, c_int, POINTER(c_void_p)

_SIGNATURES: dict[str, list[Any]] = {
    "ls_group_from_env": [_R],
    "ls_group_open": [_R, c_char_p, _I, _I, POINTER(Store), c_double],
    "ls_group_split": [_G, _I, _I, _R],
    "ls_group_set_timeout": [_G, c_double],
    "ls_group_dump": [_G, c_char_p],
    "ls_shared_alloc": [_G, _N, _R],
    "ls_shared_free": [_G, _R],
    "ls_ibarrier": [_G, _R],
    "ls_ibroadcast": [_G, _P, _N, _I, _I, _R],
    "ls_iall_reduce": [_G, _P, _P, _N, _I, _I, _R],
    "ls_ireduce": [_G, _P, _P, _N, _I, _I, _I, _R],
    "ls_iall_gather": [_G, _P, _P, _N, _I, _R],
    "ls_ireduce_scatter": [_G, _P, _P, _N, _I, _I, _R],
    "ls_igather": [_G, _P, _P, _N, _I, _I, _R],
    "ls_iscatter": [_G, _P, _P, _N, _I, _I, _R],
    "ls_iall_to_all": [_G, _P, _P, _N, _I, _R],
    "ls_isend": [_G, _P, _N, _I, _I, _R],
    "ls_irecv": [_G, _P, _N, _I, _I, _R],
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
_library.ls_shared_peer.argtypes = [_G, _P, _I]
_library.ls_shared_peer.restype = c_void_p
_library.ls_last_error.argtypes = []
_library.ls_last_error.restype = c_char_p
_library.ls_version_string.restype = c_char_p


def call(name: str, *arguments: Any) -> int:
    """Calls a function that returns a status; errors are raised."""
    status: int = getattr(_library, name)(*arguments)
    if status < 0:
        raise _ERRORS.get(status, Error)(_library.ls_last_error().decode())
    return status


def ask(name: str, *arguments: Any) -> Any:
    """Calls any other function."""
    return getattr(_library, name)(*arguments)


def make(name: str, *arguments: Any) -> c_void_p:
    """Calls a function whose last argument is where it puts what it makes."""
    made = c_void_p()
    call(name, *arguments, byref(made))
    return made
