"""The memory of a host: a control group with a limit, and its peaks.

Version 1 of control groups where it has the memory controller, else version 2. The group
is within that of this process if possible, so that the limit of that one holds, too.
"""

import os
import threading

PROC, ROOT = "/proc/self/cgroup", "/sys/fs/cgroup"


def read(folder, name):
    with open(os.path.join(folder, name), encoding="ascii") as file:
        return file.read()


def write(folder, name, value):
    with open(os.path.join(folder, name), "r+", encoding="ascii") as file:
        file.write(str(value))


def own_group(proc, controller):
    """The path of this process's group; of version 2 with the controller ''."""
    with open(proc, encoding="ascii") as file:
        for line in file:
            _, controllers, path = line.strip().split(":", 2)
            if controller in controllers.split(","):
                return path
    return None


def parent_v2(root, own):
    """The nearest group whose children have the memory controller.

    A group with processes cannot give it to its children, except the root of all.
    """
    folder = os.path.normpath(root + own)
    while True:
        if os.path.isdir(folder) and "memory" in read(
                folder, "cgroup.subtree_control").split():
            return folder
        if folder == root:
            write(root, "cgroup.subtree_control", "+memory")
            return root
        folder = os.path.dirname(folder)


def missing():
    """Why memory cannot be limited here, or nothing."""
    try:
        MemoryLimit("lockstep-try", 1 << 20).close()
    except OSError as error:
        return f"no control group with a limit can be made here: {error}"
    return None


class MemoryLimit:
    """A control group with a limit in bytes, without swap."""

    def __init__(self, name, most, proc=PROC, root=ROOT):
        v1 = os.path.join(root, "memory")
        own = own_group(proc, "memory")
        self.is_v1 = own is not None and os.path.isdir(v1)
        if self.is_v1:
            parent = v1 + own if os.path.isdir(v1 + own) else v1
        else:
            parent = parent_v2(root, own_group(proc, "") or "/")
        self.path = os.path.join(parent, f"{name}-{os.getpid()}")
        self._make()
        try:
            if self.is_v1:
                write(self.path, "memory.limit_in_bytes", most)
                write(self.path, "memory.swappiness", 0)
            else:
                write(self.path, "memory.max", most)
                write(self.path, "memory.swap.max", 0)
        except OSError:
            self.close()
            raise

    def _make(self):
        os.mkdir(self.path)

    def close(self):
        os.rmdir(self.path)

    def _table(self, name):
        return {key: int(value)
                for key, value in map(str.split, read(self.path, name).splitlines())}

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
