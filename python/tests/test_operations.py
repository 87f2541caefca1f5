#!/usr/bin/env python3
"""Every operation of the backend, and what hangs on its futures."""
import gc
import os
import signal
import sys
import threading
import time
import traceback
import unittest
import weakref
from datetime import timedelta

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ranks
import torch
import torch.distributed as dist
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

if "lockstep" not in ranks.backends():
    sys.exit(77)
import lockstep_torch

TYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8,
         torch.uint8, torch.int32, torch.int64)
MOVED = TYPES + (torch.bool, torch.int16, torch.complex64)
SHAPES = ((), (0,), (1,), (7,), (3, 5), (1031,))


def mine(rank, shape, dtype):
    """Small whole numbers, of which sums are exact in any order and type."""
    x = torch.arange(max(torch.Size(shape).numel(), 1)).remainder(3)
    x = (x + rank) % 3
    return x[:torch.Size(shape).numel()].reshape(shape).to(dtype)


def same(got, want):
    assert got.dtype == want.dtype and got.shape == want.shape, (got, want)
    assert torch.equal(got, want), (got, want)


def reductions(rank, size):
    ops = dist.ReduceOp
    by = {ops.SUM: sum, ops.PRODUCT: lambda xs: torch.stack(xs).prod(0),
          ops.MIN: lambda xs: torch.stack(xs).amin(0),
          ops.MAX: lambda xs: torch.stack(xs).amax(0)}
    for shape in SHAPES:
        for dtype in TYPES:
            every = [mine(r, shape, dtype) for r in range(size)]
            for op, function in by.items():
                want = function(every).to(dtype)
                x = every[rank].clone()
                dist.all_reduce(x, op)
                same(x, want)
                x = every[rank].clone()
                dist.reduce(x, size - 1, op)
                same(x, want if rank == size - 1 else every[rank])
            if dtype.is_floating_point:
                x = every[rank].clone()
                dist.all_reduce(x, ops.AVG)
                want = (sum(e.double() for e in every) / size)
                error = (x.double() - want).abs()
                assert bool((error <= want.abs() * torch.finfo(dtype).eps).all())
    bits = [torch.tensor([r * 5 + 3, 7, r]) for r in range(size)]
    for op, function in ((ops.BAND, torch.bitwise_and), (ops.BOR, torch.bitwise_or),
                         (ops.BXOR, torch.bitwise_xor)):
        want = bits[0]
        for other in bits[1:]:
            want = function(want, other)
        x = bits[rank].clone()
        dist.all_reduce(x, op)
        same(x, want)
    x = torch.tensor([rank == 0, True, False])
    dist.all_reduce(x)
    same(x, torch.tensor([True, True, False]))
    x = torch.full((3,), complex(rank, 1))
    dist.all_reduce(x)
    same(x, torch.full((3,), complex(size * (size - 1) / 2, size)))


def strided(rank, size):
    """Tensors that are not contiguous, in and out."""
    every = [mine(r, (4, 6), torch.float32) for r in range(size)]
    x = every[rank].clone().t()
    dist.all_reduce(x)
    same(x, sum(every).t())
    x = every[rank].clone()[:, ::2]
    dist.broadcast(x, 0)
    same(x, every[0][:, ::2])
    outputs = [torch.zeros(6, 4).t() for _ in range(size)]
    dist.all_gather(outputs, every[rank].t().contiguous().t())
    for got, want in zip(outputs, every):
        same(got, want)


