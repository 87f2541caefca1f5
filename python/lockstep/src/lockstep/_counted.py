"""Collectives in which ranks may have different numbers of rows."""

from __future__ import annotations

from typing import Any, Optional, Sequence, Union

import numpy as np

from ._library import ArgumentError
from ._request import (Array, Member, Request, at, collective, contiguous,
                       into, op_of, type_of, writable)
from ._types import ReduceOp

Counts = Union[Sequence[int], Array]


class _Blocks:
    """Divide the rows of an array into blocks, one block per rank.

    Blocks follow each other, or begin at the rows that the displacements give.
    """

    def __init__(self, what: str, size: int, counts: Counts,
                 displs: Optional[Counts], row: tuple[int, ...]) -> None:
        self.counts = self._checked(what, "counts", size, counts)
        ends = np.cumsum(self.counts)
        self.total = int(ends[-1])
        packed = ends - self.counts
        self.are_all = displs is None  # no rows lie between or after them
        self.begins = packed if displs is None else \
            self._checked(what, "displacements", size, displs)
        self.are_packed = bool(
            np.all((self.begins == packed) | (self.counts == 0)))
        self.rows = self.total if self.are_packed else \
            int(np.max(self.begins + self.counts))
        # For the library, which counts elements.
        self.elements = np.ascontiguousarray(
            self.counts * int(np.prod(row, dtype=np.int64)), np.uintp)

    @staticmethod
    def _checked(what: str, which: str, size: int, given: Counts) -> Array:
        found = np.asarray(given)
        if found.shape != (size,) or found.dtype.kind not in "iu" or \
                np.any(found < 0):
            raise ArgumentError(f"{what}: {which} are {given}; pass one integer per rank "
                                f"({size}), each 0 or more")
        return found.astype(np.int64)

    def check(self, what: str, array: Array) -> None:
        fits = array.shape[0] == self.rows if self.are_all else \
            array.shape[0] >= self.rows
        if not fits:
            raise ArgumentError(
                f"{what}: the array has {array.shape[0]} rows, but counts and "
                f"displacements need {self.rows} rows")

    def pack(self, array: Array) -> Array:
        """Return the blocks one after the other, without gaps. Copy only if necessary."""
        if self.are_packed:
            return array
        return np.concatenate([array[b:b + n] for b, n in
                               zip(self.begins, self.counts)])

    def unpack(self, packed: Array, out: Array) -> None:
        first = 0
        for begin, count in zip(self.begins, self.counts):
            out[begin:begin + count] = packed[first:first + count]
            first += count


def _rows(data: Any, what: str) -> Array:
    array = contiguous(data)
    if array.ndim == 0:
        raise ArgumentError(f"{what}: data is a number; it must be an array, with "
                            "rows along the first axis")
    return array


