#!/usr/bin/env python3
"""Trains a recommender with large embedding tables, like DLRM, on two CPU ranks.

    python3 recommend.py                        # starts two ranks itself
    python3 recommend.py --backend gloo         # PyTorch's backend, to compare
    lockstep run -n 4 -- python3 recommend.py   # or torchrun, or mpirun

The ratings are synthetic: users and items have hidden tastes. The
model gets the numbers of the user and the item, and some measurements. The
tables have sparse gradients, the other weights dense gradients. DDP averages both.
"""
import argparse
import os
import statistics
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

USERS, ITEMS, TASTES, MEASUREMENTS = 2000, 500, 4, 13


class Data:
    """Ratings of 0 and 1: batch number -> (users, items, measurements, rating)."""

    def __init__(self):
        made = torch.Generator().manual_seed(1)
        self.users = torch.randn(USERS, TASTES, generator=made)
        self.items = torch.randn(ITEMS, TASTES, generator=made)
        self.weights = torch.randn(MEASUREMENTS, generator=made) / 2

    def batch(self, number, size):
        made = torch.Generator().manual_seed(1000 + number)
        users = torch.randint(USERS, (size,), generator=made)
        items = torch.randint(ITEMS, (size,), generator=made)
        x = torch.randn(size, MEASUREMENTS, generator=made)
        score = 2 * (self.users[users] * self.items[items]).sum(1) \
            + x @ self.weights
        rating = torch.rand(size, generator=made) < torch.sigmoid(score)
        return users, items, x, rating.float()


class Recommender(nn.Module):
    """Two tables, a network for the measurements, and a network that combines them."""

    def __init__(self, width=32):
        super().__init__()
        self.users = nn.Embedding(USERS, width, sparse=True)
        self.items = nn.Embedding(ITEMS, width, sparse=True)
        self.bottom = nn.Sequential(nn.Linear(MEASUREMENTS, 128), nn.ReLU(),
                                    nn.Linear(128, width))
        self.top = nn.Sequential(nn.Linear(3 * width + 3, 256), nn.ReLU(),
                                 nn.Linear(256, 1))
        for table in (self.users, self.items):
            nn.init.normal_(table.weight, std=0.2)

    def forward(self, users, items, x):
        parts = [self.users(users), self.items(items), self.bottom(x)]
        products = [(parts[i] * parts[j]).sum(1, keepdim=True)
                    for i, j in ((0, 1), (0, 2), (1, 2))]
        return (self.top(torch.cat(parts + products, 1)) + products[0]).squeeze(1)


def train(arguments, **where):
    dist.init_process_group(arguments.backend, **where)
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    data, net = Data(), Recommender()
    model = DistributedDataParallel(net)
    tables = [net.users.weight, net.items.weight]
    others = [*net.bottom.parameters(), *net.top.parameters()]
    optimizers = (torch.optim.SparseAdam(tables, lr=0.01),
                  torch.optim.Adam(others, lr=0.002))
    loss_of = nn.BCEWithLogitsLoss()
    times, losses = [], []
    for step in range(arguments.steps):
        users, items, x, rating = data.batch(step * size + rank, arguments.batch)
        begin = time.perf_counter()
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss = loss_of(model(users, items, x), rating)
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        times.append(time.perf_counter() - begin)
        losses.append(loss.detach())
        if (step + 1) % arguments.report == 0:
            report(arguments, step + 1, losses, times)
            losses, times = [], []
    dist.destroy_process_group()


def report(arguments, step, losses, times):
    """Print the mean loss over all ranks, and rank 0's median time per step."""
    mean = torch.stack(losses).mean()
    dist.all_reduce(mean)
    if dist.get_rank() == 0:
        print(f"{arguments.backend}: step {step:5}  "
              f"loss {mean / dist.get_world_size():.4f}  "
              f"{1e3 * statistics.median(times):.2f} ms/step", flush=True)


def start(rank, arguments, folder):
    """Run one rank without a launcher. The ranks connect through a file."""
    if arguments.backend == "lockstep":
        import lockstep_torch  # noqa: F401  (PyTorch 2.15 needs no import)
    torch.set_num_threads(1)
    store = dist.FileStore(os.path.join(folder, "store"), arguments.ranks)
    train(arguments, store=store, rank=rank, world_size=arguments.ranks)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--backend", default="lockstep",
                        help="backend of torch.distributed (default: %(default)s)")
    parser.add_argument("--ranks", type=int, default=2,
                        help="ranks to start (default: %(default)s; ignored under a launcher)")
    parser.add_argument("--steps", type=int, default=600,
                        help="training steps (default: %(default)s)")
    parser.add_argument("--batch", type=int, default=512,
                        help="samples per step on each rank (default: %(default)s)")
    parser.add_argument("--report", type=int, default=100,
                        help="steps between two reports (default: %(default)s)")
    arguments = parser.parse_args()
    if "RANK" in os.environ:
        if arguments.backend == "lockstep":
            import lockstep_torch  # noqa: F401  (PyTorch 2.15 needs no import)
        train(arguments)
        return
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(start, (arguments, folder), arguments.ranks)


if __name__ == "__main__":
    main()
