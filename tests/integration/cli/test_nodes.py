"""lockstep run for several nodes: launchers that meet over loopback."""

import os
import signal
import socket
import struct
import subprocess
import sys
import time
import unittest

from program import (LOCKSTEP, ProgramTest, children, environment, is_running,
                     wait_until)

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from ports import free_port  # noqa: E402

SECRET = "0123456789abcdef-for-tests"
SHOW = ("echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $GROUP_RANK"
        " $GROUP_WORLD_SIZE $ROLE_RANK $ROLE_WORLD_SIZE")


def left(mark):
    """The processes in whose environment the mark is."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                marked = mark.encode() in file.read()
            if marked and is_running(int(entry)):
                found.append(int(entry))
        except OSError:
            pass
    return found


class Nodes(ProgramTest):
    def setUp(self):
        self.endpoint = f"localhost:{free_port()}"
        self.mark = f"LOCKSTEP_TEST_MARK={os.getpid()}-{self.id()}"
        self.addCleanup(self.nothing_left)

    def nothing_left(self):
        self.assertTrue(wait_until(lambda: not left(self.mark)),
                        left(self.mark))

    def node(self, *words, nodes="2", ranks=1, env=None, flags=()):
        """A launcher; it runs the words, or a line of sh."""
        if len(words) == 1:
            words = ("sh", "-c", words[0])
        name, _, value = self.mark.partition("=")
        return self.start("run", "--nnodes", str(nodes), "--rdzv-endpoint",
                          self.endpoint, "-n", str(ranks), *flags, "--",
                          *words, env=environment(**{name: value},
                                                  **(env or {})))

    def all_end(self, launchers, status):
        """Each with that status; their outputs and errors."""
        ends = [self.ended(process) for process in launchers]
        for got, _, errors in ends:
            self.assertEqual(got, status, errors)
        return [lines for _, lines, _ in ends], [text for *_, text in ends]

    def ranks_of(self, process):
        """The supervisor of a launcher and its ranks."""
        self.assertTrue(wait_until(lambda: children(process.pid)))
        supervisor, = children(process.pid)
        self.assertTrue(wait_until(lambda: children(supervisor)))
        return supervisor, children(supervisor)

    def serves(self):
        """Whether somebody listens at the endpoint."""
        address = ("localhost", int(self.endpoint.split(":")[1]))
        try:
            socket.create_connection(address, 1).close()
            return True
        except OSError:
            return False


class Threads(Nodes):
    """Launchers of one machine, each of which could take all its CPUs."""

    def threads(self, ranks=(1, 1), env=None):
        """OMP_NUM_THREADS of the ranks of each launcher, and what they said."""
        launchers = [self.node("echo $OMP_NUM_THREADS", ranks=n, env=env)
                     for n in ranks]
        out, errors = self.all_end(launchers, 0)
        return [[int(line) for line in lines] for lines in out], errors

    def test_they_divide_the_cpus(self):
        alone = self.succeeds("run", "-n", "4", "--", "sh", "-c",
                              "echo $OMP_NUM_THREADS")
        each = int(alone.split()[0])
        out, errors = self.threads(ranks=(1, 3))
        self.assertEqual(out, [[each], [each] * 3])
        if len(os.sched_getaffinity(0)) > 1:
            self.assertIn("this machine runs several nodes of this job: each "
                          f"rank gets {each} thread", errors[0])

    def test_a_number_that_is_given_stays(self):
        out, errors = self.threads(env={"OMP_NUM_THREADS": 3})
        self.assertEqual(out, [[3], [3]])
        self.assertNotIn("on this machine", errors[0])

    def test_disjoint_cpus_are_not_divided(self):
        allowed = sorted(os.sched_getaffinity(0))
        if len(allowed) < 2:
            self.skipTest("there is one CPU")
        half = len(allowed) // 2
        parts = [allowed[:half], allowed[half:]]
        self.addCleanup(os.sched_setaffinity, 0, allowed)
        launchers = []
        for part in parts:
            os.sched_setaffinity(0, part)
            launchers.append(self.node("echo $OMP_NUM_THREADS"))
        out, errors = self.all_end(launchers, 0)
        self.assertEqual([int(lines[0]) for lines in out],
                         [len(part) for part in parts])
        self.assertNotIn("on this machine", "".join(errors))


class Meeting(Nodes):
    def test_given_ranks_and_uneven_sizes(self):
        sizes = {0: 2, 2: 3, 1: 1}  # in the order of their start
        launchers = {k: self.node(SHOW, nodes=3, ranks=n,
                                  flags=("--node-rank", str(k)))
                     for k, n in sizes.items()}
        out, errors = self.all_end([launchers[k] for k in range(3)], 0)
        at = 0
        for k in range(3):
            n = sizes[k]
            self.assertEqual(out[k], [
                f"{at + r} {r} 6 {n} {k} 3 {at + r} 6" for r in range(n)])
            at += n
        self.assertIn("is node 2 of 3 nodes and runs ranks 3 to 5 of 6; it "
                      "uses interface lo, ", errors[2])

    def test_by_arrival(self):
        script = ("echo $GROUP_RANK $WORLD_SIZE $LOCKSTEP_JOB $LOCKSTEP_RUN"
                  " $MASTER_ADDR $MASTER_PORT $LOCKSTEP_RENDEZVOUS")
        out, _ = self.all_end([self.node(script) for _ in range(2)], 0)
        lines = sorted(line for lines in out for line in lines)
        self.assertEqual([line.split()[:2] for line in lines],
                         [["0", "2"], ["1", "2"]])
        self.assertEqual(len({tuple(line.split()[2:]) for line in lines}), 1)
        self.assertEqual(lines[0].split()[-1], self.endpoint)
        self.assertEqual(lines[0].split()[4], "localhost")

    def test_the_node_that_serves_may_come_last(self):
        flags = [("--node-rank", str(k)) for k in (1, 2, 0)]
        launchers = [self.node("true", nodes=3, flags=f) for f in flags[:2]]
        time.sleep(0.3)  # they look for it meanwhile
        launchers.append(self.node("true", nodes=3, flags=flags[2]))
        self.all_end(launchers, 0)

    def test_twenty_at_once(self):
        launchers = [self.node("echo $RANK", nodes=20,
                               flags=("--monitor-interval", "0.4"))
                     for _ in range(20)]
        out, _ = self.all_end(launchers, 0)
        self.assertEqual(sorted(int(line) for lines in out for line in lines),
                         list(range(20)))

    def test_fewer_than_most_start_after_the_last_call(self):
        flags = ("--rdzv-conf", "last_call_timeout=0.3")
        launchers = [self.node("echo $WORLD_SIZE", nodes="2:3", flags=flags)
                     for _ in range(2)]
        out, errors = self.all_end(launchers, 0)
        self.assertEqual(out, [["2"], ["2"]])
        self.assertIn("starting with 2 of at most 3 nodes", errors[0])

    def test_too_few(self):
        launcher = self.node("true", flags=("--rdzv-conf", "join_timeout=0.3"))
        _, (error,) = self.all_end([launcher], 1)
        self.assertIn("given up: within 0.3 s (--rdzv-conf join_timeout) only "
                      "1 of 2 nodes have joined", error)

    def test_nobody_serves(self):
        launcher = self.node("true", flags=(
            "--rdzv-conf", "join_timeout=0.3", "--node-rank", "1"))
        _, (error,) = self.all_end([launcher], 1)
        self.assertIn(f"the endpoint {self.endpoint} was not reachable "
                      "within 0.3 s (--rdzv-conf join_timeout): ", error)

    def test_torchruns_older_flags(self):
        port = self.endpoint.split(":")[1]
        launchers = [self.start(
            "run", "--nnodes", "2", "--node-rank", str(k), "--master-addr",
            "localhost", "--master-port", port, "--", "sh", "-c", SHOW)
            for k in range(2)]
        out, _ = self.all_end(launchers, 0)
        self.assertEqual(out[1], ["1 0 2 1 1 2 1 2"])

    def test_garbage_at_the_endpoint(self):
        first = self.node("echo $RANK", env={"LOCKSTEP_SECRET": SECRET})
        address = ("localhost", int(self.endpoint.split(":")[1]))
        self.assertTrue(wait_until(self.serves))
        socks = [socket.create_connection(address, 5) for _ in range(300)]
        for i, sock in enumerate(socks):
            try:
                sock.sendall([b"GET / HTTP/1.0\r\n\r\n", os.urandom(2000), b"",
                              b"LsR1\x01\x00\x00\x00\x20"][i % 4])
            except OSError:
                pass
        second = self.node("echo $RANK", env={"LOCKSTEP_SECRET": SECRET})
        self.all_end([first, second], 0)
        for sock in socks:
            sock.close()

    def test_stale_environment(self):
        stale = {"RANK": 5, "WORLD_SIZE": 9, "LOCAL_RANK": 5, "GROUP_RANK": 4,
                 "MASTER_ADDR": "nowhere", "LOCKSTEP_JOB": "old",
                 "LOCKSTEP_RENDEZVOUS": "nowhere:1"}
        out, _ = self.all_end([self.node(SHOW + " $LOCKSTEP_RENDEZVOUS",
                                         env=stale) for _ in range(2)], 0)
        self.assertEqual(sorted(line for lines in out for line in lines),
                         [f"{r} 0 2 1 {r} 2 {r} 2 {self.endpoint}"
                          for r in range(2)])

    def test_ranks_keep_their_limit_of_descriptors(self):
        limit = subprocess.run(["sh", "-c", "ulimit -Sn"], check=True,
                               stdout=subprocess.PIPE, text=True).stdout
        out, _ = self.all_end([self.node("ulimit -Sn") for _ in range(2)], 0)
        self.assertEqual(out, 2 * [[limit.strip()]])

    def test_nested_run_stands_alone(self):
        inner = f"{LOCKSTEP} run -n 2 -- sh -c 'echo x$LOCKSTEP_RENDEZVOUS'"
        out, _ = self.all_end([self.node(inner) for _ in range(2)], 0)
        self.assertEqual(out, [["x", "x"], ["x", "x"]])


class Failures(Nodes):
    def test_first_failure_is_everybodys(self):
        script = "[ $RANK != 2 ] || exit 7; exec sleep 600"
        begin = time.monotonic()
        launchers = [self.node(script, ranks=2, flags=("--grace", "0.1"))
                     for _ in range(2)]
        _, errors = self.all_end(launchers, 7)
        self.assertLess(time.monotonic() - begin, 50)
        for text in errors:
            self.assertRegex(text, r"rank 2 on host \S+ \(node 1, pid \d+\) "
                             r"ended with exit status 7")

    def test_no_restart_where_it_would_repeat(self):
        launchers = [self.node("exit 65", flags=("--max-restarts", "3"))
                     for _ in range(2)]
        _, errors = self.all_end(launchers, 65)
        for text in errors:
            self.assertNotIn("restart 1", text)
            self.assertIn("no restart: exit status 65 means that training has "
                          "diverged", text)

    def test_killed_rank(self):
        launchers = [self.node("exec sleep 60", flags=("--grace", "0.2"))
                     for _ in range(2)]
        _, ranks = self.ranks_of(launchers[1])
        self.ranks_of(launchers[0])
        os.kill(ranks[0], signal.SIGKILL)
        _, errors = self.all_end(launchers, 137)
        for text in errors:
            self.assertRegex(text, rf"rank \d on host \S+ \(node \d, pid "
                             rf"{ranks[0]}\) was killed by signal 9 "
                             r"\(SIGKILL\)")

    def test_killed_launchers(self):
        """Of either node, its supervisor or the process in front of it."""
        for who in range(2):
            for is_supervisor in (False, True):
                self.with_more_time(lambda _, w=who, i=is_supervisor:
                                    self.killed_launcher(w, i))

    def killed_launcher(self, who, is_supervisor):
        launchers = [self.node("exec sleep 60", flags=(
            "--grace", "0.2", "--node-rank", str(k))) for k in range(2)]
        supervisor, _ = self.ranks_of(launchers[who])
        self.ranks_of(launchers[1 - who])
        os.kill(supervisor if is_supervisor else launchers[who].pid,
                signal.SIGKILL)
        begin = time.monotonic()
        status, _, errors = self.ended(launchers[1 - who])
        self.assertLess(time.monotonic() - begin, 5)
        self.assertEqual(status, 1, errors)
        self.assertRegex(errors, "node 0 at localhost:\\d+ is lost"
                         if who == 0 and is_supervisor else
                         rf"\(node {who}\) is lost: ")
        launchers[who].wait(60)
        self.nothing_left()

    def test_killed_before_it_hears_of_the_start(self):
        said = []
        self.with_more_time(
            lambda factor: said.extend(self.killed_before_it_hears(factor)))
        for errors in said:
            self.assertIn(" (node 1) is lost: its launcher was killed", errors)

    def killed_before_it_hears(self, factor):
        """The messages of the other launchers."""
        flags = ("--grace", "0.2", "--node-rank")
        launchers = [self.node("exec sleep 60", nodes=3, flags=(*flags, str(k)))
                     for k in range(2)]
        self.assertTrue(wait_until(lambda: children(launchers[1].pid)))
        supervisor, = children(launchers[1].pid)
        time.sleep(0.5 * factor)  # until it has joined
        os.kill(supervisor, signal.SIGSTOP)
        launchers.append(self.node("exec sleep 60", nodes=3,
                                   flags=(*flags, "2")))
        self.ranks_of(launchers[2])
        launchers[1].kill()
        launchers[1].wait(60)
        os.kill(supervisor, signal.SIGCONT)
        _, errors = self.all_end([launchers[0], launchers[2]], 1)
        self.nothing_left()
        return errors

    def test_killed_while_waiting(self):
        for k in range(2):
            launcher = self.node("true", flags=("--node-rank", str(k)))
            self.assertTrue(wait_until(lambda: children(launcher.pid)))
            supervisor, = children(launcher.pid)
            os.kill(supervisor, signal.SIGKILL)
            status, _, _ = self.ended(launcher)
            self.assertEqual(status, 137)
        # The endpoint is free again, and the number of the node.
        self.all_end([self.node("true", flags=("--node-rank", str(k)))
                      for k in range(2)], 0)

    def test_silent_launcher(self):
        self.with_more_time(self.silent_launcher, (1, 4))

    def silent_launcher(self, seconds):
        flags = ("--monitor-interval", str(0.02 * seconds), "--grace", "0.2")
        launchers = [self.node("exec sleep 60", flags=flags)]
        self.assertTrue(wait_until(lambda: children(launchers[0].pid)))
        launchers.append(self.node("exec sleep 60", flags=flags))
        supervisor, _ = self.ranks_of(launchers[1])
        self.ranks_of(launchers[0])
        os.kill(supervisor, signal.SIGSTOP)
        status, _, errors = self.ended(launchers[0])
        self.assertEqual(status, 1, errors)
        self.assertIn(f"is lost: it sent no message for {seconds} s",
                      errors)
        os.kill(supervisor, signal.SIGCONT)
        status, _, errors = self.ended(launchers[1])
        self.assertEqual(status, 1, errors)

    def test_no_such_program(self):
        flags = ("--grace", "0.1", "--node-rank")
        launchers = [self.node("sleep", "60", flags=(*flags, "0")),
                     self.node("./no-such-program", "x", flags=(*flags, "1"))]
        _, errors = self.all_end(launchers, 127)
        self.assertIn("(node 1) cannot start its ranks", errors[0])
        self.assertIn("program not found", errors[1])

    def test_no_such_script(self):
        flags = ("--grace", "0.1", "--node-rank")
        launchers = [self.node("sleep", "60", flags=(*flags, "0")),
                     self.node("missing.py", "x", flags=(*flags, "1"))]
        _, errors = self.all_end(launchers, 127)
        self.assertIn("(node 1) cannot start its ranks", errors[0])
        self.assertIn("run: cannot open 'missing.py': No such file", errors[1])

    def test_request_to_end_reaches_all(self):
        script = "trap 'sleep 0.2; exit 143' TERM; sleep 60 & wait"
        for stopped in (signal.SIGTERM, signal.SIGINT):
            launchers = [self.node(
                script if stopped == signal.SIGTERM else "exec sleep 60")
                for _ in range(2)]
            for launcher in launchers:
                self.ranks_of(launcher)
            time.sleep(0.2)  # until sh has its trap
            launchers[1].send_signal(stopped)
            self.all_end(launchers, 128 + stopped)

    def test_request_while_waiting(self):
        def play(factor):
            launchers = [self.node("true", nodes=3) for _ in range(2)]
            for launcher in launchers:
                self.assertTrue(wait_until(lambda: children(launcher.pid)))
            time.sleep(0.5 * factor)  # until both have joined
            launchers[1].send_signal(signal.SIGTERM)
            self.all_end(launchers, 143)
        self.with_more_time(play)

    def test_timeout(self):
        def play(factor):
            launchers = [self.node("exec sleep 60", flags=(
                "--grace", "0.2",
                *(("--timeout", str(0.7 * factor)) if k == 0 else ())))
                for k in range(2)]
            self.all_end(launchers, 124)
        self.with_more_time(play)


class Restarts(Nodes):
    def test_all_nodes_start_again(self):
        script = ("echo $RANK $LOCKSTEP_RESTART $LOCKSTEP_JOB $LOCKSTEP_RUN;"
                  "[ $RANK$LOCKSTEP_RESTART != 10 ] || exit 3;"
                  "[ $LOCKSTEP_RESTART = 1 ] || exec sleep 60")
        flags = ("--max-restarts", "2", "--grace", "0.2")
        launchers = [self.node(script, flags=flags) for _ in range(2)]
        out, errors = self.all_end(launchers, 0)
        words = sorted(line.split() for lines in out for line in lines)
        self.assertEqual([w[:2] for w in words],
                         [["0", "0"], ["0", "1"], ["1", "0"], ["1", "1"]])
        self.assertEqual(len({w[2] for w in words}), 2)
        self.assertEqual(len({w[3] for w in words}), 1)
        for text in errors:
            self.assertIn("restart 1 of 2", text)

    def test_given_up(self):
        launchers = [self.node("exit $((RANK * 5))", flags=(
            "--max-restarts", "2")) for _ in range(2)]
        _, errors = self.all_end(launchers, 5)
        for text in errors:
            self.assertIn("given up after 2 restarts "
                          "(the limit of --max-restarts)", text)

    def test_a_timeout_is_not_the_limit_of_restarts(self):
        flags = ("--timeout", "1", "--max-restarts", "3", "--grace", "0.2")
        launchers = [self.node("exec sleep 60", flags=flags) for _ in range(2)]
        _, errors = self.all_end(launchers, 124)
        for text in errors:
            self.assertNotIn("the limit of --max-restarts", text)

    def test_usage_is_not_worth_it(self):
        launchers = [self.node("[ $RANK = 0 ] && exec sleep 60; exit 2",
                               flags=("--max-restarts", "2", "--grace", "0.2"))
                     for _ in range(2)]
        _, errors = self.all_end(launchers, 2)
        self.assertNotIn("restart 1", errors[0])

    def killed_node(self, nodes, flags, script):
        """Two or three launchers; the supervisor of the last is killed."""
        most = int(nodes.split(":")[-1])
        launchers = [self.node(script, nodes=nodes, flags=(
            *flags, "--node-rank", str(k), "--max-restarts", "1", "--grace",
            "0.2")) for k in range(most)]
        for launcher in launchers[:-1]:
            self.ranks_of(launcher)
        supervisor, _ = self.ranks_of(launchers[-1])
        os.kill(supervisor, signal.SIGKILL)
        return launchers

    def test_goes_on_with_fewer(self):
        script = ("echo $LOCKSTEP_RESTART $RANK $WORLD_SIZE;"
                  "[ $LOCKSTEP_RESTART = 1 ] || exec sleep 60")

        def play(factor):
            last = f"{0.3 * factor:g}"
            launchers = self.killed_node(
                "2:3", ("--rdzv-conf", f"last_call_timeout={last}"), script)
            out, errors = self.all_end(launchers[:2], 0)
            self.assertEqual(out, [["0 0 3", "1 0 2"], ["0 1 3", "1 1 2"]])
            self.assertRegex(errors[0], r"host \S+ \(node 2\) is lost: ")
            self.assertIn(f"restart 1 of 1: waiting {last} s", errors[0])
        self.with_more_time(play)

    def test_a_node_takes_the_place(self):
        script = ("echo $LOCKSTEP_RESTART $RANK $WORLD_SIZE;"
                  "[ $LOCKSTEP_RESTART = 1 ] || exec sleep 60")
        launchers = self.killed_node("2", (), script)
        self.ended(launchers[1])
        launchers[1] = self.node(script, flags=("--node-rank", "1"))
        out, errors = self.all_end(launchers, 0)
        self.assertEqual(out, [["0 0 2", "1 0 2"], ["1 1 2"]])
        self.assertRegex(errors[0],
                         "1 of 2 nodes have joined|joins at the next")

    def test_nobody_takes_the_place(self):
        def play(factor):
            most = 2 * factor
            launchers = self.killed_node(
                "2", ("--rdzv-conf", f"join_timeout={most}"), "exec sleep 60")
            _, (errors,) = self.all_end(launchers[:1], 1)
            self.assertIn(f"given up: within {most} s (--rdzv-conf "
                          "join_timeout) only 1 of 2 nodes have joined",
                          errors)
        self.with_more_time(play)


class LostEndpoint(Nodes):
    """The launcher that serves the endpoint is killed."""
    SCRIPT = ("echo $LOCKSTEP_RESTART $RANK $WORLD_SIZE $LOCKSTEP_RUN;"
              "[ $LOCKSTEP_RESTART = 1 ] || exec sleep 60")

    def one(self, k, nodes, *flags):
        return self.node(self.SCRIPT, nodes=nodes, flags=(
            "--node-rank", str(k), "--grace", "0.2", "--rdzv-conf",
            "join_timeout=10", *flags))

    def kill(self, launchers):
        """Both processes of the first, once all ranks run."""
        for launcher in launchers:
            self.ranks_of(launcher)
        supervisor, _ = self.ranks_of(launchers[0])
        for pid in (launchers[0].pid, supervisor):
            os.kill(pid, signal.SIGKILL)
        self.gone(launchers[0], supervisor)

    def gone(self, front, supervisor):
        """Both have ended, so the endpoint's port is free again."""
        front.wait(60)
        self.assertTrue(wait_until(lambda: not is_running(supervisor)))

    def started(self, nodes, *flags):
        return [self.one(k, nodes, *flags) for k in range(2)]

    def connected(self):
        """How many launchers are, to the endpoint."""
        port = f":{int(self.endpoint.split(':')[1]):04X}"
        with open("/proc/net/tcp", encoding="ascii") as file:
            rows = [line.split() for line in file]
        return sum(row[1].endswith(port) and row[3] == "01" for row in rows)

    def test_the_same_command_goes_on(self):
        for nodes in ("2", "1:2"):
            launchers = self.started(nodes, "--max-restarts", "1")
            self.kill(launchers)
            launchers[0] = self.one(0, nodes, "--max-restarts", "1")
            out, errors = self.all_end(launchers, 0)
            lines = [line.split() for lines in out for line in lines]
            self.assertEqual([line[:3] for line in lines], [
                ["1", "0", "2"], ["0", "1", "2"], ["1", "1", "2"]], errors)
            self.assertEqual(len({line[3] for line in lines}), 1)
            self.assertIn("is lost: its launcher has ended", errors[1])

    def test_killed_front(self):
        launchers = self.started("2", "--max-restarts", "1")
        supervisor, _ = [self.ranks_of(launcher)[0] for launcher in launchers]
        launchers[0].kill()
        self.gone(launchers[0], supervisor)
        launchers[0] = self.one(0, "2", "--max-restarts", "1")
        self.all_end(launchers, 0)

    def test_killed_while_nodes_meet(self):
        first, second = (self.one(k, "3", "--max-restarts", "1")
                         for k in range(2))
        self.assertTrue(wait_until(lambda: self.connected() == 2))
        os.kill(children(first.pid)[0], signal.SIGKILL)
        first.wait(60)
        launchers = [second] + [self.one(k, "3", "--max-restarts", "1")
                                for k in (0, 2)]
        for launcher in launchers:
            self.ranks_of(launcher)
        second.send_signal(signal.SIGTERM)
        self.all_end(launchers, 143)

    def test_killed_while_it_shakes_hands(self):
        """It has sent its challenge, and is gone before the answer."""
        challenge = b"LsR1" + struct.pack("<BBHI", 2, 0, 0, 33) + bytes(33)
        host, port = self.endpoint.split(":")
        with socket.create_server((host, int(port))) as server:
            server.settimeout(20)
            second = self.node("exit 0", flags=("--node-rank", "1"))
            connection, _ = server.accept()
        connection.settimeout(20)
        connection.recv(1024)
        connection.sendall(challenge)
        connection.close()
        first = self.node("exit 0", flags=("--node-rank", "0"))
        self.all_end((first, second), 0)

    def test_nobody_comes_back(self):
        def play(factor, nodes):
            most = f"{0.7 * factor:g}"
            launchers = self.started(nodes, "--max-restarts", "1",
                                     "--rdzv-conf", f"join_timeout={most}")
            self.kill(launchers)
            _, (errors,) = self.all_end(launchers[1:], 1)
            self.assertEqual(errors.count(
                f"given up: the endpoint {self.endpoint} was not reachable "
                f"within {most} s (--rdzv-conf join_timeout): Connection "
                "refused"), 1)
            self.nothing_left()
        for nodes in ("2", "1:2"):
            self.with_more_time(lambda factor, n=nodes: play(factor, n))

    def test_no_restart_is_left(self):
        launchers = self.started("2", "--rdzv-conf", "join_timeout=50")
        self.kill(launchers)
        begin = time.monotonic()
        _, (errors,) = self.all_end(launchers[1:], 1)
        self.assertLess(time.monotonic() - begin, 40)
        self.assertNotIn("join_timeout", errors)

    def test_asked_to_end_meanwhile(self):
        launchers = self.started("2", "--max-restarts", "1")
        self.kill(launchers)
        process = launchers[1]

        def waits():
            process.errors.seek(0)
            return "join_timeout" in process.errors.read()
        self.assertTrue(wait_until(waits))
        process.send_signal(signal.SIGTERM)
        self.all_end([process], 143)

    def test_ending_on_purpose_ends_all(self):
        """Nobody waits for a launcher that has not been killed."""
        def play(factor):
            launchers = [self.one(k, "3", "--max-restarts", "1", *more)
                         for k, more in ((0, ("--timeout", str(1.5 * factor))),
                                         (1, ()))]
            _, errors = self.all_end(launchers, 124)
            self.assertRegex(errors[1], r"the launcher of host \S+ \(node 0\) "
                             "has ended")
        self.with_more_time(play)


