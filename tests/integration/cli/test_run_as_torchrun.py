"""lockstep run in torchrun's place: its flags, variables, logs and restarts."""

import os
import tempfile
import unittest

from program import ProgramTest, environment
from test_run import CPUS, shell

class TorchrunFlags(ProgramTest):
    def test_taken(self):
        for flags in (["--nproc-per-node", "2"], ["--nproc_per_node=2"],
                      ["--nproc_per_node", "2", "--standalone"],
                      ["--nnodes=1", "--nproc-per-node=2", "--no_python"],
                      ["--nnodes", "1:1", "--node_rank", "0", "-n", "2",
                       "--master_addr", "localhost", "--max_restarts=0"]):
            out = self.succeeds("run", *flags, "echo", "--a_b")
            self.assertEqual(out, "--a_b\n--a_b\n", flags)

    def test_master_port(self):
        out = self.succeeds("run", "--master-port", "29500",
                            *shell("echo $MASTER_PORT"))
        self.assertEqual(out, "29500\n")

    def test_auto(self):
        out = self.succeeds("run", "-n", "auto", "echo")
        self.assertTrue(1 <= len(out) <= CPUS)

    def test_refused(self):
        for flags, message in (
                (["--nnodes", "2"], "needs --rdzv-endpoint"),
                (["--node-rank=1"], "--node-rank 1"),
                (["--master-addr", "10.0.0.1"], "--master-addr 10.0.0.1"),
                (["--max-restarts", "-1"], "out of range"),
                (["--rdzv_backend", "etcd"], "use static or c10d"),
                (["--rdzv-endpoint=a:1"], "must be localhost or 127.0.0.1"),
                (["--rdzv-endpoint=localhost:x"], "the port must be 0 to 65535"),
                (["--rdzv-id", "a/b"], "without '/'"),
                (["--rdzv_conf=a=1"], "or last_call_timeout=SECONDS"),
                (["--start-method", "fork"], "--start-method is not supported"),
                (["--tee=3"], "--log-dir DIR"),
                (["-n", "2", "--nproc-per-node", "2"], "give one")):
            self.fails(2, message, "run", *flags, "true")


class Variables(ProgramTest):
    NAMES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE",
             "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK", "ROLE_WORLD_SIZE",
             "ROLE_NAME", "TORCHELASTIC_RESTART_COUNT",
             "TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_RUN_ID",
             "TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_ERROR_FILE",
             "LOCKSTEP_RESTART", "LOCKSTEP_RUN")

    def test_all(self):
        script = "echo " + " ".join(f"${{{n}:--}}" for n in self.NAMES)
        env = environment(TORCHELASTIC_ERROR_FILE="/of/another/launcher",
                          TORCHELASTIC_RUN_ID="another", ROLE_NAME="another")
        out = self.succeeds("run", "-n", "2", "--rdzv-id", "night",
                            "--role", "trainer", "--max-restarts", "4",
                            *shell(script), env=env)
        lines = sorted(out.splitlines())
        for r in range(2):
            self.assertRegex(lines[r], f"^{r} {r} 2 2 0 1 {r} 2 trainer 0 4 "
                             rf"night False /\S+-{r}-error.json 0 night$")

    def test_static_endpoint_is_the_master(self):
        for backend, same in (("static", True), ("c10d", False)):
            out = self.succeeds("run", "--rdzv-backend", backend,
                                "--rdzv-endpoint", "localhost:29511",
                                *shell("echo $MASTER_PORT"))
            self.assertEqual(out == "29511\n", same, backend)


class Python(ProgramTest):
    def test_how_a_program_is_run(self):
        code = "import sys; print(__name__, *sys.argv[1:])\n"
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "a.py"), "w",
                      encoding="ascii") as file:
                file.write(code)
            for words in (["a.py"], ["-m", "a"], ["--module", "a"],
                          ["--run-path", "a.py"], ["--run_path", "--", "a.py"]):
                done = self.call("run", *words, "-x", "--ranks", cwd=folder)
                self.assertEqual(done.stdout, "__main__ -x --ranks\n",
                                 (words, done.stderr))

    def test_one_way_only(self):
        self.fails(2, "exclude each other", "run", "-m", "--no-python", "a")


