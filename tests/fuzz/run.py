#!/usr/bin/env python3
"""Runs fuzz targets, each for some seconds, and says what they did.

usage: run.py PROGRAM... [--seconds S] [--seeds FOLDER] [--corpus FOLDER]
              [--found FOLDER] [--jobs N] [--runs N]

Without --corpus every run begins with the seeds, with the same random numbers.
With it, what reaches something new is kept there, in a folder for each target,
and the next run begins with that; --seeds and --found hold a folder for each,
too. The exit status is 1 if an input breaks a target; it is in --found.
"""
import argparse
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile

# Longer inputs make an exec slower and say nothing new.
MAX_LENGTH = {"archive": 16384, "records": 8192, "checkpoint": 8192,
              "gpt2": 8192, "tokens": 2048, "memory": 2048}


# Small allocations are what parsers make most.
SANITIZER = "malloc_context_size=3:quarantine_size_mb=16"


def dictionary(name):
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                        f"{name}.dict")
    return [f"-dict={path}"] if os.path.exists(path) else []


def command(program, name, options, corpus, found):
    line = [program, f"-artifact_prefix={found}/{name}-", "-timeout=30",
            f"-max_len={MAX_LENGTH.get(name, 1024)}", "-print_final_stats=1",
            "-verbosity=0", *dictionary(name)]
    if options.runs:
        line.append(f"-runs={options.runs}")
    else:
        line.append(f"-max_total_time={options.seconds}")
    if not options.corpus:
        line.append("-seed=1")
    return line + corpus


def folders(name, options, scratch):
    """Where to write what is new, then where to begin; and for what breaks."""
    many = options.corpus is not None
    kept = os.path.join(options.corpus, name) if many else scratch
    found = options.found or tempfile.gettempdir()
    for folder in (kept, found):
        os.makedirs(folder, exist_ok=True)
    corpus = [kept]
    if options.seeds:
        seeds = os.path.join(options.seeds, name) if many else options.seeds
        corpus.append(seeds)
    return corpus, found


def number(pattern, text):
    match = re.search(pattern, text)
    return int(match.group(1)) if match else 0


def run(program, options):
    name = os.path.basename(program).removeprefix("fuzz_")
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory() as scratch, \
            tempfile.TemporaryDirectory(dir=memory) as place:
        corpus, found = folders(name, options, scratch)
        done = subprocess.run(command(program, name, options, corpus, found),
                              env={**os.environ, "ASAN_OPTIONS": SANITIZER,
                                   "FUZZ_FOLDER": place},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace", check=False)
        kept = len(os.listdir(corpus[0]))
    execs = number(r"stat::number_of_executed_units:\s*(\d+)", done.stdout)
    rate = number(r"stat::average_exec_per_sec:\s*(\d+)", done.stdout)
    print(f"{name:12} {execs:10} inputs, {rate:7} a second, {kept:5} kept",
          flush=True)
    if done.returncode != 0:
        print(f"{name} is broken by an input (in {found}):\n"
              f"{done.stdout[-6000:]}", flush=True)
    return done.returncode == 0


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1])
    parser.add_argument("programs", nargs="+")
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--runs", type=int)
    parser.add_argument("--jobs", type=int, default=1)
    for name in ("seeds", "corpus", "found"):
        parser.add_argument(f"--{name}")
    options = parser.parse_args()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        good = list(pool.map(lambda p: run(p, options), options.programs))
    sys.exit(not all(good))


main()
