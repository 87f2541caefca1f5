"""The backend where no C++ compiler has built the other one: by ctypes.

A subclass of ``ProcessGroup``, which all releases of PyTorch take. Every
operation starts without waiting. Who waits for one moves it on; what nobody
waits for, a thread does, one a group. Futures are completed by threads of their
own, since what hangs on them may wait for operations that come later.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import queue
import sys
import threading
import time
import weakref
from ctypes import byref, c_void_p
from datetime import timedelta
from typing import Any, Callable, Optional, Sequence

import torch
import torch.distributed as dist
from torch import Tensor
from lockstep import _library
from torch._C._distributed_c10d import Work, _create_work_from_future

_PYTORCH = tuple(int(part) for part in torch.__version__.split(".")[:2])
# Before that, C++ kept no reference to the Python half of a Work.
_WORKS_ARE_KEPT = _PYTORCH >= (2, 8)
_CALLS = dist.get_rank.__code__.co_filename

_TYPES = {torch.float32: 0, torch.float64: 1, torch.float16: 2,
          torch.bfloat16: 3, torch.int8: 4, torch.uint8: 5, torch.int32: 6,
          torch.int64: 7, torch.bool: 8}
_BYTE = _TYPES[torch.uint8]
_RED = dist.ReduceOp.RedOpType
_OPS = {_RED.SUM: 0, _RED.AVG: 1, _RED.MIN: 2, _RED.MAX: 3, _RED.PRODUCT: 4,
        _RED.BAND: 5, _RED.BOR: 6, _RED.BXOR: 7}
_OF_COMPLEX = (_RED.SUM, _RED.AVG, _RED.PREMUL_SUM)
_AVG, _MIN = _OPS[_RED.AVG], _OPS[_RED.MIN]
_ANY_RANK = -1

_SPIN = 20e-6   # seconds for which an operation may be done when it starts
_SLICE = 0.002  # seconds for which one thread may keep a group from others
_POLL = (20e-6, 500e-6)  # seconds between two looks at what nobody waits for

_Call = Callable[[c_void_p], int]


def _kind(status: int) -> type[_library.Error]:
    """The library's exception that is also PyTorch's for such an error."""
    own = _library._ERRORS.get(status, _library.Error)
    known = {-1: ValueError, -2: ValueError, -3: TypeError,
             -8: NotImplementedError}.get(status, dist.DistBackendError)
    return own if issubclass(own, known) else type(own.__name__, (own, known), {})


_KINDS = {status: _kind(status) for status in range(-15, 0)}
_LateError = _KINDS[_library.ERR_TIMEOUT]
_StateError = _KINDS[-9]


def _error(status: int) -> _library.Error:
    return _KINDS[status](_library.ask("ls_last_error").decode())


def _handed_out(work: _Work) -> Work:
    """The work as its caller can have it.

    Where C++ does not keep the Python half, a Work of C++ stands for it, whose
    wait neither raises what has failed nor takes a timeout. What is called by
    Python's functions stays in Python, and needs none.
    """
    if _WORKS_ARE_KEPT:
        return work
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename == \
            _handed_out.__code__.co_filename:
        frame = frame.f_back
    if frame is not None and frame.f_code.co_filename == _CALLS:
        return work
    return _create_work_from_future(work.get_future())


def _do(name: str, *arguments: Any) -> None:
    """Calls a function that returns a status; errors are raised."""
    status = _library.ask(name, *arguments)
    if status < 0:
        raise _error(status)


class _Callbacks:
    """Threads that run what may wait: another is made if all are busy."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0

    def run(self, function: Callable[[], None]) -> None:
        with self._lock:
            if self._idle:
                self._idle -= 1
            else:
                threading.Thread(target=self._serve, daemon=True,
                                 name="lockstep callbacks").start()
            self._queue.put(function)

    def _serve(self) -> None:
        while True:
            self._queue.get()()
            with self._lock:
                self._idle += 1


_callbacks = _Callbacks()


