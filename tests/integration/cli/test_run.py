"""lockstep run: what ranks get, and what comes back from them."""

import os
import re
import signal
import subprocess
import tempfile
import unittest

from program import (ProgramTest, children, environment, is_running,
                     wait_until)

CPUS = len(os.sched_getaffinity(0))


def shell(script):
    return ("--", "sh", "-c", script)


class Ranks(ProgramTest):
    def lines(self, *words, **more):
        return sorted(self.succeeds("run", *words, **more).splitlines())

    def test_environment(self):
        script = ("echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE"
                  " $GROUP_RANK $MASTER_ADDR")
        self.assertEqual(self.lines("-n", "3", *shell(script)),
                         [f"{r} {r} 3 3 0 127.0.0.1" for r in range(3)])

    def test_one_job_one_id(self):
        script = "echo $LOCKSTEP_JOB $MASTER_PORT"
        first = self.lines("-n", "4", *shell(script))
        second = self.lines("-n", "2", *shell(script))
        self.assertEqual(len(set(first)), 1)
        self.assertRegex(first[0], r"^[0-9a-f]{32} [0-9]{4,5}$")
        self.assertNotEqual(first[0].split()[0], second[0].split()[0])

    def test_one_rank_by_default(self):
        self.assertEqual(self.lines("--", "sh", "-c", "echo $WORLD_SIZE"),
                         ["1"])

    def test_program_is_found_by_path(self):
        self.assertEqual(self.lines("-n", "2", "echo", "--", "-n", "x"),
                         ["-- -n x", "-- -n x"])

    def test_many_ranks(self):
        self.assertEqual(len(self.lines("-n", "64", *shell("echo $RANK"))), 64)

    def test_threads(self):
        script = "echo $OMP_NUM_THREADS"
        share = str(max(1, CPUS // 2))
        # A quota may leave fewer cpus than the affinity mask shows.
        default = self.lines("-n", "2", *shell(script))
        self.assertLessEqual(int(default[0]), int(share))
        self.assertGreaterEqual(int(default[0]), 1)
        for flags, env in ((("--threads", "7"), None),
                           ((), environment(OMP_NUM_THREADS=7))):
            done = self.call("run", "-n", "2", *flags, *shell(script), env=env)
            self.assertEqual(done.stdout.split(), ["7", "7"])

    def test_too_many_threads_are_told_once(self):
        done = self.call("run", "-n", "2", "--threads", "409",
                         "--max-restarts", "1", "false")
        self.assertEqual(done.stderr.count("2 ranks x 409 threads share"), 1)
        self.assertRegex(done.stderr, r"; use --threads \d+\n|; use -n 1 ")
        one = str(sorted(os.sched_getaffinity(0))[0])
        done = self.call("run", "-n", "2", "--threads", "2", "true",
                         before=("taskset", "-c", one))
        self.assertRegex(done.stderr, r"^lockstep: warning: 2 ranks x 2 "
                         r"threads share 1 CPU.*; use -n 1 --threads 1\n$")
        # As many ranks as are asked for may be more than there are CPUs.
        self.succeeds("run", "-n", "3", "true", before=("taskset", "-c", one))

    def test_it_says_where_ranks_go_if_asked(self):
        cpus = sorted(os.sched_getaffinity(0))[:1]
        done = self.call("run", "--report-bindings", "--bind=core", "true",
                         before=("taskset", "-c", str(cpus[0])))
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"^lockstep: 1 rank x 1 thread on 1 CPU "
                         rf"\({cpus[0]}\)(, a cgroup quota of "
                         r"[0-9.]+ CPUs)?, bound by core\n$")

    def affinity(self, *flags, **more):
        script = "import os; print(*os.sched_getaffinity(0))"
        out = self.succeeds("run", "--tag-output", *flags, "--", "python3",
                            "-c", script, **more)
        return [set(map(int, line.split()[1:])) for line in out.splitlines()]

    def test_binding_is_disjoint(self):
        ranks = min(CPUS, 4)
        sets = self.affinity("-n", str(ranks))
        self.assertEqual(len(sets), ranks)
        self.assertEqual(len(set().union(*sets)), sum(map(len, sets)))
        self.assertLessEqual(set().union(*sets), os.sched_getaffinity(0))

    def test_no_binding(self):
        everything = os.sched_getaffinity(0)
        for flags in (["-n", "2", "--no-bind"], ["-n", str(CPUS + 1)], []):
            for cpus in self.affinity(*flags):
                self.assertEqual(cpus, everything)

    def test_every_binding_stays_inside(self):
        outer = sorted(os.sched_getaffinity(0))[-1]
        for mode in ("--bind", "--bind=cpu", "--bind=core", "--bind=numa",
                     "--bind=none", "--no-bind"):
            for cpus in self.affinity("-n", "3", mode,
                                      before=("taskset", "-c", str(outer))):
                self.assertEqual(cpus, {outer})

    def test_binding_of_more_ranks_than_cpus(self):
        everything = os.sched_getaffinity(0)
        sets = self.affinity("-n", str(2 * CPUS), "--bind=core")
        self.assertEqual(set().union(*sets), everything)
        for cpus in self.affinity("-n", "3", "--bind=numa"):
            self.assertTrue(cpus and cpus <= everything)

    def test_a_described_machine_widens_nothing(self):
        env = environment(HWLOC_SYNTHETIC="numa:2 core:64 pu:2")
        outer = sorted(os.sched_getaffinity(0))[-1]
        for mode in ("--bind=cpu", "--bind=core", "--bind=numa"):
            for cpus in self.affinity("-n", "2", mode, env=env,
                                      before=("taskset", "-c", str(outer))):
                self.assertEqual(cpus, {outer})

    def test_standard_input_goes_to_rank_0(self):
        script = 'echo "$RANK: $(cat)"'
        done = self.call("run", "-n", "3", *shell(script), text="hello")
        self.assertEqual(sorted(done.stdout.splitlines()),
                         ["0: hello", "1: ", "2: "])

    def test_tagged_output(self):
        done = self.call("run", "-n", "2", "--tag-output", *shell(
            "printf 'one\\ntwo'; echo error >&2"))
        self.assertEqual(sorted(done.stdout.splitlines()),
                         ["[0] one", "[0] two", "[1] one", "[1] two"])
        self.assertEqual(sorted(done.stderr.splitlines()),
                         ["[0] error", "[1] error"])

    def test_other_launchers_are_forgotten(self):
        env = environment(OMPI_COMM_WORLD_SIZE=9, SLURM_PROCID=8, RANK=7)
        script = 'echo "$RANK$OMPI_COMM_WORLD_SIZE$SLURM_PROCID"'
        self.assertEqual(self.lines("-n", "1", *shell(script), env=env), ["0"])


class Early(ProgramTest):
    """Ranks that end before the others have met them."""

    def test_the_others_do_not_wait(self):
        for early in range(3):
            done = self.call("run", "-n", "3", *shell(
                f"test $RANK = {early} || exec $LOCKSTEP bench barrier"))
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(f"rank {early} exited with status 0 before it joined",
                          done.stderr)


class Mistakes(ProgramTest):
    def test_number_of_ranks(self):
        for number in ("0", "-1", "1025"):
            self.fails(2, f"-n {number} is out of range: 1 to 1024",
                       "run", "-n", number, "true")
        for number in ("2x", "", "gpu"):
            self.fails(2, f"-n '{number}' is neither a whole number nor one of "
                       "auto|cpu", "run", "-n", number, "true")
        self.fails(2, "--nproc-per-node 0 is out of range",
                   "run", "--nproc-per-node", "0", "true")

    def test_flags(self):
        self.fails(2, "did you mean --timeout?", "run", "--timout", "1", "true")
        self.fails(2, "-n needs a value", "run", "-n")
        self.fails(2, "name a program: ", "run", "-n", "2")
        self.fails(2, "name a program: ", "run", "-n", "2", "--")
        self.fails(2, "out of range", "run", "--threads", "0", "true")
        self.fails(2, "out of range", "run", "--timeout", "-1", "true")
        self.fails(2, "--bind 'socket' is not one of cpu|core|numa|none",
                   "run", "--bind=socket", "true")

    def test_no_such_program(self):
        self.fails(127, "cannot run 'nonesuch': program not found", "run",
                   "-n",
                   "3", "nonesuch")
        self.fails(127, "program not found", "run", "/etc/passwd/x")

    def test_no_such_script(self):
        """Said once, before any rank starts."""
        with tempfile.TemporaryDirectory() as folder:
            closed = os.path.join(folder, "closed.py")
            with open(closed, "w", encoding="ascii"):
                os.chmod(closed, 0)
            there = os.path.join(folder, "there.py")
            with open(there, "w", encoding="ascii") as file:
                file.write("print('it runs')\n")
            os.mkdir(os.path.join(folder, "folder.py"))
            cases = [("missing.py", 127, "No such file or directory"),
                     ("there.py/x.py", 127, "Not a directory"),
                     ("folder.py", 126, "Is a directory")]
            if os.geteuid() != 0:
                cases.append(("closed.py", 126, "Permission denied"))
            for name, status, why in cases:
                for flags in ([], ["--run-path"]):
                    path = os.path.join(folder, name)
                    done = self.call("run", "-n", "3", *flags, path)
                    self.assertEqual(done.returncode, status, done.stderr)
                    self.assertEqual(done.stderr, "lockstep: run: cannot open "
                                     f"'{path}': {why}\n")
            os.rename(there, os.path.join(folder, "folder.py", "__main__.py"))
            out = self.succeeds("run", os.path.join(folder, "folder.py"))
            self.assertEqual(out, "it runs\n")

    def test_hints(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("train.py", "tool"):
                with open(os.path.join(folder, name), "w", encoding="ascii"):
                    pass
            self.fails(126, "Permission denied; run it with python3", "run",
                       "--no-python", os.path.join(folder, "train.py"))
            for name, hint in (("train.py", "run it with python3"),
                               ("tool", "this folder, put ./ before its "
                                        "name")):
                done = self.call("run", "--no-python", name, cwd=folder)
                self.assertEqual(done.returncode, 127)
                self.assertIn("program not found; ", done.stderr)
                self.assertIn(hint, done.stderr)

    def test_not_executable(self):
        self.fails(126, "cannot run '/etc/passwd': Permission denied", "run",
                   "-n", "2", "/etc/passwd")
        self.fails(126, "cannot run '/tmp'", "run", "/tmp")


class ExitStatus(ProgramTest):
    def test_success_is_unanimous(self):
        self.succeeds("run", "-n", "3", "true")

    def test_first_failure_counts(self):
        # The others fail when the launcher has seen the end of rank 1.
        with tempfile.NamedTemporaryFile() as pid:
            script = (f"[ $RANK = 1 ] && echo $$ > {pid.name} && exit 7;"
                      f"until [ -s {pid.name} ]; do sleep 0.01; done;"
                      f"while kill -0 $(cat {pid.name}) 2> /dev/null;"
                      "do sleep 0.01; done; exit 9")
            done = self.fails_in_a_rank(7, "rank 1", "run", "-n", "4", *shell(script))
        self.assertRegex(done.stderr,
                         r"^lockstep: rank 1 \(pid \d+\) ended with exit "
                         r"status 7; the other ranks have 3 s to end\n")

    def test_signal(self):
        done = self.fails_in_a_rank(128 + 11, "was killed by signal 11 (SIGSEGV)", "run",
                          "-n", "2", *shell("[ $RANK = 0 ] || kill -SEGV $$"))
        self.assertRegex(done.stderr, r"rank 1 \(pid \d+\)")

    def test_others_are_ended_after_the_grace(self):
        # Rank 1 ignores SIGTERM.
        script = ("[ $RANK = 0 ] && exit 3; [ $RANK = 1 ] && trap '' TERM;"
                  "while :; do sleep 0.05; done")
        self.fails_in_a_rank(3, "rank 0", "run", "-n", "3", "--grace", "0.1",
                   *shell(script))

    def test_others_may_end_in_peace(self):
        done = self.fails_in_a_rank(3, "rank 0", "run", "-n", "2", "--grace", "30",
                          *shell("[ $RANK = 0 ] && exit 3; sleep 0.2;"
                                 "echo ended"))
        self.assertEqual(done.stdout, "ended\n")

    def test_timeout(self):
        self.fails(124, "timeout: 2 of 2 ranks did not end within 0.2 s "
                   "(--timeout)", "run",
                   "-n", "2", "--timeout", "0.2", "sleep", "60")
        self.succeeds("run", "--timeout", "60", "true")


class NothingLeftBehind(ProgramTest):
    def test_strays_are_ended(self):
        """Processes in the background, and in separate sessions."""
        with tempfile.TemporaryDirectory() as folder:
            out = self.succeeds("run", "-n", "2", *shell(
                "sleep 300 >/dev/null & echo $!;"
                f"setsid sh -c 'sleep 300 & echo $!; >{folder}/$RANK; wait' &"
                f"until [ -e {folder}/$RANK ]; do sleep 0.01; done"))
        pids = re.findall(r"\d+", out)
        self.assertEqual(len(pids), 4, out)
        for pid in pids:
            self.assertFalse(is_running(pid))

    def test_strays_do_not_hold_tagged_output(self):
        out = self.succeeds("run", "--tag-output",
                            *shell("sleep 300 & echo done"))
        self.assertEqual(out, "[0] done\n")

    def started(self, script="echo $$; sleep 300 & echo $!; wait"):
        process = self.start("run", "-n", "2", *shell(script))
        pids = [int(process.stdout.readline()) for _ in range(4)]
        self.addCleanup(lambda: [os.kill(pid, signal.SIGKILL)
                                 for pid in pids if is_running(pid)])
        return process, pids

    def assert_all_end(self, pids):
        self.assertTrue(wait_until(
            lambda: not any(is_running(pid) for pid in pids)))

    def test_launcher_killed(self):
        process, pids = self.started()
        process.kill()
        self.assert_all_end(pids)

    def test_supervisor_killed(self):
        process, pids = self.started()
        with open(f"/proc/{pids[0]}/stat", encoding="ascii") as file:
            supervisor = int(file.read().rpartition(")")[2].split()[1])
        self.assertNotEqual(supervisor, process.pid)
        os.kill(supervisor, 9)
        status, _, errors = self.ended(process)
        self.assertEqual(status, 128 + 9)
        self.assertIn("supervisor", errors)
        self.assert_all_end(pids)

    def test_both_killed(self):
        """Processes in a rank's process group do not outlive it."""
        process, pids = self.started()
        supervisor, = children(process.pid)
        # Stopped, so that it cannot help.
        os.kill(process.pid, signal.SIGSTOP)
        os.kill(supervisor, signal.SIGKILL)
        self.assert_all_end(pids)
        process.kill()

    def test_another_users_process_is_not_waited_for(self):
        powerless = ("setpriv", "--bounding-set", "-kill")
        another = ("setpriv", "--reuid", "12345")
        if subprocess.run([*powerless, *another, "true"], check=False,
                          stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("nobody becomes another user here")
        done = self.call("run", "--tag-output", *shell(
            " ".join(another) + " sleep 300 & "
            "until grep -q '^Uid:.12345' /proc/$!/status; do :; done; echo $!"),
            before=powerless)
        stray = int(done.stdout.split()[1])
        self.addCleanup(lambda: is_running(stray) and
                        os.kill(stray, signal.SIGKILL))
        self.assertEqual(done.returncode, 0)
        self.assertIn("cannot kill processes of another user that the ranks "
                      "left running: 1\n", done.stderr)


if __name__ == "__main__":
    unittest.main()
