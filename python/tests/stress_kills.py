"""Kills a rank of DDP training, and looks at what the others say and leave.

    stress_kills.py                    # two jobs of each launcher; what ctest runs
    stress_kills.py --jobs 100         # a hundred of each
    stress_kills.py --by torchrun --seed 7
    stress_kills.py --by fork          # by this process: no time goes by for imports

A job is three or four ranks that train a small model with DDP. One of them kills
itself at a random step, or a rank is killed from outside at a random time. Each
other rank must get an exception that names the dead rank within two seconds.
When the launcher has returned, no process of the job may be left. Nor may any
shared memory or socket of its processes, or a file where it was
started or in its folder of temporary files.
"""

import argparse
import glob
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

import ranks

WITHIN = 2.0  # seconds from the kill to an exception on a survivor
MARK = "LOCKSTEP_TEST_KILLS"  # a variable by which a job's processes are known


def rank_main(folder, victim, step):
    """A rank: trains until it is killed, or notes the exception it gets."""
    import torch
    import torch.distributed as dist
    import lockstep_torch  # noqa: F401  (before 2.15 it has to be imported)

    def note(name, **what):
        path = os.path.join(folder, name)
        with open(path + ".part", "w") as file:
            json.dump({"time": time.time(), **what}, file)
        os.rename(path + ".part", path)

    torch.set_num_threads(1)
    # torchrun ends the others as soon as it looks, perhaps before they can tell.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    rank = int(os.environ.get("RANK", os.environ.get("LOCKSTEP_RANK", "0")))
    if "RANK" in os.environ:
        dist.init_process_group("lockstep")
    else:
        dist.init_process_group(
            "lockstep", init_method=f"file://{folder}/store", rank=rank,
            world_size=int(os.environ["LOCKSTEP_SIZE"]))
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(
        torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.Linear(256, 256),
                            torch.nn.Linear(256, 8)), bucket_cap_mb=0.05)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    note(f"ready.{rank}", pid=os.getpid())
    until(lambda: os.path.exists(os.path.join(folder, "go")), 300, "all being ready")
    try:
        for now in range(1_000_000):
            optimizer.zero_grad()
            loss = model(torch.randn(4, 64)).square().mean()
            if rank == victim and now == step:
                note("killed")
                os.kill(os.getpid(), signal.SIGKILL)
            loss.backward()
            optimizer.step()
    except Exception as error:
        note(f"told.{rank}", text=str(error))
        raise SystemExit(1)


def processes(mark):
    """The processes of the job that are still there.

    A child that was forked has its parent's variables in /proc; so a job that
    was forked is known by its session, whose number `mark` then is.
    """
    found = []
    for path in glob.glob("/proc/[0-9]*"):
        try:
            if isinstance(mark, int):
                with open(path + "/stat") as file:
                    fields = file.read().rpartition(")")[2].split()
                ours = fields[0] != "Z" and int(fields[3]) == mark
            else:
                with open(path + "/environ", "rb") as file:
                    ours = f"{MARK}={mark}".encode() in file.read()
            if ours:
                found.append(int(path[6:]))
        except OSError:
            pass
    return found