class Counted(Member):
    """Methods of Group that combine or exchange different numbers of rows per rank.

    Rows are entries of the first axis; the rows of a vector are its elements. Blocks
    that follow each other are sent without copies. Other blocks are copied first.
    """

    @collective("ls_iall_gatherv")
    def iallgatherv(self, data: Any, counts: Counts, out: Optional[Array] = None,
                    displs: Optional[Counts] = None) -> Request:
        """Start collecting the rows of all ranks; numbers of rows may differ. Collective.

        Args:
            data: an array with this rank's rows along its first axis. Other axes and
                the type are the same on all ranks.
            counts: number of rows of each rank, one entry per rank; the same on
                all ranks.
            out: the array for the result: a writable C-contiguous array. Default:
                a new array.
            displs: the row of the result at which each rank's block begins; the
                same on all ranks. Default: one block after the other.

        Returns:
            A Request. Its wait() returns an array with the rows of all ranks,
            in the order of ranks.

        Raises:
            ArgumentError: an argument is wrong on a rank; the group stays
                usable.
            Error: here or in wait(), a rank is dead, late, or makes another
                call; close the group.
        """
        send = _rows(data, "allgatherv")
        blocks = _Blocks("allgatherv", self.size, counts, displs, send.shape[1:])
        recv, room = self._room("allgatherv", blocks, out, send)
        request = self._start("ls_iall_gatherv", recv, (send, room), at(send),
                              send.size, at(room), at(blocks.elements),
                              type_of(send))
        if room is recv:
            return request
        return request.then(lambda _: blocks.unpack(room, recv))

    def _room(self, what: str, blocks: _Blocks, out: Optional[Array],
              send: Array) -> tuple[Array, Array]:
        """Return the array for the result, and the array that the library writes.

        They are the same array if possible.
        """
        if blocks.are_all or out is None:
            shape: tuple[int, ...] = (blocks.rows, *send.shape[1:])
            if out is None and not blocks.are_packed:
                out = np.zeros(shape, send.dtype)  # zeros between the blocks
        else:
            shape = (*writable(out).shape[:1], *send.shape[1:])
        recv = into(out, shape, send.dtype)
        blocks.check(what, recv)
        if blocks.are_packed:
            return recv, recv
        return recv, np.empty((blocks.total, *send.shape[1:]), send.dtype)

    @collective("ls_ireduce_scatterv")
    def ireduce_scatterv(self, data: Any, counts: Counts, op: ReduceOp = "sum",
                         out: Optional[Array] = None) -> Request:
        """Start combining the ranks' arrays; rank r gets counts[r] rows. Collective.

        Args:
            data: an array of sum(counts) rows, the same shape and type on all
                ranks.
            counts: number of rows for each rank, one entry per rank; the same on
                all ranks.
            op: the reduction; "sum" by default. "avg": floating types only.
                "band", "bor", "bxor": integers and bools only. For bools, "sum"
                is "or" and "prod" is "and".
            out: the array for the result: a writable C-contiguous array of
                counts[rank] rows. It may be this rank's rows of `data`.
                Default: a new array.

        Returns:
            A Request. Its wait() returns counts[rank] rows of the combined
            array: those after the rows of lower ranks.

        Raises:
            ArgumentError: an argument is wrong on a rank; the group stays
                usable.
            Error: here or in wait(), a rank is dead, late, or makes another
                call; close the group.
        """
        send = _rows(data, "reduce_scatterv")
        blocks = _Blocks("reduce_scatterv", self.size, counts, None,
                         send.shape[1:])
        blocks.check("reduce_scatterv", send)
        recv = into(out, (int(blocks.counts[self.rank]), *send.shape[1:]),
                    send.dtype)
        return self._start("ls_ireduce_scatterv", recv, (send, recv), at(send),
                           at(recv), at(blocks.elements), type_of(send),
                           op_of(op))

    @collective("ls_iall_to_allv")
    def ialltoallv(self, data: Any, send_counts: Counts, recv_counts: Counts,
                   out: Optional[Array] = None,
                   send_displs: Optional[Counts] = None,
                   recv_displs: Optional[Counts] = None) -> Request:
        """Start sending one block of rows to each rank; block sizes may differ. Collective.

        Args:
            data: an array whose blocks of rows go to the ranks. Other axes and
                the type are the same on all ranks.
            send_counts: number of rows for each rank, one entry per rank.
            recv_counts: number of rows from each rank, one entry per rank.
            out: the array for the result: a writable C-contiguous array. Default:
                a new array.
            send_displs: the row of `data` at which each rank's block begins.
                Default: one block after the other.
            recv_displs: the row of the result at which each rank's block
                begins. Default: one block after the other.

        Returns:
            A Request. Its wait() returns an array with recv_counts[r] rows from
            each rank r.

        Raises:
            ArgumentError: an argument is wrong on a rank; the group stays
                usable.
            Error: here or in wait(), a rank is dead, late, or makes another
                call; close the group.
        """
        given = _rows(data, "alltoallv")
        sends = _Blocks("alltoallv", self.size, send_counts, send_displs,
                        given.shape[1:])
        sends.check("alltoallv", given)
        receives = _Blocks("alltoallv", self.size, recv_counts, recv_displs,
                           given.shape[1:])
        send = sends.pack(given)
        recv, room = self._room("alltoallv", receives, out, given)
        request = self._start("ls_iall_to_allv", recv, (send, room), at(send),
                              at(sends.elements), at(room),
                              at(receives.elements), type_of(send))
        if room is recv:
            return request
        return request.then(lambda _: receives.unpack(room, recv))

    # ---- blocking calls ----

    def _exchanged(self, name: str, given: Counts) -> Array:
        """Exchange counts with the other ranks, and return the counts received."""
        mine = np.ascontiguousarray(given, np.int64)
        theirs = np.empty(self.size, np.int64)
        self._start(name, None, (mine, theirs), at(mine), at(theirs), 1,
                    type_of(mine)).wait()
        return theirs

    @collective("ls_iall_gather")
    def _gathered_counts(self, data: Any) -> Array:
        return self._exchanged("ls_iall_gather", [len(_rows(data, "allgatherv"))])

    @collective("ls_iall_to_all")
    def _exchanged_counts(self, counts: Counts) -> Array:
        asked = _Blocks("alltoallv", self.size, counts, None, ())
        return self._exchanged("ls_iall_to_all", asked.counts)

    def allgatherv(self, data: Any, counts: Optional[Counts] = None,
                   out: Optional[Array] = None,
                   displs: Optional[Counts] = None) -> Array:
        """Collect the rows of all ranks; numbers of rows may differ. Collective.

        Args:
            data: an array with this rank's rows along its first axis. Other axes and
                the type are the same on all ranks.
            counts: number of rows of each rank, one entry per rank; the same on
                all ranks. Default: ranks exchange their counts first.
            out: the array for the result: a writable C-contiguous array. Default:
                a new array.
            displs: the row of the result at which each rank's block begins; the
                same on all ranks. Default: one block after the other.

        Returns:
            An array with the rows of all ranks, in the order of ranks.

        Raises:
            ArgumentError: an argument is wrong on a rank; the group stays
                usable.
            Error: a rank is dead, late, or makes another call; close the group.
        """
        if counts is None:
            counts = self._gathered_counts(data)
        result: Array = self.iallgatherv(data, counts, out, displs).wait()
        return result

    def reduce_scatterv(self, data: Any, counts: Counts, op: ReduceOp = "sum",
                        out: Optional[Array] = None) -> Array:
        """Combine the ranks' arrays; rank r gets counts[r] rows. Collective.

        Args:
            data: an array of sum(counts) rows, the same shape and type on all
                ranks.
            counts: number of rows for each rank, one entry per rank; the same on
                all ranks.
            op: the reduction; "sum" by default. "avg": floating types only.
                "band", "bor", "bxor": integers and bools only. For bools, "sum"
                is "or" and "prod" is "and".
            out: the array for the result: a writable C-contiguous array of
                counts[rank] rows. It may be this rank's rows of `data`.
                Default: a new array.

        Returns:
            An array of counts[rank] rows of the combined array: those after the
            rows of lower ranks.

        Raises:
            ArgumentError: an argument is wrong on a rank; the group stays
                usable.
            Error: a rank is dead, late, or makes another call; close the group.
        """
        result: Array = self.ireduce_scatterv(data, counts, op, out).wait()
        return result

    def alltoallv(self, data: Any, send_counts: Counts,
                  recv_counts: Optional[Counts] = None,
                  out: Optional[Array] = None,
                  send_displs: Optional[Counts] = None,
                  recv_displs: Optional[Counts] = None) -> Array:
        """Send one block of rows to each rank; block sizes may differ. Collective.

        Args:
            data: an array whose blocks of rows go to the ranks. Other axes and
                the type are the same on all ranks.
            send_counts: number of rows for each rank, one entry per rank.
            recv_counts: number of rows from each rank, one entry per rank.
                Default: ranks exchange their counts first.
            out: the array for the result: a writable C-contiguous array. Default:
                a new array.
            send_displs: the row of `data` at which each rank's block begins.
                Default: one block after the other.
            recv_displs: the row of the result at which each rank's block
                begins. Default: one block after the other.

        Returns:
            An array with recv_counts[r] rows from each rank r.

        Raises:
            ArgumentError: an argument is wrong on a rank; the group stays
                usable.
            Error: a rank is dead, late, or makes another call; close the group.
        """
        if recv_counts is None:
            recv_counts = self._exchanged_counts(send_counts)
        result: Array = self.ialltoallv(data, send_counts, recv_counts, out,
                                        send_displs, recv_displs).wait()
        return result
