#!/usr/bin/env python3
"""run_blocks.py fails on pages that do not do what they say, and on no others."""

import os
import signal
import subprocess
import sys
import tempfile
import unittest

import expected
import terminal

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "run_blocks.py")


def console(*lines, says=()):
    return "\n".join([*says, "```console", *lines, "```", ""])


class Pages(unittest.TestCase):
    def run_page(self, text, *options):
        with tempfile.TemporaryDirectory(prefix="lockstep-docs-test-") as folder:
            page = os.path.join(folder, "page.md")
            with open(page, "w", encoding="utf-8") as file:
                file.write(text)
            done = subprocess.run([sys.executable, SCRIPT, *options, page], check=False,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, timeout=30)
        return done.returncode, done.stdout

    def check_passes(self, text, *options):
        status, output = self.run_page(text, *options)
        self.assertEqual(status, 0, output)
        return output

    def check_fails(self, text, reason, *options):
        status, output = self.run_page(text, *options)
        self.assertEqual(status, 1, output)
        self.assertIn(reason, output)

    def test_output(self):
        self.check_passes(console("$ echo yes; echo no >&2", "yes", "no"))
        self.check_fails(console("$ echo yes", "no"), "no line matches: no")
        self.check_fails(console("$ echo yes", "yes", "no"), "no line matches: no")
        self.check_fails(console("$ echo yes; echo no", "yes"), "lines follow")
        self.check_fails(console("$ echo yes"), "lines follow")
        self.check_fails(console("$ true", "yes"), "no line matches: yes")

    def test_status(self):
        self.check_fails(console("$ false"), "the exit status is 1, not 0")
        self.check_passes(console("$ false", says=["<!-- status: 1 -->"]))
        self.check_fails(console("$ true", says=["<!-- status: 1 -->"]),
                         "the exit status is 0, not 1")
        self.check_fails(console("$ false", "$ false", says=["<!-- status: 1 -->"]),
                         ":3: the exit status is 1, not 0")
        self.check_fails(console("$ exit 3"), "the shell has ended")

    def test_state_is_kept(self):
        self.check_passes(console("$ mkdir a; cd a; x=3; export y=4") +
                          console("$ basename $PWD; echo $x; sh -c 'echo $y'",
                                  "a", "3", "4"))

    def test_commands_of_several_lines(self):
        self.check_passes(console("$ echo a \\", "    b", "a b",
                                  "$ cut -c 3- <<'EOF'", "$ c", "EOF", "c"))

    def test_shell_blocks(self):
        self.check_passes("```sh\necho a\nx=1\n```\n" + console("$ echo $x", "1"))
        self.check_fails("```sh\nfalse\ntrue\n```\n", "the shell has ended")

    def test_a_terminal(self):
        self.check_passes(console("$ test -t 0 && test -t 1 && test -t 2",
                                  "$ stty size", "50 80"))
        self.check_passes(console(r"$ printf 'a 1%%\ra 2%%\n\033[1mb\033[0m\n'",
                                  "a 2%", "b"))

    # The process that says "go" is the one that Ctrl-C ends. A shell that has said it
    # may lose the signal while it starts its next command.
    def test_interrupt(self):
        says = ["<!-- status: 130 -->", "<!-- interrupt: go -->"]
        command = "\n".join(["$ python3 - <<'EOF'", "import signal",
                             "signal.signal(signal.SIGINT, signal.SIG_DFL)",
                             "print('go', flush=True)", "signal.pause()", "EOF"])
        page = console(command, "go", "^C", says=says) + console("$ echo on", "on")
        self.check_passes(page)
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in the background
        self.addCleanup(signal.signal, signal.SIGINT, before)
        self.check_passes(page)

    def test_nothing_is_left(self):
        self.check_passes(console("$ sleep 987 &"))
        running = subprocess.run(["pgrep", "-fx", "sleep 987"], check=False,
                                 stdout=subprocess.DEVNULL).returncode
        self.assertEqual(running, 1)

    def test_any_order(self):
        lines = ["$ printf '%s\\n' b a 1", "1", "a", "b"]
        self.check_fails(console(*lines), "no line matches: 1")
        self.check_passes(console(*lines, says=["<!-- unordered -->"]))
        self.check_fails(console(*lines[:3], says=["<!-- unordered -->"]), "differ")
        self.check_passes(console(*lines[:3], "...", says=["<!-- unordered -->"]))

    def test_output_that_varies(self):
        says = ["<!-- varies: a random text -->"]
        self.check_passes(console("$ echo yes", "yes", "$ echo no", "yes", says=says))
        self.check_fails(console("$ echo no", "yes", "$ true", says=says), "no line")
        self.check_fails(console("$ false", says=says), "the exit status is 1")

    def test_files(self):
        self.check_passes("<!-- file: d/a.txt -->\n```text\n1\n```\n"
                          "<!-- file: d/a.txt, continued -->\n```text\n2\n```\n" +
                          console("$ wc -l <d/a.txt", "2"))
        self.check_fails("<!-- file: hang.c -->\n```c\nint x;\n```\n",
                         "hang.c is not examples/hang.c")

    def test_not_run(self):
        block = console("$ false", says=["<!-- not run: needs root -->"])
        self.assertIn("page.md:2: needs root", self.check_passes(block))
        self.check_passes(10 * block)
        self.check_fails(11 * block, "more than 10 blocks are not run", "--check")

    def test_needs(self):
        block = console("$ false", says=["<!-- needs: no_such_module -->"])
        output = self.check_passes(block)
        self.assertIn("[  SKIPPED ] no_such_module", output)
        self.assertIn("page.md: 0 blocks ran", output)
        self.check_fails(block.replace("no_such_module", "os"), "the exit status is 1")

    def test_pages_that_cannot_be_read(self):
        for text, reason in (
                ("```console\n$ true\n", ":1: a fence that is not closed"),
                ("```\ntrue\n```\n", "unknown language ''"),
                ("```bash\ntrue\n```\n", "unknown language 'bash'"),
                ("```console\ntrue\n```\n", ":2: 'true' should be a command"),
                (console("$ true", says=["<!-- stauts: 1 -->"]), "unknown comment"),
                (console("$ true", says=["<!-- status -->"]), "unknown comment")):
            self.check_fails(text, reason, "--check")


