"""Runs a function in several processes that are a process group."""
import os
import signal
import sys
import tempfile
import time
import traceback
from datetime import timedelta

HERE = os.path.dirname(os.path.abspath(__file__))
try:
    import torch
    import torch.distributed as dist
except ImportError:
    print("no PyTorch here: not tested")
    sys.exit(77)

# PyTorch 2.6 has FSDP2 for accelerators only.
HAS_FSDP2 = hasattr(torch.cpu.current_stream(), "record_event")
torch.set_num_threads(1)
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")


def _rank(rank, size, backend, folder, timeout, work, args):
    status = 1
    try:
        if backend == "lockstep":
            import lockstep_torch  # noqa: F401  (registers itself)
        dist.init_process_group(
            backend, store=dist.FileStore(os.path.join(folder, "store"), size),
            rank=rank, world_size=size, timeout=timedelta(seconds=timeout))
        work(rank, size, *args)
        # Before 2.8 the end of gloo's group waits with Python's lock for a thread
        # that may want it, for ever; this process ends without that.
        kept = dist.group.WORLD if backend == "gloo" else None  # noqa: F841
        dist.destroy_process_group()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def run(size, backend, work, *args, expect=None, timeout=60):
    """work(rank, size, *args) in `size` processes.

    expect: their exit statuses, minus the signal for those that one has killed;
    0 of each unless said. Processes that are not over after twice the timeout
    are killed.
    """
    with tempfile.TemporaryDirectory() as folder:
        pids = []
        for rank in range(size):
            pid = os.fork()
            if pid == 0:
                _rank(rank, size, backend, folder, timeout, work, args)
            pids.append(pid)
        statuses = {}
        until = time.monotonic() + 2 * timeout
        while len(statuses) < size:
            for pid in set(pids) - set(statuses):
                got, status = os.waitpid(pid, os.WNOHANG)
                if got:
                    statuses[pid] = os.waitstatus_to_exitcode(status)
                elif time.monotonic() > until:
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.005)
    found = [statuses[pid] for pid in pids]
    if found != (expect or [0] * size):
        raise AssertionError(
            f"exit statuses {found} of {work.__name__}{args}")


def monitored_barrier(seconds):
    """As of torch.distributed, which older releases refuse to all but gloo."""
    timeout = timedelta(seconds=seconds)
    try:
        dist.monitored_barrier(timeout=timeout)
    except ValueError as why:
        if "only implemented for GLOO" not in str(why):
            raise
        dist.distributed_c10d._get_default_group().monitored_barrier(timeout)


def backends():
    """Those to test: gloo, and ours if it has been built."""
    names = ["gloo"] if dist.is_gloo_available() else []
    try:
        import lockstep_torch  # noqa: F401
        lockstep_torch._bridge()
        names.append("lockstep")
    except (ImportError, OSError, AttributeError) as why:
        print(f"not tested on lockstep: {why}")
    return names
