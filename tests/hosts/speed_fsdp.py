#!/usr/bin/env python3
"""Training steps of `fsdp` on 2 hosts with 1 rank each, compared with PyTorch's FSDP2.

    LOCKSTEP=build/dev/bin/lockstep speed_fsdp.py --rates 1gbit,10gbit,none

Needs a Python that has PyTorch. Lockstep runs `train lm --strategy fsdp` over UCX;
PyTorch runs fsdp_torch.py over gloo (TCP). Both have the same model, batch, optimizer,
type (f32) and threads, and no clipping; the script ends if parameters or tokens
differ, or if a loss does not fall. The model's two tables are not tied on either side.

The sides run in turn. After each pair of ranks the same two ranks run at the same time
as two independent jobs of one rank, without sharding (`alone`; the slower one counts).
Exposed communication is the pair's step minus that step. A rank of the pair updates
half of the weights, and a rank alone all of them, so it is a little too small on both
sides. A step lasts from a line of rank 0's output to the next, and its bytes are those
that h0's interface sends meanwhile, with headers. The first step is not counted.

Each number is the median over rounds; in a round it is the median of steps. The goals:
exposed at most 0.7 of PyTorch's wherever PyTorch's exceeds 5% of its step, and a step at
most 1.0 of PyTorch's. Without --compile PyTorch runs eagerly.
"""

import argparse
import array
import datetime
import importlib.util
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import hosts

LOCKSTEP = os.path.abspath(os.environ["LOCKSTEP"])
PROGRAM = os.path.join(hosts.HERE, "fsdp_torch.py")
RANKS = (1, 1)
LIMIT = 900  # seconds for a job
OURS, EAGER, COMPILED = "Lockstep", "PyTorch", "PyTorch, compiled"
EXPOSED_GOAL, STEP_GOAL, EXPOSED_SHARE = 0.7, 1.0, 0.05
HEAD = re.compile(r"lm: (\d+) parameters\b.*\b(\d+) per step")
STEP = re.compile(r"step \d+/\d+: loss ([0-9.]+)")


class Watch(threading.Thread):
    """Reads a job's output: when its steps end, and what h0 has sent by then."""

    def __init__(self, two, words, environment):
        super().__init__()
        self.two, self.words, self.environment = two, words, environment
        self.text, self.marks, self.losses, self.work, self.status = "", [], [], None, None

    def run(self):
        with subprocess.Popen(self.words, env=self.environment, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT) as job:
            late = threading.Timer(LIMIT, job.kill)
            late.start()
            for line in job.stdout:
                now = time.perf_counter(), self.two.bytes("h0")[0]
                self.text += line
                if found := STEP.match(line):
                    self.marks.append(now)
                    self.losses.append(float(found[1]))
                elif found := HEAD.match(line):
                    self.work = int(found[1]), int(found[2])
            late.cancel()
        self.status = job.returncode

    def result(self):
        self.join()
        if self.status != 0 or self.work is None or len(self.marks) < 2:
            sys.exit(f"{' '.join(self.words)}: exit status {self.status}\n{self.text}")
        if self.losses[-1] >= self.losses[0]:
            sys.exit(f"{' '.join(self.words)}: the loss does not fall: {self.losses}")
        seconds, sent = zip(*([b - a for a, b in zip(old, new)]
                              for old, new in zip(self.marks, self.marks[1:])))
        return {"work": self.work, "losses": self.losses, "step_s": statistics.median(seconds),
                "steps_s": seconds, "sent_bytes": statistics.median(sent)}


