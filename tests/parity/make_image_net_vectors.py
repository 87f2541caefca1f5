#!/usr/bin/env python3
"""Writes image_net_vectors.txt: networks for images in PyTorch, double precision.

    python3 make_image_net_vectors.py > image_net_vectors.txt   (needs PyTorch only)

The networks are written out here, with the names of torchvision's parameters,
so that they do not depend on its version. vectors.py says what the lines are;
test_parity_image_nets.c compares.
"""

import torch
import torch.nn.functional as F

from vectors import draw, emit, leaf, values

CLASSES, SMOOTHING, SEEDS = 7, 0.125, range(100, 2100, 100)
BN_EPS, MOMENTUM = 1e-5, 0.1


def labels(seed, count):
    return torch.tensor([k % CLASSES for k in draw(seed, count)])


class Network:
    """Parameters by name, drawn in the order in which they are first asked for:
    the scale of weights is chosen to keep activations about the same."""

    def __init__(self):
        self.params, self.buffers = {}, {}
        self.training, self.margin = True, float("inf")

    def param(self, name, shape, scale):
        if name not in self.params:
            self.params[name] = leaf(1 + len(self.params), shape, scale)
        return self.params[name]

    def relu(self, x):
        """Remembers how near a kink it came: there rounding takes sides."""
        self.margin = min(self.margin, x.detach().abs().min().item())
        return F.relu(x)


# ---- ResNet-18 --------------------------------------------------------------

