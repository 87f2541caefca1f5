"""Coalescing, forks, events, factors, and the life of a group."""

import atexit
import os
import signal
import subprocess
import sys
import threading
import time
import unittest
from datetime import timedelta

import ranks
import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _coalescing_manager

if "lockstep" not in ranks.backends():
    sys.exit(77)
import lockstep_torch

SIZES = (1, 2, 3, 5)


def coalesced(rank, size):
    """Messages around a ring and a collective, with one thing to wait for."""
    after, before = (rank + 1) % size, (rank - 1) % size
    total = torch.full((7,), float(rank))
    room = torch.zeros(10001)
    with _coalescing_manager(device=torch.device("cpu"), async_ops=True) as made:
        dist.irecv(room, before, tag=3)
        dist.isend(torch.full((10001,), float(rank)), after, tag=3)
        dist.all_reduce(total, async_op=True)
    work = made.works[0]
    future = work.get_future()
    work.wait()
    assert work.is_completed()
    assert torch.equal(room, torch.full((10001,), float(before))), room
    assert torch.equal(total, torch.full((7,), size * (size - 1) / 2)), total
    found = future.wait()
    assert [x.numel() for x in found] == [10001, 10001, 7], found
    with _coalescing_manager(device=torch.device("cpu"), async_ops=True) as made:
        pass
    made.wait()


def coalesced_again(rank, size):
    """An exception in between does no harm to the next coalescing."""
    for expected in (KeyError, None):
        total = torch.ones(3)
        try:
            with _coalescing_manager(device=torch.device("cpu"),
                                     async_ops=True) as made:
                if expected:
                    raise expected
                dist.all_reduce(total, async_op=True)
            made.wait()
        except KeyError:
            dist.barrier()
    assert torch.equal(total, torch.full((3,), float(size))), total


def forked(rank, size):
    """A child can end, and cannot disturb its parent."""
    dist.all_reduce(torch.ones(3), async_op=True).get_future().wait()
    if rank == 0:
        time.sleep(0.1)  # so that the thread of another is there
    work = dist.all_reduce(torch.ones(3), async_op=True)
    work.wait()
    del work
    time.sleep(0.3)  # it sleeps, and cannot be woken in the child
    child = os.fork()
    if child == 0:
        status = 1
        try:
            ranks.monitored_barrier(5)
        except RuntimeError as why:
            status = 0 if "fork" in str(why) else 2
        dist.destroy_process_group()
        os._exit(status)
    until = time.monotonic() + 30
    while (found := os.waitpid(child, os.WNOHANG))[0] == 0:
        if time.monotonic() > until:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise AssertionError("the child does not end")
        time.sleep(0.01)
    assert found[1] == 0, found
    dist.all_reduce(torch.ones(3))
    os._exit(0)  # the child has removed the file of the FileStore


def events(rank, size):
    dist.Backend.register_backend("another", lockstep_torch.create,
                                  devices=["cpu"])
    another = dist.new_group(backend="another")
    for name, group in (("lockstep", None), ("another", another)):
        with torch.autograd.profiler.profile(record_shapes=True) as profile:
            dist.all_reduce(torch.ones(3, 5), group=group)
        found = [event for event in profile.function_events
                 if event.name == f"{name}:all_reduce"]
        assert len(found) == 1, [event.name for event in profile.function_events]
        assert found[0].is_async and found[0].input_shapes == [[3, 5]], found[0]


def premultiplied(rank, size):
    """bf16: factors of each rank, and one rounding to the type."""
    factor = torch._C._distributed_c10d._make_nccl_premul_sum(1 / (rank + 3))
    every = [torch.randn(5 * size, generator=torch.Generator().manual_seed(r))
             .bfloat16() for r in range(size)]
    exact = sum(x.double() / (r + 3) for r, x in enumerate(every))
    magnitude = sum(x.double().abs() / (r + 3) for r, x in enumerate(every))
    bound = exact.abs() * torch.finfo(torch.bfloat16).eps / 2 \
        + magnitude * (size + 2) * torch.finfo(torch.float32).eps

    def check(found, what, part=slice(None)):
        off = (found.double() - exact[part]).abs()
        assert (off <= bound[part] * 1.01).all(), (what, off - bound[part])

    mine = every[rank].clone()
    dist.all_reduce(mine, factor)
    check(mine, "all_reduce")
    mine = every[rank].clone()
    dist.reduce(mine, size - 1, factor)
    if rank == size - 1:
        check(mine, "reduce")
    part = torch.empty(5, dtype=torch.bfloat16)
    dist.reduce_scatter_tensor(part, every[rank], factor)
    check(part, "reduce_scatter", slice(5 * rank, 5 * rank + 5))
    lengths = [5 * size - 4 * (size - 1)] + [4] * (size - 1)  # uneven ones
    begin = sum(lengths[:rank])
    part = torch.empty(2 * lengths[rank], dtype=torch.bfloat16)[::2]
    dist.reduce_scatter(part, list(every[rank].split(lengths)), factor)
    check(part, "uneven reduce_scatter", slice(begin, begin + lengths[rank]))


