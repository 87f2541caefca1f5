#!/usr/bin/env python3
"""Hugging Face's Trainer and accelerate train on Lockstep as on gloo, on 2 ranks."""
import dataclasses
import importlib.util
import os
import sys
import unittest
from unittest import mock

import frameworks
import torch
import torch.distributed as dist

for name in ("accelerate", "transformers"):
    if not importlib.util.find_spec(name):
        print(f"no module {name}: not tested")
        sys.exit(77)

import accelerate
from accelerate.state import PartialState
from accelerate.utils import InitProcessGroupKwargs
from transformers import (HfArgumentParser, Trainer, TrainerCallback,
                          TrainingArguments)

import lockstep_torch


def arguments(backend, file, steps):
    return dict(output_dir=os.path.dirname(file), ddp_backend=backend, use_cpu=True,
                max_steps=steps, learning_rate=frameworks.RATE,
                per_device_train_batch_size=frameworks.ROWS, logging_steps=1,
                save_strategy="no", report_to="none", disable_tqdm=True)


def train(asked, file, steps, width):
    class Steps(TrainerCallback):
        def on_step_end(self, *_, **__):
            clock()

    clock, model = frameworks.Clock(), frameworks.Model(width)
    trainer = Trainer(model, asked, train_dataset=frameworks.Sequences(steps),
                      callbacks=[Steps()])
    trainer.train()
    losses = [row["loss"] for row in trainer.state.log_history if "loss" in row]
    backend = dist.get_backend()
    if dist.get_rank() == 0:
        torch.save(frameworks.result(backend, losses, model, clock), file)


def trainer(backend, file, steps, width):
    lockstep_torch.patch_accelerate()
    train(TrainingArguments(**arguments(backend, file, steps)), file, steps, width)


def parser(backend, file, steps, width):
    lockstep_torch.patch_accelerate()
    words = [f"--{key}={value}" for key, value in
             arguments(backend, file, steps).items()]
    [asked] = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses(words)
    train(asked, file, steps, width)


def unpatched(backend, file, steps, width):
    dist.init_process_group(backend)
    train(TrainingArguments(**arguments("gloo", file, steps)), file, steps, width)


def accelerator(backend, file, steps, width):
    lockstep_torch.patch_accelerate()
    context = accelerate.Accelerator(
        cpu=True, kwargs_handlers=[InitProcessGroupKwargs(backend=backend)])
    model = frameworks.Model(width)
    loader = torch.utils.data.DataLoader(frameworks.Sequences(steps),
                                         batch_size=frameworks.ROWS)
    optimizer = torch.optim.AdamW(model.parameters(), frameworks.RATE)
    wrapped, optimizer, loader = context.prepare(model, optimizer, loader)
    clock, losses = frameworks.Clock(), []
    for batch in loader:
        optimizer.zero_grad()
        loss = wrapped(**batch)["loss"]
        context.backward(loss)
        optimizer.step()
        losses.append(context.gather(loss.detach()).mean())
        clock()
    assert context.gather_for_metrics(["a" * context.process_index],
                                      use_gather_object=True) == ["", "a"]
    if context.is_main_process:
        torch.save(frameworks.result(dist.get_backend(), losses, model, clock), file)
    context.end_training()


WAYS = {way.__name__: way for way in (trainer, parser, unpatched, accelerator)}


class Training(unittest.TestCase):
    def test_trainer(self):
        frameworks.check_as_on_gloo(self, __file__, ["trainer", "parser", "unpatched"])

    def test_accelerator(self):
        frameworks.check_as_on_gloo(self, __file__, ["accelerator"])


class Patch(unittest.TestCase):
    """The effects of patch_accelerate, in this process."""

    def setUp(self):
        # Undo the patch after each test.
        theirs = PartialState._prepare_backend
        self.addCleanup(setattr, PartialState, "_prepare_backend", theirs)
        self.theirs, self.choices = theirs, self.field().metadata["choices"]
        kept = list(self.choices)
        self.addCleanup(self.choices.__setitem__, slice(None), kept)
        patch = mock.patch.dict(os.environ, WORLD_SIZE="2", RANK="0", LOCAL_RANK="0")
        patch.start()
        self.addCleanup(patch.stop)

    @staticmethod
    def field():
        return TrainingArguments.__dataclass_fields__["ddp_backend"]

    def chosen(self, backend):
        return PartialState._prepare_backend(None, True, False, backend)

    def check_refused(self, *parts):
        before = list(self.choices)
        with self.assertRaises(RuntimeError) as caught:
            lockstep_torch.patch_accelerate()
        for part in (*parts, 'init_process_group("lockstep")'):
            self.assertIn(part, str(caught.exception))
        self.assertEqual(self.choices, before)

    def test_backends(self):
        before = [self.chosen(name) for name in (None, "gloo", "mpi", "nccl")]
        self.assertEqual(self.chosen("lockstep")[0], "gloo")
        lockstep_torch.patch_accelerate()
        self.assertEqual([self.chosen(name) for name in (None, "gloo", "mpi", "nccl")],
                         before)
        self.assertEqual(self.chosen("lockstep"),
                         ("lockstep", accelerate.DistributedType.MULTI_CPU))

    def test_twice(self):
        lockstep_torch.patch_accelerate()
        once, choices = PartialState._prepare_backend, list(self.choices)
        lockstep_torch.patch_accelerate()
        self.assertIs(PartialState._prepare_backend, once)
        self.assertEqual(self.choices, choices)
        self.assertEqual(choices.count("lockstep"), 1)

    def test_other_parameters(self):
        PartialState._prepare_backend = lambda self, backend: None
        self.check_refused(f"accelerate {accelerate.__version__}", "'self, backend'",
                           "'self, cpu, sagemaker_dp, backend'")

    def test_no_method(self):
        with mock.patch.object(PartialState, "_prepare_backend"):
            del PartialState._prepare_backend
            self.check_refused("PartialState has no method _prepare_backend")
        PartialState._prepare_backend = self.theirs

    def test_no_choices(self):
        other = dataclasses.field(metadata={"choices": ["nccl"]})
        with mock.patch.object(self.field(), "metadata", other.metadata):
            self.check_refused("transformers", "TrainingArguments.ddp_backend")
        self.assertIs(PartialState._prepare_backend, self.theirs)


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in WAYS:
        frameworks.main(WAYS)
    else:
        unittest.main()
