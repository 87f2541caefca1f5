#!/usr/bin/env python3
"""Training with fsdp on hosts that are smaller than the model.

    LOCKSTEP=build/dev/bin/lockstep fsdp_memory.py --hosts 8 --layers 40 --must weights
    LOCKSTEP=build/dev/bin/lockstep fsdp_memory.py --hosts 2 --layers 40 --must state

Each host is a control group without swap. Its limit is the sum of:
- its part of weights, gradients and AdamW's state;
- the layers that it gathers at a time, and halves in a half type;
- two buckets, activations and 150 MB for each rank.
`lockstep plan` has the numbers. The model trains, saves a checkpoint and its weights, resumes, and
generates. It must be larger than a host: its f32 weights (4 P bytes) with --must weights,
or its training state (16 P) with --must state.

--measure runs with no limit but this machine's, and prints the peaks.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile

import hosts
from memory_limit import MemoryLimit, Peaks, missing

LOCKSTEP = os.environ["LOCKSTEP"]
SLACK = 150_000_000  # bytes of a rank: the program, its libraries, messages
MB = 1e6


def shape(flags):
    return ["--size", flags.size, "--layers", str(flags.layers), "--d-model",
            str(flags.d_model), "--d-ff", str(flags.d_ff), "--heads", "8",
            "--vocab-size", "256", "--context", "16", "--batch-size", "1", "--dtype",
            flags.dtype, "--strategy", "fsdp", "--bucket-mb", str(flags.bucket_mb),
            "--prefetch-layers", str(flags.prefetch)]


def plan(flags):
    """Of a rank, in bytes."""
    done = subprocess.run(
        [LOCKSTEP, "plan", *shape(flags), "-n", str(flags.hosts * flags.ranks),
         "--nodes", str(flags.hosts), "--tflops", "0.1", "--device-gbps", "5", "--json"],
        check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def limit_of(flags, planned):
    """Of a host, in bytes."""
    ranks = flags.hosts * flags.ranks
    state = (4 + 8) * planned["parameters"] / ranks  # gradients and AdamW
    return round(flags.ranks * (
        planned["parameter_bytes"] + planned["window_bytes"] + state +
        2 * flags.bucket_mb * MB + planned["activation_bytes"] + SLACK))


class Job:
    def __init__(self, some, limits, flags):
        self.some, self.limits, self.flags = some, limits, flags
        self.failed = False

    def on_all(self, what, *words):
        """Runs words as one job of all hosts."""
        flags = self.flags
        launchers = []
        with Peaks(self.limits) as peaks:
            for k, (name, limit) in enumerate(zip(self.some.names, self.limits)):
                launch = [LOCKSTEP, "run", "--nnodes", str(flags.hosts), "--node-rank",
                          str(k), "--rdzv-endpoint", "h0:29400", "-n",
                          str(flags.ranks), "--", *words]
                launchers.append(subprocess.Popen(
                    limit.inside(self.some.words(name, *launch)), text=True,
                    errors="replace",
                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, "OMP_NUM_THREADS": "1", "LOCKSTEP_TIMEOUT": "60",
                         "LOCKSTEP_SECRET": "what only these hosts know"}))
            said = [job.communicate(timeout=flags.timeout)[0] for job in launchers]
        self.report(what, peaks, any(job.returncode for job in launchers), said)

    def report(self, what, peaks, failed, said):
        kills = sum(limit.kills() for limit in self.limits)
        print(f"{what}: at most {max(peaks.most) / MB:.0f} MB of anonymous and shared "
              f"memory on a host, {'FAILED' if failed else 'passed'}; the kernel has "
              f"killed {kills} processes at the limit so far", flush=True)
        if failed:
            self.failed = True
            print(said[0], file=sys.stderr, flush=True)


def once(flags, planned, most):
    with tempfile.TemporaryDirectory(prefix="lockstep-memory-") as folder, \
            contextlib.ExitStack() as stack:
        limits = [MemoryLimit(f"lockstep-h{k}", most) for k in range(flags.hosts)]
        for limit in limits:
            stack.callback(limit.close)
        some = stack.enter_context(hosts.Hosts(flags.hosts, keep=[folder]))
        job = Job(some, limits, flags)
        weights = os.path.join(folder, "weights.safetensors")
        words = (LOCKSTEP, "train", "lm", *shape(flags), "--schedule", "constant",
                 "--validate-every", "0", "--log-every", "1")
        keep = ("--checkpoint-dir", os.path.join(folder, "run"), "--save", weights)
        job.on_all("train", *words, "--steps", "2", "--no-save")
        job.on_all("train and save", *words, *keep, "--steps", "2", "--save-every", "2")
        job.on_all("resume and save", *words, *keep, "--steps", "3", "--resume")
        job.on_all("generate", LOCKSTEP, "generate", "--weights", weights, "--strategy",
                   "fsdp", "-p", "a", "--max-new-tokens", "4")
        return job.failed


def main():
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--hosts", type=int, default=2, help="number of hosts")
    parser.add_argument("--ranks", type=int, default=1, help="ranks of a host")
    parser.add_argument("--size", default="tiny", help="tiny: rope; gpt2: tied tables")
    parser.add_argument("--layers", type=int, default=10, help="blocks")
    parser.add_argument("--d-model", type=int, default=512, help="width")
    parser.add_argument("--d-ff", type=int, default=1536, help="width of feed-forward")
    parser.add_argument("--dtype", default="f32", help="of products")
    parser.add_argument("--bucket-mb", type=float, default=4, help="largest bucket")
    parser.add_argument("--prefetch", type=int, default=2, help="--prefetch-layers")
    parser.add_argument("--must", choices=("weights", "state"),
                        help="the part of the model that must exceed a host")
    parser.add_argument("--measure", action="store_true", help="without a limit")
    parser.add_argument("--timeout", type=float, default=300, help="seconds of a job")
    flags = parser.parse_args()
    hosts.skip_if(hosts.missing() or hosts.missing_module("ucx") or missing())
    planned = plan(flags)
    most, p = limit_of(flags, planned), planned["parameters"]
    print(f"P {p / MB:.1f} million, 4 P {4 * p / MB:.0f} MB, 16 P {16 * p / MB:.0f} MB; "
          f"{flags.hosts} hosts x {flags.ranks} ranks, limit of a host {most / MB:.0f} MB",
          flush=True)
    times = {None: 0, "weights": 4, "state": 16}[flags.must]
    if flags.must and times * p <= most:
        sys.exit(f"the {flags.must} fit into the limit: take more --layers")
    sys.exit(once(flags, planned, 1 << 40 if flags.measure else most))


if __name__ == "__main__":
    main()
