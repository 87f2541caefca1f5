#!/usr/bin/env python3
"""Records what other programs take on this machine, for `lockstep report --peers`
(docs/how-to/report.md): PyTorch over gloo and, where mpicc and mpirun are, Open MPI.

    python tests/speed/peers.py --out peers.json

Needs PyTorch. Let nothing else run meanwhile; it takes some minutes."""
import argparse
import datetime
import json
import os
import platform
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn import functional as F

NAME = f"PyTorch {torch.__version__.split('+')[0]}"
SIZES = (1000, 10000, 100000, 1000000, 10000000, 100000000)
WARM_STEPS = 2

MPI = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
static int order(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
int main(int argc, char **argv)
{
    enum { RUNS = 15, WARMUP = 5 };
    int rank, size;
    double times[RUNS];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 1; i < argc; i++) {
        const int n = atoi(argv[i]) / 4;
        float *in = calloc((size_t)n, 4), *out = calloc((size_t)n, 4);
        for (int run = -WARMUP; run < RUNS; run++) {
            MPI_Barrier(MPI_COMM_WORLD);
            const double begin = MPI_Wtime();
            MPI_Allreduce(in, out, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
            double mine = MPI_Wtime() - begin, most;
            MPI_Reduce(&mine, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
            if (run >= 0)
                times[run] = most;
        }
        qsort(times, RUNS, sizeof(*times), order);
        if (rank == 0)
            printf("%d %.9g\n", n * 4, times[RUNS / 2] * 1e3);
        free(in);
        free(out);
    }
    MPI_Finalize();
    return 0;
}
"""


def timed(runs, work, ranks=1):
    """Milliseconds: the median over runs of the slowest rank's time."""
    times = []
    for _ in range(runs):
        if ranks > 1:
            dist.barrier()
        begin = time.perf_counter()
        work()
        times.append((time.perf_counter() - begin) * 1e3)
    if ranks > 1:
        slowest = torch.tensor(times)
        dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
        times = slowest.tolist()
    return statistics.median(times)


class Normalise(torch.autograd.Function):
    """Batch normalisation over all ranks, one all-reduce each way."""

    @staticmethod
    def forward(ctx, x):
        n, c = x.shape
        sums = torch.cat([x.sum(0), (x * x).sum(0), x.new_tensor([n])])
        dist.all_reduce(sums)
        mean = sums[:c] / sums[-1]
        scale = torch.rsqrt(sums[c:2 * c] / sums[-1] - mean * mean + 1e-5)
        y = (x - mean) * scale
        ctx.save_for_backward(y, scale, sums[-1])
        return y

    @staticmethod
    def backward(ctx, grad):
        y, scale, n = ctx.saved_tensors
        c = y.shape[1]
        sums = torch.cat([grad.sum(0), (grad * y).sum(0)])
        dist.all_reduce(sums)
        return (grad - (sums[:c] + y * sums[c:]) / n) * scale


def rank_main(rank, ranks, port, out, runs):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
                      GLOO_SOCKET_IFNAME="lo")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    rows = []
    for size in SIZES:
        x = torch.ones(size // 4)
        timed(3, lambda: dist.all_reduce(x), ranks)
        rows.append({"what": "all-reduce", "peer": NAME + " gloo", "ranks": ranks,
                     "bytes": size, "time_ms": timed(runs, lambda: dist.all_reduce(x), ranks)})
    for features in (128, 256, 512, 1024):
        for batch in (32, 64):
            x = torch.randn(batch, features, requires_grad=True)

            def step():
                Normalise.apply(x)[:batch // 2].sum().backward()
            timed(3, step, ranks)
            rows.append({"what": "sync-batch-norm", "peer": NAME + " gloo, custom",
                         "ranks": ranks, "features": features, "batch": batch,
                         "time_ms": timed(5 * runs, step, ranks)})
    if rank == 0:
        with open(out, "w", encoding="utf-8") as file:
            json.dump(rows, file)
    dist.destroy_process_group()


def gloo(runs):
    with tempfile.NamedTemporaryFile("r", suffix=".json") as file:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        mp.spawn(rank_main, args=(2, port, file.name, runs), nprocs=2)
        return json.load(file)


def attention(threads):
    torch.set_num_threads(threads)
    rows = []
    for length in (256, 512, 1024, 2048):
        q, k, v = (torch.randn(8, 1, length, 64) for _ in range(3))

        def forward():
            with torch.no_grad():
                F.scaled_dot_product_attention(q, k, v)
        timed(2, forward)
        rows.append({"what": "attention", "peer": NAME + " sdpa", "threads": threads,
                     "length": length, "forward_ms": timed(7, forward)})
    return rows


def attention_passes(length, dtype, runs):
    """Medians of forward and of backward, in milliseconds: 8 sequences, one head of 64."""
    q, k, v = (torch.randn(8, 1, length, 64, dtype=dtype, requires_grad=True)
               for _ in range(3))
    grad = torch.randn(8, 1, length, 64, dtype=dtype)
    times = []
    for _ in range(runs + 2):
        begin = time.perf_counter()
        y = F.scaled_dot_product_attention(q, k, v)
        middle = time.perf_counter()
        y.backward(grad)
        end = time.perf_counter()
        times.append(((middle - begin) * 1e3, (end - middle) * 1e3))
    return [statistics.median(column) for column in zip(*times[2:])]


def memory_bandwidth(runs):
    """GB/s of a sum of two arrays into a third, 512 MiB each: what is read and written."""
    a, b, c = (torch.ones(128 << 20) for _ in range(3))
    timed(2, lambda: torch.add(a, b, out=c))
    times = []
    for _ in range(runs):
        begin = time.perf_counter()
        torch.add(a, b, out=c)
        times.append(time.perf_counter() - begin)
    return [3 * a.numel() * 4 / seconds / 1e9 for seconds in times]


class Block(nn.Module):
    def __init__(self, d, inner, heads):
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.RMSNorm(d), nn.RMSNorm(d)
        self.qkv, self.out = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)
        self.gate = nn.Linear(d, inner, bias=False)
        self.up = nn.Linear(d, inner, bias=False)
        self.down = nn.Linear(inner, d, bias=False)

    def forward(self, x):
        batch, length, d = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2)
                   for part in self.qkv(self.before(x)).chunk(3, -1))
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, d))
        y = self.between(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def training_steps(size, threads, steps, dtype="f32", compiled=False):
    """Milliseconds of forward, backward, optimizer and all of each step, of a model as
    `lockstep bench lm` has it, without the rotation of positions."""
    d, inner, layers, heads = {"tiny": (256, 1024, 4, 4),
                               "small": (768, 3072, 12, 12)}[size]
    torch.set_num_threads(threads)
    model = nn.Sequential(nn.Embedding(10000, d),
                          *(Block(d, inner, heads) for _ in range(layers)),
                          nn.RMSNorm(d), nn.Linear(d, 10000, bias=False))
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    called = torch.compile(model) if compiled else model
    tokens, targets = torch.randint(0, 10000, (2, 4, 128))
    times = []
    for _ in range(WARM_STEPS + steps):
        marks = [time.perf_counter()]
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == "bf16"):
            loss = F.cross_entropy(called(tokens).flatten(0, 1).float(), targets.flatten())
        marks.append(time.perf_counter())
        loss.backward()
        marks.append(time.perf_counter())
        optimizer.step()
        optimizer.zero_grad()
        marks.append(time.perf_counter())
        times.append([(b - a) * 1e3 for a, b in zip(marks, marks[1:])] +
                     [(marks[-1] - marks[0]) * 1e3])
    return times[WARM_STEPS:]


