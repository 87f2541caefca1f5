"""examples/resnet.c on generated images: two ranks, then three that resume, and the same
bits with every strategy. Called with both programs."""

import os
import subprocess
import sys
import tempfile

import pngs

LOCKSTEP, RESNET = sys.argv[1:]


def train(ranks, *words):
    done = subprocess.run([LOCKSTEP, "run", "-n", str(ranks), "--", RESNET,
                           *words], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=100,
                          check=False)
    if done.returncode != 0:
        sys.exit(f"{words}: exit status {done.returncode}\n{done.stderr}")
    return done.stdout


def weights(folder, epoch):
    with open(os.path.join(folder, f"step-{epoch:012}", "model.safetensors"),
              "rb") as file:
        return file.read()


def main():
    with tempfile.TemporaryDirectory() as folder:
        images = pngs.folder(os.path.join(folder, "images"),
                             ("cat", "dog", "newt"), 8)
        found = []
        for strategy in ("bucketed", "flat", "zero1"):
            saved = os.path.join(folder, strategy)
            train(2, images, saved, "1", strategy)
            said = train(3, images, saved, "2", strategy)
            if said != "epoch 2 is done\n":
                sys.exit(f"{strategy}: it did not resume: {said}")
            found.append((weights(saved, 1), weights(saved, 2)))
        if found.count(found[0]) != len(found) or found[0][0] == found[0][1]:
            sys.exit("strategies trained different weights")


if __name__ == "__main__":
    main()
