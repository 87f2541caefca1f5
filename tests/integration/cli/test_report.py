"""lockstep report: the page and its Markdown, from rows that are there and from
rows that it measures; going on after Ctrl-C; what is said before anything runs."""
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import unittest
from html.parser import HTMLParser

from program import LOCKSTEP, ProgramTest, environment, wait_until

ORIGIN = {"lockstep": "0", "command": [], "machine": {}}


def all_reduce(ranks, size, us):
    return {"op": "all-reduce", "ranks": ranks, "bytes": size, "buffers": "shared",
            "algorithm": "<flat>", "time_us": {"median": us, "min": us, "max": us},
            "busbw_gbps": size / us * 1e-3, "wrong": 0}


def norm(kind, features, us, peak=300):
    return {"implementation": kind, "features": features, "batch": 64, "ranks": 2,
            "time_us": {"median": us, "mean": us, "p99": 2 * us},
            "saved_bytes": 100, "peak_bytes": peak}


class Tags(HTMLParser):
    """The content of the report: tags are closed in order, ids are unique."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.links = [], [], []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if "id" in attrs:
            self.ids.append(attrs["id"])
        self.links += [attrs[key] for key in ("href", "xlink:href", "src")
                       if key in attrs]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, tag


class Report(ProgramTest):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.out = os.path.join(self.folder, "out")
        os.makedirs(os.path.join(self.out, "rows"))

    def rows(self, name, rows, **more):
        with open(os.path.join(self.out, "rows", name), "w", encoding="utf-8") as f:
            json.dump({**ORIGIN, "rows": rows, **more}, f)

    def read(self, name):
        with open(os.path.join(self.out, name), encoding="utf-8") as file:
            return file.read()

    def report(self, *words, **more):
        return self.call("report", "--out", self.out, *words, **more)

    def recorded(self):
        self.rows("all-reduce-shared.json",
                  [all_reduce(2, 1000, 2.0), all_reduce(2, 1000000, 250.0)])
        self.rows("sync-batch-norm.json",
                  [norm(k, f, us) for k, us in (("fused", 10.0), ("gathered", 25.0))
                   for f in (128, 256)])

    def a_run(self, name, losses):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            for step, loss in enumerate(losses):
                print(json.dumps({"event": "step", "step": step + 1, "loss": loss,
                                  "seconds": 0.5, "tokens_per_second": 100}), file=file)
        return path

    def test_recorded_rows(self):
        """Nothing is measured; figures are those of the rows."""
        self.recorded()
        run = self.a_run("run.jsonl", [3.0, 2.0])
        peers = os.path.join(self.folder, "peers.json")
        with open(peers, "w", encoding="utf-8") as file:
            json.dump({"recorded": "some day", "rows": [
                {"what": "all-reduce", "peer": "Other <1>", "ranks": 2, "bytes": 1000,
                 "time_ms": 0.5}]}, file)
        done = self.report("--peers", peers, run)
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in ("index.html", "report.md"):
            text = self.read(name)
            self.assertIn("All-reduce on one machine", text)
            self.assertIn("Runs compared", text)
            self.assertIn("2.50 times as fast", text)  # 25 against 10 us
            self.assertIn("use the same memory in all 2 pairs of rows", text)
            self.assertIn("recorded some day", text)
            self.assertNotIn("Ring and butterfly", text)  # no rows of it
        page = self.read("index.html")
        tags = Tags()
        tags.feed(page)
        self.assertEqual(tags.open, [])
        self.assertEqual(len(tags.ids), len(set(tags.ids)))
        self.assertTrue(all(link.startswith("#") for link in tags.links), tags.links)
        self.assertIn("&lt;flat&gt;", page)
        self.assertIn("Other &lt;1&gt;", page)
        markdown = self.read("report.md")
        self.assertIn("| 2 | 1000000 | shared | &lt;flat> | 0.2500 |", markdown)
        self.assertIn("| run.jsonl | 2 | 2.0000 | 0.5000 | 100 |", markdown)
        for name in re.findall(r"\]\((plots/[^)]*)\)", markdown):
            self.assertIn("</svg>", self.read(name))
        if shutil.which("gnuplot"):
            self.assertIn("(plots/all-reduce.svg)", markdown)
            self.assertIn("prefers-color-scheme", page)
        else:
            self.assertIn("gnuplot", markdown)

    def epochs(self, name, losses, ranks):
        """Metrics of a run of images: rank r has r more of all that there is."""
        def numbers(loss, more):
            return {"train_loss": loss + more, "val_loss": loss + 1 + more,
                    "val_accuracy": (1 + more) / 8, "train_seconds": 2 + more,
                    "images_per_second": 50 - more,
                    "peak_bytes": (10 + more) * 10**6}
        path = os.path.join(self.out, "rows", name)
        with open(path, "w", encoding="utf-8") as file:
            for epoch, loss in enumerate(losses, 1):
                line = {"event": "epoch", "epoch": epoch, **numbers(loss, 0)}
                if ranks > 0:
                    line["ranks"] = [{"rank": r, **numbers(loss, r)}
                                     for r in range(ranks)]
                print(json.dumps(line), file=file)

    def test_a_row_for_each_rank(self):
        self.epochs("pipeline-custom.jsonl", [4.0, 3.0], 2)
        self.epochs("pipeline-standard.jsonl", [4.0, 3.5], 0)  # of before there were
        self.assertEqual(self.report("--only", "setup").returncode, 0)
        text = self.read("report.md")
        table = [line for line in text.split("\n")
                 if line.startswith(("| Run | Rank", "| fused", "| gathered"))]
        self.assertEqual(table, [
            "| Run | Rank | Epochs | Training loss | Validation loss | Validation accuracy "
            "| Mean peak (MB) | Mean epoch (s) | Images/s |",
            "| fused, flat | 0 | 2 | 3.0000 | 4.0000 | 0.1250 | 10.0 | 2.000 | 50 |",
            "| fused, flat | 1 | 2 | 4.0000 | 5.0000 | 0.2500 | 11.0 | 3.000 | 49 |",
            "| fused, flat | all | 2 | 3.0000 | 4.0000 | 0.1250 | 10.0 | 2.000 | 50 |",
            "| gathered, bucketed | all | 2 | 3.5000 | 4.5000 | 0.1250 | 10.0 | 2.000 | 50 |"])

    def block_by_hand(self, traces):
        """The last attention of rank 0 in the merged timeline: (name, begin, end)."""
        merged = os.path.join(self.folder, "merged.json")
        done = self.call("trace", "merge", traces, "--out", merged)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(merged, encoding="utf-8") as file:
            events = [(e["ts"], e["ts"] + e["dur"], e["cat"], e["name"])
                      for e in json.load(file)["traceEvents"]
                      if e["ph"] == "X" and e["pid"] == 0]
        begin, end = max(e[:2] for e in events if e[2:] == ("range", "attention"))
        inside = [e for e in events if e[2] == "operation" and
                  begin <= e[0] and e[1] <= end]
        outer = [e for e in inside if not any(
            o is not e and o[0] <= e[0] and e[1] <= o[1] for o in inside)]
        return begin, end, sorted(outer)

    def test_an_attention_block(self):
        traces = os.path.join(self.out, "traces", "lm")
        done = self.call("bench", "lm", "--size", "tiny", "--context", "16",
                         "--batch-size", "1", "-w", "0", "--iterations", "2", "--threads",
                         "1", "--trace", traces, "--json=" +
                         os.path.join(self.out, "rows", "traced-lm.json"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.report("--only", "setup").returncode, 0)
        text = self.read("report.md")
        self.assertIn("### One attention block", text)
        self.assertIn("the forward pass of attention in block 3 runs", text)
        begin, end, expected = self.block_by_hand(traces)
        names = ["rms_norm", "linear", "rope", "linear", "rope", "linear", "attention",
                 "linear", "add"]
        self.assertEqual([e[3] for e in expected], names)
        shown = [[cell.strip() for cell in line.strip("|").split("|")]
                 for line in text.split("\n")
                 if re.match(r"\| (\d+ [a-z]|\(between op)", line)]
        self.assertEqual([row[0].replace("\\", "") for row in shown],
                         [f"{i + 1} {name}" for i, name in enumerate(names)] +
                         ["(between operations)"])
        for row, (first, last, _, _) in zip(shown, expected):
            self.assertAlmostEqual(float(row[1]), (first - begin) * 1e-3, delta=6e-4)
            self.assertAlmostEqual(float(row[2]), (last - first) * 1e-3, delta=6e-4)
            self.assertAlmostEqual(float(row[3]), 100 * (last - first) / (end - begin),
                                   delta=0.06)
        self.assertAlmostEqual(sum(float(row[3]) for row in shown), 100, delta=0.6)
        if shutil.which("gnuplot"):
            picture = self.read("plots/attention-block.svg")
            for word in ("9 add", "time since the block began (ms)", "rms_norm"):
                self.assertIn(word, picture)
            self.assertIn("prefers-color-scheme", picture)

    def test_what_profile_has_said(self):
        """An answer that says no more than the one before it is left out."""
        alone = "The run has only one rank, so it does not communicate."
        for slowest, times in (("The run has only one rank.", 1),
                               ("Rank 1 was the slowest.", 2)):
            self.rows("profile.json", [{"kernel": "scale", "calls": 1}],
                      answers={"overlap": alone, "slowest": slowest,
                               "attention": "", "rest": "No other."})
            self.assertEqual(self.report("--only", "setup").returncode, 0)
            items = [line for line in self.read("report.md").split("\n")
                     if line.startswith(("- The run", "- Rank", "- No", "- \n"))]
            self.assertEqual(items, [f"- {alone}", f"- {slowest}"][:times] +
                             ["- No other."])

    def test_memory_that_differs(self):
        """Of what is compared each way has its own; a row without it says nothing."""
        ours = [norm("fused", f, 10.0) for f in (128, 256, 512)]
        usual = [norm("gathered", f, 20.0, peak) for f, peak in
                 ((128, 300), (256, 600), (512, 900))]
        del usual[2]["saved_bytes"]
        self.rows("sync-batch-norm.json", ours + usual)
        self.assertEqual(self.report("--only", "setup").returncode, 0)
        text = self.read("report.md")
        self.assertIn("use the same memory in 1 of 2 pairs of rows", text)
        self.assertIn("gathered uses 1.500 times the memory of fused", text)
        self.assertIn("| gathered | 256 | 64 | 2 | 0.0200 | 0.0200 | 0.0400 | 100 | 600 |",
                      text)

    def test_without_gnuplot(self):
        self.recorded()
        run = self.a_run("run.jsonl", [3.0])
        done = self.report(run, env=environment(PATH="/nonexistent"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("gnuplot is not installed", done.stderr)
        self.assertNotIn("<svg", self.read("index.html"))
        self.assertIn("All-reduce", self.read("report.md"))

    def test_measures_once(self):
        """Measured parts are measured again only with a flag."""
        words = ("--quick", "--only", "communication-accounting,mixed-precision")
        done = self.report(*words)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("2 of ", done.stderr)
        text = self.read("report.md")
        self.assertIn("219848638464 parameters", text)
        self.assertIn("9.9531", text)
        self.assertIn("lockstep plan --preset communication-accounting", text)
        self.assertEqual(os.listdir(os.path.join(self.out, "traces")), [])
        again = self.report(*words)
        self.assertNotIn("measurements takes", again.stderr)
        again = self.report(*words, "--again", "mixed-precision")
        self.assertIn("1 of ", again.stderr)
        self.assertIn("lockstep demo mixed-precision", again.stderr)

    def test_interrupted(self):
        """Ctrl-C writes what is there; the same command goes on."""
        words = ("report", "--out", self.out, "--quick", "--only",
                 "communication-accounting,ring,sharding-accounting")
        measured = os.path.join(self.out, "rows", "measured.json")

        def begun():
            try:
                with open(measured, encoding="utf-8") as file:
                    return "ring" in json.load(file)
            except FileNotFoundError:
                return False
        with subprocess.Popen([LOCKSTEP, *words], env=environment(),
                              stderr=subprocess.PIPE, text=True) as process:
            self.assertTrue(wait_until(begun))
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=50)
        with open(measured, encoding="utf-8") as file:
            state = {name: about["status"] for name, about in json.load(file).items()}
        if process.returncode == 0:
            self.skipTest("everything was measured before the signal came")
        self.assertEqual(process.returncode, 128 + signal.SIGINT, errors)
        self.assertEqual(state["ring"], "interrupted")
        self.assertIn("interrupted", self.read("report.md"))
        done = self.call(*words)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("bench ring", done.stderr)
        with open(measured, encoding="utf-8") as file:
            self.assertEqual({about["status"] for about in json.load(file).values()},
                             {"ok"})
        self.assertIn("219848638464", self.read("report.md"))

    def refused(self, part, *words):
        done = self.report(*words)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(part, done.stderr)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        self.assertFalse(os.path.exists(os.path.join(self.out, "index.html")))

    def test_foreign_rows(self):
        path = os.path.join(self.out, "rows", "ring.json")
        for text, part in (("{\"rows\": [", "ring.json' is not JSON"),
                           ("{\"rows\": []}", "ring.json' is JSON, but not the output"),
                           ("[]", "ring.json' is JSON, but not the output")):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            self.refused(part, "--quick", "--only", "info")
            self.refused("--again ring", "--quick", "--only", "info")
        os.remove(path)
        with open(os.path.join(self.out, "rows", "train-lm.jsonl"), "w",
                  encoding="utf-8") as file:
            file.write("{}\nstep 1\n")
        self.refused("line 2", "--quick", "--only", "info")

    def test_other_mistakes(self):
        self.refused("'rng'", "--quick", "--only", "rng")
        self.refused("no-such", os.path.join(self.folder, "no-such.jsonl"))
        self.refused("no-such", "--quick", "--peers", os.path.join(self.folder, "no-such"))
        self.refused("no-such", "--quick", "--data", os.path.join(self.folder, "no-such"))
        empty = os.path.join(self.folder, "empty.jsonl")
        with open(empty, "w", encoding="utf-8"):
            pass
        self.refused("empty.jsonl", empty)
        with open(empty, "w", encoding="utf-8") as file:
            file.write("{}")
        self.refused("rows", "--quick", "--peers", empty)
        file = os.path.join(self.folder, "empty.jsonl", "x")
        done = self.call("report", "--quick", "--out", file)
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot create the folder", done.stderr)
        for name in ("index.html", "report.md"):
            path = os.path.join(self.out, name)
            with open(path, "w", encoding="utf-8") as page:
                page.write("# Somebody's notes\n")
            done = self.report("--quick", "--only", "info")
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"will not overwrite '{name}'", done.stderr)
            self.assertIn("Somebody", self.read(name))
            os.remove(path)
        os.mkdir(os.path.join(self.out, "index.html"))
        done = self.report("--quick")
        self.assertEqual(done.returncode, 1)
        self.assertIn("index.html': it is a folder", done.stderr)
        self.assertEqual(self.call("report", "--quick", "--full").returncode, 2)


if __name__ == "__main__":
    unittest.main()
