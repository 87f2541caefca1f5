#!/usr/bin/env python3
"""Symmetric memory of PyTorch on CPUs: ranks that read and write each other's tensors."""
import gc
import os
import signal
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ranks
import torch
import torch.distributed as dist

if "lockstep" not in ranks.backends():
    sys.exit(77)
if not torch.__version__.startswith("2.15."):
    print(f"PyTorch {torch.__version__} is not 2.15: not tested")
    sys.exit(77)
import torch.distributed._symmetric_memory as symm_mem


def allocated(rank, *size, dtype=torch.float32, group=None):
    tensor = symm_mem.empty(*size, dtype=dtype, device="cpu")
    tensor.copy_(torch.arange(tensor.numel(), dtype=dtype).reshape(tensor.shape))
    tensor.add_(1000 * rank)
    address = tensor.data_ptr()
    handle = symm_mem.rendezvous(tensor, group or dist.group.WORLD)
    assert tensor.data_ptr() == address
    return tensor, handle


def expected(rank, *size, dtype=torch.float32):
    count = torch.Size(size).numel()
    return torch.arange(count, dtype=dtype).reshape(size) + 1000 * rank


def contents(rank, size):
    """Peers read values that were written before the rendezvous, and after it."""
    for shape in ((1,), (7, 5), (1024,), (1031, 33)):
        for dtype in (torch.float32, torch.float64, torch.int32):
            tensor, handle = allocated(rank, *shape, dtype=dtype)
            assert symm_mem.is_symm_mem_tensor(tensor)
            assert (handle.rank, handle.world_size) == (rank, size)
            assert handle.buffer_size == tensor.nbytes
            for peer in range(size):
                theirs = handle.get_buffer(peer, shape, dtype)
                assert torch.equal(theirs, expected(peer, *shape, dtype=dtype))
            handle.barrier()
            # Each rank writes to the next one.
            to = (rank + 1) % size
            handle.get_buffer(to, shape, dtype).fill_(10 + rank)
            handle.barrier()
            assert torch.equal(tensor, torch.full(shape, 10 + (rank - 1) % size,
                                                  dtype=dtype))
            last = tensor.numel() - 1
            one = handle.get_buffer(to, (1,), dtype, storage_offset=last)
            assert one.item() == 10 + rank
            handle.barrier()


def own_reduction(rank, size):
    """An all-reduce that a program writes itself: each rank adds up a part."""
    count = 1000 * size
    tensor, handle = allocated(rank, count)
    wanted = sum(expected(r, count) for r in range(size))
    part = slice(rank * 1000, (rank + 1) * 1000)
    views = [handle.get_buffer(r, (count,), torch.float32) for r in range(size)]
    total = sum(view[part] for view in views)
    handle.barrier()
    for view in views:
        view[part] = total
    handle.barrier()
    assert torch.equal(tensor, wanted)
    dist.all_reduce(tensor)  # ordinary collectives work on it
    assert torch.equal(tensor, size * wanted)


def signals(rank, size):
    """A token goes around; signals of two channels do not mix."""
    tensor, handle = allocated(rank, 4, dtype=torch.int64)
    handle.barrier()
    tensor.zero_()
    handle.barrier()
    right, left = (rank + 1) % size, (rank - 1) % size
    for turn in range(50):
        if rank > 0 or turn > 0:
            handle.wait_signal(left, channel=3)
        own = tensor[0].item()
        assert own == turn * size + rank, own
        handle.get_buffer(right, (4,), torch.int64)[0] = own + 1
        handle.put_signal(right, channel=3)
    handle.put_signal(left, channel=7)
    handle.wait_signal(right, channel=7)
    if rank == 0:
        handle.wait_signal(left, channel=3)
    pad = handle.get_signal_pad(right, (1,), torch.int32)
    pad.fill_(rank + 1)
    handle.barrier(channel=2)
    assert handle.get_signal_pad(rank, (1,), torch.int32).item() == left + 1


def sub_groups(rank, size):
    """The ranks of a handle are those of its group."""
    groups = [dist.new_group([0, 2]), dist.new_group([1, 2])]
    members = [[0, 2], [1, 2]]
    for group, inside in zip(groups, members):
        if rank in inside:
            tensor, handle = allocated(rank, 10, group=group)
            assert handle.world_size == 2 and handle.rank == inside.index(rank)
            for place, member in enumerate(inside):
                theirs = handle.get_buffer(place, (10,), torch.float32)
                assert torch.equal(theirs, expected(member, 10))
            handle.barrier()
            try:
                symm_mem.rendezvous(tensor, dist.group.WORLD)
                raise AssertionError("a second group was accepted")
            except ValueError as why:
                assert "allocate another one" in str(why), why
            assert symm_mem.rendezvous(tensor, group).rank == handle.rank


def memory_kb(name):
    with open("/proc/meminfo", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(name))


def lifetimes(rank, size):
    """Memory returns when tensors and handles have gone, in any order."""
    before = None
    for i in range(40):
        tensor, handle = allocated(rank, 1 << 21)  # 8 MiB on each rank
        other = handle.get_buffer((rank + 1) % size, (4,), torch.float32)
        assert other[0].item() == 1000 * ((rank + 1) % size)
        handle.barrier()
        if i % 2:
            del tensor
            assert handle.get_buffer(rank, (4,), torch.float32)[1] == 1000 * rank + 1
        del handle, other
        tensor = None
        gc.collect()
        if i == 9:
            dist.barrier()
            before = memory_kb("Shmem:")
    dist.barrier()
    # 30 more rounds that kept theirs would be 240 MiB for each rank.
    assert memory_kb("Shmem:") < before + (100 << 10), (before, memory_kb("Shmem:"))


def refusals(rank, size):
    tensor, handle = allocated(rank, 10)
    for call, error, words in (
            (lambda: symm_mem.rendezvous(torch.ones(3), dist.group.WORLD),
             ValueError, "no symmetric memory"),
            (lambda: handle.get_buffer(size, (10,), torch.float32),
             RuntimeError, "rank must be in"),
            (lambda: handle.get_buffer(0, (11,), torch.float32),
             RuntimeError, "exceeds the allocated size"),
            (lambda: handle.put_signal(0, channel=-1), ValueError, "channel -1"),
            (lambda: handle.wait_signal(size - 1 - rank, 0, 50),
             RuntimeError, "")):
        try:
            call()
            raise AssertionError(f"accepted: {words}")
        except error as why:
            assert words in str(why), why


def dies(rank, size):
    """A rank that waits for a dead one gets its name."""
    tensor, handle = allocated(rank, 10)
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    begin = time.monotonic()
    try:
        handle.barrier()
        raise AssertionError("passed a barrier with a dead rank")
    except RuntimeError as why:
        assert "rank 1" in str(why) and "died" in str(why), why
    assert time.monotonic() - begin < 20
    os._exit(0)


class Symmetric(unittest.TestCase):
    def test_contents(self):
        for size in (1, 2, 3):
            ranks.run(size, "lockstep", contents)

    def test_own_reduction(self):
        ranks.run(3, "lockstep", own_reduction)

    def test_signals(self):
        for size in (2, 3):
            ranks.run(size, "lockstep", signals)

    def test_sub_groups(self):
        ranks.run(3, "lockstep", sub_groups)

    def test_lifetimes(self):
        ranks.run(2, "lockstep", lifetimes)

    def test_refusals(self):
        ranks.run(2, "lockstep", refusals)

    def test_a_death(self):
        ranks.run(2, "lockstep", dies, expect=[0, -signal.SIGKILL])


if __name__ == "__main__":
    unittest.main()
