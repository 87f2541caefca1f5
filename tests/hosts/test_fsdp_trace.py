"""Weights divided over nodes, in traces: each layer's gathers, releases and answers."""

import json
import os
import subprocess
import tempfile
import unittest

import hosts

LOCKSTEP = os.environ["LOCKSTEP"]
STEPS = 4
LM = ("--size", "tiny", "--batch-size", "2", "--context", "64", "--strategy", "fsdp",
      "--bucket-mb", "0.5")


def of_kind(events, kind, rank, ph):
    return [e["args"] for e in events
            if (e.get("cat"), e["pid"], e["ph"]) == (kind, rank, ph)]


class Trace(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory(prefix="lockstep-") as folder:
            traces = os.path.join(folder, "traces")
            with hosts.Hosts(2, rate="1gbit", keep=[folder]) as two:
                ran = subprocess.run(
                    two.mpirun("ucx", (1, 1), LOCKSTEP, "train", "lm", *LM, "--steps",
                               str(STEPS), "--no-save", "--trace", traces),
                    text=True, timeout=100, check=False,
                    env=two.environment(OMP_NUM_THREADS=1, LOCKSTEP_TIMEOUT=20),
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            assert ran.returncode == 0, ran.stdout
            merged = os.path.join(folder, "all.json")
            cls.read(folder, "trace", "merge", traces, "--out", merged)
            with open(merged, encoding="utf-8") as file:
                cls.events = json.load(file)["traceEvents"]

    @staticmethod
    def read(folder, *words):
        done = subprocess.run([LOCKSTEP, *words], text=True, cwd=folder, timeout=60,
                              check=False, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def test_a_node_releases_what_it_has_gathered(self):
        layers = set()
        for rank in range(2):
            gathers = of_kind(self.events, "gather", rank, "b")
            releases = of_kind(self.events, "release", rank, "X")
            self.assertEqual(sum(g["bytes"] for g in gathers),
                             sum(r["bytes"] for r in releases))
            self.assertEqual({g["node"] for g in gathers}, {rank})
            layers |= {g["layer"] for g in gathers}
            answers = of_kind(self.events, "answer", 1 - rank, "b")
            self.assertEqual(sum(g["bytes"] for g in gathers),
                             sum(a["bytes"] for a in answers))
            self.assertEqual({a["node"] for a in answers}, {rank})
        self.assertEqual(layers, {"token_embeddings", *(f"layers.{i}" for i in range(4)),
                                  "ln_final", "lm_head"})


if __name__ == "__main__":
    hosts.skip_if(hosts.missing() or hosts.missing_module("ucx") or
                  hosts.missing_shaping("1gbit", None))
    unittest.main()
