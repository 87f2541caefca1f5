"""Groups of processes, and collectives on NumPy arrays."""

from __future__ import annotations

import pickle
from ctypes import byref
from typing import Any, Optional, Sequence, Union

import numpy as np

from . import _library
from ._counted import Counted
from ._core import Core
from ._library import StoreLike, call, call_on, wrap_store
from ._messages import Messages
from ._types import DTypeName, ReduceOp
from ._request import (Array, Request, at as _at, collective as _collective,
                       contiguous as _contiguous, into as _into,
                       op_of as _op_of, type_of as _type_of,
                       writable as _writable)

__all__ = ["Array", "Group", "Request"]


class Group(Counted, Messages):
    """A group of processes. This process is rank `rank` of `size` ranks.

    Every rank calls collective methods in the same order with arguments that
    agree. If ranks disagree, or a rank dies or is late, all ranks get an exception
    that names the rank. The group can then only be closed. Any rank may call local
    methods, and methods that send and receive messages. A group belongs to one
    thread at a time.

    C-contiguous arrays are sent without copies.

    Attributes:
        rank: this process's rank, 0 to size - 1.
        size: number of ranks.
        local_rank: this process's rank among the ranks of its machine.
        local_size: number of ranks on this machine.
    """

    def __init__(self, core: Core) -> None:
        super().__init__(core)
        self.local_rank: int = _library.ask("ls_group_local_rank", core.handle)
        self.local_size: int = _library.ask("ls_group_local_size", core.handle)

    def __repr__(self) -> str:
        closed = self._core.handle.value is None
        return (f"<lockstep.Group rank {self.rank} of {self.size}"
                f"{', closed' if closed else ''}>")

    # ---- making and closing ----

    @classmethod
    def from_env(cls) -> Group:
        """Open the group of all ranks that a launcher has started. Collective.

        Reads the variables of `lockstep run`, torchrun, mpirun or Slurm.
        Without any of them the group has one rank. Waits for the other ranks
        for LOCKSTEP_TIMEOUT seconds (default: 300).

        Returns:
            The group.

        Raises:
            LateError: a rank has not arrived within the timeout.
            Error: a variable has a wrong value, or a rank has died.
        """
        return Core.make(lambda out: call("ls_group_from_env", out), cls)

    @classmethod
    def open(cls, name: str, rank: int, size: int,
             store: Optional[StoreLike] = None,
             timeout: Optional[float] = None) -> Group:
        """Open a group by its name. Collective: each of the `size` ranks calls this.

        Args:
            name: any text. Without a store, this user's open groups on this machine
                must have different names. With a store, groups that use the same
                store must have different names.
            rank: this process's rank, 0 to size - 1.
            size: number of ranks.
            store: the store, such as a torch TCPStore, through which ranks
                connect; needed for several machines. Default: ranks of this
                machine connect by `name`.
            timeout: seconds for which ranks wait for each other, now and in
                later calls; 0 means no limit. Default: LOCKSTEP_TIMEOUT, or 300.

        Returns:
            The group.

        Raises:
            LateError: a rank has not arrived within the timeout.
            Error: ranks disagree about the size, or a rank has died.
        """
        kept = None if store is None else wrap_store(store)
        try:
            return Core.make(lambda out: call(
                "ls_group_open", out, name.encode(), rank, size,
                None if kept is None else byref(kept),
                _timeout_of(timeout)), cls)
        except _library.Error as error:
            if kept is None:
                raise
            kept.fail(error)

    @_collective("ls_group_split")
    def split(self, color: int, key: int = 0) -> Optional[Group]:
        """Divide the group into groups of ranks with the same color. Collective.

        Args:
            color: 0 or more: ranks with the same color form a group. Below 0:
                this rank joins no group.
            key: ranks in the new group are sorted by key. Ranks with equal keys
                keep their order.

        Returns:
            The new group, or None for a color below 0. This group stays usable.

        Raises:
            ArgumentError: an argument is wrong on a rank; the group stays
                usable.
            Error: a rank is dead, late, or makes another call; close the group.
        """
        return Core.make(
            lambda out: call_on("ls_group_split", self._open, color, key, out),
            lambda core: None if core.is_none() else Group(core))

    def close(self) -> None:
        """Leave the group, without waiting for other ranks.

        Complete requests keep their results; requests in flight have no result.
        Arrays of shared memory stay valid, with their contents, and stay shared
        with other ranks that still have arrays of it. A group that is not closed
        stays open, with its memory, until the process ends. May be called again.
        """
        self._core.close()

    def __enter__(self) -> Group:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    # ---- properties (local) ----

    def set_timeout(self, seconds: Optional[float] = None) -> None:
        """Set how long a call may wait for other ranks. Local.

        Args:
            seconds: the limit; 0 means no limit. A call that waits longer
                raises LateError. Default: LOCKSTEP_TIMEOUT, or 300.

        Raises:
            ArgumentError: `seconds` is below 0.
        """
        call_on("ls_group_set_timeout", self._open, _timeout_of(seconds))

    def abort(self) -> None:
        """Abort the group: waiting calls on all ranks raise AbortedError. Local.

        May be called from any thread. Afterwards the group can only be closed.
        """
        _library.ask("ls_group_abort", self._open)

    def dump(self, path: str) -> None:
        """Write this rank's last calls to a file, for `lockstep doctor`. Local.

        Works on a failed group, too.

        Args:
            path: file to write, as JSON.

        Raises:
            SystemCallError: the file cannot be written.
        """
        call_on("ls_group_dump", self._open, path.encode())

    def counters(self) -> dict[str, int]:
        """Return the communication counters of this rank. Local.

        Returns:
            A dict of "collectives", "messages" (sent by this rank) and
            "bytes_sent".
        """
        out = _library.Counters()
        _library.ask("ls_group_get_counters", self._open, byref(out))
        return {name: getattr(out, name) for name, *_ in out._fields_}

    # ---- collectives that return a Request ----

    def ibarrier(self) -> Request:
        """Start a barrier and return at once. Collective.

        Returns:
            A Request. Its wait() returns None when every rank has called
            ibarrier.

        Raises:
            Error: here or in wait(), a rank is dead, late, or makes another
                call; close the group.
        """
        return self._start("ls_ibarrier", None, ())

    @_collective("ls_iall_reduce")
    def iallreduce(self, data: Any, op: ReduceOp = "sum",
                   out: Optional[Array] = None,
                   factor: Optional[float] = None) -> Request:
        """Start combining the ranks' arrays; every rank gets the result. Collective.

        Args:
            data: an array, or a number, of a type of DTypeName. It has the same
                shape and type on all ranks.
            op: the reduction; "sum" by default. "avg": floating types only.
                "band", "bor", "bxor": integers and bools only. For bools, "sum"
                is "or" and "prod" is "and".
            out: the array for the result: a writable C-contiguous array of the
                result's shape and type. It may be `data`. Default: a new array.
            factor: number that multiplies this rank's data before the sum. For
                floating types, with `op` "sum" only.

        Returns:
            A Request. Its wait() returns an array of the shape and type of
            `data`, with the same bits on every rank.

        Raises:
            ArgumentError: an argument is wrong on a rank; the group stays
                usable.
            Error: here or in wait(), a rank is dead, late, or makes another
                call; close the group.
        """
        send = _contiguous(data)
        recv = _into(out, send.shape, send.dtype)
        if factor is not None:
            _check_factor("allreduce", op, send)
            return self._start("ls_iall_reduce_premul", recv, (send, recv),
                               _at(send), _at(recv), send.size, _type_of(send),
                               factor)
        return self._start("ls_iall_reduce", recv, (send, recv), _at(send),
                           _at(recv), send.size, _type_of(send),
                           _op_of(op))

    @_collective("ls_ireduce")
    def ireduce(self, data: Any, op: ReduceOp = "sum", root: int = 0,
                out: Optional[Array] = None) -> Request:
        """Start combining the ranks' arrays; only the root gets the result. Collective.

        Args:
            data: an array, or a number, of a type of DTypeName. It has the same
                shape and type on all ranks.
            op: the reduction; "sum" by default. "avg": floating types only.
                "band", "bor", "bxor": integers and bools only. For bools, "sum"
                is "or" and "prod" is "and".
            root: the rank that gets the result.
            out: the array for the result: a writable C-contiguous array of the
                result's shape and type. It may be `data`. Other ranks ignore
                it. Default: a new array.

        Returns:
            A Request. On the root, its wait() returns an array of the shape and
            type of `data`; on other ranks, None.

        Raises:
            ArgumentError: an argument is wrong on a rank; the group stays
                usable.
            Error: here or in wait(), a rank is dead, late, or makes another
                call; close the group.
        """
        root = _library.index(root)
        send = _contiguous(data)
        recv = _into(out, send.shape, send.dtype) if self.rank == root else None
        return self._start("ls_ireduce", recv, (send, recv), _at(send),
                           _at(recv), send.size, _type_of(send),
                           _op_of(op), root)

    @_collective("ls_ibroadcast")
    def ibcast(self, data: Array, root: int = 0) -> Request:
        """Start copying the root's array into the arrays of all other ranks. Collective.

        Args:
            data: the array to send on the root, and to overwrite on other
                ranks. It has the same shape and type on all ranks.
            root: the rank whose array is sent.

        Returns:
            A Request. Its wait() returns `data`, which then has the root's
            elements.

        Raises:
            ArgumentError: an argument is wrong on a rank; the group stays
                usable.
            Error: here or in wait(), a rank is dead, late, or makes another
                call; close the group.
        """
        root = _library.index(root)
        array = _contiguous(data) if self.rank == root \
            else _writable(data, "data")
        return self._start("ls_ibroadcast", array, (array,), _at(array),
                           array.size, _type_of(array), root)

    @_collective("ls_iall_gather")
    def iallgather(self, data: Any, out: Optional[Array] = None) -> Request:
        """Start collecting all ranks' arrays on every rank. Collective.

        Args:
            data: an array, or a number, of a type of DTypeName. It has the same
                shape and type on all ranks.
            out: the array for the result: a writable C-contiguous array of the
                result's shape and type. Row `rank` of it may be `data`.
                Default: a new array.

        Returns:
            A Request. Its wait() returns an array of shape (size, *data.shape),
            whose row r is rank r's array.

        Raises:
            ArgumentError: an argument is wrong on a rank; the group stays
                usable.
            Error: here or in wait(), a rank is dead, late, or makes another
                call; close the group.
        """
        send = _contiguous(data)
        recv = _into(out, (self.size, *send.shape), send.dtype)
        return self._start("ls_iall_gather", recv, (send, recv), _at(send),
                           _at(recv), send.size, _type_of(send))

    @_collective("ls_igather")
    def igather(self, data: Any, root: int = 0,
                out: Optional[Array] = None) -> Request:
        """Start collecting all ranks' arrays on the root. Collective.

        Args:
            data: an array, or a number, of a type of DTypeName. It has the same
                shape and type on all ranks.
            root: the rank that gets the arrays.
            out: the array for the result: a writable C-contiguous array of the
                result's shape and type. Other ranks ignore it. Default: a new
                array.

        Returns:
            A Request. On the root, its wait() returns an array of shape (size,
            *data.shape), whose row r is rank r's array; on other ranks, None.

        Raises:
            ArgumentError: an argument is wrong on a rank; the group stays
                usable.
            Error: here or in wait(), a rank is dead, late, or makes another
                call; close the group.
        """
        root = _library.index(root)
        send = _contiguous(data)
        recv = _into(out, (self.size, *send.shape), send.dtype) \
            if self.rank == root else None
        return self._start("ls_igather", recv, (send, recv), _at(send),
                           _at(recv), send.size, _type_of(send), root)

    def _blocks(self, data: Any, what: str) -> Array:
        array = _contiguous(data)
        if array.ndim == 0 or array.shape[0] != self.size:
            raise _library.ArgumentError(
                f"{what}: data has shape {array.shape}; its first axis must have "
                f"length {self.size}, one entry per rank")
        return array

    @_collective("ls_ireduce_scatter")
    def ireduce_scatter(self, data: Any, op: ReduceOp = "sum",
                        out: Optional[Array] = None,
                        factor: Optional[float] = None) -> Request:
        """Start combining the ranks' arrays; rank r gets row r of the result. Collective.

        Args:
            data: an array of shape (size, ...), the same shape and type on all
                ranks.
            op: the reduction; "sum" by default. "avg": floating types only.
                "band", "bor", "bxor": integers and bools only. For bools, "sum"
                is "or" and "prod" is "and".
            out: the array for the result: a writable C-contiguous array of the
                result's shape and type. It may be row `rank` of `data`.
                Default: a new array.
            factor: number that multiplies this rank's data before the sum. For
                floating types, with `op` "sum" only.

        Returns:
            A Request. Its wait() returns an array of shape data.shape[1:]: row
            `rank` of the combined array.

        Raises:
            ArgumentError: an argument is wrong on a rank; the group stays
                usable.
            Error: here or in wait(), a rank is dead, late, or makes another
                call; close the group.
        """
        send = self._blocks(data, "reduce_scatter")
        recv = _into(out, send.shape[1:], send.dtype)
        if factor is not None:
            _check_factor("reduce_scatter", op, send)
            return self._start("ls_ireduce_scatter_premul", recv, (send, recv),
                               _at(send), _at(recv), recv.size, _type_of(send),
                               factor)
        return self._start("ls_ireduce_scatter", recv, (send, recv), _at(send),
                           _at(recv), recv.size, _type_of(send),
                           _op_of(op))

    @_collective("ls_iscatter")
    def iscatter(self, data: Any, out: Array, root: int = 0) -> Request:
        """Start sending row r of the root's array to rank r. Collective.

        Args:
            data: on the root, an array of shape (size, *out.shape). Other ranks
                ignore it and may pass None.
            out: the array for this rank's row: a writable C-contiguous array, of
                the same shape and type on all ranks.
            root: the rank whose array is divided.

        Returns:
            A Request. Its wait() returns `out`, which then has row `rank` of
            the root's array.

        Raises:
            ArgumentError: an argument is wrong on a rank; the group stays
                usable.
            Error: here or in wait(), a rank is dead, late, or makes another
                call; close the group.
        """
        root = _library.index(root)
        send = self._blocks(data, "scatter") if self.rank == root else None
        recv = _writable(out) if send is None \
            else _into(_writable(out), send.shape[1:], send.dtype)
        return self._start("ls_iscatter", recv, (send, recv), _at(send),
                           _at(recv), recv.size, _type_of(recv), root)

    @_collective("ls_iall_to_all")
    def ialltoall(self, data: Any, out: Optional[Array] = None) -> Request:
        """Start sending row r of each rank's array to rank r. Collective.

        Args:
            data: an array of shape (size, ...), the same shape and type on all
                ranks. Row r is for rank r.
            out: the array for the result: a writable C-contiguous array of the
                result's shape and type. Default: a new array.

        Returns:
            A Request. Its wait() returns an array of the shape and type of
            `data`, whose row r is from rank r.

        Raises:
            ArgumentError: an argument is wrong on a rank; the group stays
                usable.
            Error: here or in wait(), a rank is dead, late, or makes another
                call; close the group.
        """
        send = self._blocks(data, "alltoall")
        recv = _into(out, send.shape, send.dtype)
        return self._start("ls_iall_to_all", recv, (send, recv), _at(send),
                           _at(recv), send.size // self.size, _type_of(send))

    # ---- blocking calls ----

    def barrier(self) -> None:
        """Wait until every rank has called barrier. Collective.

        Raises:
            Error: a rank is dead, late, or makes another call; close the group.
        """
        self.ibarrier().wait()

    def allreduce(self, data: Any, op: ReduceOp = "sum", out: Optional[Array] = None,
                  factor: Optional[float] = None) -> Any:
        """Combine the ranks' arrays; every rank gets the result. Collective.

        Args:
            data: an array, or a number, of a type of DTypeName. It has the same
                shape and type on all ranks.
            op: the reduction; "sum" by default. "avg": floating types only.
                "band", "bor", "bxor": integers and bools only. For bools, "sum"
                is "or" and "prod" is "and".
            out: the array for the result: a writable C-contiguous array of the
                result's shape and type. It may be `data`. Default: a new array.
            factor: number that multiplies this rank's data before the sum. For
                floating types, with `op` "sum" only.

        Returns:
            An array of the shape and type of `data`, with the same bits on
            every rank; a number if `data` is a number.

        Raises:
            ArgumentError: an argument is wrong on a rank; the group stays
                usable.
            Error: a rank is dead, late, or makes another call; close the group.
        """
        return _as_given(data, self.iallreduce(data, op, out, factor).wait())

    def reduce(self, data: Any, op: ReduceOp = "sum", root: int = 0,
               out: Optional[Array] = None) -> Any:
        """Combine the ranks' arrays; only the root gets the result. Collective.

        Args:
            data: an array, or a number, of a type of DTypeName. It has the same
                shape and type on all ranks.
            op: the reduction; "sum" by default. "avg": floating types only.
                "band", "bor", "bxor": integers and bools only. For bools, "sum"
                is "or" and "prod" is "and".
            root: the rank that gets the result.
            out: the array for the result: a writable C-contiguous array of the
                result's shape and type. It may be `data`. Other ranks ignore
                it. Default: a new array.

        Returns:
            On the root, an array of the shape and type of `data`, or a number
            if `data` is a number. None on other ranks.

        Raises:
            ArgumentError: an argument is wrong on a rank; the group stays
                usable.
            Error: a rank is dead, late, or makes another call; close the group.
        """
        return _as_given(data, self.ireduce(data, op, root, out).wait())

    def bcast(self, data: Array, root: int = 0) -> Array:
        """Copy the root's array into the arrays of all other ranks. Collective.

        Args:
            data: the array to send on the root, and to overwrite on other
                ranks. It has the same shape and type on all ranks.
            root: the rank whose array is sent.

        Returns:
            `data`, which has the root's elements on every rank.

        Raises:
            ArgumentError: an argument is wrong on a rank; the group stays
                usable.
            Error: a rank is dead, late, or makes another call; close the group.
        """
        result: Array = self.ibcast(data, root).wait()
        return result

    def allgather(self, data: Any, out: Optional[Array] = None) -> Array:
        """Collect all ranks' arrays on every rank. Collective.

        Args:
            data: an array, or a number, of a type of DTypeName. It has the same
                shape and type on all ranks.
            out: the array for the result: a writable C-contiguous array of the
                result's shape and type. Row `rank` of it may be `data`.
                Default: a new array.

        Returns:
            An array of shape (size, *data.shape), whose row r is rank r's
            array.

        Raises:
            ArgumentError: an argument is wrong on a rank; the group stays
                usable.
            Error: a rank is dead, late, or makes another call; close the group.
        """
        result: Array = self.iallgather(data, out).wait()
        return result

    def gather(self, data: Any, root: int = 0,
               out: Optional[Array] = None) -> Optional[Array]:
        """Collect all ranks' arrays on the root. Collective.

        Args:
            data: an array, or a number, of a type of DTypeName. It has the same
                shape and type on all ranks.
            root: the rank that gets the arrays.
            out: the array for the result: a writable C-contiguous array of the
                result's shape and type. Other ranks ignore it. Default: a new
                array.

        Returns:
            On the root, an array of shape (size, *data.shape), whose row r is
            rank r's array. None on other ranks.

        Raises:
            ArgumentError: an argument is wrong on a rank; the group stays
                usable.
            Error: a rank is dead, late, or makes another call; close the group.
        """
        result: Optional[Array] = self.igather(data, root, out).wait()
        return result

    def reduce_scatter(self, data: Any, op: ReduceOp = "sum",
                       out: Optional[Array] = None,
                       factor: Optional[float] = None) -> Array:
        """Combine the ranks' arrays; rank r gets row r of the result. Collective.

        Args:
            data: an array of shape (size, ...), the same shape and type on all
                ranks.
            op: the reduction; "sum" by default. "avg": floating types only.
                "band", "bor", "bxor": integers and bools only. For bools, "sum"
                is "or" and "prod" is "and".
            out: the array for the result: a writable C-contiguous array of the
                result's shape and type. It may be row `rank` of `data`.
                Default: a new array.
            factor: number that multiplies this rank's data before the sum. For
                floating types, with `op` "sum" only.

        Returns:
            An array of shape data.shape[1:]: row `rank` of the combined array.

        Raises:
            ArgumentError: an argument is wrong on a rank; the group stays
                usable.
            Error: a rank is dead, late, or makes another call; close the group.
        """
        result: Array = self.ireduce_scatter(data, op, out, factor).wait()
        return result

    def scatter(self, data: Any, out: Array, root: int = 0) -> Array:
        """Send row r of the root's array to rank r. Collective.

        Args:
            data: on the root, an array of shape (size, *out.shape). Other ranks
                ignore it and may pass None.
            out: the array for this rank's row: a writable C-contiguous array, of
                the same shape and type on all ranks.
            root: the rank whose array is divided.

        Returns:
            `out`, which has row `rank` of the root's array.

        Raises:
            ArgumentError: an argument is wrong on a rank; the group stays
                usable.
            Error: a rank is dead, late, or makes another call; close the group.
        """
        result: Array = self.iscatter(data, out, root).wait()
        return result

    def alltoall(self, data: Any, out: Optional[Array] = None) -> Array:
        """Send row r of each rank's array to rank r. Collective.

        Args:
            data: an array of shape (size, ...), the same shape and type on all
                ranks. Row r is for rank r.
            out: the array for the result: a writable C-contiguous array of the
                result's shape and type. Default: a new array.

        Returns:
            An array of the shape and type of `data`, whose row r is from rank
            r.

        Raises:
            ArgumentError: an argument is wrong on a rank; the group stays
                usable.
            Error: a rank is dead, late, or makes another call; close the group.
        """
        result: Array = self.ialltoall(data, out).wait()
        return result

    # ---- any Python objects, pickled ----

    def allgather_object(self, thing: Any) -> list[Any]:
        """Collect one Python object from each rank, on every rank. Collective.

        The objects are pickled. Use this only among processes that trust each other.

        Args:
            thing: any object that can be pickled.

        Returns:
            A list whose entry r is a copy of rank r's object.

        Raises:
            ArgumentError: an argument is wrong on a rank; the group stays
                usable.
            Error: a rank is dead, late, or makes another call; close the group.
        """
        mine = np.frombuffer(pickle.dumps(thing), np.uint8)
        sizes = self.allgather(np.array(mine.size, np.int64))
        padded = np.zeros(int(sizes.max()), np.uint8)
        padded[:mine.size] = mine
        rows = self.allgather(padded)
        return [pickle.loads(rows[r, :sizes[r]].tobytes())
                for r in range(self.size)]

    def bcast_object(self, thing: Any = None, root: int = 0) -> Any:
        """Copy the root's Python object to all ranks. Collective.

        The object is pickled. Use this only among processes that trust each other.

        Args:
            thing: on the root, any object that can be pickled. Other ranks
                ignore it.
            root: the rank whose object is sent.

        Returns:
            A copy of the root's object.

        Raises:
            ArgumentError: an argument is wrong on a rank; the group stays
                usable.
            Error: a rank is dead, late, or makes another call; close the group.
        """
        data = np.frombuffer(pickle.dumps(thing), np.uint8) \
            if self.rank == root else np.empty(0, np.uint8)
        size = self.bcast(np.array(data.size, np.int64), root)
        if self.rank != root:
            data = np.empty(int(size), np.uint8)
        return pickle.loads(self.bcast(data, root).tobytes())

    # ---- memory that the ranks of a machine share ----

    def shared_array(self, shape: Union[int, Sequence[int]],
                     dtype: Union[DTypeName, np.dtype[Any], type] = "float32"
                     ) -> Array:
        """Create an array of zeros in shared memory. Collective.

        The ranks of a machine share it. Collectives reduce it in place without
        copies. The memory stays until free_shared. If the group is closed
        first, the memory stays as long as an array of it is left, including
        slices and arrays of peer().

        Args:
            shape: the shape; the same on all ranks.
            dtype: type of the elements; the same on all ranks.

        Returns:
            This rank's array.

        Raises:
            TypeError: NumPy does not know the type. Only this rank raises it;
                other ranks wait for this rank.
            OutOfMemoryError: a rank cannot allocate the memory; the group stays
                usable.
            Error: a rank is dead, late, or makes another call; close the group.
        """
        dtype = np.dtype(dtype)
        count = int(np.prod(shape))
        block = self._core.share(max(count * dtype.itemsize, 1))
        array: Array = np.frombuffer(block, dtype, count).reshape(shape)
        return array

    def free_shared(self, array: Array) -> None:
        """Free the memory of an array from shared_array, on all ranks. Collective.

        Waits for requests that use the memory. Arrays that the program still has,
        slices included, become private and contain zeros.

        Args:
            array: the array that shared_array has returned.

        Raises:
            ArgumentError: an argument is wrong on a rank; the group stays
                usable.
            Error: a rank is dead, late, or makes another call; close the group.
        """
        buffer = self._core.find(array.ctypes.data)
        if buffer is None or buffer.begin != array.ctypes.data:
            raise _library.ArgumentError(
                "free_shared: the array was not returned by shared_array of this "
                "group, or was freed already; pass the whole array, not a slice")
        self._core.free_buffer(buffer)

    def _free_if_there(self, array: Array) -> None:
        """Call free_shared, unless the memory was freed or the group was closed."""
        if self._core.find(array.ctypes.data) is not None:
            self.free_shared(array)

    def peer(self, array: Array, rank: int) -> Optional[Array]:
        """Return another rank's array from the same call of shared_array. Local.

        Use a barrier to order accesses by several ranks.

        Args:
            array: this rank's array from shared_array, or a C-contiguous slice of
                it.
            rank: the other rank.

        Returns:
            Rank `rank`'s array, without a copy. None if that rank is on another
            machine, or if `array` is not in shared memory.

        Raises:
            ArgumentError: `array` is not C-contiguous, or no such rank exists.
        """
        if not array.flags.c_contiguous:
            raise _library.ArgumentError(
                f"peer: array has strides {array.strides}; it must be C-contiguous")
        address = _library.ask("ls_shared_peer", self._open, array.ctypes.data,
                               rank)
        buffer = self._core.find(array.ctypes.data)
        if address is None or buffer is None:
            return None
        block = buffer.of_peer(address, array.nbytes)
        theirs: Array = np.frombuffer(block, array.dtype, array.size)
        return theirs.reshape(array.shape)


def _timeout_of(seconds: Optional[float]) -> float:
    if seconds is None:
        return -1.0  # LS_TIMEOUT_DEFAULT
    if seconds < 0:
        raise _library.ArgumentError(
            f"the timeout is {seconds:g} s; it must be 0 or more (0: no limit), or "
            "None (the default)")
    return seconds


def _check_factor(what: str, op: str, data: Array) -> None:
    if data.dtype.kind in "iub":
        raise _library.ArgumentError(f"{what}: factor needs data of a floating "
                                     f"type, but data has type {data.dtype}")
    if _op_of(op) != 0:
        raise _library.ArgumentError(
            f"{what}: factor needs the reduction 'sum', but op is '{op}'")


def _as_given(data: Any, result: Optional[Array]) -> Any:
    """Return the result. If `data` is a number, convert the result to a number."""
    if result is None or isinstance(data, np.ndarray) or result.ndim != 0:
        return result
    return result[()]
