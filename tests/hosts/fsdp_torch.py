#!/usr/bin/env python3
"""One rank of PyTorch that trains the model of `lockstep train lm --size SIZE`.

    fsdp_torch.py --size small --data tokens.u16 --steps 4 --rank 0 --ranks 2

Several ranks divide the model by FSDP2 over gloo and meet at port 29500 of host h0.
A single rank trains the plain model. Rank 0 prints what speed_fsdp.py reads from
Lockstep, too: parameters, tokens per step, and the loss after each step.
"""

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F

# d_model, d_ff, layers, heads, as in LSI_TRANSFORMER_SIZE_LIST
SIZES = {"tiny": (256, 1024, 4, 4), "small": (768, 3072, 12, 12)}
VOCABULARY, THETA, EPS = 10000, 10000, 1e-5


def rotate(x, angles):
    a, b = x.chunk(2, -1)
    cos, sin = angles
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


class Block(nn.Module):
    def __init__(self, d, inner, heads):
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.RMSNorm(d, EPS), nn.RMSNorm(d, EPS)
        self.qkv, self.out = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)
        self.gate, self.up = (nn.Linear(d, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, d, bias=False)

    def forward(self, x, angles):
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for part in self.qkv(self.before(x)).chunk(3, -1))
        seen = F.scaled_dot_product_attention(rotate(q, angles), rotate(k, angles), v,
                                              is_causal=True)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        y = self.between(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Model(nn.Module):
    """RMSNorm, rotary positions, SwiGLU, no biases; the two tables are not tied."""

    def __init__(self, size, context):
        super().__init__()
        d, inner, layers, heads = SIZES[size]
        self.embedding = nn.Embedding(VOCABULARY, d)
        self.blocks = nn.ModuleList(Block(d, inner, heads) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(d, EPS), nn.Linear(d, VOCABULARY, bias=False)
        half = d // heads // 2
        angles = torch.outer(torch.arange(context), THETA ** (-torch.arange(half) / half))
        self.angles = angles.cos(), angles.sin()

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, self.angles)
        return self.head(self.norm(x))


def divide(model, prefetch):
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
    if prefetch:
        for i, block in enumerate(model.blocks):
            block.set_modules_to_forward_prefetch(list(model.blocks[i + 1:i + 1 + prefetch]))
            block.set_modules_to_backward_prefetch(
                list(model.blocks[max(i - prefetch, 0):i])[::-1])


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--data", required=True, help="tokens of 16 bits")
    parser.add_argument("--batch", type=int, default=4, help="sequences of a rank")
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--compile", action="store_true", help="compile the blocks")
    parser.add_argument("--prefetch", type=int, default=0, metavar="N",
                        help="blocks that FSDP2 gathers ahead (0: its own choice)")
    return parser.parse_args()


def main():
    flags = parse()
    rows = flags.batch * flags.ranks
    data = torch.from_file(flags.data, size=flags.steps * rows * flags.context + 1,
                           dtype=torch.uint16).long()
    torch.manual_seed(0)
    model = Model(flags.size, flags.context)
    parameters = sum(p.numel() for p in model.parameters())
    if flags.compile:
        for block in model.blocks:
            block.compile()
    if flags.ranks > 1:
        dist.init_process_group("gloo", "tcp://h0:29500", rank=flags.rank,
                                world_size=flags.ranks)
        divide(model, flags.prefetch)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95),
                                  eps=1e-8, weight_decay=0.01, fused=True)
    if flags.rank == 0:
        print(f"lm: {parameters} parameters; {rows * flags.context} per step", flush=True)
    part = flags.batch * flags.context
    for step in range(flags.steps):
        begin = (step * flags.ranks + flags.rank) * part
        tokens, targets = data[begin:begin + part], data[begin + 1:begin + part + 1]
        loss = F.cross_entropy(model(tokens.view(flags.batch, -1)).flatten(0, 1), targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if flags.rank == 0:
            print(f"step {step + 1}/{flags.steps}: loss {loss.item():.4f}", flush=True)
    if flags.ranks > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
