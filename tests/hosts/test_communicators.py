"""Groups of the communicators of an MPI program on two hosts: the one that
tests/integration/mpi/communicators.c plays."""

import os
import subprocess
import unittest

import hosts

MPI = os.environ["MPI"]
PROGRAM = os.environ["COMMUNICATORS"]
STAY = ["stay"] if MPI == "mpich" else []  # communicators.c says why


class Communicators(unittest.TestCase):
    def play(self, ranks, scene, end="is done"):
        size = sum(ranks)
        with hosts.Hosts(len(ranks)) as some:
            done = subprocess.run(
                some.mpirun(MPI, ranks, PROGRAM, scene, *STAY), check=False,
                env=some.environment(), timeout=50, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True)
        # Launchers take an end without MPI_Finalize for a fault.
        if not STAY and scene != "late":
            self.assertEqual(done.returncode, 0, done.stdout)
        for rank in range(size):
            self.assertIn(f"rank {rank} of {size} {end}", done.stdout)

    def test_parts_add_up(self):
        self.play((2, 3), "split")

    def test_misuse_fails_on_all_ranks(self):
        self.play((2, 1), "misuse")

    def test_no_rank_waits_for_ever(self):
        self.play((2, 1), "late", "has tried")


if __name__ == "__main__":
    hosts.skip_if(hosts.missing() or hosts.missing_module(MPI) or
                  hosts.missing_module("ucx"))
    unittest.main()
