"""A small language model that the tests of frameworks train, and how they start ranks.

A test's script is also the program of its ranks: `SCRIPT WAY BACKEND FILE STEPS WIDTH`
trains by the function WAY, and rank 0 saves the result of `result` in FILE.
"""
import os
import subprocess
import sys
import tempfile
import time

try:
    import torch
    from torch import nn
except ImportError:
    print("no PyTorch here: not tested")
    sys.exit(77)

WORDS, LENGTH, ROWS, SIZE = 61, 32, 8, 2
STEPS, WIDTH = 12, 32  # of tests; speed_frameworks.py trains more
RATE = 0.01


class Model(nn.Module):
    """A causal transformer; forward returns what Trainer expects."""

    def __init__(self, width):
        super().__init__()
        torch.manual_seed(0)
        self.words = nn.Embedding(WORDS, width)
        self.places = nn.Embedding(LENGTH, width)
        self.blocks = nn.TransformerEncoder(nn.TransformerEncoderLayer(
            width, 4, 4 * width, dropout=0, batch_first=True, norm_first=True), 2,
            enable_nested_tensor=False)
        self.last = nn.Linear(width, WORDS)

    def forward(self, input_ids, labels):
        x = self.words(input_ids) + self.places.weight
        mask = nn.Transformer.generate_square_subsequent_mask(LENGTH)
        logits = self.last(self.blocks(x, mask, is_causal=True))
        return {"loss": nn.functional.cross_entropy(logits.flatten(0, 1),
                                                    labels.flatten())}


class Sequences(torch.utils.data.Dataset):
    """Arithmetic sequences: the next word follows from the two before it."""

    def __init__(self, steps):
        draw = torch.Generator().manual_seed(1)
        self.count = steps * SIZE * ROWS
        first = torch.randint(WORDS, (self.count, 1), generator=draw)
        stride = torch.randint(1, 4, (self.count, 1), generator=draw)
        self.words = (first + stride * torch.arange(LENGTH + 1)) % WORDS

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        row = self.words[index]
        return {"input_ids": row[:-1], "labels": row[1:]}


class Clock:
    """Seconds of each step; call it after every step."""

    def __init__(self):
        self.steps, self.last = [], time.perf_counter()

    def __call__(self):
        now = time.perf_counter()
        self.steps.append(now - self.last)
        self.last = now


def result(backend, losses, model, clock):
    """The result of a rank, for `torch.save`: plain numbers and tensors."""
    return {"backend": backend, "losses": [float(loss) for loss in losses],
            "weights": [p.detach().clone() for p in model.parameters()],
            "seconds": clock.steps}


def train(script, way, backend, steps=STEPS, width=WIDTH, launch=True):
    """The result of rank 0 of a training job, on 2 ranks with one thread each."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "result")
        command = [sys.executable, "-W", "ignore"]
        if launch:
            command += ["-m", "torch.distributed.run", "--standalone",
                        f"--nproc-per-node={SIZE}"]
        command += [script, way, backend, file, str(steps), str(width)]
        environment = dict(os.environ, OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo",
                           HF_HUB_OFFLINE="1", PYTHONPATH=os.pathsep.join(sys.path))
        done = subprocess.run(command, cwd=folder, env=environment, text=True,
                              check=False, timeout=140, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        if done.returncode:
            raise AssertionError(f"{' '.join(command)}:\n{done.stdout}")
        return torch.load(file)


def main(ways):
    """The program of a rank."""
    way, backend, file, steps, width = sys.argv[1:]
    ways[way](backend, file, int(steps), int(width))
    if backend == "gloo":
        # One of its threads may release a tensor of the last collective after Python has
        # ended, and abort (pytorch/pytorch#179291).
        sys.stdout.flush()
        os._exit(0)


def check_as_on_gloo(test, script, ways, launch=True):
    """Check that 2 ranks learn, and that losses and weights have the bits of gloo.

    The ways train alike: on gloo the first is enough.
    """
    script = os.path.abspath(script)
    theirs = train(script, ways[0], "gloo", launch=launch)
    for way in ways:
        with test.subTest(way):
            check_alike(test, theirs, train(script, way, "lockstep", launch=launch))


def check_alike(test, theirs, ours):
    test.assertEqual((theirs["backend"], ours["backend"]), ("gloo", "lockstep"))
    test.assertEqual(len(ours["losses"]), STEPS)
    test.assertEqual(ours["losses"], theirs["losses"])
    # log(61) = 4.1 at first
    test.assertLess(ours["losses"][-1], ours["losses"][0] - 0.5)
    for a, b in zip(theirs["weights"], ours["weights"], strict=True):
        test.assertTrue(torch.equal(a, b))
