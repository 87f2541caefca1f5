"""Runs command lines in one shell on a terminal, and returns what the terminal shows."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time

ROWS, COLUMNS = 50, 80
CONTROL = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])")
# The shell prints it after each command, with the exit status.
END = re.compile(rb"\x1e(\d+)\r?\n")

# Commands are files: source keeps the folder and the variables for later commands. The
# trap lets Ctrl-C end the command and not the shell.
LOOP = r"""
trap : INT
while IFS= read -r command <&8; do
    . "$command" 8<&-
    printf '\036%d\n' $?
done
"""


class Timeout(Exception):
    """A command did not end in time; `shown` is its output so far."""

    def __init__(self, shown):
        super().__init__("timeout")
        self.shown = shown


class Screen:
    """The lines of a terminal of any height and width. It knows the controls that
    redraw a line of progress, and leaves out colours."""

    def __init__(self):
        self.lines = [""]
        self.row = self.column = 0

    def put(self, text):
        line = self.lines[self.row].ljust(self.column)
        self.lines[self.row] = \
            line[:self.column] + text + line[self.column + len(text):]
        self.column += len(text)

    def control(self, numbers, name):
        if name == "A":
            self.row = max(0, self.row - int(numbers or 1))
        elif name == "J":
            del self.lines[self.row + 1:]
            name = "K"
        if name == "K":
            self.lines[self.row] = self.lines[self.row][:self.column]

    def newline(self):
        self.row += 1
        if self.row == len(self.lines):
            self.lines.append("")

    def feed(self, text):
        for part in re.split(r"(\x1b\[[0-9;?]*[A-Za-z]|[\r\n])", text):
            found = CONTROL.fullmatch(part)
            if part == "\n":
                self.newline()
            elif part == "\r":
                self.column = 0
            elif found:
                self.control(*found.groups())
            elif part:
                self.put(part)


def shown(data):
    """The text that a terminal shows for these bytes, without blanks at the ends of lines."""
    screen = Screen()
    screen.feed(data.decode("utf-8", "replace"))
    return "\n".join(line.rstrip() for line in screen.lines).rstrip("\n")


class Shell:
    """A bash with a terminal, in `folder`. The files of commands go to `scratch`."""

    def __init__(self, folder, scratch, environment):
        self.scratch = scratch
        self.count = 0
        self.late = b""  # shown after the end of the last command
        commands, self.commands = os.pipe()
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ,
                        struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
            # Ctrl-C sends the signal and then discards output, which may be the end
            # of the command.
            modes = termios.tcgetattr(0)
            modes[3] |= termios.NOFLSH
            termios.tcsetattr(0, termios.TCSANOW, modes)
            # A job in the background ignores it, and a shell keeps that for its commands.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.chdir(folder)
            os.dup2(commands, 8)
            os.set_inheritable(8, True)
            os.execvpe("bash", ["bash", "--noprofile", "--norc", "-c", LOOP],
                       environment)
        os.close(commands)

    def run(self, command, timeout, interrupt=None):
        """The exit status of a command and what it shows. Presses Ctrl-C once when it
        has shown a line with the text `interrupt`."""
        self.count += 1
        path = os.path.join(self.scratch, f"command-{self.count}")
        with open(path, "w", encoding="utf-8") as file:
            file.write(command + "\n")
        os.write(self.commands, (path + "\n").encode())
        data, until, end = self.late, time.monotonic() + timeout, None
        line = interrupt and re.compile(re.escape(interrupt.encode()) + rb"[^\n]*\n")
        while end is None:
            data += self.read(until, data)
            if line and line.search(data):
                os.write(self.terminal, b"\x03")
                line = None
            end = END.search(data)
        self.late = data[end.end():]
        return int(end.group(1)), shown(data[:end.start()])

    def read(self, until, before):
        left = until - time.monotonic()
        if left <= 0 or not select.select([self.terminal], [], [], left)[0]:
            raise Timeout(shown(before))
        try:
            return os.read(self.terminal, 65536)
        except OSError as error:  # the shell has ended
            raise Timeout(shown(before) + "\n(the shell has ended)") from error

    def close(self):
        """Ends the shell and what it left in the background."""
        os.close(self.commands)
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        os.close(self.terminal)
        os.waitpid(self.pid, 0)
