#!/usr/bin/env python3
"""Audit: the digests of `lockstep train`, on any number of ranks; files that
`lockstep audit` reads; runs that are interrupted."""
import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest

from test_group import run  # exits with 77 without NumPy

import numpy as np

import lockstep

PROGRAM = os.environ.get("LOCKSTEP", "")
SIZES = {"w": (70, 1000), "scale": (), "empty": (0, 4), "exact": (2, 4096), "big": (131073,)}


def tensors(step):
    return {name: np.random.default_rng((step, i)).standard_normal(shape, np.float32)
            for i, (name, shape) in enumerate(SIZES.items())}


def parts(all_tensors, group):
    """Each rank has a part, whose ends are not those of leaves."""
    out = {}
    for name, tensor in all_tensors.items():
        flat = tensor.reshape(-1)
        begin, end = (flat.size * (r * r) // group.size ** 2
                      for r in (group.rank, group.rank + 1))
        out[name] = lockstep.Part(flat[begin:end].copy(), begin, flat.size)
    return out


def whole_run(group, path, divided):
    with lockstep.Audit(group, path, settings={"seed": 7}) as audit:
        for step in range(4):
            given = tensors(step)
            audit.step(step, parts(given, group) if divided else given, {"samples": 8 * step})
        if group.rank == 0:
            with open(path + ".digest", "w", encoding="ascii") as file:
                file.write(audit.digest)


def refusals(group, path):
    def fails(kind, text, **more):
        try:
            lockstep.Audit(group, path, **{"settings": {"seed": 7}, **more}).close()
        except kind as error:
            assert text in str(error), error
        else:
            raise AssertionError(text)

    fails(lockstep.StateError, "already exists")
    fails(lockstep.StateError, "no entry of step 9", resume=True, step=9)
    fails(lockstep.MismatchError, "setting 'seed'", resume=True, settings={"seed": 8})
    with lockstep.Audit(group, path, settings={"seed": 7}, resume=True, step=2) as audit:
        changed = tensors(2)
        changed["w"][5, 0] += 1
        try:
            audit.step(2, changed, {"samples": 16})
        except lockstep.MismatchError as error:
            assert "tensor 'w', block 0" in str(error), error
        else:
            raise AssertionError("a changed tensor")


def resumed(group, path):
    with lockstep.Audit(group, path, settings={"seed": 7}, resume=True, step=1) as audit:
        for step in range(1, 4):
            audit.step(step, parts(tensors(step), group), {"samples": 8 * step})


def read_lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


class Audits(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "run.audit")

    def digest_of(self, size, divided):
        run(size, lambda group: whole_run(group, self.path, divided))
        with open(self.path + ".digest", encoding="ascii") as file:
            digest = file.read()
        self.assertEqual(digest, read_lines(self.path)[-1]["digest"])
        return digest

    def call(self, *words, status=0):
        done = subprocess.run([PROGRAM, *words], capture_output=True, text=True, timeout=60,
                              check=False)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout

    def test_any_ranks(self):
        first = self.digest_of(1, False)
        for size, divided in ((2, False), (3, True), (5, True)):
            os.remove(self.path)
            self.assertEqual(self.digest_of(size, divided), first)
        if PROGRAM:
            self.assertIn("4 entries, steps 0 to 3, 1 run\n",
                          self.call("audit", "check", self.path, "--digest", first))

    def test_a_run_that_was_interrupted(self):
        first = self.digest_of(2, False)
        with open(self.path, "a", encoding="ascii") as file:
            file.write('{"step":4,"val')
        run(3, lambda group: resumed(group, self.path))
        self.assertEqual(read_lines(self.path)[-1]["digest"], first)
        self.assertEqual([list(line)[0] for line in read_lines(self.path)],
                         ["lockstep audit", "run", "step", "step", "run", "step", "step"])

    def test_refusals(self):
        self.digest_of(2, False)
        run(2, lambda group: refusals(group, self.path))

    @unittest.skipUnless(PROGRAM, "LOCKSTEP names no program")
    def test_the_digests_of_training(self):
        folder = os.path.dirname(self.path)
        self.call("train", "lm", "--steps", "2", "--layers", "1", "--d-model", "64", "--heads",
                  "2", "--context", "16", "-b", "2", "--no-save", "-q", "--audit", self.path,
                  "--checkpoint-dir", folder, "--save-every", "2")
        entry = read_lines(self.path)[-1]
        found = {}
        for name in ("model", "rank-00000-of-00001"):
            with open(os.path.join(folder, "step-000000000002", name + ".safetensors"),
                      "rb") as file:
                header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
                data = file.read()
            for tensor, about in header.items():
                if tensor != "__metadata__":
                    found[tensor.partition("@")[0]] = np.frombuffer(
                        data[slice(*about["data_offsets"])], np.float32)
        given = {name: found[name] for name in entry["tensors"]}
        run(2, lambda group: one_entry(group, self.path + ".own", given))
        own = read_lines(self.path + ".own")[-1]
        self.assertEqual(own["state"], entry["state"])
        self.assertEqual(own["tensors"], entry["tensors"])


def one_entry(group, path, given):
    with lockstep.Audit(group, path) as audit:
        audit.step(2, given)


if __name__ == "__main__":
    sys.exit(unittest.main())
