"""The collectives conform on hosts with as many ranks as $RANKS says."""

import os
import subprocess
import unittest

import hosts

MPI = os.environ["MPI"]
CONFORMANCE = os.environ["CONFORMANCE"]
HOW = os.environ.get("HOW", "rank")
RANKS = tuple(map(int, os.environ["RANKS"].split(",")))


class Conformance(unittest.TestCase):
    def test_ranks_on_hosts(self):
        with hosts.Hosts(len(RANKS)) as some:
            done = subprocess.run(
                some.mpirun(MPI, RANKS, CONFORMANCE, HOW, "brief"),
                env=some.environment(), timeout=280, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    hosts.skip_if(hosts.missing() or hosts.missing_module(MPI))
    unittest.main()