class Values(unittest.TestCase):
    def check(self, page, shown, same=True):
        self.assertEqual(expected.difference(page, shown) is None, same, (page, shown))

    def test_kinds(self):
        self.check("step 10, loss 2.5", "step 7,000, loss -0.25")
        self.check("step 10", "step 1.5", same=False)
        self.check("loss 2.5", "loss 3", same=False)
        self.check("loss 2.5", "loss nan", same=False)
        self.check("lr 1e-08", "lr 0.25")
        self.check("took 1.5 ms at 20 images/s", "took 12 ms at 3.5 images/s")
        self.check("took 1.5 ms", "took 1.5 us", same=False)
        self.check("at 2026-01-31 12:00:01", "at 2027-11-02 01:59:59")
        self.check("job 1f0a93c2b7d4e855", "job 00ff93c2b7d4e8aa")
        self.check("rank0 of f32", "rank1 of f32", same=False)
        self.check("| a | --- | 10 |", "| a   | ------ | 1 |")

    def test_lines(self):
        self.check("a\n...\nb", "a\nb")
        self.check("a\n...\nb", "a\n1\n2\nb\nb")
        self.check("a\n...\nb", "a\nc", same=False)
        self.check("rank 1 in ... of 4", "rank 0 in a sum of 7")
        self.check("rank 1 in ...", "rank 0", same=False)
        self.check("...\na\n...\nb\n...", "x\na\ny\nb")

    def test_host(self):
        self.check("on node7", "on " + expected.socket.gethostname())
        self.check("on node8", "on " + expected.socket.gethostname(), same=False)


class Screens(unittest.TestCase):
    def test_progress(self):
        self.assertEqual(terminal.shown(b"a long line\r\033[Kb\r\nc"), "b\nc")
        self.assertEqual(terminal.shown(b"a\r\nb\r\n\033[2A\r\033[Jc\r\n"), "c")
        self.assertEqual(terminal.shown(b"abc\rd\n\n"), "dbc")


if __name__ == "__main__":
    unittest.main()
