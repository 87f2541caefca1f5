#!/usr/bin/env python3
"""Writes op_vectors.txt: what PyTorch computes, in double precision.

    python3 make_op_vectors.py > op_vectors.txt        (needs PyTorch, nothing else)

vectors.py says what the lines are; test_parity_ops.c compares.
"""

import torch
import torch.nn.functional as F

from vectors import backward, draw, emit, leaf, values


def one(name, shape, function, scale=1.0):
    x = leaf(1, shape, scale)
    backward(name, function(x), {"x": x})


def two(name, shape, other, function, scale=1.0):
    x, w = leaf(1, shape), leaf(2, other, scale)
    backward(name, function(x, w), {"x": x, "weight": w})


# ---- element-wise ----------------------------------------------------------


def broadcasting():
    two("add", (4, 5, 6), (5, 1), lambda x, w: x + w)
    two("sub", (4, 1, 6), (5, 1), lambda x, w: x - w)
    two("mul", (3, 7, 5, 5), (7, 1, 1), lambda x, w: x * w)
    two("div", (6, 70), (6, 1), lambda x, w: x / (w + 2.5))
    one("expand", (3, 1, 4), lambda x: x.expand(2, 3, 5, 4))


def functions():
    one("exp", (5, 33), torch.exp, 8.0)
    one("log", (5, 33), lambda x: torch.log(x + 1.5))
    one("sqrt", (5, 33), lambda x: torch.sqrt(x + 1.5))
    one("tanh", (5, 33), torch.tanh, 4.0)
    one("sigmoid", (5, 33), torch.sigmoid, 8.0)


# ---- axes ------------------------------------------------------------------


def axes():
    shape = (3, 4, 5, 6)
    one("sum_axes", shape, lambda x: x.sum((0, 2)))
    one("mean_axes", shape, lambda x: x.mean((2, 3), keepdim=True))
    # Multiples of 1/4: many are equal, and share the gradient.
    one("max_axes", shape, lambda x: (torch.round(x * 4).detach() / 4
                                      + (x - x.detach())).amax((1, 3)))
    one("softmax", shape, lambda x: x.softmax(1), 4.0)
    one("log_softmax", shape, lambda x: x.log_softmax(2), 4.0)


def cuts():
    two("concat", (2, 3, 5), (2, 4, 5), lambda x, w: torch.cat((x, w, x), 1))
    one("slice", (4, 11, 3), lambda x: x[:, 1:10:3])


# ---- products --------------------------------------------------------------


def products():
    two("matmul", (2, 3, 17, 8), (2, 3, 8, 9), torch.matmul, 0.25)
    two("matmul_weight", (4, 5, 8), (8, 9), torch.matmul, 0.25)
    two("matmul_left", (6, 8), (5, 8, 7), torch.matmul, 0.25)
    two("matmul_broadcast", (3, 1, 6, 8), (2, 8, 7), torch.matmul, 0.25)
    two("matmul_turned", (2, 17, 3, 8), (2, 17, 3, 8),
        lambda x, w: x.transpose(1, 2) @ w.permute(0, 2, 3, 1), 0.25)


# ---- losses ----------------------------------------------------------------


def loss(name, y, inputs):
    emit(name + ".y", y)
    y.backward()
    for key, tensor in inputs.items():
        emit(f"{name}.d{key}", tensor.grad)


def losses():
    x = leaf(1, (12, 10), 4.0)
    labels = torch.tensor([k % 10 for k in draw(2, 12)])
    loss("smooth", F.cross_entropy(x, labels, label_smoothing=0.1), {"x": x})
    x, t = leaf(1, (12, 10), 8.0), leaf(2, (12, 10))
    y = F.binary_cross_entropy_with_logits(x, t)
    loss("bce_with_logits", y, {"x": x, "weight": t})


# ---- an MLP-Mixer ----------------------------------------------------------

BATCH, SIDE, PATCH, D, BLOCKS, CLASSES = 3, 12, 4, 20, 2, 7
TOKENS, TOKENS_FF, D_FF = (SIDE // PATCH) ** 2, 11, 30


def mixer():
    p = {}

    def add(name, shape, scale=0.25):
        p[name] = leaf(100 + len(p), shape, scale)

    def dense(x, name):
        return F.linear(x, p[name + ".weight"], p[name + ".bias"])

    def norm(x, name):
        return F.layer_norm(x, (D,), p[name + ".weight"], p[name + ".bias"])

    def add_dense(name, out, inner):
        add(name + ".weight", (out, inner))
        add(name + ".bias", (out,))

    def add_norm(name):
        add(name + ".weight", (D,), 1.0)
        add(name + ".bias", (D,))

    add_dense("patch", D, 3 * PATCH * PATCH)
    for i in range(BLOCKS):
        add_norm(f"{i}.ln1")
        add_dense(f"{i}.tokens1", TOKENS_FF, TOKENS)
        add_dense(f"{i}.tokens2", TOKENS, TOKENS_FF)
        add_norm(f"{i}.ln2")
        add_dense(f"{i}.channels1", D_FF, D)
        add_dense(f"{i}.channels2", D, D_FF)
    add_norm("ln")
    add_dense("head", CLASSES, D)

    def mlp(x, name):
        h = F.gelu(dense(x, name + "1"), approximate="tanh")
        return dense(h, name + "2")

    n = SIDE // PATCH
    x = values(50, (BATCH, 3, SIDE, SIDE))
    x = x.reshape(BATCH, 3, n, PATCH, n, PATCH)
    x = x.permute(0, 2, 4, 1, 3, 5).reshape(BATCH, TOKENS, -1)
    x = dense(x, "patch")
    for i in range(BLOCKS):
        h = norm(x, f"{i}.ln1").transpose(1, 2)
        x = x + mlp(h, f"{i}.tokens").transpose(1, 2)
        x = x + mlp(norm(x, f"{i}.ln2"), f"{i}.channels")
    logits = dense(norm(x, "ln").mean(1), "head")
    labels = torch.tensor([k % CLASSES for k in draw(51, BATCH)])
    y = F.cross_entropy(logits, labels, label_smoothing=0.1)
    y.backward()
    emit("mixer.logits", logits)
    emit("mixer.loss", y)
    for key, tensor in p.items():
        emit("mixer.d" + key, tensor.grad)


def main():
    broadcasting()
    functions()
    axes()
    cuts()
    products()
    losses()
    mixer()


if __name__ == "__main__":
    main()
