#!/usr/bin/env python3
"""Two ranks whose handler of a signal raises at random moments of random calls.

No call may crash, no result be wrong, no array be lost while the library uses it.
Then requests that are dropped: memory may not grow. Says what it has done.
"""
import argparse
import os
import random
import signal
import sys
import time

from test_group import run  # exits with 77 without NumPy

import numpy as np

LENGTHS = (1, 1000, 20000, 300000)


class Interrupt(BaseException):
    pass


class Timer:
    """Raises Interrupt after a random time, at most once a call."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.armed = False
        self.raised = 0
        signal.signal(signal.SIGALRM, self.handle)

    def handle(self, *_):
        if self.armed:
            self.armed = False
            raise Interrupt

    def interrupts(self, work, longest):
        """Whether it has interrupted work()."""
        try:
            self.armed = True
            signal.setitimer(signal.ITIMER_REAL,
                             self.random.uniform(1e-6, longest))
            work()
            self.armed = False
            return False
        except Interrupt:
            self.raised += 1
            return True


def collective(group, timer, data, longest):
    """The sum in place; again until it has begun, which the counters tell.

    Each time later: a busy machine needs longer than a short timer to begin.
    """
    begun = group.counters()["collectives"]
    while group.counters()["collectives"] == begun:
        timer.interrupts(lambda: group.allreduce(data, out=data), longest)
        longest *= 1.1


def message(group, timer, data, tag, longest):
    """From rank 1 to rank 0 and back; both waits may be interrupted often."""
    other = 1 - group.rank
    room = np.empty_like(data)
    receive = group.irecv(room, other, tag)
    sent = group.isend(data, other, tag)
    for request in (receive, sent):
        for _ in range(3):
            timer.interrupts(request.wait, longest)
        request.wait()
    assert receive.wait() is room and receive.source == other
    return room


def interrupted(group, interrupts, seed):
    timer = Timer(2 * seed + group.rank)
    common = random.Random(seed)  # the same choices on both ranks
    shared = group.shared_array(max(LENGTHS), np.float64)
    longest, rounds = 1e-4, 0
    while group.allreduce(timer.raised, "min") < interrupts:
        rounds += 1
        length, kind = common.choice(LENGTHS), common.randrange(3)
        data = shared[:length] if kind == 0 else np.empty(length)
        data[:] = group.rank + rounds
        if kind == 2:
            data = message(group, timer, data, rounds % 7, longest)
            assert (data == 1 - group.rank + rounds).all(), (rounds, data)
        else:
            collective(group, timer, data, longest)
            # As its Request may be lost: what begins later ends later.
            group.barrier()
            assert (data == 2 * rounds + 1).all(), (rounds, data)
        longest = common.choice((2e-5, 1e-4, 5e-4, 2e-3))
    group.barrier()
    group.barrier()
    left = len(group._core.flights)
    assert left <= 4, left
    return rounds, timer.raised


def settled(group):
    """MiB that are resident when nothing is in flight."""
    for _ in range(300):  # each looks at a few that have been dropped
        group.barrier()
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") / 2**20


def dropped(group, count):
    """Rank 0 forgets what it sends, and both what they add."""
    room = np.empty(4000)
    begin = 0.0
    for i in range(count):
        if group.rank == 0:
            group.isend(np.full(4000, i, float), 1)
        else:
            group.recv(room, 0)
            assert room[-1] == i
        if i % 4 == 0:
            group.iallreduce(np.ones(100))
        if i % 250 == 249:  # at most 250 are on the way
            group.barrier()
        if i == count // 5:
            begin = settled(group)
    end = settled(group)
    assert len(group._core.flights) <= 4
    return begin, end


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--interrupts", type=int, default=300,
                           help="number of each rank (default: 300)")
    arguments.add_argument("--dropped", type=int, default=4000,
                           help="number of messages (default: 4000)")
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--any-memory", action="store_true",
                           help="do not limit growth (under a sanitizer, which "
                           "keeps what is freed)")
    options = arguments.parse_args()
    began = time.monotonic()

    def work(group):
        rounds, raised = interrupted(group, options.interrupts, options.seed)
        begin, end = dropped(group, options.dropped)
        print(f"rank {group.rank}: {raised} interrupts in {rounds} rounds; "
              f"{options.dropped} dropped messages: {begin:.1f} -> {end:.1f} MiB "
              f"resident; {time.monotonic() - began:.1f} s", flush=True)
        if not options.any_memory:
            assert end - begin < 16, (begin, end)  # 250 messages are half of that
    run(2, work)


if __name__ == "__main__":
    sys.exit(main())
