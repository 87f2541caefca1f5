#!/usr/bin/env python3
"""The lines of docs/how-to/pytorch.md that start ranks, with the backend.

torchrun and `lockstep run` are in test_example.py and stress_kills.py.
"""
import os
import shutil
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ranks
import torch
import torch.distributed as dist
import torch.multiprocessing

SIZE = 3
# As Open MPI says it: rank and size to each, the rest is torch's.
MPIRUN = ["mpirun", "-n", str(SIZE), "-x", "MASTER_ADDR=127.0.0.1",
          "-x", "MASTER_PORT", "--oversubscribe", "sh", "-c",
          'RANK=$OMPI_COMM_WORLD_RANK WORLD_SIZE=$OMPI_COMM_WORLD_SIZE exec "$@"', "-"]


def work():
    """The work of a rank, under every launcher."""
    rank, size = dist.get_rank(), dist.get_world_size()
    assert (dist.get_backend(), size) == ("lockstep", SIZE)
    x = torch.arange(1000.0) + rank
    dist.all_reduce(x)
    assert torch.equal(x, SIZE * torch.arange(1000.0) + sum(range(SIZE)))
    pair = dist.new_group([0, size - 1])
    if rank in (0, size - 1):
        total = torch.tensor([rank])
        dist.all_reduce(total, group=pair)
        assert total.item() == size - 1
    dist.barrier()
    dist.destroy_process_group()


def rank_of_mpirun():
    import lockstep_torch  # noqa: F401  (registers itself)
    dist.init_process_group("lockstep")
    work()


def rank_of_spawn(rank, port):
    import lockstep_torch  # noqa: F401
    dist.init_process_group("lockstep", init_method=f"tcp://127.0.0.1:{port}",
                            rank=rank, world_size=SIZE)
    work()


def free_port():
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    return store.port


class Tests(unittest.TestCase):
    def setUp(self):
        if "lockstep" not in ranks.backends():
            self.skipTest("the backend has not been built")

    def test_spawn(self):
        torch.multiprocessing.spawn(rank_of_spawn, (free_port(),), SIZE)

    def test_mpirun(self):
        if not shutil.which("mpirun"):
            self.skipTest("no mpirun here")
        about = subprocess.run(["mpirun", "--version"], capture_output=True,
                               text=True).stdout
        if "Open MPI" not in about:
            self.skipTest("mpirun is not Open MPI's")
        environment = dict(
            os.environ, MASTER_PORT=str(free_port()), OMPI_ALLOW_RUN_AS_ROOT="1",
            OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", PYTHONPATH=os.pathsep.join(sys.path))
        # In a separate session, so that all of it can be ended.
        job = subprocess.Popen(
            [*MPIRUN, sys.executable, "-W", "ignore", os.path.abspath(__file__),
             "--rank"], env=environment, start_new_session=True)
        try:
            self.assertEqual(job.wait(timeout=200), 0)
        finally:
            if job.poll() is None:
                os.killpg(job.pid, signal.SIGKILL)
                job.wait()


if __name__ == "__main__":
    if sys.argv[1:] == ["--rank"]:
        rank_of_mpirun()
    else:
        unittest.main()
