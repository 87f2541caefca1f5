"""MPI starts ranks on the hosts, for the MPI that $MPI names."""

import os
import subprocess
import tempfile
import unittest

import hosts

MPI = os.environ["MPI"]


class Start(unittest.TestCase):
    def test_ranks_are_where_they_should_be(self):
        with tempfile.TemporaryDirectory(prefix="lockstep-mpi-") as folder:
            program = os.path.join(folder, "where")
            subprocess.run(
                [f"mpicc.{MPI}", os.path.join(hosts.HERE, "where.c"), "-o",
                 program], check=True)
            with hosts.Hosts(3, keep=[folder]) as three:
                done = subprocess.run(
                    three.mpirun(MPI, (2, 1, 3), program), timeout=60,
                    env=three.environment(), stdout=subprocess.PIPE,
                    universal_newlines=True, check=False)
        self.assertEqual(done.returncode, 0)
        self.assertEqual(
            sorted(done.stdout.splitlines()),
            [f"rank {rank} on h{host}: 15"
             for rank, host in enumerate((0, 0, 1, 2, 2, 2))])


if __name__ == "__main__":
    hosts.skip_if(hosts.missing() or hosts.missing_mpi(MPI))
    unittest.main()
