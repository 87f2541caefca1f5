#!/usr/bin/env python3
"""Writes image_vectors.txt: what PyTorch computes, in double precision.

    python3 make_image_vectors.py > image_vectors.txt    (needs PyTorch)

vectors.py says what the lines are; test_parity_images.c compares.
"""

import torch.nn.functional as F

from vectors import backward, emit, leaf, values


def conv2d(name, shape, filters, **options):
    x, w = leaf(1, shape), leaf(2, filters, 0.125)
    b = leaf(3, filters[:1], 0.125)
    backward(name, F.conv2d(x, w, b, **options),
             {"x": x, "weight": w, "bias": b})


def batch_norm():
    """relu(batch_norm(x) + residual), and the running statistics."""
    x, w, b = leaf(1, (4, 16, 5, 3)), leaf(2, (16,)), leaf(3, (16,))
    residual = leaf(4, (4, 16, 5, 3))
    mean, var = values(5, (16,)), values(6, (16,)).abs()
    y = F.batch_norm(x, mean, var, w, b, training=True, momentum=0.1, eps=1e-5)
    backward("batch_norm", F.relu(y + residual),
             {"x": x, "weight": w, "bias": b, "residual": residual})
    emit("batch_norm.mean", mean)
    emit("batch_norm.var", var)
    y = F.batch_norm(x, mean, var, w, b, training=False, eps=1e-5)
    emit("batch_norm.eval", y)


def global_avg_pool2d():
    x = leaf(1, (3, 16, 5, 3))
    backward("global_avg_pool2d", F.adaptive_avg_pool2d(x, 1).flatten(1),
             {"x": x})


def windows():
    x = leaf(1, (2, 16, 9, 7))
    backward("avg_pool2d", F.avg_pool2d(x, 3, stride=2, padding=1), {"x": x})
    x = leaf(1, (2, 16, 9, 7))
    backward("max_pool2d", F.max_pool2d(x, 3, stride=2, padding=1), {"x": x})


def group_norm():
    x, w, b = leaf(1, (3, 12, 5, 4)), leaf(2, (12,)), leaf(3, (12,))
    backward("group_norm", F.group_norm(x, 3, w, b, eps=1e-5),
             {"x": x, "weight": w, "bias": b})


def main():
    conv2d("conv2d_grouped", (2, 32, 7, 6), (32, 16, 3, 3), groups=2, padding=1)
    conv2d("conv2d_depthwise", (2, 16, 9, 8), (16, 1, 3, 3), groups=16,
           padding=1, stride=2)
    conv2d("conv2d_dilated", (2, 5, 9, 8), (6, 5, 3, 3), dilation=2, padding=1)
    batch_norm()
    global_avg_pool2d()
    windows()
    group_norm()


if __name__ == "__main__":
    main()
