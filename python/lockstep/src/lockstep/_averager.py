"""Average gradients over the ranks while backward is running."""

from __future__ import annotations

import math
from types import TracebackType
from typing import Any, Callable, Mapping, Optional

import numpy as np

from ._group import Array, Group, Request
from ._library import ArgumentError, Error, StateError

_TYPES = ("float16", "float32", "float64")
_ALIGNMENT = 64  # bytes


class _Bucket:
    """Gradients that one all-reduce combines. They are adjacent in a shared array."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.begin = self.end = 0  # elements
        self.missing = 0
        self.request: Optional[Request] = None


class GradientAverager:
    """Average gradients over the ranks during a custom backward pass, on NumPy arrays.

        averager = lockstep.GradientAverager(group, parameters)
        averager.broadcast(parameters)         # all start with rank 0's weights
        for batch in batches:
            averager.begin(len(batch))
            for name in reversed(parameters):  # as backward finishes them
                averager.gradients[name][...] = sum over this rank's samples
                averager.ready(name)
            averager.finish()                  # the gradients are now means
            for name, weight in parameters.items():
                weight -= lr * averager.gradients[name]

    `gradients` are arrays in memory that the ranks of a machine share. They are
    reduced in place, in buckets of at most `bucket_mb` MB. A bucket is sent as soon as
    its last gradient is ready. Buckets are filled in reverse order of `parameters`.
    No thread works in the background: each `ready` makes progress on the buckets
    in flight. Sums and means of float16 are computed in float32 and rounded.

    If a gradient is ready twice, or not at all, `finish` raises a StateError on
    all ranks. The error names the gradient and the rank. The next step works again.
    If a signal handler raises an exception during a step, as Ctrl-C does, all later
    calls raise a StateError. Call from one thread only.

    Attributes:
        gradients: arrays by name. After `close`, arrays that the program still has
            are private and contain zeros. If the group is closed before the averager,
            the arrays keep their contents.
    """

    def __init__(self, group: Group, parameters: Mapping[str, Any], *,
                 bucket_mb: float = 25.0, unused_as_zero: bool = False) -> None:
        """Allocate the gradients in shared memory. Collective.

        Args:
            group: the ranks. All pass the same arguments.
            parameters: arrays by name, of float16, float32 or float64. Only
                names, shapes and types count.
            bucket_mb: largest size of a bucket, in MB (1,000,000 bytes).
            unused_as_zero: if True, gradients that are never ready count as zero.
                If False, they are an error.

        Raises:
            ArgumentError: the ranks' arguments differ, a type is not supported, or
                bucket_mb is not above 0; the group stays usable.
            Error: a rank is dead, late, or makes another call; close the group.
        """
        self._group = group
        self._unused_as_zero = unused_as_zero
        self._flats: dict[Any, Array] = {}
        self.gradients: dict[str, Array] = {}
        self._bucket_of: dict[str, _Bucket] = {}
        self._buckets: list[_Bucket] = []
        self._views: list[Array] = []
        self._ready: set[str] = set()
        self._started = 0  # of the buckets, in order
        self._done = 0
        self._weight: Optional[float] = None  # while a step is under way
        self._wrong: Optional[str] = None
        self._halfway = False  # a call has begun and not returned
        arrays = {name: np.asarray(value) for name, value in parameters.items()}
        self._check_same(arrays, bucket_mb)
        self._lay_out(arrays, bucket_mb * 1e6)

    # ---- making ----

    def _check_same(self, arrays: dict[str, Array], bucket_mb: float) -> None:
        wrong = "" if bucket_mb > 0 else \
            f"GradientAverager: bucket_mb is {bucket_mb}; it must be above 0"
        for name, array in arrays.items():
            if array.dtype.name not in _TYPES:
                wrong = (f"GradientAverager: parameter '{name}' has type {array.dtype}; "
                         f"use one of {', '.join(_TYPES)}")
        mine = (wrong, bucket_mb, self._unused_as_zero,
                [(name, a.shape, a.dtype.name) for name, a in arrays.items()])
        ranks = self._group.allgather_object(mine)
        for rank, theirs in enumerate(ranks):
            if theirs[0]:
                raise ArgumentError(f"rank {rank}: {theirs[0]}")
        for rank, theirs in enumerate(ranks):
            if theirs != mine:
                raise ArgumentError(
                    f"GradientAverager: ranks {rank} and {self._group.rank} "
                    "passed different names, shapes, types or options; all ranks must "
                    "pass the same")

    def _lay_out(self, arrays: dict[str, Array], limit: float) -> None:
        filled: dict[Any, int] = {}
        places: dict[str, int] = {}
        current: dict[Any, _Bucket] = {}
        for name, array in reversed(list(arrays.items())):
            dtype = array.dtype
            at = filled.get(dtype, 0)
            unit = _ALIGNMENT // dtype.itemsize
            end = at + math.ceil(array.size / unit) * unit
            bucket = current.get(dtype)
            if bucket is None or \
                    (end - bucket.begin) * dtype.itemsize > limit:
                bucket = current[dtype] = _Bucket()
                bucket.begin = at
                self._buckets.append(bucket)
            bucket.end = end
            bucket.names.append(name)
            self._bucket_of[name] = bucket
            places[name] = at
            filled[dtype] = end
        for dtype, count in filled.items():
            self._flats[dtype] = self._group.shared_array(count, dtype)
        for name, array in arrays.items():
            flat = self._flats[array.dtype]
            part = flat[places[name]:places[name] + array.size]
            self.gradients[name] = part.reshape(array.shape)
        for bucket in self._buckets:
            flat = self._flats[arrays[bucket.names[0]].dtype]
            self._views.append(flat[bucket.begin:bucket.end])

    def close(self) -> None:
        """Free the memory of the gradients. Collective.

        Arrays that the program still has become private and contain zeros.

        Raises:
            ArgumentError: an argument is wrong on a rank; the group stays
                usable.
            Error: a rank is dead, late, or makes another call; close the group.
        """
        self._halfway = True
        self.gradients = {}
        self._views = []
        for array in list(self._flats.values()):
            self._group._free_if_there(array)
        self._flats = {}

    def __enter__(self) -> GradientAverager:
        return self

    def __exit__(self, kind: Optional[type[BaseException]],
                 value: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        if kind is None:  # else other ranks may never call it
            self.close()

    # ---- a step ----

    def _whole(self, work: Callable[[], Any]) -> Any:
        """Run a part of a step. If a signal interrupts this part, all later calls fail.

        The averager then cannot know which messages the other ranks have received.
        """
        if self._halfway:
            raise StateError(
                f"the averager of rank {self._group.rank} cannot be used: it is closed, "
                "or a signal handler raised an exception during an earlier call. Close "
                "the group, and create a new group and averager")
        self._halfway = True
        try:
            result = work()
        except Error:
            self._halfway = False
            raise
        self._halfway = False
        return result

    def broadcast(self, parameters: Mapping[str, Array]) -> None:
        """Copy rank 0's arrays into the arrays of all other ranks. Collective.

        Args:
            parameters: arrays by name, with the same names, shapes and types on
                all ranks.

        Raises:
            ArgumentError: an argument is wrong on a rank; the group stays
                usable.
            Error: a rank is dead, late, or makes another call; close the group.
        """
        for name in parameters:
            self._group.bcast(parameters[name])

    def begin(self, weight: float = 1.0) -> None:
        """Begin a step. Local.

        Args:
            weight: number of samples that this rank adds up in its gradients.
                With 0, this rank's gradients count as zero and need not be ready.

        Raises:
            ArgumentError: the weight is negative or not finite; finish() then
                fails on all ranks.
            StateError: the previous step has not ended.
        """
        self._whole(lambda: self._begin(weight))

    def _begin(self, weight: float) -> None:
        if self._weight is not None:
            raise StateError("begin: the previous step has not ended; call finish "
                             "first")
        self._ready.clear()
        self._started = self._done = 0
        self._wrong = None
        for bucket in self._buckets:
            bucket.missing = len(bucket.names)
        self._weight = 0.0
        if not (weight >= 0 and math.isfinite(weight)):
            self._refuse(ArgumentError, f"begin: weight is {weight}; it must be "
                         "a finite number of samples, 0 or more")
        self._weight = float(weight)

    def _refuse(self, kind: type[Error], text: str) -> None:
        """Raise an error on this rank now, and in `finish` on all ranks."""
        self._wrong = self._wrong or text
        raise kind(text)

    def ready(self, name: str, gradient: Optional[Any] = None) -> None:
        """Mark a gradient as complete, so that it can be sent.

        Gradients can be marked in any order.

        Args:
            name: name of the parameter.
            gradient: array to copy into `gradients[name]`. Default: nothing is
                copied; `gradients[name]` already contains the gradient.

        Raises:
            ArgumentError: an unknown name or another shape; finish() then fails
                on all ranks.
            StateError: no step has begun, or the gradient is ready already;
                finish() then fails on all ranks.
            Error: a rank is dead, late, or makes another call; close the group.
        """
        if self._weight is None:
            raise StateError(f"ready: rank {self._group.rank} cannot mark '{name}': no "
                             "step has begun; call begin first")
        bucket = self._bucket_of.get(name)
        if bucket is None:
            self._refuse(ArgumentError, f"ready: '{name}' is not a parameter of this "
                         "averager; use a name that was passed to GradientAverager")
        assert bucket is not None
        if name in self._ready:
            self._refuse(StateError, f"ready: '{name}' is already ready in this "
                         f"step on rank {self._group.rank}; call ready once per gradient")
        if gradient is not None:
            if np.shape(gradient) != self.gradients[name].shape:
                self._refuse(ArgumentError, f"ready: the gradient for '{name}' has "
                             f"shape {np.shape(gradient)}; it must have shape "
                             f"{self.gradients[name].shape}")
            self.gradients[name][...] = gradient
        self._whole(lambda: self._go_on(name))

    def _go_on(self, name: str) -> None:
        self._mark(name)
        for request in self._in_flight():
            if not request.test():
                break

    def _in_flight(self) -> list[Request]:
        return [b.request for b in self._buckets[self._done:self._started]
                if b.request is not None]

    def _mark(self, name: str) -> None:
        """Mark a gradient, and send the buckets that are complete.

        All ranks send buckets in the same order. A complete bucket waits until all
        earlier buckets are sent.
        """
        if self._weight == 0:
            self.gradients[name][...] = 0
        self._ready.add(name)
        self._bucket_of[name].missing -= 1
        while self._started < len(self._buckets) and \
                self._buckets[self._started].missing == 0:
            view = self._views[self._started]
            self._buckets[self._started].request = \
                self._group.iallreduce(view, out=view)
            self._started += 1

    def _find_missing(self) -> None:
        """Set gradients that are not ready to zero, and record an error that names them."""
        missing = [name for bucket in self._buckets for name in bucket.names
                   if name not in self._ready]
        if missing and self._weight != 0 and not self._unused_as_zero \
                and self._wrong is None:
            self._wrong = "gradients not ready: " + ", ".join(missing)
        for name in missing:
            self.gradients[name][...] = 0
            self._mark(name)

    def finish(self) -> dict[str, Array]:
        """Wait until the gradients are averaged over all ranks. Collective.

        Returns:
            `gradients`: the means over all samples by name, with the same bits
            on every rank.

        Raises:
            StateError: no step has begun, or a rank made a wrong call in this step.
                The message names this rank. The next step works again.
            Error: a rank is dead, late, or makes another call; close the group.
        """
        self._whole(self._finish)
        return self.gradients

    def _finish(self) -> None:
        if self._weight is None:
            raise StateError(f"finish on rank {self._group.rank}: no step has begun; "
                             "call begin first")
        self._find_missing()
        about = self._group.allreduce(
            np.array([self._weight, self._wrong is not None]))
        for bucket in self._buckets:
            if bucket.request is not None:
                bucket.request.wait()
            bucket.request = None
            self._done += 1
        self._weight = None
        if about[1] > 0:
            self._raise_all()
        if about[0] > 0:
            for dtype, flat in self._flats.items():
                np.multiply(flat, 1.0 / about[0], out=flat, casting="same_kind",
                            dtype=np.promote_types(dtype, np.float32))

    def _raise_all(self) -> None:
        reasons = self._group.allgather_object(self._wrong)
        raise StateError("the gradients of this step cannot be averaged (" +
                         "; ".join(f"rank {rank}: {reason}" for rank, reason
                                   in enumerate(reasons) if reason) + ")")
