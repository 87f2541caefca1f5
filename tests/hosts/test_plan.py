"""Plan agrees with a step of fsdp over several nodes: bytes of memory, bytes sent."""

import os
import subprocess
import unittest

import hosts

PROGRAM = os.path.join(hosts.tree(os.environ["LOCKSTEP"]), "tests", "hosts",
                       "test_hosts_plan")


class Plan(unittest.TestCase):
    def test_bytes_are_those_of_a_step(self):
        for ranks, over in (((1, 1), 0), ((1, 1, 1), 0), ((2, 2), 0),
                            ((1, 1, 1, 1), 2), ((2, 2), 1)):
            with self.subTest(ranks=ranks, over=over), \
                    hosts.Hosts(len(ranks)) as some:
                ran = subprocess.run(
                    some.mpirun("ucx", ranks, PROGRAM, str(over)),
                    text=True, timeout=100,
                    env=some.environment(OMP_NUM_THREADS=1, LOCKSTEP_TIMEOUT=20),
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                self.assertEqual(ran.returncode, 0, ran.stdout)
                self.assertEqual(ran.stdout.count("as planned"), sum(ranks),
                                 ran.stdout)


if __name__ == "__main__":
    hosts.skip_if(hosts.missing() or hosts.missing_module("ucx"))
    unittest.main()
