"""dev: which packages it names and installs; apt, dpkg, id and sudo are made up."""

import os
import pty
import subprocess
import unittest

from gate import TOOLS, GateTest

COMMAND = "apt-get install --no-install-recommends fun mad"

# Only in English does apt say "Need to get".
APT_GET = """#!/bin/sh
echo "$@" >>"$CALLS"
case "$*" in
*--assume-no*) [ "$LC_ALL" != C ] || echo "Need to get 105 MB of archives." ;;
*install*) exit 3 ;;
esac
"""


def read_all(terminal):
    """The output of a terminal whose other end is closed: Linux ends it with EIO."""
    found = b""
    try:
        while data := terminal.read(1 << 16):
            found += data
    except OSError:
        pass
    return found.decode()


class Packages(GateTest):
    def setUp(self):
        super().setUp()
        with open(os.path.join(TOOLS, "..", "dev"), encoding="utf-8") as file:
            self.program("dev", file.read())
        self.write("tools/packages/build.txt", "# a comment\nfun\nmad # both\n")
        self.program("bin/dpkg-query", "#!/bin/sh\nexit 1\n")
        self.program("bin/apt-get", APT_GET)
        self.user(0)

    def program(self, path, text):
        self.write(path, text)
        os.chmod(self.path(path), 0o755)

    def user(self, number, sudo="exit 1"):
        self.program("bin/id", f"#!/bin/sh\necho {number}\n")
        self.program("bin/sudo", f"#!/bin/sh\n{sudo}\n")

    def demo(self, terminal=subprocess.DEVNULL):
        """(exit status, output, what apt-get was called with)"""
        calls = self.path("calls")
        environment = dict(os.environ, CALLS=calls, LC_ALL="C.UTF-8",
                           PATH=self.path("bin") + ":" + os.environ["PATH"])
        on_terminal = terminal != subprocess.DEVNULL
        done = subprocess.run(
            [self.path("dev"), "demo"], stdin=terminal, env=environment, text=True,
            stdout=subprocess.PIPE, stderr=terminal if on_terminal else subprocess.STDOUT,
            timeout=60, check=False)
        called = ""
        if os.path.exists(calls):
            with open(calls, encoding="utf-8") as file:
                called = file.read()
        return done.returncode, done.stdout, called

    def demo_answered(self, answer):
        ours, its = pty.openpty()
        with open(ours, "r+b", buffering=0) as terminal:
            terminal.write(answer.encode())
            try:
                status, _, called = self.demo(its)
            finally:
                os.close(its)
            return status, read_all(terminal), called

    def test_installs_without_a_terminal(self):
        status, said, called = self.demo()
        self.assertEqual(status, 3, said)
        self.assertIn("missing packages: fun mad\n", said)
        self.assertIn("Need to get 105 MB", said)
        self.assertIn("install -q -y --no-install-recommends fun mad\n", called)

    def test_asks_on_a_terminal(self):
        status, said, called = self.demo_answered("y\n")
        self.assertEqual(status, 3, said)
        self.assertIn("105 MB", said)
        self.assertIn("install -q -y", called)

    def test_no(self):
        status, said, called = self.demo_answered("n\n")
        self.assertEqual(status, 1, said)
        self.assertIn(f"install them with: {COMMAND}", said)
        self.assertNotIn("install -q -y", called)

    def test_may_not(self):
        self.user(1000)
        status, said, called = self.demo()
        self.assertEqual(status, 1, said)
        self.assertIn(f"install them with: sudo {COMMAND}\n", said)
        self.assertEqual(called, "")

    def test_by_sudo(self):
        self.user(1000, 'shift; exec "$@"')
        status, said, called = self.demo()
        self.assertEqual(status, 3, said)
        self.assertIn("install -q -y --no-install-recommends fun mad\n", called)


if __name__ == "__main__":
    unittest.main()