class _Work(Work):
    """An operation that has been started, and what is done when it is over."""

    def __init__(self, engine: _Engine, result: list[Tensor],
                 after: Optional[Callable[[], None]], kept: Any) -> None:
        super().__init__()
        self._engine = engine
        self._requests: list[c_void_p] = []
        self._result = result
        self._after = after
        self._kept = kept  # what the library reads and writes
        self._failure: Optional[Exception] = None
        self._claimed = False  # a thread does what comes after
        self._over = False
        self._future: Optional[torch.futures.Future[Any]] = None
        self._checked: Optional[torch.futures.Future[Any]] = None
        self._from = -1

    # ---- by the engine ----

    def _move(self, wait: float = 0.0) -> bool:
        """With the group's lock: whether the library is done with it."""
        library = _library._library
        while self._requests:
            request = self._requests[0]
            if request.value is None:  # its start was interrupted
                del self._requests[0]
                continue
            status = library.ls_wait_for(request, wait) if wait \
                else library.ls_test(request)
            if status == _library.IN_PROGRESS:
                return False
            if status < 0 and self._failure is None:
                self._failure = _error(status)
            if status == 0 and self._from == -2:
                source = ctypes.c_int(-1)
                library.ls_request_source(request, byref(source))
                self._from = source.value
            library.ls_request_free(byref(request))
            del self._requests[0]
        return True

    def _finish(self) -> None:
        """Outside all locks, by the one thread that has claimed it."""
        if self._after is not None and self._failure is None:
            try:
                self._after()
            except Exception as failure:
                self._failure = failure
        self._after = self._kept = None
        with _futures:
            self._over = True
            future = self._future
        if future is not None:
            self._settle(future)

    def _settle(self, future: torch.futures.Future[Any]) -> None:
        future.set_result(self._result)

    def _check(self, future: torch.futures.Future[Any]) -> Any:
        if self._failure is not None:
            raise self._failure
        return future.value()

    def _has_future(self) -> bool:
        with _futures:
            return self._future is not None

    # ---- by users ----

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        if not self._over:
            self._engine.wait(self, timeout.total_seconds())
        if self._failure is not None:
            raise self._failure
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        if not self._over:
            self._engine.look(self)
        return self._over

    def is_success(self) -> bool:
        return self._over and self._failure is None

    def exception(self) -> Optional[Exception]:
        return self._failure

    def result(self) -> list[Tensor]:
        self.wait()
        return self._result

    def source_rank(self) -> int:
        return self._from

    def _source_rank(self) -> int:
        return self._from

    def get_future(self) -> torch.futures.Future[Any]:
        # Future.set_exception would make the exception the value that C++ sees,
        # and DDP takes that for tensors; what a callback raises is an error there.
        with _futures:
            if self._checked is None:
                self._future = torch.futures.Future()
                self._checked = self._future.then(self._check)
                if self._over:
                    self._settle(self._future)
        return self._checked


_futures = threading.Lock()
_engines: weakref.WeakSet[_Engine] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """While there still are threads and modules."""
    for engine in list(_engines):
        engine.close(keep=True)


