"""lockstep tokenize: files of tokens, new tokenizers, what it refuses."""
import gzip
import json
import os
import struct
import tempfile
import unittest

from program import ProgramTest, SOURCE

TOKENIZERS = os.path.join(SOURCE, "tests", "tokenizers")
TEXT = "A rank that waits says for whom. It's 1234 times as \u00e9l\u00e9gant!\n"


class Tokenize(ProgramTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name, text=None):
        path = os.path.join(self.folder, name)
        if text is not None:
            with open(path, "wb") as file:
                file.write(text if isinstance(text, bytes) else text.encode())
        return path

    def tokenize(self, *words, expected=0):
        done = self.call("tokenize", *words)
        self.assertEqual(done.returncode, expected, done.stderr)
        return done

    def tokens(self, path):
        with open(path, "rb") as file:
            data = file.read()
        header = struct.unpack("<256I", data[:1024])
        self.assertEqual(header[:2], (20240520, 1))
        self.assertEqual(len(data), 1024 + 2 * header[2])
        return struct.unpack(f"<{header[2]}H", data[1024:])

    def test_several_files(self):
        out = self.path("out.bin")
        one, two = self.path("1.txt", TEXT), self.path("2.txt", "\n" + TEXT)
        gpt2 = os.path.join(TOKENIZERS, "gpt2")
        done = self.tokenize("--tokenizer", gpt2, "--data", one, "--out", out)
        self.assertIn("tokens/s", done.stdout)
        first = self.tokens(out)
        self.tokenize("--tokenizer", gpt2, "--data", two, "--out", out)
        both = first + self.tokens(out)
        for words in (("--data", one, two), ("--data", f"{one},{two}"),
                      ("--data", self.path("*.txt")), ("--data", one, "--", two),
                      (f"--data={one}", two)):
            with self.subTest(words):
                self.tokenize("--tokenizer", gpt2, "--out", out, *words)
                self.assertEqual(self.tokens(out), both)
        self.tokenize("--tokenizer", gpt2, "--data", one, two, "--out", out,
                      "--end-of-text", "-n", "2")
        ended = self.tokens(out)
        self.assertEqual(ended, first + (0,) + both[len(first):] + (0,))

    def test_tokens_around_a_text(self):
        out, text = self.path("out.bin"), self.path("1.txt", TEXT)
        name = os.path.join(TOKENIZERS, "llama3.json")
        self.tokenize("--tokenizer", name, "--data", text, "--out", out)
        plain = self.tokens(out)
        self.tokenize("--tokenizer", name, "--data", text, "--out", out,
                      "--special")
        self.assertEqual(self.tokens(out), (0,) + plain)

    def test_trains(self):
        text = self.path("1.txt", TEXT * 50)
        name, out = self.path("tokenizer.json"), self.path("out.bin")
        self.tokenize("--train", "--vocab-size", "300", "--data", text,
                      "--out", name, "--special-tokens", "<a>,<b>")
        with open(name, encoding="utf-8") as file:
            whole = json.load(file)
        self.assertEqual(len(whole["model"]["vocab"]), 300)
        self.assertEqual(whole["model"]["vocab"]["<b>"], 1)
        with open(name, "rb") as file:
            one = file.read()
        self.tokenize("--train", "--vocab-size", "300", "--data", text,
                      "--out", name, "--special-tokens", "<a>,<b>", "-n", "3")
        with open(name, "rb") as file:
            self.assertEqual(file.read(), one)
        self.tokenize("--tokenizer", name, "--data", text, "--out", out)
        self.assertLess(len(self.tokens(out)), 50 * len(TEXT))

    def train_lm(self, *words, expected=0):
        done = self.call("train", "lm", "--layers", "1", "--d-model", "16",
                         "--d-ff", "16", "--heads", "2", "--context", "8",
                         "--steps", "2", "--validate-every", "0", "--threads",
                         "1", *words)
        self.assertEqual(done.returncode, expected, done.stderr)
        return done

    def test_a_model_knows_its_tokenizer(self):
        text, out = self.path("1.txt", TEXT * 20), self.path("out.bin")
        model, again = self.path("m.safetensors"), self.path("n.safetensors")
        right = os.path.join(TOKENIZERS, "gpt2.json")
        wrong = os.path.join(TOKENIZERS, "llama3.json")
        self.tokenize("--tokenizer", right, "--data", text, "--out", out)
        self.train_lm("--data", text, "--tokenizer", right, "--save", model,
                      "-n", "2")
        self.train_lm("--data", out, "--tokenizer", right, "--save", again,
                      "-n", "2")
        with open(model, "rb") as one, open(again, "rb") as two:
            self.assertEqual(one.read(), two.read())
        words = ("generate", "--weights", model, "--prompt", "A rank",
                 "--max-new-tokens", "3", "--tokenizer")
        done = self.call(*words, os.path.join(TOKENIZERS, "gpt2"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.startswith("A rank"))
        for refused in (self.call(*words, wrong),
                        self.call("train", "lm", "--data", text, "--weights",
                                  model, "--tokenizer", wrong)):
            self.assertEqual(refused.returncode, 1)
            self.assertIn("is not the one that", refused.stderr)
            self.assertEqual(refused.stderr.count("\n"), 1)
        done = self.train_lm("--data", text, "--tokenizer", right, "--vocab-size",
                             "300", expected=1)
        self.assertIn("has 500 tokens, more than --vocab-size 300; give", done.stderr)

    def test_checkpoints_know_it_too(self):
        text, saved = self.path("1.txt", TEXT * 20), self.path("saved")
        words = ("--data", text, "--checkpoint-dir", saved,
                 "--save-every", "1")
        right = os.path.join(TOKENIZERS, "gpt2.json")
        self.train_lm(*words, "--tokenizer", right)
        done = self.call("generate", "--weights", saved, "--tokenizer",
                         os.path.join(TOKENIZERS, "llama3.json"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("is not the one that", done.stderr)
        done = self.train_lm(*words, "--resume", "--vocab-size", "500", expected=1)
        self.assertIn("cannot resume", done.stderr)

    def test_packed_text(self):
        name = os.path.join(TOKENIZERS, "gpt2.json")
        plain, packed = self.path("plain.bin"), self.path("packed.bin")
        for data, out in ((self.path("1.txt", TEXT), plain),
                          (self.path("1.gz", gzip.compress(TEXT.encode())), packed)):
            self.tokenize("--tokenizer", name, "--data", data, "--out", out)
        self.assertEqual(self.tokens(packed), self.tokens(plain))

    def test_refuses(self):
        out, text = self.path("out.bin"), self.path("1.txt", TEXT)
        name = os.path.join(TOKENIZERS, "gpt2.json")
        usage = (((), "give --tokenizer FILE to turn text into tokens, or "),
                 (("--train", "--tokenizer", name), "not both"),
                 (("--tokenizer", name), "--out FILE"))
        for words, message in usage:
            with self.subTest(words):
                done = self.tokenize(*words, expected=2)
                self.assertIn(message, done.stderr)
        bad = self.path("bad.txt", b"caf\xe9")
        packed = self.path("text.gz", b"\x1f\x8b\x08\x00" + bytes(20))
        array = self.path("text.npy", b"\x93NUMPY\x01\x00" + bytes(20))
        for data, message in ((bad, "is not UTF-8: byte 3 is 0xe9"),
                              (packed, "text.gz' is damaged or cut off"),
                              (array, "is an .npy array, not text"),
                              (self.path("none.txt"), "does not exist"),
                              (self.folder, "is a folder")):
            with self.subTest(data):
                done = self.tokenize("--tokenizer", name, "--data", data,
                                     "--out", out, expected=1)
                self.assertIn(message, done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1)
                self.assertFalse(os.path.exists(out))
        done = self.tokenize("--tokenizer", self.folder, "--data", text,
                             "--out", out, expected=1)
        self.assertIn("neither a tokenizer.json nor", done.stderr)
        done = self.tokenize("--train", "--vocab-size", "256", "--data", text,
                             "--out", out, expected=1)
        self.assertIn("at least 257", done.stderr)


if __name__ == "__main__":
    unittest.main()