class Logs(ProgramTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def log(self, attempt, rank, name):
        path = os.path.join(self.folder, "logs", "id", str(attempt), str(rank),
                            name + ".log")
        with open(path, encoding="ascii") as file:
            return file.read()

    def run_ranks(self, *flags, script="echo out $RANK; echo err $RANK >&2"):
        return self.call("run", "-n", "2", "--log-dir", "logs", "--rdzv-id",
                         "id", *flags, *shell(script), cwd=self.folder)

    def test_all_output_and_the_console(self):
        both = (["out 0", "out 1"], ["err 0", "err 1"])
        for flags, console in (
                ((), both), (("-r", "3"), ([], [])),
                (("--redirects=0:1,1:2",), (["out 1"], ["err 0"])),
                (("-t", "3"), (["[0] out 0", "[1] out 1"],
                               ["[0] err 0", "[1] err 1"])),
                (("-r", "3", "-t", "0:1"), (["[0] out 0"], [])),
                (("--local-ranks-filter", "1"), (["out 1"], ["err 1"]))):
            done = self.run_ranks(*flags)
            self.assertEqual((sorted(done.stdout.splitlines()),
                              sorted(done.stderr.splitlines())), console,
                             flags)
            for rank in range(2):
                self.assertTrue(
                    self.log(0, rank, "stdout").endswith(f"out {rank}\n"))
                self.assertTrue(
                    self.log(0, rank, "stderr").endswith(f"err {rank}\n"))

    def test_no_line_is_lost(self):
        n = 20000
        self.run_ranks("-r", "3", script=f"seq {n}; seq {n} >&2; printf end")
        lines = "".join(f"{i}\n" for i in range(1, n + 1))
        for rank in range(2):
            self.assertEqual(self.log(0, rank, "stdout"), lines + "end")
            self.assertEqual(self.log(0, rank, "stderr"), lines)

    def test_filter_without_logs(self):
        done = self.call("run", "-n", "3", "--local-ranks-filter", "0,2",
                         *shell("echo $RANK"))
        self.assertEqual(sorted(done.stdout.split()), ["0", "2"])

    def test_a_failure_quotes_what_was_not_shown(self):
        done = self.run_ranks("-r", "2", script="seq 30 >&2; exit $RANK")
        self.assertEqual(done.returncode, 1)
        lines = "\n".join(str(i) for i in range(11, 31))
        self.assertIn(f"last lines on stderr of rank 1:\n{lines}\nlockstep: "
                      "logs of rank "
                      "1: logs/id/0/1\n", done.stderr)
        self.assertNotIn("\n10\n", done.stderr)

    def test_error_file_can_be_written(self):
        self.run_ranks(script="cd /; echo {} > $TORCHELASTIC_ERROR_FILE")
        for rank in range(2):
            path = os.path.join(self.folder, f"logs/id/0/{rank}/error.json")
            self.assertTrue(os.path.exists(path))

    def test_folder_that_cannot_be_made(self):
        with open(os.path.join(self.folder, "logs"), "w", encoding="ascii"):
            pass
        done = self.run_ranks()
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot create the folder 'logs/id/", done.stderr)

    def test_wrong_streams(self):
        for flags, message in (
                (("-r", "4"), "--redirects '4' is not valid"),
                (("-t", "0:1,2:1"), "--tee '0:1,2:1' is not valid"),
                (("-t", "0:1,"), "--tee"), (("-r", ""), "--redirects"),
                (("--local-ranks-filter", "0,2"), "0 to 1"),
                (("--local-ranks-filter", "0;1"), "separate the ranks by commas")):
            self.fails(2, message, "run", "-n", "2", "--log-dir",
                       os.path.join(self.folder, "never"), *flags, "true")
        self.fails(2, "give a folder for them with --log-dir", "run", "-r", "3", "true")


class Restarts(ProgramTest):
    FLAKY = ("echo $LOCKSTEP_RESTART/$TORCHELASTIC_RESTART_COUNT $LOCKSTEP_RUN"
             " $LOCKSTEP_JOB; [ $RANK = 0 ] || [ $LOCKSTEP_RESTART -ge {} ] ||"
             " kill -9 $$")

    def test_until_it_goes_well(self):
        done = self.call("run", "-n", "2", "--max-restarts", "3",
                         *shell(self.FLAKY.format(2)))
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [line.split() for line in done.stdout.splitlines()]
        self.assertEqual([row[0] for row in rows],
                         [f"{i}/{i}" for i in range(3) for _ in range(2)])
        self.assertEqual(len({row[1] for row in rows}), 1)
        self.assertEqual(len({row[2] for row in rows}), 3)
        self.assertEqual(done.stderr.count("was killed by signal 9"), 2)
        self.assertIn("lockstep: restart 2 of 3: all ranks start again",
                      done.stderr)

    def test_given_up(self):
        done = self.call("run", "-n", "2", "--max-restarts", "1",
                         *shell(self.FLAKY.format(9)))
        self.assertEqual(done.returncode, 137)
        self.assertIn("given up after 1 restart (the limit of "
                      "--max-restarts)\n", done.stderr)
        self.assertEqual(len(done.stdout.splitlines()), 4)

    def test_the_others_are_ended_first(self):
        script = ("[ $LOCKSTEP_RESTART = 1 ] && exit; [ $RANK = 0 ] && exit 3;"
                  "sleep 300 & wait")
        done = self.call("run", "-n", "3", "--max-restarts", "1", "--grace",
                         "0.1", *shell(script))
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_not_worth_it(self):
        for status, words in ((2, shell("exit 2")), (127, ["nonesuch"]),
                              (124, ["--timeout", "0.2", "sleep", "60"])):
            done = self.call("run", "--max-restarts", "5", *words)
            self.assertEqual(done.returncode, status)
            self.assertNotIn("start again", done.stderr)

    def test_a_request_to_end_is_one(self):
        process = self.start("run", "--max-restarts", "5",
                             *shell("echo $$; sleep 300 & wait"))
        process.stdout.readline()
        process.terminate()
        status, _, errors = self.ended(process)
        self.assertEqual(status, 143, errors)
        self.assertNotIn("start again", errors)

    def test_logs_of_each_attempt(self):
        with tempfile.TemporaryDirectory() as folder:
            self.call("run", "-n", "2", "--max-restarts", "2", "--log-dir",
                      folder, "--rdzv-id", "x", *shell(self.FLAKY.format(2)))
            self.assertEqual(sorted(os.listdir(os.path.join(folder, "x"))),
                             ["0", "1", "2"])


if __name__ == "__main__":
    unittest.main()
