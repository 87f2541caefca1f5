"""Reductions over hosts fold the ranks of each host, then the results of the hosts,
at every length (tests/conformance/test_node_orders.c)."""

import os
import subprocess
import unittest

import hosts

MPI = os.environ["MPI"]
CONFORMANCE = os.environ["CONFORMANCE"]


class Orders(unittest.TestCase):
    def reduce(self, *ranks):
        with hosts.Hosts(len(ranks)) as some:
            done = subprocess.run(
                some.mpirun(MPI, ranks, CONFORMANCE, "node_orders", "rank",
                            ",".join(map(str, ranks))),
                env=some.environment(), timeout=60, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_two_hosts_of_two(self):
        self.reduce(2, 2)

    def test_three_hosts_of_one(self):
        self.reduce(1, 1, 1)

    def test_four_hosts_of_one(self):
        self.reduce(1, 1, 1, 1)

    def test_uneven_hosts(self):
        self.reduce(2, 1, 3)


if __name__ == "__main__":
    hosts.skip_if(hosts.missing() or hosts.missing_module(MPI))
    unittest.main()
