"""Ranks of PyTorch on two hosts, whose collectives go by UCX."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import hosts

PYTHON = os.environ.get("TORCH_PYTHON") or sys.executable
LIBRARY = os.environ.get("LOCKSTEP_COMM_LIBRARY", "")  # or that of an installed wheel
SOURCE = os.environ["LOCKSTEP_SOURCE"]
PROGRAM = os.path.join(SOURCE, "python", "tests", "test_launchers.py")
RANKS = (2, 1)  # as many as that program wants


class Torch(unittest.TestCase):
    def run_with(self, library, **changes):
        with hosts.Hosts(len(RANKS), keep=[SOURCE, os.path.dirname(library)]) as two:
            return subprocess.run(
                two.mpirun("ucx", RANKS, PYTHON, "-W", "ignore", PROGRAM, "--rank"),
                env=two.environment(
                    MASTER_ADDR="h0", MASTER_PORT="29500", USE_LIBUV="0",
                    OMP_NUM_THREADS="1", LOCKSTEP_COMM_LIBRARY=library, **changes),
                timeout=140, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                text=True, check=False)

    def test_collectives(self):
        done = self.run_with(LIBRARY)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_torchrun(self):
        with hosts.Hosts(len(RANKS), keep=[SOURCE, os.path.dirname(LIBRARY)]) as two:
            jobs = [subprocess.Popen(
                two.words(f"h{node}", PYTHON, "-W", "ignore", "-m",
                          "torch.distributed.run", "--nnodes", str(len(RANKS)),
                          "--nproc-per-node", str(count), "--rdzv-backend", "c10d",
                          "--rdzv-endpoint", "h0:29500", PROGRAM, "--rank"),
                env=two.environment(USE_LIBUV="0", OMP_NUM_THREADS="1"),
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                for node, count in enumerate(RANKS)]
            printed = [job.communicate(timeout=140)[0] for job in jobs]
        self.assertEqual([job.returncode for job in jobs], [0, 0], printed)

    def test_without_ucx(self):
        """As a wheel that was built without it: what is missing, on all ranks."""
        with tempfile.TemporaryDirectory() as folder:
            library = shutil.copy(LIBRARY, os.path.join(folder, "lib.so"))
            done = self.run_with(library, LOCKSTEP_MODULES="")
        self.assertEqual(done.returncode, 1, done.stdout)
        # Ranks write at once: lines may have parts of others in them.
        for part in ("several machines", "liblockstep-ucx.so was not found in",
                     "install libucx-dev and build the library again"):
            self.assertEqual(done.stdout.count(part), sum(RANKS), done.stdout)


def without_torch():
    find = "import importlib.util as i; exit(i.find_spec('torch') is None)"
    try:
        done = subprocess.run([PYTHON, "-c", find], check=False)
    except OSError as error:
        return str(error)
    return "no PyTorch here" if done.returncode else None


if __name__ == "__main__":
    hosts.skip_if(hosts.missing() or LIBRARY and hosts.missing_module("ucx") or
                  without_torch())
    unittest.main()
