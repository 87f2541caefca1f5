"""Starting ranks by one of the MPI launchers."""

import os
import shutil
import subprocess
import sys

MPI = os.environ["TEST_MPI"]
LOCKSTEP = os.environ["LOCKSTEP"]
MODULES = os.environ["TEST_MODULES"]
LAUNCHER = shutil.which("mpirun." + MPI)


def skip_unless_there():
    """Skips the test, with the reason, where this MPI cannot be tried."""
    info = subprocess.run([LOCKSTEP, "info"], capture_output=True, text=True,
                          check=True).stdout
    mpi = next(line for line in info.splitlines() if line.startswith("mpi"))
    reason = None
    if MPI not in mpi:
        reason = "no module for " + MPI
    elif LAUNCHER is None:
        reason = "no launcher mpirun." + MPI
    if reason:
        print("skipped:", reason)
        sys.exit(77)


def command(ranks, argv, env=None, options=()):
    """ranks: how many on each host that is played, by LOCKSTEP_HOSTID."""
    env = {"LOCKSTEP_TRANSPORT": "mpi", "LOCKSTEP_TIMEOUT": "60",
           **(env or {})}
    line = [LAUNCHER, *options]
    if MPI == "openmpi":
        line += ["--oversubscribe", "--allow-run-as-root"]
    for host, n in enumerate(ranks):
        line += [":"] if host else []
        line += ["-n", str(n)]
        for name, value in {**env, "LOCKSTEP_HOSTID": f"h{host}"}.items():
            line += ["-x", f"{name}={value}"] if MPI == "openmpi" else \
                ["-env", name, value]
        line += argv
    return line


def run(ranks, argv, env=None, timeout=100, options=()):
    return subprocess.run(command(ranks, argv, env, options),
                          capture_output=True, text=True, timeout=timeout)


def scene(ranks, name):
    """Runs a scene of scenes.c."""
    return run(ranks, [os.environ["TEST_SCENES"], name],
               {"LOCKSTEP_TIMEOUT": "20", "LOCKSTEP_MODULES": MODULES})


def meet_again(ranks, seconds=10, *words):
    """Runs meet_again.c."""
    return run(ranks, [os.environ["TEST_MEET_AGAIN"], *words],
               {"LOCKSTEP_TIMEOUT": str(seconds), "LOCKSTEP_MODULES": MODULES})


def miss_the_last(ranks, said):
    """The last rank does not come again, and of whom this is said. Where others
    need the CPUs, too, two seconds can be too short for the first meeting."""
    for seconds in (2, 8, 24):
        done = meet_again(ranks, seconds, str(2 * seconds))
        assert done.returncode != 0
        if said.format(seconds) in done.stderr:
            return
    raise AssertionError(done.stderr)
