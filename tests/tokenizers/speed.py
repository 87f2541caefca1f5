#!/usr/bin/env python3
"""Encodes one text by the library, `tiktoken` and `tokenizers` in turn, on one
core, with one vocabulary that is trained on it; prints medians.

usage: LOCKSTEP_LIBRARY=build/dev/lib/liblockstep.so OMP_NUM_THREADS=1
       speed.py [--pattern gpt2|llama3] [--rounds N] [--megabytes N] TEXT"""
import argparse
import ctypes
import os
import statistics
import tempfile
import time

import conformance
import lockstep_tokenizer

os.environ["TOKENIZERS_PARALLELISM"] = "false"


def seconds(call):
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pattern", choices=("gpt2", "llama3"),
                        default="gpt2")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--megabytes", type=float, default=4)
    parser.add_argument("--vocabulary", type=int, default=12000)
    parser.add_argument("text")
    args = parser.parse_args()
    with open(args.text, encoding="utf-8", newline="") as file:
        text = file.read()
    gpt2 = args.pattern == "gpt2"
    hf = conformance.of_bytes([text], args.vocabulary,
                              None if gpt2 else conformance.LLAMA3)
    tik = conformance.in_tiktoken(
        "it", conformance.GPT2 if gpt2 else conformance.LLAMA3, hf)
    while len(text) < args.megabytes * 1e6:
        text += text
    data = text.encode()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "tokenizer.json")
        hf.save(path)
        ours = lockstep_tokenizer.Tokenizer(path)
    ids, n = ctypes.POINTER(ctypes.c_int64)(), ctypes.c_size_t()

    def encode():
        ours.check(ours.lib.ls_tokenizer_encode(
            ours.handle, data, ctypes.c_size_t(len(data)),
            ctypes.c_int(0), ctypes.byref(ids), ctypes.byref(n)))
        ours.lib.ls_free(ids)

    # Neither makes Python objects of the tokens; `tokenizers` does.
    calls = {"lockstep": encode,
             "tiktoken": lambda: tik.encode_to_numpy(text),
             "tokenizers": lambda: hf.encode(text, add_special_tokens=False)}
    times = {name: [] for name in calls}
    for _ in range(args.rounds):
        for name, call in calls.items():
            times[name].append(seconds(call))
    for name, of in times.items():
        median = statistics.median(of)
        print(f"{name:10} {len(data) / median * 1e-6:8.1f} MB/s "
              f"{n.value / median * 1e-6:8.2f} million tokens/s "
              f"({median / statistics.median(times['lockstep']):.1f} times "
              "the time)")


main()
