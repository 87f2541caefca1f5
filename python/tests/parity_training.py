"""A small transformer trained for 30 steps: on Lockstep as it is on gloo.

By DDP, ZeroRedundancyOptimizer and FSDP2. On 2 ranks, where a sum has one
order, losses and weights equal gloo's bit for bit. On more they need not, and
how far apart they come is the model's doing; so each step's gradients are held
against those of the single ranks, summed in float64, within what rounding
explains. Weights have the same bits on all ranks.

    parity_training.py                       # on 2, 3 and 5 ranks
    parity_training.py --ranks 2 8 --steps 300
"""
import argparse
import sys
import tempfile
import warnings

import ranks
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel as DDP

WORDS, WIDTH, LENGTH, ROWS = 61, 36, 12, 4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.into, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 70), nn.Linear(70, WIDTH)

    def forward(self, x):
        q, k, v = self.into(self.before(x)).view(*x.shape[:2], 3, 4, -1).permute(
            2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(x.shape))
        return x + self.down(F.gelu(self.up(self.between(x))))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.words = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.last = nn.Linear(WIDTH, WORDS)

    def forward(self, x):
        x = self.words(x)
        for block in self.blocks:
            x = block(x)
        return self.last(x)


def loss_of(model, x):
    return F.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())


# ---- what trains: (what to call, the optimizer) of a network ----

def ddp(net):
    model = DDP(net, bucket_cap_mb=0.02, gradient_as_bucket_view=True)
    return model, torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)


def zero(net):
    model = DDP(net, bucket_cap_mb=0.02)
    return model, ZeroRedundancyOptimizer(net.parameters(), torch.optim.AdamW,
                                          lr=0.01)


def fsdp2(net):
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for part in [*net.blocks, net]:
        fully_shard(part, mesh=mesh)
    return net, torch.optim.AdamW(net.parameters(), lr=0.01)


WAYS = (ddp, zero, fsdp2) if ranks.HAS_FSDP2 else (ddp, zero)


def whole(tensor):
    """All of a tensor that may be sharded."""
    return (tensor.full_tensor() if hasattr(tensor, "full_tensor") else
            tensor).detach().clone()


# ---- gradients beside those of the single ranks ----

def own_gradients(weights, x):
    """Of this rank's batch alone, by a network that is not distributed."""
    net = Transformer()
    with torch.no_grad():
        for parameter, value in zip(net.parameters(), weights):
            parameter.copy_(value)
    loss_of(net, x).backward()
    return torch.cat([p.grad.reshape(-1) for p in net.parameters()])


def check_average(way, step, averaged, own, size):
    """Checks that it is the mean over the ranks, within rounding.

    Each of the `size` addends may be multiplied by a rounded 1/size before they
    are added. This makes size + 1 roundings, each of at most half an eps of a sum that the
    sum of magnitudes bounds.
    """
    every = [torch.empty_like(own) for _ in range(size)]
    dist.all_gather(every, own)
    exact = torch.stack(every).double()
    roundings = (size + 1) * torch.finfo(torch.float32).eps / 2
    bound = exact.abs().sum(0) / size * roundings / (1 - roundings)
    bound += size * 2.0 ** -149
    off = (averaged.double() - exact.mean(0)).abs()
    assert bool((off <= bound).all()), (
        f"{way.__name__}, step {step}: a gradient is {(off / bound).max():.2f} "
        f"times as far from the mean as rounding explains")


# ---- beside gloo ----

def train(way, rank, size, steps, checked):
    net = Transformer()
    model, optimizer = way(net)
    data = torch.Generator().manual_seed(100 + rank)
    losses = []
    for step in range(steps):
        x = torch.randint(WORDS, (ROWS, 1), generator=data)
        x = (x + torch.arange(LENGTH) * (rank + 2)) % WORDS
        if checked:
            own = own_gradients([whole(p) for p in net.parameters()], x)
        optimizer.zero_grad()
        loss = loss_of(model, x)
        loss.backward()
        if checked:
            averaged = torch.cat([whole(p.grad).reshape(-1)
                                  for p in net.parameters()])
            check_average(way, step, averaged, own, size)
        optimizer.step()
        losses.append(loss.detach())
    assert losses[-1] < losses[0], f"{way.__name__} learns nothing"
    return losses, [whole(p) for p in net.parameters()]


def work(rank, size, backend, steps, folder):
    warnings.simplefilter("ignore")
    theirs = []
    if dist.get_backend() != backend:
        theirs = [train(way, rank, size, steps, False) for way in WAYS]
        dist.destroy_process_group()
        dist.init_process_group(backend, init_method=f"file://{folder}/met",
                                rank=rank, world_size=size)
    ours = [train(way, rank, size, steps, not theirs) for way in WAYS]
    torch.save([weights for _, weights in ours], f"{folder}/{rank}")
    for way, (their_losses, their_weights), (losses, weights) in zip(
            WAYS, theirs, ours):
        for name, a, b in (("loss", their_losses, losses),
                           ("weights", their_weights, weights)):
            for i, (x, y) in enumerate(zip(a, b)):
                assert torch.equal(x, y), (
                    f"{way.__name__}: {name} {i} differs from gloo's by "
                    f"{(x - y).abs().max()}")


def check_alike(size, folder):
    every = [torch.load(f"{folder}/{rank}") for rank in range(size)]
    for rank in range(1, size):
        for way, first, other in zip(WAYS, every[0], every[rank]):
            for i, (x, y) in enumerate(zip(first, other)):
                assert torch.equal(x, y), (
                    f"{way.__name__}: weights {i} of rank {rank} differ from "
                    f"rank 0's by {(x - y).abs().max()}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 3, 5])
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--backend", default="lockstep")
    arguments = parser.parse_args()
    if arguments.backend not in ranks.backends():
        return 77
    ways = ", ".join(way.__name__ for way in WAYS)
    for size in arguments.ranks:
        beside = size <= 2 and "gloo" in ranks.backends()
        with tempfile.TemporaryDirectory() as folder:
            ranks.run(size, "gloo" if beside else arguments.backend, work,
                      arguments.backend, arguments.steps, folder)
            check_alike(size, folder)
        print(f"{size} ranks, {arguments.steps} steps of {ways}: the same weights "
              "on all, " + ("losses and weights as by gloo, bit for bit" if beside
                            else "gradients within rounding"), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
