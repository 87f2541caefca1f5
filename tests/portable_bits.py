#!/usr/bin/env python3
"""Shows that --bits portable trains the same weights whatever computes them.

    portable_bits.py                 all models, one condition varied at a time
    portable_bits.py --tiny          smaller shapes and 3 steps: two minutes
    portable_bits.py --other build/clang/bin/lockstep    another compiler, too
    portable_bits.py --tiny --runner "qemu-aarch64 -L /usr/aarch64-linux-gnu"
                                     another processor, on one rank

Each model has one hash, of the weights that --save writes. It is compared with
the one in portable_bits.json, so every machine is compared with those that wrote
it. `tests/bits.py --portable` runs this program. --write puts the hashes of a
model that has none into the file.
"""

import argparse
import hashlib
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
KNOWN = os.path.join(HERE, "portable_bits.json")
TIME_LIMIT = 1800
SLICES = 8

# The job's flags; {b} is the batch of a rank. Then the same for tiny shapes.
LM = "lm --context {context} --batch-size {{b}} --steps {steps} --layers {layers} "\
     "--d-model {d} --heads 4 --d-ff {ff} --vocab-size 256 --validate-every 0"
SMALL = {"context": 40, "steps": 20, "layers": 2, "d": 72, "ff": 150}
LEAST = {"context": 12, "steps": 3, "layers": 1, "d": 40, "ff": 60}
IMAGES = "images --arch {arch} --batch-size {{b}} --epochs 1 --data {{data}} "\
         "--image-size {size} --lr 0.01"
MODELS = {
    "lm rope": (8, LM.format(**SMALL), LM.format(**LEAST)),
    "lm gpt2": (8, LM.format(**SMALL) + " --size gpt2 --dropout-rate 0.1",
                LM.format(**LEAST) + " --size gpt2 --dropout-rate 0.1"),
    "resnet18": (16, IMAGES.format(arch="resnet18", size=32),
                 IMAGES.format(arch="resnet18", size=8)),
    "vit": (16, IMAGES.format(arch="vit", size=32),
            IMAGES.format(arch="vit", size=8)),
    "cifar-net": (16, *2 * ["cifar100 --batch-size {b} --epochs 1 --data {data}"]),
}


def write_images(folder, train):
    """CIFAR-100 in its binary form, with 8 images to validate."""
    bits = hashlib.shake_256(b"images")
    for name, images in (("train", train), ("test", 8)):
        with open(os.path.join(folder, f"{name}.bin"), "wb") as file:
            for i in range(images):
                file.write(bytes((i % 20, i * 7 % 100)))
                file.write(bits.digest(3072 * (i + 1))[3072 * i:])


def strategies():
    with open(os.path.join(ROOT, "lib/model/parallel/strategies.def"),
              encoding="ascii") as file:
        return [(name.lower(), buckets == "LIMIT") for name, buckets in
                re.findall(r"^X\((\w+), (\w+),", file.read(), re.MULTILINE)]


