#!/usr/bin/env python3
"""Makes what tests/unit/text compares with: small tokenizers of four kinds,
trained by Hugging Face's `tokenizers`, and texts with the tokens that it makes
of them.

usage: make_vectors.py, with `pip install tokenizers==0.23.3`; writes next to
itself. A line of vectors.txt is

    FILE SPECIAL TEXT TOKENS DECODED WITHOUT_SPECIAL

where texts are in hexadecimal ("-": empty), TOKENS are numbers with commas, and
SPECIAL says whether the tokens around a text are added."""
import json
import os
import random

from tokenizers import (Regex, Tokenizer, decoders, models, normalizers,
                        pre_tokenizers, processors, trainers)

HERE = os.path.dirname(os.path.abspath(__file__))
CORPUS = [os.path.join(HERE, "..", "..", *path) for path in (
    ("docs", "numerics.md"), ("docs", "parallel.md"), ("LICENSE",))]
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
CL100K = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}"
          r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s")
BLANK = "\u2581"


def train(tokenizer, size, special, **more):
    tokenizer.train(CORPUS, trainers.BpeTrainer(
        vocab_size=size, special_tokens=special, show_progress=False, **more))


def gpt2():
    """As GPT-2's files, and as one."""
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.post_processor = processors.ByteLevel()
    train(t, 500, ["<|endoftext|>"],
          initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    folder = os.path.join(HERE, "gpt2")
    os.makedirs(folder, exist_ok=True)
    t.model.save(folder)
    end_last_line(os.path.join(folder, "vocab.json"))
    return t


def llama3():
    t = Tokenizer(models.BPE(ignore_merges=True))
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    train(t, 450, ["<|begin_of_text|>", "<|end_of_text|>"],
          initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    t.post_processor = processors.TemplateProcessing(
        "<|begin_of_text|> $A", None, [("<|begin_of_text|>", 0)])
    return t


def cl100k():
    """The tokens of llama3 with the pattern of GPT-4, but for a plus behind the
    interval, which not all libraries understand alike."""
    with open(os.path.join(HERE, "llama3.json"), encoding="utf-8") as file:
        whole = json.load(file)
    whole["pre_tokenizer"]["pretokenizers"][0]["pattern"] = {"Regex": CL100K}
    return Tokenizer.from_str(json.dumps(whole))


def llama2():
    """The form of converted SentencePiece models."""
    t = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True,
                             unk_token="<unk>"))
    t.normalizer = normalizers.Sequence([
        normalizers.Prepend(BLANK), normalizers.Replace(" ", BLANK)])
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    train(t, 480, ["<unk>", "<s>", "</s>"] +
          [f"<0x{byte:02X}>" for byte in range(256)])
    t.pre_tokenizer = None
    t.decoder = decoders.Sequence([
        decoders.Replace(BLANK, " "), decoders.ByteFallback(),
        decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    t.post_processor = processors.TemplateProcessing(
        "<s> $A", None, [("<s>", 1)])
    whole = json.loads(t.to_str())
    whole["added_tokens"] = whole["added_tokens"][:3]
    return Tokenizer.from_str(json.dumps(whole))


PARTS = ["the", " loss", "'s", "'LL", " don't", "\u017f", "'\u017f", "<s>",
         "</s>", "<unk>", "<|endoftext|>", "<|begin_of_text|>", "<0x0A>",
         BLANK, "\u00a0", "\u3000", "\u0085", "\r\n", "\n\n", "\t", "  ", " ",
         "12345", "\u0663\u0664", "\u2167", "\u00bd", "\u00e9", "e\u0301",
         "\u65e5\u672c\u8a9e", "\ud55c\uad6d", "\u0939\u093f\u0928",
         "\u0e44\u0e17\u0e22", "\U0001f469\u200d\U0001f467", "\U0001f1e9",
         "\U0001f642", "\u200b", "\0", "\ufffd", "\U00031350", "\U00010d4f",
         "aaaaaaa", "\U0010ffff", "!?", "...", "\n"]


def texts():
    draw = random.Random(1)
    yield ""
    yield from PARTS
    yield "a" * 60 + "b" * 61 + " " * 62
    yield "".join(chr(c) for c in range(1, 0x180))
    for _ in range(120):
        yield "".join(draw.choice(PARTS) for _ in range(draw.randrange(1, 12)))


def end_last_line(path):
    with open(path, "a") as file:
        file.write("\n")


def written(text):
    return text.encode().hex() or "-"


def main():
    with open(os.path.join(HERE, "vectors.txt"), "w") as out:
        for kind in (gpt2, llama3, llama2, cl100k):
            tokenizer = kind()
            name = f"{kind.__name__}.json"
            tokenizer.save(os.path.join(HERE, name))
            end_last_line(os.path.join(HERE, name))
            for i, text in enumerate(texts()):
                ids = tokenizer.encode(
                    text, add_special_tokens=i % 2 == 0).ids
                out.write(" ".join((
                    name, str(1 - i % 2), written(text),
                    ",".join(map(str, ids)) or "-",
                    written(tokenizer.decode(ids, skip_special_tokens=False)),
                    written(tokenizer.decode(ids)))) + "\n")


main()
