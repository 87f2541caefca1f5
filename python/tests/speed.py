#!/usr/bin/env python3
"""Times of this backend and of gloo, in turn, in the same processes.

    python3 python/tests/speed.py

Prints Markdown: the median and the shortest time of rank 0 in milliseconds, and
how often as fast. Let nothing else run; where something does, the shortest times
say more.

--ranks N: the collectives only, on N ranks. --loops: the collectives, in
loops of one backend's calls and nothing between them, then of the other's. A
time is that of a loop, divided by its calls; the median is over nine loops.
With --start: the time to create a group. With --overhead: the time of a call from Python and from C++, and of the
same call in C (this compiles a file against PyTorch).
"""
import argparse
import ctypes
import json
import os
import statistics
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ranks
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

import lockstep_torch  # found by ranks

LOOPS = 9

# PyTorch keeps the last collectives of a process (TORCH_FR_BUFFER_SIZE), of any
# backend; until there are as many, a call is some 10 us slower.
KEPT = 2000

# On x, with a part of its size and another of the whole.
CALLS = {
    "all_reduce": lambda x, part, other, group: dist.all_reduce(x, group=group),
    "broadcast": lambda x, part, other, group: dist.broadcast(x, 0, group=group),
    "all_gather_into_tensor": lambda x, part, other, group:
        dist.all_gather_into_tensor(x, part, group=group),
    "reduce_scatter_tensor": lambda x, part, other, group:
        dist.reduce_scatter_tensor(part, x, group=group),
    "all_to_all_single": lambda x, part, other, group:
        dist.all_to_all_single(other, x, group=group),
}