def text_of(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:  # it has ended
        return ""


def memory_of(pid):
    """Blocks of shared memory that a process maps, as (device, inode)."""
    return {tuple(line.split(maxsplit=5)[3:5])
            for line in text_of(f"/proc/{pid}/maps").splitlines()
            if "/memfd:" in line or "/dev/shm/" in line}


def sockets_of(pid):
    """The inodes of a process's sockets."""
    found = set()
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            target = os.readlink(f"/proc/{pid}/fd/{name}")
            if target.startswith("socket:["):
                found.add(target[8:-1])
    except OSError:
        pass
    return found


class Made:
    """The resources that processes of a job were seen to hold, and those that are left.

    Other jobs may come and go on the machine meanwhile: what is theirs is not
    looked at.
    """

    def __init__(self):
        self.memory, self.sockets, self.files = set(), set(), set()

    def look(self, mark):
        for pid in processes(mark):
            self.memory |= memory_of(pid)
            self.sockets |= sockets_of(pid)
            self.files |= {line.split(maxsplit=5)[5]
                           for line in text_of(f"/proc/{pid}/maps").splitlines()
                           if "/dev/shm/" in line}

    def left(self):
        found = {path for path in self.files if os.path.exists(path)}
        for path in glob.glob("/proc/[0-9]*"):
            found |= {f"memory {block} in {path}"
                      for block in self.memory & memory_of(path[6:])}
        lines = text_of("/proc/net/unix").splitlines()[1:]
        return found | {line for line in lines if line.split()[6] in self.sockets}


class Forked:
    """A launcher that has imported all there is to import; as Popen."""

    def __init__(self, size, arguments, output, folder):
        self.status = None
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                os.setsid()
                os.chdir(folder)
                os.environ["TMPDIR"] = folder
                os.dup2(output.fileno(), 1)
                os.dup2(output.fileno(), 2)
                status = self.launch(size, arguments)
            finally:
                os._exit(status)

    @staticmethod
    def launch(size, arguments):
        started = []
        for rank in range(size):
            pid = os.fork()
            if pid == 0:
                os.environ.update(LOCKSTEP_RANK=str(rank), LOCKSTEP_SIZE=str(size))
                try:
                    rank_main(*arguments)
                finally:
                    os._exit(1)
            started.append(pid)
        return int(any([os.waitpid(pid, 0)[1] for pid in started]))

    def poll(self):
        if self.status is None and os.waitpid(self.pid, os.WNOHANG)[0]:
            self.status = 1
        return self.status

    def wait(self, seconds=10):
        until(lambda: self.poll() is not None, seconds, "the end of the job")
        return self.status


def launch(launcher, size, arguments, output, folder):
    """The job, as Popen has it, and by what its processes are known."""
    if launcher == "fork":
        forked = Forked(size, arguments, output, folder)
        return forked, forked.pid
    mark = f"{os.getpid()}.{random.getrandbits(60)}"
    return subprocess.Popen(
        command(launcher, size, arguments), stdout=output,
        stderr=subprocess.STDOUT, cwd=folder,
        env={**os.environ, MARK: mark, "OMP_NUM_THREADS": "1",
             "TMPDIR": folder}), mark


def command(launcher, size, arguments):
    own = [os.path.abspath(__file__), "--as-rank", *map(str, arguments)]
    if launcher == "torchrun":
        return [sys.executable, "-m", "torch.distributed.run", "--standalone",
                f"--nproc-per-node={size}", *own]
    return [os.environ["LOCKSTEP"], "run", "-n", str(size), "--", sys.executable, *own]


def read(folder, name):
    try:
        with open(os.path.join(folder, name)) as file:
            return json.load(file)
    except FileNotFoundError:
        return None


class Late(AssertionError):
    """All is as it should be, but for the time that it took."""


def until(ready, seconds, what):
    end = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > end:
            raise AssertionError(f"{what} took more than {seconds} s")
        time.sleep(0.002)


def job(launcher, draw):
    """One job; returns the longest time from the kill to an exception."""
    size = draw.choice((3, 4))
    victim = draw.randrange(size)
    outside = draw.random() < 0.5
    step = 10**9 if outside else draw.randrange(1, 60)
    made = Made()
    with tempfile.TemporaryDirectory() as folder, \
            tempfile.TemporaryDirectory() as own, \
            open(os.path.join(folder, "output"), "w+") as output:
        started, mark = launch(launcher, size, (folder, victim, step), output, own)
        try:
            def ready():
                assert started.poll() is None, "the job ended before the kill"
                return all(read(folder, f"ready.{rank}") for rank in range(size))
            until(ready, 300, "starting the job")
            made.look(mark)
            with open(os.path.join(folder, "go"), "w"):
                pass
            if outside:
                time.sleep(draw.random() * 0.3)
                pid = read(folder, f"ready.{victim}")["pid"]
                killed = time.time()
                os.kill(pid, signal.SIGKILL)
            status = started.wait(60)
            if not outside:
                killed = read(folder, "killed")["time"]
            assert status, "the launcher said that all is well"
            longest = judge(folder, size, victim, killed)
            until(lambda: not processes(mark), 60, "the end of all processes")
            left = made.left() | {name for name in os.listdir(own)
                                  if not name.startswith("torchelastic_")}
            assert not left, f"left behind: {left}"
            assert made.memory, "the job has been seen without shared memory"
            return longest
        except BaseException:
            output.seek(0)
            print(output.read()[-6000:])
            raise
        finally:
            for pid in processes(mark):
                os.kill(pid, signal.SIGKILL)
            started.wait()


def judge(folder, size, victim, killed):
    longest = 0.0
    for rank in set(range(size)) - {victim}:
        told = read(folder, f"told.{rank}")
        assert told, f"rank {rank} got no exception when rank {victim} was killed"
        assert f"rank {victim}" in told["text"], \
            f"rank {rank} was not told that rank {victim} died: {told['text']}"
        longest = max(longest, told["time"] - killed)
    if longest >= WITHIN:
        raise Late(f"the exception came {longest:.2f} s after the kill")
    return longest


def job_in_time(launcher, draw):
    """Three tries: a busy machine may keep a rank from its CPU for long."""
    for tries_left in (2, 1, 0):
        try:
            return job(launcher, draw)
        except Late:
            if tries_left == 0:
                raise


def main():
    if sys.argv[1:2] == ["--as-rank"]:
        folder, victim, step = sys.argv[2:]
        return rank_main(folder, int(victim), int(step))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=2, help="of each launcher")
    parser.add_argument("--by", nargs="+", default=["torchrun", "lockstep", "fork"],
                        choices=["torchrun", "lockstep", "fork"])
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if "lockstep" not in ranks.backends():
        return 77
    for launcher in arguments.by:
        if launcher == "lockstep" and "LOCKSTEP" not in os.environ:
            print("not tested by lockstep run: LOCKSTEP should name the program")
            continue
        draw = random.Random(arguments.seed)
        times = [job_in_time(launcher, draw) for _ in range(arguments.jobs)]
        print(f"{launcher}: {len(times)} jobs, told after "
              f"{sorted(times)[len(times) // 2]:.3f} s in the middle, "
              f"{max(times):.3f} s at most; nothing is left", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
