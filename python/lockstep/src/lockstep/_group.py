"""Groups of processes, and what they do together."""

from __future__ import annotations

import pickle
from ctypes import byref
from typing import Any, Optional

import numpy as np

from . import _library
from ._counted import Counted
from ._core import Core
from ._library import StoreLike, call, call_on, wrap_store
from ._messages import Messages
from ._request import (Array, Request, at as _at, contiguous as _contiguous,
                       into as _into, op_of as _op_of, type_of as _type_of)

__all__ = ["Array", "Group", "Request"]


class Group(Counted, Messages):
    """Processes that work together; rank `rank` of `size`.

    All methods but those that say so are collective: every rank calls them in
    the same order with arguments that agree. If they do not, or a rank dies or
    is late, all get an exception that names the rank, and the group can only be
    closed. A group belongs to one thread at a time.

    Arrays are sent as they are, without copies, if they are C-contiguous; `out`
    is where a result goes, and may be the array that is sent.
    """

    def __init__(self, core: Core) -> None:
        super().__init__(core)
        self.local_rank: int = _library.ask("ls_group_local_rank", core.handle)
        self.local_size: int = _library.ask("ls_group_local_size", core.handle)

    # ---- making and closing ----

    @classmethod
    def from_env(cls) -> Group:
        """All ranks that `lockstep run`, torchrun or mpirun has started."""
        return Core.make(lambda out: call("ls_group_from_env", out), cls)

    @classmethod
    def open(cls, name: str, rank: int, size: int,
             store: Optional[StoreLike] = None,
             timeout: Optional[float] = None) -> Group:
        """The group of that name, called by its members only.

        Without a store, the name must be unlike those of all other groups that
        this user has on this machine. timeout: seconds for which ranks wait for
        each other, now and later; 0 for ever.
        """
        kept = None if store is None else wrap_store(store)
        try:
            return Core.make(lambda out: call(
                "ls_group_open", out, name.encode(), rank, size,
                None if kept is None else byref(kept),
                -1.0 if timeout is None else timeout), cls)
        except _library.Error as error:
            if kept is None:
                raise
            kept.fail(error)

    def split(self, color: int, key: int = 0) -> Optional[Group]:
        """Ranks with the same color >= 0 become a group, by (key, rank)."""
        return Core.make(
            lambda out: call_on("ls_group_split", self._open, color, key, out),
            lambda core: None if core.is_none() else Group(core))

    def close(self) -> None:
        """Leaves the group. Does not wait for the others.

        Requests that are done keep their results; those still in flight have
        none. Arrays of shared memory stay valid, with what is in them, until
        the last of them is gone: other ranks that have some share it still.
        Close a group that you have done with: one that is only forgotten stays
        open, with its memory, until the process ends.
        """
        self._core.close()

    def __enter__(self) -> Group:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    # ---- about it (local) ----

    def set_timeout(self, seconds: float) -> None:
        """How long a call may wait for others; 0 for ever."""
        call_on("ls_group_set_timeout", self._open, seconds)

    def abort(self) -> None:
        """Ends all waiting on all ranks; from any thread."""
        _library.ask("ls_group_abort", self._open)

    def dump(self, path: str) -> None:
        """Writes the last calls of this rank, for `lockstep doctor`."""
        call_on("ls_group_dump", self._open, path.encode())

    def counters(self) -> dict[str, int]:
        """Collectives, messages and bytes sent so far."""
        out = _library.Counters()
        _library.ask("ls_group_get_counters", self._open, byref(out))
        return {name: getattr(out, name) for name, _ in out._fields_}

    # ---- collectives that return a Request ----

    def ibarrier(self) -> Request:
        return self._start("ls_ibarrier", None, ())

    def iallreduce(self, data: Any, op: str = "sum",
                   out: Optional[Array] = None,
                   factor: Optional[float] = None) -> Request:
        send = _contiguous(data)
        recv = _into(out, send.shape, send.dtype)
        if factor is not None:
            _check_sum("allreduce", op)
            return self._start("ls_iall_reduce_premul", recv, (send, recv),
                               _at(send), _at(recv), send.size, _type_of(send),
                               factor)
        return self._start("ls_iall_reduce", recv, (send, recv), _at(send),
                           _at(recv), send.size, _type_of(send),
                           _op_of(op))

    def ireduce(self, data: Any, op: str = "sum", root: int = 0,
                out: Optional[Array] = None) -> Request:
        send = _contiguous(data)
        recv = _into(out, send.shape, send.dtype) if self.rank == root else None
        return self._start("ls_ireduce", recv, (send, recv), _at(send),
                           _at(recv), send.size, _type_of(send),
                           _op_of(op), root)

    def ibcast(self, data: Array, root: int = 0) -> Request:
        """Overwrites `data` on all ranks but the root."""
        array = _into(data, data.shape, data.dtype) if self.rank != root \
            else _contiguous(data)
        return self._start("ls_ibroadcast", array, (array,), _at(array),
                           array.size, _type_of(array), root)

    def iallgather(self, data: Any, out: Optional[Array] = None) -> Request:
        send = _contiguous(data)
        recv = _into(out, (self.size, *send.shape), send.dtype)
        return self._start("ls_iall_gather", recv, (send, recv), _at(send),
                           _at(recv), send.size, _type_of(send))

    def igather(self, data: Any, root: int = 0,
                out: Optional[Array] = None) -> Request:
        send = _contiguous(data)
        recv = _into(out, (self.size, *send.shape), send.dtype) \
            if self.rank == root else None
        return self._start("ls_igather", recv, (send, recv), _at(send),
                           _at(recv), send.size, _type_of(send), root)

    def _blocks(self, data: Any, what: str) -> Array:
        array = _contiguous(data)
        if array.ndim == 0 or array.shape[0] != self.size:
            raise _library.ArgumentError(
                f"{what}: the first axis should have one entry a rank, "
                f"{self.size}; the shape is {array.shape}")
        return array

    def ireduce_scatter(self, data: Any, op: str = "sum",
                        out: Optional[Array] = None,
                        factor: Optional[float] = None) -> Request:
        send = self._blocks(data, "reduce_scatter")
        recv = _into(out, send.shape[1:], send.dtype)
        if factor is not None:
            _check_sum("reduce_scatter", op)
            return self._start("ls_ireduce_scatter_premul", recv, (send, recv),
                               _at(send), _at(recv), recv.size, _type_of(send),
                               factor)
        return self._start("ls_ireduce_scatter", recv, (send, recv), _at(send),
                           _at(recv), recv.size, _type_of(send),
                           _op_of(op))

    def iscatter(self, data: Any, out: Array, root: int = 0) -> Request:
        """Row r of the root's `data` goes to `out` of rank r."""
        send = self._blocks(data, "scatter") if self.rank == root else None
        recv = _into(out, out.shape if send is None else send.shape[1:],
                     out.dtype if send is None else send.dtype)
        return self._start("ls_iscatter", recv, (send, recv), _at(send),
                           _at(recv), recv.size, _type_of(recv), root)

    def ialltoall(self, data: Any, out: Optional[Array] = None) -> Request:
        send = self._blocks(data, "alltoall")
        recv = _into(out, send.shape, send.dtype)
        return self._start("ls_iall_to_all", recv, (send, recv), _at(send),
                           _at(recv), send.size // self.size, _type_of(send))

    # ---- the same, waited for ----

    def barrier(self) -> None:
        """Returns when every rank has called it."""
        self.ibarrier().wait()

    def allreduce(self, data: Any, op: str = "sum", out: Optional[Array] = None,
                  factor: Optional[float] = None) -> Any:
        """The reduction over ranks, the same bits on all; of a number, one.

        With a factor, each rank's own, the sum of what it multiplies.
        """
        return _as_given(data, self.iallreduce(data, op, out, factor).wait())

    def reduce(self, data: Any, op: str = "sum", root: int = 0,
               out: Optional[Array] = None) -> Any:
        """The same on the root; None elsewhere."""
        return _as_given(data, self.ireduce(data, op, root, out).wait())

    def bcast(self, data: Array, root: int = 0) -> Array:
        """The root's array, in `data` of every rank."""
        result: Array = self.ibcast(data, root).wait()
        return result

    def allgather(self, data: Any, out: Optional[Array] = None) -> Array:
        """The arrays of all ranks, along a new first axis."""
        result: Array = self.iallgather(data, out).wait()
        return result

    def gather(self, data: Any, root: int = 0,
               out: Optional[Array] = None) -> Optional[Array]:
        """The same on the root; None elsewhere."""
        result: Optional[Array] = self.igather(data, root, out).wait()
        return result

    def reduce_scatter(self, data: Any, op: str = "sum",
                       out: Optional[Array] = None,
                       factor: Optional[float] = None) -> Array:
        """Of `size` rows on each rank, the reduction of row `rank`."""
        result: Array = self.ireduce_scatter(data, op, out, factor).wait()
        return result

    def scatter(self, data: Any, out: Array, root: int = 0) -> Array:
        """Row `rank` of the root's data, in `out`."""
        result: Array = self.iscatter(data, out, root).wait()
        return result

    def alltoall(self, data: Any, out: Optional[Array] = None) -> Array:
        """Row r goes to rank r; row r of the result is from it."""
        result: Array = self.ialltoall(data, out).wait()
        return result

    # ---- any Python objects, pickled ----

    def allgather_object(self, thing: Any) -> list[Any]:
        """What each rank has. Only among processes that trust each other."""
        mine = np.frombuffer(pickle.dumps(thing), np.uint8)
        sizes = self.allgather(np.array(mine.size, np.int64))
        padded = np.zeros(int(sizes.max()), np.uint8)
        padded[:mine.size] = mine
        rows = self.allgather(padded)
        return [pickle.loads(rows[r, :sizes[r]].tobytes())
                for r in range(self.size)]

    def bcast_object(self, thing: Any = None, root: int = 0) -> Any:
        """The root's thing."""
        data = np.frombuffer(pickle.dumps(thing), np.uint8) \
            if self.rank == root else np.empty(0, np.uint8)
        size = self.bcast(np.array(data.size, np.int64), root)
        if self.rank != root:
            data = np.empty(int(size), np.uint8)
        return pickle.loads(self.bcast(data, root).tobytes())

    # ---- memory that all ranks of the machine see ----

    def shared_array(self, shape: Any, dtype: Any = np.float32) -> Array:
        """Zeros in memory that collectives reduce in place, without copies.

        All ranks pass the same shape and type. The memory is there until
        free_shared. If the group is closed before that, it is there for as long
        as an array of it is, slices and arrays of peer() included.
        """
        dtype = np.dtype(dtype)
        count = int(np.prod(shape))
        block = self._core.share(max(count * dtype.itemsize, 1))
        array: Array = np.frombuffer(block, dtype, count).reshape(shape)
        return array

    def free_shared(self, array: Array) -> None:
        """Gives such an array back on all ranks, when what is under way there
        is over. Arrays of it that are left, slices included, are private from
        then on, and zero."""
        buffer = self._core.find(array.ctypes.data)
        if buffer is None or buffer.begin != array.ctypes.data:
            raise _library.ArgumentError(
                "free_shared: this array is not one of shared_array")
        self._core.give_back(buffer)

    def _free_if_there(self, array: Array) -> None:
        """As free_shared, unless it has been given back or the group closed."""
        if self._core.find(array.ctypes.data) is not None:
            self.free_shared(array)

    def peer(self, array: Array, rank: int) -> Optional[Array]:
        """Rank `rank`'s array of the same shared_array; local. None if that
        rank is on another machine. Order accesses by a barrier."""
        if not array.flags.c_contiguous:
            raise _library.ArgumentError(
                f"peer: an array with strides {array.strides} is not possible; "
                "it must be C-contiguous")
        address = _library.ask("ls_shared_peer", self._open, array.ctypes.data,
                               rank)
        buffer = self._core.find(array.ctypes.data)
        if address is None or buffer is None:
            return None
        block = buffer.of_peer(address, array.nbytes)
        theirs: Array = np.frombuffer(block, array.dtype, array.size)
        return theirs.reshape(array.shape)


def _check_sum(what: str, op: str) -> None:
    if op != "sum":
        raise _library.ArgumentError(
            f'{what}: a factor is for the reduction "sum", and this is "{op}"')


def _as_given(data: Any, result: Optional[Array]) -> Any:
    """Of a plain number, a plain number."""
    if result is None or isinstance(data, np.ndarray) or result.ndim != 0:
        return result
    return result[()]
