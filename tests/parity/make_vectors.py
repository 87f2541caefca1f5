#!/usr/bin/env python3
"""Writes vectors.txt: what PyTorch computes, in double precision.

    python3 make_vectors.py > vectors.txt        (needs PyTorch, nothing else)

vectors.py says what the lines are; test_parity.c compares.
"""

import torch
import torch.nn.functional as F

from vectors import backward, draw, emit, leaf, values

ADAMW_STEPS = 10


def conv2d(name, shape, filters, stride, padding, relu):
    x, w = leaf(1, shape), leaf(2, filters, 0.125)
    b = leaf(3, filters[:1], 0.125)
    y = F.conv2d(x, w, b, stride=stride, padding=padding)
    backward(name, F.relu(y) if relu else y, {"x": x, "weight": w, "bias": b})


def linear():
    x, w, b = leaf(1, (6, 19)), leaf(2, (11, 19), 0.25), leaf(3, (11,))
    backward("linear", F.linear(x, w, b), {"x": x, "weight": w, "bias": b})


def max_pool2d():
    x = leaf(1, (2, 5, 9, 7))
    backward("max_pool2d", F.max_pool2d(x, 2), {"x": x})


def batch_norm():
    x, w, b = leaf(1, (13, 10)), leaf(2, (10,)), leaf(3, (10,))
    mean, var = values(4, (10,)), values(5, (10,)).abs()
    y = F.batch_norm(x, mean, var, w, b, training=True, momentum=0.1, eps=1e-5)
    backward("batch_norm", y, {"x": x, "weight": w, "bias": b})
    emit("batch_norm.mean", mean)
    emit("batch_norm.var", var)
    y = F.batch_norm(x, mean, var, w, b, training=False, eps=1e-5)
    emit("batch_norm.eval", y)


def cross_entropy():
    x = leaf(1, (12, 10), 4.0)
    labels = torch.tensor([k % 10 for k in draw(2, 12)])
    loss = F.cross_entropy(x, labels)
    emit("cross_entropy.y", loss)
    loss.backward()
    emit("cross_entropy.dx", x.grad)


def adamw():
    """torch.optim.AdamW, and the short form with the decay last."""
    options = {"lr": 0.1, "betas": (0.9, 0.999), "eps": 1e-8,
               "weight_decay": 0.1}
    p = leaf(1, (257,))
    optimizer = torch.optim.AdamW([p], **options)
    for step in range(ADAMW_STEPS):
        p.grad = values(10 + step, (257,))
        optimizer.step()
    emit("adamw.decay_first", p)
    p = values(1, (257,))
    m, v = torch.zeros_like(p), torch.zeros_like(p)
    lr, (b1, b2) = options["lr"], options["betas"]
    for t in range(1, ADAMW_STEPS + 1):
        g = values(10 + t - 1, (257,))
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        a = lr * (1 - b2 ** t) ** 0.5 / (1 - b1 ** t)
        p = p - a * m / (v.sqrt() + options["eps"])
        p = p - lr * options["weight_decay"] * p
    emit("adamw.decay_last", p)


PARAMETERS = {  # name: (shape, scale), in order of definition
    "conv1.weight": ((32, 3, 3, 3), 0.25), "conv1.bias": ((32,), 0.25),
    "conv2.weight": ((32, 32, 3, 3), 0.0625), "conv2.bias": ((32,), 0.0625),
    "fc1.weight": ((128, 6272), 2.0**-6), "fc1.bias": ((128,), 2.0**-6),
    "bn.weight": ((128,), 1.0), "bn.bias": ((128,), 1.0),
    "fc2.weight": ((100, 128), 0.125), "fc2.bias": ((100,), 0.125),
}
BATCH = 4


def network(seed):
    """The CIFAR-100 network without dropout, and the distance of the nearest kink. A kink is
    an input of a relu near 0, or a window's two largest values near each
    other, where rounding could choose another branch."""
    p = {name: leaf(seed + i, *spec)
         for i, (name, spec) in enumerate(PARAMETERS.items())}
    x = leaf(seed + 50, (BATCH, 3, 32, 32))
    labels = torch.tensor([k % 100 for k in draw(seed + 51, BATCH)])
    a1 = F.conv2d(x, p["conv1.weight"], p["conv1.bias"])
    a2 = F.conv2d(F.relu(a1), p["conv2.weight"], p["conv2.bias"])
    windows = F.unfold(F.relu(a2).reshape(-1, 1, 28, 28), 2, stride=2)
    top = windows.topk(2, dim=1).values
    gaps = (top[:, 0] - top[:, 1])[top[:, 0] > 0]
    h = F.max_pool2d(F.relu(a2), 2).flatten(1)
    h = F.linear(h, p["fc1.weight"], p["fc1.bias"])
    a3 = F.batch_norm(h, torch.zeros(128).double(), torch.ones(128).double(),
                      p["bn.weight"], p["bn.bias"], training=True, eps=1e-5)
    logits = F.linear(F.relu(a3), p["fc2.weight"], p["fc2.bias"])
    margin = min(t.abs().min().item() for t in (a1, a2, a3, gaps))
    return p, x, logits, F.cross_entropy(logits, labels), margin


def cifar_network():
    best = max(range(100, 4100, 100), key=lambda seed: network(seed)[4])
    p, x, logits, loss, _ = network(best)
    print("network.seed", best)
    loss.backward()
    emit("network.logits", logits)
    emit("network.loss", loss)
    emit("network.dx", x.grad)
    for name, tensor in p.items():
        emit("network.d" + name, tensor.grad)


conv2d("conv2d_strided", (2, 3, 8, 9), (5, 3, 3, 3), 2, 1, False)
conv2d("conv2d_first", (2, 3, 12, 12), (32, 3, 3, 3), 1, 0, True)
conv2d("conv2d_middle", (4, 32, 14, 14), (32, 32, 3, 3), 1, 0, False)
linear()
max_pool2d()
batch_norm()
cross_entropy()
adamw()
cifar_network()
