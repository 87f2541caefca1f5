"""Audits: what a run writes, what finds a change, and training a segment again."""

import glob
import hashlib
import json
import os
import shutil
import signal
import struct
import subprocess
import tempfile
import unittest
import zlib

from program import LOCKSTEP, ProgramTest, environment, wait_until

LEAF, MOST_BLOCKS, DIFFERS = 4096, 16, 3
LM = ("train", "lm", "--steps", 20, "--layers", 1, "--d-model", 64, "--heads", 2, "--context", 16,
      "-b", 2, "--seed", 3, "--no-save", "--threads", 1, "--audit-every", 5)
IMAGES = ("train", "cifar100", "--limit", 128, "--epochs", 2, "--no-dropout", "--threads", 1,
          "--no-save", "--audit-every", 2)


def sha(*pieces):
    return hashlib.sha256(b"".join(pieces)).digest()


def read_tensors(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    return {name: data[slice(*entry["data_offsets"])]
            for name, entry in header.items() if name != "__metadata__"}


def tensors_of(step):
    """All tensors of a checkpoint, as bytes."""
    tensors = read_tensors(os.path.join(step, "model.safetensors"))
    pieces = {}
    for path in glob.glob(os.path.join(step, "rank-*")):
        for name, data in read_tensors(path).items():
            state, _, begin = name.rpartition("@")
            if state:
                pieces.setdefault(state, {})[int(begin)] = data
    for state, parts in pieces.items():
        tensors[state] = b"".join(parts[begin] for begin in sorted(parts))
    return tensors


def digest_of(data):
    """Of a tensor of f32, and its blocks."""
    leaves = [sha(data[i:i + 4 * LEAF]) for i in range(0, len(data), 4 * LEAF)]
    each = 1
    while len(leaves) > each * MOST_BLOCKS:
        each *= 2
    blocks = [sha(*leaves[i:i + each]) for i in range(0, len(leaves), each)]
    return sha(*blocks), blocks


def read_lines(path):
    with open(path, encoding="utf-8") as file:
        return file.read().splitlines(keepends=True)


def write_lines(path, lines):
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(lines)


def flip_bit(step, tensor, element):
    """Changes a bit of a parameter in a checkpoint, and its checksums to fit."""
    path = os.path.join(step, "model.safetensors")
    with open(path, "rb") as file:
        data = bytearray(file.read())
    start = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:start])
    data[start + header[tensor]["data_offsets"][0] + 4 * element] ^= 1
    with open(path, "wb") as file:
        file.write(data)
    manifest = os.path.join(step, "manifest.json")
    with open(manifest, encoding="utf-8") as file:
        content = json.load(file)
    del content["crc32"]
    for entry in content["files"]:
        if entry["name"] == "model.safetensors":
            entry["crc32"] = zlib.crc32(data)
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    content["crc32"] = zlib.crc32(text.encode())
    with open(manifest, "w", encoding="utf-8") as file:
        json.dump(content, file)


