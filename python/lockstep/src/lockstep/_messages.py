"""Messages between two ranks."""

from __future__ import annotations

import time
from ctypes import byref, c_int, c_size_t
from typing import Any, NamedTuple, Optional

from . import _library
from ._library import call_on
from ._request import Array, Member, Request, at, contiguous, into, type_of

ANY_RANK = -1
ANY_TAG = -1

_LOOKS = 300  # before a probe begins to sleep between two
_LONGEST = 1e-3  # seconds for which it does


class Message(NamedTuple):
    """What is there to be received."""

    source: int
    tag: int
    bytes: int


class Messages(Member):
    """The part of a group that sends and receives; nothing of it is collective.

    Messages between two ranks with one tag arrive in the order in which they
    were sent. A receive may be from ANY_RANK, and of ANY_TAG; its array must be
    as long, and of the type, as what was sent.
    """

    def isend(self, data: Any, to: int, tag: int = 0) -> Request:
        array = contiguous(data)
        return self._start("ls_isend_tag", None, (array,), at(array), array.size,
                           type_of(array), to, tag)

    def irecv(self, out: Array, source: int, tag: int = 0) -> Request:
        """Once it is done, its `source` and `tag` are those of the message."""
        array = into(out, out.shape, out.dtype)
        request = self._start("ls_irecv_tag", array, (array,), at(array),
                              array.size, type_of(array), source, tag)
        return request.then(Request.find_sender)

    def send(self, data: Any, to: int, tag: int = 0) -> None:
        self.isend(data, to, tag).wait()

    def recv(self, out: Array, source: int, tag: int = 0) -> Array:
        result: Array = self.irecv(out, source, tag).wait()
        return result

    def iprobe(self, source: int = ANY_RANK,
               tag: int = ANY_TAG) -> Optional[Message]:
        """A message that no receive has been started for, or None.

        It is not received: the next receive from its source with its tag gets
        it.
        """
        who, what, size = c_int(), c_int(), c_size_t()
        if call_on("ls_iprobe", self._open, source, tag, byref(who), byref(what),
                byref(size)) == _library.IN_PROGRESS:
            return None
        return Message(who.value, what.value, size.value)

    def probe(self, source: int = ANY_RANK, tag: int = ANY_TAG) -> Message:
        """The same, waited for. Ctrl-C ends the waiting."""
        looks = 0
        while True:
            found = self.iprobe(source, tag)
            if found is not None:
                return found
            looks += 1
            time.sleep(max(0.0, min(_LONGEST, (looks - _LOOKS) * 1e-5)))
