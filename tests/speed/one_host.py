#!/usr/bin/env python3
"""Every collective on this host, compared with Open MPI's.

    LOCKSTEP=build/dev/bin/lockstep \\
    MPI_COLLECTIVES=build/dev/tests/speed/mpi_collectives tests/speed/one_host.py

Both run in turn, for --rounds rounds. Of each the table has the least of the rounds'
medians and of their 99th percentiles, of the slowest rank's time, in
microseconds; and ours over theirs, which should be 1 at most: the median of
the rounds, because what follows each other meets the same machine. Buffers are
private, results out of place or in place; and from ls_shared_alloc, which MPI's
collectives know nothing of: there its time is that for private memory. A barrier
has no buffers.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys

BUILD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../build/dev")
LOCKSTEP = os.environ.get("LOCKSTEP", f"{BUILD}/bin/lockstep")
PEER = os.environ.get("MPI_COLLECTIVES", f"{BUILD}/tests/speed/mpi_collectives")
SKIPPED = 77
OPERATIONS = ("all-reduce", "reduce", "reduce-scatter", "broadcast",
              "all-gather", "all-to-all", "barrier")
MPIRUN = ("mpirun.openmpi", "--oversubscribe", "--allow-run-as-root")


def output(words, **environment):
    """Standard output of a program, with these variables in its environment."""
    done = subprocess.run(words, stdin=subprocess.DEVNULL, timeout=600,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, check=False, env={**os.environ, **environment})
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}: {done.returncode}\n{done.stderr}")
    return done.stdout


def time_lockstep(operation, ranks, size, runs, buffers):
    """(median, 99th percentile) by place."""
    words = [LOCKSTEP, "bench", operation, "-n", str(ranks), "--iterations",
             str(runs), "--warmup", str(runs // 10 + 5), "--json"]
    if operation != "barrier":
        words += ["--sizes", str(size), "--buffers", buffers]
    rows = json.loads(output(words))["rows"]
    return {"in" if row["in_place"] else "out":
            (row["time_us"]["median"], row["time_us"]["p99"]) for row in rows}


def time_peer(operation, ranks, size, runs):
    text = output([*MPIRUN, "-n", str(ranks), PEER, operation, str(size),
                   str(runs)])
    rows = (line.split() for line in text.splitlines())
    return {place: (float(median), float(p99)) for place, median, p99 in rows}


def runs_for(size):
    return 2000 if size <= 10000 else 300 if size <= 1000000 else \
        20 if size <= 10000000 else 5


class Table:
    def __init__(self):
        self.rows, self.over = 0, []
        print("| operation | ranks | bytes | buffers | place | p50 | Open MPI"
              " | ratio | p99 | Open MPI | ratio |")
        print("| --------- | ----: | ----: | ------- | ----- | --: | -------:"
              " | ----: | --: | -------: | ----: |")

    def add(self, what, place, rounds):
        """Rounds of (ours, theirs), each of which is (p50, p99)."""
        operation, ranks, size, buffers = what
        ours, theirs = ([min(times) for times in zip(*pairs)]
                        for pairs in zip(*rounds))
        ratios = [statistics.median(a[i] / b[i] for a, b in rounds)
                  for i in (0, 1)]
        self.rows += 1
        if ratios[0] > 1:
            self.over.append(f"{operation} -n {ranks} {size} {buffers} {place}"
                             f" {ratios[0]:.2f}")
        print(f"| {operation} | {ranks} | {size} | {buffers} | {place} |"
              f" {ours[0]:.2f} | {theirs[0]:.2f} | {ratios[0]:.2f} |"
              f" {ours[1]:.2f} | {theirs[1]:.2f} | {ratios[1]:.2f} |",
              flush=True)

    def end(self):
        print(f"\n{len(self.over)} of {self.rows} medians are over Open MPI's")
        for row in self.over:
            print(f"  {row}")


def compare(table, operation, ranks, size, flags):
    runs = flags.runs or runs_for(size)
    kinds = flags.buffers if operation != "barrier" else ["private"]
    rounds = {}
    for _ in range(flags.rounds):
        theirs = time_peer(operation, ranks, size, runs)
        for kind in kinds:
            ours = time_lockstep(operation, ranks, size, runs, kind)
            for place, pair in ours.items():
                rounds.setdefault((kind, place), []).append(
                    (pair, theirs[place]))
    for (kind, place), times in rounds.items():
        table.add((operation, ranks, size, kind), place, times)


def words(text):
    return text.split(",")


def numbers(text):
    return [int(word) for word in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--operations", type=words, default=OPERATIONS)
    parser.add_argument("--ranks", type=numbers, default=[2, 4])
    parser.add_argument("--sizes", type=numbers,
                        default=[1000, 100000, 10000000])
    parser.add_argument("--buffers", type=words, default=["private", "shared"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int,
                        help="of each round; default: by the size")
    flags = parser.parse_args()
    if shutil.which(MPIRUN[0]) is None:
        print(f"{MPIRUN[0]} is not installed")
        sys.exit(SKIPPED)
    table = Table()
    for ranks in flags.ranks:
        for operation in flags.operations:
            sizes = flags.sizes if operation != "barrier" else [0]
            for size in sizes:
                compare(table, operation, ranks, size, flags)
    table.end()


if __name__ == "__main__":
    main()
