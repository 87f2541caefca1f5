#!/usr/bin/env python3
"""Starts ranks on the hosts of hosts.py without MPI, and leaves them alone:

    start.py STORE 2,1,3 PROGRAM ARGS

h0 serves the store at which they meet (store.c). $LOCKSTEP_HOSTS says where the
hosts are. Ends when all have ended, with 1 if one has failed; what is killed
takes them along.
"""

import os
import subprocess
import sys

ENDPOINT = "h0:29400"


def on(pid, *words):
    die = ["setpriv", "--pdeathsig", "KILL"]
    return [*die, "nsenter", "-t", pid, "-m", "-u", "-i", "-n", "-p", "--",
            *die, *words]


def main():
    store, counts, *program = sys.argv[1:]
    hosts = [entry.partition("=")[2]
             for entry in os.environ["LOCKSTEP_HOSTS"].split()]
    on_host = list(map(int, counts.split(",")))
    environment = {**os.environ, "LOCKSTEP_RENDEZVOUS": ENDPOINT,
                   "LOCKSTEP_SECRET": "what only these hosts know",
                   "LOCKSTEP_JOB": f"start.py {os.getpid()}",
                   "WORLD_SIZE": str(sum(on_host))}
    ranks = []
    with subprocess.Popen(on(hosts[0], store, ENDPOINT), env=environment,
                          stdout=subprocess.PIPE) as server:
        if server.stdout.readline() != b"ready\n":
            sys.exit("start.py: the store did not start")
        for host, count in zip(hosts, on_host):
            for local in range(count):
                ranks.append(subprocess.Popen(
                    on(host, *program),
                    env={**environment, "RANK": str(len(ranks)),
                         "LOCAL_RANK": str(local),
                         "LOCAL_WORLD_SIZE": str(count)}))
        failed = [rank.wait() for rank in ranks if rank.wait() != 0]
        server.kill()
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
