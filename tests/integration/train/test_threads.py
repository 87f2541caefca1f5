"""With how many threads the library computes in a program that nothing tells a
number, however its ranks are started."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest

from program import environment

PROGRAM = os.environ["TEST_THREAD_COUNT"]
LINE = re.compile(r"rank (\d+): (\d+) of the library, (\d+) of the program")
SLURM = {"SLURM_STEP_ID": 0, "SLURM_JOB_ID": 7, "SLURM_STEP_NUM_NODES": 1}
CGROUP = "/sys/fs/cgroup"


def by_rank(rank, size):
    return {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": rank,
            "LOCAL_WORLD_SIZE": size}


def by_slurm(rank, size):
    return {**SLURM, "SLURM_PROCID": rank, "SLURM_LOCALID": rank,
            "SLURM_STEP_NUM_TASKS": size, "SLURM_STEP_TASKS_PER_NODE": size}


class Threads(unittest.TestCase):
    def counts(self, variables, cpus, words=(), before=(), **more):
        """The output of ranks that may use those CPUs: (library, program)."""
        job = f"{os.getpid()}-{self.id()}"
        started = [subprocess.Popen(
            [*before, PROGRAM, *words], stdout=subprocess.PIPE, text=True,
            stderr=subprocess.PIPE,
            env=environment(TEST_CPUS=allowed, LOCKSTEP_JOB=job, **more,
                            **variables(rank, len(cpus))))
            for rank, allowed in enumerate(cpus)]
        found, self.errors = {}, ""
        for process in started:
            out, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 0, err)
            self.errors += err
            for line in LINE.finditer(out):
                found[int(line[1])] = (int(line[2]), int(line[3]))
        return [found[rank] for rank in range(len(cpus))]

    def setUp(self):
        """The program's own loop, with nothing set and with a number."""
        (_, self.own), = self.counts(lambda rank, size: {}, ["0-7"])

    def library(self, *args, own=None, **more):
        """And the program's own loops are as they were."""
        found = self.counts(*args, **more)
        for _, program in found:
            self.assertEqual(program, own or self.own)
        return [threads for threads, _ in found]

    def test_the_cpus_are_divided(self):
        for variables in (by_rank, by_slurm):
            self.assertEqual(self.library(variables, ["0-7"] * 2), [4, 4])
        self.assertEqual(self.library(by_rank, ["0-7"]), [8])
        self.assertEqual(self.library(by_rank, ["0-1"] * 3), [1, 1, 1])

    def test_cpus_of_a_rank_alone_are_its_own(self):
        self.assertEqual(self.library(by_rank, ["0-2", "3-7"]), [3, 5])
        self.assertEqual(self.library(by_rank, ["0-3", "2-5"]), [3, 3])

    def test_it_is_said(self):
        self.library(by_rank, ["0-7"] * 2, LOCKSTEP_LOG="info")
        said = "info: computing with 4 threads, because several ranks share 8 " \
               "CPUs. To use another number, set OMP_NUM_THREADS"
        self.assertIn("lockstep[0] " + said, self.errors)
        self.assertIn("lockstep[1] " + said, self.errors)
        self.assertEqual(self.errors.count("computing with"), 2, self.errors)

    def test_a_number_that_is_set_stays(self):
        both = ["0-7"] * 2
        self.assertEqual(self.library(by_rank, both, own=3, OMP_NUM_THREADS=3),
                         [3, 3])
        other = self.own + 1
        self.assertEqual(self.library(by_rank, both, words=[str(other)],
                                      own=other), [other, other])

    def test_a_quota_is_divided(self):
        folder, file, text = next(
            ((f"{CGROUP}/{mount}", file, text) for mount, file, text in
             (("", "cpu.max", "400000 100000"),
              ("cpu", "cpu.cfs_quota_us", "400000"))
             if os.path.exists(f"{CGROUP}/{mount}/cgroup.procs") and
             (mount or "cpu" in open(f"{CGROUP}/cgroup.subtree_control",
                                     encoding="ascii").read().split())),
            (None, None, None))
        if folder is None:
            self.skipTest("no control group can limit the CPUs here")
        try:
            made = tempfile.mkdtemp(prefix="lockstep-test-", dir=folder)
            self.addCleanup(os.rmdir, made)
            with open(f"{made}/{file}", "w", encoding="ascii") as quota:
                quota.write(text)
        except OSError as error:
            self.skipTest(f"no control group can be made: {error}")
        enter = f'echo $$ >{made}/cgroup.procs && exec "$@"'
        self.assertEqual(self.library(by_rank, ["0-7"] * 2,
                                      before=("sh", "-c", enter, "sh")), [2, 2])

    def test_nodes_that_are_one_machine(self):
        """As in containers: ranks that do not share memory, but the CPUs."""
        info = subprocess.run([os.environ["LOCKSTEP"], "info"], text=True,
                              capture_output=True, check=True).stdout
        launcher = shutil.which("mpirun.openmpi")
        if launcher is None or not re.search("^mpi .*openmpi", info, re.M):
            self.skipTest("no Open MPI")
        start = [launcher, "--allow-run-as-root", "--oversubscribe",
                 "--bind-to", "none"]
        if subprocess.run([*start, "-n", "1", "true", ":", "-n", "1", "true"],
                          capture_output=True, timeout=60,
                          check=False).returncode < 0:
            self.skipTest("mpirun crashes when it starts two programs")
        parts = []
        for host, allowed in (("a", "0-7"), ("b", "4-11")):
            parts += [":"] if parts else []
            parts += ["-n", "1", "-x", f"LOCKSTEP_HOSTID={host}", "-x",
                      f"TEST_CPUS={allowed}", "-x", "LOCKSTEP_TRANSPORT=mpi",
                      PROGRAM]
        done = subprocess.run(
            [*start, *parts], capture_output=True, text=True, timeout=60,
            env=environment(LOCKSTEP_MODULES=os.environ["TEST_MODULES"]),
            check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([line[2] for line in LINE.finditer(done.stdout)],
                         ["6", "6"], done.stdout)

    def test_ranks_of_mpirun(self):
        for mpi, flags, set_ in (
                ("openmpi", ["--oversubscribe", "--allow-run-as-root",
                             "--bind-to", "none"], "-x"),
                ("mpich", [], "-env")):
            launcher = shutil.which("mpirun." + mpi)
            if launcher is None:
                continue
            change = ["TEST_CPUS=0-7"] if set_ == "-x" else ["TEST_CPUS", "0-7"]
            done = subprocess.run(
                [launcher, *flags, "-n", "2", set_, *change, PROGRAM],
                env=environment(), capture_output=True, text=True, timeout=60,
                check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual([line[2] for line in LINE.finditer(done.stdout)],
                             ["4", "4"], done.stdout)


if __name__ == "__main__":
    unittest.main()
