#!/usr/bin/env python3
"""lockstep run on each of several hosts, without MPI: the way there, hosts that
are cut off and come back, hosts that are killed."""

import functools
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import hosts

sys.path.insert(0, os.path.join(os.path.dirname(hosts.HERE), "integration",
                                "cli"))
from program import MoreTime  # noqa: E402

LOCKSTEP = os.environ["LOCKSTEP"]
SECRET = "a secret of the tests on hosts"
MARK = f"LOCKSTEP_TEST_MARK={os.getpid()}"


def patient(test):
    """On a busy machine, again with self.factor times the time."""
    @functools.wraps(test)
    def play(self):
        def play_once(factor):
            self.factor = factor
            test(self)
        self.with_more_time(play_once, (1, 4))
    return play


class Run(MoreTime, unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.hosts = hosts.Hosts(3)
        cls.hosts.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.hosts.close()

    def setUp(self):
        self.started = {}
        self.addCleanup(self.clean)

    def clean(self):
        for name, process in self.started.items():
            self.hosts.kill(name)
            process.wait()
            process.errors.close()
            process.out.close()
        end = time.monotonic() + 60
        while hosts.left(MARK) and time.monotonic() < end:
            time.sleep(0.02)
        self.assertEqual(hosts.left(MARK), [])

    def start(self, name, script, *flags, nodes="3", ranks=1, env=None):
        """The launcher of a host, which is lost when it is silent for 1 s."""
        common = ("--grace", "0.3", "--monitor-interval",
                  str(0.02 * self.factor))
        mark, _, value = MARK.partition("=")
        errors = tempfile.TemporaryFile("w+", encoding="utf-8")
        out = tempfile.TemporaryFile("w+", encoding="utf-8")
        process = subprocess.Popen(
            self.hosts.words(name, LOCKSTEP, "run", "--nnodes", nodes,
                             "--rdzv-endpoint", "h0:29400", "-n", str(ranks),
                             *common, *flags, "--", "sh", "-c", script),
            stdin=subprocess.DEVNULL, stdout=out, stderr=errors,
            env={**os.environ, mark: value, "LOCKSTEP_SECRET": SECRET,
                 **(env or {})})
        process.errors, process.out = errors, out
        self.started[name] = process
        return process

    def ended(self, process, seconds=100):
        """Exit status, what it wrote, its errors."""
        status = process.wait(seconds)
        return status, self.read(process.out), self.read(process.errors)

    @staticmethod
    def read(file):
        file.seek(0)
        return file.read()

    def all_run(self, names):
        """Waits until the ranks of these hosts have written a line."""
        end = time.monotonic() + 60
        while not all(self.read(self.started[n].out) for n in names):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)

    @patient
    def test_one_job(self):
        script = ("echo $RANK $WORLD_SIZE $GROUP_RANK $MASTER_ADDR"
                  " $LOCKSTEP_RENDEZVOUS $GLOO_SOCKET_IFNAME")
        ranks = {"h2": 2, "h0": 1, "h1": 3}
        for name, n in ranks.items():
            self.start(name, script, "--node-rank", name[1:], ranks=n)
        lines = []
        for name in sorted(ranks):
            status, out, errors = self.ended(self.started[name])
            self.assertEqual(status, 0, errors)
            self.assertIn("interface eth0, address 10.77.0.", errors)
            lines += sorted(out.splitlines())
        groups = [0, 1, 1, 1, 2, 2]
        self.assertEqual(lines, [f"{r} 6 {g} h0 h0:29400 eth0"
                                 for r, g in enumerate(groups)])

    @patient
    def test_without_a_secret(self):
        begin = time.monotonic()
        for name in ("h0", "h1"):
            process = self.start(name, "true", env={"LOCKSTEP_SECRET": ""})
            status, _, errors = self.ended(process)
            self.assertEqual(status, 1)
            self.assertIn("the hosts need a secret: set the same secret",
                          errors)
        self.assertLess(time.monotonic() - begin, 2 * self.factor)

    @patient
    def test_wrong_secret(self):
        self.start("h0", "true")
        begin = time.monotonic()
        status, _, errors = self.ended(self.start(
            "h1", "true", "--node-rank", "1",
            env={"LOCKSTEP_SECRET": "another secret"}))
        self.assertEqual(status, 1)
        self.assertIn("the secret ", errors)
        self.assertLess(time.monotonic() - begin, 2 * self.factor)

    @patient
    def test_unreachable_endpoint(self):
        self.hosts.cut("h0")
        try:
            status, _, errors = self.ended(self.start(
                "h1", "true", "--rdzv-conf", "join_timeout=1"))
        finally:
            self.hosts.join("h0")
        self.assertEqual(status, 1)
        self.assertIn("endpoint h0:29400 was not reachable within 1 s", errors)

    @patient
    def test_first_failure(self):
        script = "echo; [ $RANK != 1 ] || exit 5; exec sleep 60"
        for name in self.hosts.names:
            self.start(name, script, "--node-rank", name[1:])
        for name in self.hosts.names:
            status, _, errors = self.ended(self.started[name])
            self.assertEqual(status, 5, errors)
            self.assertRegex(errors, r"rank 1 on host h1 \(node 1, pid \d+\) "
                             "ended with exit status 5")

    def cut_off(self, name):
        """A host is; all say so and end in time."""
        for other in self.hosts.names:
            self.start(other, "echo; exec sleep 60", "--node-rank", other[1:])
        self.all_run(self.hosts.names)
        self.hosts.cut(name)
        begin = time.monotonic()
        try:
            for other in self.hosts.names:
                status, _, errors = self.ended(self.started[other])
                self.assertEqual(status, 1, errors)
                self.assertRegex(
                    errors, r"host h2 \(node 2\) is lost: it sent no message"
                    if name == "h2" and other != "h2" else
                    "node 0 at h0:29400 is lost: it sent no message"
                    if name == "h2" or other != "h0" else
                    r"host h[12] \(node [12]\) is lost: it sent no message")
                self.assertLess(time.monotonic() - begin, 6 * self.factor)
        finally:
            self.hosts.join(name)

    @patient
    def test_host_is_cut(self):
        self.cut_off("h2")

    @patient
    def test_host_with_the_endpoint_is_cut(self):
        self.cut_off("h0")

    @patient
    def test_host_is_killed(self):
        for name in self.hosts.names:
            self.start(name, "echo; exec sleep 60", "--node-rank", name[1:])
        self.all_run(self.hosts.names)
        self.hosts.kill("h1")
        for name in ("h0", "h2"):
            status, _, errors = self.ended(self.started[name])
            self.assertEqual(status, 1, errors)
            self.assertIn("host h1 (node 1) is lost: ", errors)

    def come_back(self, name):
        """A host is cut off and joined again: all start again."""
        script = ("echo $LOCKSTEP_RESTART $RANK $WORLD_SIZE;"
                  "[ $LOCKSTEP_RESTART = 1 ] || exec sleep 60")
        for other in self.hosts.names:
            self.start(other, script, "--node-rank", other[1:],
                       "--max-restarts", "1")
        self.all_run(self.hosts.names)
        self.hosts.cut(name)
        time.sleep(2.5 * self.factor)
        self.hosts.join(name)
        for other in self.hosts.names:
            status, out, errors = self.ended(self.started[other])
            self.assertEqual(status, 0, errors)
            rank = other[1:]
            self.assertEqual(out, f"0 {rank} 3\n1 {rank} 3\n", errors)

    @patient
    def test_host_comes_back(self):
        self.come_back("h1")

    @patient
    def test_host_with_the_endpoint_comes_back(self):
        self.come_back("h0")

    @patient
    def test_going_on_without(self):
        script = ("echo $LOCKSTEP_RESTART $RANK $WORLD_SIZE;"
                  "[ $LOCKSTEP_RESTART = 1 ] || exec sleep 60")
        for name in self.hosts.names:
            self.start(name, script, "--node-rank", name[1:], "--max-restarts",
                       "1", "--rdzv-conf",
                       f"last_call_timeout={0.5 * self.factor},"
                       f"join_timeout={5 * self.factor}", nodes="2:3")
        self.all_run(self.hosts.names)
        self.hosts.cut("h1")
        try:
            for name, rank in (("h0", 0), ("h2", 1)):
                status, out, errors = self.ended(self.started[name])
                self.assertEqual(status, 0, errors)
                self.assertEqual(out, f"0 {name[1:]} 3\n1 {rank} 2\n", errors)
        finally:
            self.hosts.join("h1")
        status, _, errors = self.ended(self.started["h1"])
        self.assertEqual(status, 1)
        self.assertIn("given up: the endpoint h0:29400 was not reachable",
                      errors)

    @patient
    def test_request_to_end(self):
        for name in self.hosts.names:
            self.start(name, "echo; exec sleep 60")
        self.all_run(self.hosts.names)
        # The launcher itself: what is started here is one that enters the host.
        launcher = next(p for p in self.hosts.processes("h2")
                        if "lockstep" in os.readlink(f"/proc/{p}/exe"))
        os.kill(launcher, signal.SIGINT)
        for name in self.hosts.names:
            status, _, errors = self.ended(self.started[name])
            self.assertEqual(status, 130, errors)


if __name__ == "__main__":
    hosts.skip_if(hosts.missing())
    unittest.main()