def moves(rank, size):
    for shape in SHAPES[1:]:
        for dtype in MOVED:
            every = [mine(r, shape, dtype) for r in range(size)]
            x = every[rank].clone()
            for root in (0, size - 1):
                y = x.clone()
                dist.broadcast(y, root)
                same(y, every[root])
                outputs = [torch.zeros_like(x) for _ in every] \
                    if rank == root else None
                dist.gather(x, outputs, root)
                for got, want in zip(outputs or (), every):
                    same(got, want)
                y = torch.zeros_like(x)
                dist.scatter(y, every if rank == root else None, root)
                same(y, every[rank])
            outputs = [torch.zeros_like(x) for _ in every]
            dist.all_gather(outputs, x)
            for got, want in zip(outputs, every):
                same(got, want)
            flat = torch.zeros(size * x.numel(), dtype=dtype)
            dist.all_gather_into_tensor(flat, x.reshape(-1))
            same(flat, torch.cat([e.reshape(-1) for e in every]))
            sent = torch.cat([mine(rank + to, shape, dtype).reshape(-1)
                              for to in range(size)])
            flat = torch.zeros_like(sent)
            dist.all_to_all_single(flat, sent)
            same(flat, torch.cat([mine(r + rank, shape, dtype).reshape(-1)
                                  for r in range(size)]))
    thing = [None] * size
    dist.all_gather_object(thing, {"rank": rank})
    assert thing == [{"rank": r} for r in range(size)]
    things = ["root's", rank] if rank == 0 else [None, None]
    dist.broadcast_object_list(things, 0)
    assert things == ["root's", 0]


def reduce_scatters(rank, size):
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        rows = [torch.stack([mine(r + row, (5,), dtype) for row in range(size)])
                for r in range(size)]
        out = torch.zeros(5, dtype=dtype)
        dist.reduce_scatter_tensor(out, rows[rank].reshape(-1))
        want = sum(rows)[rank].to(dtype)
        same(out, want)
        out.zero_()
        dist.reduce_scatter(out, list(rows[rank]))
        same(out, want)


def uneven(rank, size):
    """Counts that differ between ranks, 0 among them."""
    counts = [(3 * r) % 4 for r in range(size)]
    for dtype in (torch.float32, torch.int16):
        every = [mine(r, (counts[r], 2), dtype) for r in range(size)]
        outputs = [torch.zeros_like(e) for e in every]
        dist.all_gather(outputs, every[rank])
        for got, want in zip(outputs, every):
            same(got, want)
        rows = [mine(rank + to, ((rank + 2 * to) % 3, 2), dtype)
                for to in range(size)]
        want = [mine(r + rank, ((r + 2 * rank) % 3, 2), dtype)
                for r in range(size)]
        outputs = [torch.zeros_like(w) for w in want]
        dist.all_to_all(outputs, rows)
        for got, this in zip(outputs, want):
            same(got, this)
        flat = torch.zeros_like(torch.cat(want))
        dist.all_to_all_single(flat, torch.cat(rows), [len(w) for w in want],
                               [len(r) for r in rows])
        same(flat, torch.cat(want))
    blocks = [[mine(r + to, (counts[to],), torch.float32) for to in range(size)]
              for r in range(size)]
    out = torch.zeros(counts[rank])
    dist.reduce_scatter(out, blocks[rank])
    same(out, sum(b[rank] for b in blocks))


def messages(rank, size):
    """Tags, any source, and messages while collectives are in flight."""
    after, before = (rank + 1) % size, (rank - 1) % size
    x = [mine(rank + i, (9,), torch.float32) for i in range(3)]
    y = [torch.zeros(9) for _ in x]
    total = torch.ones(1000)
    under_way = dist.all_reduce(total, async_op=True)
    works = [dist.irecv(y[tag], before, tag=tag) for tag in (2, 0, 1)]
    works += [dist.isend(x[tag], after, tag=tag) for tag in range(3)]
    for work in works:
        work.wait()
    under_way.wait()
    same(total, torch.full((1000,), float(size)))
    for tag in range(3):
        same(y[tag], mine(before + tag, (9,), torch.float32))
    if rank:
        dist.send(torch.tensor([float(rank)]), 0)
        return
    seen = set()
    for _ in range(size - 1):
        number = torch.zeros(1)
        source = dist.recv(number)
        assert source == int(number), (source, number)
        seen.add(source)
    assert seen == set(range(1, size))


def order(rank, size):
    """A broadcast that is under way, and a message that its root awaits first."""
    x = torch.full((100,), float(rank))
    y = torch.zeros(1)
    if rank == 0:
        dist.recv(y, 1)
        dist.broadcast(x, 0)
    else:
        work = dist.broadcast(x, 0, async_op=True)
        if rank == 1:
            dist.send(y, 0)
        work.wait()
    same(x, torch.zeros(100))