class _Engine:
    """A group, and who moves on what is under way in it."""

    def __init__(self, handle: c_void_p) -> None:
        self.handle = handle
        self._lock = threading.Lock()  # a group belongs to one thread at a time
        self._flying: list[_Work] = []
        self._wanted = 0  # threads that want the lock for something short
        self._waiting = 0  # threads that wait for something, and so move all
        self._wake = threading.Semaphore(0)
        self._asleep = False
        self._closed = False
        self._pid = os.getpid()
        self.shared: list[c_void_p] = []  # memory by ls_shared_alloc
        self._thread: Optional[threading.Thread] = None
        _engines.add(self)

    def start(self, work: _Work, calls: Sequence[_Call],
              alone: bool = True) -> None:
        """Starts the operation. alone: nobody is about to wait for it."""
        if os.getpid() != self._pid:  # the lock may be held by a thread not here
            raise _StateError(
                f"this process group belongs to process {self._pid}, and this is "
                f"process {os.getpid()}, forked from it; a forked process has to "
                "make a group of its own")
        self._wanted += 1
        with self._lock:
            self._wanted -= 1
            if self._closed:
                raise _StateError("the process group has been destroyed")
            # What C writes and reads is kept here first: a signal's handler may
            # raise as soon as C returns.
            self._flying.append(work)
            for call in calls:
                request = c_void_p()
                work._requests.append(request)
                status = call(byref(request))
                if status < 0:
                    work._failure = _error(status)
                    del work._requests[-1]
                    break
            until = time.perf_counter() + _SPIN
            while not (done := work._move()) and time.perf_counter() < until:
                pass
            if done:
                work._claimed = True
                del self._flying[-1]
        if done:
            work._finish()
            if work._failure is not None:
                raise work._failure
        elif alone:
            self._call_thread()

    def look(self, work: _Work) -> None:
        """Moves things on, without waiting."""
        if self._lock.acquire(blocking=False):
            try:
                done = self._sweep()
            finally:
                self._lock.release()
            self._finish_all(done, work)

    def _sweep(self) -> list[_Work]:
        """With the lock: what is done, in the order in which it was started."""
        done = [work for work in list(self._flying) if work._move()]
        for work in done:
            work._claimed = True
            self._flying.remove(work)
        return done

    @staticmethod
    def _finish_all(done: list[_Work], mine: Optional[_Work] = None) -> None:
        for work in done:
            if work is mine or not work._has_future():
                work._finish()
            else:
                _callbacks.run(work._finish)

    def wait(self, work: _Work, seconds: float) -> None:
        """Moves things on until the work is over."""
        until = time.monotonic() + seconds if seconds > 0 else None
        self._waiting += 1
        try:
            while not work._over:
                self._wait_a_little(work)
                if until is not None and time.monotonic() > until \
                        and not work._over:
                    raise _LateError(
                        f"wait: the operation is not done after {seconds:g} "
                        "seconds; it goes on")
        finally:
            self._waiting -= 1
            if self._flying and not self._waiting:
                self._call_thread()

    def _wait_a_little(self, work: _Work) -> None:
        if work._claimed:
            time.sleep(_POLL[0])  # another thread is finishing it
            return
        with self._lock:
            done = []
            if not work._claimed:
                if work._move(_SLICE):
                    self._flying.remove(work)
                    work._claimed = True
                    done.append(work)
                if len(self._flying) > 0:
                    done += self._sweep()
        self._finish_all(done, work)
        if self._wanted:
            time.sleep(_POLL[0])  # locks of Python know no order

    # ---- what nobody waits for ----

    def _call_thread(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=_serve, daemon=True,
                                            args=(weakref.ref(self), self._wake),
                                            name="lockstep progress")
            self._thread.start()
        elif self._asleep:
            self._wake.release()

    def serve(self) -> bool:
        """A round of the thread; False if there is nothing to do."""
        pause = _POLL[0]
        while self._flying and not self._closed:
            done = []
            if not self._waiting and self._lock.acquire(timeout=_POLL[1]):
                try:
                    done = self._sweep()
                finally:
                    self._lock.release()
            self._finish_all(done)
            pause = _POLL[0] if done else min(pause * 1.5, _POLL[1])
            time.sleep(pause)
        return False

    def held(self) -> threading.Lock:
        """For calls of one's own on the group: "with engine.held():"."""
        return self._lock

    def abort(self) -> None:
        _library.ask("ls_group_abort", self.handle)

    def set_timeout(self, seconds: float) -> None:
        with self._lock:
            _do("ls_group_set_timeout", self.handle, seconds)

    def dump(self, path: str) -> None:
        with self._lock:
            _do("ls_group_dump", self.handle, path.encode())

    def close(self, keep: bool = False) -> None:
        """Leaves the group; what is under way has a second to end. Shared memory
        ends with the group, or is kept until the process ends."""
        if self._closed:
            return
        until = time.monotonic() + 1
        while self._flying and time.monotonic() < until:
            with self._lock:
                done = self._sweep()
            self._finish_all(done)
        if self._flying:
            self.abort()
        with self._lock:
            done = []
            while self._flying:
                done += self._sweep()
            self._closed = True
            for memory in self.shared if keep else ():
                _library.ask("ls_shared_keep", self.handle, memory,
                             byref(ctypes.c_size_t()), byref(c_void_p()))
            _library.ask("ls_group_close", byref(self.handle))
        self._finish_all(done)
        self._wake.release()


def _serve(engine_of: weakref.ref[_Engine], wake: threading.Semaphore) -> None:
    """The thread of a group, which does not keep the group."""
    while True:
        engine = engine_of()
        if engine is None or engine._closed:
            return
        engine._asleep = False
        engine.serve()
        engine._asleep = True
        if engine._flying:  # came while it fell asleep
            continue
        del engine
        wake.acquire(timeout=1.0)


# ---- tensors as the library sees them --------------------------------------


def _check(tensor: Tensor, what: str) -> Tensor:
    if tensor.device.type != "cpu":
        raise ValueError(f"{what}: the tensor is on {tensor.device}; lockstep "
                         "takes those on the CPU")
    if tensor.layout != torch.strided:
        raise ValueError(f"{what}: the tensor is {tensor.layout}; lockstep takes "
                         "dense ones here")
    return tensor.detach()


def _same_type(what: str, first: Tensor, others: Sequence[Tensor]) -> None:
    for other in others:
        if other.dtype != first.dtype:
            raise TypeError(f"{what}: tensors of {first.dtype} and "
                            f"{other.dtype}; all should have the same type")


def _listed(tensors: Any) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _one(tensors: Any, what: str) -> Tensor:
    tensors = _listed(tensors)
    if len(tensors) != 1:
        raise ValueError(f"{what}: one tensor a rank is possible, and there are "
                         f"{len(tensors)}")
    return _check(tensors[0], what)


def _bytes_of(tensor: Tensor) -> tuple[int, int]:
    """(elements, type) of what is moved and not computed with."""
    number = _TYPES.get(tensor.dtype)
    if number is not None:
        return tensor.numel(), number
    return tensor.numel() * tensor.element_size(), _BYTE


def _op_of(op: Any, tensor: Tensor, what: str) -> int:
    if op not in _OPS or op == _RED.AVG and not tensor.is_floating_point():
        raise NotImplementedError(f"{what}: {op} of {tensor.dtype} is not possible")
    return _OPS[op]


