"""Training does not depend on how the C library rounds exp, log, sin, cos, pow, ... If
each of them is one unit of f32 too large, the saved model is the same."""

import os
import tempfile
import unittest

import pngs
from program import ProgramTest, environment

WRONG = os.environ["TEST_OFF_BY_ONE"]
LM = ("train", "lm", "--layers", "2", "--d-model", "32", "--heads", "2", "--d-ff", "64",
      "--context", "16", "--batch-size", "4", "--steps", "4", "--schedule", "cosine",
      "--warmup-steps", "1", "--optimizer", "adamw", "--validate-every", "2")
IMAGES = ("train", "images", "--image-size", "32", "--epochs", "1", "--batch-size", "8",
          "--augment", "--label-smoothing", "0.1", "--optimizer", "adamw")


class Libm(ProgramTest):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        cls.pets = pngs.folder(os.path.join(folder.name, "pets"), ("cat", "dog"), 12)

    def path(self, name):
        return os.path.join(self.folder, name)

    def saved(self, words, **variables):
        path = self.path("model")
        done = self.call(*words, "--threads", "1", "--save", path,
                         env=environment(**variables))
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(path, "rb") as file:
            return file.read()

    def calls(self):
        with open(self.path("calls"), encoding="ascii") as file:
            return sum(map(int, file))

    def check(self, *words, levels=({"LOCKSTEP_ISA": "ref"}, {})):
        for level in levels:
            with self.subTest(words=words, level=level):
                right = self.saved(words, **level)
                wrong = self.saved(words, **level, LD_PRELOAD=WRONG,
                                   OFF_BY_ONE_CALLS=self.path("calls"))
                self.assertTrue(right == wrong, "other weights")

    def test_lm(self):
        self.check(*LM)
        # The program prints perplexities, which are e^loss.
        self.assertGreater(self.calls(), 0)

    def test_gpt2(self):
        self.check(*LM, "--size", "gpt2", "--attention", "naive", "--vocab-size", "256")

    def test_one_cycle(self):
        self.check(*LM, "--schedule", "one-cycle", "--optimizer", "lion")

    def test_cifar_net(self):
        self.check(*IMAGES, "--data", self.pets, "--arch", "cifar-net")

    def test_vit(self):
        self.check(*IMAGES, "--data", self.pets, "--arch", "vit", "--limit", "8",
                   levels=({},))

    def test_resnet(self):
        self.check(*IMAGES, "--data", self.pets, "--arch", "resnet18", "--limit", "8",
                   levels=({},))


if __name__ == "__main__":
    unittest.main()
