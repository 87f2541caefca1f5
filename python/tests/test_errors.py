#!/usr/bin/env python3
"""Which exception is raised for what: those that torch.distributed has for it."""
import os
import signal
import sys
import time
import unittest
from datetime import timedelta

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ranks
import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

if "lockstep" not in ranks.backends():
    sys.exit(77)
import lockstep_torch


def raises(kind, words, call):
    try:
        call()
    except Exception as why:
        assert isinstance(why, kind), (kind, type(why), why)
        assert words in str(why), (words, why)
        return why
    raise AssertionError(f"accepted: {words}")


def of_rank(root):
    """Options of a broadcast, which Python's functions would check first."""
    options = distributed_c10d.BroadcastOptions()
    options.rootRank = root
    return options


def reducing_by(op):
    options = distributed_c10d.AllreduceOptions()
    options.reduceOp = op
    return options


def refused(rank, size):
    """Invalid arguments of a call are refused before anything is sent."""
    op = dist.ReduceOp
    group = distributed_c10d._get_default_group()
    ones, double = torch.ones, torch.ones(size, dtype=torch.float64)
    sparse = torch.eye(2).to_sparse()
    blocks = [ones(1) for _ in range(size)]
    doubles = [double[:1] for _ in range(size)]
    factor = torch._C._distributed_c10d._make_nccl_premul_sum(0.5)
    for kind, words, call in (
            # no such rank, another number or size of tensors
            (ValueError, "rank 9", lambda: group.broadcast(
                [ones(1)], of_rank(9)).wait()),
            (ValueError, "rank -1", lambda: group.broadcast(
                [ones(1)], of_rank(-1)).wait()),
            (ValueError, "rank", lambda: dist.send(ones(1), size + 3)),
            (ValueError, "tensor", lambda: dist.all_gather(
                [*blocks, ones(1)], ones(1))),
            (ValueError, "elements", lambda: dist.all_gather_into_tensor(
                ones(1), ones(5))),
            (ValueError, "elements", lambda: dist.reduce_scatter_tensor(
                ones(3), ones(1))),
            (ValueError, "splits", lambda: dist.all_to_all_single(
                ones(size), ones(size), [1] * size, [7] * size)),
            (ValueError, "splits", lambda: dist.all_to_all_single(
                ones(size), ones(size), [-1, *[0] * (size - 2), size + 1],
                [1] * size)),
            # types
            (TypeError, "int16", lambda: dist.all_reduce(
                ones(2, dtype=torch.int16))),
            (TypeError, "type", lambda: dist.all_gather_into_tensor(
                double, ones(1))),
            (TypeError, "type", lambda: dist.reduce_scatter_tensor(
                ones(1), double)),
            (TypeError, "type", lambda: group.alltoall(doubles, blocks).wait()),
            (TypeError, "type", lambda: group.allgather(
                [doubles], [ones(1)]).wait()),
            # reductions that are not there
            (NotImplementedError, "", lambda: dist.all_reduce(
                ones(1), op.BAND)),
            (NotImplementedError, "", lambda: dist.all_reduce(
                ones(1, dtype=torch.int64), op.AVG)),
            (NotImplementedError, "sparse", lambda: dist.all_reduce(
                sparse.clone(), op.MAX)),
            (NotImplementedError, "sparse", lambda: dist.all_reduce(
                sparse.clone(), factor))):
        raises(kind, words, call)
    # of complex numbers, which have a sum only (all_reduce: by PyTorch itself)
    z = torch.full((size,), 1 + 2j)
    for how in (op.PRODUCT, op.MAX, op.MIN, op.BXOR):
        for call in (
                lambda: dist.reduce(z, 0, op=how),
                lambda: dist.reduce_scatter_tensor(z[:1].clone(), z, op=how),
                lambda: dist.reduce_scatter(z[:1].clone(), list(z.split(1)),
                                            op=how),
                lambda: group.allreduce([z], reducing_by(how)).wait()):
            raises(TypeError, "complex64", call)
    assert z.tolist() == [1 + 2j] * size, z
    total = ones(3)
    dist.all_reduce(total)  # the group is as good as before
    assert total.tolist() == [size] * 3, total


def late(rank, size):
    """A rank that arrives too late, and an operation that a caller gives up."""
    if rank == 0:
        work = dist.all_reduce(torch.ones(3), async_op=True)
        raises(dist.DistBackendError, "", lambda: work.wait(
            timedelta(milliseconds=50)))
        dist.send(torch.ones(1), 1)
        work.wait()
        raises(dist.DistBackendError, "rank 1", dist.barrier)
        distributed_c10d._get_default_store().set("over", "")
        return
    dist.recv(torch.ones(1), 0)
    dist.all_reduce(torch.ones(3))
    store = distributed_c10d._get_default_store()
    until = time.monotonic() + 30
    while not store.check(["over"]) and time.monotonic() < until:
        time.sleep(0.01)


def absent(rank, size):
    """A rank that does not create the group is named in the error of the other ranks."""
    if rank == 0:
        store = distributed_c10d._get_default_store()
        raises(dist.DistBackendError, "rank", lambda: lockstep_torch.create(
            dist.PrefixStore("absent", store), rank, size,
            timedelta(milliseconds=200)))
    dist.barrier()


def differ(rank, size):
    """Ranks that do not call the same."""
    why = raises(dist.DistBackendError, "rank",
                 lambda: dist.all_reduce(torch.ones(3 + rank)))
    assert isinstance(why, RuntimeError)


def dies(rank, size):
    dist.barrier()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)

    def go_on():
        for _ in range(1000):
            dist.all_reduce(torch.ones(10))
    raises(dist.DistBackendError, "rank 1", go_on)


def destroyed(rank, size):
    """A group that somebody has kept."""
    another = dist.new_group()
    kept = another._get_backend(torch.device("cpu"))
    dist.destroy_process_group(another)
    if not hasattr(kept, "shutdown"):
        return  # in PyTorch 2.6 it is there for as long as somebody keeps it
    kept.shutdown()  # which older releases do not call
    raises(dist.DistBackendError, "destroyed",
           lambda: kept.barrier(distributed_c10d.BarrierOptions()))


class Errors(unittest.TestCase):
    def test_refused(self):
        for size in (2, 3):
            ranks.run(size, "lockstep", refused)

    def test_late(self):
        ranks.run(2, "lockstep", late, timeout=5)

    def test_absent(self):
        ranks.run(2, "lockstep", absent)

    def test_differ(self):
        ranks.run(3, "lockstep", differ)

    def test_dies(self):
        ranks.run(3, "lockstep", dies, expect=[0, -signal.SIGKILL, 0])

    def test_destroyed(self):
        ranks.run(2, "lockstep", destroyed)


if __name__ == "__main__":
    unittest.main()
