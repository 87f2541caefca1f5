#!/usr/bin/env python3
"""SyncBatchNorm compared with nn.BatchNorm on the batches of all ranks together.

The reference is nn.BatchNorm in float64. Let |x| <= X, with a
deviation of at least s. The error of a mean in float32 is below 2 eps X, and the
relative error of a deviation below 4 eps X / s. So the error of the normalised x is at most
8 eps X / s (1 + X / s). 16-bit results are rounded once more.
"""
import copy
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ranks
import torch
import torch.distributed as dist
from torch import nn
from lockstep_torch import SyncBatchNorm

EPS = {torch.float64: 2.0 ** -52, torch.float32: 2.0 ** -23,
       torch.bfloat16: 2.0 ** -8, torch.float16: 2.0 ** -11}
TAILS = {1: (), 2: (5,), 3: (4, 3), 4: (2, 3, 2)}
PLAIN = {1: nn.BatchNorm1d, 2: nn.BatchNorm1d, 3: nn.BatchNorm2d,
         4: nn.BatchNorm3d}


def inputs(batches, channels, tail, dtype, seed=0):
    """One batch a rank, and the gradients that come back to each."""
    made = torch.Generator().manual_seed(seed)
    full = (sum(batches), channels, *tail)
    x = torch.randn(full, generator=made, dtype=torch.float64)
    x = (x * (1 + torch.arange(channels).view(1, -1, *[1] * len(tail)) % 3)
         + 3).to(dtype)
    dy = torch.randn(full, generator=made, dtype=torch.float64).to(dtype)
    return x.split(batches), dy.split(batches)


def reference(steps, kind, channels, **options):
    """nn.BatchNorm in float64 on all ranks' batches: y, dx, and the module."""
    plain = kind(channels, **options).double()
    prepare(plain)
    results = []
    for x, dy in steps:
        whole = torch.cat(x).double().requires_grad_()
        y = plain(whole)
        y.backward(torch.cat(dy).double())
        sizes = [len(part) for part in x]
        results.append((y.detach().split(sizes), whole.grad.split(sizes)))
    return results, plain


def prepare(module):
    """Weights that are not all alike."""
    if module.affine:
        with torch.no_grad():
            module.weight.copy_(torch.linspace(0.5, 1.5, module.num_features))
            module.bias.copy_(torch.linspace(-1, 1, module.num_features))


def close(got, want, eps, kept_eps, factor=1.0):
    """Within the bound above; eps is of the result, kept_eps of statistics."""
    scale = max(float(want.abs().max()), 1.0) if want.numel() else 1.0
    bound = scale * factor * (eps + 300 * kept_eps)
    difference = (got.double() - want).abs()
    if difference.numel() and float(difference.max()) > bound:
        raise AssertionError(f"{float(difference.max())} is above {bound}")


def compare(rank, size, tail, dtype, options, layout):
    batches = [(3 * r + 4) % 7 if size > 1 else 5 for r in range(size)]
    batches[-1] = 0 if size > 2 else batches[-1]
    channels = 7
    steps = [inputs(batches, channels, tail, dtype, seed) for seed in range(3)]
    wanted, plain = reference(steps, PLAIN[1 + len(tail)], channels, **options)
    kept = torch.float64 if dtype == torch.float64 else torch.float32
    ours = SyncBatchNorm(channels, **options, dtype=kept)
    prepare(ours)
    before = None
    for (x, dy), (y_wanted, dx_wanted) in zip(steps, wanted):
        x = x[rank].contiguous(memory_format=layout).requires_grad_()
        y = ours(x)
        y.backward(dy[rank])
        if y.dtype != dtype or y.shape != x.shape or x.grad.dtype != dtype:
            raise AssertionError("another type or shape")
        close(y.detach(), y_wanted[rank], EPS[dtype], EPS[kept])
        close(x.grad, dx_wanted[rank], EPS[dtype], EPS[kept])
        before = y
    if ours.affine:
        for mine, theirs in ((ours.weight, plain.weight), (ours.bias, plain.bias)):
            total = mine.grad.double()
            dist.all_reduce(total)
            # 3 steps that are summed up in the type of the weights
            close(total, theirs.grad, 3 * EPS[kept], EPS[kept], 4)
    if ours.track_running_stats:
        close(ours.running_mean, plain.running_mean, EPS[kept], EPS[kept])
        close(ours.running_var, plain.running_var, EPS[kept], EPS[kept], 9)
        assert int(ours.num_batches_tracked) == 3
        alike([ours.running_mean, ours.running_var])
        ours.eval(), plain.eval()
        close(ours(x).detach(), plain(x.double()).detach(), EPS[dtype], EPS[kept])
    assert before is not None


