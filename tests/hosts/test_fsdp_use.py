"""Trained models whose weights are divided over nodes: eval and generate give the
bits of one rank, and an error on one host ends all ranks."""

import json
import os
import subprocess
import sys
import tempfile
import time
import unittest

import hosts

sys.path.insert(0, os.path.join(os.path.dirname(hosts.HERE), "integration", "train"))
import pngs  # noqa: E402 (a neighbour of the tests of training)

LOCKSTEP = os.environ["LOCKSTEP"]
LICENSE = os.path.join(hosts.tree(LOCKSTEP), "..", "..", "LICENSE")
FSDP = ("--strategy", "fsdp")
SHAPE = ("--size", "tiny", "--layers", "6", "--d-model", "64", "--d-ff", "96",
         "--context", "600")
GPT2 = ("--size", "gpt2", "--layers", "3", "--d-model", "60", "--heads", "5",
        "--d-ff", "100", "--context", "600")


def halve(path):
    """Rewrites a model's tensors in bf16, rounded down."""
    with open(path, "rb") as file:
        n = int.from_bytes(file.read(8), "little")
        entries, data = json.loads(file.read(n)), file.read()
    pieces, at = [], 0
    for name, entry in entries.items():
        if name == "__metadata__":
            continue
        floats = data[slice(*entry["data_offsets"])]
        piece = bytearray(len(floats) // 2)
        piece[0::2], piece[1::2] = floats[2::4], floats[3::4]
        entry.update(dtype="BF16", data_offsets=[at, at + len(piece)])
        pieces.append(piece)
        at += len(piece)
    header = json.dumps(entries).encode()
    with open(path, "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header + b"".join(pieces))


def run(*words):
    return subprocess.run([LOCKSTEP, *words], check=True, timeout=60,
                          env={**os.environ, "OMP_NUM_THREADS": "1"},
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout


class Use(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="lockstep-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.rows, self.prompts = self.path("rows.json"), self.path("prompts")
        self.text = self.path("text")
        with open(LICENSE, encoding="utf-8") as file:
            text = file.read()
        with open(self.text, "w", encoding="utf-8") as file:
            file.write(text)
        with open(self.prompts, "w", encoding="utf-8") as file:
            # One is longer than the pieces in which prompts are read.
            file.write("The\n" + text[:590].replace("\n", " ") + "\nA b\n")

    def path(self, name):
        return os.path.join(self.folder, name)

    def train(self, *shape):
        path = self.path("weights.safetensors")
        run("train", "lm", *shape, "--steps", "2", "--batch-size", "1",
            "--validate-every", "0", "--save", path)
        return path

    def start(self, some, ranks, *words):
        return subprocess.Popen(
            some.mpirun("ucx", ranks, *words),
            env=some.environment(OMP_NUM_THREADS=1, LOCKSTEP_TIMEOUT=20),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run_on(self, ranks, *words):
        with hosts.Hosts(len(ranks), keep=[self.folder]) as some:
            job = self.start(some, ranks, LOCKSTEP, *words)
            wrote, said = job.communicate(timeout=100)
        self.assertEqual(job.returncode, 0, said)
        return wrote

    def loss(self):
        with open(self.rows, encoding="utf-8") as file:
            row, = json.load(file)["rows"]
        return row["loss"], row["tokens"]

    def test_bits_are_those_of_one_rank(self):
        for shape, ranks, half in ((SHAPE, (1, 1), False), (GPT2, (1, 2), False),
                                   (SHAPE, (1, 1, 1), True), (GPT2, (1, 2), True)):
            with self.subTest(shape=shape, ranks=ranks, half=half):
                path = self.train(*shape)
                if half:
                    halve(path)
                evaluate = ("eval", "lm", "--weights", path, "--context", "128",
                            "--json=" + self.rows)
                write = ("generate", "--weights", path, "--max-new-tokens", "20")
                run(*evaluate, self.text)
                loss = self.loss()
                self.run_on(ranks, *evaluate, *FSDP, self.text)
                self.assertEqual(self.loss(), loss)
                for prompts in (("--prompt", "The "), ("--prompts", self.prompts)):
                    self.assertEqual(self.run_on(ranks, *write, *FSDP, *prompts),
                                     run(*write, *prompts))

    def test_images(self):
        """Weights, their buffers and the results of a network."""
        data, path = self.path("data"), self.path("weights.safetensors")
        pngs.folder(data, ("cat", "dog"), 5)
        run("train", "images", "--arch", "resnet18", "--image-size", "16", "--data", data,
            "--epochs", "1", "--batch-size", "2", "--save", path)
        evaluate = ("eval", "images", "--weights", path, "--data", data, "--split", "all",
                    "--batch-size", "2", "--json=" + self.rows)
        found = []
        for ranks in ((), (1, 2), (2,)):
            if ranks:
                self.run_on(ranks, *evaluate, *FSDP)
            else:
                run(*evaluate)
            with open(self.rows, encoding="utf-8") as file:
                row, = json.load(file)["rows"]
            found.append((row["images"], row["loss"], row["accuracy"]))
        self.assertEqual(found[0][0], 10)
        self.assertEqual(found, found[:1] * 3)

    def test_a_file_that_one_host_lacks(self):
        """Each host has its own /tmp; the error is that of all ranks."""
        script = 'test "$RANK" = 1 || cp "$0" /tmp/w.safetensors; exec "$@"'
        path = self.train(*SHAPE)
        for words in (("generate",), ("eval", "lm", "--data", self.text)):
            with hosts.Hosts(2, keep=[self.folder]) as some:
                job = self.start(some, (1, 1), "sh", "-c", script, path, LOCKSTEP,
                                 *words, *FSDP, "--weights", "/tmp/w.safetensors")
                _, said = job.communicate(timeout=60)
            self.assertNotEqual(job.returncode, 0)
            self.assertEqual(said.count(b"cannot open"), 1, said)
            self.assertIn(b"rank 1: cannot open '/tmp/w.safetensors'", said)

    def test_a_rank_that_dies_is_named(self):
        path = self.train(*SHAPE)
        with hosts.Hosts(2, keep=[self.folder]) as two:
            job = self.start(two, (1, 1), LOCKSTEP, "generate", "--weights", path, *FSDP,
                             "--max-new-tokens", "1000000")
            job.stdout.read(200)
            two.kill("h1")
            _, said = job.communicate(timeout=60)
        self.assertNotEqual(job.returncode, 0)
        self.assertRegex(said.decode(), "rank 1 .*died", said)


if __name__ == "__main__":
    hosts.skip_if(hosts.missing() or hosts.missing_module("ucx"))
    unittest.main()
