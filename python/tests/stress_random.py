"""Random collectives compared with gloo's, in the same processes, bit for bit.

    stress_random.py                      # some hundreds; what ctest runs
    stress_random.py --calls 100000       # altogether, over all numbers of ranks
    stress_random.py --ranks 3 --seed 17  # what went wrong, again

All ranks draw the same calls from the seed: kind, type, reduction, length (0 and
odd ones included), root, members, and the number in flight before the first
wait. Each rank waits in a different order. Values are small integers, whose
sums and products every type holds, so that no order of sums changes a bit.
Operations that gloo lacks (AVG, PREMUL_SUM, all_to_all of lists) are compared with
a result computed from the inputs of all ranks.
"""

import argparse
import random
import sys
import time

import ranks
import torch
import torch.distributed as dist

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.int8, torch.uint8, torch.int32, torch.int64]
MOVED = FLOATS + INTEGERS + [torch.bool]
SUMS = [dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT, dist.ReduceOp.MIN,
        dist.ReduceOp.MAX]
BITS = [dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR]
LENGTHS = [0, 1, 2, 3, 7, 64, 65, 1000, 1023, 4097, 30001]
LONG = [262147, 1 << 20]


def values(key, dtype, length):
    """The values that the rank of `key` sends: the same in each call."""
    generator = torch.Generator().manual_seed(key)
    low, high = (0, 3) if dtype in (torch.uint8, torch.bool) else (-2, 3)
    drawn = torch.randint(low, high, (length,), generator=generator)
    return drawn.to(dtype)


class Call:
    """One call, drawn alike by all ranks, and made alike on any backend.

    begin(group) starts it and returns (works, outputs).
    """

    # kinds that gloo has as well, and those that it refuses
    COMPARED = ("all_reduce", "broadcast", "reduce", "all_gather",
                "all_gather_into_tensor", "gather", "scatter", "reduce_scatter",
                "reduce_scatter_tensor", "all_to_all_single", "split", "barrier",
                "messages")
    COMPUTED = ("all_to_all", "average", "premultiplied")

    def __init__(self, draw, index, members, rank, without):
        self.members, self.rank, self.size = members, rank, len(members)
        self.me = members.index(rank) if rank in members else None
        self.kind = draw.choice([kind for kind in self.COMPARED * 2 + self.COMPUTED
                                 if kind not in without])
        self.length = draw.choice(LONG if draw.random() < 0.01 else LENGTHS)
        self.root = draw.randrange(self.size)
        self.key = draw.getrandbits(40) ^ index
        self.op = draw.choice(SUMS)
        self.dtype = draw.choice(MOVED)
        if self.kind in ("all_reduce", "reduce", "reduce_scatter",
                         "reduce_scatter_tensor"):
            self.dtype = draw.choice(FLOATS + INTEGERS)
            if self.dtype in INTEGERS and draw.random() < 0.3 \
                    and self.kind == "all_reduce":
                self.op = draw.choice(BITS)
        elif self.kind in ("average", "premultiplied"):
            self.dtype = draw.choice(FLOATS[:2])
        self.splits = [[draw.choice((0, 1, 5, 130)) for _ in members]
                       for _ in members]
        self.tags = draw.sample(range(50), 3)
        self.shuffled = draw.sample(range(3), 3)

    def __str__(self):
        return (f"{self.kind} of {self.length} {self.dtype} by {self.op} among "
                f"{self.members}, root {self.root}")

    def sent(self, of, length=None):
        return values(self.key * 16 + of, self.dtype,
                      self.length if length is None else length)

    def begin(self, group):
        works, outputs = getattr(self, "_" + self.kind)(group, self.members[self.root])
        return [work for work in works if work is not None], outputs

    def _all_reduce(self, group, _):
        data = self.sent(self.me)
        return [dist.all_reduce(data, self.op, group, async_op=True)], [data]

    def _broadcast(self, group, root):
        data = self.sent(self.me)
        return [dist.broadcast(data, root, group, async_op=True)], [data]

    def _reduce(self, group, root):
        data = self.sent(self.me)
        work = dist.reduce(data, root, self.op, group, async_op=True)
        return [work], [data] if self.me == self.root else []

    def _room(self, count):
        return [torch.zeros(self.length, dtype=self.dtype) for _ in range(count)]

    def _all_gather(self, group, _):
        room = self._room(self.size)
        return [dist.all_gather(room, self.sent(self.me), group, async_op=True)], room

    def _all_gather_into_tensor(self, group, _):
        room = torch.zeros(self.length * self.size, dtype=self.dtype)
        return [dist.all_gather_into_tensor(room, self.sent(self.me), group,
                                            async_op=True)], [room]

    def _gather(self, group, root):
        room = self._room(self.size) if self.me == self.root else None
        return [dist.gather(self.sent(self.me), room, root, group,
                            async_op=True)], room or []

    def _scatter(self, group, root):
        room = self._room(1)[0]
        parts = list(self.sent(self.me, self.length * self.size).chunk(self.size)) \
            if self.length else self._room(self.size)
        return [dist.scatter(room, parts if self.me == self.root else None, root,
                             group, async_op=True)], [room]

    def _reduce_scatter(self, group, _):
        room = self._room(1)[0]
        parts = [self.sent(self.me * 4 + i % 4) for i in range(self.size)]
        return [dist.reduce_scatter(room, parts, self.op, group, async_op=True)], [room]

    def _reduce_scatter_tensor(self, group, _):
        room = self._room(1)[0]
        return [dist.reduce_scatter_tensor(
            room, self.sent(self.me, self.length * self.size), self.op, group,
            async_op=True)], [room]

    def _all_to_all_single(self, group, _):
        data = self.sent(self.me, self.length * self.size)
        room = torch.zeros_like(data)
        return [dist.all_to_all_single(room, data, group=group, async_op=True)], [room]

    def _split(self, group, _):
        going = self.splits[self.me]
        coming = [row[self.me] for row in self.splits]
        room = torch.zeros(sum(coming), dtype=self.dtype)
        return [dist.all_to_all_single(room, self.sent(self.me, sum(going)), coming,
                                       going, group, async_op=True)], [room]

    def _barrier(self, group, _):
        return [dist.barrier(group, async_op=True)], []

    def _messages(self, group, _):
        """Three to the next rank, which takes them in another order, by tags."""
        if self.size == 1:
            return [], []
        after = self.members[(self.me + 1) % self.size]
        before = self.members[(self.me - 1) % self.size]
        data = self.sent(self.me)
        room = self._room(3)
        works = [dist.isend(data + i if self.dtype != torch.bool else data, after,
                            group, tag=self.tags[i]) for i in range(3)]
        works += [dist.irecv(room[i], before, group, tag=self.tags[i])
                  for i in self.shuffled]
        return works, room

    def _all_to_all(self, group, _):
        going = list(self.sent(self.me, sum(self.splits[self.me]))
                     .split(self.splits[self.me]))
        room = [torch.zeros(row[self.me], dtype=self.dtype) for row in self.splits]
        return [dist.all_to_all(room, going, group, async_op=True)], room

    def _average(self, group, _):
        data = self.sent(self.me)
        return [dist.all_reduce(data, dist.ReduceOp.AVG, group, async_op=True)], [data]

    def _premultiplied(self, group, _):
        data = self.sent(self.me)
        return [dist.all_reduce(data, dist._make_nccl_premul_sum(0.5), group,
                                async_op=True)], [data]

    def expected(self):
        """The outputs of a kind that gloo refuses, from all ranks' inputs."""
        if self.kind == "all_to_all":
            return [self.sent(of, sum(row)).split(row)[self.me]
                    for of, row in enumerate(self.splits)]
        total = sum(self.sent(of).double() for of in range(self.size))
        if self.kind == "premultiplied":
            return [(total * 0.5).to(self.dtype)]
        return [(total.to(self.dtype) / self.size)]


