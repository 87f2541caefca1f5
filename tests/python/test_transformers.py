"""Folders of language models, opened by Hugging Face's transformers.

LOCKSTEP names the program, LOCKSTEP_LOGITS the one of logits.c. Exits with 77 where
transformers is not installed.
"""

import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest

os.environ["HF_HUB_OFFLINE"] = "1"
try:
    import torch
    import transformers
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

from test_published import model as published
from test_published import write_tokenizer

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

LOCKSTEP = os.path.abspath(os.environ["LOCKSTEP"])
LOGITS = os.path.abspath(os.environ["LOCKSTEP_LOGITS"])

SMALL = ("--layers", "2", "--d-model", "32", "--heads", "4", "--d-ff", "48", "--context",
         "16")
TEXT = "It's the 1st day,\n  the sum is 12,345 \u20ac \u2014 \u00fcber\u00fcber 'you' \U0001f642\t!"
# As far as both agree where a logit is a sum of such a length in f32.
BOUND = 1e-4


def run(*words, code=0):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          encoding="utf-8", check=False)
    if done.returncode != code:
        raise AssertionError(f"{words}: {done.returncode}: {done.stderr}")
    return done


class FolderTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = os.path.join(folder.name, "out")
        self.root = folder.name

    def train(self, *words):
        """The last line of the run."""
        done = run(LOCKSTEP, "train", "lm", "--threads", "1", "--batch-size", "4",
                   "--steps", "20", "--lr", "0.01", "--output-dir", self.folder, *words)
        return done.stderr.splitlines()[-1]

    def numbers(self, vocabulary):
        """A file of tokens."""
        path = os.path.join(self.root, "tokens.u16")
        tokens = [(k * k // 3 + k) % vocabulary for k in range(2000)]
        with open(path, "wb") as file:
            file.write(struct.pack("<2000H", *tokens))
        return path

    def open(self):
        """The model, of which no tensor is missing or left over."""
        model, loading = transformers.AutoModelForCausalLM.from_pretrained(
            self.folder, output_loading_info=True)
        for name in ("missing_keys", "unexpected_keys", "mismatched_keys"):
            self.assertFalse(loading[name], name)
        return model.eval()

    def ours(self, tokens, vocabulary):
        text = run(LOGITS, self.folder, *map(str, tokens)).stdout
        return torch.tensor([float(line) for line in text.split()]).reshape(-1, vocabulary)

    def compare(self, kind):
        """The largest difference of two logits, against the largest logit."""
        model = self.open()
        self.assertEqual(model.config.model_type, kind)
        vocabulary = model.config.vocab_size
        tokens = [(7 * k * k + 3 * k + 1) % vocabulary for k in range(16)]
        ours = self.ours(tokens, vocabulary)
        with torch.no_grad():
            theirs = model(torch.tensor([tokens])).logits[0]
        self.assertGreater(float(ours.abs().max()), 0.1)
        difference = float((ours - theirs).abs().max() / ours.abs().max())
        self.assertLess(difference, BOUND)
        return model


class Models(FolderTest):
    def test_rope(self):
        for more in ((), ("--rope", "halves"), ("--norm-eps", "1e-3")):
            with self.subTest(more=more):
                self.folder = os.path.join(self.root, "-".join(("rope", *more)))
                self.train(*SMALL, *more)
                self.assertFalse(self.compare("llama").config.tie_word_embeddings)

    def test_gpt2(self):
        for more in ((), ("--untied-head",), ("--norm-eps", "1e-3")):
            with self.subTest(more=more):
                self.folder = os.path.join(self.root, "-".join(("gpt2", *more)))
                self.train("--size", "gpt2", *SMALL, *more)
                self.compare("gpt2")

    def test_llama(self):
        for name in ("llama_groups", "llama_tied", "llama_linear", "llama_llama3"):
            with self.subTest(name=name):
                self.folder = os.path.join(self.root, name)
                self.train("--weights", published(name), "--data", self.numbers(29))
                self.compare("llama")

    def test_saved_again(self):
        """A model saved by transformers has the same loss."""
        text = os.path.join(self.root, "text")
        again = os.path.join(self.root, "again")
        with open(text, "w", encoding="ascii") as file:
            file.write("all work and no play makes jack a dull boy\n" * 20)
        for size in ("tiny", "gpt2"):
            with self.subTest(size=size):
                self.folder = os.path.join(self.root, size)
                self.train("--size", size, *SMALL)
                self.open().save_pretrained(again)
                before, after = (self.loss(folder, text)
                                 for folder in (self.folder, again))
                self.assertLess(abs(after / before - 1), 1e-5)

    def loss(self, folder, text):
        rows = os.path.join(self.root, "rows.json")
        run(LOCKSTEP, "eval", "lm", "--threads", "1", "--weights", folder, "--data", text,
            f"--json={rows}")
        with open(rows, encoding="utf-8") as file:
            row, = json.load(file)["rows"]
        return row["loss"]


class Tokenizers(FolderTest):
    def test_bytes(self):
        for size in ("tiny", "gpt2"):
            with self.subTest(size=size):
                self.folder = os.path.join(self.root, size)
                self.train("--size", size, *SMALL)
                t = transformers.AutoTokenizer.from_pretrained(self.folder)
                self.assertEqual(len(t), 256)
                ids = t.encode(TEXT)
                self.assertEqual(ids, list(TEXT.encode("utf-8")))
                self.assertEqual(t.decode(ids), TEXT)
                self.assertIsNone(t.eos_token)
                config = transformers.AutoConfig.from_pretrained(self.folder)
                self.assertIsNone(config.eos_token_id)
                self.assertIsNone(config.bos_token_id)

    def test_words(self):
        """The tokenizer of the training, with the token that ends a text."""
        path = write_tokenizer(os.path.join(self.root, "words.json"))
        for size in ("tiny", "gpt2"):
            with self.subTest(size=size):
                self.folder = os.path.join(self.root, size)
                line = self.train("--size", size, *SMALL, "--tokenizer", path)
                self.assertNotIn("tokenizer", line)
                t = transformers.AutoTokenizer.from_pretrained(self.folder)
                ids = t.encode(TEXT + "<|endoftext|>the")
                self.assertEqual(ids[-2:], [258, 257])
                self.assertIn(257, ids[:-1])
                self.assertEqual(t.decode(ids[:-2]), TEXT)
                self.assertEqual(t.eos_token_id, 258)
                self.assertEqual(self.open().config.eos_token_id, 258)
                self.assertEqual(self.answer(t, ids[:8]),
                                 self.says(t.decode(ids[:8])))

    def answer(self, tokenizer, ids):
        """These tokens, and what transformers say after them."""
        with torch.no_grad():
            out = self.open().generate(torch.tensor([ids]), max_new_tokens=6,
                                       do_sample=False, pad_token_id=258)
        return tokenizer.decode(out[0], skip_special_tokens=True)

    def says(self, prompt):
        out = run(LOCKSTEP, "generate", "--threads", "1", "--weights", self.folder,
                  "--prompt", prompt, "--max-new-tokens", "6", "--temperature", "0").stdout
        return out[:-1]

    def test_numbers(self):
        """A model of numbers has none, and the last line says so."""
        line = self.train(*SMALL, "--vocab-size", "40", "--data", self.numbers(40))
        self.assertRegex(line, "without a tokenizer, because the data were "
                               "already tokens$")
        self.assertEqual(
            sorted(os.listdir(self.folder)),
            ["config.json", "metrics.jsonl", "model.safetensors", "run.json"])
        self.compare("llama")


if __name__ == "__main__":
    unittest.main()
