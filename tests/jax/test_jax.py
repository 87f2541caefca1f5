"""JAX's collectives on CPUs over Lockstep, compared with NumPy.

    test_jax.py [--rounds 30]

LOCKSTEP is the program, MPITRAMPOLINE_LIB the library.
"""

import argparse
import importlib.util
import os
import signal
import socket
import subprocess
import sys
import unittest

RANKS = 4
ROUNDS = 30

if not importlib.util.find_spec("jax"):
    print("no JAX here: not tested")
    sys.exit(77)


# ---- a rank ----

class Rank:
    """One process of JAX: a device, in a mesh of 2 groups of 2."""

    def __init__(self):
        import jax
        jax.config.update("jax_platforms", "cpu")
        jax.config.update("jax_cpu_collectives_implementation", "mpi")
        jax.config.update("jax_enable_x64", True)
        jax.distributed.initialize(
            f"127.0.0.1:{os.environ['JAX_PORT']}", int(os.environ["WORLD_SIZE"]),
            int(os.environ["RANK"]))
        self.jax, self.number = jax, jax.process_index()
        assert jax.device_count() == RANKS and jax.local_device_count() == 1
        self.mesh = jax.make_mesh((2, 2), ("group", "member"))
        self.spec = jax.sharding.PartitionSpec(("group", "member"))

    def call(self, function, every):
        """function(block of this device), of blocks that every[rank] has."""
        import numpy
        jax = self.jax
        sharding = jax.sharding.NamedSharding(self.mesh, self.spec)
        whole = numpy.stack(every)
        array = jax.make_array_from_callback(whole.shape, sharding,
                                             lambda index: whole[index])
        mapped = jax.jit(jax.shard_map(
            lambda block: function(block[0])[None], mesh=self.mesh,
            in_specs=self.spec, out_specs=self.spec))
        out = mapped(array)
        return numpy.asarray(out.addressable_shards[0].data)[0]


def values(rank, count, dtype, seed=0):
    """Small whole numbers, some of them negative, and the ends of integer types."""
    import numpy
    made = numpy.random.default_rng(100 * seed + rank).integers(-9, 10, count)
    if numpy.dtype(dtype).kind == "u":
        made = numpy.abs(made)
    out = made.astype(dtype)
    if numpy.dtype(dtype).kind == "c":
        out = out + 1j * numpy.roll(out, 1)
    elif numpy.dtype(dtype).kind in "iu":
        out[rank] = numpy.iinfo(dtype).max
        out[RANKS + rank] = numpy.iinfo(dtype).min
    return out


def same(got, want, what):
    import numpy
    assert got.dtype == want.dtype and numpy.array_equal(got, want), (what, got, want)


def reductions(rank):
    import numpy
    from jax import lax
    axes = ("group", "member")
    for dtype in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64",
                  "uint64", "float32", "float64", "complex64", "complex128"):
        for count in (33, 20000):
            every = [values(r, count, dtype) for r in range(RANKS)]
            ways = [(lax.psum, lambda xs: numpy.add.reduce(xs, dtype=dtype))]
            if not dtype.startswith("complex"):
                ways += [(lax.pmax, numpy.maximum.reduce),
                         (lax.pmin, numpy.minimum.reduce)]
            for function, reference in ways:
                got = rank.call(lambda x: function(x, axes), every)
                same(got, reference(every), (function.__name__, dtype, count))


def movements(rank):
    import numpy
    from jax import lax
    axes = ("group", "member")
    for dtype in ("float32", "int64", "uint16", "bool"):
        every = [values(r, 4 * 101, "int8").astype(dtype) for r in range(RANKS)]
        same(rank.call(lambda x: lax.all_gather(x, axes), every),
             numpy.stack(every), "all_gather")
        blocks = [numpy.stack([x.reshape(RANKS, -1)[rank.number] for x in every])]
        got = rank.call(lambda x: lax.all_to_all(
            x.reshape(RANKS, -1), axes, 0, 0, tiled=True), every)
        same(got, blocks[0], "all_to_all")
        turn = [(r, (r + 1) % RANKS) for r in range(RANKS)]
        same(rank.call(lambda x: lax.ppermute(x, axes, turn), every),
             every[(rank.number - 1) % RANKS], "ppermute")
        # Rank 2 gets nothing, which is zeros.
        same(rank.call(lambda x: lax.ppermute(x, axes, [(0, 1), (1, 0), (2, 3)]),
                       every),
             [every[1], every[0], numpy.zeros_like(every[0]), every[2]][rank.number],
             "ppermute")


def jax_40830(rank):
    """Reduce-scatters of 4 MiB of float64 for each rank, in groups of 2."""
    import numpy
    from jax import lax
    count = (4 << 20) // 8
    group = rank.number // 2 * 2
    for i in range(ROUNDS):
        every = [values(r, 2 * count, "float64", i) for r in range(RANKS)]
        got = rank.call(lambda x: lax.psum_scatter(
            x, "member", scatter_dimension=0, tiled=True), every)
        whole = every[group] + every[group + 1]
        place = rank.number - group
        same(got, whole[place * count:(place + 1) * count], f"round {i}")


def death(rank):
    """The other ranks get an exception that names the one that has died."""
    from jax import lax
    every = [values(r, 10, "float32") for r in range(RANKS)]
    rank.call(lambda x: lax.psum(x, ("group", "member")), every)
    if rank.number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        for _ in range(3):  # the exception may come with a later call
            rank.call(lambda x: lax.psum(x, ("group", "member")), every)
    except Exception as why:
        assert "rank 3 (host" in str(why) and "has died" in str(why), why
        print("death is right", flush=True)
    os._exit(0)


# ---- the test ----

class Jax(unittest.TestCase):
    def run_ranks(self, name, right=RANKS, status=0):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        done = subprocess.run(
            [os.environ["LOCKSTEP"], "run", "-n", str(RANKS), "--", sys.executable,
             "-W", "ignore", __file__, "--rank", name, "--rounds", str(ROUNDS)],
            env={**os.environ, "JAX_PORT": str(port), "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        self.assertEqual(done.returncode, status, done.stdout)
        self.assertEqual(done.stdout.count(f"{name} is right"), right, done.stdout)

    def test_reductions(self):
        self.run_ranks("reductions")

    def test_movements(self):
        self.run_ranks("movements")

    def test_jax_40830(self):
        self.run_ranks("jax_40830")

    def test_a_death(self):
        self.run_ranks("death", right=RANKS - 1, status=128 + signal.SIGKILL)


def main():
    global ROUNDS
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--rank", choices=("reductions", "movements", "jax_40830", "death"))
    flags, rest = parser.parse_known_args()
    ROUNDS = flags.rounds
    if flags.rank:
        globals()[flags.rank](Rank())
        print(f"{flags.rank} is right", flush=True)
    else:
        unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
