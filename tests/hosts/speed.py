#!/usr/bin/env python3
"""All-reduce on 2 hosts with 2 ranks each, compared with MPI_Allreduce.

    LOCKSTEP=build/dev/bin/lockstep speed.py --rate 1gbit

Both run in turn on the same link. The table has medians of the slowest rank's
time; how much of the link the bytes that must cross take, headers not counted;
and the bytes that a host's interface has sent for each all-reduce, without
headers, over those that it should: as many as the vector has.
"""

import argparse
import functools
import json
import os
import subprocess
import tempfile

import hosts

LOCKSTEP = os.path.abspath(os.environ["LOCKSTEP"])
RANKS = (2, 2)
UNITS = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}


def bytes_per_second(rate):
    number = rate.rstrip("abcdefghijklmnopqrstuvwxyz")
    return float(number) * UNITS[rate[len(number):]] / 8


class Bench:
    def __init__(self, two, mpi, options, program):
        self.two, self.mpi, self.options = two, mpi, options
        self.program = program

    def output(self, starter, *words):
        done = subprocess.run(
            self.two.mpirun(starter, RANKS, *words, options=self.options),
            env=self.two.environment(OMP_NUM_THREADS=1), timeout=600,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
            check=True)
        return done.stdout

    def time_mpi(self, size, runs):
        return float(self.output(self.mpi, self.program, str(size), str(runs)))

    def time_lockstep(self, starter, size, runs):
        text = self.output(starter, LOCKSTEP, "bench", "all-reduce", "--sizes",
                           str(size), "--place", "in", "--warmup", "2",
                           "--iterations", str(runs), "--json")
        return json.loads(text)["rows"][0]["time_us"]["median"]

    def sent_by(self, call, size, runs):
        """Microseconds, and the bytes that one run sends: what more runs send
        more, so that the start and the end do not count."""
        marks = [self.two.payload_sent("h0")]
        call(size, 1)
        marks.append(self.two.payload_sent("h0"))
        took = call(size, runs + 1)
        marks.append(self.two.payload_sent("h0"))
        return took, (marks[2] - 2 * marks[1] + marks[0]) / runs


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--delay", type=float, default=0.0002, metavar="S",
                        help="seconds from host to host (default 0.0002)")
    parser.add_argument("--sizes", default="1000000,10000000,100000000")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--mpi", default="openmpi",
                        choices=("openmpi", "mpich"))
    parser.add_argument("--option", action="append", default=[],
                        help="a word more for mpirun")
    parser.add_argument("--by", default="mpi,lockstep",
                        help="what is measured: mpi, lockstep (over that MPI),"
                        " ucx (Lockstep over UCX)")
    flags = parser.parse_args()
    hosts.skip_if(hosts.missing() or hosts.missing_module(flags.mpi) or
                  hosts.missing_shaping(flags.rate, flags.delay))
    link = bytes_per_second(flags.rate)
    with tempfile.TemporaryDirectory(prefix="lockstep-speed-") as folder, \
            hosts.Hosts(2, flags.rate, flags.delay, [folder]) as two:
        program = os.path.join(folder, "mpi_all_reduce")
        subprocess.run([f"mpicc.{flags.mpi}", "-O2", "-o", program,
                        os.path.join(hosts.HERE, "mpi_all_reduce.c")],
                       check=True)
        bench = Bench(two, flags.mpi, flags.option, program)
        calls = {"mpi": bench.time_mpi,
                 "lockstep": functools.partial(bench.time_lockstep, flags.mpi),
                 "ucx": functools.partial(bench.time_lockstep, "ucx")}
        print("| bytes | by | time (ms) | of the link | sent / formula |")
        print("| ----: | -- | --------: | ----------: | -------------: |")
        for size in map(int, flags.sizes.split(",")):
            for _ in range(flags.rounds):
                for name in flags.by.split(","):
                    took, sent = bench.sent_by(calls[name], size, flags.runs)
                    print(f"| {size} | {name} | {took / 1e3:.2f} |"
                          f" {size / (took * 1e-6) / link:.3f} |"
                          f" {sent / size:.3f} |", flush=True)


if __name__ == "__main__":
    main()
