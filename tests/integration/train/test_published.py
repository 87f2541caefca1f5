"""Models as Hugging Face's transformers write them: eval, generate, train."""

import json
import os
import shutil
import struct
import tempfile
import unittest

from program import ProgramTest

HERE = os.path.dirname(os.path.abspath(__file__))
PUBLISHED = os.path.join(HERE, "..", "..", "parity", "published")
PROMPT = 5  # tokens


def expected():
    with open(os.path.join(PUBLISHED, "expected.json"), encoding="ascii") as f:
        return json.load(f)


EXPECTED = expected()
MODELS = [name for name, value in EXPECTED.items() if isinstance(value, dict)]


def model(name):
    return os.path.join(PUBLISHED, name)


def numbers(tokens):
    return ",".join(map(str, tokens))


def byte_letters():
    """The letters by which byte-level tokenizers write bytes."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    other = [b for b in range(256) if b not in kept]
    return {**{b: chr(b) for b in kept},
            **{b: chr(256 + i) for i, b in enumerate(other)}}


def write_tokenizer(path, merges=(("t", "h"), ("th", "e"))):
    letters = byte_letters()
    vocabulary = {letters[b]: b for b in range(256)}
    for a, b in merges:
        vocabulary[a + b] = len(vocabulary)
    end = len(vocabulary)
    with open(path, "w", encoding="utf-8") as f:
        json.dump({
            "version": "1.0", "truncation": None, "padding": None,
            "added_tokens": [{"id": end, "content": "<|endoftext|>",
                              "single_word": False, "lstrip": False,
                              "rstrip": False, "normalized": False,
                              "special": True}],
            "normalizer": None,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False,
                              "trim_offsets": True, "use_regex": True},
            "post_processor": None,
            "decoder": {"type": "ByteLevel", "add_prefix_space": True,
                        "trim_offsets": True, "use_regex": True},
            "model": {"type": "BPE", "dropout": None, "unk_token": None,
                      "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False,
                      "byte_fallback": False, "vocab": vocabulary,
                      "merges": [" ".join(pair) for pair in merges]}}, f)
    return path


def positions(path):
    """The bytes of the learned positions in a file of weights."""
    with open(path, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        name, = (n for n in header if n.endswith("wpe.weight"))
        begin, end = header[name]["data_offsets"]
        f.seek(begin, 1)
        return f.read(end - begin)


class PublishedTest(ProgramTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def write_tokens(self, name, tokens):
        with open(self.path(name), "wb") as f:
            f.write(struct.pack("<%dH" % len(tokens), *tokens))
        return self.path(name)

    def one_thread(self, *words):
        """Models this small gain nothing by more, which may have to wait."""
        command = 1 if words[0] == "generate" else 2
        return self.call(*words[:command], "--threads", "1", *words[command:])

    def good(self, *words):
        done = self.one_thread(*words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def refuse(self, part, *words):
        done = self.one_thread(*words)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(part, done.stderr)
        said = [line for line in done.stderr.splitlines()
                if not line.startswith("loaded the weights ")]
        self.assertEqual(len(said), 1, done.stderr)

    def rows(self, *words):
        path = self.path("rows.json")
        self.good("eval", "lm", "--json=" + path, *words)
        with open(path, encoding="utf-8") as f:
            return json.load(f)["rows"]

    def copy(self, name):
        return shutil.copytree(model(name), self.path(name))


class Published(PublishedTest):
    def test_perplexity_is_that_of_transformers(self):
        text = self.write_tokens("text.u16", EXPECTED["text"])
        for name in MODELS:
            for how, loss in EXPECTED[name]["loss"].items():
                context, stride = how.split("/")
                row, = self.rows("--weights", model(name), "--data", text,
                                 "--context", context, "--stride", stride)
                self.assertEqual(row["tokens"], len(EXPECTED["text"]) - 1)
                self.assertLess(abs(row["loss"] / loss - 1), 1e-6, name)
                self.assertGreater(row["tokens_per_second"], 0)

    def test_ranks_and_files(self):
        text = self.write_tokens("text.u16", EXPECTED["text"])
        short = self.write_tokens("short.u16", EXPECTED["text"][:2])
        batches = self.write_tokens("batches.u16", [k * k % 29 for k in range(9000)])
        name = "llama_groups"
        losses = set()
        for ranks in "1", "2", "3", "5":
            rows = self.rows("-n", ranks, "--weights", model(name), "--data",
                             text, short, text, batches)
            self.assertEqual([row["tokens"] for row in rows], [149, 1, 149, 8999])
            self.assertEqual(rows[0]["loss"], rows[2]["loss"])
            self.assertLess(
                abs(rows[0]["loss"] / EXPECTED[name]["loss"]["24/24"] - 1), 1e-6)
            losses.add(rows[3]["loss"])
        row, = self.rows("-n", "3", "--strategy", "fsdp", "--weights", model(name),
                         "--data", batches)
        losses.add(row["loss"])
        self.assertEqual(len(losses), 1)

    def test_answers_are_those_of_transformers(self):
        for name in MODELS:
            answer = EXPECTED[name]["answer"]
            said = self.good("generate", "--weights", model(name), "--max-new-tokens",
                             str(len(answer) - PROMPT), "--temperature", "0",
                             "--prompt", numbers(answer[:PROMPT]))
            self.assertEqual(said.strip(), numbers(answer[PROMPT:]), name)

    def test_training_goes_on(self):
        tokens = [(k * k // 3 + k) % 29 for k in range(2000)]
        text = self.write_tokens("text.u16", tokens)
        for name in "llama_llama3", "gpt2":
            saved = self.path(name + ".safetensors")
            before, = self.rows("--weights", model(name), "--data", text)
            self.good("train", "lm", "-n", "2", "--weights", model(name),
                      "--data", text, "--steps", "20", "--lr", "0.003",
                      "--batch-size", "4", "--save", saved)
            after, = self.rows("--weights", saved, "--data", text)
            self.assertLess(after["loss"], before["loss"] - 0.5)

    def test_contexts_shorter_than_learned_positions(self):
        """The first 8 of 24 positions are trained; the others stay."""
        text = self.write_tokens("text.u16", EXPECTED["text"])
        how = ("--data", text, "--context", "8")
        losses, places = [], []
        for steps in "0", "10":
            saved = self.path(steps + ".safetensors")
            self.good("train", "lm", "-n", "2", "--weights", model("gpt2"), *how,
                      "--steps", steps, "--lr", "0.003", "--weight-decay", "0",
                      "--batch-size", "4", "--save", saved)
            losses += [row["loss"] for row in self.rows("--weights", saved, *how)]
            places.append(positions(saved))
        before, = self.rows("--weights", model("gpt2"), *how)
        self.assertEqual(losses[0], before["loss"])
        self.assertLess(losses[1], before["loss"])
        theirs, ours = places
        self.assertEqual(len(ours), len(theirs))
        row = len(theirs) // 24
        self.assertEqual(ours[8 * row:], theirs[8 * row:])
        for k in range(8):
            self.assertNotEqual(ours[k * row:][:row], theirs[k * row:][:row])
        self.refuse("the 24 learned positions of", "train", "lm", "--weights",
                    model("gpt2"), "--data", text, "--context", "25")

    def test_saved_names_are_the_published_ones(self):
        text = self.write_tokens("text.u16", EXPECTED["text"])
        saved = self.path("saved.safetensors")
        self.good("train", "lm", "--weights", model("llama_tied"), "--data", text,
                  "--steps", "0", "--context", "8", "--save", saved)
        with open(saved, "rb") as f, open(
                os.path.join(model("llama_tied"), "model.safetensors"),
                "rb") as g:
            ours, theirs = (json.loads(x.read(struct.unpack("<Q", x.read(8))[0]))
                            for x in (f, g))
        self.assertEqual(ours.pop("__metadata__")["format"], "pt")
        theirs.pop("__metadata__")
        self.assertEqual({k: (v["dtype"], v["shape"]) for k, v in ours.items()},
                         {k: (v["dtype"], v["shape"])
                          for k, v in theirs.items()})


class Errors(PublishedTest):
    def refuse_eval(self, part, folder, *words):
        text = self.write_tokens("text.u16", EXPECTED["text"])
        self.refuse(part, "eval", "lm", "--weights", folder, "--data", text,
                    *words)

    def change(self, path, function):
        with open(path, encoding="ascii") as f:
            value = json.load(f)
        function(value)
        with open(path, "w", encoding="ascii") as f:
            json.dump(value, f)

    def test_shards(self):
        folder = self.copy("llama_linear")
        shard = "model-00002-of-00004.safetensors"
        os.rename(os.path.join(folder, shard), self.path("away"))
        self.refuse_eval(shard, folder)
        self.refuse_eval("model.safetensors.index.json' names", folder)
        shutil.copy(os.path.join(folder, "model-00001-of-00004.safetensors"),
                    os.path.join(folder, shard))
        self.refuse_eval("does not contain tensor", folder)
        os.rename(self.path("away"), os.path.join(folder, shard))
        index = os.path.join(folder, "model.safetensors.index.json")
        self.change(index, lambda v: v["weight_map"].pop("model.norm.weight"))
        self.refuse_eval("has no tensor 'model.norm.weight'", folder)
        self.change(index, lambda v: v["weight_map"].update({"a": "../b"}))
        self.refuse_eval("does not give a valid file for tensor 'a'", folder)
        self.change(index, lambda v: v.pop("weight_map"))
        self.refuse_eval("it does not contain a \"weight_map\"", folder)

    def test_configurations(self):
        for change, part in (
                ({"rope_parameters": {"rope_type": "yarn", "factor": 2}},
                 "\"rope_type\": \"yarn\"; only"),
                ({"rope_parameters": {"rope_type": "linear", "factor": 0.5}},
                 "it must be at least 1"),
                ({"rope_parameters": 3}, "it should be an object, or null"),
                ({"model_type": "mistral"}, "\"mistral\"; only \"llama\""),
                ({"attention_bias": True}, "\"attention_bias\": true"),
                ({"num_key_value_heads": 3}, "it must divide heads, 4"),
                ({"num_hidden_layers": 1}, "the file contains tensors of 2 layers"),
                ({"num_hidden_layers": 3}, "has no tensor 'model.layers.2."),
                ({"hidden_size": 18}, "does not have this shape"),
                ({"intermediate_size": 25}, "has shape (24, 16), expected"),
                ({"vocab_size": 0}, "a whole number above 0"),
                ({"rms_norm_eps": 2}, "a number between 0 and 1"),
                ({"num_attention_heads": None}, "is missing")):
            folder = self.copy("llama_groups")
            self.change(os.path.join(folder, "config.json"),
                        lambda v, change=change: v.update(change))
            self.refuse_eval(part, folder)
            shutil.rmtree(folder)
        folder = self.copy("llama_groups")
        os.remove(os.path.join(folder, "config.json"))
        self.refuse_eval("Put the model's config.json next to the file", folder)
        os.remove(os.path.join(folder, "model.safetensors"))
        self.refuse_eval("The folder contains no model.safetensors either", folder)

    def test_texts_and_windows(self):
        name = model("llama_groups")
        with open(self.path("a.txt"), "w", encoding="ascii") as f:
            f.write("the end")
        self.refuse("give the model's tokenizer", "eval", "lm", "--weights",
                    name, "--data", self.path("a.txt"))
        self.refuse_eval("longer than the model's context of 24 tokens", name, "--context", "25")
        self.refuse_eval("more than the context of 8 tokens", name, "--context", "8",
                         "--stride", "9")
        one = self.write_tokens("one.u16", [1])
        self.refuse("at least 2 tokens are needed", "eval", "lm", "--weights", name,
                    "--data", one)
        much = self.write_tokens("much.u16", [1, 29])
        self.refuse("29", "eval", "lm", "--weights", name, "--data", much)
        self.refuse("exclude each other", "train", "lm", "--weights", name,
                    "--layers", "3")
        self.refuse("is more than the 24 positions of", "train", "lm", "--weights", name,
                    "--context", "25")
        self.refuse("tokens are not bytes", "train", "lm", "--weights", name)
        self.refuse("for a new model of that size give --size tiny", "train", "lm",
                    "--weights", "tiny")


class Tokenizers(PublishedTest):
    """A model of 262 tokens, or so; those of a tokenizer are 259."""

    def make(self, vocabulary="262"):
        self.good("train", "lm", "--steps", "3", "--layers", "1", "--d-model",
                  "32", "--heads", "2", "--d-ff", "48", "--context", "32",
                  "--vocab-size", vocabulary, "--data",
                  self.write_tokens("t.u16", [k % 259 for k in range(900)]),
                  "--save", self.path("model.safetensors"))
        return (self.path("model.safetensors"),
                write_tokenizer(self.path("words.json")))

    def test_text_is_that_of_the_numbers(self):
        path, tokenizer = self.make("259")
        draw = ["generate", "--weights", path, "--max-new-tokens", "60", "--top-k", "40",
                "--ignore-end"]
        tokens = self.good(*draw, "--prompt", "257").strip().split(",")
        self.assertEqual(len(tokens), 60)
        special = {256: b"th", 257: b"the", 258: b""}
        text = b"the" + b"".join(special.get(t, bytes([t % 256]))
                                 for t in map(int, tokens) if t < 259)
        draw += ["--prompt", "the"]
        for name in "words.json", "tokenizer.json": # which is found
            os.rename(tokenizer, self.path(name))
            tokenizer = self.path(name)
            found = name == "tokenizer.json"
            said = self.good(*draw, *([] if found else ["--tokenizer", tokenizer]))
            self.assertEqual(said, text.decode("utf-8", "replace") + "\n")

    def test_several_prompts(self):
        path, tokenizer = self.make()
        lines = ["the", "then", "ü the"]
        with open(self.path("prompts"), "w", encoding="utf-8") as f:
            f.write("\n".join(lines) + "\n")
        draw = ["generate", "--weights", path, "--tokenizer", tokenizer,
                "--max-new-tokens", "40", "--temperature", "0"]
        together = self.good(*draw, "--prompts", self.path("prompts"))
        self.assertEqual(together, self.good(
            *draw, *(word for line in lines for word in ("--prompt", line))))
        alone = [self.good(*draw, "--prompt", line)[:-1] for line in lines]
        self.assertEqual(
            together.split("\n")[:-1],
            [t.replace("\\", "\\\\").replace("\n", "\\n") for t in alone])
        for line, text in zip(lines, alone):
            self.assertTrue(text.startswith(line))
        with open(self.path("prompts"), "a", encoding="utf-8") as f:
            f.write("\0\nthe\n") # damaged
        self.refuse("byte 16 is zero", *draw, "--prompts", self.path("prompts"))

    def test_models_keep_their_tokenizer(self):
        """Files and checkpoints, wherever they are moved; --tokenizer wins."""
        text = self.path("a.txt")
        with open(text, "w", encoding="ascii") as f:
            f.write("then the thin thing there\n" * 200)
        words = write_tokenizer(self.path("words.json"))
        config = self.path("tokenizer_config.json")
        with open(config, "w", encoding="ascii") as f:
            f.write('{"eos_token": "the"}')
        saved, runs = self.path("model.safetensors"), self.path("runs")
        self.good("train", "lm", "-n", "2", "--tokenizer", words, "--data",
                  text, "--steps", "4", "--layers", "1", "--d-model", "32",
                  "--heads", "2", "--d-ff", "48", "--context", "32", "--save",
                  saved, "--checkpoint-dir", runs, "--save-every", "4")
        draw = ("--max-new-tokens", "60", "--top-k", "40", "--prompt", "the")
        want = self.good("generate", "--weights", saved, "--tokenizer", words,
                         *draw)
        loss, = self.rows("--weights", saved, "--tokenizer", words, "--data", text)
        os.mkdir(self.path("elsewhere"))
        moved = self.path("elsewhere/m.safetensors")
        os.rename(saved, moved)
        os.remove(config)
        os.rename(words, self.path("elsewhere/words.json"))
        for model in moved, runs, os.path.join(runs, "step-000000000004"):
            self.assertEqual(self.good("generate", "--weights", model, *draw),
                             want)
            row, = self.rows("--weights", model, "--data", text)
            self.assertEqual(row["loss"], loss["loss"])
        # The end of a text is kept, which is not in tokenizer.json.
        with open(moved, "rb") as f:
            header = f.read(struct.unpack("<Q", f.read(8))[0])
            rest = f.read()
        self.assertEqual(json.loads(header)["__metadata__"]["tokenizer_end"],
                         "257")
        # A model that is trained further still has it.
        again = self.path("again.safetensors")
        self.good("train", "lm", "--weights", moved, "--data", text, "--steps",
                  "0", "--save", again)
        self.assertEqual(self.good("generate", "--weights", again, *draw), want)
        self.check_damaged_tokenizer(header, rest, draw)

    def check_damaged_tokenizer(self, header, rest, draw):
        path = self.path("damaged.safetensors")
        damaged = header.replace(b"Split", b"Spilt").replace(b"th e", b"th i")
        self.assertNotEqual(damaged, header)
        with open(path, "wb") as f:
            f.write(struct.pack("<Q", len(damaged)) + damaged + rest)
        self.refuse("the tokenizer in " + path, "generate", "--weights", path,
                    *draw)
        damaged = header.replace(b'\\"use_regex\\": true', b'\\"use_regex\\":false')
        self.assertNotEqual(damaged, header)
        with open(path, "wb") as f:
            f.write(struct.pack("<Q", len(damaged)) + damaged + rest)
        stored = json.loads(header)["__metadata__"]["tokenizer"]
        self.refuse(", but the file's metadata 'tokenizer' has " + stored,
                    "generate", "--weights", path, *draw)
        self.good("generate", "--weights", path, "--tokenizer",
                  self.path("elsewhere/words.json"), *draw)

    def test_evaluation_encodes(self):
        path, tokenizer = self.make()
        with open(self.path("a.txt"), "w", encoding="ascii") as f:
            f.write("the end of the text")
        row, = self.rows("--weights", path, "--tokenizer", tokenizer, "--data",
                         self.path("a.txt"))
        self.assertEqual(row["tokens"], 14)

    def test_another_vocabulary_is_refused(self):
        path, _ = self.make()
        merges = [("t", "h"), ("th", "e")] + [("e", c) for c in "abcdefg"]
        large = write_tokenizer(self.path("large.json"), merges)
        with open(self.path("a.txt"), "w", encoding="ascii") as f:
            f.write("the end")
        for command in (["generate"], ["eval", "lm", "--data",
                                       self.path("a.txt")]):
            self.refuse("the tokenizer '%s' has 266 tokens, but the "
                        "vocabulary" % large, *command, "--weights", path, "--tokenizer",
                        large)
        self.refuse("large2.json", "generate", "--weights", path, "--tokenizer",
                    self.path("large2.json"))


if __name__ == "__main__":
    unittest.main()
