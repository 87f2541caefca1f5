#!/usr/bin/env python3
"""Writes transformer_vectors.txt: what PyTorch computes, in double precision.

    python3 make_transformer_vectors.py > transformer_vectors.txt

Needs PyTorch, nothing else. vectors.py says what the lines are;
test_parity_transformer.c compares.
"""

import torch
import torch.nn.functional as F

from vectors import backward, draw, emit, leaf

EPS = 1e-5


def tokens(seed, count, vocabulary):
    return torch.tensor([k % vocabulary for k in draw(seed, count)])


# ---- operations ------------------------------------------------------------


def embedding():
    x = leaf(1, (11, 6))
    backward("embedding", F.embedding(tokens(2, 20, 11), x), {"x": x})


def rms_norm(x, w, eps=EPS):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * w


def norms():
    x, w = leaf(1, (9, 40)), leaf(2, (40,))
    backward("rms_norm", rms_norm(x, w), {"x": x, "weight": w})
    x, w, b = leaf(1, (9, 40)), leaf(2, (40,)), leaf(3, (40,))
    y = F.layer_norm(x, (40,), w, b, EPS)
    backward("layer_norm", y, {"x": x, "weight": w, "bias": b})


def rope(x, halves=False):
    """x (batch, length, heads, d)."""
    length, d = x.shape[1], x.shape[3]
    k = torch.arange(0, d, 2, dtype=torch.float64)
    angle = torch.outer(torch.arange(length).double(), 10000.0 ** (-k / d))
    c, s = (t[:, None].to(x.dtype) for t in (angle.cos(), angle.sin()))
    a, b = x[..., ::2], x[..., 1::2]
    a, b = a * c - b * s, a * s + b * c
    return torch.cat((a, b), -1) if halves else torch.stack((a, b), -1).flatten(-2)


def rotations():
    for name, halves in (("rope", False), ("rope_halves", True)):
        x = leaf(1, (2, 7, 3, 8))
        backward(name, rope(x, halves), {"x": x})


def activations():
    a, b = leaf(1, (5, 33), 8.0), leaf(2, (5, 33))
    backward("swiglu", F.silu(a) * b, {"x": a, "weight": b})
    a = leaf(1, (5, 33), 8.0)
    backward("gelu", F.gelu(a, approximate="tanh"), {"x": a})


# ---- whole models ----------------------------------------------------------

BATCH, LENGTH, CONTEXT, VOCABULARY = 2, 9, 12, 23
D, FF, LAYERS, HEADS = 16, 24, 2, 2

# Three heads of 32; an eps that has an effect; a separate output head.
OWN = {"d": 96, "heads": 3, "eps": 1e-2, "untied": True}


class Parameters(dict):
    """Leaves in order of definition, each drawn from a different seed."""

    def add(self, name, shape, scale=0.25):
        self[name] = leaf(100 + len(self), shape, scale)


def attend(q, k, v, heads, halves=None):
    q, k, v = (t.unflatten(-1, (heads, -1)) for t in (q, k, v))
    if halves is not None:
        q, k = rope(q, halves), rope(k, halves)
    q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return o.transpose(1, 2).flatten(-2)


def rope_forward(p, ids, layers, heads, eps=EPS):
    """The logits of a model with the parameters p, by our names."""
    x = F.embedding(ids, p["token_embeddings.weight"])
    for i in range(layers):
        def product(x, name):
            return x @ p[f"layers.{i}.{name}.weight"].T

        h = rms_norm(x, p[f"layers.{i}.ln1.weight"], eps)
        o = attend(*(product(h, f"attn.{t}_proj") for t in "qkv"), heads,
                   halves=False)
        x = x + product(o, "attn.output_proj")
        h = rms_norm(x, p[f"layers.{i}.ln2.weight"], eps)
        inner = F.silu(product(h, "ffn.w1")) * product(h, "ffn.w3")
        x = x + product(inner, "ffn.w2")
    return rms_norm(x, p["ln_final.weight"], eps) @ p["lm_head.weight"].T


def rope_model(eps=EPS):
    p = Parameters()
    p.add("token_embeddings.weight", (VOCABULARY, D), 1.0)
    for i in range(LAYERS):
        for part in "qkv":
            p.add(f"layers.{i}.attn.{part}_proj.weight", (D, D))
        p.add(f"layers.{i}.attn.output_proj.weight", (D, D))
        p.add(f"layers.{i}.ffn.w1.weight", (FF, D))
        p.add(f"layers.{i}.ffn.w2.weight", (D, FF))
        p.add(f"layers.{i}.ffn.w3.weight", (FF, D))
        p.add(f"layers.{i}.ln1.weight", (D,), 1.0)
        p.add(f"layers.{i}.ln2.weight", (D,), 1.0)
    p.add("ln_final.weight", (D,), 1.0)
    p.add("lm_head.weight", (VOCABULARY, D))
    return p, lambda ids: rope_forward(p, ids, LAYERS, HEADS, eps)


def gpt2_model(d=D, heads=HEADS, eps=EPS, untied=False):
    p = Parameters()
    p.add("wte.weight", (VOCABULARY, d))
    p.add("wpe.weight", (CONTEXT, d))
    for i in range(LAYERS):
        def add_both(name, shape, scale=0.25):
            p.add(f"h.{i}.{name}.weight", shape, scale)
            p.add(f"h.{i}.{name}.bias", shape[:1])

        add_both("ln_1", (d,), 1.0)
        add_both("attn.c_attn", (3 * d, d))
        add_both("attn.c_proj", (d, d))
        add_both("ln_2", (d,), 1.0)
        add_both("mlp.c_fc", (FF, d))
        add_both("mlp.c_proj", (d, FF))
    p.add("ln_f.weight", (d,), 1.0)
    p.add("ln_f.bias", (d,))
    if untied:
        p.add("lm_head.weight", (VOCABULARY, d))

    def norm(x, name):
        return F.layer_norm(x, (d,), p[name + ".weight"], p[name + ".bias"], eps)

    def linear(x, name):
        return F.linear(x, p[name + ".weight"], p[name + ".bias"])

    def forward(ids):
        x = F.embedding(ids, p["wte.weight"]) + p["wpe.weight"][:ids.shape[1]]
        for i in range(LAYERS):
            h = linear(norm(x, f"h.{i}.ln_1"), f"h.{i}.attn.c_attn")
            x = x + linear(attend(*h.split(d, -1), heads), f"h.{i}.attn.c_proj")
            h = linear(norm(x, f"h.{i}.ln_2"), f"h.{i}.mlp.c_fc")
            h = F.gelu(h, approximate="tanh")
            x = x + linear(h, f"h.{i}.mlp.c_proj")
        head = p["lm_head.weight" if untied else "wte.weight"]
        return norm(x, "ln_f") @ head.T

    return p, forward


def model(name, made):
    p, forward = made
    ids = tokens(50, BATCH * LENGTH, VOCABULARY).reshape(BATCH, LENGTH)
    labels = tokens(51, BATCH * LENGTH, VOCABULARY)
    logits = forward(ids)
    loss = F.cross_entropy(logits.flatten(0, 1), labels)
    loss.backward()
    emit(name + ".logits", logits)
    emit(name + ".loss", loss)
    for key, tensor in p.items():
        emit(f"{name}.d{key}", tensor.grad)


def main():
    embedding()
    norms()
    rotations()
    activations()
    model("rope_model", rope_model())
    model("gpt2_model", gpt2_model())
    model("rope_eps_model", rope_model(OWN["eps"]))
    model("gpt2_own_model", gpt2_model(**OWN))


if __name__ == "__main__":
    main()
