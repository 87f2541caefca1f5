"""train images and cifar100 --slices 8: the same bits on 1, 2, 4 and 8 ranks."""

import unittest

import files
from sliced import SlicedTest

# Validation has batches of a rank's --batch-size.
TRAINED = ("train_loss", "loss", "gradient_norm")


class SameBits(SlicedTest):
    def images(self, arch, limit):
        """A job. Validation on the 1,000 built-in images would take most of the time."""
        data = self.path("data")
        files.write_folder(data, files.records(50, 1), files.records(10, 2))
        return ("images", "--arch", arch, "--data", data, "--limit", str(limit),
                "--epochs", "1")

    def test_cnn(self):
        """Dropout, and a last batch that leaves slices empty."""
        self.batch = 16
        self.same(("cifar100", "--limit", "37", "--epochs", "1"),
                  losses=TRAINED)

    def test_vit(self):
        self.same(self.images("vit", 21), "--optimizer", "adamw", losses=TRAINED)

    def test_resnet18(self):
        self.same(self.images("resnet18", 13), losses=TRAINED)

    def test_local_batch_normalization(self):
        self.fails(1, "needs synchronized batch normalization",
                   *self.words(("cifar100", "--limit", "8", "--epochs", "1"),
                               2, "--slices", "8", "--sync-bn", "off"))
        self.succeeds(*self.words(("cifar100", "--limit", "8", "--epochs", "1"),
                                  2, "--sync-bn", "off"))


if __name__ == "__main__":
    unittest.main()
