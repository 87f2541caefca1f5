"""PyTorch's own DistributedTest with this backend: on CPU, with three ranks.

The tests come from the wheel of torch (torch.testing._internal) and are run as
they are. Many are for gloo only and ask for its name; so Lockstep is registered
under that name, in these processes only:

    conformance_distributed.py                  # a part that takes some seconds
    conformance_distributed.py --whole          # all
    conformance_distributed.py --whole --name lockstep    # under our own name
    conformance_distributed.py --whole --peer   # gloo itself, to compare with
    conformance_distributed.py test_all_reduce_sum test_send_recv

Exits with 77 where torch, or what its tests need, is not installed.
"""

import argparse
import atexit
import multiprocessing
import os
import shutil
import sys
import tempfile
import unittest

import ranks  # noqa: F401  (where lockstep_torch is; exits where torch is not)

RANKS = 3

# Tests that are short and need no events of torch's profiler.
PART = (
    "test_DistributedDataParallelCPU",
    "test_accumulate_gradients_no_sync_allreduce_with_then_hook",
    "test_all_gather_object_subgroup",
    "test_all_reduce_complex_unsupported_ops",
    "test_barrier_full_group",
    "test_gather_full_group",
    "test_get_future",
    "test_scatter_complex",
    "test_sparse_all_reduce_sum",
    "test_static_graph_api_cpu",
)

# They read the name of the backend in PyTorch's own records, which is "custom".
NAMED = ("test_ddp_logging_data_cpu",)


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tests", nargs="*", help="names; without them a part")
    parser.add_argument("--whole", action="store_true", help="all tests")
    parser.add_argument("--name", default="gloo", choices=("gloo", "lockstep"),
                        help="what the tests take the backend for")
    parser.add_argument("--peer", action="store_true", help="gloo itself")
    parser.add_argument("--list", action="store_true", help="their names only")
    return parser.parse_args()


def remove(folder, owner):
    """Ranks are forked, and leave it to who has made it."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def prepare(arguments):
    """The variables that torch's file, and this one in a new rank, go by."""
    folder = tempfile.mkdtemp(prefix="lockstep-distributed-")
    atexit.register(remove, folder, os.getpid())
    tempfile.tempdir = folder  # torch's tests leave files in it
    os.environ.update(BACKEND=arguments.name, WORLD_SIZE=str(RANKS),
                      INIT_METHOD=f"file://{folder}/store",
                      LOCKSTEP_TEST_PEER="1" if arguments.peer else "")
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    os.environ.setdefault("OMP_NUM_THREADS", "1")


def register(name):
    """Makes `name` mean Lockstep in this process, gloo's name included."""
    import lockstep_torch
    import torch.distributed as dist
    from torch.testing._internal.common_distributed import DistTestCases

    if name == "lockstep":
        for feature in ("ddp", "subgroup", "plugin"):
            DistTestCases.backend_feature[feature].add(name)
    else:
        dist.Backend.register_backend(name, lockstep_torch.create, devices=["cpu"])


if __name__ == "__main__":
    OPTIONS = options()
    prepare(OPTIONS)

try:
    import torch.distributed as dist
    from torch.testing._internal.common_distributed import DistTestCases  # noqa: F401
except ImportError as error:
    skip(error)
if not os.environ["LOCKSTEP_TEST_PEER"]:
    register(os.environ["BACKEND"])

from torch.testing._internal.distributed.distributed_test import (  # noqa: E402
    DistributedTest, TestDistBackend)


class TestDistributed(TestDistBackend, DistributedTest._DistTestBase):
    """As torch's test_distributed_fork.py has it: each test in new processes.

    Forked, because importing torch takes longer than most of the tests.
    """

    def setUp(self):
        super().setUp()
        self._start_processes(multiprocessing.get_context("fork").Process)


def chosen(arguments):
    names = unittest.defaultTestLoader.getTestCaseNames(TestDistributed)
    if arguments.tests:
        return arguments.tests
    if arguments.whole:
        left_out = () if arguments.peer else NAMED
        for name in left_out:
            print(f"left out, as it is for gloo's name in PyTorch's records: {name}")
        return [name for name in names if name not in left_out]
    missing = [name for name in PART if name not in names]
    if missing:
        print("this torch does not have " + ", ".join(missing))
    return [name for name in PART if name in names]


def main(arguments):
    names = chosen(arguments)
    if arguments.list:
        print("\n".join(names))
        return 0
    result = unittest.TextTestRunner(verbosity=2, stream=sys.stdout).run(
        unittest.TestSuite(TestDistributed(name) for name in names))
    applied = result.testsRun - len(result.skipped)
    print(f"{applied} of {result.testsRun} apply; "
          f"{len(result.failures) + len(result.errors)} failed")
    return 0 if result.wasSuccessful() and applied else 1


if __name__ == "__main__":
    sys.exit(main(OPTIONS))