class ResNet(Network):
    def conv(self, name, x, out, kernel, stride):
        shape = (out, x.shape[1], kernel, kernel)
        w = self.param(name + ".weight", shape, 0.125)
        return F.conv2d(x, w, stride=stride, padding=kernel // 2)

    def bn(self, name, x):
        c = x.shape[1]
        w = self.param(name + ".weight", (c,), 1.0)
        b = self.param(name + ".bias", (c,), 0.5)
        mean = self.buffers.setdefault(name + ".running_mean",
                                       torch.zeros(c).double())
        var = self.buffers.setdefault(name + ".running_var",
                                      torch.ones(c).double())
        return F.batch_norm(x, mean, var, w, b, self.training, MOMENTUM, BN_EPS)

    def block(self, name, x, out):
        stride = 2 if x.shape[1] != out else 1
        y = self.conv(name + ".conv1", x, out, 3, stride)
        y = self.relu(self.bn(name + ".bn1", y))
        y = self.bn(name + ".bn2", self.conv(name + ".conv2", y, out, 3, 1))
        if stride == 2:
            x = self.conv(name + ".downsample.0", x, out, 1, 2)
            x = self.bn(name + ".downsample.1", x)
        return self.relu(y + x)

    def logits(self, x):
        small = x.shape[2] <= 64
        x = self.conv("conv1", x, 64, 3 if small else 7, 1 if small else 2)
        x = self.relu(self.bn("bn1", x))
        x = x if small else F.max_pool2d(x, 3, 2, 1)
        for stage in range(4):
            for i in range(2):
                x = self.block(f"layer{stage + 1}.{i}", x, 64 << stage)
        return F.linear(x.mean((2, 3)), self.param("fc.weight", (CLASSES, 512),
                                                   0.125),
                        self.param("fc.bias", (CLASSES,), 1.0))


def resnet(name, shape, wanted):
    """The input furthest from any kink, its loss, and some gradients."""
    def margin(seed):
        net = ResNet()
        with torch.no_grad():
            net.logits(values(seed, shape))
        return net.margin
    seed = max(SEEDS, key=margin)
    print(name + ".seed", seed)
    net, x = ResNet(), values(seed, shape)
    logits = net.logits(x)
    loss = F.cross_entropy(logits, labels(seed + 1, shape[0]))
    loss.backward()
    emit(name + ".logits", logits)
    emit(name + ".loss", loss)
    for key in wanted:
        emit(f"{name}.d{key}", net.params[key].grad)
    for key in ("bn1.running_mean", "layer4.1.bn2.running_var"):
        emit(f"{name}.{key}", net.buffers[key])
    net.training = False
    emit(name + ".eval", net.logits(x))


# ---- a vision transformer ---------------------------------------------------

WIDTH, HEADS, INNER, BLOCKS, LN_EPS = 192, 3, 768, 6, 1e-6


class ViT(Network):
    def linear(self, name, x, out, weight="weight", bias="bias"):
        w = self.param(name + weight, (out, x.shape[-1]), 0.0625)
        return F.linear(x, w, self.param(name + bias, (out,), 0.25))

    def ln(self, name, x):
        w = self.param(name + ".weight", (WIDTH,), 1.0)
        b = self.param(name + ".bias", (WIDTH,), 0.25)
        return F.layer_norm(x, (WIDTH,), w, b, LN_EPS)

    def attend(self, name, x):
        n, t, _ = x.shape
        qkv = self.linear(name + ".", x, 3 * WIDTH, "in_proj_weight",
                          "in_proj_bias")
        q, k, v = (part.reshape(n, t, HEADS, -1).transpose(1, 2)
                   for part in qkv.chunk(3, dim=-1))
        scores = q @ k.transpose(2, 3) / (WIDTH // HEADS) ** 0.5
        y = (scores.softmax(-1) @ v).transpose(1, 2).reshape(n, t, WIDTH)
        return self.linear(name + ".out_proj.", y, WIDTH)

    def block(self, name, x):
        x = x + self.attend(name + ".self_attention", self.ln(name + ".ln_1", x))
        y = self.linear(name + ".mlp.0.", self.ln(name + ".ln_2", x), INNER)
        y = F.gelu(y, approximate="tanh")
        return x + self.linear(name + ".mlp.3.", y, WIDTH)

    def logits(self, x, patch):
        token = self.param("class_token", (1, 1, WIDTH), 1.0)
        w = self.param("conv_proj.weight", (WIDTH, x.shape[1], patch, patch),
                       0.25)
        x = F.conv2d(x, w, self.param("conv_proj.bias", (WIDTH,), 0.25),
                     stride=patch).flatten(2).transpose(1, 2)
        x = torch.cat([token.expand(len(x), 1, WIDTH), x], 1)
        x = x + self.param("encoder.pos_embedding", (1, x.shape[1], WIDTH), 0.5)
        for i in range(BLOCKS):
            x = self.block(f"encoder.layers.encoder_layer_{i}", x)
        return self.linear("heads.head.", self.ln("encoder.ln", x)[:, 0],
                           CLASSES)


def vit(name, shape, patch, wanted):
    net = ViT()
    logits = net.logits(values(100, shape), patch)
    loss = F.cross_entropy(logits, labels(101, shape[0]),
                           label_smoothing=SMOOTHING)
    loss.backward()
    emit(name + ".logits", logits)
    emit(name + ".loss", loss)
    for key in wanted:
        emit(f"{name}.d{key}", net.params[key].grad)


torch.manual_seed(0)
resnet("resnet18", (4, 3, 16, 16),
       ("conv1.weight", "bn1.weight", "layer1.1.conv2.weight",
        "layer2.0.downsample.0.weight", "layer3.0.bn1.bias",
        "layer4.1.conv2.weight", "fc.weight", "fc.bias"))
resnet("resnet18_large", (2, 1, 72, 68), ("conv1.weight", "fc.weight"))
vit("vit", (3, 3, 16, 20), 4,
    ("class_token", "conv_proj.weight", "conv_proj.bias",
     "encoder.pos_embedding",
     "encoder.layers.encoder_layer_0.ln_1.weight",
     "encoder.layers.encoder_layer_0.self_attention.in_proj_weight",
     "encoder.layers.encoder_layer_3.mlp.0.bias",
     "encoder.layers.encoder_layer_5.self_attention.out_proj.bias",
     "encoder.layers.encoder_layer_5.mlp.3.weight",
     "heads.head.weight"))
vit("vit_large", (1, 1, 96, 80), 16, ("conv_proj.weight",))