class Bench:
    def __init__(self, flags, two, folder):
        self.flags, self.two = flags, two
        self.data = os.path.join(folder, "tokens.u16")
        self.environment = two.environment(
            OMP_NUM_THREADS=flags.threads, GLOO_SOCKET_IFNAME="eth0", USE_LIBUV=0,
            TORCHINDUCTOR_CACHE_DIR=os.path.join(folder, "inductor"))
        # Squares modulo 61 are easy to learn.
        tokens = array.array("H", (i * i % 61 for i in range(
            max(1 << 20, (flags.steps + 1) * 2 * flags.batch * flags.context + 1))))
        with open(self.data, "wb") as file:
            tokens.tofile(file)

    def common(self):
        return ["--size", self.flags.size, "--data", self.data, "--context",
                str(self.flags.context), "--steps", str(self.flags.steps + 1)]

    def lockstep(self, strategy):
        words = [LOCKSTEP, "train", "lm", *self.common(), "--vocab-size", "10000",
                 "--batch-size", str(self.flags.batch), "--strategy", strategy,
                 "--optimizer", "adamw", "--lr", "0.0001", "--schedule", "constant",
                 "--warmup-steps", "0", "--clip-norm", "0", "--validate-every", "0",
                 "--no-divergence-check", "--no-save", "--no-bind", "--log-every", "1",
                 "--threads", str(self.flags.threads)]
        if strategy == "fsdp":
            for flag in ("prefetch_layers", "bucket_mb"):
                if getattr(self.flags, flag) is not None:
                    words += ["--" + flag.replace("_", "-"), str(getattr(self.flags, flag))]
        return words

    def torch(self, rank, ranks, compiled):
        return [sys.executable, "-W", "ignore", PROGRAM, *self.common(), "--batch",
                str(self.flags.batch), "--rank", str(rank), "--ranks", str(ranks),
                "--prefetch", str(self.flags.peer_prefetch),
                *(["--compile"] if compiled else [])]

    def jobs(self, side, together):
        """The command lines of a pair, or of two ranks alone. The first one reports."""
        names = self.two.names
        if side != OURS:
            return [self.two.words(name, *self.torch(
                i if together else 0, len(names) if together else 1, side == COMPILED))
                    for i, name in enumerate(names)]
        if together:
            return [self.two.mpirun("ucx", RANKS, *self.lockstep("fsdp"))]
        return [self.two.words(name, *self.lockstep("flat")) for name in names]

    def run(self, side, together):
        watches = [Watch(self.two, words, self.environment)
                   for words in self.jobs(side, together)]
        for watch in watches:
            watch.start()
        if together:
            for watch in watches[1:]:  # prints nothing
                watch.join()
            return watches[0].result()
        return max((watch.result() for watch in watches), key=lambda found: found["step_s"])


def check_work(found):
    """Ends the script if the sides do not have the same parameters and tokens."""
    for together in ("pair", "alone"):
        works = {side: rounds[-1][together]["work"] for side, rounds in found.items()}
        if len(set(works.values())) != 1:
            sys.exit(f"parameters and tokens of a step differ ({together}): {works}")


def median(rounds, value):
    return statistics.median(value(one) for one in rounds)


def row_of(rate, side, rounds):
    return {"rate": rate, "side": side, "rounds": rounds,
            "step_s": median(rounds, lambda one: one["pair"]["step_s"]),
            "alone_s": median(rounds, lambda one: one["alone"]["step_s"]),
            "exposed_s": median(rounds, lambda one: one["pair"]["step_s"] -
                                one["alone"]["step_s"]),
            "sent_bytes": median(rounds, lambda one: one["pair"]["sent_bytes"])}


def measure(rate, sides, flags):
    """The rows of one link, one for each side."""
    found = {side: [] for side in sides}
    with tempfile.TemporaryDirectory(prefix="lockstep-fsdp-") as folder, \
            hosts.Hosts(2, None if rate == "none" else rate, keep=[folder]) as two:
        bench = Bench(flags, two, folder)
        for number in range(flags.rounds):
            for side in sides if number % 2 == 0 else sides[::-1]:
                found[side].append({"pair": bench.run(side, True),
                                    "alone": bench.run(side, False)})
            check_work(found)
    return [row_of(rate, side, rounds) for side, rounds in found.items()]