class Audit(ProgramTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="lockstep-audit-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.file = self.path("run.audit")
        self.checkpoints = self.path("checkpoints")

    def path(self, name):
        return os.path.join(self.folder, name)

    def call(self, *words, status=0, errors=True, **variables):
        done = subprocess.run([LOCKSTEP, *map(str, words)], env=environment(**variables),
                              capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout + done.stderr if errors else done.stdout

    def train(self, *words, file=None, **more):
        """The final digest, which is in the last line."""
        last = self.call(*words, "--quiet", "--audit", file or self.file, errors=False,
                         **more).splitlines()[-1]
        self.assertIn("final digest ", last)
        return last.split()[-1]

    def saving(self, every):
        return ("--checkpoint-dir", self.checkpoints, "--save-every", every, "--keep", 0)

    def step(self, number):
        return os.path.join(self.checkpoints, f"step-{number:012}")


class Files(Audit):
    def test_entries_are_digests_of_checkpoints(self):
        self.train(*LM, "-n", 2, "--strategy", "zero1", "--ema", 0.9, *self.saving(4))
        seen = 0
        for line in map(json.loads, read_lines(self.file)):
            folder = self.step(line.get("step", line.get("saved", -1)))
            if not os.path.exists(folder):
                continue
            tensors = tensors_of(folder)
            self.assertEqual(set(tensors), set(line["tensors"]))
            root = bytes(32)
            for name, (count, short, blocks) in line["tensors"].items():
                digest, all_blocks = digest_of(tensors[name])
                self.assertEqual(4 * count, len(tensors[name]))
                self.assertEqual(short, digest.hex()[:16], name)
                self.assertEqual(blocks, "".join(b.hex()[:8] for b in all_blocks))
                root = sha(root, name.encode(), b"\0f32\0", digest)
            self.assertEqual(line["state"], root.hex())
            seen += 1
        self.assertEqual(seen, 5)

    def test_digests_are_a_chain(self):
        final = self.train(*LM, "-n", 2, *self.saving(7))
        before, kinds = "", []
        for line in read_lines(self.file):
            text, digest = line[:-68], line[-67:-3]
            text = line.partition(',"digest":"')[0]
            self.assertEqual(hashlib.sha256((before + text).encode()).hexdigest(), digest)
            kinds.append(next(iter(json.loads(line))))
            if kinds[-1] in ("lockstep audit", "step"):
                before = digest
        self.assertEqual(before, final)
        self.assertEqual(kinds, ["lockstep audit", "run", "step", "step", "saved", "step",
                                 "saved", "step", "step"])

    def test_changes_are_found(self):
        final = self.train(*LM)
        lines = read_lines(self.file)
        other = self.path("other.audit")
        number = len(lines) - 2
        digit = lines[number].replace('"state":"', '"state":"0', 1)
        for changed, where in (([*lines[:number], digit, *lines[number + 1:]], number + 1),
                               (lines[:3] + lines[4:], 4),
                               (lines[:3] + [lines[4], lines[3]] + lines[5:], 4),
                               (lines[1:], 1)):
            write_lines(other, changed)
            text = self.call("audit", "check", other, status=DIFFERS)
            self.assertIn(f"line {where}:", text)
            self.call("audit", "compare", self.file, other, status=DIFFERS)
            self.call("audit", "verify", other, status=DIFFERS)
        self.assertIn("unbroken: 5 entries, steps 0 to 20",
                      self.call("audit", "check", self.file, "--digest", final[:16]))
        write_lines(other, lines[:-1])
        self.call("audit", "check", other)
        self.assertIn("written again, or cut off",
                      self.call("audit", "check", other, "--digest", final, status=DIFFERS))
        write_lines(other, lines[:-1] + [lines[-1][:100]])
        self.assertIn("the last line is unfinished (100 bytes)",
                      self.call("audit", "check", other))

    def test_compare(self):
        one, other = self.path("one"), self.path("other")
        self.train(*LM, "-n", 2, file=one)
        self.train(*LM, "-n", 2, "--strategy", "fsdp", file=other)
        self.assertIn("5 entries of equal steps are equal",
                      self.call("audit", "compare", one, other))
        os.remove(other)
        self.train(*LM, "-n", 2, "--lr", 0.002, file=other)
        text = self.call("audit", "compare", one, other, status=DIFFERS)
        self.assertIn("setting '--lr': '0.001' and '0.002'", text)
        self.assertRegex(text, "step 5 is the first that differs: tensor '.*', block 0")

    def test_existing_files_stay(self):
        self.train(*LM)
        before = read_lines(self.file)
        text = self.call(*LM, "--audit", self.file, status=1)
        self.assertIn("already exists", text)
        self.assertEqual(read_lines(self.file), before)


class Verify(Audit):
    def test_other_strategies(self):
        self.train(*LM, "-n", 2, *self.saving(7))
        text = self.call("audit", "verify", self.file, "--strategy", "zero1")
        self.assertIn("7 entries are equal, up to step 20. Trained again from step 0", text)
        text = self.call("audit", "verify", self.file, "--strategy", "fsdp", "--from", 10,
                         "--to", 15)
        self.assertIn("4 entries are equal, up to step 15. Trained again from step 7", text)
        self.assertEqual(sorted(os.listdir(self.checkpoints)),
                         [".lock", "step-000000000007", "step-000000000014"])

    def test_a_bit_of_a_checkpoint(self):
        self.train(*LM, "-n", 2, *self.saving(10))
        tensors = read_tensors(os.path.join(self.step(10), "model.safetensors"))
        tensor = max(tensors, key=lambda name: len(tensors[name]))
        flip_bit(self.step(10), tensor, 5000)
        text = self.call("audit", "verify", self.file, "--from", 10, status=DIFFERS)
        self.assertIn(f"step 10 is the first that differs: tensor '{tensor}', block 1 "
                      "(elements 4096 to 8191). This is the state of the checkpoint", text)
        shutil.rmtree(self.step(20))
        text = self.call(*LM, "-n", 2, *self.saving(10), "--resume", "--audit", self.file, status=1)
        self.assertIn(f"They differ in tensor '{tensor}', block 1", text)
        shutil.rmtree(self.step(10))
        self.call("audit", "verify", self.file, "--from", 10)

    def test_a_bit_of_the_run(self):
        """A run went on with weights that are not those of the checkpoint."""
        self.train(*LM, *self.saving(10))
        shutil.copytree(self.step(10), self.path("kept"))
        shutil.rmtree(self.step(20))
        path = os.path.join(self.step(10), "model.safetensors")
        flip_bit(self.step(10), min(read_tensors(path)), 0)
        other = self.path("other.audit")
        self.train(*LM, *self.saving(10), "--resume", file=other)
        shutil.rmtree(self.step(10))
        shutil.rmtree(self.step(20))
        shutil.move(self.path("kept"), self.step(10))
        text = self.call("audit", "verify", other, "--from", 11, status=DIFFERS)
        self.assertRegex(text, "step 10 is the first that differs: tensor '.*', block 0")

    def test_conditions_of_equal_bits(self):
        self.train(*LM, "-n", 2)
        for words, message, variables in (
                (("-n", 1), "trained on 2 ranks, so 1 rank would give other bits", {}),
                (("-n", 3), "trained on 2 ranks, so 3 ranks would give other bits", {}),
                (("--threads", 2), "used 1 threads per rank, so 2 would give other bits", {}),
                ((), "this process uses 'ref'", {"LOCKSTEP_ISA": "ref"}),
                (("--to", 30), "has entries up to step 20", {}),
                (("--from", 11, "--to", 14), "no entry from step 11 to step 14", {})):
            text = self.call("audit", "verify", self.file, *words, status=2, **variables)
            self.assertIn(message, text)

    def test_other_ranks(self):
        """One rank with the slices of four, and dropout."""
        self.train(*LM, "-n", 4, "--slices", 4, "--dropout-rate", 0.1, "--check-replicas", 5,
                   *self.saving(10))
        for ranks in (1, 2):
            text = self.call("audit", "verify", self.file, "-n", ranks, "--from", 10)
            self.assertNotIn("--check-replicas", text)  # one rank has no copies

    def test_other_data(self):
        data = self.path("text")
        with open(data, "w", encoding="ascii") as file:
            file.write("a mind is a fire to be kindled " * 400)
        self.train(*LM, "--data", data)
        self.call("audit", "verify", self.file)
        with open(data, "r+", encoding="ascii") as file:
            file.seek(5001)
            file.write("?")
        text = self.call("audit", "verify", self.file, status=1)
        self.assertIn("this run is not that of the audit file", text)

    def test_a_run_that_was_interrupted(self):
        """Stopped, and resumed by another strategy on other ranks."""
        whole = self.train(*IMAGES, "-n", 1, "-b", 16, "--accumulate", 2, file=self.path("whole"))
        process = subprocess.Popen(
            [LOCKSTEP, *map(str, (*IMAGES, "-n", 2, "-b", 8, "--accumulate", 2, "--strategy",
                                  "zero1", *self.saving(3), "--audit", self.file))],
            env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(lambda: os.path.exists(self.step(3)) or process.poll() is not None)
        process.send_signal(signal.SIGTERM)
        self.assertIn(process.wait(60), (143, 0))
        resumed = self.train(*IMAGES, "-n", 4, "-b", 4, "--accumulate", 2, "--strategy", "fsdp",
                             *self.saving(3), "--resume")
        self.assertEqual(resumed, whole)
        for ranks in (1, 2, 4):
            self.call("audit", "verify", self.file, "-n", ranks, "--from", 3)
        self.assertIn("so 3 ranks would give other bits",
                      self.call("audit", "verify", self.file, "-n", 3, status=2))

    def test_a_run_that_was_killed(self):
        whole = self.train(*LM, file=self.path("whole"))
        words = [LOCKSTEP, *map(str, (*LM, *self.saving(2), "--audit", self.file))]
        process = subprocess.Popen(words, env=environment(), stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        wait_until(lambda: os.path.exists(self.step(4)) or process.poll() is not None)
        process.kill()
        process.wait()
        self.call("audit", "check", self.file)
        self.assertEqual(self.train(*LM, *self.saving(2), "--resume"), whole)

    def test_images(self):
        self.train("train", "images", "--limit", 64, "--epochs", 1, "-b", 8, "-n", 2, "--threads",
                   1, "--no-save", "--audit-every", 2)
        self.call("audit", "verify", self.file, "--strategy", "shared")


if __name__ == "__main__":
    unittest.main()
