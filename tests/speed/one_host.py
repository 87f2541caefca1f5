#!/usr/bin/env python3
"""Every collective on this host, compared with Open MPI's.

    lockstep tune            # for --tuned
    LOCKSTEP=build/dev/bin/lockstep \\
    MPI_COLLECTIVES=build/dev/tests/speed/mpi_collectives \\
    tests/speed/one_host.py --tuned --json=FILE

It runs all sides in turn, for --rounds rounds: Lockstep with its built-in selection
table, with --tuned also with the table of `lockstep tune`, and each Open MPI. A peer is
MPIRUN=PROGRAM, where PROGRAM is mpi_collectives.c, compiled by the mpicc of that Open
MPI; --peer can be given several times.

The time of a run is that of its slowest rank. A sample is the median, or the 99th
percentile, of the runs of a process. The table has the median of the rounds, in
microseconds, and the median of the rounds' ratios, because what follows each other
meets the same machine. The last lines list the ratios over the goals: 1.3 for the
built-in table, 1.05 for the tuned one.

A hypervisor may move a virtual machine between CPUs that share a cache and CPUs that
do not. So with a CPU for each rank, a barrier is timed before and after each process.
A round in which these times differ by more than MOVED is measured again, at most
--rounds times in all; if there are still too few rounds, such rounds count, too.

Buffers are private; shared (ls_shared_alloc), which MPI's collectives know nothing of:
there its time is that for private memory; or fresh, newly mapped and written before each
run. Results are out of place or in place. A barrier has no buffers.

--json writes what docs/results/many-cores.md describes.
"""

import argparse
import datetime
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
BLOCKS = ("reduce-scatter", "all-gather", "all-to-all") # one for each rank
SIZES = (8, 64, 1000, 65536, 100000, 1000000, 10000000, 100000000)
# Other buffers are measured for these.
FEW_OPERATIONS, FEW_SIZES = ("all-reduce", "all-gather", "broadcast"), (1000, 100000, 10000000)
MPIRUN = "mpirun.openmpi"
BUILT_IN, TUNED = "Lockstep", "Lockstep, tuned"
GOALS = {BUILT_IN: 1.3, TUNED: 1.05}
TABLES = {BUILT_IN: "off", TUNED: "on"} # LOCKSTEP_TUNE
MOVED = 1.4


def output(words, **environment):
    """Standard output of a program, with these variables in its environment."""
    done = subprocess.run(words, stdin=subprocess.DEVNULL, timeout=600,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, check=False, env={**os.environ, **environment})
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}: {done.returncode}\n{done.stderr}")
    return done.stdout


def runs_for(size):
    return 2000 if size <= 10000 else 300 if size <= 1000000 else \
        20 if size <= 10000000 else 5