class Refusals(Nodes):
    def refused(self, message, *flags, nodes="2", env=None, status=1):
        """A second launcher is, in less than two seconds at one of five tries,
        as the machine may be busy; the first waits on."""
        for _ in range(5):
            begin = time.monotonic()
            launcher = self.node("true", nodes=nodes, flags=flags, env=env)
            got, _, errors = self.ended(launcher)
            self.assertEqual(got, status, errors)
            self.assertEqual(errors.count("\n"), 1, errors)
            self.assertTrue(errors.startswith("lockstep: "), errors)
            self.assertIn(message, errors)
            took = time.monotonic() - begin
            if took < 2:
                return
        self.fail(f"the last try has taken {took:.1f} s")

    def test_strangers_of_a_job(self):
        secret = {"LOCKSTEP_SECRET": SECRET}
        first = self.node("true", env=secret, flags=(
            "--node-rank", "0", "--rdzv-id", "mine"))
        self.assertTrue(wait_until(self.serves))
        other = ("--rdzv-id", "mine", "--node-rank")
        self.refused("authentication failed: the secrets differ", *other, "1",
                     env={"LOCKSTEP_SECRET": SECRET + "x"})
        self.refused("asks for a secret: set the same secret", *other, "1")
        self.refused("the port of endpoint " + self.endpoint + " is in use",
                     *other, "0", env=secret)
        self.refused("serves job 'mine', but this host has --rdzv-id 'yours'",
                     "--rdzv-id", "yours", "--node-rank", "1", env=secret)
        self.refused("--nnodes must be the same on all hosts", *other, "1",
                     nodes="3", env=secret)
        second = self.node("true", env=secret, flags=(*other, "1"))
        self.all_end([first, second], 0)

    def test_duplicate_and_superfluous(self):
        self.with_more_time(self.duplicate_and_superfluous)

    def duplicate_and_superfluous(self, factor):
        first = self.node("exec sleep 60", nodes=3, flags=(
            "--node-rank", "0", "--grace", "0.1"))
        second = self.node("exec sleep 60", nodes=3, flags=(
            "--node-rank", "1", "--grace", "0.1"))
        self.assertTrue(wait_until(lambda: children(second.pid)))
        time.sleep(0.5 * factor)  # until they have joined
        self.refused("--node-rank 1 is already used by host ",
                     "--node-rank", "1", nodes="3")
        third = self.node("exec sleep 60", nodes=3, flags=("--grace", "0.1"))
        self.ranks_of(third)
        self.refused("already has all its 3 nodes", nodes="3")
        first.send_signal(signal.SIGTERM)
        self.all_end([first, second, third], 143)

    def test_unusable_endpoints(self):
        for endpoint, message in (
                ("192.0.2.1:29400", "the hosts need a secret: set the same"),
                ("no-such-host.invalid:1", "cannot find the host")):
            self.endpoint = endpoint
            self.refused(message, "--node-rank", "0")
        self.endpoint = "192.0.2.1:29400"
        self.refused("192.0.2.1:29400 is not an address of this host",
                     "--node-rank", "0", env={"LOCKSTEP_SECRET": SECRET})
        self.endpoint = "localhost:29400"
        self.refused("matches no network interface",
                     env={"LOCKSTEP_INTERFACE": "=nosuch"})
        self.refused("the secret in LOCKSTEP_SECRET has 5 characters",
                     env={"LOCKSTEP_SECRET": "short"})

    def test_somebody_else_serves(self):
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            sock.listen()
            self.endpoint = f"127.0.0.1:{sock.getsockname()[1]}"
            launcher = self.node("true", flags=("--node-rank", "1"))
            other, _ = sock.accept()
            with other:
                other.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                _, (error,) = self.all_end([launcher], 1)
        self.assertIn("does not follow Lockstep's protocol", error)

    def other_end(self, closes):
        """The error of a launcher about a program that accepts its connections and
        closes them, or keeps them and never answers."""
        accepted = []
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            sock.listen()
            sock.settimeout(0.05)
            self.endpoint = f"127.0.0.1:{sock.getsockname()[1]}"
            launcher = self.node("true", flags=(
                "--node-rank", "1", "--monitor-interval", "0.02",
                "--rdzv-conf", "join_timeout=0.8"))
            while launcher.poll() is None:
                try:
                    accepted.append(sock.accept()[0])
                except TimeoutError:
                    continue
                if closes:
                    accepted.pop().close()
            for other in accepted:
                other.close()
        _, (error,) = self.all_end([launcher], 1)
        return error

    def test_an_end_before_the_answer(self):
        self.assertIn(
            "within 0.8 s (--rdzv-conf join_timeout): it closed the "
            "connection without an answer; the launcher of node 0 may have "
            "ended",
            self.other_end(closes=True))

    def test_no_answer(self):
        self.assertIn(
            "within 0.8 s (--rdzv-conf join_timeout): it accepted the "
            "connection but did not answer for 1 s; another program may "
            "listen there, or the launcher of node 0 is stopped",
            self.other_end(closes=False))

    def test_wrong_usage(self):
        for flags, message in (
                (("--nnodes", "0"), "--nnodes '0' is not valid"),
                (("--nnodes", "3:2"), "give a number of hosts"),
                (("--nnodes", "2"), "needs --rdzv-endpoint HOST:PORT"),
                (("--nnodes", "2", "--rdzv-endpoint", "h0:x"),
                 "is not an endpoint"),
                (("--nnodes", "2", "--rdzv-endpoint", "localhost",
                  "--node-rank", "2"), "it must be 0 to 1"),
                (("--nnodes", "2", "--rdzv-endpoint", "localhost",
                  "--rdzv-backend", "static"), "needs a --node-rank"),
                (("--nnodes", "2", "--rdzv-endpoint", "localhost",
                  "--rdzv-conf", "timeout=3"), "join_timeout=SECONDS"),
                (("--nnodes", "2", "--standalone"), "means one host")):
            done = self.call("run", *flags, "--", "true")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(message, done.stderr)


if __name__ == "__main__":
    unittest.main()
