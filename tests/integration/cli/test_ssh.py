"""lockstep run --hosts, with a shell in place of ssh: all hosts are this one."""

import os
import select
import signal
import subprocess
import tempfile
import unittest

from program import LOCKSTEP, ProgramTest, environment, is_running, wait_until

# As ssh: the words behind the host are a line for the host's shell.
AGENT = '#!/bin/sh\nHOST=$1; export HOST; shift; exec sh -c "$*"\n'
TWO = "127.0.0.1:2,localhost:1"
MARK = "LOCKSTEP_TEST_MARK"


def processes(mark):
    """Those in whose environment the mark is, and their command lines."""
    found = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                marked = f"{MARK}={mark}".encode() in file.read()
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                if marked and is_running(int(entry)):
                    found[int(entry)] = file.read().split(b"\0")
        except OSError:
            pass
    return found


class OverSsh(ProgramTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.mark = f"{os.getpid()}-{self.id()}"
        self.agent = self.script("agent", AGENT)
        self.env = environment(**{MARK: self.mark})
        self.addCleanup(lambda: self.assertTrue(
            wait_until(lambda: not processes(self.mark)),
            processes(self.mark)))

    def script(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        os.chmod(path, 0o755)
        return path

    def words(self, *words, hosts=TWO, agent=None):
        return ("run", "--hosts", hosts, "--ssh", agent or self.agent, *words)

    def hosts(self, *words, **more):
        where = {k: more.pop(k) for k in ("hosts", "agent") if k in more}
        return self.call(*self.words(*words, **where),
                         env=more.pop("env", self.env), **more)

    def refuses(self, status, message, *words, **more):
        done = self.hosts(*words, **more)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn(message, done.stderr)


class Ranks(OverSsh):
    def test_ranks_in_the_order_of_hosts(self):
        script = "echo $RANK $WORLD_SIZE $LOCAL_RANK $GROUP_RANK $HOST"
        wanted = ["0 3 0 0 127.0.0.1", "1 3 1 0 127.0.0.1",
                  "2 3 0 1 localhost"]
        path = os.path.join(self.folder, "hosts")
        with open(path, "w", encoding="ascii") as file:
            file.write("# of two\n127.0.0.1 slots=2\n\nlocalhost # one\n")
        for hosts in (TWO, path):
            done = self.hosts("sh", "-c", script, hosts=hosts)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(sorted(done.stdout.splitlines()), wanted)

    def test_folder_variables_and_words(self):
        env = environment(OMP_NUM_THREADS=3, OTHER="x", ASKED="a 'b\" $c",
                          RANK=9, LOCKSTEP_JOB="dead", **{MARK: self.mark})
        agent = self.script("clean", AGENT.replace(
            "exec", f"cd /; exec env -i {MARK}={self.mark} PATH=/bin OMP_NUM_THREADS=8"))
        done = self.hosts("-x", "ASKED", "-x", "GIVEN=1 2", "-n", "1",
                          "/bin/sh", "-c",
                          "pwd; echo $OMP_NUM_THREADS.$OTHER.$ASKED.$GIVEN;"
                          'for a; do echo "$a"; done',
                          "sh", "it's", 'a "b', "", hosts="h", env=env,
                          agent=agent, cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.splitlines(),
                         [self.folder, "3..a 'b\" $c.1 2", "it's", 'a "b', ""])

    def test_flags_go_to_the_hosts(self):
        done = self.hosts("--tag-output", "--threads=2", "sh", "-c",
                          "echo $OMP_NUM_THREADS", hosts="h:2")
        self.assertEqual(sorted(done.stdout.splitlines()), ["[0] 2", "[1] 2"])

    def test_every_line(self):
        done = self.hosts("seq", "30000", hosts="127.0.0.1,localhost")
        self.assertEqual(done.returncode, 0, done.stderr)
        wanted = sorted(2 * [str(i + 1) for i in range(30000)])
        self.assertEqual(sorted(done.stdout.splitlines()), wanted)

    def test_the_secret_is_on_no_command_line(self):
        process = self.start(*self.words("sh", "-c",
                                         "echo $LOCKSTEP_SECRET; sleep 60"),
                             env=self.env)
        secret = process.stdout.readline().strip()
        self.assertEqual(len(secret), 64)
        for words in processes(self.mark).values():
            self.assertNotIn(secret.encode(), b" ".join(words))
        process.terminate()
        self.assertEqual(self.ended(process)[0], 143)


class Ends(OverSsh):
    def test_status_and_host_of_the_first_failure(self):
        done = self.hosts("--grace", "0.1", "sh", "-c",
                          "[ $RANK = 2 ] && kill -SEGV $$; sleep 60 & wait")
        self.assertEqual(done.returncode, 139, done.stderr)
        self.assertRegex(done.stderr, r"(?m)^lockstep: rank 2 on host .*SIGSEGV")
        self.assertEqual(done.stderr.count("rank 2 on host"), 1, done.stderr)

    def started(self, script="echo; sleep 300 & (setsid sleep 300 &); wait"):
        process = self.start(*self.words("sh", "-c", script), env=self.env)
        for _ in range(3):
            process.stdout.readline()
        return process

    def test_signals_go_to_all(self):
        process = self.started("trap 'echo got; exit 0' USR1; echo;"
                               "while :; do sleep 0.01; done")
        process.send_signal(signal.SIGUSR1)
        self.assertEqual(self.ended(process)[:2], (0, 3 * ["got"]))

    def test_a_request_to_end(self):
        process = self.started()
        process.terminate()
        status, _, errors = self.ended(process)
        self.assertEqual(status, 143, errors)

    def test_the_front_is_killed(self):
        process = self.started()
        process.kill()
        self.assertTrue(wait_until(lambda: not processes(self.mark)),
                        processes(self.mark))

    def test_the_end_of_its_input_ends_an_agent(self):
        """The death of its parent does not: processes would stay that it is
        about to end."""
        parent = subprocess.Popen(
            ("sh", "-c", 'exec 3<&0; setpriv --pdeathsig KILL "$0" run '
             '--on-host <&3 & echo $!; wait', LOCKSTEP), env=self.env,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        with parent:
            agent = int(parent.stdout.readline())
            self.assertIn(b"lockstep", parent.stdout.readline())
            parent.kill()
            parent.wait()
            ended, _, _ = select.select([parent.stdout], [], [], 0.5)
            self.assertEqual(ended, [])
            parent.stdin.close()
            self.assertTrue(wait_until(lambda: not is_running(agent)))

    def test_what_stands_on_a_host_is_killed(self):
        """The launcher there, what ssh has started, and ssh itself."""
        for place in (b"--nnodes", b"--on-host"):
            process = self.started()
            pids = [pid for pid, words in processes(self.mark).items()
                    if place in words and pid != process.pid]
            os.kill(max(pids), signal.SIGKILL)
            status, _, errors = self.ended(process)
            self.assertNotEqual(status, 0)
            self.assertIn("lockstep: ", errors)
            self.assertTrue(wait_until(lambda: not processes(self.mark)),
                            processes(self.mark))


class Mistakes(OverSsh):
    def test_flags(self):
        for hosts, message in (
                ("a:0", "'a:0' is not a host"), ("a,,b", "'' is not a host"),
                ("a:2,a", "host a is listed twice"), ("-a", "is not a host"),
                ("a;b", "is not a host"), ("/none/x", "cannot read the hosts")):
            self.refuses(2, message, "true", hosts=hosts)
        self.refuses(2, "leave --nnodes out", "--nnodes", "2", "true")
        self.refuses(2, "-x NONE: this variable is not set on this", "-x", "NONE",
                     "true")
        self.refuses(2, "-n auto: with --hosts", "-n", "auto", "true")

    def test_a_host_that_cannot_be_reached(self):
        agent = self.script("cut", AGENT.replace(
            "export", "[ $HOST = 127.0.0.1 ] || { echo no route >&2; exit 255;"
            "}; export"))
        self.refuses(1, "lockstep: host localhost cannot be reached: no route",
                     "true", agent=agent)

    def test_no_lockstep_there(self):
        for status in (126, 127):
            agent = self.script("none", f"#!/bin/sh\necho nothing >&2; exit "
                                f"{status}\n")
            self.refuses(1, "host h cannot run lockstep; install it there "
                         "at the same path: nothing", "true", hosts="h",
                         agent=agent)

    def test_another_version(self):
        agent = self.script("old", "#!/bin/sh\necho lockstep-on-host 0.0.9 7 "
                            "-; sleep 60\n")
        self.refuses(1, "host h has lockstep 0.0.9, but this host has ",
                     "--grace",
                     "0.1", "true", hosts="h", agent=agent)
        agent = self.script("older", "#!/bin/sh\necho lockstep: unknown flag "
                            ">&2; exit 2\n")
        self.refuses(1, "host h has another version of lockstep; install "
                     "this version there: lockstep: "
                     "unknown flag", "true", hosts="h", agent=agent)

    def test_no_agent(self):
        self.refuses(1, "cannot run 'nonesuch', the --ssh command that starts "
                        "programs on other hosts", "true", agent="nonesuch")

    def test_a_program_that_is_not_there(self):
        self.refuses(127, "host h: cannot run 'nonesuch': program not found",
                     "nonesuch", hosts="h")


if __name__ == "__main__":
    unittest.main()
