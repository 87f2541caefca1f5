"""--check-replicas: a bit of a weight that flips in the memory of one rank ends the run.

The test flips it in the memory of the running process. A learning rate that is
far too small keeps the weights as they are in a file, so they can be found there.
"""

import json
import os
import random
import signal
import struct
import tempfile
import unittest

from program import ProgramTest, children, wait_until

SHAPE = ["--layers", "2", "--d-model", "32", "--heads", "2", "--d-ff", "64",
         "--context", "16", "--batch-size", "2", "--threads", "1"]
FOREVER = ["--steps", "100000000", "--validate-every", "0", "--schedule", "constant",
           "--lr", "1e-12", "--weight-decay", "0", "--warmup-steps", "0"]
ELEMENTS = 16  # that are looked for together


def tensors(path):
    """The names and bytes of a safetensors file's f32 tensors."""
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
        data = file.read()
    header.pop("__metadata__", None)
    return {name: data[slice(*entry["data_offsets"])] for name, entry in header.items()}


def rank_of(pid):
    with open(f"/proc/{pid}/environ", "rb") as file:
        pairs = (pair.split(b"=", 1) for pair in file.read().split(b"\0") if pair)
        return int(dict(pairs).get(b"RANK", b"-1"))


def descendants(pid):
    for child in children(pid):
        yield child
        yield from descendants(child)


def flip(pid, chunk, byte, bit):
    """Flips a bit of each place in the process's memory that holds the chunk."""
    found = 0
    with open(f"/proc/{pid}/maps", encoding="ascii") as maps:
        lines = [line.split() for line in maps]
    with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
        for line in lines:
            if not line[1].startswith("rw"):
                continue
            begin, end = (int(part, 16) for part in line[0].split("-"))
            try:
                memory.seek(begin)
                content = memory.read(end - begin)
            except (OSError, ValueError):
                continue
            at = content.find(chunk)
            while at >= 0:
                memory.seek(begin + at + byte)
                memory.write(bytes([chunk[byte] ^ 1 << bit]))
                found += 1
                at = content.find(chunk, at + 1)
    return found


class Corruption(ProgramTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.metrics = os.path.join(self.folder, "metrics.jsonl")
        self.model = os.path.join(self.folder, "model.safetensors")

    def train(self, *words):
        result = self.call("train", "lm", *SHAPE, *words)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stderr

    def lines(self):
        try:
            with open(self.metrics, encoding="utf-8") as file:
                return [json.loads(line) for line in file.read().splitlines()[:-1]]
        except FileNotFoundError:
            return []

    def draw(self, generator):
        """A tensor, the first of some elements that are not tiny, and their bytes."""
        places = []
        for name, data in tensors(self.model).items():
            values = struct.unpack(f"<{len(data) // 4}f", data)
            places += [(name, i) for i in range(0, len(values) - ELEMENTS, ELEMENTS)
                       if all(1e-3 < abs(x) < 0.9 for x in values[i:i + ELEMENTS])]
        name, first = generator.choice(places)
        data = tensors(self.model)[name]
        return name, first, data[4 * first:4 * (first + ELEMENTS)]

    def flipped(self, ranks, strategy, seed):
        generator = random.Random(seed)
        name, first, chunk = self.draw(generator)
        folder = os.path.join(self.folder, f"checkpoints{seed}")
        process = self.start("train", "lm", *SHAPE, *FOREVER, "-n", str(ranks), "--strategy",
                             strategy, "--init", self.model, "--check-replicas", "2",
                             "--metrics", self.metrics, "--no-save", "--checkpoint-dir",
                             folder, "--save-every", "7")
        self.assertTrue(wait_until(lambda: len(self.lines()) > 15 or
                                   process.poll() is not None))
        rank = generator.randrange(ranks)
        pids = {rank_of(pid): pid for pid in descendants(process.pid)}
        byte, bit = generator.randrange(len(chunk)), generator.randrange(8)
        os.kill(pids[rank], signal.SIGSTOP)
        found = flip(pids[rank], chunk, byte, bit)
        os.kill(pids[rank], signal.SIGCONT)
        self.assertGreater(found, 0)
        status, _, error = self.ended(process)
        self.assertEqual(status, 1, error)
        self.assertIn("silent data corruption in step ", error)
        self.assertIn(f": weight '{name}' (element {first + byte // 4}: 0x", error)
        self.assertIn(f" on rank {rank}" if ranks > 2 else " on ranks 0, 1", error)
        self.assertIn("Weights were equal in step ", error)
        self.assertIn(f"'{folder}' contains the checkpoint of step ", error)
        self.assertEqual(error.count("silent data corruption"), 1, error)

    def test_flips(self):
        self.train("--steps", "1", "--save", self.model, "--quiet")
        for seed, (ranks, strategy) in enumerate(((2, "flat"), (3, "bucketed"))):
            with self.subTest(ranks=ranks, strategy=strategy):
                self.flipped(ranks, strategy, seed)
                os.remove(self.metrics)

    def test_counts(self):
        """Gradients in each step; weights and state every second, and the last."""
        log = self.train("-n", "2", "--steps", "5", "--check-replicas", "2", "--no-save",
                         "--metrics", self.metrics, "--validate-every", "0")
        self.assertRegex(log, r"copies: .* of each rank compared, all equal")
        with open(self.metrics, encoding="utf-8") as file:
            sums = [json.loads(line)["compared_bytes"] for line in file]
        of_gradients = sums[0]
        steps = [b - a for a, b in zip([0] + sums, sums)]
        # Weights, and AdamW's two numbers for each; 16 numbers travel with gradients.
        of_state = 3 * (of_gradients - 64)
        self.assertEqual(steps, [of_gradients, of_gradients + of_state, of_gradients,
                                 of_gradients + of_state, of_gradients + of_state])

    def test_what_has_no_copies(self):
        for ranks, strategy, message in (
                (1, "flat", "compares nothing: with strategy 'flat' on 1 rank "),
                (2, "zero1", "compares weights only: with strategy 'zero1' on 2 ranks "),
                (2, "fsdp", "compares nothing: with strategy 'fsdp' on 2 ranks ")):
            with self.subTest(strategy=strategy):
                log = self.train("-n", str(ranks), "--strategy", strategy, "--steps", "2",
                                 "--check-replicas", "1", "--no-save", "--validate-every", "0")
                self.assertIn(message, " ".join(log.split()))

    def test_images(self):
        result = self.call("train", "cifar100", "-n", "2", "--threads", "1", "--limit", "64",
                           "--epochs", "1", "--batch-size", "16", "--check-replicas", "1",
                           "--no-save", "--metrics", self.metrics)
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(self.metrics, encoding="utf-8") as file:
            self.assertGreater(json.loads(file.read())["compared_bytes"], 0)

    def test_running_statistics(self):
        """No rank has another copy of anything else."""
        result = self.call("train", "images", "--arch", "resnet18", "-n", "3", "--threads", "1",
                           "--limit", "40", "--epochs", "1", "--batch-size", "8", "--ema", "0.9",
                           "--check-replicas", "1", "--no-save", "--strategy", "fsdp",
                           "--metrics", self.metrics)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("compares running statistics only: ", " ".join(result.stderr.split()))
        with open(self.metrics, encoding="utf-8") as file:
            self.assertGreater(json.loads(file.read())["compared_bytes"], 0)


if __name__ == "__main__":
    unittest.main()