def futures(rank, size):
    """Callbacks run, in any thread, and may wait for later operations."""
    x, y = torch.ones(5), torch.ones(3)
    work = dist.all_reduce(x, async_op=True)

    def again(future):
        dist.all_reduce(y, async_op=True).get_future().wait()
        return future.value()[0] * 2

    doubled = work.get_future().then(again).wait()
    same(doubled, torch.full((5,), 2.0 * size))
    same(y, torch.full((3,), float(size)))
    work = dist.all_reduce(x, async_op=True)
    until = time.monotonic() + 20
    while not work.is_completed() and time.monotonic() < until:
        pass
    assert work.is_success()
    same(work.result()[0], x)
    many = [dist.all_reduce(torch.ones(10), async_op=True) for _ in range(50)]
    for work in reversed(many):
        work.wait()
        same(work.result()[0], torch.full((10,), float(size)))


def alone(rank, size):
    """Operations complete without a wait, too."""
    x = torch.ones(300_000)
    if rank == 0:
        time.sleep(0.05)
    future = dist.all_reduce(x, async_op=True).get_future()
    until = time.monotonic() + 20
    while not future.done() and time.monotonic() < until:
        time.sleep(0.001)
    assert future.done()
    same(x, torch.full((300_000,), float(size)))


def groups(rank, size):
    """Groups of some, and threads that use two at once."""
    evens = dist.new_group(list(range(0, size, 2)))
    others = dist.new_group(list(range(size)))
    if rank % 2 == 0:
        x = torch.ones(3)
        dist.all_reduce(x, group=evens)
        same(x, torch.full((3,), float((size + 1) // 2)))
        dist.destroy_process_group(evens)

    def work(group):
        for _ in range(100):
            x = torch.ones(50)
            dist.all_reduce(x, group=group)
            same(x, torch.full((50,), float(size)))

    threads = [threading.Thread(target=work, args=(group,))
               for group in (None, others)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def sparse(rank, size):
    x = torch.zeros(6, 2)
    x[rank], x[5] = 1, rank
    y = x.to_sparse(1)
    dist.all_reduce(y)
    want = torch.zeros(6, 2)
    for r in range(size):
        want[r] += 1
        want[5] += r
    same(y.to_dense(), want)


def sparse_shapes(rank, size):
    """Else entries of one rank would lie outside of the tensor of another."""
    length = 10 if rank == size - 1 else 5
    x = torch.sparse_coo_tensor([[length - 1]], [1.0], (length,))
    try:
        dist.all_reduce(x)
        raise AssertionError("no exception")
    except ValueError as why:
        assert "shapes" in str(why), why
    y = torch.ones(3)
    dist.all_reduce(y)  # the group is as good as before
    same(y, torch.full((3,), float(size)))


def message_first(rank, size):
    """A message is not held up by a sparse sum that its peer has yet to start."""
    x = torch.sparse_coo_tensor([[rank]], [1.0], (size,))
    y = torch.full((8 << 20,), float(rank))  # more than is kept for others
    if rank == 0:
        work = dist.all_reduce(x, async_op=True)
        dist.recv(y, 1)
        work.wait()
    elif rank == 1:
        dist.send(y, 0)
        dist.all_reduce(x)
    else:
        dist.all_reduce(x)
    same(x.to_dense(), torch.ones(size))
    assert rank != 0 or float(y.min()) == 1


def inference(rank, size):
    """Whoever waits for an inference tensor need not be in that mode."""
    with torch.inference_mode():
        x = torch.ones(4, 6)
        work = dist.all_reduce(x[:, ::2], async_op=True)
    work.wait()
    want = torch.ones(4, 6)
    want[:, ::2] = size
    same(x.clone(), want)


def left_behind(rank, size):
    """A started operation completes, also without a wait."""
    x = torch.full((1 << 20,), float(rank))
    if rank == 0:
        dist.isend(x, 1)
        dist.all_reduce(torch.ones(1), async_op=True)
        return
    time.sleep(0.3)
    if rank == 1:
        dist.recv(x, 0)
        assert float(x.max()) == 0
    total = torch.ones(1)
    dist.all_reduce(total)
    same(total, torch.full((1,), float(size)))


def interrupted_meeting(rank, size):
    """Ctrl-C ends waiting for ranks that do not come to make a group."""
    if rank == 0:
        backend = dist.distributed_c10d._get_default_store()
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        begin = time.monotonic()
        try:
            lockstep_torch.create(dist.PrefixStore("late", backend), rank, size,
                                  timedelta(seconds=60))
            raise AssertionError("no exception")
        except KeyboardInterrupt:
            assert time.monotonic() - begin < 20
    dist.barrier()


def short_waits(rank, size):
    """A wait of milliseconds does not take long; the best of many tries."""
    if rank == 0:
        work = dist.all_reduce(torch.ones(3), async_op=True)
        best = 10.0
        for _ in range(20):
            begin = time.monotonic()
            try:
                work.wait(timedelta(milliseconds=2))
                raise AssertionError("no exception")
            except RuntimeError:
                best = min(best, time.monotonic() - begin)
        assert best < 0.09, best
        dist.send(torch.ones(1), 1)
        work.wait()
    else:
        dist.recv(torch.ones(1), 0)
        dist.all_reduce(torch.ones(3))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(20, 8, sparse=True)
        self.first = nn.Linear(8, 16)
        self.second = nn.Linear(16, 3)
        self.unused = nn.Linear(2, 2)

    def forward(self, x):
        return self.second(self.first(self.words(x)).relu())


def ddp(rank, size, options):
    """The gradients of DDP are the average of the ranks'."""
    torch.manual_seed(0)
    net = Net()
    model = nn.parallel.DistributedDataParallel(net, **options)
    for step in range(3):
        net.zero_grad()
        sums = {}
        for r in range(size):
            x = torch.arange(4) + r + step
            if r == rank:
                model(x).square().sum().backward()
            twin = Net()
            twin.load_state_dict(net.state_dict())
            twin(x).square().sum().backward()
            for name, p in twin.named_parameters():
                if p.grad is not None:
                    sums[name] = sums.get(name, 0) + p.grad.to_dense() / size
        for name, p in net.named_parameters():
            if name in sums:
                torch.testing.assert_close(p.grad.to_dense(), sums[name])
        with torch.no_grad():
            for p in net.parameters():
                if p.grad is not None:
                    p -= 0.1 * p.grad.to_dense()


def hooks(rank, size):
    from torch.distributed.algorithms.ddp_comm_hooks import (
        default_hooks, powerSGD_hook)
    for hook, state in (
            (default_hooks.fp16_compress_hook, None),
            (default_hooks.bf16_compress_hook, None),
            (powerSGD_hook.powerSGD_hook, powerSGD_hook.PowerSGDState(
                None, start_powerSGD_iter=2))):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(30, 40), nn.ReLU(), nn.Linear(40, 30))
        model = nn.parallel.DistributedDataParallel(net)
        try:
            model.register_comm_hook(state, hook)
        except TypeError as why:  # PyTorch 2.6 that was built without CUDA
            assert "BF16 all reduce communication hook required" in str(why), why
            continue
        for _ in range(5):
            model(torch.ones(2, 30) * rank).square().sum().backward()
        for p in net.parameters():
            every = [torch.empty_like(p) for _ in range(size)]
            dist.all_gather(every, p.grad)
            assert all(torch.equal(one, p.grad) for one in every)


def joined(rank, size):
    """Ranks with fewer batches follow those that have more."""
    net = nn.Linear(3, 2)
    model = nn.parallel.DistributedDataParallel(net)
    with model.join():
        for _ in range(2 + rank):
            model(torch.ones(1, 3)).sum().backward()


def functional(rank, size):
    import torch.distributed._functional_collectives as functions
    got = functions.all_reduce(torch.ones(4), "sum", dist.group.WORLD)
    same(got + 0, torch.full((4,), float(size)))
    got = functions.all_gather_tensor(torch.tensor([rank]), 0, dist.group.WORLD)
    same(got + 0, torch.arange(size))


def barriers(rank, size):
    dist.barrier()
    ranks.monitored_barrier(30)
    if rank == 0:
        try:
            ranks.monitored_barrier(0.3)
            raise AssertionError("nobody was missing")
        except RuntimeError as why:
            assert "rank" in str(why), why
        dist.distributed_c10d._get_default_store().set("over", "")
    else:
        dist.distributed_c10d._get_default_store().wait(["over"])


def dies(rank, size):
    """Survivors hear of a dead rank soon, by an exception that names it."""
    dist.barrier()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    begin = time.monotonic()
    try:
        for _ in range(1000):
            dist.all_reduce(torch.ones(10))
        raise AssertionError("no exception")
    except RuntimeError as why:
        assert "rank 1" in str(why), why
    assert time.monotonic() - begin < 10


def interrupted(rank, size):
    """Ctrl-C ends a wait."""
    if rank == 0:
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        begin = time.monotonic()
        try:
            dist.recv(torch.zeros(1), 1)
            raise AssertionError("no exception")
        except KeyboardInterrupt:
            assert time.monotonic() - begin < 30
        dist.distributed_c10d._get_default_store().set("over", "")
    else:
        dist.distributed_c10d._get_default_store().wait(["over"])


class Stop(Exception):
    pass


def stop(*_):
    raise Stop("asked", 7)


class Seeing(TorchDispatchMode):
    """Notes the operators that are called."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def interrupted_by_handler(rank, size):
    """A wait ends with what a handler raised: whole, kept by nobody, and unseen by modes."""
    if rank == 0:
        signal.signal(signal.SIGALRM, stop)
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with Seeing() as seeing:
            try:
                dist.recv(torch.zeros(1), 1)
                raise AssertionError("no exception")
            except Stop as why:
                assert why.args == ("asked", 7)
                frames = [frame.name for frame in traceback.extract_tb(why.__traceback__)]
                assert "stop" in frames, frames
                raised = weakref.ref(why)
        gc.collect()
        assert raised() is None
        assert seeing.names and not any("lockstep" in name for name in seeing.names), \
            seeing.names
        dist.distributed_c10d._get_default_store().set("over", "")
    else:
        dist.distributed_c10d._get_default_store().wait(["over"])


class Tests(unittest.TestCase):
    def on(self, sizes, work, *args, **options):
        for size in sizes:
            with self.subTest(size=size, work=work.__name__):
                ranks.run(size, "lockstep", work, *args, **options)

    def test_reductions(self):
        self.on((1, 2, 5), reductions)

    def test_strided(self):
        self.on((2, 3), strided)

    def test_moves(self):
        self.on((1, 3, 8), moves)

    def test_reduce_scatter(self):
        self.on((1, 2, 3), reduce_scatters)

    def test_uneven(self):
        self.on((1, 2, 5), uneven)

    def test_messages(self):
        self.on((2, 3), messages)

    def test_order(self):
        self.on((2, 3), order)

    def test_futures(self):
        self.on((1, 2, 3), futures)

    def test_alone(self):
        self.on((2,), alone)

    def test_groups(self):
        self.on((2, 3), groups)

    def test_sparse(self):
        self.on((1, 3), sparse)
        self.on((2, 3), sparse_shapes)
        self.on((2, 3), message_first)

    def test_inference(self):
        self.on((2,), inference)

    def test_left_behind(self):
        self.on((2, 3), left_behind)

    def test_interrupted_meeting(self):
        self.on((2,), interrupted_meeting)

    def test_short_waits(self):
        self.on((2,), short_waits)

    def test_ddp(self):
        for options in ({"find_unused_parameters": True},
                        {"find_unused_parameters": True,
                         "gradient_as_bucket_view": True}):
            self.on((2, 3), ddp, options)

    def test_hooks(self):
        self.on((2,), hooks)

    def test_join(self):
        self.on((2, 3), joined)

    def test_functional(self):
        self.on((2,), functional)

    def test_barriers(self):
        self.on((3,), barriers)

    def test_death(self):
        self.on((3,), dies, expect=[0, -signal.SIGKILL, 0])

    def test_interrupt(self):
        self.on((2,), interrupted)

    def test_interrupted_by_handler(self):
        self.on((2,), interrupted_by_handler)


if __name__ == "__main__":
    unittest.main()
