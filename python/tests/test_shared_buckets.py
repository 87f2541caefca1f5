#!/usr/bin/env python3
"""Buckets in shared memory: gradients are those of plain DDP."""
import atexit
import copy
import gc
import os
import sys
import unittest
from datetime import timedelta

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ranks
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

BACKENDS = ranks.backends()
if "lockstep" not in BACKENDS:
    sys.exit(77)
import lockstep_torch


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(17, 130), nn.ReLU(), nn.Linear(130, 130),
                         nn.ReLU(), nn.Linear(130, 3))


def batch(rank, step):
    made = torch.Generator().manual_seed(100 * step + rank)
    return torch.randn(4, 17, generator=made)


def places(module):
    return {p.grad.untyped_storage().data_ptr() for p in module.parameters()}


def same_gradients(rank, size):
    """Plain DDP divides before it adds, and gloo adds in another order: each sum
    has at most size + 2 roundings more or less."""
    mine, plain = net(), net()
    model = DDP(mine, gradient_as_bucket_view=True, bucket_cap_mb=0.05)
    other = DDP(plain, bucket_cap_mb=0.05)
    lockstep_torch.shared_buckets(model)
    before = None
    for step in range(7):
        for module, ddp in ((mine, model), (plain, other)):
            module.zero_grad(set_to_none=step % 2 == 0)
            ddp(batch(rank, step)).square().mean().backward()
        for p, q in zip(mine.parameters(), plain.parameters()):
            scale = float(q.grad.abs().max())
            torch.testing.assert_close(
                p.grad, q.grad, rtol=0, atol=(size + 2) * 2.0 ** -23 * scale)
        if step == 1:
            before = places(mine)
        if step == 2:
            assert not before & places(mine), "the buckets have not moved"
            before = places(mine)
        if step > 2:
            assert places(mine) == before, "the buckets have moved again"
    every = [torch.empty_like(mine[0].weight) for _ in range(size)]
    dist.all_gather(every, mine[0].weight.grad)
    assert all(torch.equal(one, every[0]) for one in every)


def accumulates(rank, size):
    """Micro-steps under no_sync add up in the same place."""
    mine, plain = net(), net()
    model = DDP(mine, gradient_as_bucket_view=True)
    lockstep_torch.shared_buckets(model)
    for step in range(5):
        mine.zero_grad()
        plain.zero_grad()
        with model.no_sync():
            model(batch(rank, step)).square().mean().backward()
        model(batch(rank, step + 50)).square().mean().backward()
        for r in range(size):
            for at in (step, step + 50):
                (plain(batch(r, at)).square().mean() / size).backward()
        for p, q in zip(mine.parameters(), plain.parameters()):
            torch.testing.assert_close(p.grad, q.grad)


class Branches(nn.Module):
    """Of two layers that share a bucket, steps use one or both."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.left, self.right = nn.Linear(17, 2), nn.Linear(17, 2)

    def forward(self, x, both):
        return self.left(x) + (self.right(x) if both else 0)


def unused(rank, size):
    """A layer that is not used has the average of what others have, or none."""
    mine, plain = Branches(), Branches()
    model = DDP(mine, gradient_as_bucket_view=True, find_unused_parameters=True)
    lockstep_torch.shared_buckets(model)
    for step in range(10):
        mine.zero_grad()
        plain.zero_grad()
        # At step 2, when buckets would move, a rank has no gradient.
        both = step < 2 or step > 5 or rank == 0
        model(batch(rank, step), both).square().mean().backward()
        for r in range(size):
            both = step < 2 or step > 5 or r == 0
            (plain(batch(r, step), both).square().mean() / size).backward()
        for p, q in zip(mine.parameters(), plain.parameters()):
            torch.testing.assert_close(p.grad, q.grad)


def outlive(rank, size):
    """Gradients that are kept can be read when the model is gone."""
    mine = net()
    model = DDP(mine, gradient_as_bucket_view=True)
    lockstep_torch.shared_buckets(model)
    for step in range(4):
        model(batch(rank, step)).sum().backward()
    kept = [p.grad for p in mine.parameters()]
    copies = [grad.clone() for grad in kept]
    del model, mine
    gc.collect()
    dist.barrier()
    for grad, twin in zip(kept, copies):
        assert torch.equal(grad, twin)


def twice(rank, size):
    """Two models, one after the other and at once."""
    for _ in range(2):
        models = []
        for _ in range(2):
            models.append(DDP(net(), gradient_as_bucket_view=True))
            lockstep_torch.shared_buckets(models[-1])
        for step in range(4):
            for model in models:
                model(batch(rank, step)).sum().backward()
        for p, q in zip(models[0].parameters(), models[1].parameters()):
            assert torch.equal(p.grad, q.grad)


def refused(rank, size):
    for wrong, words in ((DDP(net()), "gradient_as_bucket_view"),):
        try:
            lockstep_torch.shared_buckets(wrong)
            raise AssertionError("accepted")
        except ValueError as why:
            assert words in str(why)


def other_groups(rank, size):
    """One rank has had another model, in a group that the other is not in."""
    alone = dist.new_group([0])
    if rank == 0:
        model = DDP(net(), process_group=alone, gradient_as_bucket_view=True)
        lockstep_torch.shared_buckets(model)
    model = DDP(net(), gradient_as_bucket_view=True)
    lockstep_torch.shared_buckets(model, timedelta(seconds=60))
    for step in range(4):
        model(batch(rank, step)).square().mean().backward()


def at_exit(rank, size):
    """Gradients are still there when the groups have been closed."""
    model = DDP(net(), gradient_as_bucket_view=True)
    lockstep_torch.shared_buckets(model)
    for step in range(4):
        model.zero_grad(set_to_none=False)
        model(batch(rank, step)).square().mean().backward()
    before = [p.grad.clone() for p in model.parameters()]
    atexit._run_exitfuncs()
    for p, grad in zip(model.parameters(), before):
        assert torch.equal(p.grad, grad)
        p.grad.add_(1)
    sys.stderr.flush()
    os._exit(0)


class Tests(unittest.TestCase):
    def on(self, sizes, work):
        for number, size in enumerate(sizes):
            backend = BACKENDS[number % len(BACKENDS)]
            with self.subTest(size=size, backend=backend):
                ranks.run(size, backend, work)

    def test_gradients(self):
        self.on((1, 2, 3, 5), same_gradients)

    def test_accumulation(self):
        self.on((2, 3), accumulates)

    def test_unused(self):
        self.on((2, 3), unused)

    def test_lifetime(self):
        self.on((2, 2), outlive)

    def test_many(self):
        self.on((2, 3), twice)

    def test_other_groups(self):
        ranks.run(2, "lockstep", other_groups, timeout=120)

    def test_at_exit(self):
        ranks.run(2, "lockstep", at_exit)

    def test_refusals(self):
        self.on((2,), refused)


if __name__ == "__main__":
    unittest.main()
