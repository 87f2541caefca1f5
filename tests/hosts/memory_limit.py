"""The memory of a host: a control group with a limit, and its peaks.

Version 1 of control groups, or version 2 where its root has the memory controller. In
version 1 a group is a child of this process's group, so that one's limit holds, too.
"""

import os
import threading

V1, V2 = "/sys/fs/cgroup/memory", "/sys/fs/cgroup"


def own_group():
    """The path of this process's group in version 1, or None."""
    with open("/proc/self/cgroup", encoding="ascii") as file:
        for line in file:
            _, controllers, path = line.strip().split(":", 2)
            if controllers == "memory":
                return V1 + path
    return None


def missing():
    """Why memory cannot be limited here, or nothing."""
    try:
        MemoryLimit("lockstep-try", 1 << 20).close()
    except OSError as error:
        return f"no control group with a limit can be made here: {error}"
    return None


class MemoryLimit:
    """A control group with a limit in bytes, without swap."""

    def __init__(self, name, most):
        parent = own_group()
        self.is_v1 = parent is not None and os.path.isdir(parent)
        self.path = os.path.join(parent if self.is_v1 else V2, f"{name}-{os.getpid()}")
        os.mkdir(self.path)
        try:
            if self.is_v1:
                self._write("memory.limit_in_bytes", most)
                self._write("memory.swappiness", 0)
            else:
                self._write("memory.max", most)
                self._write("memory.swap.max", 0)
        except OSError:
            self.close()
            raise

    def close(self):
        os.rmdir(self.path)

    def _write(self, name, value):
        with open(os.path.join(self.path, name), "w", encoding="ascii") as file:
            file.write(str(value))

    def _table(self, name):
        with open(os.path.join(self.path, name), encoding="ascii") as file:
            return {key: int(value) for key, value in map(str.split, file)}

    def inside(self, words):
        """The command line that runs a program in the group."""
        return ["sh", "-c", 'echo $$ >"$0" && exec "$@"',
                os.path.join(self.path, "cgroup.procs"), *words]

    def used(self):
        """Bytes of anonymous and shared memory; page cache is not in them."""
        table = self._table("memory.stat")
        return table["rss" if self.is_v1 else "anon"] + table["shmem"]

    def kills(self):
        """Processes that the kernel has killed at the limit."""
        name = "memory.oom_control" if self.is_v1 else "memory.events"
        return self._table(name)["oom_kill"]


class Peaks:
    """with Peaks(limits) as peaks: ...  The most of used() that each had meanwhile."""

    def __init__(self, limits, every=0.005):
        self.limits, self.every = limits, every
        self.most = [0] * len(limits)
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._watch)

    def _watch(self):
        while not self.ended.wait(self.every):
            for i, limit in enumerate(self.limits):
                self.most[i] = max(self.most[i], limit.used())

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *what):
        self.ended.set()
        self.thread.join()
