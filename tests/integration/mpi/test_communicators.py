#!/usr/bin/env python3
"""Groups of MPI communicators: ls_group_from_mpi, on one host and on hosts that
LOCKSTEP_HOSTID plays. communicators.c has the scenes."""

import os
import unittest

import mpirun

PROGRAM = os.environ["TEST_COMMUNICATORS"]
HAS_UCX = os.path.exists(os.path.join(mpirun.MODULES, "liblockstep-ucx.so"))


class Communicators(unittest.TestCase):
    def play(self, ranks, scene):
        done = mpirun.run(ranks, [PROGRAM, scene],
                          {"LOCKSTEP_MODULES": mpirun.MODULES})
        size = sum(ranks)
        return done, [rank for rank in range(size) if
                      f"rank {rank} of {size} is done" in done.stderr]

    def test_parts_add_up(self):
        for ranks in [[1], [5]] + HAS_UCX * [[1, 2, 2]]:
            done, ended = self.play(ranks, "split")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(ended, list(range(sum(ranks))), done.stderr)

    def test_misuse_fails_on_all_ranks(self):
        for ranks in [[3]] + HAS_UCX * [[2, 1]]:
            done, ended = self.play(ranks, "misuse")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(ended, list(range(3)), done.stderr)

    def test_no_rank_waits_for_ever(self):
        done, _ = self.play([3], "late")
        for rank in range(3):
            self.assertIn(f"rank {rank} of 3 has tried", done.stderr)

    @unittest.skipIf(mpirun.MPI == "mpich",
                     "its launcher kills the others at once")
    def test_a_killed_rank_is_named(self):
        done = mpirun.run([3], [PROGRAM, "die"], options=["--enable-recovery"])
        self.assertEqual(done.stderr.count("rank 2 (host"), 2, done.stderr)


if __name__ == "__main__":
    mpirun.skip_unless_there()
    unittest.main()
