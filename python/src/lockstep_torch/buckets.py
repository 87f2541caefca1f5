"""Keep DDP's gradients in shared memory, and average them there in place.

    model = DistributedDataParallel(net, gradient_as_bucket_view=True)
    lockstep_torch.shared_buckets(model)

DDP packs gradients into buckets and averages each bucket over the ranks. A backend
gets buckets in private memory, so it must copy them to memory that other ranks
can read. Here the buckets themselves are moved to shared memory, once. After
that nothing is copied between ranks.
"""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any, Optional

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from . import _bridge, _open

_FIRST = 2  # iterations after which DDP has put its buckets into their order


def _reducing_by(op: Any) -> dist.AllreduceOptions:
    options = dist.AllreduceOptions()
    options.reduceOp = op
    return options


class _Buckets:
    """State of the communication hook: a separate group, and its shared memory."""

    def __init__(self, group: dist.ProcessGroup, timeout: timedelta) -> None:
        self._group = group
        store = dist.distributed_c10d._get_process_group_store(group)
        # The number of models so far in this group; ranks may have more models in
        # other groups.
        opened = store.add(f"shared buckets of rank {group.rank()}", 1)
        store = dist.PrefixStore(f"shared buckets {opened}", store)
        self._opened = _open("lockstep", store, group.rank(), group.size(), timeout)
        self._backend = self._opened._get_backend(torch.device("cpu"))
        self._iterations = 0
        self._moved: dict[int, tuple[int, int]] = {}  # of a bucket: (address, size)
        self._stay: set[tuple[int, int]] = set()
        self._unproven: set[int] = set()

    def hook(self, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
        buffer, index = bucket.buffer(), bucket.index()
        self._iterations += index == 0
        if buffer.layout != torch.strided:
            work = dist.all_reduce(buffer, group=self._group, async_op=True)
            return work.get_future().then(
                lambda done: done.value()[0] / self._group.size())
        if self._moved.get(index, (0, 0))[0] != buffer.data_ptr() \
                and self._iterations > _FIRST \
                and (index, buffer.nbytes) not in self._stay:
            self._move(bucket, buffer, index)
        elif index in self._unproven:
            self._unproven.remove(index)
            if not _all_inside(bucket, buffer):
                raise RuntimeError(
                    "shared_buckets: a gradient is not in DDP's bucket: the program "
                    "replaced .grad of a parameter, or a parameter got no gradient in "
                    "this step. Change gradients in place, and use all parameters in "
                    "each step")
        work = self._backend.allreduce([buffer], _reducing_by(dist.ReduceOp.AVG))
        return work.get_future().then(lambda done: done.value()[0])

    def _move(self, bucket: dist.GradBucket, buffer: Tensor, index: int) -> None:
        """Move the bucket to shared memory, on all ranks or on no rank. Collective."""
        fits = torch.tensor([int(_all_inside(bucket, buffer))], dtype=torch.int32)
        self._backend.allreduce([fits], _reducing_by(dist.ReduceOp.MIN)).wait()
        if not int(fits):
            self._stay.add((index, buffer.nbytes))
            return
        shared = _bridge().shared_like(self._opened.boxed(), buffer)
        with torch.no_grad():
            shared.copy_(buffer)
            storage, first = shared.untyped_storage(), buffer.storage_offset()
            for parameter in bucket.parameters():
                grad = parameter.grad
                grad.set_(storage, grad.storage_offset() - first, grad.shape,
                          grad.stride())
            buffer.set_(storage, 0, buffer.shape, buffer.stride())
        self._moved[index] = (buffer.data_ptr(), buffer.nbytes)
        self._unproven.add(index)


def _all_inside(bucket: dist.GradBucket, buffer: Tensor) -> bool:
    """Return True if each parameter of the non-empty bucket has a gradient in `buffer`."""
    storage = buffer.untyped_storage().data_ptr()
    return all(
        p.grad is not None and p.grad.untyped_storage().data_ptr() == storage
        for p in bucket.parameters()) and math.prod(buffer.shape) > 0


def share(model: DistributedDataParallel,
          timeout: Optional[timedelta] = None) -> None:
    """Implement lockstep_torch.shared_buckets.

    If a parameter has no gradient when the buckets are moved, its bucket stays in
    private memory and is averaged there. The backend of the model's process group
    averages sparse gradients. The memory is freed with the model and its last
    gradient.
    """
    if not model.gradient_as_bucket_view:
        raise ValueError("shared_buckets: the model was created with "
                         "gradient_as_bucket_view=False; create the model with "
                         "gradient_as_bucket_view=True")
    if any(p.device.type != "cpu" for p in model.parameters()):
        raise ValueError("shared_buckets: not all parameters of the model are on the "
                         "CPU; move the model to the CPU")
    if timeout is None:
        timeout = timedelta(minutes=5)
    buckets = _Buckets(model.process_group, timeout)
    model.register_comm_hook(
        None, lambda _, bucket: buckets.hook(bucket))
