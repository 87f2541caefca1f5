"""train lm --slices 8: the same bits on 1, 2, 4 and 8 ranks, and refusals."""

import os
import re
import shutil
import unittest

from program import SOURCE
from sliced import SlicedTest

TINY = ("--layers", "2", "--d-model", "48", "--heads", "4", "--d-ff", "64",
        "--context", "24", "--validate-every", "2")
ROPE = ("lm", *TINY)
GPT2 = ("lm", "--size", "gpt2", "--vocab-size", "256", "--dropout-rate", "0.1",
        *TINY)
STRATEGIES = os.path.join(SOURCE, "lib/model/parallel/strategies.def")


class SameBits(SlicedTest):
    def test_rope(self):
        self.same(ROPE, "--steps", "5")

    def test_gpt2_with_dropout(self):
        """Tied weights, learned positions, layer norms and biases."""
        with_dropout = self.same(GPT2, "--steps", "4")
        without, _ = self.result(GPT2, 1, "--steps", "4", "--dropout-rate", "0")
        self.assertNotEqual(with_dropout[0], without)

    def test_micro_steps_and_recomputed_blocks(self):
        plain, _ = self.same(GPT2, "--steps", "3", "--accumulate", "2",
                             ranks=(1, 4))
        again, _ = self.result(GPT2, 2, "--steps", "3", "--accumulate", "2",
                               "--activation-checkpointing")
        self.assertEqual(again, plain)

    def test_every_strategy(self):
        with open(STRATEGIES, encoding="ascii") as file:
            names = re.findall(r"^X\((\w+),", file.read(), re.MULTILINE)
        self.assertGreaterEqual(len(names), 8)
        one = self.result(ROPE, 1, "--steps", "3")
        for name in names:
            with self.subTest(strategy=name):
                self.assertEqual(self.result(ROPE, 2, "--steps", "3",
                                             "--strategy", name.lower()), one)

    def test_mixed_precision(self):
        """Weights that products round have slices, too."""
        self.same(ROPE, "--steps", "3", "--dtype", "bf16", ranks=(1, 2))

    def test_slices_matter(self):
        """Without slices the numbers of ranks differ in rounding."""
        self.batch = 8
        one = self.result(ROPE, 1, "--steps", "3", "--slices", "1")
        two = self.result(ROPE, 2, "--steps", "3", "--slices", "2")
        self.assertNotEqual(one[0], two[0])


class Resuming(SlicedTest):
    def test_other_numbers_of_ranks(self):
        """A checkpoint of 4 ranks is continued on 2 and on 1."""
        whole, _ = self.result(GPT2, 4, "--steps", "6")
        first, saved = self.path("first"), self.path("saved")
        saving = ("--checkpoint-dir", saved, "--save-every", "2")
        self.succeeds(*self.words(GPT2, 4, "--slices", "8", "--steps", "6",
                                  *saving, "--save", first))
        for step in (4, 6):
            shutil.rmtree(os.path.join(saved, f"step-{step:012}"))
        for ranks in (2, 1):
            copy = self.path(f"copy-{ranks}")
            shutil.copytree(saved, copy)
            weights, _ = self.result(
                GPT2, ranks, "--steps", "6", "--checkpoint-dir", copy,
                "--save-every", "2", "--resume")
            self.assertEqual(weights, whole)

    def test_other_numbers_of_slices(self):
        saving = ("--checkpoint-dir", self.path("saved"), "--save-every", "1",
                  "--steps", "2")
        self.succeeds(*self.words(ROPE, 2, "--slices", "8", *saving))
        for slices, now in ((("--slices", "4"), "4"), ((), "one per rank")):
            self.fails(1, f"--slices 8, but this run has {now}",
                       *self.words(ROPE, 2, *slices, *saving, "--resume"))


class Refusals(SlicedTest):
    def test_numbers(self):
        for ranks, slices, message in (
                (2, "3", "cannot divide --slices 3 among 2 ranks"),
                (1, "16", "--slices 16 is more than the 8 sequences"),
                (1, "128", "at most 64 slices per rank")):
            with self.subTest(slices=slices):
                self.fails(1, message, *self.words(ROPE, ranks, "--slices",
                                                   slices, "--steps", "1"))

    def test_three_ranks_train_without_slices(self):
        self.batch = 6
        self.succeeds(*self.words(ROPE, 3, "--steps", "2"))


if __name__ == "__main__":
    unittest.main()
