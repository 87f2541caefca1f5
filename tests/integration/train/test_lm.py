"""lockstep train lm and generate: what they print, write, learn, refuse."""

import json
import os
import re
import shutil
import struct
import subprocess
import tempfile
import unittest

import files
from program import LOCKSTEP, ProgramTest, environment

SHAPE = ["--layers", "1", "--d-model", "32", "--heads", "2", "--d-ff", "64",
         "--context", "16"]
# PyTorch's losses for the same weights and pieces of LICENSE; made by
# tests/parity/lm_reference.py with SHAPE, --lr 0.01 and eight sequences a step,
# with neither schedule nor clipping, and AdamW's betas of PyTorch.
PYTORCH_LOSSES = [
    5.613886, 5.410278, 5.097751, 4.799024, 4.483185, 4.132912, 3.803277,
    3.892725, 3.640552, 3.376392, 3.236479, 2.873014, 2.968365, 2.955706,
    2.986011, 2.813755, 2.987198, 2.918477, 2.758720, 3.120124]
LICENSE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..",
                       "..", "LICENSE")
STEP_KEYS = ["event", "step", "loss", "lr", "gradient_norm", "seconds",
             "tokens_per_second"]


class LmTest(ProgramTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, data):
        with open(self.path(name), "wb") as file:
            file.write(data)
        return self.path(name)

    def run_lm(self, *words):
        return self.call("train", "lm", "--threads", "1", "--batch-size", "4",
                         *words)

    def train(self, *words):
        done = self.run_lm(*SHAPE, *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def losses(self, *words):
        path = self.path("metrics.jsonl")
        self.train("--metrics", path, *words)
        return [line["loss"] for line in files.read_lines(path)
                if line["event"] == "step"]

    def run_generate(self, *words):
        """Status, what it writes and says: it need not be UTF-8."""
        done = subprocess.run([LOCKSTEP, "generate", "--threads", "1", *words],
                              env=environment(), timeout=50, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        return (done.returncode, done.stdout.decode("latin-1"),
                done.stderr.decode("latin-1"))

    def generate(self, *words):
        status, text, said = self.run_generate(*words)
        self.assertEqual(status, 0, said)
        return text

    def refuse_generate(self, part, *words):
        status, text, said = self.run_generate(*words)
        self.assertEqual(status, 1, said)
        self.assertIn(part, said)
        return text


class Output(LmTest):
    def test_metrics(self):
        path = self.path("metrics.jsonl")
        done = self.train("-n", "2", "--steps", "4", "--validate-every", "2",
                          "--metrics", path)
        lines = files.read_lines(path)
        self.assertEqual(
            [(line["event"], line["step"]) for line in lines],
            [("validation", 0), ("step", 1), ("step", 2), ("validation", 2),
             ("step", 3), ("step", 4), ("validation", 4)])
        for line in lines:
            if line["event"] == "step":
                self.assertEqual(list(line), STEP_KEYS)
                self.assertGreater(line["gradient_norm"], 0)
                self.assertGreater(line["tokens_per_second"], 0)
            else:
                self.assertGreater(line["val_loss"], 0)
        self.assertRegex(done.stderr, r"step 4/4: loss \d")
        self.assertRegex(done.stdout, r"\| 1x32 \| +\d+ \| +2 \| +4 \|")

    def test_defaults(self):
        """A warm-up, a cosine, clipping; the recipe has them as flags."""
        path = self.path("metrics.jsonl")
        words = ("--steps", "40", "--validate-every", "0")
        done = self.train(*words, "--metrics", path)
        rates = [line["lr"] for line in files.read_lines(path)]
        self.assertEqual(rates[:3], [0, 0.0005, 0.001])
        self.assertEqual(rates[2:], sorted(rates[2:], reverse=True))
        self.assertLess(rates[-1], 1e-5)
        self.assertIn("--beta1 0.9 --beta2 0.95 ", done.stderr)
        self.assertIn("--clip-norm 1 --ema 0 --schedule cosine "
                      "--warmup-steps 2 --min-lr 0 --seed 0\n", done.stderr)
        done = self.train(*words, "--clip-norm", "0")
        self.assertIn("--clip-norm 0 --ema 0", done.stderr)

    def test_what_bf16_would_gain(self):
        said = {name: self.train("--steps", "0", "--dtype", name).stderr
                for name in ("f32", "bf16")}
        gain = "matrix products would use A"
        self.assertEqual("matrix products use A" in said["bf16"], gain in said["f32"])
        self.assertNotIn(gain, said["bf16"])

    def test_missing_folders(self):
        """Every output makes them; what is only read does not."""
        folder = self.path("runs/a")
        names = ("save/m.safetensors", "metrics/m.jsonl", "prom/m.prom",
                 "tensorboard/b", "trace/b", "memory/b", "checkpoints/b")
        save, metrics, prom, board, trace, memory, checkpoints = (
            os.path.join(folder, name) for name in names)
        self.train("-n", "2", "--steps", "2", "--save", save, "--metrics",
                   metrics, "--prometheus", prom, "--tensorboard", board,
                   "--trace", trace, "--record-memory", memory, "--save-every", "1",
                   "--checkpoint-dir", checkpoints)
        for name in names:
            self.assertTrue(os.path.exists(os.path.join(folder, name)), name)
        self.assertIn("step-000000000002", os.listdir(checkpoints))
        self.train("--steps", "1", "--checkpoint-dir", self.path("none/b"),
                   "--resume")
        self.assertFalse(os.path.exists(self.path("none")))

    def test_no_steps(self):
        done = self.train("--steps", "0", "--validate-every", "0")
        self.assertIn("| 1x32 |", done.stdout)


class Learning(LmTest):
    def test_learns_the_built_in_text(self):
        losses = self.losses("--steps", "60", "--validate-every", "0",
                             "--lr", "0.01")
        self.assertGreater(losses[0], 4)
        self.assertLess(losses[-1], 3)

    def test_ranks_share_the_batch(self):
        steps = ["--steps", "4", "--validate-every", "0"]
        one = self.losses(*steps, "--batch-size", "8")
        two = self.losses(*steps, "-n", "2")
        micro = self.losses(*steps, "--batch-size", "2", "--accumulate", "4")
        both = self.losses(*steps, "-n", "2", "--batch-size", "2",
                           "--accumulate", "2", "--strategy", "naive")
        self.assertEqual(len(one), 4)
        for a, *others in zip(one, two, micro, both):
            for b in others:
                self.assertAlmostEqual(a, b, delta=1e-4 * a)

    def test_a_step_of_so_many_tokens(self):
        """The same as the micro-steps that make it up, on any ranks."""
        steps = ("--steps", "3", "--validate-every", "0")
        for n, tokens, micro in (("1", 256, "4"), ("2", 256, "2"),
                                 ("1", 64, "1")):
            told = self.losses(*steps, "-n", n, "--tokens-per-step", str(tokens))
            self.assertEqual(told, self.losses(*steps, "-n", n, "--accumulate",
                                               micro))
        done = self.run_lm(*SHAPE, *steps, "--tokens-per-step", "100")
        self.assertEqual(done.returncode, 1)
        self.assertIn("--tokens-per-step 100 is not a multiple of the 64 tokens "
                      "of a micro-step (batch size 4 x context 16 x 1 rank). The "
                      "next multiple is 128\n", done.stderr)
        self.fails(2, "give one", "train", "lm", "--tokens-per-step", "512",
                   "--accumulate", "2")

    def test_two_ranks_are_pytorch(self):
        words = ["-n", "2", "--data", LICENSE, "--steps", "20", "--lr", "0.01",
                 "--validate-every", "0", "--schedule", "constant",
                 "--warmup-steps", "0", "--clip-norm", "0", "--beta2", "0.999"]
        exact = self.losses(*words)
        rounded = self.losses(*words, "--dtype", "bf16")
        self.assertEqual(len(exact), len(PYTORCH_LOSSES))
        for want, a, b in zip(PYTORCH_LOSSES, exact, rounded):
            self.assertAlmostEqual(a, want, delta=1e-4) # decay matters
            self.assertAlmostEqual(b, want, delta=0.02 * want)

    def test_attention_and_layouts_agree(self):
        steps = ["--steps", "3", "--validate-every", "0"]
        flash = self.losses(*steps)
        other = self.losses(*steps, "--attention", "naive", "--rope", "halves")
        for a, b in zip(flash, other):
            self.assertAlmostEqual(a, b, delta=1e-4 * a)

    def test_bf16_comes_as_far(self):
        steps = ["--steps", "30", "--validate-every", "0", "--lr", "0.01"]
        exact = self.losses(*steps)
        rounded = self.losses(*steps, "--dtype", "bf16")
        self.assertNotEqual(exact, rounded)
        self.assertEqual(rounded, self.losses(*steps, "--dtype", "bf16"))
        for a, b in zip(exact, rounded):
            self.assertAlmostEqual(a, b, delta=0.02 * a)
        done = self.train("--steps", "0", "--dtype", "bf16", "-n", "2")
        self.assertEqual(done.stderr.count("bf16: matrix products"), 1)

    def test_f16_scales_losses(self):
        path = self.path("f16.jsonl")
        steps = ["--steps", "40", "--validate-every", "0", "--lr", "0.01"]
        exact = self.losses(*steps)
        rounded = self.losses(*steps, "--dtype", "f16")
        self.assertNotEqual(exact, rounded)
        self.assertEqual(rounded, self.losses(*steps, "--dtype", "f16"))
        for a, b in zip(exact, rounded):
            self.assertAlmostEqual(a, b, delta=0.02 * a)
        done = self.train("--steps", "2", "--dtype", "f16", "-n", "2",
                          "--validate-every", "0", "--metrics", path)
        for line in files.read_lines(path):
            self.assertEqual(list(line), STEP_KEYS + ["loss_scale", "skipped"])
            self.assertEqual((line["loss_scale"], line["skipped"]), (65536, 0))
        self.assertIn("loss scale 65536, skipped steps so far: 0", done.stderr)
        self.assertEqual(done.stderr.count("f16: matrix products round"), 1)


class Files(LmTest):
    def test_init_continues(self):
        path = self.path("a.safetensors")
        whole = self.losses("--steps", "2", "--validate-every", "0")
        self.train("--steps", "0", "--validate-every", "0", "--save", path)
        again = self.losses("-n", "2", "--batch-size", "2", "--steps", "2",
                            "--validate-every", "0", "--seed", "0", "--init",
                            path)
        self.assertAlmostEqual(whole[0], again[0], delta=1e-4 * whole[0])
        header, _ = files.read_safetensors(path)
        self.assertEqual(header["__metadata__"]["tokens"], "bytes")
        self.assertIn('"d_model":32', header["__metadata__"]["transformer"])

    def test_generate(self):
        path = self.path("a.safetensors")
        self.train("--steps", "30", "--validate-every", "0", "--save", path)
        draw = ["--weights", path, "--prompt", "the old ", "--max-new-tokens", "40",
                "--top-k", "4"]
        text = self.generate(*draw)
        self.assertTrue(text.startswith("the old "))
        self.assertEqual(len(text), len("the old ") + 40 + 1)
        self.assertEqual(self.generate(*draw), text)
        self.assertNotEqual(self.generate(*draw, "--seed", "1"), text)
        greedy = self.generate(*draw, "--top-k", "1")
        self.assertEqual(self.generate(*draw, "--temperature", "0"), greedy)
        for words in (("-n", "2"), ("-n", "2", "--strategy", "fsdp")):
            self.assertEqual(self.generate(*words, *draw), text)

    def test_ranks_divide_prompts(self):
        path = self.path("a.safetensors")
        self.train("--steps", "5", "--validate-every", "0", "--save", path)
        prompts = self.write("prompts", b"a\nthe old\nb\\\nof \nwe")
        draw = ["--weights", path, "--prompts", prompts, "--max-new-tokens", "20"]
        text = self.generate(*draw)
        self.assertEqual(text.count("\n"), 5)
        for words in (("-n", "2"), ("-n", "3", "--strategy", "fsdp"), ("-n", "7")):
            self.assertEqual(self.generate(*words, *draw), text)
        for part, more in (("rank 0: cannot open '/none'", ["--prompts", "/none"]),
                           ("rank 0: cannot write to standard output", [])):
            with open("/dev/full", "wb") as full:
                done = subprocess.run(
                    [LOCKSTEP, "generate", "--threads", "1", "-n", "3", *draw, *more],
                    env=environment(), timeout=50, check=False, stdout=full,
                    stderr=subprocess.PIPE, text=True)
            self.assertEqual(done.returncode, 1)
            self.assertIn(part, done.stderr)

    def test_tokens(self):
        data = struct.pack("<256I", 20240520, 1, 500, *[0] * 253)
        data += struct.pack("<500H", *[i % 300 for i in range(500)])
        tokens = self.write("a.bin", data)
        path = self.path("a.safetensors")
        self.train("--data", tokens, "--vocab-size", "300", "--steps", "2",
                   "--save", path)
        text = self.generate("--weights", path, "--prompt", "17,299", "--max-new-tokens",
                             "5")
        numbers = [int(word) for word in text.split(",")]
        self.assertEqual(len(numbers), 5)
        self.assertTrue(all(0 <= n < 300 for n in numbers))

    def test_bytes_of_a_larger_vocabulary(self):
        path = self.path("a.safetensors")
        self.train("--data", LICENSE, "--vocab-size", "512", "--steps", "1",
                   "--save", path)
        text = self.generate("--weights", path, "-p", "hello", "--max-new-tokens", "50",
                             "--temperature", "100")
        self.assertTrue(text.startswith("hello"))
        self.assertEqual(len(text), len("hello") + 50 + 1)

    def test_bytes_of_a_smaller_vocabulary(self):
        path = self.path("a.safetensors")
        self.train("--data", LICENSE, "--vocab-size", "128", "--steps", "1",
                   "--save", path)
        self.generate("--weights", path, "-p", "hello")
        self.refuse_generate("--prompt contains the byte 195, but the model's "
                             "tokens are only the bytes below 128", "--weights", path, "-p",
                             "h\u00e4")

    def test_numbers_as_many_as_bytes(self):
        tokens = self.write("a.u16", struct.pack("<500H", *[7] * 500))
        path = self.path("a.safetensors")
        self.train("--data", tokens, "--vocab-size", "256", "--steps", "1",
                   "--save", path)
        self.refuse_generate("numbers below 256", "--weights", path, "-p", "a")
        text = self.generate("--weights", path, "-p", "7,255", "--max-new-tokens", "5")
        self.assertEqual(len(text.split(",")), 5)

    def test_unknown_tokens(self):
        path = self.path("a.safetensors")
        self.train("--steps", "0", "--validate-every", "0", "--save", path)
        with open(path, "rb") as file:
            data = file.read()
        self.write("a.safetensors",
                   data.replace(b'"tokens":"bytes"', b'"tokens":"runes"'))
        self.refuse_generate("has the unknown token type 'runes' in its "
                             "metadata; expected bytes or numbers", "--weights", path)

    def test_weights_that_are_not_finite(self):
        path = self.path("a.safetensors")
        self.train("--steps", "0", "--validate-every", "0", "--save", path)
        header, tensors = files.read_safetensors(path)
        head = bytearray(tensors["lm_head.weight"])
        head[4 * 32 * 9:4 * 32 * 9 + 4] = struct.pack("<f", float("nan"))
        tensors["lm_head.weight"] = bytes(head)
        with open(path, "r+b") as file:
            start = os.path.getsize(path) - sum(map(len, tensors.values()))
            file.seek(start + header["lm_head.weight"]["data_offsets"][0])
            file.write(head)
        text = self.refuse_generate("logit of token 9 is nan", "--weights", path,
                                    "-p", "hello")
        self.assertEqual(text, "hello")

    def test_gpt2_shape(self):
        path = self.path("a.safetensors")
        self.train("--size", "gpt2", "--steps", "2", "--validate-every", "0",
                   "--vocab-size", "300", "--save", path)
        header, _ = files.read_safetensors(path)
        self.assertEqual(header["h.0.attn.c_attn.weight"]["shape"], [32, 96])
        self.assertEqual(header["wte.weight"]["shape"], [300, 32])
        self.assertNotIn("lm_head.weight", header)
        self.generate("--weights", path, "--prompt", "7", "--max-new-tokens", "3")

    def test_published(self):
        """A file that says nothing about itself, in f32 and in f16."""
        path = self.path("a.safetensors")
        other = self.path("b.safetensors")
        tokens = self.write("a.u16", struct.pack(
            "<500H", *[i * i % 300 for i in range(500)]))
        self.train("--size", "gpt2", "--d-model", "64", "--heads", "1",
                   "--steps", "5", "--lr", "0.01", "--validate-every", "0",
                   "--data", tokens, "--vocab-size", "300", "--save", path)
        header, tensors = files.read_safetensors(path)
        draw = ["--prompt", "7", "--max-new-tokens", "9", "--temperature", "0"]
        want = self.generate("--weights", path, *draw)
        for dtype in "F32", "F16":
            rows = {name: (dtype, header[name]["shape"], data if dtype == "F32"
                           else files.to_f16(data))
                    for name, data in tensors.items()}
            files.write_safetensors(other, rows)
            self.assertEqual(self.generate("--weights", other, "--heads", "1",
                                           *draw), want)
            self.refuse_generate("is unknown: the file does not contain this number",
                                 "--weights", other, *draw)

    def test_published_configuration(self):
        """config.json says what the tensors do not; --save keeps it."""
        path, other = self.path("a.safetensors"), self.path("b.safetensors")
        tokens = self.write("a.u16", struct.pack(
            "<500H", *[i * i % 300 for i in range(500)]))
        shape = ["--size", "gpt2", "--d-model", "96", "--heads", "3",
                 "--norm-eps", "0.01", "--untied-head", "--data", tokens,
                 "--vocab-size", "300", "--validate-every", "0"]
        self.train(*shape, "--steps", "5", "--lr", "0.01", "--save", path)
        header, tensors = files.read_safetensors(path)
        self.assertEqual(header["lm_head.weight"]["shape"], [300, 96])
        draw = ["--prompt", "7", "--max-new-tokens", "9", "--temperature", "0"]
        want = self.generate("--weights", path, *draw)
        files.write_safetensors(other, {
            name if name == "lm_head.weight" else "transformer." + name:
            ("F32", header[name]["shape"], data)
            for name, data in tensors.items()})
        config = {"model_type": "gpt2", "n_layer": 1, "n_head": 3,
                  "n_embd": 96, "n_positions": 16, "vocab_size": 300,
                  "n_inner": 64, "layer_norm_epsilon": 0.01,
                  "tie_word_embeddings": False}

        def configure(**changes):
            self.write("config.json",
                       json.dumps({**config, **changes}).encode())

        configure()
        self.assertEqual(self.generate("--weights", other, *draw), want)
        self.train(*shape, "--steps", "0", "--init", other, "--save", path)
        self.assertEqual(self.generate("--weights", path, *draw), want)
        configure(n_head=1)
        for words, text in (
                ([], "holds a model with heads: 1, expected 3"),
                (["--heads", "1", "--norm-eps", "1e-5"],
                 "holds a model with norm_eps 0.01, expected 1e-05")):
            done = self.run_lm(*SHAPE, *shape, *words, "-n", "2", "--init",
                               other)
            self.assertEqual(done.returncode, 1)
            self.assertEqual(done.stderr.count("lockstep"), 1, done.stderr)
            self.assertIn(text, done.stderr)
        configure(activation_function="relu")
        self.refuse_generate('sets "activation_function": "relu"; only '
                             '"gelu_new" is supported', "--weights", other, *draw)
        configure(tie_word_embeddings=True)
        self.refuse_generate("has a separate output head", "--weights", other, *draw)


class Checkpoints(LmTest):
    """Text generated from a checkpoint is that of the file of --save."""

    draw = ["-p", "the ", "--max-new-tokens", "12", "--top-k", "3"]

    def setUp(self):
        super().setUp()
        self.checkpoints = self.path("checkpoints")

    def save(self, *words):
        shutil.rmtree(self.checkpoints, ignore_errors=True)
        self.train("--steps", "4", "--lr", "0.01", "--validate-every", "0",
                   "--save-every", "2", "--checkpoint-dir", self.checkpoints,
                   "--save", self.path("a.safetensors"), *words)
        return self.write_with(self.path("a.safetensors"))

    def write_with(self, path):
        return self.generate("--weights", path, *self.draw)

    def step(self, number, *names):
        return os.path.join(self.checkpoints, f"step-{number:012}", *names)

    def test_of_every_strategy(self):
        for i, strategy in enumerate(("naive", "flat", "overlap", "bucketed",
                                      "owners", "zero1", "shared", "fsdp")):
            want = self.save("-n", str(1 + i % 3 if i < 5 else 3),
                             "--strategy", strategy, "--size",
                             "tiny" if i % 2 else "gpt2", "--vocab-size", "256")
            self.assertEqual(self.write_with(self.checkpoints), want)

    def test_which_is_read(self):
        want = self.save("-n", "2", "--size", "gpt2", "--vocab-size", "300")
        for path in (self.checkpoints + "/", self.step(4), self.step(4, ""),
                     self.step(4, "model.safetensors")):
            self.assertEqual(self.write_with(path), want)
        self.assertNotEqual(self.write_with(self.step(2)), want)
        _, _, said = self.run_generate("--weights", self.checkpoints, *self.draw)
        self.assertEqual(said, "loaded the weights "
                         f"'{self.step(4, 'model.safetensors')}'\n")
        shutil.copytree(self.step(2), self.path("other"))
        os.remove(self.path("other/manifest.json"))
        self.assertEqual(self.write_with(self.path("other")),
                         self.write_with(self.step(2)))

    def test_damaged(self):
        self.save("-n", "2")
        before = self.write_with(self.step(2))
        with open(self.step(4, "rank-00001-of-00002.safetensors"),
                  "r+b") as file:
            file.seek(-1, os.SEEK_END)
            byte = file.read(1)
            file.seek(-1, os.SEEK_END)
            file.write(bytes([byte[0] ^ 1]))
        status, text, said = self.run_generate("--weights", self.checkpoints,
                                               *self.draw)
        self.assertEqual((status, text), (0, before))
        self.assertRegex(said, "ignoring a checkpoint: .*step-000000000004.* is damaged")
        self.refuse_generate("is damaged", "--weights", self.step(4))
        os.remove(self.step(4, "manifest.json"))
        self.refuse_generate("has no manifest: its save did not finish",
                             "--weights", self.step(4) + "/")
        os.remove(self.step(2, "manifest.json"))
        self.refuse_generate(f"no checkpoint found in '{self.checkpoints}': "
                             "no save has finished", "--weights",
                             self.checkpoints)

    def test_others(self):
        os.mkdir(self.checkpoints)
        self.refuse_generate("no checkpoint found in", "--weights",
                             self.checkpoints)
        self.save()
        path = self.step(4, "model.safetensors")
        header, tensors = files.read_safetensors(path)
        files.write_safetensors(path, {
            name: (header[name]["dtype"], header[name]["shape"], data)
            for name, data in tensors.items()})
        self.refuse_generate(f"'{path}' is not a known language model", "--weights", path)
        self.refuse_generate("(written by `lockstep train lm`), and its tensors "
                             "are not those of GPT-2", "--weights", path)


class Refused(LmTest):
    def refuse(self, status, text, *words):
        done = self.run_lm(*words)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertIn(text, done.stderr)
        self.assertEqual(done.stderr.count("lockstep"), 1, done.stderr)
        return done.stderr

    def test_data(self):
        short = self.write("a.txt", b"x" * 170)
        tokens = self.write("a.u16", struct.pack("<400H", *[9] * 399, 77))
        self.refuse(1, "too few tokens: 170 in total, of which 153 to train and 17 "
                    "to validate. A context of 17 tokens needs at least 18 tokens", *SHAPE, "-n", "2",
                    "--data", short, "--context", "17")
        self.refuse(1, "token 399 is 77, but the vocabulary has 77", *SHAPE,
                    "-n", "2", "--data", tokens, "--vocab-size", "77")
        self.refuse(1, "cannot open", *SHAPE, "--data", self.path("none"))

    def test_shapes(self):
        self.refuse(2, "--heads 3 does not divide --d-model 256", "--heads", "3")
        self.refuse(2, "--heads 20 is a head size of 3", "--d-model", "60", "--heads", "20")
        self.refuse(2, "--size", "--size", "huge")
        path = self.path("a.safetensors")
        self.train("--steps", "0", "--validate-every", "0", "--save", path)
        self.refuse(1, "tensor 'token_embeddings.weight' has shape (256, 32), "
                    "expected (256, 256)", "-n", "2", "--init", path)

    def test_divergence(self):
        """A loss, or a norm of gradients, that is not finite ends the run."""
        for ranks in "1", "3":
            for words, part in (
                    (("--clip-norm", "0"), "or --clip-norm 1. '"),
                    ((), "or a --clip-norm below 1. '")):
                said = self.refuse(
                    65, part, *SHAPE, "-n", ranks, *words, "--lr", "1e6",
                    "--warmup-steps", "0", "--validate-every", "0", "--save",
                    self.path("model"))
                self.assertRegex(
                    said, r"step \d+: (loss|gradient norm) is (nan|inf): the "
                    "run has diverged, or its data or weights are not finite. "
                    r"Try a lower --lr than 1e\+06, more --warmup-steps than "
                    "0, or")
                self.assertEqual(said.count("has diverged"), 1, said)
                self.assertIn("/model' was not written", said)
                self.assertFalse(os.path.exists(self.path("model")))

    def test_losses_that_stay_high(self):
        """After 50 steps, at the same step if the run is resumed before."""
        words = (*SHAPE, "-n", "2", "--lr", "3", "--schedule", "constant",
                 "--validate-every", "0")
        said = self.refuse(65, "To continue anyway, use "
                               "--no-divergence-check", *words)
        self.assertRegex(
            said, r"step \d+: loss is [\d.]+: for 50 steps it was above "
            r"8\.\d+\. This limit is 1\.5 times the first loss \(5\.\d+\) or "
            r"the loss of random guessing \(5\.54518\), whichever is larger\. Try "
            r"a lower --lr than 3")
        step = re.search(r"step (\d+): loss is", said)[0]
        saving = (*words, "--checkpoint-dir", self.path("steps"),
                  "--save-every", "10", "--resume")
        done = self.run_lm(*saving, "--steps", "30")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(step, self.refuse(65, "resumed after step 30", *saving))
        # Steps above do not count with another rate, however high the loss.
        done = self.run_lm(*saving, "--new-schedule", "--lr", "1e-6", "--steps",
                           "80")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.run_lm(*saving, "--new-schedule", "--no-divergence-check")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_divergence_after_a_checkpoint(self):
        folder = self.path("steps")
        said = self.refuse(65, f". '{folder}' contains the checkpoint of step 1; "
                           "to continue from it with another --lr, use "
                           "--resume --new-schedule",
                           *SHAPE, "-n", "2", "--lr", "1e6", "--clip-norm",
                           "0", "--warmup-steps", "0", "--validate-every", "0",
                           "--checkpoint-dir", folder, "--save-every", "1")
        self.assertNotIn("was not written", said)
        self.train("--checkpoint-dir", folder, "--resume", "--new-schedule",
                   "--lr", "0.001", "--steps", "1", "--clip-norm", "0",
                   "--validate-every", "0", "-n", "2")

    def test_outputs(self):
        nowhere = "/proc/no/where"
        self.refuse(1, nowhere, *SHAPE, "-n", "2", "--save", nowhere)
        self.refuse(1, nowhere, *SHAPE, "-n", "2", "--metrics", nowhere)
        self.refuse(1, nowhere, *SHAPE, "-n", "2", "--checkpoint-dir", nowhere,
                    "--save-every", "1")

    def test_what_no_machine_has(self):
        """It is asked for at once, and for all ranks."""
        self.refuse(1, "the ranks on one machine need at least", "-n", "4",
                    "--size", "10B", "--context", "8")

    def test_full_disk(self):
        self.refuse(1, "cannot write '/dev/full': No space left on device",
                    *SHAPE, "-n", "2", "--steps", "3", "--log-every", "100",
                    "--validate-every", "0", "--metrics", "/dev/full")
        path = self.path("a.safetensors")
        self.train("--steps", "0", "--validate-every", "0", "--save", path)
        with open("/dev/full", "wb") as full:
            done = subprocess.run(
                [LOCKSTEP, "generate", "--weights", path, "--max-new-tokens",
                 "1000000000"], env=environment(), timeout=50, check=False,
                stdout=full, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, b"lockstep: generate: cannot write to standard "
                         b"output: No space left on device\n")

    def test_generate(self):
        path = self.path("a.safetensors")
        tokens = self.write("a.u16", struct.pack("<500H", *[7] * 500))
        self.train("--steps", "0", "--validate-every", "0", "--data", tokens,
                   "--vocab-size", "300", "--save", path)
        for words, status, text in (
                ([], 2, "--weights PATH is missing"),
                (["--weights", self.path("none")], 1, "cannot open"),
                (["--weights", path, "--prompt", ""], 1, "--prompt is empty"),
                (["--weights", path, "--prompt", "1,300"], 1,
                 "numbers below 300")):
            done = self.call("generate", *words)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn(text, done.stderr)


if __name__ == "__main__":
    unittest.main()