def alike(tensors):
    """The same bits on every rank."""
    for tensor in tensors:
        all_of_them = [torch.empty_like(tensor)
                       for _ in range(dist.get_world_size())]
        dist.all_gather(all_of_them, tensor.detach())
        assert all(torch.equal(one, tensor) for one in all_of_them)


def large_means(rank, size):
    """Deviations of 1 about a mean of 4096: sums of squares in float32 would
    know nothing of them. A mean that has been rounded to float32 is off by
    d = 4100 * 2**-24; with means of ranks less than 1/2 apart the variance is by
    2 * d * 1/2."""
    x = torch.randn(200, 3, generator=torch.Generator().manual_seed(rank)) + 4096
    ours = SyncBatchNorm(3, momentum=1.0)
    ours(x)
    whole = torch.cat([
        torch.randn(200, 3, generator=torch.Generator().manual_seed(r)) + 4096
        for r in range(size)]).double()
    off = (ours.running_var.double() - whole.var(0)).abs() / whole.var(0)
    assert float(off.max()) < 4100 * 2.0 ** -24 + 1e-5, off


def gradient_check(rank, size):
    """The gradient of the sum of all ranks' losses, by differences."""
    class Together(torch.autograd.Function):
        """The sum over ranks, whose gradient every rank has already."""

        @staticmethod
        def forward(ctx, loss):
            loss = loss.clone()
            dist.all_reduce(loss)
            return loss

        @staticmethod
        def backward(ctx, grad):
            return grad

    made = torch.Generator().manual_seed(rank)
    x = torch.randn(rank + 2, 2, 3, generator=made, dtype=torch.float64)
    factor = torch.randn(x.shape, generator=made, dtype=torch.float64)
    ours = SyncBatchNorm(2, dtype=torch.float64)
    prepare(ours)

    def loss(x):
        return Together.apply((ours(x).sin() * factor).sum())

    x.requires_grad_()
    loss(x).backward()
    step = 1e-6
    with torch.no_grad():
        for who in range(size):
            values = torch.tensor([x.numel() if who == rank else 0])
            dist.broadcast(values, who)
            for i in range(int(values)):
                moved = [x.clone(), x.clone()]
                if who == rank:
                    moved[0].view(-1)[i] += step
                    moved[1].view(-1)[i] -= step
                slope = float(loss(moved[0]) - loss(moved[1])) / (2 * step)
                if who == rank:
                    found = float(x.grad.view(-1)[i])
                    assert abs(found - slope) < 1e-7 + 1e-6 * abs(slope), \
                        (found, slope)


def few(rank, size):
    """No rank hangs if there are too few values, and all go on."""
    ours = SyncBatchNorm(2)
    try:
        ours(torch.zeros(1 if rank == 0 else 0, 2))
        raise AssertionError("one value a channel was accepted")
    except ValueError as why:
        assert "more than one value" in str(why)
    ours(torch.randn(1, 2))


