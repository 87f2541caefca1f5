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
    def play(self, ranks, scene):
        size = sum(ranks)
        with hosts.Hosts(len(ranks)) as some:
            done = subprocess.run(
                some.mpirun(MPI, ranks, PROGRAM, scene, *STAY), check=False,
                env=some.environment(), timeout=50, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True)
        if not STAY:  # or else MPICH's launcher takes the first end for a fault
            self.assertEqual(done.returncode, 0, done.stdout)
        for rank in range(size):
            self.assertIn(f"rank {rank} of {size} is done", done.stdout)

    def test_parts_add_up(self):
        self.play((2, 3), "split")

    def test_misuse_fails_on_all_ranks(self):
        self.play((2, 1), "misuse")


if __name__ == "__main__":
    hosts.skip_if(hosts.missing() or hosts.missing_module(MPI) or
                  hosts.missing_module("ucx"))
    unittest.main()
