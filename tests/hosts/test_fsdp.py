"""Weights divided over nodes: fsdp ends with the bits of flat, on any hosts, across a
checkpoint, and names a rank that dies."""

import os
import subprocess
import tempfile
import time
import unittest

import hosts

LOCKSTEP = os.environ["LOCKSTEP"]
PROGRAM = os.path.join(hosts.tree(LOCKSTEP), "tests", "hosts", "test_hosts_fsdp")
LM = ("train", "lm", "--deterministic", "--size", "tiny", "--context", "32",
      "--batch-size", "2")
# Of crashes, in place of the address sanitizer's.
OWN_HANDLER = {"ASAN_OPTIONS": ":".join(
    filter(None, (os.environ.get("ASAN_OPTIONS"), "handle_segv=0")))}
FSDP = ("--strategy", "fsdp", "--bucket-mb", "0.5")
SHARED = ("--strategy", "shared")


class Fsdp(unittest.TestCase):
    def start(self, some, ranks, *words):
        return subprocess.Popen(
            some.mpirun("ucx", ranks, *words), text=True,
            env=some.environment(OMP_NUM_THREADS=1, LOCKSTEP_TIMEOUT=20),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def run_on(self, ranks, folder, *words):
        with hosts.Hosts(len(ranks), keep=[folder]) as some:
            job = self.start(some, ranks, *words)
            said, _ = job.communicate(timeout=100)
        self.assertEqual(job.returncode, 0, said)
        return said

    def weights(self, ranks, folder, *words):
        path = os.path.join(folder, "weights.safetensors")
        self.run_on(ranks, folder, LOCKSTEP, *LM, "--save", path, *words)
        with open(path, "rb") as file:
            return file.read()

    def test_a_program(self):
        for ranks, over in (((2, 2), 0), ((1, 1, 1), 0), ((1, 2), 0),
                            ((1, 1, 1, 1), 2), ((2, 1, 1, 2), 2), ((2, 2), 1)):
            with self.subTest(ranks=ranks, over=over), \
                    tempfile.TemporaryDirectory(prefix="lockstep-") as folder:
                said = self.run_on(ranks, folder, PROGRAM,
                                   os.path.join(folder, "weights"), str(over))
                self.assertEqual(said.count("equal"), sum(ranks), said)

    def crash(self, how, keep=(), **changes):
        """The output of a job whose last rank reads weights that it does not have."""
        with hosts.Hosts(2, keep=keep) as two:
            job = subprocess.run(
                two.mpirun("ucx", (1, 2), PROGRAM, how, "-1"), text=True,
                env=two.environment(LOCKSTEP_TIMEOUT=20, **changes), timeout=60,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        self.assertNotEqual(job.returncode, 0)
        self.assertIn("kept ", job.stdout)
        self.assertNotIn("absent ", job.stdout)
        return job.stdout

    def test_an_absent_weight_is_named(self):
        for how, name in (("released", "blocks.1.weight"),
                          ("early", "blocks.3.weight")):
            with self.subTest(how=how):
                self.assertRegex(
                    self.crash(how, **OWN_HANDLER),
                    r"lockstep\[2\] error: cannot access 0x[0-9a-f]+ in "
                    rf"'{name}': .*call ls_params_fetch")

    def test_the_file_of_a_crash_names_it(self):
        with tempfile.TemporaryDirectory(prefix="lockstep-") as folder:
            path = os.path.join(folder, "crash")
            said = self.crash("released", [folder], LOCKSTEP_CRASH_FILE=path,
                              **OWN_HANDLER)
            with open(path, encoding="utf-8") as file:
                lines = file.read().splitlines()
        self.assertNotIn("cannot access", said)
        self.assertRegex(lines[1], "^signal 11 address 0x")
        self.assertRegex(lines[2], "^note cannot access .*'blocks.1.weight'")

    def test_weights_are_those_of_flat(self):
        everything = ("--activation-checkpointing", "--accumulate", "2",
                      "--ema", "0.9", "--clip-norm", "0.5")
        gpt2 = ("--size", "gpt2", "--layers", "3", "--d-model", "64",
                "--heads", "2", "--d-ff", "96", "--context", "64")
        cases = (((2, 2), "all", ()), ((1, 1, 1), "all", ("--dtype", "bf16")),
                 ((1, 2), "all", everything), ((1, 1, 1, 1), "2", everything),
                 ((1, 1, 1, 1), "2", ("--dtype", "bf16")),
                 ((1, 1, 1, 1), "2", (*gpt2, "--dtype", "bf16")),
                 ((1, 1, 1, 1), "2", gpt2), ((2, 2), "1", ()))
        for ranks, over, words in cases:
            with self.subTest(ranks=ranks, over=over, words=words), \
                    tempfile.TemporaryDirectory(prefix="lockstep-") as folder:
                words = (*words, "--steps", "4")
                self.assertEqual(
                    self.weights(ranks, folder, *FSDP, "--shard-over", over,
                                 *words),
                    self.weights((sum(ranks),), folder, *words))

    def test_audits_are_those_of_flat(self):
        """No rank gathers the weights, and the final digest is the same."""
        words = (LOCKSTEP, *LM, "--steps", "4", "--ema", "0.9", "--no-save", "--quiet",
                 "--audit-every", "2", "--audit")
        with tempfile.TemporaryDirectory(prefix="lockstep-") as folder:
            lasts = []
            for i, (ranks, how) in enumerate((((3,), ()), ((1, 2), FSDP), ((1, 1, 1), FSDP),
                                              ((2, 1), SHARED), ((1, 2), ("--strategy", "zero1")))):
                path = os.path.join(folder, f"{i}.audit")
                said = self.run_on(ranks, folder, *words, path, *how)
                lasts.append(said.split("final digest ")[1].split()[0])
        self.assertEqual(lasts, lasts[:1] * len(lasts))

    def test_checkpoints_fit_other_strategies(self):
        for first, then in ((FSDP, ()), ((), FSDP)):
            with self.subTest(first=first), \
                    tempfile.TemporaryDirectory(prefix="lockstep-") as folder:
                runs = os.path.join(folder, "run")
                same = ("--schedule", "constant", "--steps")
                keep = ("--checkpoint-dir", runs, "--save-every", "2")
                self.weights((1, 1), folder, *first, *keep, *same, "2")
                self.assertEqual(self.weights((1, 1), folder, *then, *keep,
                                              "--resume", *same, "4"),
                                 self.weights((2,), folder, *same, "4"))

    def test_weights_of_a_file_that_only_rank_0_has(self):
        """They reach their owners, in each order that a file may have."""
        script = 'test "$RANK" != 0 || cp "$0" "$1"; shift; exec "$@"'
        own = "/tmp/only.safetensors"  # each host has its own /tmp
        gpt2 = ("--size", "gpt2", "--layers", "2", "--d-model", "60",
                "--heads", "5", "--d-ff", "100")
        for kind, dtype in (((), "bf16"), (gpt2, "f32")):
            with self.subTest(kind=kind), \
                    tempfile.TemporaryDirectory(prefix="lockstep-") as folder:
                first = os.path.join(folder, "first")
                saved = os.path.join(folder, "weights.safetensors")
                words = (LOCKSTEP, *LM, *kind, "--dtype", dtype, "--steps", "2")
                self.run_on((1,), folder, *words, "--output-dir", first)
                first = os.path.join(first, "model.safetensors")
                files = []
                for ranks, how in (((1, 2), FSDP), ((3,), ()), ((2, 1), SHARED)):
                    self.run_on(ranks, folder, "sh", "-c", script, first, own,
                                *words, "--seed", "9", "--save", saved,
                                "--init", own, *how)
                    with open(saved, "rb") as file:
                        files.append(file.read())
                self.assertEqual(files[0], files[1])
                self.assertEqual(files[0], files[2])

    def test_a_file_that_does_not_fit_ends_all_ranks(self):
        with tempfile.TemporaryDirectory(prefix="lockstep-") as folder:
            path = os.path.join(folder, "weights.safetensors")
            self.weights((1,), folder, "--steps", "0", "--d-ff", "90")
            with hosts.Hosts(2, keep=[folder]) as some:
                job = self.start(some, (1, 2), LOCKSTEP, *LM, *FSDP, "--no-save",
                                 "--init", path)
                said, _ = job.communicate(timeout=60)
        self.assertNotEqual(job.returncode, 0)
        self.assertEqual(said.count("expected ("), 1, said)

    def test_checkpoints_fit_other_groups_of_nodes(self):
        one, two = ((*FSDP, "--shard-over", n) for n in ("1", "2"))
        four = (1, 1, 1, 1)
        cases = ((four, two, (4,), ()), ((2, 2), one, four, two),
                 (four, two, four, FSDP))
        for at_first, first, at_end, then in cases:
            with self.subTest(first=first, then=then), \
                    tempfile.TemporaryDirectory(prefix="lockstep-") as folder:
                keep = ("--checkpoint-dir", os.path.join(folder, "run"),
                        "--save-every", "2")
                same = ("--schedule", "constant", "--dtype", "bf16", "--steps")
                self.weights(at_first, folder, *first, *keep, *same, "2")
                self.assertEqual(self.weights(at_end, folder, *then, *keep,
                                              "--resume", *same, "4"),
                                 self.weights((4,), folder, *same, "4"))

    def test_groups_that_do_not_fit_are_refused(self):
        with hosts.Hosts(3) as some:
            for over, wanted in (("2", "over 2 of 3 nodes.*values that fit: 3"),
                                 ("0", "'0' is not 'all' or a number of nodes"),
                                 ("x", "'x' is not 'all' or a number of nodes")):
                job = self.start(some, (1, 1, 1), LOCKSTEP, *LM, *FSDP,
                                 "--no-save", "--shard-over", over)
                said, _ = job.communicate(timeout=60)
                self.assertNotEqual(job.returncode, 0)
                self.assertRegex(said, wanted)
            job = self.start(some, (1, 1, 1), LOCKSTEP, *LM, "--shard-over", "3")
            said, _ = job.communicate(timeout=60)
            self.assertRegex(said, "--shard-over 3 cannot be used with "
                                   "--strategy flat")

    def test_auto_measures_it(self):
        with tempfile.TemporaryDirectory(prefix="lockstep-") as folder:
            said = self.run_on((1, 1), folder, LOCKSTEP, *LM, "--steps", "2",
                               "--no-save", "--strategy", "auto")
        self.assertRegex(said, "strategy: .*auto; 5 measured: .*fsdp")

    def test_too_little_memory_is_refused(self):
        with hosts.Hosts(2) as two:
            job = self.start(two, (1, 1), LOCKSTEP, "train", "lm", "--size", "10B",
                             "--layers", "600", *FSDP, "--steps", "1", "--no-save")
            said, _ = job.communicate(timeout=60)
        self.assertEqual(job.returncode, 1, said)
        self.assertRegex(said, "need at least [0-9.]+ .iB, but only [0-9.]+ .iB are "
                               "available. 2.8 GiB of this are gathered weights: 3 layers "
                               "of at most 972 MiB .--prefetch-layers 2.. Use "
                               "--prefetch-layers 0 and [0-9]+ nodes or more")

    def test_a_rank_that_dies_is_named(self):
        with hosts.Hosts(2) as two:
            job = self.start(two, (1, 1), LOCKSTEP, *LM, *FSDP, "--steps", "5000")
            time.sleep(4)
            two.kill("h1")
            said, _ = job.communicate(timeout=60)
        self.assertNotEqual(job.returncode, 0)
        self.assertRegex(said, "rank 1 .*died", said)


if __name__ == "__main__":
    hosts.skip_if(hosts.missing() or hosts.missing_module("ucx"))
    unittest.main()
