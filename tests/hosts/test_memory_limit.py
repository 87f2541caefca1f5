#!/usr/bin/env python3
"""MemoryLimit on made-up folders of control groups, of both versions."""

import os
import shutil
import tempfile
import unittest

from memory_limit import MemoryLimit

V1_FILES = {"memory.limit_in_bytes": "9223372036854771712\n",
            "memory.swappiness": "60\n",
            "memory.stat": "cache 7000\nrss 4096\nrss_huge 0\nshmem 8192\n",
            "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"}
V2_FILES = {"memory.max": "max\n", "memory.swap.max": "max\n",
            "memory.stat": "anon 4096\nfile 9000\nshmem 8192\n",
            "memory.events": "low 0\nhigh 0\nmax 9\noom 1\noom_kill 3\n"}


class Made(MemoryLimit):
    """The kernel makes the files of a group; here a test does."""

    files = V1_FILES

    def _make(self):
        super()._make()
        for name, text in self.files.items():
            put(self.path, name, text)

    def close(self):
        shutil.rmtree(self.path)


class MadeV2(Made):
    files = V2_FILES


def put(folder, name, text):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "w", encoding="ascii") as file:
        file.write(text)


class Test(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory(prefix="lockstep-groups-")
        self.addCleanup(made.cleanup)
        self.root = made.name
        self.proc = os.path.join(made.name, "proc")

    def make(self, kind, processes):
        put(self.root, "proc", processes)
        limit = kind("host", 12345, proc=self.proc, root=self.root)
        self.addCleanup(limit.close)
        return limit

    def check(self, limit, parent, **written):
        self.assertEqual(os.path.dirname(limit.path), self.root + parent)
        for name, value in written.items():
            with open(os.path.join(limit.path, "memory." + name.replace("__", ".")),
                      encoding="ascii") as file:
                self.assertTrue(file.read().startswith(value), name)
        self.assertEqual(limit.used(), 4096 + 8192)

    def test_v1(self):
        os.makedirs(self.root + "/memory/own")
        limit = self.make(Made, "4:memory:/own\n3:cpu,cpuacct:/\n0::/\n")
        self.check(limit, "/memory/own", limit_in_bytes="12345", swappiness="0")
        self.assertEqual(limit.kills(), 2)

    def test_v1_in_a_namespace(self):
        os.makedirs(self.root + "/memory")
        self.check(self.make(Made, "4:memory:/outside\n0::/\n"), "/memory")

    def test_v2_of_a_parent(self):
        put(self.root, "cgroup.subtree_control", "cpu memory\n")
        put(self.root + "/user", "cgroup.subtree_control", "memory pids\n")
        put(self.root + "/user/session", "cgroup.subtree_control", "\n")
        limit = self.make(MadeV2, "0::/user/session\n")
        self.check(limit, "/user", max="12345", swap__max="0")
        self.assertEqual(limit.kills(), 3)

    def test_v2_at_the_root(self):
        put(self.root, "cgroup.subtree_control", "\n")
        self.check(self.make(MadeV2, "0::/\n"), "")
        with open(self.root + "/cgroup.subtree_control", encoding="ascii") as file:
            self.assertTrue(file.read().startswith("+memory"))

    def test_no_controller(self):
        with self.assertRaises(OSError):
            self.make(MadeV2, "0::/\n")


if __name__ == "__main__":
    unittest.main()
