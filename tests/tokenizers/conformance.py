#!/usr/bin/env python3
"""Compares the library's tokenizers with Hugging Face's `tokenizers` and with
`tiktoken`: vocabularies of several kinds, which are trained on the given texts
first; the texts; texts of hard Unicode; and random ones. All must be equal:
tokens, text of tokens at once and one by one, and trained vocabularies.

usage: LOCKSTEP_LIBRARY=build/dev/lib/liblockstep.so
       conformance.py [--random N] [--seed S] [--kinds NAME,...] TEXT...
with `pip install tokenizers tiktoken`"""
import argparse
import json
import os
import random
import sys
import tempfile
import unicodedata

import tiktoken
from tokenizers import (Regex, Tokenizer, decoders, models, normalizers,
                        pre_tokenizers, processors, trainers)

import lockstep_tokenizer

GPT2 = (r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+"
        r"|\s+(?!\S)|\s+")
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN = LLAMA3.replace("{1,3}", "")
# With {1,3}+, which Oniguruma takes for repeated, here {1,3}.
CL100K = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}"
          r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s")
BLANK = "\u2581"


# ---- tokenizers ------------------------------------------------------------

def trainer(size, special, **more):
    return trainers.BpeTrainer(vocab_size=size, special_tokens=special,
                               show_progress=False, **more)


def of_bytes(texts, size, pattern=None, ignore_merges=False,
             special=("<|endoftext|>",)):
    t = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    level = pre_tokenizers.ByteLevel(add_prefix_space=False,
                                     use_regex=pattern is None)
    t.pre_tokenizer = level if pattern is None else pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(pattern), "isolated"), level])
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(texts, trainer(
        size, list(special),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return t


def normalized(tokenizer):
    """As Qwen's."""
    tokenizer.normalizer = normalizers.NFC()
    return tokenizer


def of_characters(texts, size):
    """The form of converted SentencePiece models."""
    t = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True,
                             unk_token="<unk>"))
    t.normalizer = normalizers.Sequence([
        normalizers.Prepend(BLANK), normalizers.Replace(" ", BLANK)])
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    t.train_from_iterator(texts, trainer(
        size, ["<unk>", "<s>", "</s>"] +
        [f"<0x{byte:02X}>" for byte in range(256)], limit_alphabet=300))
    t.pre_tokenizer = None
    t.decoder = decoders.Sequence([
        decoders.Replace(BLANK, " "), decoders.ByteFallback(),
        decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    t.post_processor = processors.TemplateProcessing(
        "<s> $A", None, [("<s>", 1)])
    whole = json.loads(t.to_str())
    whole["added_tokens"] = whole["added_tokens"][:3]
    return whole


def variants(gpt2, llama2):
    """Files with rarer parts."""
    gpt2 = json.loads(gpt2.to_str())
    level = {"type": "ByteLevel", "add_prefix_space": False,
             "trim_offsets": True, "use_regex": True}
    gpt2["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [
        {"type": "Digits", "individual_digits": True}, level]}
    yield "digits", json.dumps(gpt2)
    gpt2["pre_tokenizer"] = {**level, "add_prefix_space": True}
    n = len(gpt2["model"]["vocab"])
    gpt2["added_tokens"] += [
        {"id": n, "content": "<x>", "single_word": False, "lstrip": True,
         "rstrip": True, "normalized": True, "special": False},
        {"id": n + 1, "content": "<x>y z", "single_word": False,
         "lstrip": False, "rstrip": False, "normalized": False,
         "special": True}]
    gpt2["decoder"] = None
    yield "prefix", json.dumps(gpt2)
    gpt2["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"String": "e"}, "behavior": "Removed",
         "invert": False}, {**level, "use_regex": False}]}
    yield "removed", json.dumps(gpt2)
    yield "llama2", json.dumps(llama2)
    llama2["normalizer"] = None
    for scheme in ("always", "first", "never"):
        for split in (False, True):
            part = {"type": "Metaspace", "replacement": BLANK,
                    "prepend_scheme": scheme, "split": split}
            llama2.update(pre_tokenizer=part, decoder=part)
            yield f"metaspace-{scheme}-{split}", json.dumps(llama2)


