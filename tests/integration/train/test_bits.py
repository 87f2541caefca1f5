"""--bits: what it refuses, and what is said of ranks that differ."""

import os
import shutil
import tempfile
import unittest

from program import LOCKSTEP, ProgramTest

SMALL = ("train", "lm", "--layers", "1", "--d-model", "32", "--heads", "2",
         "--context", "16", "--validate-every", "0")


class Bits(ProgramTest):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="lockstep-bits-")
        self.addCleanup(shutil.rmtree, self.folder)

    def test_refused(self):
        for words, text in (
                (("lm", "--dtype", "bf16"), "--dtype bf16 does not go with"),
                (("cifar100", "--dtype", "f16"), "--dtype f16 does not go"),
                (("cifar100", "--sync-bn", "off"), "--sync-bn off does not")):
            done = self.call("train", *words, "--bits", "portable")
            self.assertEqual(done.returncode, 2)
            self.assertIn(text, done.stderr)
        done = self.call("train", "lm", env={"LOCKSTEP_BITS": "exact"})
        self.assertEqual(done.returncode, 2)
        self.assertIn("LOCKSTEP_BITS: 'exact' names no bits", done.stderr)

    def test_kept_with_a_checkpoint(self):
        train = (*SMALL, "--checkpoint-dir", self.folder,
                 "--save-every", "1")
        done = self.call(*train, "--steps", "2", "--bits", "portable",
                         "--no-save")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.call(*train, "--steps", "3", "--resume", "--no-save")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("made with --bits portable, but this run has fast",
                      done.stderr)

    def started(self, environment):
        """Two ranks, of which the first has more in its environment."""
        script = os.path.join(self.folder, "rank.sh")
        with open(script, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\n[ "$RANK" = 0 ] && export {environment}\n'
                       f'exec {LOCKSTEP} {" ".join(SMALL)} --steps 1 '
                       "--no-save\n")
        os.chmod(script, 0o755)
        return script

    def test_other_instructions(self):
        script = self.started("LOCKSTEP_ISA=ref")
        done = self.call("run", "-n", "2", "--bits", "fast", "--", script)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("warn: ranks use different instructions (rank 0: ref, "
                      "rank 1: ", done.stderr)
        done = self.call("run", "-n", "2", "--bits", "portable", "--", script)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("different instructions", done.stderr)

    def test_other_bits(self):
        script = self.started("LOCKSTEP_BITS=portable")
        done = self.call("run", "-n", "2", "--", script)
        self.assertEqual(done.returncode, 1)
        self.assertIn("(LOCKSTEP_BITS differs)", done.stderr)
        self.assertRegex(done.stderr, "rank 0 (is )?in select with portable bits")
        self.assertRegex(done.stderr, "rank 1 (is )?in select with fast bits")


if __name__ == "__main__":
    unittest.main()
