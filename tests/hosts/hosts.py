#!/usr/bin/env python3
"""Hosts on one machine: namespaces joined by a bridge.

Each host has a separate network, processes, name, /dev/shm and /tmp; other files
are shared by all hosts, as on a cluster's file system. Nothing is named in
the system: all of it lives in processes that die with this one, and the kernel
clears up after them.

    hosts.py --ranks 2,2 --rate 1gbit --mpi openmpi -- PROGRAM ARGS

starts that many ranks on each host through MPI's remote agent (of --mpi ucx
through start.py, without MPI), on a link of that rate. At the end it prints how
many bytes each host has sent and received.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
AGENT = os.path.join(HERE, "agent")
START = os.path.join(HERE, "start.py")
ROOT = os.path.dirname(os.path.dirname(HERE))
SKIPPED = 77
HEAD = "head"  # where the launcher runs, as on a cluster's login node

# A host's first process. /tmp is new, but what lies in $KEEP stays.
FIRST = r"""
set -e
echo "$NAME" >/proc/sys/kernel/hostname
ip link set lo up
if [ ! -e /etc/hosts ]; then # a bare system; the next /dev/shm hides this one
    mount -t tmpfs etc /dev/shm
    mkdir /dev/shm/upper /dev/shm/work
    mount -t overlay -o lowerdir=/etc,upperdir=/dev/shm/upper,workdir=/dev/shm/work \
        etc /etc
    touch /etc/hosts
fi
mount -t tmpfs shm /dev/shm
echo "$ADDRESSES" >/dev/shm/hosts
mount --bind /dev/shm/hosts /etc/hosts
rm /dev/shm/hosts
if [ "$NAME" != head ]; then
    mkdir /dev/shm/old
    mount --rbind /tmp /dev/shm/old
    mount -t tmpfs tmp /tmp
    for path in $KEEP; do
        mkdir -p "/tmp/$path"
        mount --rbind "/dev/shm/old/$path" "/tmp/$path"
    done
    umount -l /dev/shm/old
    rmdir /dev/shm/old
