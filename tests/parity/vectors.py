"""Code that the scripts that write vectors share; not a script itself.

Inputs are not stored: both sides draw them from the same linear congruential
generator, in values that f32 holds exactly. Of each result a line says

    name  count  largest magnitude  8 elements  4 sums with random signs

which pins it down and keeps the file small.
"""

import torch

MULTIPLIER, INCREMENT = 6364136223846793005, 1442695040888963407  # mod 2^64
SAMPLES, SUMS = 8, 4


def draw(seed, count):
    """count integers of 24 bits."""
    powers = torch.full((count,), MULTIPLIER, dtype=torch.int64).cumprod(0)
    sums = torch.cat([torch.ones(min(count, 1), dtype=torch.int64),
                      powers[:-1]]).cumsum(0)
    return ((powers * seed + sums * INCREMENT) >> 40 & 0xffffff).tolist()


def values(seed, shape, scale=1.0):
    """Multiples of 2^-23 in [-1, 1), times a power of two."""
    count = 1
    for extent in shape:
        count *= extent
    x = torch.tensor(draw(seed, count), dtype=torch.float64)
    return ((x - 2**23) / 2**23 * scale).reshape(shape)


def signs(seed, count):
    return 1.0 - 2.0 * (torch.tensor(draw(seed, count)) >> 23).double()


def emit(name, tensor):
    v = tensor.detach().double().reshape(-1)
    n = v.numel()
    samples = [v[j * (n - 1) // (SAMPLES - 1)].item() for j in range(SAMPLES)]
    sums = [(v * signs(1000 + j, n)).sum().item() for j in range(SUMS)]
    numbers = [v.abs().max().item()] + samples + sums
    print(name, n, " ".join("%.12g" % x for x in numbers))


def leaf(seed, shape, scale=1.0):
    return values(seed, shape, scale).requires_grad_(True)


def backward(name, y, inputs):
    """Gradients of the sum of y with weights drawn from the generator."""
    emit(name + ".y", y)
    (y * values(99, y.shape)).sum().backward()
    for key, tensor in inputs.items():
        emit(name + ".d" + key, tensor.grad)