def in_tiktoken(name, pattern, whole):
    """The same vocabulary."""
    characters = {}
    code = 256
    for byte in range(256):
        printable = 33 <= byte <= 126 or 161 <= byte <= 172 or byte >= 174
        characters[chr(byte if printable else code)] = byte
        code += not printable
    special = {t.content: i
               for i, t in whole.get_added_tokens_decoder().items()}
    ranks = {bytes(characters[c] for c in token): i
             for token, i in whole.get_vocab().items() if token not in special}
    return tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks,
                             special_tokens=special)


# ---- texts -----------------------------------------------------------------

HARD = [
    "", " ", "\n", "\r\n\r\n", "\t \t", "  two", "a\u00a0b", "\u3000\u2003x",
    "don't DON'T \u2019s '\u017f 'LL'll", "1234567 \u0663\u0664\u0665 \u2167",
    "e\u0301 \u00e9 \u212b \ufb01", "\U0001f469\u200d\U0001f469\u200d\U0001f467",
    "\U0001f1e9\U0001f1ea\u20e3\ufe0f", "\u0939\u093f\u0928\u094d\u0926\u0940",
    "\u65e5\u672c\u8a9e\u306e\u6587\u7ae0\u3002\n\u6b21", "\u0e44\u0e17\u0e22",
    "\u202eabc\u202c", "\u0000\u0001\u007f\u0080\u009f", "\ufeffBOM",
    "\ue000\uf8ff\U000f0000\U0010ffff", "\ufffe\uffff\ufffd", BLANK * 3,
    f"a{BLANK}b {BLANK} c", "<s></s><unk> <s>x</s>", "<|endoftext|>a",
    " <|endoftext|> ", "<x> y <x>y z<x>", "<0x0A><0xZZ>",
    "a" * 1000, " " * 1000, "\n" * 100 + "x", "'" * 200, "1" * 200,
    "\u00e9" * 500, "ab" * 700, "!?" * 300 + "\n" * 3,
    "\U00031350\U0002ebf0\U00010d4f\U00011de0\u1c8a\ua7cb",  # 15, 15.1, 16
    "".join(chr(c) for c in range(1, 0x300)),
    "".join(chr(c) for c in range(0x300, 0x3000, 7) if c < 0xd800),
]
PIECES = ["'s", "'LL", " 're", "'\u017f", "<s>", "</s>", "<unk>", "<x>",
          "<|endoftext|>", "<|begin_of_text|>", "<x>y z", "<0x0A>"]


def character(draw):
    kind = draw.random()
    if kind < .35:
        return chr(draw.randrange(32, 127))
    if kind < .5:
        return draw.choice(" \n\t\r\u00a0\u2003\u3000\u0085'\u2019\u017f"
                           "\u200b\0" + BLANK)
    if kind < .6:
        return draw.choice(PIECES)
    if kind < .7:
        return chr(draw.randrange(0x80, 0x800))
    code = draw.randrange(0x800, 0x10000 if kind < .95 else 0x110000)
    return "x" if 0xd800 <= code < 0xe000 else chr(code)


def random_text(draw):
    n = draw.choice((1, 2, 3, 5, 8, 13, 30, 80))
    if draw.random() < .3:
        return "".join(draw.choice("ab '\n1.") for _ in range(n))
    return "".join(character(draw) for _ in range(n))


# ---- comparing -------------------------------------------------------------

class Comparison:
    def __init__(self, name):
        self.name, self.texts, self.bad = name, 0, 0

    def equal(self, what, case, ours, theirs):
        if ours == theirs:
            return
        self.bad += 1
        if self.bad <= 5:
            print(f"{self.name}: {what} of {case!r:.200}: {ours!r:.200} and "
                  f"not {theirs!r:.200}")

    def end(self):
        print(f"{self.name}: {self.texts} texts, {self.bad} differ",
              flush=True)
        return self.bad


