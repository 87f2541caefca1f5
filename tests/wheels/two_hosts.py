#!/usr/bin/env python3
"""Two ranks on hosts that LOCKSTEP_HOSTID plays: they add by UCX, or say what is missing.

    two_hosts.py with|without
"""
import os
import sys
import tempfile
import time

import lockstep


class Files:
    """A store of files in a folder."""

    def __init__(self, folder):
        self.folder = folder

    def path(self, key):
        return os.path.join(self.folder, key.replace("/", "-"))

    def set(self, key, value):
        with open(self.path(key) + ".new", "wb") as file:
            file.write(value)
        os.rename(self.path(key) + ".new", self.path(key))

    def check(self, keys):
        return all(os.path.exists(self.path(key)) for key in keys)

    def get(self, key):
        while not self.check([key]):
            time.sleep(0.01)
        with open(self.path(key), "rb") as file:
            return file.read()


def adds(rank, folder):
    os.environ["LOCKSTEP_HOSTID"] = f"h{rank}"
    with lockstep.Group.open("hosts", rank, 2, Files(folder), timeout=30) as group:
        assert group.allreduce(rank + 1) == 3


def is_refused(rank, folder):
    try:
        adds(rank, folder)
    except lockstep.Error as error:
        print(error, flush=True)
        assert "libucx0" in str(error), error
        return
    raise AssertionError("the group was opened without UCX")


def main():
    work = {"with": adds, "without": is_refused}[sys.argv[1]]
    with tempfile.TemporaryDirectory() as folder:
        pids = []
        for rank in range(2):
            pid = os.fork()
            if pid == 0:
                work(rank, folder)
                os._exit(0)
            pids.append(pid)
        statuses = [os.waitpid(pid, 0)[1] for pid in pids]
    sys.exit(any(statuses))


if __name__ == "__main__":
    main()
