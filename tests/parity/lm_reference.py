#!/usr/bin/env python3
"""Trains a language model in PyTorch as `lockstep train lm` did, and compares.

    lockstep train lm SHAPE --data TEXT --steps 0 --save init.safetensors
    lockstep train lm SHAPE --data TEXT -n 2 --batch-size 4 --steps 20 \\
        --clip-norm 0 --beta2 0.999 --init init.safetensors --metrics ours.jsonl
    python3 lm_reference.py --data TEXT --batch-size 8 \\
        --init init.safetensors --metrics ours.jsonl

--batch-size is that of all ranks together. The weights, the seed's pieces of
the text and the learning rate of each step (from the metrics) are the same, the
rest is PyTorch's. Prints both losses of each step; exits with 1 if they differ
by more than --bound.
"""

import argparse
import json
import struct
import sys

import torch
import torch.nn.functional as F

from make_transformer_vectors import rope_forward

MASK32, MASK64 = 2**32 - 1, 2**64 - 1
BATCHES = 0x6261746368657300


def philox(key, block, sub):
    """Four 32-bit words: Philox 4x32-10 as lib/base/rng.c calls it."""
    c = [block & MASK32, block >> 32, sub & MASK32, sub >> 32]
    k = [key & MASK32, key >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & MASK32,
             (a >> 32) ^ c[3] ^ k[1], a & MASK32]
        k = [(k[0] + 0x9E3779B9) & MASK32, (k[1] + 0xBB67AE85) & MASK32]
    return c


def mixed_key(seed, stream):
    stream = ((stream ^ stream >> 30) * 0xBF58476D1CE4E5B9) & MASK64
    stream = ((stream ^ stream >> 27) * 0x94D049BB133111EB) & MASK64
    return (seed + (stream ^ stream >> 31)) & MASK64


def below(key, sub, i, bound):
    rejected = (2**64 - bound) % bound
    for attempt in range(256):
        words = philox(key, i + (attempt << 56), sub)
        for lane in (0, 2):
            product = (words[lane] | words[lane + 1] << 32) * bound
            if product & MASK64 >= rejected:
                return product >> 64
    raise RuntimeError("never happens")


def read_safetensors(path):
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
        data = bytearray(file.read())
    config = json.loads(header.pop("__metadata__")["transformer"])
    tensors = {}
    for name, row in header.items():
        begin, end = row["data_offsets"]
        flat = torch.frombuffer(data[begin:end], dtype=torch.float32)
        tensors[name] = flat.clone().reshape(row["shape"]).requires_grad_(True)
    return config, tensors


def pieces(text, args, config, step):
    """The sequences of all ranks in a step, in the order of ranks."""
    length = config["context"]
    end = len(text) - len(text) // 10
    key = mixed_key(args.seed, BATCHES)
    places = [below(key, step, row, end - length)
              for row in range(args.batch_size)]
    return torch.stack([text[p:p + length + 1] for p in places])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("--data", "--init", "--metrics"):
        parser.add_argument(name, required=True)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--weight-decay", type=float, default=0.01)
    parser.add_argument("--bound", type=float, default=1e-3)
    args = parser.parse_args()
    config, p = read_safetensors(args.init)
    with open(args.data, "rb") as file:
        text = torch.tensor(list(file.read()))
    with open(args.metrics, encoding="utf-8") as file:
        steps = [row for row in map(json.loads, file) if row["event"] == "step"]
    optimizer = torch.optim.AdamW(p.values(), weight_decay=args.weight_decay)
    worst = 0.0
    for row in steps:
        rows = pieces(text, args, config, row["step"] - 1)
        logits = rope_forward(p, rows[:, :-1], config["layers"],
                              config["heads"],
                              config.get("norm_eps") or 1e-5)
        loss = F.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.param_groups[0]["lr"] = row["lr"]
        optimizer.step()
        worst = max(worst, abs(loss.item() - row["loss"]))
        print(f"step {row['step']}: ours {row['loss']:.6f}, "
              f"PyTorch's {loss.item():.6f}")
    print(f"largest difference {worst:.2e}, bound {args.bound:g}")
    sys.exit(worst > args.bound)


if __name__ == "__main__":
    main()
