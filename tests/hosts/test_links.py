"""Links that are bad but lead on: packets get lost, or take long, or nothing
comes through for a while. The results of ranks are right all the same."""

import json
import os
import subprocess
import tempfile
import time
import unittest

import hosts

LOCKSTEP = os.environ["LOCKSTEP"]
MPI = os.environ["MPI"]
RANKS = (2, 2)


class Links(unittest.TestCase):
    def start(self, two, folder, sizes, iterations):
        return subprocess.Popen(
            two.mpirun(MPI, RANKS, LOCKSTEP, "bench", "all-reduce", "--sizes",
                       sizes, "--iterations", str(iterations), "--place", "in",
                       "--json=" + os.path.join(folder, "rows")),
            env=two.environment(LOCKSTEP_TIMEOUT=20, OMP_NUM_THREADS=1),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True)

    def check(self, job, folder, rows):
        said, _ = job.communicate(timeout=80)
        self.assertEqual(job.returncode, 0, said)
        with open(os.path.join(folder, "rows"), encoding="utf-8") as file:
            found = json.load(file)["rows"]
        self.assertEqual([row["wrong"] for row in found], [0] * rows)

    def run_over(self, sizes, iterations, **link):
        with tempfile.TemporaryDirectory(prefix="lockstep-links-") as folder:
            with hosts.Hosts(len(RANKS), keep=[folder], **link) as two:
                job = self.start(two, folder, sizes, iterations)
                self.check(job, folder, len(sizes.split(",")))

    def test_one_packet_in_a_hundred_is_lost(self):
        self.run_over("1,1k,100k,1m", 10, delay=0.0002, loss=0.01)

    def test_packets_take_long(self):
        self.run_over("1,1m", 3, delay=0.02)

    def test_a_link_is_cut_and_joined(self):
        with tempfile.TemporaryDirectory(prefix="lockstep-links-") as folder:
            with hosts.Hosts(len(RANKS), keep=[folder]) as two:
                job = self.start(two, folder, "256k", 3000)
                end = time.monotonic() + 30
                while two.bytes("h1")[0] < 20000000 and job.poll() is None:
                    self.assertLess(time.monotonic(), end)
                    time.sleep(0.02)
                two.cut("h1")
                self.assertIsNone(job.poll())
                sent = two.bytes("h1")[0]
                time.sleep(1)  # how long the link is away
                self.assertLess(two.bytes("h1")[0] - sent, 4000000)
                two.join("h1")
                self.check(job, folder, 1)


if __name__ == "__main__":
    hosts.skip_if(hosts.missing() or hosts.missing_module(MPI) or
                  hosts.missing_shaping(None, 0.03))
    unittest.main()
