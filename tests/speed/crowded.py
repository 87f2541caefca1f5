#!/usr/bin/env python3
"""Collectives compared with gloo's on a machine with more work than cores.

    LOCKSTEP_COMM_LIBRARY=build/dev/lib/liblockstep-comm.so \\
    python3 tests/speed/crowded.py --load 20

Starts --load loops that never wait. Then one set of processes times
PyTorch's gloo and Lockstep in turn: a block of calls of the one, a block of the
other, again and again. Private buffers, in place where the operation has that.
Times are those of the slowest rank, in microseconds: of all calls the median,
the 90th percentile and the mean, and ours over theirs, which should be 1 at
most. `switches` are the times that a rank gave up or lost its CPU, a call.
--load 0 is the same on a quiet machine.

Skipped (77) without PyTorch or NumPy.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

SKIPPED = 77
OPERATIONS = ("all-reduce", "broadcast", "all-gather", "reduce-scatter",
              "all-to-all", "barrier")
PACKAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                       "../../python/lockstep/src")


def modules():
    """(numpy, torch.distributed, torch, lockstep), or None."""
    try:
        import numpy
        import torch
        import torch.distributed
    except ImportError:
        return None
    sys.path.insert(0, PACKAGE)
    import lockstep
    return numpy, torch, torch.distributed, lockstep


# ---- a rank -----------------------------------------------------------------

def calls_of(operation, size, group, loaded):
    """(gloo's, ours), and the tensors that they use; `size` bytes of floats."""
    _, torch, dist, _ = loaded
    ranks = group.size
    count = max(size // 4 // ranks * ranks, ranks)
    whole = torch.ones(count)
    part = torch.ones(count // ranks)
    other = torch.ones(count)
    array, piece, second = (t.numpy() for t in (whole, part, other))
    rows = array.reshape(ranks, -1)
    more = second.reshape(ranks, -1)
    return {
        "all-reduce": (lambda: dist.all_reduce(whole),
                       lambda: group.allreduce(array, out=array)),
        "broadcast": (lambda: dist.broadcast(whole, 0),
                      lambda: group.bcast(array, 0)),
        "all-gather": (lambda: dist.all_gather_into_tensor(whole, part),
                       lambda: group.allgather(piece, out=rows)),
        "reduce-scatter": (lambda: dist.reduce_scatter_tensor(part, whole),
                           lambda: group.reduce_scatter(rows, out=piece)),
        "all-to-all": (lambda: dist.all_to_all_single(other, whole),
                       lambda: group.alltoall(rows, out=more)),
        "barrier": (dist.barrier, group.barrier),
    }[operation], (whole, part, other)


def switches():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_nvcsw + usage.ru_nivcsw


def block(call, buffers, runs):
    """Times of each call; times that the process was switched out."""
    for buffer in buffers:
        buffer.fill_(1.0)
    times, before = [], switches()
    for _ in range(runs):
        begin = time.perf_counter()
        call()
        times.append((time.perf_counter() - begin) * 1e6)
    return times, switches() - before


def measure(operation, size, flags, group, loaded):
    """Of each rank the same number of rounds: who begins late stops them all."""
    numpy = loaded[0]
    calls, buffers = calls_of(operation, size, group, loaded)
    results = ([], [])
    switched = [0, 0]
    end = time.perf_counter() + flags.seconds
    rounds = 0
    while True:
        for which in (0, 1):
            times, away = block(calls[which], buffers, flags.runs)
            results[which].extend(times)
            switched[which] += away
        rounds += 1
        more = rounds < flags.rounds and time.perf_counter() < end
        if group.allreduce(int(more), "min") == 0:
            break
    slowest = [group.allreduce(numpy.array(times), "max") for times in results]
    calls_made = rounds * flags.runs
    away = group.allreduce(numpy.array(switched, numpy.float64), "avg")
    return [{"median": float(numpy.median(times)),
             "p90": float(numpy.percentile(times, 90)),
             "mean": float(times.mean()),
             "switches": float(gone) / calls_made, "calls": calls_made}
            for times, gone in zip(slowest, away)]


def check(group, loaded):
    numpy, torch, dist, _ = loaded
    ours = numpy.arange(1001, dtype=numpy.float32) + group.rank
    theirs = torch.from_numpy(ours.copy())
    dist.all_reduce(theirs)
    if not (group.allreduce(ours) == theirs.numpy()).all():
        sys.exit("the sums differ")


def rank_main(flags):
    loaded = modules()
    _, torch, dist, lockstep = loaded
    torch.set_num_threads(1)
    rank, size = flags.rank, flags.ranks[0]
    dist.init_process_group("gloo", rank=rank, world_size=size,
                            store=dist.FileStore(flags.meet + "/store", size))
    with lockstep.Group.open(flags.meet, rank, size, timeout=120) as group:
        check(group, loaded)
        for operation in flags.operations:
            for bytes_ in flags.sizes if operation != "barrier" else [0]:
                rows = measure(operation, bytes_, flags, group, loaded)
                if rank == 0:
                    print(json.dumps([operation, bytes_, *rows]), flush=True)
    dist.barrier()
    dist.destroy_process_group()


# ---- all of them ------------------------------------------------------------

HEAD = ("operation", "ranks", "bytes", "calls", "p50", "gloo", "ratio", "p90",
        "gloo", "ratio", "mean", "gloo", "ratio", "switches", "gloo")


class Table:
    def __init__(self):
        self.rows, self.over = 0, []
        print("| " + " | ".join(HEAD) + " |")
        print("|" + " --- |" * len(HEAD), flush=True)

    def add(self, ranks, operation, size, theirs, ours):
        cells = [operation, ranks, size, ours["calls"]]
        for what in ("median", "p90", "mean"):
            ratio = ours[what] / theirs[what]
            cells += [f"{ours[what]:.1f}", f"{theirs[what]:.1f}", f"{ratio:.2f}"]
            if ratio > 1:
                self.over.append(f"{operation} of {size} bytes, {ranks} ranks: "
                                 f"{what} {ratio:.2f}")
        cells += [f"{ours['switches']:.1f}", f"{theirs['switches']:.1f}"]
        self.rows += 1
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)

    def end(self):
        print(f"\n{self.rows} rows, {len(self.over)} figures over gloo's")
        for line in self.over:
            print(f"  {line}")


def run_ranks(ranks, flags, table):
    environment = {"USE_LIBUV": "0", "GLOO_SOCKET_IFNAME": "lo",
                   "OMP_NUM_THREADS": "1", **os.environ}
    with tempfile.TemporaryDirectory() as meet:
        words = [sys.executable, os.path.abspath(__file__), "--meet", meet,
                 "--ranks", str(ranks), "--sizes",
                 ",".join(map(str, flags.sizes)), "--operations",
                 ",".join(flags.operations), "--rounds", str(flags.rounds),
                 "--runs", str(flags.runs), "--seconds", str(flags.seconds)]
        started = [subprocess.Popen(
            [*words, "--rank", str(r)], env=environment, text=True,
            stdout=subprocess.PIPE if r == 0 else None) for r in range(ranks)]
        for line in started[0].stdout:
            table.add(ranks, *json.loads(line))
        if any([process.wait() for process in started]):
            sys.exit("a rank has failed")


def words_of(text):
    return text.split(",")


def numbers_of(text):
    return [int(word) for word in text.split(",")]


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--load", type=int, default=20)
    parser.add_argument("--operations", type=words_of, default=["all-reduce"],
                        help=", ".join(OPERATIONS))
    parser.add_argument("--ranks", type=numbers_of, default=[2, 4])
    parser.add_argument("--sizes", type=numbers_of,
                        default=[1000, 100000, 1000000, 10000000])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--runs", type=int, default=5, help="of a block")
    parser.add_argument("--seconds", type=float, default=15,
                        help="at most for a row")
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--meet", help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    flags = parse()
    if flags.rank is not None:
        rank_main(flags)
        return
    if modules() is None:
        print("PyTorch or NumPy is not installed")
        sys.exit(SKIPPED)
    load = [subprocess.Popen(["sh", "-c", "while :; do :; done"])
            for _ in range(flags.load)]
    try:
        table = Table()
        for ranks in flags.ranks:
            run_ranks(ranks, flags, table)
        table.end()
    finally:
        for process in load:
            process.kill()
        for process in load:
            process.wait()


if __name__ == "__main__":
    main()