def language_model(size, threads, steps):
    forward, backward, _, step = (
        statistics.median(column)
        for column in zip(*training_steps(size, threads, steps)))
    return {"what": "lm", "peer": NAME, "size": size, "dtype": "f32", "threads": threads,
            "forward_ms": forward, "backward_ms": backward, "step_ms": step}


def open_mpi():
    if not (shutil.which("mpicc.openmpi") and shutil.which("mpirun.openmpi")):
        print("peers: without Open MPI, whose mpicc and mpirun are not there",
              file=sys.stderr)
        return []
    with tempfile.TemporaryDirectory() as folder:
        source, program = os.path.join(folder, "all.c"), os.path.join(folder, "all")
        with open(source, "w", encoding="utf-8") as file:
            file.write(MPI)
        subprocess.run(["mpicc.openmpi", "-O2", source, "-o", program], check=True)
        done = subprocess.run(
            ["mpirun.openmpi", "--oversubscribe", "--allow-run-as-root", "-n", "2", program,
             *map(str, SIZES)], check=True, stdout=subprocess.PIPE, text=True)
    return [{"what": "all-reduce", "peer": "Open MPI", "ranks": 2, "bytes": int(size),
             "time_ms": float(ms)}
            for size, ms in map(str.split, done.stdout.splitlines())]


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor()


def print_one(args):
    """One measurement in this process, as results.py asks for it."""
    torch.set_num_threads(args.threads)
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[args.dtype]
    if args.print == "version":
        found = torch.__version__.split("+")[0]
    elif args.print == "memory":
        found = memory_bandwidth(args.runs)
    elif args.print == "attention":
        found = attention_passes(args.length, dtype, args.runs)
    else:
        found = [step for *_, step in training_steps(args.size[0], args.threads, args.runs,
                                                     args.dtype, args.compile)]
    print(json.dumps(found))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--out", help="the file to write")
    what.add_argument("--print", choices=["lm", "attention", "memory", "version"],
                      help="measure one thing, and print milliseconds (of memory: GB/s) as JSON")
    parser.add_argument("--threads", type=int, default=os.cpu_count(),
                        help="of the models that one process trains")
    parser.add_argument("--size", nargs="*", default=["tiny", "small"],
                        choices=["tiny", "small"], help="of the language models")
    parser.add_argument("--runs", type=int, default=10, help="of each collective")
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32", help="of --print")
    parser.add_argument("--length", type=int, default=512, help="of --print attention")
    parser.add_argument("--compile", action="store_true", help="of --print lm: torch.compile")
    args = parser.parse_args()
    if args.print:
        print_one(args)
        return
    rows = gloo(args.runs) + open_mpi() + attention(args.threads)
    rows += [language_model(size, args.threads, 3) for size in args.size]
    with open(args.out, "w", encoding="utf-8") as file:
        json.dump({"recorded": datetime.datetime.now(datetime.timezone.utc)
                   .strftime("%Y-%m-%d %H:%M UTC"),
                   "machine": processor(), "rows": rows}, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
