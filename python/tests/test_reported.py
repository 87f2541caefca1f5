#!/usr/bin/env python3
"""Bugs that were reported to PyTorch, as tests of the backend "lockstep".

    test_reported.py [--rounds 1000]
"""
import argparse
import os
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ranks
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from torch import nn

if "lockstep" not in ranks.backends():
    sys.exit(77)

ROUNDS = 1000


# ---- pytorch/pytorch#144657: a later step changed what async_save wrote ----

def save_and_step(rank, size, rounds, folder):
    """Each rank saves one weight, changes it at once, and loads what was saved.

    The save's thread has a separate group; gradients are summed meanwhile.
    """
    saving = dist.new_group(backend="lockstep")
    weight = torch.zeros(1000)
    for step in range(rounds):
        weight.fill_(step * size + rank)
        saved = checkpoint.async_save(
            {f"weight{rank}": weight}, checkpoint_id=os.path.join(folder, "saved"),
            process_group=saving)
        weight.add_(0.5)  # as an optimizer does
        gradient = torch.full((100,), float(rank + 1))
        dist.all_reduce(gradient)
        assert torch.equal(gradient, torch.full((100,), size * (size + 1) / 2))
        saved.result()
        read = {f"weight{rank}": torch.full((1000,), -1.0)}
        checkpoint.load(read, checkpoint_id=os.path.join(folder, "saved"),
                        process_group=saving)
        wanted = torch.full((1000,), float(step * size + rank))
        assert torch.equal(read[f"weight{rank}"], wanted), (step, read)
        dist.barrier()
        if rank == 0:
            shutil.rmtree(os.path.join(folder, "saved"))
        dist.barrier()


# ---- pytorch/pytorch#162338: the average of a reduce-scatter was the sum ----

def three_layers():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 3, bias=False), nn.ReLU(),
                         nn.Linear(3, 3, bias=False), nn.ReLU(),
                         nn.Linear(3, 2, bias=False))


def input_of(rank, step):
    generator = torch.Generator().manual_seed(1000 * step + rank)
    return torch.randn(5, 4, generator=generator)


def check_fully_sharded(rank, size, steps):
    """The gradients of FSDP2 are the averages of each rank's."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    plain, sharded = three_layers(), three_layers()
    mesh = init_device_mesh("cpu", (size,))
    for layer in sharded:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(sharded, mesh=mesh)
    for step in range(steps):
        plain.zero_grad()
        sharded.zero_grad()
        for r in range(size):
            (plain(input_of(r, step)).square().mean() / size).backward()
        sharded(input_of(rank, step)).square().mean().backward()
        for mine, other in zip(sharded.parameters(), plain.parameters()):
            # Both add `size` numbers; each rounds once for each, and once more.
            scale = float(other.grad.abs().max())
            torch.testing.assert_close(
                mine.grad.full_tensor(), other.grad, rtol=0,
                atol=(size + 8) * 2.0 ** -23 * max(scale, 1))


def averages(rank, size, rounds):
    check_fully_sharded(rank, size, min(rounds, 50))
    average = dist.ReduceOp.AVG
    for i in range(rounds):
        count = i * 7919 % 300 + 1
        # Multiples of the size, so that averages are exact whole numbers.
        every = [size * ((torch.arange(count * size) * (r + 1) + i) % 100).float()
                 for r in range(size)]
        wanted = sum(every) / size
        mine = wanted[rank * count:(rank + 1) * count]
        scattered = torch.zeros(count)
        dist.reduce_scatter_tensor(scattered, every[rank].clone(), op=average)
        assert torch.equal(scattered, mine), (i, scattered, mine)
        dist.reduce_scatter(scattered.zero_(),
                            list(every[rank].clone().chunk(size)), op=average)
        assert torch.equal(scattered, mine), (i, scattered, mine)
        whole = every[rank].clone()
        dist.all_reduce(whole, op=average)
        assert torch.equal(whole, wanted), (i, whole, wanted)
        whole = every[rank].clone()
        dist.reduce(whole, 0, op=average)
        assert rank != 0 or torch.equal(whole, wanted), (i, whole, wanted)


class Reported(unittest.TestCase):
    def test_pytorch_144657(self):
        with tempfile.TemporaryDirectory() as folder:
            ranks.run(2, "lockstep", save_and_step, ROUNDS, folder,
                      timeout=60 + ROUNDS)

    @unittest.skipUnless(ranks.HAS_FSDP2, "PyTorch 2.6 has no FSDP2 for CPUs")
    def test_pytorch_162338(self):
        for size in (2, 3):
            ranks.run(size, "lockstep", averages, ROUNDS, timeout=60 + ROUNDS)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    flags, rest = parser.parse_known_args()
    ROUNDS = flags.rounds
    unittest.main(argv=[sys.argv[0], *rest])
