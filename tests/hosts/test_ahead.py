"""A sender does not run ahead of a rank that waits for another one."""

import os
import subprocess
import unittest

import hosts

PROGRAM = os.path.join(hosts.tree(os.environ["LOCKSTEP"]), "tests", "hosts",
                       "test_hosts_ahead")


class Ahead(unittest.TestCase):
    def test_a_waiting_rank_keeps_little(self):
        with hosts.Hosts(3) as three:
            done = subprocess.run(
                three.mpirun("ucx", (1, 1, 1), PROGRAM),
                env=three.environment(OMP_NUM_THREADS=1, LOCKSTEP_TIMEOUT=20),
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                timeout=50, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(done.stdout.count(" more for a vector of "), 2, done.stdout)


if __name__ == "__main__":
    hosts.skip_if(hosts.missing() or hosts.missing_module("ucx"))
    unittest.main()
