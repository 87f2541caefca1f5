"""lockstep topo: drawings and places of machines that hwloc makes up."""

import json
import os
import tempfile
import unittest

from program import ProgramTest, environment
from test_run import shell

LARGE = "pack:2 numa:4 l3:2(size=33554432) l2:8(size=524288) core:1 pu:2"

LARGE_NODE = """\
{0}  {1}- node {2}, 1 GiB: 16 cores, CPUs {3}
{0}  {4}  `- 2 x L3 of 32 MiB, each with
{0}  {4}     `- 8 cores of 2 CPUs, L2 of 512 KiB
"""

# Two fast cores of two threads, two slow ones, one CPU that is not allowed,
# and a node of memory alone.
HYBRID = """\
<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
 <object type="Machine" os_index="0" cpuset="0x3f" complete_cpuset="0x3f"
  allowed_cpuset="0x1f" nodeset="0x3" complete_nodeset="0x3"
  allowed_nodeset="0x3" gp_index="1">
  <object type="NUMANode" os_index="0" cpuset="0x3f" complete_cpuset="0x3f"
   nodeset="0x1" complete_nodeset="0x1" gp_index="2" local_memory="1073741824"/>
  <object type="NUMANode" os_index="1" cpuset="0x0" complete_cpuset="0x0"
   nodeset="0x2" complete_nodeset="0x2" gp_index="3" local_memory="2147483648"/>
{cores}
 </object>
 <cpukind cpuset="0x30" forced_efficiency="0"/>
 <cpukind cpuset="0x0f" forced_efficiency="1"/>
</topology>
"""


def core(index, cpus):
    mask = hex(sum(1 << cpu for cpu in cpus))
    common = 'nodeset="0x1" complete_nodeset="0x1"'
    inner = "".join(
        f'<object type="PU" os_index="{cpu}" cpuset="{hex(1 << cpu)}" '
        f'complete_cpuset="{hex(1 << cpu)}" {common} gp_index="{20 + cpu}"/>'
        for cpu in cpus)
    return (f'<object type="Core" os_index="{index}" cpuset="{mask}" '
            f'complete_cpuset="{mask}" {common} gp_index="{10 + index}">'
            f'{inner}</object>')


def described(synthetic):
    return environment(HWLOC_SYNTHETIC=synthetic, LC_ALL="C")


def reads_descriptions():
    """Whether this build has hwloc."""
    class Probe(ProgramTest):
        def runTest(self):
            pass
    out = Probe().succeeds("topo", "--json", env=described("core:3 pu:1"))
    return json.loads(out)["topology"]["described"]