def _number_of(tensor: Tensor, what: str) -> int:
    if tensor.dtype not in _TYPES:
        raise TypeError(f"{what}: {tensor.dtype} cannot be reduced; possible "
                        f"are {', '.join(str(t) for t in _TYPES)}")
    return _TYPES[tensor.dtype]


def _reduction(opts: Any) -> tuple[Any, Any]:
    """(kind, factor); the factor is of PREMUL_SUM."""
    op = getattr(opts, "reduceOp", _RED.SUM)
    if isinstance(op, _RED):
        return op, None
    kind = getattr(op, "op", None)
    if isinstance(kind, _RED) and kind != _RED.PREMUL_SUM:
        return kind, None
    state = op.__getstate__()
    return state if isinstance(state, tuple) else (state, None)


class _Reducible:
    """A tensor as it is reduced: contiguous, real, multiplied beforehand."""

    def __init__(self, tensor: Tensor, opts: Any, what: str) -> None:
        kind, factor = _reduction(opts)
        if tensor.is_complex():
            if kind not in _OF_COMPLEX:
                raise TypeError(
                    f"{what}: {kind} of {tensor.dtype} is not possible; of "
                    "complex numbers, SUM, AVG and PREMUL_SUM are")
            tensor = torch.view_as_real(tensor)  # a sum is that of the parts
        if factor is not None:
            # Of 16 bits: multiplied and summed in 32, rounded once.
            wide = tensor.float() if tensor.element_size() < 4 else tensor
            tensor, kind = wide * factor, _RED.SUM
        self.send = tensor.contiguous()
        self.type = _number_of(tensor, what)
        self.op = _op_of(kind, tensor, what)


