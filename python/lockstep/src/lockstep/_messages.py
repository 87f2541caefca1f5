"""Messages between two ranks."""

from __future__ import annotations

from ctypes import byref, c_int, c_size_t
from typing import Any, NamedTuple, Optional

import numpy as np

from . import _library
from ._library import call_on
from ._request import (Array, Member, Request, at, contiguous, pause, type_of,
                       wait_all, writable)

ANY_RANK = -1
ANY_TAG = -1


class Message(NamedTuple):
    """A message that has arrived, and that no receive was started for.

    Attributes:
        source: the rank that sent it.
        tag: its tag.
        bytes: its length, in bytes.
    """

    source: int
    tag: int
    bytes: int


class Messages(Member):
    """Methods of Group that send and receive messages. They are not collective.

    Messages between two ranks with the same tag arrive in the order in which they
    were sent.
    """

    def isend(self, data: Any, to: int, tag: int = 0) -> Request:
        """Start sending an array to a rank.

        Args:
            data: an array, or a number, of a type of DTypeName.
            to: the rank that receives it.
            tag: 0 or more; the receive must use the same tag, or ANY_TAG.

        Returns:
            A Request. Its wait() returns None when `data` may be changed.

        Raises:
            ArgumentError: an argument is wrong; the group stays usable.
            Error: here or in wait(), a rank is dead or late, or the message has
                another length or type; close the group.
        """
        array = contiguous(data)
        return self._start("ls_isend", None, (array,), at(array), array.size,
                           type_of(array), to, tag)

    def irecv(self, out: Array, source: int, tag: int = 0) -> Request:
        """Start receiving an array from a rank.

        Args:
            out: the array for the message: a writable C-contiguous array of the
                length and type that was sent.
            source: the rank that sends it, or ANY_RANK.
            tag: the tag of the message, or ANY_TAG.

        Returns:
            A Request. Its wait() returns `out`; its `source` and `tag` are then
            those of the message.

        Raises:
            ArgumentError: an argument is wrong; the group stays usable.
            Error: here or in wait(), a rank is dead or late, or the message has
                another length or type; close the group.
        """
        array = writable(out)
        request = self._start("ls_irecv", array, (array,), at(array),
                              array.size, type_of(array), source, tag)
        return request.then(Request.find_sender)

    def send(self, data: Any, to: int, tag: int = 0) -> None:
        """Send an array to a rank, and wait until `data` may be changed.

        Args:
            data: an array, or a number, of a type of DTypeName.
            to: the rank that receives it.
            tag: 0 or more; the receive must use the same tag, or ANY_TAG.

        Raises:
            ArgumentError: an argument is wrong; the group stays usable.
            Error: a rank is dead or late, or the message has another length or
                type; close the group.
        """
        self.isend(data, to, tag).wait()

    def recv(self, out: Array, source: int, tag: int = 0) -> Array:
        """Receive an array from a rank.

        Args:
            out: the array for the message: a writable C-contiguous array of the
                length and type that was sent.
            source: the rank that sends it, or ANY_RANK.
            tag: the tag of the message, or ANY_TAG.

        Returns:
            `out`, with the message.

        Raises:
            ArgumentError: an argument is wrong; the group stays usable.
            Error: a rank is dead or late, or the message has another length or
                type; close the group.
        """
        result: Array = self.irecv(out, source, tag).wait()
        return result

    def sendrecv(self, data: Any, to: int, out: Array, source: int,
                 tag: int = 0) -> Array:
        """Send an array to one rank, and receive an array from another, at the same time.

        Ranks that exchange arrays, or pass arrays around a ring, do not deadlock.

        Args:
            data: an array, or a number, of a type of DTypeName.
            to: the rank that receives it.
            out: the array for the message: a writable C-contiguous array of the
                length and type that was sent. Not part of `data`.
            source: the rank that sends it, or ANY_RANK.
            tag: 0 or more, of both messages.

        Returns:
            `out`, with the message.

        Raises:
            ArgumentError: an argument is wrong; the group stays usable.
            Error: a rank is dead or late, or the message has another length or
                type; close the group.
        """
        array = contiguous(data)
        type_of(array)
        to, tag = _library.index(to), _library.index(tag)
        if not 0 <= to < self.size:
            raise _library.ArgumentError(
                f"sendrecv: rank {to} is not in the group, which has ranks 0 to "
                f"{self.size - 1}")
        if tag < 0:
            raise _library.ArgumentError(
                f"sendrecv: the tag is {tag}; it should be 0 or more")
        if np.may_share_memory(array, writable(out)):
            raise _library.ArgumentError("sendrecv: data and out overlap; use separate "
                                         "arrays")
        receive = self.irecv(out, source, tag)  # nothing is sent if it is wrong
        wait_all([receive, self.isend(array, to, tag)])
        return out

    def iprobe(self, source: int = ANY_RANK,
               tag: int = ANY_TAG) -> Optional[Message]:
        """Check whether a message that no receive was started for has arrived. Does not wait.

        The next receive with the message's source and tag gets the message.

        Args:
            source: the rank that sends it, or ANY_RANK.
            tag: the tag of the message, or ANY_TAG.

        Returns:
            A Message (source, tag, bytes), or None if no such message has arrived.

        Raises:
            ArgumentError: the rank is not in the group, or the tag is below 0 and not
                ANY_TAG.
            Error: the group has failed; close it.
        """
        sender, found_tag, size = c_int(), c_int(), c_size_t()
        if call_on("ls_iprobe", self._open, source, tag, byref(sender),
                   byref(found_tag), byref(size)) == _library.IN_PROGRESS:
            return None
        return Message(sender.value, found_tag.value, size.value)

    def probe(self, source: int = ANY_RANK, tag: int = ANY_TAG) -> Message:
        """Wait for a message that no receive was started for, without receiving it.

        The next receive with the message's source and tag gets the message.
        Ctrl-C ends the wait.

        Args:
            source: the rank that sends it, or ANY_RANK.
            tag: the tag of the message, or ANY_TAG.

        Returns:
            A Message (source, tag, bytes).

        Raises:
            ArgumentError: the rank is not in the group, or the tag is below 0 and not
                ANY_TAG.
            Error: the group has failed; close it.
        """
        polls = 0
        while True:
            found = self.iprobe(source, tag)
            if found is not None:
                return found
            polls += 1
            pause(polls)
