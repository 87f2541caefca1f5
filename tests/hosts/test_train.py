"""Training on 2 hosts with 2 ranks each ends with the weights of 1 host with 4 ranks.
It saves them on the host of rank 0. It fails with a message if the hosts do not share the
folder of checkpoints. The sizes of buckets change no bit."""

import os
import subprocess
import tempfile
import unittest

import hosts

LOCKSTEP = os.environ["LOCKSTEP"]
MPI = os.environ["MPI"]


class Train(unittest.TestCase):
    def train(self, folder, ranks, *words):
        return self.run_on_hosts(folder, ranks, "cifar100", "--deterministic",
                                 "--limit", "256", "--epochs", "1",
                                 "--batch-size", "16", *words)

    def run_on_hosts(self, folder, ranks, *words):
        path = os.path.join(folder, "weights.safetensors")
        with hosts.Hosts(len(ranks), keep=[folder]) as some:
            done = subprocess.run(
                some.mpirun(MPI, ranks, LOCKSTEP, "train", *words, "--save",
                            path),
                env=some.environment(OMP_NUM_THREADS=1), timeout=100,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        with open(path, "rb") as file:
            return file.read()

    def sliced(self, folder, ranks, *words, **changes):
        os.environ.update(changes)
        try:
            data = self.run_on_hosts(folder, ranks, *words, "--slices", "8")
        finally:
            for name in changes:
                del os.environ[name]
        size = 8 + int.from_bytes(data[:8], "little")
        return data[size:]

    def test_slices_are_dealt_by_place(self):
        """Without --deterministic sums over 2 x 2 ranks fold nodes first. Samples are
        dealt so that this is the fold of 4 ranks, under either kind of bits."""
        cnn = ("cifar100", "--limit", "40", "--epochs", "1", "--batch-size", "4")
        lm = ("lm", "--layers", "1", "--d-model", "48", "--heads", "4", "--d-ff",
              "64", "--context", "24", "--batch-size", "2", "--steps", "4",
              "--size", "gpt2", "--vocab-size", "256", "--dropout-rate", "0.1",
              "--validate-every", "0")
        with tempfile.TemporaryDirectory() as folder:
            for job in (cnn, (*lm, "--strategy", "fsdp"), lm):
                one = self.sliced(folder, (4,), *job)
                self.assertEqual(self.sliced(folder, (2, 2), *job), one)
                self.assertEqual(self.sliced(folder, (2, 2), *job,
                                             "--deterministic"), one)
            portable = {"LOCKSTEP_BITS": "portable"}
            one = self.sliced(folder, (4,), *lm, **portable)
            for ranks in ((2, 2), (1, 3)):
                self.assertEqual(self.sliced(folder, ranks, *lm, **portable),
                                 one)

    def test_a_folder_that_hosts_do_not_share(self):
        with hosts.Hosts(2) as two:
            done = subprocess.run(
                two.mpirun(MPI, (1, 1), LOCKSTEP, "train", "cifar100",
                           "--limit", "16", "--epochs", "1", "--batch-size",
                           "4", "--save-every", "1", "--checkpoint-dir",
                           "/tmp/run"),
                env=two.environment(OMP_NUM_THREADS=1), timeout=100,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stdout, "rank 1: host h1 cannot find "
                                      "'/tmp/run/step-[0-9]+', which rank 0 "
                                      "can see")

    def test_rank_0s_host_keeps_the_result(self):
        with hosts.Hosts(2) as two:
            done = subprocess.run(
                two.mpirun(MPI, (1, 2), "sh", "-c", "mkdir -p /tmp/here; cd "
                           '/tmp/here && exec "$0" "$@"', LOCKSTEP, "train",
                           "cifar100", "--limit", "16", "--epochs", "1",
                           "--batch-size", "4"),
                env=two.environment(OMP_NUM_THREADS=1), timeout=100,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                check=False)
            self.assertEqual(done.returncode, 0, done.stdout)
            first, other = (subprocess.run(
                two.words(name, "find", "/tmp/here", "-type", "f"),
                stdout=subprocess.PIPE, text=True, check=True).stdout
                for name in ("h0", "h1"))
        self.assertEqual(other, "")
        folder, = {os.path.dirname(path) for path in first.split()}
        self.assertRegex(folder, "^/tmp/here/runs/cifar100-[0-9-]+-1$")
        self.assertEqual(sorted(map(os.path.basename, first.split())),
                         ["metrics.jsonl", "model.safetensors", "run.json"])
        self.assertIn(f"results go to '{folder[len('/tmp/here/'):]}'",
                      done.stdout)

    def test_weights_are_the_same(self):
        with tempfile.TemporaryDirectory(prefix="lockstep-train-") as folder:
            one = self.train(folder, (4,))
            self.assertEqual(self.train(folder, (2, 2)), one)
            for strategy in ("zero1", "shared", "fsdp"):
                with self.subTest(strategy=strategy):
                    self.assertEqual(self.train(
                        folder, (2, 2), "--strategy", strategy,
                        "--bucket-mb", "0.04"), one)

    def test_buckets_of_any_size(self):
        """With 1 KB, biases are buckets, which cross in another way than long
        ones. They begin at 0, so no bit of their sums is lost."""
        with tempfile.TemporaryDirectory(prefix="lockstep-train-") as folder:
            def weights(ranks, *words):
                return self.run_on_hosts(
                    folder, ranks, "lm", "--size", "gpt2", "--vocab-size",
                    "256", "--layers", "2", "--d-model", "40", "--heads", "4",
                    "--d-ff", "60", "--context", "24", "--batch-size", "3",
                    "--steps", "2", "--optimizer", "sgd", "--schedule",
                    "constant", "--warmup-steps", "0", *words)
            for ranks in (2, 2), (2, 1, 3):
                one = weights(ranks, "--strategy", "flat")
                for strategy, size in (("bucketed", "0.001"),
                                       ("zero1", "0.001"), ("zero1", "25"),
                                       ("fsdp", "0.001")):
                    with self.subTest(ranks=ranks, strategy=strategy,
                                      size=size):
                        self.assertEqual(weights(
                            ranks, "--strategy", strategy, "--bucket-mb",
                            size), one)


if __name__ == "__main__":
    hosts.skip_if(hosts.missing() or hosts.missing_module(MPI))
    unittest.main()