class Backend(dist.ProcessGroup):
    """The process group of ``init_process_group("lockstep")``.

    See docs/pytorch.md. Its methods are those that ``torch.distributed`` calls.
    """

    def __init__(self, store: dist.Store, rank: int, size: int,
                 timeout: timedelta) -> None:
        super().__init__(rank, size)
        self._seconds = max(timeout.total_seconds(), 0.001)
        self._store = store
        self._size_ = size
        self._sequence = 0
        self._names = ["", ""]
        self._sparse: Optional[_Sparse] = None
        self._engine = _Engine(_open_group(store, rank, size, self._seconds))
        self._batch: Optional[list[_Work]] = None

    # ---- what PyTorch asks ----

    def getBackendName(self) -> str:
        return "lockstep"

    def name(self) -> str:
        return "lockstep"

    def setGroupName(self, name: str) -> None:
        self._names[0] = name

    def getGroupName(self) -> str:
        return self._names[0]

    def setGroupDesc(self, text: str) -> None:
        self._names[1] = text

    def getGroupDesc(self) -> str:
        return self._names[1]

    @property
    def _device_types(self) -> list[torch.device]:
        # PyTorch's recorder asks first, and cannot record a group in Python.
        known = self in dist.distributed_c10d._world.pg_map
        return [torch.device("cpu")] if known else []

    def _get_backend(self, device: Any) -> Backend:
        if torch.device(device).type != "cpu":
            raise RuntimeError(f"lockstep is for the CPU, not for {device}")
        return self

    supports_splitting = False
    supports_coalescing = False
    supports_shrinking = False

    def set_timeout(self, timeout: timedelta) -> None:
        self._seconds = timeout.total_seconds()
        self._engine.set_timeout(self._seconds)

    _set_default_timeout = set_timeout

    def _set_sequence_number_for_group(self) -> None:
        pass

    def _get_sequence_number_for_group(self) -> int:
        return self._sequence

    def _wait_for_pending_works(self) -> None:
        while self._engine._flying:
            self._engine.wait(self._engine._flying[0], 0)

    def dump(self, path: str) -> None:
        """Writes what this rank has done lately, for ``lockstep doctor``."""
        self._engine.dump(path)

    def abort(self) -> None:
        """Ends all waiting in the group, on all ranks."""
        self._engine.abort()

    def shutdown(self) -> None:
        if self._sparse is not None:
            self._sparse.close()
        self._engine.close()

    def __del__(self) -> None:
        if hasattr(self, "_engine") and not self._engine._closed \
                and self._engine.handle.value:
            self._engine.close()

    # ---- starting things ----

    def _start(self, *arguments: Any) -> Work:
        return _handed_out(self._begin(*arguments))

    def _begin(self, result: list[Tensor], calls: Sequence[_Call], kept: Any,
               after: Optional[Callable[[], None]] = None, opts: Any = None,
               source: int = -1) -> _Work:
        work = _Work(self._engine, result, after, kept)
        work._from = source
        self._sequence += 1
        self._engine.start(work, calls, getattr(opts, "asyncOp", True))
        return work

    def _call(self, name: str, *arguments: Any) -> _Call:
        function, group = getattr(_library._library, name), self._engine.handle
        return lambda request: function(group, *arguments, request)

    # ---- reductions ----

    def allreduce(self, tensors: Any, opts: Any = None) -> Work:
        tensor = _listed(tensors)[0]
        if tensor.layout != torch.strided:
            return self._allreduce_sparse(tensors, opts)
        return self.allreduce_coalesced([_one(tensors, "all_reduce")], opts)

    def allreduce_coalesced(self, tensors: list[Tensor], opts: Any = None) -> Work:
        results = [_check(tensor, "all_reduce") for tensor in tensors]
        parts = [_Reducible(tensor, opts, "all_reduce") for tensor in results]
        calls, copies = [], []
        for part, result in zip(parts, results):
            at = part.send.data_ptr()
            calls.append(self._call("ls_iall_reduce", at, at, part.send.numel(),
                                    part.type, part.op))
            if at != result.data_ptr() or not result.is_contiguous():
                copies.append((result, part.send))
        return self._start(results, calls, parts, _copying(copies), opts)

    def _allreduce_sparse(self, tensors: Any, opts: Any) -> Work:
        if self._sparse is None:
            self._sparse = _Sparse(self)
        return self._sparse.start(_listed(tensors)[0], opts)

    allreduce_sparse = _allreduce_sparse

    def reduce(self, tensors: Any, opts: Any) -> Work:
        result = _one(tensors, "reduce")
        part = _Reducible(result, opts, "reduce")
        at = part.send.data_ptr()
        root = opts.rootRank == self.rank()
        # Only the root's tensor is written.
        call = self._call("ls_ireduce", at, at if root else None,
                          part.send.numel(), part.type, part.op, opts.rootRank)
        copies = [(result, part.send)] if root and at != result.data_ptr() else []
        return self._start([result], [call], part, _copying(copies), opts)

    def _reduce_scatter_base(self, output: Tensor, input: Tensor,
                             opts: Any = None) -> Work:
        return self.reduce_scatter_tensor_coalesced([output], [input], opts)

    reduce_scatter_single = _reduce_scatter_base

    def reduce_scatter_tensor_coalesced(self, outputs: list[Tensor],
                                        inputs: list[Tensor],
                                        opts: Any = None) -> Work:
        results, kept, calls, copies = [], [], [], []
        for output, input in zip(outputs, inputs):
            result = _check(output, "reduce_scatter")
            _same_type("reduce_scatter", result, [input])
            part = _Reducible(_check(input, "reduce_scatter"), opts,
                              "reduce_scatter")
            if input.numel() != output.numel() * self._size_:
                raise ValueError(
                    f"reduce_scatter: the input should have {self._size_} times "
                    f"{output.numel()} elements, and has {input.numel()}")
            into = _like(result, part.send)
            calls.append(self._call(
                "ls_ireduce_scatter", part.send.data_ptr(), into.data_ptr(),
                into.numel(), part.type, part.op))
            if into is not result:
                copies.append((result, into))
            results.append(result)
            kept += [part, into]
        return self._start(results, calls, kept, _copying(copies), opts)

    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        output = _one(outputs, "reduce_scatter")
        blocks = [_check(block, "reduce_scatter") for block in inputs[0]]
        _same_type("reduce_scatter", output, blocks)
        if len(blocks) != self._size_:
            raise ValueError(f"reduce_scatter: {len(blocks)} blocks; there are "
                             f"{self._size_} ranks")
        flat = torch.cat([block.reshape(-1) for block in blocks])
        if all(block.numel() == output.numel() for block in blocks):
            return self._reduce_scatter_base(output, flat, opts)
        part = _Reducible(flat, opts, "reduce_scatter")
        into = _like(output, part.send)
        counts = _counts([block.numel() for block in blocks])
        call = self._call("ls_ireduce_scatterv", part.send.data_ptr(),
                          into.data_ptr(), counts, part.type, part.op)
        copies = [(output, into)] if into is not output else []
        return self._start([output], [call], (part, into, counts),
                           _copying(copies), opts)

    # ---- moving ----

    def broadcast(self, tensors: Any, opts: Any) -> Work:
        tensor = _one(tensors, "broadcast")
        root = opts if isinstance(opts, int) else opts.rootRank
        dense = tensor.contiguous()
        call = self._call("ls_ibroadcast", dense.data_ptr(), *_bytes_of(dense),
                          root)
        copies = [(tensor, dense)] if dense.data_ptr() != tensor.data_ptr() else []
        return self._start([tensor], [call], dense, _copying(copies), opts)

    def _allgather_base(self, output: Tensor, input: Tensor,
                        opts: Any = None) -> Work:
        return self.allgather_into_tensor_coalesced([output], [input], opts)

    all_gather_single = _allgather_base

    def allgather_into_tensor_coalesced(self, outputs: list[Tensor],
                                        inputs: list[Tensor],
                                        opts: Any = None) -> Work:
        results, kept, calls, copies = [], [], [], []
        for output, input in zip(outputs, inputs):
            result = _check(output, "all_gather")
            send = _check(input, "all_gather").contiguous()
            _same_type("all_gather", result, [send])
            if result.numel() != send.numel() * self._size_:
                raise ValueError(
                    f"all_gather: the output should have {self._size_} times "
                    f"{send.numel()} elements, and has {result.numel()}")
            into = _like(result, send)
            calls.append(self._call("ls_iall_gather", send.data_ptr(),
                                    into.data_ptr(), *_bytes_of(send)))
            if into is not result:
                copies.append((result, into))
            results.append(result)
            kept += [send, into]
        return self._start(results, calls, kept, _copying(copies), opts)

    all_gather_single_coalesced = allgather_into_tensor_coalesced

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        return self.allgather_coalesced_lists([outputs[0]], _listed(inputs), opts)

    def allgather_coalesced(self, outputs: Any, inputs: Any,
                            opts: Any = None) -> Work:
        # One list a rank, of a tensor for each input.
        return self.allgather_coalesced_lists(list(zip(*outputs)), inputs, opts)

    def allgather_coalesced_lists(self, lists: Any, inputs: list[Tensor],
                                  opts: Any) -> Work:
        """For each input the list of where the ranks' parts of it go."""
        kept, calls, copies, results = [], [], [], []
        for outputs, input in zip(lists, inputs):
            send = _check(input, "all_gather").contiguous()
            places = [_check(output, "all_gather") for output in outputs]
            _same_type("all_gather", send, places)
            if len(places) != self._size_:
                raise ValueError(f"all_gather: {len(places)} tensors for the "
                                 f"result; there are {self._size_} ranks")
            counts = [place.numel() for place in places]
            flat = torch.empty(sum(counts), dtype=send.dtype)
            calls.append(self._gather_call(send, flat, counts))
            copies += _pieces(places, flat, counts)
            kept += [send, flat]
            results += places
        return self._start(results, calls, kept, _copying(copies), opts)

    def _gather_call(self, send: Tensor, flat: Tensor,
                     counts: list[int]) -> _Call:
        count, number = _bytes_of(send)
        if all(one == send.numel() for one in counts):
            return self._call("ls_iall_gather", send.data_ptr(), flat.data_ptr(),
                              count, number)
        width = send.element_size() if number == _BYTE else 1
        return self._call("ls_iall_gatherv", send.data_ptr(), count,
                          flat.data_ptr(), _counts([n * width for n in counts]),
                          number)

    def gather(self, outputs: Any, inputs: Any, opts: Any) -> Work:
        send = _one(inputs, "gather").contiguous()
        root = opts.rootRank == self.rank()
        places = [_check(output, "gather") for output in outputs[0]] \
            if root else []
        if root and (len(places) != self._size_ or any(
                place.numel() != send.numel() for place in places)):
            raise ValueError(f"gather: the root needs {self._size_} tensors of "
                             f"{send.numel()} elements")
        _same_type("gather", send, places)
        flat = torch.empty(send.numel() * len(places), dtype=send.dtype)
        call = self._call("ls_igather", send.data_ptr(),
                          flat.data_ptr() if root else None, *_bytes_of(send),
                          opts.rootRank)
        copies = _pieces(places, flat, [send.numel()] * len(places))
        return self._start(places, [call], (send, flat), _copying(copies), opts)

    def gather_single(self, output: Tensor, input: Tensor, opts: Any) -> Work:
        root = opts.rootRank == self.rank()
        blocks = list(output.view(-1).chunk(self._size_)) if root else []
        return self.gather([blocks], [input], opts)

    gather_into_tensor = gather_single

    def scatter(self, outputs: Any, inputs: Any, opts: Any) -> Work:
        output = _one(outputs, "scatter")
        root = opts.rootRank == self.rank()
        blocks = [_check(block, "scatter") for block in inputs[0]] if root else []
        if root and (len(blocks) != self._size_ or any(
                block.numel() != output.numel() for block in blocks)):
            raise ValueError(f"scatter: the root needs {self._size_} tensors of "
                             f"{output.numel()} elements")
        _same_type("scatter", output, blocks)
        flat = torch.cat([block.reshape(-1) for block in blocks]) \
            if root else None
        into = output if output.is_contiguous() else torch.empty_like(
            output, memory_format=torch.contiguous_format)
        call = self._call("ls_iscatter", flat.data_ptr() if root else None,
                          into.data_ptr(), *_bytes_of(into), opts.rootRank)
        copies = [(output, into)] if into is not output else []
        return self._start([output], [call], (flat, into), _copying(copies), opts)

    def alltoall_base(self, output: Tensor, input: Tensor,
                      output_sizes: Sequence[int], input_sizes: Sequence[int],
                      opts: Any = None) -> Work:
        result = _check(output, "all_to_all")
        send = _check(input, "all_to_all").contiguous()
        _same_type("all_to_all", result, [send])
        into = _like(result, send)
        copies = [(result, into)] if into is not result else []
        if not output_sizes and not input_sizes:
            count, number = _bytes_of(send)
            if send.numel() % self._size_ or result.numel() != send.numel():
                raise ValueError(
                    f"all_to_all: {send.numel()} elements in, {result.numel()} "
                    f"out; both should be the same multiple of {self._size_}")
            call = self._call("ls_iall_to_all", send.data_ptr(), into.data_ptr(),
                              count // self._size_, number)
            return self._start([result], [call], (send, into), _copying(copies),
                               opts)
        return self._start_alltoallv(
            result, send, into, _rows(result, output_sizes, self._size_),
            _rows(send, input_sizes, self._size_), _copying(copies), opts)

    all_to_all_single = alltoall_base

    def _start_alltoallv(self, result: Any, send: Tensor, into: Tensor,
                         recv_counts: list[int], send_counts: list[int],
                         after: Any, opts: Any) -> Work:
        _, number = _bytes_of(send)
        width = send.element_size() if send.dtype not in _TYPES else 1
        there = _counts([n * width for n in send_counts])
        here = _counts([n * width for n in recv_counts])
        call = self._call("ls_iall_to_allv", send.data_ptr(), there,
                          into.data_ptr(), here, number)
        return self._start(_listed(result), [call], (send, into, there, here),
                           after, opts)

    def alltoall(self, outputs: list[Tensor], inputs: list[Tensor],
                 opts: Any = None) -> Work:
        places = [_check(output, "all_to_all") for output in outputs]
        blocks = [_check(block, "all_to_all") for block in inputs]
        if len(places) != self._size_ or len(blocks) != self._size_:
            raise ValueError(f"all_to_all: {len(blocks)} tensors in and "
                             f"{len(places)} out; there are {self._size_} ranks")
        _same_type("all_to_all", blocks[0], [*blocks, *places])
        send = torch.cat([block.reshape(-1) for block in blocks])
        counts = [place.numel() for place in places]
        into = torch.empty(sum(counts), dtype=send.dtype)
        return self._start_alltoallv(places, send, into, counts,
                                     [block.numel() for block in blocks],
                                     _copying(_pieces(places, into, counts)),
                                     opts)

    # ---- messages ----

    def send(self, tensors: Any, to: int, tag: int = 0) -> Work:
        dense = _one(tensors, "send").contiguous()
        call = self._call("ls_isend_tag", dense.data_ptr(), *_bytes_of(dense), to,
                          tag)
        return self._start([dense], [call], dense)

    def recv(self, tensors: Any, source: int, tag: int = 0) -> Work:
        tensor = _one(tensors, "recv")
        into = tensor if tensor.is_contiguous() else torch.empty_like(
            tensor, memory_format=torch.contiguous_format)
        call = self._call("ls_irecv_tag", into.data_ptr(), *_bytes_of(into),
                          source, tag)
        copies = [(tensor, into)] if into is not tensor else []
        return self._start([tensor], [call], into, _copying(copies), None,
                           -2 if source == _ANY_RANK else source)

    def recv_anysource(self, tensors: Any, tag: int = 0) -> Work:
        return self.recv(tensors, _ANY_RANK, tag)

    # ---- meeting ----

    def barrier(self, opts: Any = None) -> Work:
        return self._start([], [self._call("ls_ibarrier")], None, None, opts)

    def monitored_barrier(self, timeout: Optional[timedelta] = None,
                          wait_all_ranks: bool = False) -> None:
        """A barrier whose error names the ranks that are missing."""
        if timeout is not None:
            self._engine.set_timeout(max(timeout.total_seconds(), 0.001))
        try:
            self._begin([], [self._call("ls_ibarrier")], None).wait()
        finally:
            if timeout is not None:
                self._engine.set_timeout(self._seconds)


def _copying(copies: list[tuple[Tensor, Tensor]]
             ) -> Optional[Callable[[], None]]:
    """What brings results from where they arrived to where they belong."""
    if not copies:
        return None

    def copy() -> None:
        # Whoever waits need not be in inference mode, as who started it was.
        frozen = any(to.is_inference() for to, _ in copies)
        with torch.no_grad(), torch.inference_mode(frozen):
            for to, source in copies:
                if to.is_complex() and not source.is_complex():
                    to = torch.view_as_real(to)
                to.copy_(source.view(to.shape))

    return copy


def _pieces(places: list[Tensor], flat: Tensor, counts: list[int]
            ) -> list[tuple[Tensor, Tensor]]:
    return list(zip(places, flat.split(counts))) if counts else []


def _like(result: Tensor, send: Tensor) -> Tensor:
    """Where a result arrives: in `result` itself, if the library can write it."""
    if result.is_contiguous() and result.dtype == send.dtype:
        return result
    shape = torch.view_as_real(result).shape if result.is_complex() \
        and not send.is_complex() else result.shape
    return torch.empty(shape, dtype=send.dtype)


def _counts(counts: Sequence[int]) -> Any:
    return (ctypes.c_size_t * len(counts))(*counts)


def _rows(tensor: Tensor, sizes: Sequence[int], ranks: int) -> list[int]:
    """Elements for each rank, from rows for each, or none: the same for all."""
    rows = tensor.shape[0] if tensor.dim() else 0
    if not sizes:
        sizes = [rows // ranks] * ranks
    if len(sizes) != ranks or sum(sizes) != rows or min(sizes) < 0:
        raise ValueError(f"all_to_all: the splits {list(sizes)} should be "
                         f"{ranks} numbers of 0 or more with the sum {rows}")
    return [n * (tensor.numel() // rows if rows else 0) for n in sizes]


def _open_group(store: dist.Store, rank: int, size: int, seconds: float) -> c_void_p:
    handle = c_void_p()
    wrapped = _library.wrap_store(store)
    status = _library.ask("ls_group_open", byref(handle), b"torch", rank, size,
                          byref(wrapped), seconds)
    if status < 0:
        wrapped.fail(_error(status))
    return handle


class _Sparse:
    """Sums of sparse tensors, whose sizes ranks must first tell each other.

    They take several collectives each, so they have a group of their own and a
    thread that waits; the order of everything else is not disturbed.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._handle: Optional[c_void_p] = None
        self._thread = threading.Thread(target=self._serve, daemon=True,
                                        name="lockstep sparse")
        self._thread.start()

    def start(self, tensor: Tensor, opts: Any) -> Work:
        kind, _ = _reduction(opts)
        if tensor.layout != torch.sparse_coo or kind not in (_RED.SUM, _RED.AVG):
            raise NotImplementedError(
                f"all_reduce: {kind} of {tensor.layout} is not possible; of "
                "sparse_coo, SUM and AVG are")
        _number_of(tensor, "all_reduce")
        work = _Threaded(self._backend._engine, [tensor])
        self._queue.put((work, tensor, kind))
        return _handed_out(work)

    def close(self) -> None:
        self._queue.put(None)
        self._thread.join(2)

    def _serve(self) -> None:
        while (task := self._queue.get()) is not None:
            work, tensor, kind = task
            try:
                self._sum(tensor, kind)
            except Exception as failure:
                work._failure = failure
            work.finish()
        if self._handle is not None:
            _library.ask("ls_group_close", byref(self._handle))

    def _sum(self, tensor: Tensor, kind: Any) -> None:
        backend = self._backend
        size = backend._size_
        if self._handle is None:
            self._handle = _open_group(dist.PrefixStore("sparse", backend._store),
                                 backend.rank(), size, backend._seconds)
        mine = tensor.detach().coalesce()
        self._check_shapes(mine)
        indices = self._gather(mine.indices().t().contiguous())
        values = self._gather(mine.values().contiguous())
        total = torch.sparse_coo_tensor(
            indices.t(), values, tensor.shape).coalesce()
        if kind == _RED.AVG:
            total = total / size
        with torch.no_grad():
            tensor.copy_(total)

    def _check_shapes(self, mine: Tensor) -> None:
        """Else entries of one rank may lie outside of the tensor of another."""
        text = f"{list(mine.shape)} {mine.sparse_dim()} {mine.dtype}".encode()
        shapes = self._gather(torch.tensor(list(text.ljust(256)),
                                           dtype=torch.uint8).view(1, 256))
        for rank, shape in enumerate(shapes):
            if not torch.equal(shape, shapes[self._backend.rank()]):
                raise ValueError(
                    "all_reduce of sparse tensors of different shapes: here "
                    f"{text.decode()} (shape, of which dimensions are sparse, "
                    f"type), on rank {rank} "
                    f"{bytes(shape.tolist()).decode().rstrip()}")

    def _gather(self, rows: Tensor) -> Tensor:
        """The rows of all ranks, in their order."""
        sizes = (ctypes.c_size_t * self._backend._size_)()
        every = c_void_p()
        size = rows.numel() * rows.element_size()
        _do("ls_all_gather_bytes", self._handle, rows.data_ptr(), size,
                      sizes, byref(every))
        data = bytearray(ctypes.string_at(every, sum(sizes)))
        _library.ask("ls_free", every)
        if not data:
            return rows[:0]
        return torch.frombuffer(data, dtype=rows.dtype).view(
            -1, *rows.shape[1:])


class _Threaded(_Work):
    """What a thread of its own does."""

    def __init__(self, engine: _Engine, result: list[Tensor]) -> None:
        super().__init__(engine, result, None, None)
        self._claimed = True
        self._event = threading.Event()

    def finish(self) -> None:
        self._event.set()
        if self._has_future():
            _callbacks.run(self._finish)
        else:
            self._finish()

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        while not self._event.wait(0.05):
            pass  # where Python runs the handlers of signals
        return super().wait(timeout)