def levels(program):
    """The instruction levels of this machine, the best one first."""
    found = []
    for name in ("amx", "avx512_bf16", "avx512", "avx2", "neon", "ref"):
        done = subprocess.run([*program, "info"], check=False,
                              env={**os.environ, "LOCKSTEP_ISA": name},
                              stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
        if done.returncode == 0:
            found.append(name)
    return found


def free_port():
    with socket.socket() as one:
        one.bind(("localhost", 0))
        return one.getsockname()[1]


class Condition:
    """A change of the base."""

    def __init__(self, name, ranks=2, flags="", env=None, isas=(), nodes=1,
                 program=None):
        self.name, self.ranks, self.flags = name, ranks, flags
        self.env, self.isas, self.nodes = env or {}, isas, nodes
        self.program = program


def conditions(program, others, runner):
    if runner:  # it does not run the ranks that the program starts
        yield Condition("1 ranks", ranks=1)
        return
    all_levels = levels(program)
    yield Condition("base")
    for name, has_buckets in strategies():
        if name != "flat":
            yield Condition(f"--strategy {name}", flags=f"--strategy {name}" + (
                " --bucket-mb 0.02" if has_buckets else ""))
    for ranks in (1, 4, 8):
        yield Condition(f"{ranks} ranks", ranks=ranks)
    for threads in (2, 3):
        yield Condition(f"{threads} threads", flags=f"--threads {threads}")
    yield Condition("2 nodes of 2 ranks", ranks=4, nodes=2)
    for level in all_levels[1:]:
        yield Condition(f"LOCKSTEP_ISA={level}", env={"LOCKSTEP_ISA": level})
    mixed = [level for level in all_levels
             if level in (all_levels[0], "avx2", "ref")]
    if len(mixed) > 1:
        yield Condition(f"ranks of {', '.join(mixed)}", ranks=4, isas=mixed)
    for other in others:
        yield Condition(other, program=[os.path.abspath(other)])


def words_of(program, model, tiny, condition, weights):
    batch, *jobs = MODELS[model]
    job = jobs[tiny].format(b=batch // condition.ranks,
                            data=os.path.dirname(weights))
    threads = "" if "--threads" in condition.flags else " --threads 1"
    return [*(condition.program or program), "train",
            *f"{job} --bits portable --slices {SLICES} --seed 7 "
             f"{condition.flags}{threads}".split(), "--save", weights]


def start(words, **env):
    return subprocess.Popen(words, env={**os.environ, **env},
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True)


def commands(program, words, condition, folder):
    """The processes to start: (words, environment) of each node."""
    launcher = condition.program or program
    if condition.isas:
        script = os.path.join(folder, "rank.sh")
        choice = "\n".join(
            f'[ $((RANK % {len(condition.isas)})) = {i} ] && '
            f"export LOCKSTEP_ISA={isa}"
            for i, isa in enumerate(condition.isas))
        with open(script, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\n{choice}\nexec {shlex.join(words)}\n")
        os.chmod(script, 0o755)
        return [([*launcher, "run", "-n", str(condition.ranks), "--", script],
                 condition.env)]
    if condition.nodes > 1:
        port = free_port()
        return [([*launcher, "run", "--nnodes", str(condition.nodes),
                  "--rdzv-endpoint", f"localhost:{port}", "-n",
                  str(condition.ranks // condition.nodes), "--", *words],
                 {**condition.env, "LOCKSTEP_HOSTID": f"node-{node}"})
                for node in range(condition.nodes)]
    return [([*words, "-n", str(condition.ranks)], condition.env)]


def train(program, model, tiny, condition, folder):
    """The hash of the weights, or None after an error, which is printed."""
    weights = os.path.join(folder, "weights")
    words = words_of(program, model, tiny, condition, weights)
    running = [start(line, **env)
               for line, env in commands(program, words, condition, folder)]
    texts = [process.communicate(timeout=TIME_LIMIT)[0] for process in running]
    if any(process.returncode for process in running):
        print(f"{model}, {condition.name}: failed\n{''.join(texts)}")
        return None
    with open(weights, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
        header.pop("__metadata__", None)
        found = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
        found.update(file.read())
    os.remove(weights)
    return found.hexdigest()[:32]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--lockstep", metavar="PROGRAM",
                        default=os.environ.get("LOCKSTEP", os.path.join(
                            ROOT, "build/dev/bin/lockstep")))
    parser.add_argument("--other", metavar="PROGRAM", action="append",
                        default=[], help="of another compiler")
    parser.add_argument("--runner", default="",
                        help="runs the program, with one rank")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--only", default="", metavar="REGEX",
                        help="of 'MODEL, CONDITION'")
    parser.add_argument("--but", metavar="REGEX", help="not these of them")
    parser.add_argument("--write", action="store_true")
    flags = parser.parse_args()
    program = [*shlex.split(flags.runner), os.path.abspath(flags.lockstep)]
    with open(KNOWN, encoding="utf-8") as file:
        known = json.load(file)
    hashes = known["tiny" if flags.tiny else "whole"]
    wrong = runs = 0
    with tempfile.TemporaryDirectory(prefix="lockstep-bits-") as folder:
        write_images(folder, 48 if flags.tiny else 320)  # 3 or 20 steps
        for model in MODELS:
            for condition in conditions(program, flags.other, flags.runner):
                name = f"{model}, {condition.name}"
                if not re.search(flags.only, name) or (
                        flags.but and re.search(flags.but, name)):
                    continue
                found = train(program, model, flags.tiny, condition, folder)
                runs += 1
                if flags.write and found is not None:
                    hashes.setdefault(model, found)
                same = found is not None and found == hashes.get(model)
                wrong += not same
                print(f"{found} {'same' if same else 'DIFFERS'} {name}", flush=True)
    if flags.write:
        with open(KNOWN, "w", encoding="utf-8") as file:
            json.dump(known, file, indent=2)
            file.write("\n")
    print(f"{runs} runs, {wrong} differ from {KNOWN}")
    sys.exit(1 if wrong or runs == 0 else 0)


if __name__ == "__main__":
    main()