def in_ddp(rank, size):
    """A converted model under DDP is the plain one on the whole batch."""
    torch.manual_seed(1)
    plain = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(),
                          nn.Flatten(), nn.Linear(64, 5), nn.BatchNorm1d(5))
    ours = SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(plain)).double()
    plain.double()
    assert [type(m) for m in ours].count(SyncBatchNorm) == 2
    assert list(ours.state_dict()) == list(plain.state_dict())
    model = nn.parallel.DistributedDataParallel(ours)
    x, _ = inputs([2] * size, 2, (6, 6), torch.float64)
    for _ in range(2):
        y = model(x[rank])
        (y ** 3).mean().backward()
        (plain(torch.cat(x)) ** 3).mean().backward()
    for mine, theirs in zip(ours.parameters(), plain.parameters()):
        close(mine.grad, theirs.grad, 0, EPS[torch.float64], 4)
    for mine, theirs in zip(ours.buffers(), plain.buffers()):
        close(mine, theirs.double(), 0, EPS[torch.float64])


def compiled(rank, size):
    """torch.compile leaves it out of its graphs, and results are the same."""
    torch.manual_seed(0)
    ours = nn.Sequential(nn.Linear(3, 4), SyncBatchNorm(4))
    twin = copy.deepcopy(ours)
    x = torch.randn(6, 3, generator=torch.Generator().manual_seed(rank))
    y = torch.compile(ours, backend="eager")(x)
    y.sum().backward()
    want = twin(x)
    want.sum().backward()
    assert torch.equal(y, want)
    assert torch.equal(ours[0].weight.grad, twin[0].weight.grad)


class Tests(unittest.TestCase):
    backends = ranks.backends()

    def on_all(self, sizes, work, *args):
        for number, size in enumerate(sizes):
            backend = self.backends[number % len(self.backends)]
            with self.subTest(size=size, backend=backend, args=args):
                ranks.run(size, backend, work, *args)

    def test_shapes(self):
        for dimensions, tail in TAILS.items():
            self.on_all((2, 3), compare, tail, torch.float32, {},
                        torch.contiguous_format)
        self.on_all((1, 5, 8), compare, (4, 3), torch.float32, {},
                    torch.channels_last)

    def test_types(self):
        for dtype in (torch.float64, torch.bfloat16, torch.float16):
            self.on_all((3, 2), compare, (5,), dtype, {}, torch.contiguous_format)

    def test_options(self):
        for options in ({"momentum": None}, {"affine": False},
                        {"track_running_stats": False},
                        {"momentum": 0.3, "eps": 1e-3}):
            self.on_all((2, 3), compare, (), torch.float32, options,
                        torch.contiguous_format)

    def test_large_means(self):
        self.on_all((2, 3), large_means)

    def test_gradient(self):
        self.on_all((1, 2, 3), gradient_check)

    def test_too_few(self):
        self.on_all((2, 3), few)

    def test_ddp(self):
        self.on_all((2, 3), in_ddp)

    def test_compile(self):
        self.on_all((2,), compiled)

    def test_one_process(self):
        """Without a group it is nn.BatchNorm."""
        x = torch.randn(4, 3, 2)
        assert torch.equal(SyncBatchNorm(3)(x), nn.BatchNorm1d(3)(x))
        with self.assertRaisesRegex(ValueError, "of size 3"):
            SyncBatchNorm(3)(torch.zeros(4, 2))

    def test_convert(self):
        model = nn.Sequential(nn.BatchNorm1d(2, affine=False),
                              nn.Sequential(nn.BatchNorm3d(3, momentum=None)))
        weight = model[1][0].weight
        model.eval()
        new = SyncBatchNorm.convert_sync_batchnorm(model)
        assert new is model and isinstance(new[0], SyncBatchNorm)
        assert new[1][0].weight is weight and new[1][0].momentum is None
        assert not new[0].training and not new[0].affine
        assert isinstance(SyncBatchNorm.convert_sync_batchnorm(
            nn.BatchNorm1d(2)), SyncBatchNorm)


if __name__ == "__main__":
    unittest.main()