def measure(functions, times):
    """Of each function, called in turn; the first fifth is not counted."""
    found = {name: [] for name in functions}
    for i in range(times + times // 4):
        for name, function in functions.items():
            dist.barrier()
            begin = time.perf_counter()
            function()
            if i >= times // 4:
                found[name].append(time.perf_counter() - begin)
    return {name: [seconds * 1e3 for seconds in t] for name, t in found.items()}


def measure_loops(functions, times):
    """As measure, of loops without anything between their calls."""
    found = {name: [] for name in functions}
    for i in range(LOOPS + 1):
        for name, function in functions.items():
            dist.barrier()
            begin = time.perf_counter()
            for _ in range(times):
                function()
            if i > 0:
                found[name].append((time.perf_counter() - begin) / times)
    return {name: [seconds * 1e3 for seconds in t] for name, t in found.items()}


def row(title, times, rows):
    """Prints the medians of rank 0, and keeps a summary of them in rows."""
    if dist.get_rank() != 0:
        return
    for name, ours in times.items():
        if name == "gloo":
            continue
        gloo = times["gloo"]
        ms, gloo_ms = statistics.median(ours), statistics.median(gloo)
        print(f"| {title}{name} | {gloo_ms:.3f} | {ms:.3f} | {gloo_ms / ms:.1f} "
              f"| {min(gloo):.3f} | {min(ours):.3f} | "
              f"{min(gloo) / min(ours):.1f} |", flush=True)
        rows.append({"what": title + name, "runs": len(ours),
                     "gloo_ms": summary(gloo), "lockstep_ms": summary(ours)})


def summary(times):
    """Quartiles and least of the times."""
    first, median, third = statistics.quantiles(times, n=4, method="inclusive")
    return {"min": min(times), "p25": first, "median": median, "p75": third}


def keep(rows, path):
    """Adds the rows to the file of --json."""
    if path and dist.get_rank() == 0:
        if os.path.getsize(path):
            with open(path, encoding="utf-8") as file:
                rows = json.load(file) + rows
        with open(path, "w", encoding="utf-8") as file:
            json.dump(rows, file)


def collectives(rank, size, measured, path):
    rows = []
    groups = {"gloo": dist.new_group(backend="gloo"), "": None}
    for _ in range(KEPT):
        dist.all_reduce(torch.ones(1))
    for what, call in CALLS.items():
        for bytes_, text in ((1 << 10, "1 KB"), (1 << 20, "1 MB"),
                             (10 << 20, "10 MB")):
            x, part, other = (torch.ones(bytes_ // 4 // size * parts)
                              for parts in (size, 1, size))
            row(f"{what} {text}", measured(
                {name: lambda group=group: call(x, part, other, group)
                 for name, group in groups.items()},
                200 if bytes_ < 1 << 20 else 40), rows)
    fresh(groups, measured, rows)
    keep(rows, path)


def fresh(groups, measured, rows):
    """An all-reduce of 10 MB whose memory no cache holds: of each call another tensor, and
    the two backends are half the tensors apart."""
    pool = [torch.ones(10 << 18) for _ in range(64)]

    def next_of(group):
        turn = 0 if group is None else len(pool) // 2

        def call():
            nonlocal turn
            turn += 1
            dist.all_reduce(pool[turn % len(pool)], group=group)
        return call

    row("all_reduce 10 MB, another tensor each time", measured(
        {name: next_of(group) for name, group in groups.items()}, 40), rows)


def net(width):
    torch.manual_seed(0)
    return nn.Sequential(*[layer for _ in range(4) for layer in
                           (nn.Linear(width, width), nn.ReLU())])


def training(rank, size, path):
    rows = []
    gloo = dist.new_group(backend="gloo")
    for width in (256, 1024):
        models = {name: DDP(net(width), process_group=group,
                            gradient_as_bucket_view=True)
                  for name, group in (("gloo", gloo), ("", None),
                                      (", shared buckets", None))}
        lockstep_torch.shared_buckets(models[", shared buckets"])
        x = torch.randn(16, width)

        def step(model):
            model.zero_grad()
            model(x).sum().backward()

        row(f"DDP, {4 * (width * width + width) / 1e6:.1f} M parameters", measure(
            {name: lambda model=model: step(model)
             for name, model in models.items()}, 32), rows)
    for channels, shape in ((128, (32, 128)), (64, (16, 64, 16, 16))):
        layers = {"gloo": lockstep_torch.SyncBatchNorm(channels,
                                                       process_group=gloo),
                  "": lockstep_torch.SyncBatchNorm(channels)}
        x = torch.randn(shape, requires_grad=True)
        row(f"SyncBatchNorm {shape}, both passes", measure(
            {name: lambda layer=layer: layer(x)[:1].sum().backward()
             for name, layer in layers.items()}, 100), rows)
    keep(rows, path)


def starts(rank, size):
    """Of groups, each of which meets at the store of the first."""
    store = dist.distributed_c10d._get_default_store()
    times = []
    for i in range(20):
        dist.barrier()
        begin = time.perf_counter()
        made = lockstep_torch.create(dist.PrefixStore(f"start/{i}", store), rank,
                                     size)
        times.append(time.perf_counter() - begin)
        made.shutdown()
    if rank == 0:
        print(f"a group of {size} is made in {statistics.median(times) * 1e3:.1f} "
              f"ms (median; {max(times) * 1e3:.1f} at most)", flush=True)


def built(folder):
    """overhead.cpp as a module."""
    from torch.utils import cpp_extension
    return cpp_extension.load(
        "lockstep_overhead", [os.path.join(ranks.HERE, "overhead.cpp")],
        build_directory=folder)


def overhead(rank, size, folder):
    import lockstep
    from lockstep import _library
    module = built(folder)
    x = torch.zeros(1 << 8)
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    store = dist.PrefixStore("in C", dist.distributed_c10d._get_default_store())
    found = {}
    with lockstep.Group.open("overhead", rank, size, store) as group:
        function = ctypes.cast(_library._library.ls_all_reduce, ctypes.c_void_p)
        in_c, in_cpp = module.measure(backend, function.value,
                                      group._core.opened.value, x, 20000)
        found["C: ls_all_reduce"] = in_c
        found["C++: Backend::allreduce, Work::wait"] = in_cpp
    dist.Backend.register_backend("nothing", module.nothing, devices=["cpu"])
    nothing = dist.new_group(backend="nothing")
    for name, group in (("Python: dist.all_reduce", None),
                        ("Python, of a backend that does nothing", nothing)):
        times = found[name] = []
        for _ in range(5000):
            begin = time.perf_counter()
            dist.all_reduce(x, group=group)
            times.append(time.perf_counter() - begin)
    if rank == 0:
        for name, times in found.items():
            print(f"| {name}, {size} rank{'s'[:size - 1]} "
                  f"| {statistics.median(times) * 1e6:.2f} "
                  f"| {min(times) * 1e6:.2f} |", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--loops", action="store_true")
    parser.add_argument("--start", action="store_true")
    parser.add_argument("--overhead", action="store_true")
    parser.add_argument("--json", metavar="FILE", help="also write the rows, with quartiles")
    asked = parser.parse_args()
    if asked.json:
        open(asked.json, "w", encoding="utf-8").close()
    print(f"PyTorch {torch.__version__}\n")
    if asked.start:
        ranks.run(asked.ranks, "lockstep", starts)
        return
    if asked.overhead:
        print("| all_reduce of 1 KB | median, us | shortest |")
        print("|" + "---|" * 3)
        with tempfile.TemporaryDirectory() as folder:
            built(folder)
            for size in (1, asked.ranks):
                ranks.run(size, "lockstep", overhead, folder, timeout=120)
        return
    print(f"| {asked.ranks} ranks, 1 thread each | gloo | lockstep | times "
          "| gloo, shortest | lockstep, shortest | times |")
    print("|" + "---|" * 7)
    ranks.run(asked.ranks, "lockstep", collectives,
              measure_loops if asked.loops else measure, asked.json, timeout=300)
    if asked.ranks == 2 and not asked.loops:
        ranks.run(2, "lockstep", training, asked.json, timeout=300)


if __name__ == "__main__":
    main()
