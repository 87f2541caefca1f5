"""Groups made and destroyed many times, by several threads, and before a fork.

    stress_cycles.py                # 60 cycles; what ctest runs
    stress_cycles.py --cycles 1000

After the first cycles the descriptors and threads of a process must not
grow, nor its memory by more than the allocator's slack. PyTorch keeps
some kilobytes of every group, of gloo's, too; so the bound on memory is tight only
where backends are created without it.
"""

import argparse
import ctypes
import os
import sys
import threading
import time
from datetime import timedelta

import ranks
import torch
import torch.distributed as dist

SETTLED = 20  # cycles until buffers of torch and Python have their size
SLACK = 4 << 20  # bytes; a page of leak a cycle shows in 1,000
OF_TORCH = 10 << 10  # bytes that torch keeps of a cycle, with gloo 5


def held():
    """Bytes of memory, descriptors and threads of this process.

    Without what the allocator has got back, which varies by megabytes.
    """
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm") as file:
        resident = int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")
    return (resident, len(os.listdir("/proc/self/fd")),
            len(os.listdir("/proc/self/task")))


def cycles(rank, size, backend, count):
    dist.destroy_process_group()
    folder = os.environ["LOCKSTEP_TEST_FOLDER"]
    first = None
    for cycle in range(count):
        path = os.path.join(folder, f"{size}.{cycle}")
        store = dist.FileStore(path, size)
        dist.init_process_group(backend, store=store, rank=rank, world_size=size)
        data = torch.full((1000,), float(rank))
        dist.all_reduce(data)
        assert data[0] == size * (size - 1) / 2
        work = dist.all_reduce(data, async_op=True)
        half = dist.new_group(list(range(1 + size // 2)))
        if rank <= size // 2:
            dist.barrier(half)
        work.wait()
        dist.barrier()
        dist.destroy_process_group()
        del half, work, store
        if cycle == SETTLED:
            time.sleep(0.1)
            first = held()
    check_held(rank, first, OF_TORCH * count)
    dist.init_process_group("gloo", init_method=f"file://{folder}/{size}.end",
                            rank=rank, world_size=size)
    dist.barrier()  # who leaves takes connections of gloo's with him


def check_held(rank, first, more=0):
    last = held()
    until = time.monotonic() + 1
    while last[1:] != first[1:] and time.monotonic() < until:
        time.sleep(0.01)  # a thread of a destroyed group may still be ending
        last = held()
    print(f"rank {rank}: memory, descriptors, threads {first}, then {last}",
          flush=True)
    assert last[1:] == first[1:], f"descriptors, threads: {first} then {last}"
    assert last[0] <= first[0] + SLACK + more, f"memory: {first} then {last}"


def backends(rank, size, backend, count):
    """Without torch.distributed's own lists of groups."""
    import lockstep_torch

    folder = os.environ["LOCKSTEP_TEST_FOLDER"]
    first = None
    for cycle in range(count):
        # A separate store, as a store keeps every key that it has received.
        store = dist.FileStore(os.path.join(folder, f"{size}.backends.{cycle}"), size)
        made = lockstep_torch.create(store, rank, size, timedelta(seconds=60))
        data = torch.full((1000,), float(rank))
        made.allreduce([data], dist.AllreduceOptions()).wait()
        assert data[0] == size * (size - 1) / 2
        work = made.allreduce([data], dist.AllreduceOptions())
        found = work.get_future().wait()
        assert torch.equal(found[0], data)
        made.barrier(dist.BarrierOptions()).wait()
        made.shutdown()
        del made, work, found, store
        if cycle == SETTLED:
            time.sleep(0.1)
            first = held()
    check_held(rank, first)
    dist.barrier()


def threads(rank, size, backend, count):
    """Two threads with a group each, which do not wait for each other."""
    groups = [dist.new_group(backend=backend) for _ in range(2)]
    wrong = []

    def one(number):
        try:
            for i in range(count):
                data = torch.full((17 + 1000 * number,), float(rank + i))
                dist.all_reduce(data, group=groups[number])
                if data[-1] != sum(range(size)) + size * i:
                    wrong.append((number, i, data[-1].item()))
        except Exception as error:
            wrong.append((number, str(error)))
    running = [threading.Thread(target=one, args=(n,)) for n in range(2)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert not wrong, wrong


def forked(rank, size, backend, count):
    """A child of fork leaves the group alone, and its exit does not end it."""
    group = dist.new_group(backend=backend)
    data = torch.ones(100)
    dist.all_reduce(data, group=group)
    for i in range(count):
        pid = os.fork()
        if pid == 0:
            try:
                dist.all_reduce(torch.ones(3), group=group)
            except RuntimeError:
                os._exit(0 if i % 2 else 7)  # refused, which is well
            os._exit(9)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert status in (0, 7), f"a call of a forked child was not refused: {status}"
        data.fill_(1)
        dist.all_reduce(data, group=group)
        assert data[0] == size


def main():
    import tempfile

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cycles", type=int, default=60)
    parser.add_argument("--backend", default="lockstep")
    arguments = parser.parse_args()
    if arguments.backend not in ranks.backends():
        return 77
    with tempfile.TemporaryDirectory() as folder:
        os.environ["LOCKSTEP_TEST_FOLDER"] = folder
        for size in (1, 2, 3):
            ranks.run(size, "gloo", cycles, arguments.backend, arguments.cycles,
                      timeout=60 + arguments.cycles)
            ranks.run(size, "gloo", threads, arguments.backend, arguments.cycles * 5)
        if arguments.backend != "gloo":
            for size in (1, 2, 3):
                ranks.run(size, "gloo", backends, arguments.backend,
                          arguments.cycles, timeout=60 + arguments.cycles)
            ranks.run(2, "gloo", forked, arguments.backend, 4)
    print("as many descriptors, threads and bytes as at the beginning")
    return 0


if __name__ == "__main__":
    sys.exit(main())
