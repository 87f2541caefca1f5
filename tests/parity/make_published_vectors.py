#!/usr/bin/env python3
"""Writes published/, small models as Hugging Face's transformers save them, and
what transformers compute from them, in double precision.

    python3 make_published_vectors.py > published_vectors.txt

Needs PyTorch and transformers. vectors.py says what the lines are;
The test test_parity_published.c compares logits, loss and gradients.
The test tests/integration/train/test_published.py compares the values of published/expected.json:
tokens that the likeliest continuation has, and the mean loss over a text.
"""

import json
import os
import shutil

import torch
import transformers
from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig

from vectors import draw, emit

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "published")
VOCABULARY, BATCH, LENGTH, CONTEXT = 29, 2, 11, 24
PROMPT, ANSWER, TEXT = 5, 12, 150


def llama(**more):
    return LlamaConfig(vocab_size=VOCABULARY, hidden_size=16,
                       intermediate_size=24, num_hidden_layers=2,
                       num_attention_heads=4, max_position_embeddings=CONTEXT,
                       bos_token_id=None, eos_token_id=None, **more)


def gpt2(**more):
    return GPT2Config(vocab_size=VOCABULARY, n_embd=16, n_layer=2, n_head=2,
                      n_positions=CONTEXT, resid_pdrop=0.0, embd_pdrop=0.0,
                      attn_pdrop=0.0, bos_token_id=None, eos_token_id=None, **more)


LINEAR = {"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "rope_theta": 500000.0,
          "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 16}

# Name, configuration, type of the file, bytes of a shard or None.
MODELS = [
    ("llama_groups", llama(num_key_value_heads=2), torch.float32, None),
    ("llama_tied", llama(tie_word_embeddings=True, head_dim=6, rms_norm_eps=1e-2),
     torch.float32, None),
    ("llama_linear", llama(num_key_value_heads=1, rope_parameters=LINEAR),
     torch.float32, 6000),
    ("llama_llama3", llama(num_key_value_heads=2, rope_parameters=LLAMA3),
     torch.bfloat16, None),
    ("llama_f16", llama(tie_word_embeddings=True), torch.float16, 4000),
    ("gpt2", gpt2(), torch.float32, 8000),
    ("gpt2_bf16", gpt2(layer_norm_epsilon=1e-3, tie_word_embeddings=False),
     torch.bfloat16, None),
]


def randomise(model, seed):
    """Far from zero, so that everything shows in the logits."""
    torch.manual_seed(seed)
    for name, p in model.named_parameters():
        norm = p.ndim == 1 and name.endswith("weight")
        p.data = torch.randn(p.shape) * 0.25 + (1.0 if norm else 0.0)


def save(name, config, dtype, shard, seed):
    model = AutoModelForCausalLM.from_config(config)
    randomise(model, seed)
    model.to(dtype).save_pretrained(
        os.path.join(FOLDER, name),
        **({"max_shard_size": shard} if shard else {}))
    extra = os.path.join(FOLDER, name, "generation_config.json")
    if os.path.exists(extra):
        os.remove(extra)


def tokens(seed, count):
    return torch.tensor([k % VOCABULARY for k in draw(seed, count)])


def published_name(name):
    """Of a parameter in the file."""
    return name.removeprefix("transformer.")


def gradients(name, model):
    ids, targets = tokens(50, BATCH * LENGTH), tokens(51, BATCH * LENGTH)
    logits = model(ids.reshape(BATCH, LENGTH)).logits
    loss = torch.nn.functional.cross_entropy(
        logits.reshape(-1, VOCABULARY), targets)
    loss.backward()
    emit(name + ".logits", logits)
    emit(name + ".loss", loss)
    for key, p in model.named_parameters():
        turn = key.startswith("transformer.h.") and p.ndim == 2
        emit(name + ".d" + published_name(key), p.grad.T if turn else p.grad)


def text_loss(model, text, context, stride):
    """The mean over all tokens but the first; each sees at least context -
    stride tokens before it, or all of them near the start."""
    total, done = 0.0, 0
    for begin in range(0, len(text) - 1, stride):
        end = min(begin + context, len(text) - 1)
        logits = model(text[None, begin:end]).logits[0]
        each = torch.nn.functional.cross_entropy(
            logits, text[begin + 1:end + 1], reduction="none")
        total += each[done - begin:].sum().item()
        done = end
        if end == len(text) - 1:
            break
    return total / done


def answer(model):
    ids = tokens(60, PROMPT)[None]
    with torch.no_grad():
        for _ in range(ANSWER):
            best = model(ids).logits[0, -1].argmax()
            ids = torch.cat((ids, best.reshape(1, 1)), 1)
    return ids[0].tolist()


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    expected = {"made by": "transformers " + transformers.__version__}
    text = tokens(70, TEXT)
    for seed, (name, config, dtype, shard) in enumerate(MODELS):
        save(name, config, dtype, shard, seed)
        model = AutoModelForCausalLM.from_pretrained(
            os.path.join(FOLDER, name), dtype=torch.float64,
            attn_implementation="eager").train()
        gradients(name, model)
        with torch.no_grad():
            expected[name] = {
                "answer": answer(model),
                "loss": {"%d/%d" % (c, s): text_loss(model, text, c, s)
                         for c, s in ((CONTEXT, CONTEXT), (16, 4))}}
    expected["text"] = text.tolist()
    with open(os.path.join(FOLDER, "expected.json"), "w", encoding="ascii") as f:
        json.dump(expected, f, indent=1)
        f.write("\n")


main()
