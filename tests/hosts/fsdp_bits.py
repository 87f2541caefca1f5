#!/usr/bin/env python3
"""fsdp ends with the weights and the optimizer state of flat, on the same hosts.

    LOCKSTEP=build/dev/bin/lockstep fsdp_bits.py --steps 50

Each job trains with both strategies, and saves at half of the steps and at the end.
Each half-way checkpoint is then resumed by the other strategy. All must end with equal
weights and optimizer state. Both strategies train again with --deterministic, which adds
in another order, and must end equal, too. The table has the bytes that the hosts have
sent in a run, without headers.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

import hosts

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from portable_bits import write_images  # noqa: E402

LOCKSTEP = os.environ["LOCKSTEP"]
FSDP = ("--strategy", "fsdp", "--bucket-mb")
MB = 1e6


def lm(size, dtype, *more):
    def words(steps, *_):
        return ("lm", "--size", size, "--layers", "3", "--d-model", "64", "--d-ff", "96",
                "--heads", "4", "--vocab-size", "256", "--context", "24",
                "--batch-size", "2", "--dtype", dtype, "--schedule", "constant",
                "--validate-every", "0", "--steps", str(steps), *more)
    return words, "0.1"


def images(dtype):
    def words(steps, ranks, base):
        batch = 2
        data = os.path.join(base, "data")  # few images to validate
        os.makedirs(data, exist_ok=True)
        write_images(data, steps * batch * ranks)
        return ("images", "--arch", "resnet18", "--image-size", "16", "--batch-size",
                str(batch), "--dtype", dtype, "--epochs", "1", "--data", data)
    return words, "4"


JOBS = {"gpt2-f32": lm("gpt2", "f32"), "gpt2-bf16": lm("gpt2", "bf16"),
        "rope-f32": lm("tiny", "f32"), "rope-bf16": lm("tiny", "bf16"),
        "resnet18-f32": images("f32"), "resnet18-bf16": images("bf16")}


# ---- what a checkpoint holds ------------------------------------------------

def tensors(path):
    """The raw bytes of a safetensors file, by name."""
    with open(path, "rb") as file:
        data = file.read()
    header = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
    base = len(data) - max((entry["data_offsets"][1] for name, entry in header.items()
                            if name != "__metadata__"), default=0)
    return {name: data[base + entry["data_offsets"][0]:base + entry["data_offsets"][1]]
            for name, entry in header.items() if name != "__metadata__"}


def contents(checkpoint):
    """Weights and state by name, however the ranks have divided the state."""
    parts = {}
    for name in sorted(os.listdir(checkpoint)):
        if not name.endswith(".safetensors"):
            continue
        for key, data in tensors(os.path.join(checkpoint, name)).items():
            if key.startswith("buffer/"):  # each rank has its own
                key = f"{name}: {key}"
            whole, _, first = key.partition("@")
            parts.setdefault(whole, []).append((int(first or 0), data))
    return {key: b"".join(data for _, data in sorted(some))
            for key, some in parts.items()}


def difference(a, b):
    """The first name whose bytes differ, or None."""
    return next((name for name in sorted(a.keys() | b.keys())
                 if a.get(name) != b.get(name)), None)


# ---- running ----------------------------------------------------------------

class Layout:
    """Hosts, and what fsdp is told in addition on them: "2,2" or
    "1,1,1,1:--shard-over 2"."""

    def __init__(self, text, base):
        ranks, _, more = text.partition(":")
        self.text, self.base = text, base
        self.ranks = [int(n) for n in ranks.split(",")]
        self.more = more.split()

    def __enter__(self):
        self.some = hosts.Hosts(len(self.ranks), keep=[self.base]).__enter__()
        return self

    def __exit__(self, *what):
        self.some.__exit__(*what)

    def run(self, folder, steps, words, timeout):
        """The contents at the end, and the bytes that the hosts have sent."""
        before = sum(map(self.some.payload_sent, self.some.names))
        done = subprocess.run(
            self.some.mpirun("ucx", self.ranks, LOCKSTEP, "train", *words, "--quiet",
                             "--checkpoint-dir", folder, "--save-every",
                             str(steps // 2), "--keep", "0", "--no-save"),
            env=self.some.environment(OMP_NUM_THREADS=1, LOCKSTEP_TIMEOUT=60),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=timeout, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(words)}\n{done.stdout}")
        sent = sum(map(self.some.payload_sent, self.some.names)) - before
        return contents(os.path.join(folder, f"step-{steps:012d}")), sent


def compare(layout, name, flags):
    """Prints a row; returns whether all runs have ended equal."""
    make, bucket = JOBS[name]
    words = make(flags.steps, sum(layout.ranks), layout.base)
    by = {"flat": ("--strategy", "flat"), "fsdp": (*FSDP, bucket, *layout.more)}
    half = f"step-{flags.steps // 2:012d}"
    ends, sent = {}, {}
    with tempfile.TemporaryDirectory(dir=layout.base) as base:
        def run(what, *more):
            ends[what], sent[what] = layout.run(os.path.join(base, what), flags.steps,
                                                (*words, *more), flags.timeout)
        for strategy, how in by.items():
            run(strategy, *how)
            run(f"{strategy} --deterministic", *how, "--deterministic")
        for first, then in (("flat", "fsdp"), ("fsdp", "flat")):
            what = f"{first} to {then}"
            shutil.copytree(os.path.join(base, first, half),
                            os.path.join(base, what, half))
            run(what, *by[then], "--resume")
    pairs = [("flat", "fsdp"), ("flat", "flat to fsdp"), ("flat", "fsdp to flat"),
             ("flat --deterministic", "fsdp --deterministic")]
    wrong = {b: first for a, b in pairs if (first := difference(ends[a], ends[b]))}
    state = sum(map(len, ends["flat"].values()))
    columns = "".join(f" {sent[what] / MB:.1f} |" for what in (
        "flat", "fsdp", "flat --deterministic", "fsdp --deterministic"))
    print(f"| {name} | {layout.text} | {state / MB:.2f} |{columns} "
          f"{wrong if wrong else 'all equal'} |", flush=True)
    return not wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--steps", type=int, default=50, help="even (default 50)")
    parser.add_argument("--job", action="append", choices=JOBS,
                        help="may be repeated (default all)")
    parser.add_argument("--layout", action="append", metavar="N,N,...[:FLAGS]",
                        help="ranks on each host, and flags of fsdp there; may be "
                             "repeated (default 2,2 and 1,1,1)")
    parser.add_argument("--timeout", type=float, default=300, help="seconds of a run")
    flags = parser.parse_args()
    hosts.skip_if(hosts.missing() or hosts.missing_module("ucx"))
    print("| job | ranks | MB of weights and state | MB sent by flat | by fsdp | by flat "
          "--deterministic | by fsdp --deterministic | result of 6 runs |\n"
          "|---|---|---|---|---|---|---|---|",
          flush=True)
    good = True
    for text in flags.layout or ("2,2", "1,1,1"):
        with tempfile.TemporaryDirectory(prefix="lockstep-bits-") as base, \
                Layout(text, base) as layout:
            for name in flags.job or JOBS:
                good = compare(layout, name, flags) and good
    sys.exit(not good)


if __name__ == "__main__":
    main()