def print_rows(rows):
    ours = rows[0]
    for row in rows:
        ratios = ["", ""] if row is ours else [
            f"{ours['step_s'] / row['step_s']:.2f}",
            f"{ours['exposed_s'] / row['exposed_s']:.2f}"]
        print(f"| {row['rate']} | {row['side']} | {row['step_s']:.3f} | {row['alone_s']:.3f} |"
              f" {row['exposed_s']:.3f} | {row['exposed_s'] / row['step_s']:.1%} |"
              f" {row['sent_bytes'] / 1e6:.1f} | {' | '.join(ratios)} |", flush=True)


def misses(rows):
    """The goals that are missed on a link, against PyTorch without compilation."""
    ours, theirs = rows[:2]
    if ours["step_s"] > STEP_GOAL * theirs["step_s"]:
        yield f"{ours['rate']}: a step is over {STEP_GOAL} of {EAGER}'s"
    if theirs["exposed_s"] > EXPOSED_SHARE * theirs["step_s"] and \
            ours["exposed_s"] > EXPOSED_GOAL * theirs["exposed_s"]:
        yield f"{ours['rate']}: exposed communication is over {EXPOSED_GOAL} of {EAGER}'s"


def write(file_name, rows):
    info = json.loads(subprocess.run([LOCKSTEP, "info", "--json"], check=True,
                                     stdout=subprocess.PIPE, text=True).stdout)
    with open(file_name, "w", encoding="utf-8") as file:
        json.dump({"lockstep": info["lockstep"], "date": datetime.date.today().isoformat(),
                   "command": sys.argv, "machine": info["rows"][0], "rows": rows},
                  file, indent=1)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rates", default="1gbit,10gbit,none", help="of the link, as tc has"
                        " them; none: not shaped (default 1gbit,10gbit,none)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4, help="timed steps of a job (default 4)")
    parser.add_argument("--size", choices=("tiny", "small"), default="small")
    parser.add_argument("--batch", type=int, default=4, help="sequences of a rank")
    parser.add_argument("--context", type=int, default=512, help="tokens of a sequence")
    parser.add_argument("--threads", type=int, default=1, help="of a rank")
    parser.add_argument("--bucket-mb", type=float, metavar="X",
                        help="--bucket-mb of Lockstep (default: its own)")
    parser.add_argument("--prefetch", type=int, metavar="N", dest="prefetch_layers",
                        help="--prefetch-layers of Lockstep (default: its own)")
    parser.add_argument("--peer-prefetch", type=int, default=0, metavar="N",
                        help="blocks that FSDP2 gathers ahead (default: its own choice)")
    parser.add_argument("--compile", action="store_true",
                        help="time PyTorch with compiled blocks, too")
    parser.add_argument("--json", metavar="FILE", help="write all samples")
    return parser.parse_args()


def main():
    flags = parse()
    rates = flags.rates.split(",")
    hosts.skip_if(hosts.missing() or hosts.missing_module("ucx") or
                  next(filter(None, (hosts.missing_shaping(rate, None)
                                     for rate in rates if rate != "none")), None) or
                  (importlib.util.find_spec("torch") is None and
                   f"{sys.executable} has no PyTorch"))
    sides = [OURS, EAGER, *([COMPILED] if flags.compile else [])]
    print("| rate | by | step (s) | alone (s) | exposed (s) | of the step | MB sent |"
          " step, ours / theirs | exposed, ours / theirs |")
    print("| --- | --- |" + " ---: |" * 7)
    rows, missed = [], []
    for rate in rates:
        some = measure(rate, sides, flags)
        print_rows(some)
        rows += some
        missed += misses(some)
    parameters, tokens = rows[0]["rounds"][0]["pair"]["work"]
    print(f"\nEach side: {parameters} parameters, {tokens} tokens per step, f32")
    print("\n".join(missed or ["All goals are met."]))
    if flags.json:
        write(flags.json, rows)


if __name__ == "__main__":
    main()