def falls_back(hf):
    """Then the decoder by parts cannot take back what bytes have become."""
    return "ByteFallback" in hf.to_str()


def same_normal_form(text, hf):
    """`tokenizers` 0.23 has the normal forms of an old Unicode."""
    return not isinstance(hf.normalizer, normalizers.NFC) or \
        hf.normalizer.normalize_str(text) == unicodedata.normalize("NFC", text)


def compare(name, path, hf, tik, texts, seed):
    c, draw = Comparison(name), random.Random(seed)
    ours = lockstep_tokenizer.Tokenizer(path)
    falls = falls_back(hf)
    size = ours.lib.ls_tokenizer_vocabulary(ours.handle)
    c.equal("size", "it", size, hf.get_vocab_size())
    for text in texts:
        if not same_normal_form(text, hf):
            continue
        c.texts += 1
        ids = hf.encode(text).ids
        c.equal("tokens", text, ours.encode(text, True), ids)
        if tik is not None:
            c.equal("tokens (tiktoken)", text, ours.encode(text),
                    tik.encode(text, allowed_special="all"))
        if draw.random() < .5:
            ids = [draw.randrange(size) for _ in range(draw.randrange(12))]
        special = draw.random() < .5
        whole = hf.decode(ids, skip_special_tokens=not special)
        c.equal("text", ids, ours.decode(ids, special), whole)
        if len(ids) < 1000 and not (falls and "\ufffd" in whole):
            c.equal("text, one by one", ids, ours.stream(ids, special), whole)
    return c.end()


def compare_training(texts, folder):
    """Merges that are learnt, of both patterns."""
    c = Comparison("training")
    path = os.path.join(folder, "text")
    for text in texts:
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        for size, pattern in ((1000, None), (20000, None), (5000, LLAMA3)):
            hf = of_bytes([text], size, pattern)
            ours = json.loads(lockstep_tokenizer.train(
                path, size, pattern is not None))["model"]
            theirs = json.loads(hf.to_str())["model"]
            c.texts += 1
            c.equal("vocabulary", size, ours["vocab"], theirs["vocab"])
            c.equal("merges", size, [m.split(" ") for m in ours["merges"]],
                    [m.split(" ") if isinstance(m, str) else m
                     for m in theirs["merges"]])
    return c.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--random", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", help="these alone, with commas")
    parser.add_argument("texts", nargs="+")
    args = parser.parse_args()
    given = []
    for path in args.texts:
        with open(path, encoding="utf-8", newline="") as file:
            given.append(file.read())
    draw = random.Random(args.seed)
    texts = given + HARD + [random_text(draw) for _ in range(args.random)]
    gpt2 = of_bytes(given, 12000)
    kinds = [("gpt2", gpt2, GPT2),
             ("llama3", of_bytes(given, 8000, LLAMA3, True,
                                 ("<|begin_of_text|>", "<|end_of_text|>")),
              LLAMA3),
             ("qwen", of_bytes(given, 6000, QWEN), QWEN),
             ("nfc", normalized(of_bytes(given, 4000, QWEN)), None),
             ("cl100k", of_bytes(given, 6000, CL100K), CL100K)]
    kinds += [(name, Tokenizer.from_str(text), None) for name, text in
              variants(gpt2, of_characters(given, 6000))]
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, hf, pattern in kinds:
            if args.kinds and name not in args.kinds.split(","):
                continue
            path = os.path.join(folder, f"{name}.json")
            hf.save(path)
            tik = pattern and in_tiktoken(name, pattern, hf)
            bad += compare(name, path, hf, tik, texts, args.seed)
        gpt2.model.save(folder)
        bad += compare("gpt2, two files", os.path.join(folder, "vocab.json"),
                       gpt2, None, given + HARD, args.seed)
        bad += compare_training(given, folder)
    sys.exit(bad != 0)


if __name__ == "__main__":
    main()