def time_lockstep(operation, ranks, sizes, runs, buffers="private", side=BUILT_IN):
    """(median, 99th percentile, algorithm) by size and place; `runs` of each size."""
    words = [LOCKSTEP, "bench", operation, "-n", str(ranks), "--iterations",
             str(runs), "--warmup", str(runs // 10 + 5), "--json"]
    if operation != "barrier":
        words += ["--sizes", ",".join(map(str, sizes)), "--buffers", buffers]
    rows = json.loads(output(words, LOCKSTEP_TUNE=TABLES[side]))["rows"]
    times = {}
    for i, row in enumerate(rows): # bytes are those of whole elements
        size = sizes[i * len(sizes) // len(rows)]
        times[size, "in" if row["in_place"] else "out"] = (
            row["time_us"]["median"], row["time_us"]["p99"], row["algorithm"])
    return times


def time_peer(operation, ranks, sizes, runs, fresh=False, peer=(MPIRUN, PEER)):
    """(median, 99th percentile, None) by size and place; runs[i] of sizes[i]."""
    mpirun, program = peer
    # Open MPI 5 yields to other processes wherever the flag is given.
    crowded = ["--oversubscribe"] if ranks > len(os.sched_getaffinity(0)) else []
    text = output([mpirun, *crowded, "--allow-run-as-root", "-n", str(ranks), program,
                   operation, "fresh" if fresh else "kept",
                   *(f"{size}:{n}" for size, n in zip(sizes, runs))])
    rows = (line.split() for line in text.splitlines())
    return {(int(size), place): (float(median), float(p99), None)
            for size, place, median, p99 in rows}


def peer_name(mpirun):
    """ "Open MPI 4.1.4" """
    words = output([mpirun, "--version"]).split()
    return "Open MPI " + next(word for word in words if word[0].isdigit())


def side_times(side, case, peers, runs):
    operation, ranks, buffers, sizes = case
    if side in peers:
        return time_peer(operation, ranks, sizes, [runs or runs_for(size) for size in sizes],
                         buffers == "fresh", peers[side])
    times = {}
    counts = {runs or runs_for(size) for size in sizes}
    for count in counts:
        some = [size for size in sizes if (runs or runs_for(size)) == count]
        times.update(time_lockstep(operation, ranks, some, count, buffers, side))
    return times


def hand_over(ranks):
    """Microseconds of a barrier: where the CPUs of the ranks are now."""
    return time_lockstep("barrier", ranks, [0], 1000)[0, "in"][0]


def measure_round(number, case, sides, peers, flags):
    """Times by side, and what a barrier took before, between and after them."""
    ranks = case[1]
    times, barriers = {}, []
    for side in sides if number % 2 == 0 else sides[::-1]:
        if ranks <= len(os.sched_getaffinity(0)):
            barriers.append(hand_over(ranks))
        times[side] = side_times(side, case, peers, flags.runs)
    if barriers:
        barriers.append(hand_over(ranks))
    return times, barriers


def measure_rounds(case, sides, peers, flags):
    """The rounds that count, in which the CPUs stayed where they are if enough did."""
    steady, moved = [], []
    for number in range(2 * flags.rounds):
        found = measure_round(number, case, sides, peers, flags)
        barriers = found[1]
        stayed = not barriers or max(barriers) <= MOVED * min(barriers)
        (steady if stayed else moved).append(found)
        if len(steady) == flags.rounds:
            break
    return (steady + moved)[:flags.rounds]


def measure(case, sides, peers, flags):
    """Rows of one operation: each has the samples of all sides."""
    operation, ranks, buffers, _ = case
    rounds = measure_rounds(case, sides, peers, flags)
    found = {side: [times[side] for times, _ in rounds] for side in sides}
    for size, place in found[BUILT_IN][0]:
        yield {"operation": operation, "ranks": ranks, "bytes": size,
               "buffers": buffers, "place": place,
               "runs": flags.runs or runs_for(size),
               "barrier_us": [barriers for _, barriers in rounds],
               "algorithm": {side: found[side][-1][size, place][2]
                             for side in sides if side not in peers},
               "samples": {side: {
                   "median_us": [times[size, place][0] for times in found[side]],
                   "p99_us": [times[size, place][1] for times in found[side]]}
                   for side in sides}}


def ratio(row, side, peer, which="median_us"):
    ours, theirs = (row["samples"][name][which] for name in (side, peer))
    return statistics.median(a / b for a, b in zip(ours, theirs))


def print_titles(sides, peers):
    ours = [side for side in sides if side not in peers]
    titles = ["operation", "ranks", "bytes", "buffers", "place", "path", *sides,
              *(f"{side} / {peer}" for side in ours for peer in peers)]
    print("| " + " | ".join(titles) + " |")
    print("| --- | ---: | ---: | --- | --- | --- |" + " ---: |" * (len(titles) - 6))


def print_row(row, sides, peers):
    ours = [side for side in sides if side not in peers]
    medians = [f"{statistics.median(row['samples'][side]['median_us']):.4g}" for side in sides]
    ratios = [f"{ratio(row, side, peer):.2f}" for side in ours for peer in peers]
    path = ", ".join(dict.fromkeys(row["algorithm"].values()))
    print(f"| {row['operation']} | {row['ranks']} | {row['bytes']} | {row['buffers']} |"
          f" {row['place']} | {path} | {' | '.join(medians + ratios)} |", flush=True)


def print_misses(rows, sides, peers):
    for side in (side for side in sides if side not in peers):
        for peer in peers:
            over = [row for row in rows if ratio(row, side, peer) > GOALS[side]]
            print(f"\n{side} / {peer}: {len(over)} of {len(rows)} ratios are over {GOALS[side]}")
            for row in over:
                print(f"  {row['operation']} -n {row['ranks']} {row['bytes']} {row['buffers']}"
                      f" {row['place']} {row['algorithm'][side]}: {ratio(row, side, peer):.2f}"
                      f" (99th percentile {ratio(row, side, peer, 'p99_us'):.2f})")


def cases(flags):
    for ranks in flags.ranks:
        for buffers in flags.buffers:
            few = buffers != "private"
            sizes = flags.sizes or (FEW_SIZES if few else SIZES)
            for operation in flags.operations or (FEW_OPERATIONS if few else OPERATIONS):
                if operation == "barrier":
                    if not few:
                        yield operation, ranks, buffers, [0]
                    continue
                least = 4 * ranks if operation in BLOCKS else 4 # bytes of an element
                yield operation, ranks, buffers, [size for size in sizes if size >= least]


def document(rows):
    info = json.loads(output([LOCKSTEP, "info", "--json"]))
    return {"lockstep": info["lockstep"], "date": datetime.date.today().isoformat(),
            "command": sys.argv, "machine": info["rows"][0], "rows": rows}


def words(text):
    return text.split(",")


def numbers(text):
    return [int(word) for word in text.split(",")]


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--operations", type=words)
    parser.add_argument("--ranks", type=numbers, default=[2, 4])
    parser.add_argument("--sizes", type=numbers)
    parser.add_argument("--buffers", type=words, default=["private", "shared", "fresh"])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--runs", type=int, help="of each round; default: by the size")
    parser.add_argument("--tuned", action="store_true", help="measure the table of this machine")
    parser.add_argument("--peer", action="append", metavar="MPIRUN=PROGRAM",
                        help=f"default: {MPIRUN}=mpi_collectives of the build")
    parser.add_argument("--json", metavar="FILE", help="write all samples")
    flags = parser.parse_args()
    if flags.rounds < 1:
        parser.error(f"--rounds {flags.rounds}: at least 1 round is needed")
    if shutil.which(LOCKSTEP) is None:
        parser.error(f"LOCKSTEP names the program {LOCKSTEP}, which is missing; "
                     "build it or name another one")
    return flags


def main():
    flags = parse()
    pairs = [tuple(peer.split("=", 1)) for peer in flags.peer or [f"{MPIRUN}={PEER}"]]
    for mpirun, _ in pairs:
        if shutil.which(mpirun) is None:
            print(f"{mpirun} is not installed")
            sys.exit(SKIPPED)
    peers = {peer_name(pair[0]): pair for pair in pairs}
    sides = [BUILT_IN, *([TUNED] if flags.tuned else []), *peers]
    rows = []
    print_titles(sides, peers)
    for case in cases(flags):
        for row in measure(case, sides, peers, flags):
            rows.append(row)
            print_row(row, sides, peers)
    print_misses(rows, sides, peers)
    if flags.json:
        with open(flags.json, "w", encoding="utf-8") as file:
            json.dump(document(rows), file, indent=1)


if __name__ == "__main__":
    main()
