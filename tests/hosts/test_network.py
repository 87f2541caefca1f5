"""The hosts themselves: what they share and what not, links, cuts, the end."""

import os
import signal
import subprocess
import sys
import time
import unittest

import hosts

SERVE = ("import socket; s = socket.create_server(('', 7000));"
         "print('up', flush=True); c = s.accept()[0]; n = 0\n"
         "while True:\n    d = c.recv(1 << 16); n += len(d)\n"
         "    if not d: break\nprint(n)")
SEND = ("import socket, time; s = socket.create_connection(('h0', 7000));"
        "s.sendall(bytes(4000000))")
REACH = ("import socket, sys; s = socket.socket()\n"
         "s.settimeout(float(sys.argv[1]))\n"
         "try: s.connect(('h0', 7001))\n"
         "except ConnectionRefusedError: print('there')\n"
         "except OSError: print('nobody')")


ECHO = ("import socket; s = socket.create_server(('', 7000));"
        "print('up', flush=True); c = s.accept()[0]\n"
        "while c.send(c.recv(1)): pass")
PING = ("import socket, time; s = socket.create_connection(('h0', 7000))\n"
        "def ping():\n"
        "    t = time.monotonic(); s.send(b'x'); s.recv(1)\n"
        "    return time.monotonic() - t\n"
        "print(min(ping() for i in range(10)))")


class Network(unittest.TestCase):
    def of(self, where, name, *words):
        return subprocess.run(where.words(name, *words), timeout=20,
                              stdout=subprocess.PIPE, text=True,
                              check=True).stdout.strip()

    def test_what_hosts_share(self):
        with hosts.Hosts(2) as two:
            self.assertEqual(self.of(two, "h1", "hostname"), "h1")
            self.of(two, "h0", "touch", "/dev/shm/x", "/tmp/x")
            self.assertEqual(self.of(two, "h1", "ls", "/dev/shm"), "")
            self.assertEqual(
                self.of(two, "h1", "sh", "-c", "test -e /tmp/x || echo no"),
                "no")
            self.of(two, "h1", "test", "-r", os.path.abspath(__file__))
            self.assertNotEqual(self.of(two, "h0", "readlink",
                                        "/proc/self/ns/ipc"),
                                self.of(two, "h1", "readlink",
                                        "/proc/self/ns/ipc"))

    def test_bytes_and_rate(self):
        reason = hosts.missing_shaping("100mbit", None)
        if reason:
            self.skipTest(reason)
        with hosts.Hosts(2, rate="100mbit") as two:
            with subprocess.Popen(
                    two.words("h0", sys.executable, "-c", SERVE),
                    stdout=subprocess.PIPE, text=True) as server:
                self.assertEqual(server.stdout.readline(), "up\n")
                before = two.bytes("h1")[0]
                begin = time.monotonic()
                self.of(two, "h1", sys.executable, "-c", SEND)
                self.assertEqual(server.stdout.readline(), "4000000\n")
                self.assertGreater(time.monotonic() - begin, 0.3)
            sent = two.bytes("h1")[0] - before
            self.assertGreater(sent, 4000000)
            self.assertLess(sent, 4400000)

    def test_delay(self):
        reason = hosts.missing_shaping(None, 0.02)
        if reason:
            self.skipTest(reason)
        with hosts.Hosts(2, delay=0.02) as two:
            with subprocess.Popen(
                    two.words("h0", sys.executable, "-c", ECHO),
                    stdout=subprocess.PIPE, text=True) as server:
                self.assertEqual(server.stdout.readline(), "up\n")
                took = float(self.of(two, "h1", sys.executable, "-c", PING))
        self.assertGreater(took, 0.04)
        self.assertLess(took, 0.2)

    def test_cut_and_join(self):
        def reach(two, seconds):
            return self.of(two, "h1", sys.executable, "-c", REACH,
                           str(seconds))
        with hosts.Hosts(2) as two:
            self.assertEqual(reach(two, 15), "there")
            two.cut("h1")
            self.assertEqual(reach(two, 0.3), "nobody")
            two.join("h1")
            self.assertEqual(reach(two, 15), "there")

    def test_stop(self):
        count = "while :; do echo x; sleep 0.01; done"
        with hosts.Hosts(1) as one:
            process = subprocess.Popen(one.words("h0", "sh", "-c", count),
                                       stdout=subprocess.PIPE)
            self.addCleanup(process.wait)
            self.addCleanup(process.stdout.close)
            self.addCleanup(process.kill)
            process.stdout.readline()
            self.assertTrue(one.stop("h0"))
            os.set_blocking(process.stdout.fileno(), False)
            process.stdout.read()
            time.sleep(0.1)
            self.assertIsNone(process.stdout.read())
            one.go_on("h0")
            os.set_blocking(process.stdout.fileno(), True)
            self.assertEqual(process.stdout.readline(), b"x\n")

    def test_nothing_outlives_a_kill(self):
        mark = f"LOCKSTEP_MARK={os.getpid()}"
        program = ("import sys; sys.path.insert(0, sys.argv[1]); import hosts,"
                   " subprocess\nwith hosts.Hosts(2) as h:\n"
                   "  subprocess.run(h.words('h1', 'sh', '-c', 'echo up;"
                   " sleep 99; true'))")
        with subprocess.Popen(
                ["env", mark, sys.executable, "-c", program, hosts.HERE],
                stdout=subprocess.PIPE) as process:
            self.assertEqual(process.stdout.readline(), b"up\n")
            self.assertGreater(len(hosts.left(mark)), 5)
            process.send_signal(signal.SIGKILL)
        end = time.monotonic() + 60
        while hosts.left(mark) and time.monotonic() < end:
            time.sleep(0.02)
        self.assertEqual(hosts.left(mark), [])


if __name__ == "__main__":
    hosts.skip_if(hosts.missing())
    unittest.main()
