"""lockstep doctor: from ranks that stop or die to a diagnosis."""

import glob
import json
import os
import signal
import tempfile
import unittest

from program import LOCKSTEP, ProgramTest, wait_until

ENDLESS = (f"echo $RANK $$; exec {LOCKSTEP} bench all-reduce --sizes 1k "
           "--iterations 1000000000 >&2")


def listens(pid):
    """Whether the process has a handler for SIGUSR1."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        caught = [line for line in file if line.startswith("SigCgt:")]
    return int(caught[0].split()[1], 16) >> (signal.SIGUSR1 - 1) & 1


class Doctor(ProgramTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="records[1]*")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def started(self, ranks, timeout, grace=0.5, before=""):
        """Ranks that are busy with collectives, and their pids."""
        script = (f"export LOCKSTEP_RECORD='{self.folder}' "
                  f"LOCKSTEP_TIMEOUT={timeout} {before}; {ENDLESS}")
        process = self.start("run", "-n", str(ranks), "--grace", str(grace),
                             "--", "bash", "-c", script)
        lines = [process.stdout.readline().split() for _ in range(ranks)]
        pids = {int(rank): int(pid) for rank, pid in lines}
        return process, [pids[rank] for rank in range(ranks)]

    def files(self):
        """The records that are whole: others have another name so far."""
        return glob.glob(os.path.join(glob.escape(self.folder), "*.json"))

    def ask(self, process, pids):
        """Has every rank write after a call, once that does not end it."""
        self.assertTrue(wait_until(lambda: all(map(listens, pids))))
        self.assertTrue(wait_until(lambda: self.all_completed(process, pids)))

    def all_completed(self, process, pids):
        """Whether new records of all ranks name a completed call."""
        for path in self.files():
            os.unlink(path)
        process.send_signal(signal.SIGUSR1)
        self.assertTrue(wait_until(lambda: len(self.files()) == len(pids)))
        completed = []
        for path in self.files():
            with open(path, encoding="utf-8") as file:
                completed.append(json.load(file)["completed"])
        return all(completed)

    def diagnosed(self, status):
        path = os.path.join(self.folder, "findings")
        done = self.call("doctor", self.folder, "--json=" + path)
        self.assertEqual((done.returncode, done.stderr), (status, ""))
        with open(path, encoding="utf-8") as file:
            rows = json.load(file)["rows"]
        os.unlink(path)
        for row in rows:
            self.assertIn(f"{row['finding']}: {row['text']}\n", done.stdout)
        return rows, done.stdout

    def test_nothing_is_wrong(self):
        process, pids = self.started(2, 20)
        self.ask(process, pids)
        rows, out = self.diagnosed(0)
        self.assertEqual(rows, [])
        self.assertIn("records of 2 of 2 ranks", out)
        self.assertIn("No problem found.", out)
        self.assertRegex(out, r"\nInstructions: \w+ from rank 0; fast bits\.\n")
        self.assertEqual(out.count("| well "), 2)

    def test_ranks_have_other_instructions(self):
        best = json.loads(self.succeeds("info", "--json"))["machine"]["isa"]
        if best == "ref":
            self.skipTest("the processor has one level")
        process, pids = self.started(
            2, 20, before=f"LOCKSTEP_ISA=$([ $RANK = 0 ] && echo ref || echo {best})")
        self.ask(process, pids)
        _, out = self.diagnosed(0)
        self.assertIn(f"\nInstructions: ref from rank 0, {best} from rank 1; fast bits.\n",
                      out)

    def test_a_killed_rank(self):
        process, pids = self.started(3, 20)
        self.ask(process, pids)
        os.kill(pids[1], signal.SIGKILL)
        self.ended(process)
        rows, _ = self.diagnosed(1)
        self.assertEqual(rows[0]["finding"], "dead")
        self.assertIn(f"pid {pids[1]}) died: its last completed call is #", rows[0]["text"])
        survivor = glob.glob(os.path.join(glob.escape(self.folder),
                                          "*-rank-0.json"))[0]
        with open(survivor, encoding="utf-8") as file:
            failure = json.load(file)["failure"]
        self.assertEqual((failure["kind"], failure["rank"], failure["pid"],
                          failure["sequence"]),
                         ("LS_ERR_PEER_DEAD", 1, pids[1], rows[0]["sequence"]))
        self.assertIn(f"#{failure['sequence']} {failure['call']}",
                      rows[0]["text"])

    def test_a_stopped_rank(self):
        self.with_more_time(self.stopped_rank)

    def stopped_rank(self, factor):
        process, pids = self.started(3, factor, 0.5 * factor)
        self.ask(process, pids)
        for path in self.files():
            os.unlink(path)
        os.kill(pids[2], signal.SIGSTOP)
        self.assertTrue(wait_until(lambda: len(self.files()) >= 2))
        self.ended(process)
        rows, out = self.diagnosed(1)
        self.assertEqual([row["finding"] for row in rows], ["late", "missing"])
        self.assertEqual((rows[0]["ranks"], rows[1]["sequence"]), (3, 0))
        self.assertGreater(rows[0]["sequence"], rows[0]["last_completed"])
        for row in rows:
            self.assertIn(f"pid {pids[2]}, alive) has ", row["text"])
        self.assertIn("records of 2 of 3 ranks", out)


class Mistakes(ProgramTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def test_usage(self):
        self.fails(2, "doctor: give one folder", "doctor")
        self.fails(2, "doctor: give one folder", "doctor", "a", "b")
        self.fails(2, "cannot read 'nowhere'", "doctor", "nowhere")
        self.fails(2, "is not a folder", "doctor", LOCKSTEP)
        self.fails(2, "contains no records (*.json); give the folder", "doctor", self.folder)

    def fails_on(self, text, message):
        path = os.path.join(self.folder, "one.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        done = self.fails(2, message, "doctor", self.folder)
        self.assertIn(path, done.stderr)

    def test_files_that_are_no_files(self):
        path = os.path.join(self.folder, "one.json")
        os.mkfifo(path)
        self.fails(2, "is a FIFO, not a regular file", "doctor", self.folder)
        os.unlink(path)
        os.symlink("/dev/zero", path)
        self.fails(2, "is a device, not a regular file", "doctor", self.folder)

    def test_files_that_are_no_records(self):
        self.fails_on("", "is not valid JSON")
        self.fails_on('{"lockstep_record": 1, "ran', "is not valid JSON")
        self.fails_on("[1, 2]", "is not a record of a rank")
        self.fails_on('{"rows": []}', "is not a record of a rank")
        self.fails_on('{"lockstep_record": 9}', "is a record of version 9")
        self.fails_on('{"lockstep_record": 1}', "is not a valid record")

    def record(self):
        call = {"sequence": 1, "call": "barrier", "operation": "barrier",
                "count": 0, "dtype": "f32", "redop": "sum", "root": 0,
                "status": "done"}
        return {"lockstep_record": 1, "job": "j", "group": 0, "rank": 0,
                "size": 1, "pid": 1, "host": "h", "reason": "r",
                "written_ns": 1, "wall_ns": 1, "completed": 1,
                "failure": None, "ranks": [{"presence": "alive"}],
                "collectives": [call], "messages": []}

    def test_records_that_are_damaged(self):
        self.fails_on(json.dumps({**self.record(), "rank": 1}), "a rank or a time is out of range")
        self.fails_on(json.dumps({**self.record(), "size": 0}), "a rank or a time is out of range")
        self.fails_on(json.dumps({**self.record(), "ranks": []}),
                      "does not list all ranks")
        self.fails_on(json.dumps({**self.record(), "collectives": [{}]}),
                      "is not a valid record")
        call = self.record()["collectives"][0]
        self.fails_on(json.dumps({**self.record(), "collectives": [call] * 2}),
                      "not in order")
        mismatch = {"kind": "LS_ERR_MISMATCH", "sequence": 1}
        self.fails_on(json.dumps({**self.record(), "failure": mismatch}),
                      "without the calls of the two ranks")
        for name in self.record():
            damaged = self.record()
            del damaged[name]
            self.fails_on(json.dumps(damaged), "one.json' is n")
        path = os.path.join(self.folder, "one.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(self.record(), file)
        out = self.succeeds("doctor", self.folder)
        self.assertIn("No problem found.", out)
        # In the environment of the tests.
        self.assertIn("The collectives of this machine are not tuned. Selection "
                      "table: ignored (LOCKSTEP_TUNE=off).", " ".join(out.split()))


if __name__ == "__main__":
    unittest.main()