def same(call, found, expected):
    """Bit for bit; an average may be rounded once or multiplied by 1/size."""
    if call.kind == "average":
        eps = torch.finfo(call.dtype).eps
        return all(torch.allclose(a, b, rtol=2 * eps, atol=0)
                   for a, b in zip(found, expected))
    return len(found) == len(expected) and all(map(torch.equal, found, expected))


def finish(works, draw):
    draw.shuffle(works)
    for work in works:
        work.wait()


def check(batch, groups, rank, order):
    """Starts the calls of a batch on both, waits, and compares."""
    mine = [(call, groups[tuple(call.members)]) for call in batch
            if rank in call.members]
    ours = [call.begin(pair[1]) for call, pair in mine]
    finish([work for works, _ in ours for work in works], order)
    theirs = [call.begin(pair[0]) if call.kind in Call.COMPARED else None
              for call, pair in mine]
    finish([work for begun in theirs if begun for work in begun[0]], order)
    for (call, _), (_, found), begun in zip(mine, ours, theirs):
        expected = begun[1] if begun else call.expected()
        if not same(call, found, expected):
            raise AssertionError(f"{call}: {found}, not {expected}")


def work(rank, size, backend, calls, seed, without):
    draw = random.Random(seed * 100 + size)
    order = random.Random(seed * 100 + size + 7 * rank)
    teams = {tuple(range(size))}
    while len(teams) < min(4, 2 ** size - 1):
        teams.add(tuple(sorted(draw.sample(range(size), draw.randint(1, size)))))
    groups = {team: (dist.new_group(list(team), backend="gloo"),
                     dist.new_group(list(team), backend=backend))
              for team in sorted(teams)}
    done = 0
    before = time.monotonic()
    while done < calls:
        batch = [Call(draw, done + i, list(draw.choice(sorted(teams))), rank,
                      without)
                 for i in range(draw.choice((1, 1, 2, 3, 5, 8)))]
        check(batch, groups, rank, order)
        done += len(batch)
        if calls > 1000 and rank == 0 and done % 2000 < len(batch):
            print(f"  {done} of {calls} on {size} ranks, "
                  f"{time.monotonic() - before:.0f} s", flush=True)
    if rank == 0:
        print(f"{size} ranks: {done} calls in {len(groups)} groups are as gloo's, "
              f"{time.monotonic() - before:.1f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=500)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 3, 5, 8])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--backend", default="lockstep")
    parser.add_argument("--without", nargs="+", default=(), metavar="KIND",
                        choices=Call.COMPARED + Call.COMPUTED,
                        help="kinds of calls that are not drawn")
    arguments = parser.parse_args()
    if arguments.backend not in ranks.backends():
        return 77
    without = Call.COMPUTED if arguments.backend == "gloo" else arguments.without
    each = -(-arguments.calls // len(arguments.ranks))
    for size in arguments.ranks:
        ranks.run(size, "gloo", work, arguments.backend, each, arguments.seed,
                  without, timeout=60 + each)
    return 0


if __name__ == "__main__":
    sys.exit(main())
