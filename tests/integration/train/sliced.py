"""Trainings that must end with the same bits on any number of ranks."""

import json
import os
import tempfile

import files
from program import ProgramTest

LOSSES = ("loss", "val_loss", "train_loss", "gradient_norm")


class SlicedTest(ProgramTest):
    """Trains one job with 8 slices on several numbers of ranks."""

    batch = 8  # samples of all ranks in a micro-step

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def words(self, job, ranks, *flags):
        return ("train", *job, "--ranks", str(ranks), "--threads", "1",
                "--batch-size", str(self.batch // ranks), "--quiet", *flags)

    def result(self, job, ranks, *flags, losses=LOSSES):
        """The tensors of the saved model, and the losses on the way."""
        weights, metrics = self.path("weights"), self.path("metrics")
        for path in (weights, metrics):
            if os.path.exists(path):
                os.unlink(path)
        self.succeeds(*self.words(job, ranks, "--slices", "8", "--save",
                                  weights, "--metrics", metrics, *flags))
        with open(metrics, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        return (files.read_safetensors(weights)[1],
                [[(key, line[key]) for key in losses if key in line]
                 for line in lines])

    def same(self, job, *flags, ranks=(1, 2, 4, 8), losses=LOSSES):
        first = self.result(job, ranks[0], *flags, losses=losses)
        for more in ranks[1:]:
            other = self.result(job, more, *flags, losses=losses)
            self.assertEqual(other[1], first[1], f"losses on {more} ranks")
            differing = [name for name in first[0]
                         if other[0][name] != first[0][name]]
            self.assertEqual(differing, [], f"on {more} ranks")
        return first
