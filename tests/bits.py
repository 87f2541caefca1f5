#!/usr/bin/env python3
"""Hashes of the files that training saves: shows that a change keeps every bit.

    bits.py                             the hashes of build/dev/bin/lockstep
    bits.py --against OTHER/lockstep    where two programs differ, if anywhere
    bits.py --hosts 2,2                 on hosts that hosts.py makes, as root
    bits.py --portable ...              instead, what portable_bits.py does

It trains small models, `train cifar100` and `train lm`, under each strategy, on
1, 2, 4 and 8 ranks. A few more runs have other types, optimizers and kinds of
batch normalisation. A hash is of the tensors that --save writes, of the newest
checkpoint and of the lines of --metrics without times and memory.
"""

import argparse
import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path.insert(0, os.path.join(HERE, "hosts"))
import hosts  # noqa: E402
import portable_bits  # noqa: E402

JOBS = {
    "cifar100": "--threads 1 --limit 200 --epochs 2 --batch-size 8 "
                "--save-every 3",
    "lm": "--threads 1 --layers 2 --d-model 40 --heads 4 --d-ff 60 "
          "--context 24 --batch-size 3 --steps 4 --validate-every 2 "
          "--save-every 2 --schedule constant --warmup-steps 0 --clip-norm 0 "
          "--beta2 0.999",  # what older programs do by default
}
# Flags tried in addition to the strategies.
MORE = {
    "cifar100": ["--sync-bn gathered", "--sync-bn off", "--dtype bf16",
                 "--dtype f16", "--accumulate 2 --prefetch 2",
                 "--optimizer adamw --strategy fsdp --bucket-mb 0.02",
                 "--slices 8 --no-dropout",
                 "--resume --epochs 3"],
    "lm": ["--size gpt2 --vocab-size 256", "--dtype bf16", "--dtype f16",
           "--dtype bf16 --strategy shared", "--accumulate 3 --clip-norm 0.5",
           "--optimizer lion --strategy zero1 --bucket-mb 0.01",
           "--optimizer sgd --schedule cosine --warmup-steps 1",
           "--attention naive", "--threads 2", "--resume --steps 6"],
}
# The earlier names of renamed flags, for older programs.
OLDER_NAMES = {"--vocab-size": "--vocab", "--arch": "--model"}
# In what a checkpoint says: times, the id of the run, and what a program from
# before does not say.
CHANGING = ("ranks", "launcher_run", "first_loss", "steps_above",
            "a cosine of N steps:", "steps of the schedule")
TIMES = ("seconds", "per_second", "peak_bytes")  # how such fields end
TIME_LIMIT = 120


def strategies():
    """The flags of each, with small buckets where it has any."""
    with open(os.path.join(ROOT, "lib/model/parallel/strategies.def"),
              encoding="ascii") as file:
        rows = re.findall(r"^X\((\w+), (\w+),", file.read(), re.MULTILINE)
    return [f"--strategy {name.lower()}" +
            (" --bucket-mb 0.02" if buckets == "LIMIT" else "")
            for name, buckets in rows]


def runs():
    """(the job's name, the flags that are its own) of everything to train."""
    for job, more in MORE.items():
        yield from ((job, flags) for flags in [*strategies(), *more])


def timeless(fields):
    """Without times and memory; those of ranks are in the list of that name. Older
    programs count epochs from 0; the order of the lines counts them, too."""
    return {name: [timeless(rank) for rank in value] if name == "ranks" else value
            for name, value in fields.items()
            if not name.endswith(TIMES) and name != "epoch"}


def without_times(path):
    with open(path, encoding="utf-8") as file:
        return json.dumps([timeless(json.loads(line)) for line in file]).encode()


def newest_checkpoint(folder):
    """The bytes of its files. Left out are the values of CHANGING, and lengths and
    sums of files."""
    steps = [name for name in os.listdir(folder) if name.startswith("step-")]
    newest = os.path.join(folder, max(steps, key=lambda s: int(s[5:])))
    for name in sorted(os.listdir(newest)):
        with open(os.path.join(newest, name), "rb") as file:
            data = file.read()
        if name.endswith(".json"):
            header, data = json.loads(data), b""
            part = header["values"]
            del header["files"], header["crc32"]
        else:
            begin = 8 + int.from_bytes(data[:8], "little")
            header, data = json.loads(data[8:begin]), data[begin:]
            part = header.get("__metadata__", {})
        for changing in CHANGING:
            part.pop(changing, None)
        text = json.dumps(header)
        for new, old in OLDER_NAMES.items():
            text = text.replace(f'"{old}"', f'"{new}"')
        yield name.encode() + text.encode() + data