class Machines(ProgramTest):
    def setUp(self):
        if not reads_descriptions():
            self.skipTest("this build has no hwloc")

    def places(self, synthetic, n, mode, *flags):
        out = self.succeeds("topo", "-n", str(n), f"--bind={mode}", "--json",
                            *flags, env=described(synthetic))
        return json.loads(out)

    def test_a_large_machine(self):
        out = self.succeeds("topo", env=described(LARGE))
        nodes = [LARGE_NODE.format("|" if k < 4 else " ",
                                   "`" if k % 4 == 3 else "|", k,
                                   f"{32 * k}-{32 * k + 31}",
                                   " " if k % 4 == 3 else "|")
                 for k in range(8)]
        want = ("described machine: 2 packages, 128 cores, 256 CPUs (256 "
                "allowed); 8 GiB in 8 NUMA nodes\n"
                "|- package 0: 64 cores, 128 CPUs\n" + "".join(nodes[:4]) +
                "`- package 1: 64 cores, 128 CPUs\n" + "".join(nodes[4:]))
        self.assertEqual(out, want)

    def test_it_stays_narrow(self):
        holes = ",".join(str(cpu) for cpu in range(0, 256, 3))
        for flags, locale in (((), "C.UTF-8"),
                              (("-n", "128", "--bind=core"), "C"),
                              (("-n", "40"), "C.UTF-8"),
                              (("-n", "7", "--bind=numa"), "C"),
                              (("-n", "300"), "C.UTF-8")):
            env = environment(HWLOC_SYNTHETIC=LARGE, LC_ALL=locale)
            out = self.succeeds("topo", *flags, "--cpus", holes, env=env)
            lines = out.splitlines()
            self.assertLessEqual(max(map(len, lines)), 100)
            self.assertLess(len(lines), 200)
            self.assertEqual(out.isascii(), locale == "C")
        self.assertTrue(self.succeeds("topo", "--ascii", env=env).isascii())

    def test_many_ranks_are_few_lines(self):
        out = self.succeeds("topo", "-n", "128", "--bind=core",
                            env=described(LARGE))
        self.assertIn("128 ranks x 2 threads on 256 CPUs (0-255), "
                      "bound by core\n", out)
        self.assertIn("| 0-15    | 0    | 1 core, 2 CPUs | 0-15    | 0-31    |",
                      out)
        self.assertEqual(out.count("| 1 core, 2 CPUs |"), 8)

    def test_threads_follow_from_places(self):
        for n, mode, cpus, threads in (
                (4, "core", "0-63", 16), (3, "core", "0-63", 21),
                (5, "core", "0-63", 8), (2, "numa", "0-63", 32),
                (8, "numa", "0-63", 8), (2, "core", "0-19", 8),
                (2, "cpu", "0-19", 10), (2, "none", "0-19", 10)):
            got = self.places("numa:4 core:16 pu:1", n, mode, "--cpus", cpus)
            self.assertEqual({rank["threads"] for rank in got["ranks"]},
                             {threads}, (n, mode, cpus))

    def test_json(self):
        got = self.places("pack:2 numa:1 core:8 pu:2", 3, "core", "--threads",
                          "5")
        self.assertEqual(got["ranks"], [
            {"rank": 0, "cpus": "0-7", "cores": "0-3", "nodes": "0",
             "threads": 5},
            {"rank": 1, "cpus": "8-15", "cores": "4-7", "nodes": "0",
             "threads": 5},
            {"rank": 2, "cpus": "16-31", "cores": "8-15", "nodes": "1",
             "threads": 5}])
        self.assertEqual(got["bind"], "core")
        self.assertIsNone(got["run"])
        self.assertIsNone(got["quota_cpus"])
        topology = got["topology"]
        self.assertEqual([cpu["cpu"] for cpu in topology["cpus"]],
                         list(range(32)))
        self.assertEqual([cpu["core"] for cpu in topology["cpus"]],
                         [k // 2 for k in range(32)])
        self.assertEqual([cpu["package"] for cpu in topology["cpus"]],
                         [k // 16 for k in range(32)])
        self.assertEqual([node["node"] for node in topology["nodes"]], [0, 1])

    def test_hybrid_cores_and_memory_alone(self):
        cores = "\n".join((core(0, (0, 1)), core(1, (2, 3)), core(2, (4,)),
                           core(3, (5,))))
        with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
            file.write(HYBRID.format(cores=cores))
            file.flush()
            env = environment(HWLOC_XMLFILE=file.name, LC_ALL="C")
            out = self.succeeds("topo", "-n", "2", "--bind=core", env=env)
        self.assertEqual(out, """\
described machine: 1 package, 4 cores, 6 CPUs (5 allowed); 3 GiB in 2 NUMA nodes; cores of a higher
  kind are faster
|- package 0: 4 cores, 6 CPUs
|  `- node 0, 1 GiB: 4 cores, CPUs 0-5; not allowed: 5; ranks 0-1
|     |- 2 cores (kind 1) of 2 CPUs
|     `- 2 cores (kind 0) of 1 CPU
`- node 1, 2 GiB, without CPUs

2 ranks x 2 threads on 5 CPUs (0-4), bound by core

| Ranks | Node | Each has        | Cores | CPUs  |
| ----- | ---- | --------------- | ----- | ----- |
| 0     | 0    | 2 cores, 3 CPUs | 0,2   | 0-1,4 |
| 1     | 0    | 1 core, 2 CPUs  | 1     | 2-3   |
""")


class Here(ProgramTest):
    def test_what_is_planned_is_what_happens(self):
        script = ("set -- $(grep Cpus_allowed_list: /proc/self/status);"
                  " echo $OMP_NUM_THREADS $2")
        cpus = sorted(os.sched_getaffinity(0))
        for outer in (cpus[:1], cpus):
            before = ("taskset", "-c", ",".join(map(str, outer)))
            for mode in ("cpu", "core", "numa", "none"):
                flags = ("-n", "3", f"--bind={mode}")
                plan = json.loads(self.succeeds("topo", *flags, "--json",
                                                before=before))["ranks"]
                want = [f"[{k}] {rank['threads']} {rank['cpus']}"
                        for k, rank in enumerate(plan)]
                out = self.succeeds("run", *flags, "--tag-output",
                                    *shell(script), before=before)
                self.assertEqual(sorted(out.splitlines()), want)

    def test_a_job_that_runs(self):
        name = f"topo-{os.getpid()}"
        process = self.start("run", "-n", "2", "--rdzv-id", name, "--bind=core",
                             *shell("echo $$; exec sleep 300"))
        pids = {int(process.stdout.readline()) for _ in range(2)}
        got = json.loads(self.succeeds("topo", "--json", name))
        self.assertEqual(got["run"], name)
        self.assertIsNone(got["bind"])
        self.assertEqual([rank["rank"] for rank in got["ranks"]], [0, 1])
        self.assertEqual({rank["pid"] for rank in got["ranks"]}, pids)
        for rank in got["ranks"]:
            self.assertEqual(numbers(rank["cpus"]),
                             sorted(os.sched_getaffinity(rank["pid"])))
            self.assertEqual(rank["threads"], 1)
        for pid in process.pid, *pids:
            self.assertIn(
                f"job {name}: 2 of 2 ranks are running, launcher process "
                f"{process.pid}\n",
                self.succeeds("topo", str(pid)))

    def test_mistakes(self):
        self.fails(1, "equals 'nonesuch' or begins with it", "topo", "nonesuch")
        self.fails(2, "one JOB", "topo", "a", "b")
        self.fails(2, "give one", "topo", "-n", "2", "job")
        self.fails(1, "--cpus 'x' is not a list", "topo", "--cpus", "x")
        self.fails(1, "is not allowed to run on any of the selected CPUs",
                   "topo", "--cpus",
                   "8191")
        self.fails(2, "out of range", "topo", "-n", "1025")


def numbers(text):
    """0-2,5 as a list."""
    found = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


if __name__ == "__main__":
    unittest.main()
