"""train images and cifar100 --slices 8: the same bits on 1, 2, 4 and 8 ranks."""

import unittest

from sliced import SlicedTest

# Validation has batches of a rank's --batch-size.
TRAINED = ("train_loss", "loss", "gradient_norm")


class SameBits(SlicedTest):
    def test_cnn(self):
        """Dropout, and a last batch that leaves slices empty."""
        self.batch = 16
        self.same(("cifar100", "--limit", "37", "--epochs", "1"),
                  losses=TRAINED)

    def test_vit(self):
        self.same(("images", "--arch", "vit", "--limit", "21", "--epochs", "1"),
                  "--optimizer", "adamw", losses=TRAINED)

    def test_resnet18(self):
        self.same(("images", "--arch", "resnet18", "--limit", "13",
                   "--epochs", "1"), losses=TRAINED)

    def test_local_batch_normalization(self):
        self.fails(1, "needs synchronized batch normalization",
                   *self.words(("cifar100", "--limit", "8", "--epochs", "1"),
                               2, "--slices", "8", "--sync-bn", "off"))
        self.succeeds(*self.words(("cifar100", "--limit", "8", "--epochs", "1"),
                                  2, "--sync-bn", "off"))


if __name__ == "__main__":
    unittest.main()
