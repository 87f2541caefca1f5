"""vllm-project/vllm#33628: groups of ranks of two hosts, whose members must decide
alike which of them share memory.

    test_vllm_33628.py [--rounds 1000]
"""

import argparse
import os
import subprocess
import sys
import unittest

import hosts

PROGRAM = os.path.join(hosts.tree(os.environ["LOCKSTEP"]), "tests", "hosts",
                       "test_hosts_vllm_33628")
ROUNDS = "1000"


class Subgroups(unittest.TestCase):
    def test_members_decide_alike(self):
        for ranks in ((2, 2), (1, 3)):
            with self.subTest(ranks=ranks), hosts.Hosts(2) as two:
                done = subprocess.run(
                    two.mpirun("ucx", ranks, PROGRAM, ROUNDS),
                    env=two.environment(OMP_NUM_THREADS="1"),
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                    check=False)
                self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    hosts.skip_if(hosts.missing() or hosts.missing_module("ucx"))
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", default=ROUNDS)
    flags, rest = parser.parse_known_args()
    ROUNDS = flags.rounds
    unittest.main(argv=[sys.argv[0], *rest])