def tensors(path):
    """The tensors of a file, without what its metadata say."""
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
        header.pop("__metadata__", None)
        return [json.dumps(header, sort_keys=True).encode(), file.read()]


def digest(parts):
    total = hashlib.sha256()
    for part in parts:
        total.update(part)
    return total.hexdigest()[:16]


class Program:
    """One lockstep, on this host or, by MPI, on those of hosts.py."""

    def __init__(self, path, some, mpi):
        self.path, self.hosts, self.mpi = os.path.abspath(path), some, mpi
        self.older = {job: self.older_names(job) for job in JOBS}

    def older_names(self, job):
        text = subprocess.run([self.path, "train", job, "--help"], check=True,
                              stdout=subprocess.PIPE, text=True).stdout
        known = re.findall(r"--[a-z0-9-]+", text)
        return {new: old for new, old in OLDER_NAMES.items()
                if new not in known}

    def train(self, ranks, words):
        words = [self.older[words[1]].get(word, word) for word in words]
        if self.hosts is None:
            environment = None
            words = [self.path, *words, "--ranks", str(*ranks)]
        else:
            environment = self.hosts.environment()
            words = self.hosts.mpirun(self.mpi, ranks, self.path, *words)
        done = subprocess.run(
            words, timeout=TIME_LIMIT, env=environment, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(words)}: exit status {done.returncode}\n"
                     f"{done.stdout}")

    def hashes(self, folder, ranks, job, flags):
        """Of the weights, of the newest checkpoint, of the lines."""
        weights, checkpoints, metrics = (
            os.path.join(folder, name)
            for name in ("weights", "checkpoints", "metrics"))
        shutil.rmtree(checkpoints, ignore_errors=True)
        words = ["train", job, *JOBS[job].split(), "--save", weights,
                 "--checkpoint-dir", checkpoints, "--metrics", metrics]
        if "--resume" in flags:
            self.train(ranks, words)
        self.train(ranks, words + flags.split())
        return [digest(tensors(weights)),
                digest(newest_checkpoint(checkpoints)),
                digest([without_times(metrics)])]


def compare(programs, folder, flags):
    """Prints hashes or differences; whether there were any of these."""
    done = different = 0
    for job, own in runs():
        for ranks in [flags.hosts] if flags.hosts else [[1], [2], [4], [8]]:
            name = f"{','.join(map(str, ranks))} {job} {own}"
            if not re.search(flags.only, name):
                continue
            found = [p.hashes(folder, ranks, job, own) for p in programs]
            done += 1
            if len(programs) == 1:
                print(*found[0], name, flush=True)
                continue
            for what, one, other in zip(("weights", "checkpoint", "metrics"),
                                        *found):
                if one != other:
                    different += 1
                    print(f"{name}: {what} differ", flush=True)
    if len(programs) > 1:
        print(f"{done} runs, {different} differences")
    return different > 0


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--lockstep", metavar="PROGRAM",
                        default=os.environ.get("LOCKSTEP", os.path.join(
                            ROOT, "build/dev/bin/lockstep")))
    parser.add_argument("--against", metavar="PROGRAM",
                        help="compare with what this one saves")
    parser.add_argument("--hosts", metavar="N,N,...",
                        type=lambda text: [int(n) for n in text.split(",")],
                        help="ranks on each host: one number per host")
    parser.add_argument("--mpi", default="openmpi",
                        choices=("openmpi", "mpich"), help="between hosts")
    parser.add_argument("--only", default="", metavar="REGEX",
                        help="of the lines' beginnings")
    flags = parser.parse_args()
    paths = [flags.lockstep, *([flags.against] if flags.against else [])]
    if flags.hosts:
        os.environ["LOCKSTEP"] = flags.lockstep
        hosts.skip_if(hosts.missing() or hosts.missing_module(flags.mpi))
    with tempfile.TemporaryDirectory(prefix="lockstep-bits-") as folder, \
            contextlib.ExitStack() as stack:
        some = None
        if flags.hosts:
            keep = [folder, *map(hosts.tree, paths)]
            some = stack.enter_context(
                hosts.Hosts(len(flags.hosts), keep=keep))
        programs = [Program(path, some, flags.mpi) for path in paths]
        sys.exit(1 if compare(programs, folder, flags) else 0)


if __name__ == "__main__":
    if "--portable" in sys.argv[1:]:  # it has other flags
        sys.argv.remove("--portable")
        portable_bits.main()
    main()
