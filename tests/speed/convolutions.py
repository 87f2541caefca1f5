#!/usr/bin/env python3
"""Times training steps of ResNet-18 at 224 x 224 by Lockstep and PyTorch, in turn.

    PYTHON convolutions.py --data cifar-100-binary [--rounds 5] [--isa avx2]
    PYTHON convolutions.py --data cifar-100-binary --portable    # not PyTorch: portable bits

PYTHON has PyTorch. The data are CIFAR-100 in binary form, enlarged by Lockstep;
PyTorch trains on one random batch that stays in memory, channels last. The
environment variable LOCKSTEP names the program. Nothing else should run.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

BATCH, SIZE, CLASSES = 32, 224, 100
AVX2 = {"LOCKSTEP_ISA": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2",
        "ATEN_CPU_CAPABILITY": "avx2"}


def lockstep_step(data, threads, steps, bits="fast"):
    """Mean seconds of a step after the first one, from the profile of a run."""
    program = os.environ.get("LOCKSTEP", "lockstep")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [program, "train", "images", "--arch", "resnet18", "--image-size",
             str(SIZE), "--data", data, "--limit", str(BATCH * steps), "-e", "1",
             "-b", str(BATCH), "--threads", str(threads), "--no-save", "-q",
             "--bits", bits, "--trace", folder], check=True, stdout=subprocess.DEVNULL)
        profile = subprocess.run([program, "profile", folder, "--json"],
                                 check=True, stdout=subprocess.PIPE)
    return json.loads(profile.stdout)["step_ms"] / 1e3


def torch_network():
    """ResNet-18 as in torchvision."""
    import torch  # pylint: disable=import-outside-toplevel
    nn = torch.nn

    def conv(c, o, k, stride):
        return [nn.Conv2d(c, o, k, stride, k // 2, bias=False),
                nn.BatchNorm2d(o)]

    class Block(nn.Module):
        """Two convolutions and their shortcut."""

        def __init__(self, c, o, stride):
            super().__init__()
            self.body = nn.Sequential(*conv(c, o, 3, stride), nn.ReLU(True),
                                      *conv(o, o, 3, 1))
            self.shortcut = nn.Sequential(
                *(conv(c, o, 1, stride) if c != o else []))

        def forward(self, x):
            """The result of the block."""
            return torch.relu_(self.body(x) + self.shortcut(x))

    layers = [*conv(3, 64, 7, 2), nn.ReLU(True), nn.MaxPool2d(3, 2, 1)]
    c = 64
    for o in (64, 128, 256, 512):
        layers += [Block(c, o, 1 if c == o else 2), Block(o, o, 1)]
        c = o
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(512, CLASSES))


def torch_step(threads, steps):
    """Mean seconds of a step after the first one."""
    import torch  # pylint: disable=import-outside-toplevel
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    net = torch_network().to(memory_format=torch.channels_last)
    x = torch.randn(BATCH, 3, SIZE, SIZE)
    x = x.contiguous(memory_format=torch.channels_last)
    y = torch.randint(0, CLASSES, (BATCH,))
    optimizer = torch.optim.SGD(net.parameters(), lr=.01, momentum=.5)
    for step in range(steps):
        if step == 1:
            began = time.perf_counter()
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
    return (time.perf_counter() - began) / (steps - 1)


def torch_step_alone(a):
    """The same, in a separate process."""
    peer = subprocess.run(
        [sys.executable, __file__, "--torch", f"--threads={a.threads}",
         f"--steps={a.steps}"], check=True, stdout=subprocess.PIPE)
    return float(peer.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder of CIFAR-100 in binary form")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--isa", choices=["avx2"], help="limit both to AVX2")
    parser.add_argument("--portable", action="store_true",
                        help="compare fast bits with portable bits")
    parser.add_argument("--torch", action="store_true",
                        help="time PyTorch once, in this process")
    a = parser.parse_args()
    if a.torch:
        print(torch_step(a.threads, a.steps))
        return
    if a.isa:
        os.environ.update(AVX2)
    ours, theirs = [], []
    names = ("fast", "portable") if a.portable else ("lockstep", "PyTorch")
    for _ in range(a.rounds):
        ours.append(lockstep_step(a.data, a.threads, a.steps))
        theirs.append(lockstep_step(a.data, a.threads, a.steps, "portable")
                      if a.portable else torch_step_alone(a))
        print(f"{names[0]} {ours[-1]:.3f} s, {names[1]} {theirs[-1]:.3f} s",
              flush=True)
    mine, peer = statistics.median(ours), statistics.median(theirs)
    print(f"median: {names[0]} {BATCH / mine:.1f} images/s, {names[1]} "
          f"{BATCH / peer:.1f}, ratio {peer / mine:.2f}")


if __name__ == "__main__":
    main()