fi
[ "$NAME" != head ] || { echo ready; exec sleep infinity; }
sleep infinity &
echo ready
wait
"""


def under_tmp(paths):
    """Those of the paths that a new /tmp would hide, relative to it."""
    return sorted({os.path.relpath(p, "/tmp") for p in paths
                   if p.startswith("/tmp/")})


def missing():
    """Why there can be no hosts here, or nothing."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for tool in ("ip", "tc", "nsenter", "unshare", "setpriv"):
        if shutil.which(tool) is None:
            return f"{tool} is not installed (it is in iproute2 or util-linux)"
    tried = subprocess.run(
        ["unshare", "-n", "-m", "-u", "-i", "-p", "-f", "sh", "-c",
         "ip link add v0 type veth peer name v1"
         " && ip link add b0 type bridge"
         " && mount -t tmpfs t0 /tmp"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        check=False)
    if tried.returncode != 0:
        return f"no namespaces, veth or bridge: {tried.stdout.strip()}"
    return None


def missing_shaping(rate, delay):
    """The part that this machine lacks for such a link, or None."""
    if rate:
        tried = subprocess.run(
            ["unshare", "-n", "tc", "qdisc", "add", "dev", "lo", "root", "tbf",
             "rate", rate, "burst", "64k", "limit", "1m"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            check=False)
        if tried.returncode != 0:
            return f"the kernel has no tbf (tc: {tried.stdout.strip()})"
    if delay and not os.path.exists("/dev/net/tun"):
        return "/dev/net/tun does not exist"
    if delay and shutil.which("cc") is None:
        return "cc is not installed; it compiles cable.c"
    return None


def tree(program):
    """The build tree, or the prefix, of a program in its bin/."""
    return os.path.dirname(os.path.dirname(os.path.abspath(program)))


def store():
    """The program that serves a store, built from store.c."""
    return os.path.join(tree(os.environ["LOCKSTEP"]), "tests", "hosts",
                        "test_hosts_store")


def missing_mpi(mpi):
    """The missing program of "openmpi" or "mpich", or of start.py, or None."""
    if mpi == "ucx":
        return None if os.access(store(), os.X_OK) else f"no {store()}"
    for tool in ("mpirun", "mpicc"):
        if shutil.which(f"{tool}.{mpi}") is None:
            return f"{tool}.{mpi} is not installed"
    return None


def missing_module(mpi):
    """The same, and whether $LOCKSTEP has no module for it, or for UCX."""
    info = subprocess.run([os.environ["LOCKSTEP"], "info"], check=True,
                          stdout=subprocess.PIPE, text=True).stdout
    found = [line for line in info.splitlines()
             if line.startswith("ucx" if mpi == "ucx" else "mpi")]
    if not any(mpi in line or mpi == "ucx" and "none" not in line
               for line in found):
        return f"lockstep was built without a module for {mpi}"
    return missing_mpi(mpi)


def left(mark):
    """The processes in whose environment the mark is."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                if mark.encode() in file.read():
                    found.append(int(entry))
        except OSError:
            pass
    return found


class Hosts:
    """with Hosts(2, rate="1gbit") as hosts: ...  The hosts are h0, h1, ...

    A rate is as tc has it; a delay is in seconds, from host to host, a loss the
    share of frames that do not arrive. These are done by cable.c, because not
    every kernel has netem. The hosts share the sources, the tree of $LOCKSTEP
    and the working folder. `keep` names other folders under /tmp to share.
    """

    def __init__(self, count, rate=None, delay=None, keep=(), loss=0):
        self.names = [f"h{i}" for i in range(count)]
        self.rate, self.delay, self.loss = rate, delay, loss
        shared = [ROOT, os.getcwd(), *keep]
        if "LOCKSTEP" in os.environ:
            shared.append(tree(os.environ["LOCKSTEP"]))
        self.keep = under_tmp(shared)
        self.holders = {}
        self.pids = {}  # of each host's first process
        self.own = set()  # what runs on the hosts to keep them

    def was_there(self, path):
        """Whether a path on a host leads to a kept folder, or into one."""
        return any(os.path.commonpath([path, kept]) in (path, kept)
                   for kept in (os.path.join("/tmp", k) for k in self.keep))

    def __enter__(self):
        # With a real-time priority ranks that poll would let nobody else run.
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        try:
            self._hold("switch", ["-n"], "echo ready; exec sleep infinity")
            for name in [HEAD, *self.names]:
                more = [] if name == HEAD else [
                    "-i", "-p", "--fork", "--kill-child", "--mount-proc"]
                self._hold(name, ["-n", "-m", "-u", *more], FIRST)
            self._connect()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *what):
        self.close()

    def close(self):
        for holder in self.holders.values():
            holder.kill()
        for holder in self.holders.values():
            holder.wait()
            holder.stdout.close()
        self.holders = {}

    # Making them

    def address(self, name):
        return f"10.77.0.{254 if name == HEAD else int(name[1:]) + 1}"

    def _hold(self, name, namespaces, script):
        """A process that keeps the namespaces."""
        addresses = "\n".join(["127.0.0.1 localhost"] + [
            f"{self.address(n)} {n}" for n in [HEAD, *self.names]])
        pid = self._start(
            name, ["unshare", *namespaces, "sh", "-c", script],
            {"NAME": name, "ADDRESSES": addresses, "KEEP": " ".join(self.keep)})
        if "--fork" in namespaces:
            pid, = children(pid)
            self.own |= {pid, *children(pid)}
        self.pids[name] = pid

    def _start(self, name, words, more=None):
        holder = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *words],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            env={**os.environ, **(more or {})})
        self.holders[name] = holder
        if holder.stdout.readline() != b"ready\n":
            raise RuntimeError(f"{name} did not come up")
        return holder.pid

    def _connect(self):
        self._ip("switch", "link add br0 type bridge", "link set br0 up")
        if self.delay:
            self._lay_cables()
        for name in [HEAD, *self.names]:
            port = f"to-{name}"
            if name == HEAD or not self.delay:
                self._ip("switch",
                         f"link add {port} type veth peer name eth0"
                         f" netns {self.pids[name]}")
            self._ip("switch", f"link set {port} master br0 up")
            self._ip(name, f"addr add {self.address(name)}/24 dev eth0",
                     "link set eth0 up")
            if name != HEAD and self.rate:
                self._shape(name, "eth0")
                self._shape("switch", port)

    def _lay_cables(self):
        """Each is half of the way from host to host."""
        with tempfile.TemporaryDirectory(prefix="lockstep-hosts-") as folder:
            program = os.path.join(folder, "cable")
            subprocess.run(["cc", "-O2", "-D_GNU_SOURCE", "-o", program,
                            os.path.join(HERE, "cable.c")], check=True)
            # A frame passes two of them.
            self._start("cables", [program, str(round(self.delay / 2 * 1e6)),
                                   str(round(self.loss / 2 * 1e6)),
                                   *(str(self.pids[name]) for name in
                                     ["switch", *self.names])])

    def _shape(self, where, device):
        self._in(where, "tc", "qdisc", "add", "dev", device, "root", "tbf",
                 "rate", self.rate, "burst", "128k", "limit", "1m")

    def _ip(self, where, *lines):
        self._in(where, "ip", "-batch", "-", text="\n".join(lines) + "\n")

    def _in(self, where, *words, text=None):
        subprocess.run(["nsenter", "-t", str(self.pids[where]), "-n", *words],
                       input=text, text=True, check=True)

    # Using them

    def words(self, name, *words):
        """The command line that runs a program on a host or the head."""
        spaces = ["-n", "-m", "-u"] + ([] if name == HEAD else ["-i", "-p"])
        return ["setpriv", "--pdeathsig", "KILL", "nsenter", "-t",
                str(self.pids[name]), *spaces, "--", *words]

    def environment(self, **changes):
        """For mpirun: its agent finds the hosts by it."""
        table = " ".join(f"{name}={self.pids[name]}" for name in self.names)
        return {**os.environ, "LOCKSTEP_HOSTS": table,
                **{k: str(v) for k, v in changes.items()}}

    def mpirun(self, mpi, ranks, *program, options=()):
        """The command line that starts ranks[i] ranks on host i."""
        if mpi == "ucx":
            return self.words(HEAD, sys.executable, START, store(),
                              ",".join(map(str, ranks)), *program)
        places = ",".join(f"{name}:{n}" for name, n in zip(self.names, ranks))
        agent = {
            "openmpi": ["--allow-run-as-root", "--mca", "plm_rsh_agent",
                        AGENT, "--mca", "plm_rsh_no_tree_spawn", "1",
                        "--host", places],
            "mpich": ["-launcher", "ssh", "-launcher-exec", AGENT, "-hosts",
                      places],
        }[mpi]
        return self.words(HEAD, f"mpirun.{mpi}", *agent, "-n",
                          str(sum(ranks)), *options, *program)

    def counters(self, name):
        """The columns of /proc/net/dev for the host's end of its link."""
        with open(f"/proc/{self.pids[name]}/net/dev",
                  encoding="ascii") as file:
            for line in file:
                device, _, counts = line.strip().partition(":")
                if device == "eth0":
                    return [int(word) for word in counts.split()]
        raise RuntimeError(f"{name} has no eth0")

    def bytes(self, name):
        """The bytes that the host has sent and received."""
        counts = self.counters(name)
        return counts[8], counts[0]

    def payload_sent(self, name):
        """The same without headers: of Ethernet, IPv4, TCP and its times."""
        counts = self.counters(name)
        return counts[8] - 66 * counts[9]

    def processes(self, name):
        """The process ids of all that programs run on the host."""
        space = os.readlink(f"/proc/{self.pids[name]}/ns/pid")
        found = []
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.readlink(f"/proc/{entry}/ns/pid") != space:
                    continue
                with open(f"/proc/{entry}/stat", encoding="ascii") as file:
                    state = file.read().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if state != "Z" and int(entry) not in self.own:
                found.append(int(entry))
        return found

    def cut(self, name):
        """Nothing goes to or from the host any more, and nobody is told."""
        self._ip("switch", f"link set to-{name} nomaster")

    def join(self, name):
        self._ip("switch", f"link set to-{name} master br0")

    def stop(self, name):
        """The host's processes stand still; its kernel answers as before."""
        stopped = set()
        while not stopped.issuperset(self.processes(name)):
            for pid in self.processes(name):
                signal_if_there(pid, signal.SIGSTOP)
                stopped.add(pid)
        return stopped

    def go_on(self, name):
        for pid in self.processes(name):
            signal_if_there(pid, signal.SIGCONT)

    def kill(self, name):
        for pid in self.processes(name):
            signal_if_there(pid, signal.SIGKILL)


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(word) for word in file.read().split()]


def signal_if_there(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def skip_if(reason):
    """Ends the program as ctest and automake want it of a skipped test."""
    if reason:
        print(f"skipped: {reason}", file=sys.stderr)
        sys.exit(SKIPPED)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--ranks", default="2,2", metavar="N,N,...",
                        help="ranks on each host (default 2,2)")
    parser.add_argument("--rate", help="of each host's link, as 1gbit")
    parser.add_argument("--delay", type=float, metavar="S",
                        help="seconds from host to host")
    parser.add_argument("--loss", type=float, default=0, metavar="SHARE",
                        help="of the frames; only with a delay")
    parser.add_argument("--mpi", default="openmpi",
                        choices=("openmpi", "mpich", "ucx"))
    parser.add_argument("--option", action="append", default=[],
                        help="a word more for mpirun")
    parser.add_argument("program", nargs="+")
    flags = parser.parse_args()
    ranks = [int(n) for n in flags.ranks.split(",")]
    skip_if(missing() or missing_shaping(flags.rate, flags.delay) or
            missing_mpi(flags.mpi))
    with Hosts(len(ranks), flags.rate, flags.delay, loss=flags.loss) as hosts:
        begin = time.monotonic()
        done = subprocess.run(
            hosts.mpirun(flags.mpi, ranks, *flags.program,
                         options=flags.option),
            env=hosts.environment(), check=False)
        for name in hosts.names:
            sent, received = hosts.bytes(name)
            print(f"{name}: sent {sent} bytes, received {received}",
                  file=sys.stderr)
        print(f"{time.monotonic() - begin:.2f} s", file=sys.stderr)
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