def missing(rank, size):
    """Rank 0 names who has not come; the others hear of it from rank 0."""
    began = time.monotonic()
    late = size - 1
    if rank == 0:
        try:
            ranks.monitored_barrier(2)
        except RuntimeError as why:
            assert f"Rank {late} failed to pass monitoredBarrier" in str(why), why
        else:
            raise AssertionError(f"rank 0 has not missed rank {late}")
    elif rank != late:
        try:
            ranks.monitored_barrier(50)
        except RuntimeError as why:
            assert f"Rank {rank} successfully reached" in str(why), why
        else:
            raise AssertionError(f"rank {rank} has not heard of rank {late}")
        assert time.monotonic() - began < 25
    total = torch.ones(1)
    dist.all_reduce(total)  # the group is as good as before
    assert total.item() == size
    if rank == 0:
        try:
            ranks.monitored_barrier(0)
        except RuntimeError as why:
            assert "Rank 0 timed out in monitoredBarrier" in str(why), why
        else:
            raise AssertionError("rank 0 has waited for rank 1")


def meets_late(rank, size):
    """One comes when another has given up once and tries again."""
    for late in (0, size - 1):
        store = dist.PrefixStore(f"late {late}",
                                 dist.distributed_c10d._get_default_store())
        if rank == late:
            store.wait(["failed"])
        failed, group = 0, None
        while group is None:
            try:
                group = lockstep_torch.create(store, rank, size, timedelta(
                    seconds=20 if rank == late else 1))
            except dist.DistBackendError:
                store.set("failed", "")
                failed += 1
                assert failed < 6 and rank != late, (rank, failed)
        total = torch.ones(1)
        group.allreduce([total]).wait()
        assert total.item() == size, total
        group.shutdown()
        group = lockstep_torch.create(store, rank, size, timedelta(seconds=20))
        group.allreduce([total]).wait()  # one after the other
        assert total.item() == size * size, total
        group.shutdown()
        dist.barrier()


def absent(rank, size):
    """Rank 0 does not come, which the others say."""
    if rank:
        store = dist.distributed_c10d._get_default_store()
        try:
            lockstep_torch.create(dist.PrefixStore("absent", store), rank, size,
                                  timedelta(milliseconds=200))
        except dist.DistBackendError as why:
            assert "200 ms for rank 0" in str(why), why
        else:
            raise AssertionError("there is a group without rank 0")
    dist.barrier()


def kept_keys(rank, size):
    """Monitored barriers leave no keys but those of the last."""
    store = dist.distributed_c10d._get_default_store()
    counts = []
    for _ in range(3):
        for _ in range(10):
            ranks.monitored_barrier(30)
        dist.barrier()
        counts.append(store.num_keys())
        dist.barrier()
    assert counts[0] == counts[1] == counts[2], counts


def flying():
    """A group of one, with something that does not end."""
    flying.made += 1
    store = dist.PrefixStore(f"flying {flying.made}",
                             dist.distributed_c10d._get_default_store())
    group = lockstep_torch.create(store, 0, 1, timedelta(seconds=20))
    return group, group.recv_anysource([torch.zeros(3)], 1)


flying.made = 0


def both(first, second):
    """All at the same time, by a thread each."""
    start = threading.Barrier(len(first) + len(second))

    def run(work):
        start.wait()
        work()
    threads = [threading.Thread(target=run, args=(work,))
               for work in (*first, *second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def closed_twice(rank, size):
    groups = [flying()[0] for _ in range(8)]
    both([group.shutdown for group in groups],
         [group.shutdown for group in groups])


def closed_at_exit(rank, size):
    """Groups that the end of the program closes are destroyed meanwhile."""
    groups = [flying()[0] for _ in range(4)]
    closing = threading.Event()
    atexit.register(closing.set)  # the last one is the first to be called

    def destroy():
        closing.wait()
        groups.pop()
    both([atexit._run_exitfuncs], [destroy] * 4)
    os._exit(0)


class Tests(unittest.TestCase):
    def test_imported_first(self):
        """Before torch, which looks for this package while it is imported."""
        found = subprocess.run(
            [sys.executable, "-W", "error", "-c",
             "import lockstep_torch; print(lockstep_torch._bridge())"],
            env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "1"},
            capture_output=True, text=True, timeout=120)
        self.assertIn("lockstep", found.stdout, found.stderr)

    def each_size(self, work, sizes=SIZES):
        for size in sizes:
            with self.subTest(ranks=size):
                ranks.run(size, "lockstep", work)

    def test_coalesced(self):
        self.each_size(coalesced)

    def test_coalesced_again(self):
        self.each_size(coalesced_again, (1, 2))

    def test_forked(self):
        self.each_size(forked, (2,))

    def test_events(self):
        self.each_size(events, (1, 2))

    def test_premultiplied(self):
        self.each_size(premultiplied)

    def test_meets_late(self):
        self.each_size(meets_late, (2, 3))

    def test_absent(self):
        self.each_size(absent, (2, 3))

    def test_kept_keys(self):
        self.each_size(kept_keys, (2, 3))

    def test_closed_twice(self):
        self.each_size(closed_twice, (1,))

    def test_closed_at_exit(self):
        self.each_size(closed_at_exit, (1,))

    def test_monitored_barrier(self):
        self.each_size(missing, (2, 3))


if __name__ == "__main__":
    unittest.main()
