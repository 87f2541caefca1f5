"""Tables on a terminal: they fit its width, and are Markdown elsewhere."""
import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import threading
import unittest

from program import LOCKSTEP, ProgramTest, environment

TINY = ("--context", "8", "--warmup", "0", "--iterations", "2")
RATES = ("--tflops", "1", "--device-gbps", "10")

# Their tables would be wider than 80 columns with whole titles.
COMMANDS = {
    "train": ("train", "cifar100", "--threads", "1", "--limit", "100",
              "--batch-size", "4", "--epochs", "1", "--no-save"),
    "collective": ("bench", "all-reduce", "-n", "2", "--sizes", "1k,1m",
                   "--iterations", "3"),
    "ddp": ("bench", "ddp", "--arch", "mlp:16", *TINY),
    "ddp, all columns": ("bench", "ddp", "--arch", "mlp:16", "--strategy",
                         "flat", "--wide", *TINY),
    "zero": ("bench", "zero", "--arch", "mlp:16", *TINY),
    "lm": ("bench", "lm", "--size", "tiny", "--threads", "1", *TINY),
    "lm, all columns": ("bench", "lm", "--size", "tiny", "--threads", "1",
                        "--wide", *TINY),
    "plan": ("plan", "--size", "tiny", *RATES),
    "sweep": ("plan", "--size", "tiny", "--sweep", "ranks=1,2,4096", *RATES,
              "--ranks-per-node", "2"),
    "sizes": ("plan", "--size", "all"),
    "accounting": ("plan", "--preset", "communication-accounting"),
    "sharding": ("plan", "--preset", "sharding-accounting"),
}


def on_terminal(*words, columns=80, **changes):
    """Standard output of a call that has a terminal of that width for it."""
    main, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ,
                struct.pack("HHHH", 24, columns, 0, 0))
    shown = []

    def read():
        while True:
            try:
                shown.append(os.read(main, 1 << 16))
            except OSError:  # nobody has it open any more
                return

    reader = threading.Thread(target=read)
    env = environment(**{"TERM": "xterm-256color", **changes})
    with subprocess.Popen([LOCKSTEP, *words], env=env, stdout=terminal,
                          stderr=subprocess.PIPE,
                          stdin=subprocess.DEVNULL) as process:
        os.close(terminal)
        reader.start()
        errors = process.stderr.read().decode()
        process.wait(timeout=60)
        reader.join()
        os.close(main)
    return process.returncode, b"".join(shown).decode(), errors


class Tables(ProgramTest):
    def test_widths(self):
        for name, words in COMMANDS.items():
            for columns in (80, 60):
                with self.subTest(name, columns=columns):
                    status, text, errors = on_terminal(*words, columns=columns)
                    self.assertEqual(status, 0, errors)
                    lines = re.sub(r"\033\[[01]m", "", text).split("\r\n")
                    self.assertGreater(len(lines), 2)
                    for line in lines:
                        self.assertLessEqual(len(line), columns, text)
                        self.assertNotIn("|", line)

    def test_bold_titles(self):
        words = COMMANDS["sweep"]
        _, text, _ = on_terminal(*words)
        self.assertRegex(text, r"^\033\[1m *Ranks")
        self.assertEqual(text.count("\033"), 2)
        for changes in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
            _, text, _ = on_terminal(*words, **changes)
            self.assertNotIn("\033", text)

    def test_markdown(self):
        words = COMMANDS["sweep"]
        piped = self.succeeds(*words)
        self.assertRegex(piped, r"^\| Ranks \| Nodes \|.*\n\| ----: \|")
        _, text, _ = on_terminal(*words, "--markdown")
        self.assertEqual(text.replace("\r\n", "\n"), piped)

    def test_markdown_of_ranks(self):
        _, text, _ = on_terminal(*COMMANDS["ddp"], "--markdown")
        self.assertRegex(text, r"(?m)^\| Strategy \|")
        self.assertNotIn("\033", text)


if __name__ == "__main__":
    unittest.main()
