#!/usr/bin/env python3
"""GradientAverager on 1, 2, 3, 5 and 8 processes, compared with NumPy in float64."""
import sys
import unittest

from test_group import run  # exits with 77 without NumPy

import numpy as np

import lockstep

SIZES = (1, 2, 3, 5, 8)
SHAPES = {"embedding": (17, 5), "scale": (), "empty": (0, 4), "big": (4099,),
          "one": (1, 1), "bias": (33,)}
STEPS = 5


def parameters(dtype):
    return {name: np.zeros(shape, dtype) for name, shape in SHAPES.items()}


def gradient(name, rank, step):
    """Whole numbers whose sums over eight ranks even float16 has."""
    n = int(np.prod(SHAPES[name]))
    x = np.arange(n) % 61 - 30 + 3 * rank - 5 * step + len(name)
    return x.reshape(SHAPES[name])


def weight_of(rank, step):
    """Rank 1 has no samples in every other step."""
    return 0 if rank == 1 and step % 2 == 1 else rank + 1


def check(group, gradients, step):
    active = [r for r in range(group.size) if weight_of(r, step) > 0]
    weight = sum(weight_of(r, step) for r in active)
    for name, got in gradients.items():
        want = sum(gradient(name, r, step) for r in active) / weight
        # An exact sum; 1 / weight and the product are rounded in float32 at
        # least, and float16 once more.
        eps = float(np.finfo(got.dtype).eps) / 2
        wide = float(np.finfo(np.promote_types(got.dtype, np.float32)).eps) / 2
        assert np.all(np.abs(got.astype(np.float64) - want) <=
                      (eps + 2 * wide) * np.abs(want)), name
        everywhere = group.allgather(got)
        assert all(np.array_equal(row, got) for row in everywhere)


def steps(group, dtype, bucket_mb, copies):
    names = list(SHAPES)
    with lockstep.GradientAverager(group, parameters(dtype),
                                   bucket_mb=bucket_mb) as averager:
        for step in range(STEPS):
            weight = weight_of(group.rank, step)
            averager.begin(weight)
            # The order differs between ranks and steps.
            turn = (group.rank + step) % len(names)
            for name in names[turn:] + names[:turn] if weight else ():
                value = gradient(name, group.rank, step)
                if copies:
                    averager.ready(name, value)
                else:
                    averager.gradients[name][...] = value
                    averager.ready(name)
            if weight == 0:  # what is left of it must not count
                averager.gradients["big"][...] = np.nan
            check(group, averager.finish(), step)


def training(group):
    """A linear model: the weights of all ranks together are those of one."""
    rows, width, lr = 37, 6, 0.1
    x = np.random.default_rng(1).uniform(-1, 1, (rows, width))
    y = x @ np.arange(width)
    w = {"w": np.full(width, float(group.rank)), "b": np.zeros(())}
    alone = {"w": np.zeros(width), "b": 0.0}
    begin = rows * group.rank // group.size
    end = rows * (group.rank + 1) // group.size
    with lockstep.GradientAverager(group, w) as averager:
        averager.broadcast(w)
        for _ in range(50):
            averager.begin(end - begin)
            d = x[begin:end] @ w["w"] + w["b"] - y[begin:end]
            averager.ready("b", d.sum())
            averager.ready("w", d @ x[begin:end])
            means = averager.finish()
            for name in w:
                w[name] -= lr * means[name]
            d = x @ alone["w"] + alone["b"] - y
            alone["w"] = alone["w"] - lr * (d @ x) / rows
            alone["b"] = alone["b"] - lr * d.sum() / rows
    # lr times the largest curvature is below 1, so roundings of steps add up;
    # no number that is rounded is as large as 100.
    bound = 50 * (rows + width + 4) * 2.0 ** -53 * 100
    assert np.all(np.abs(w["w"] - alone["w"]) <= bound)
    assert abs(float(w["b"]) - alone["b"]) <= bound


class Offence:
    """Faults of rank 1 alone: all ranks get the error, and then go on."""

    def __init__(self, offend, told):
        self.offend, self.told = offend, told

    def __call__(self, group):
        params = {"a": np.zeros(3, np.float32), "b": np.zeros(2)}
        averager = lockstep.GradientAverager(group, params, bucket_mb=1e-5)
        for _ in range(2):
            if group.rank == 1:
                try:
                    self.offend(averager)
                except lockstep.Error:
                    pass
            else:
                averager.begin(1)
                averager.ready("b")
                averager.ready("a")
            try:
                averager.finish()
                raise AssertionError("finish did not fail")
            except lockstep.StateError as error:
                assert self.told in str(error), error
                assert "rank 1" in str(error), error
            averager.begin(2)
            averager.ready("a", np.full(3, 2.0))
            averager.ready("b", np.full(2, 4.0))
            assert averager.finish()["b"][0] == 2
        averager.close()


def twice(averager):
    averager.begin(1)
    averager.ready("b")
    averager.ready("b")


def not_at_all(averager):
    averager.begin(1)
    averager.ready("b")


def unknown(averager):
    averager.begin(1)
    averager.ready("c")


def bad_weight(averager):
    averager.begin(float("nan"))


def wrong_shape(averager):
    averager.begin(1)
    averager.ready("a", np.zeros(4))


def unused(group):
    with lockstep.GradientAverager(group, {"a": np.zeros(3), "b": np.zeros(2)},
                                   unused_as_zero=True) as averager:
        averager.begin(1)
        averager.gradients["a"][...] = 7  # not ready: does not count
        averager.ready("b", np.ones(2))
        if group.rank == 0:
            averager.ready("a", np.full(3, 6.0))
        means = averager.finish()
        assert np.all(means["a"] == 6.0 / group.size)
        assert np.all(means["b"] == 1)


def differing(group):
    count = 3 + (group.rank == 1)
    try:
        lockstep.GradientAverager(group, {"a": np.zeros(count)})
        raise AssertionError("was accepted")
    except lockstep.ArgumentError as error:
        assert "passed different names" in str(error), error


def bad_type(group):
    dtype = np.int32 if group.rank == 1 else np.float32
    try:
        lockstep.GradientAverager(group, {"a": np.zeros(3, dtype)})
        raise AssertionError("was accepted")
    except lockstep.ArgumentError as error:
        assert "rank 1: GradientAverager: parameter 'a' has type int32" in str(error), error


def nothing(group):
    with lockstep.GradientAverager(group, {}) as averager:
        averager.begin(1)
        assert averager.finish() == {}


def overlaps(group):
    """A bucket is under way before the others are ready."""
    params = {"first": np.zeros(5), "last": np.zeros(5)}
    with lockstep.GradientAverager(group, params, bucket_mb=1e-6) as averager:
        averager.begin(1)
        before = group.counters()["collectives"]
        averager.ready("last")
        assert group.counters()["collectives"] == before + 1
        averager.ready("first")
        assert group.counters()["collectives"] == before + 2
        averager.finish()
        try:
            averager.ready("last")
            raise AssertionError("ready after finish")
        except lockstep.StateError as error:
            assert "no step has begun" in str(error)


class Averager(unittest.TestCase):
    def test_means(self):
        for size in SIZES:
            for dtype, bucket_mb, copies in (
                    ("float32", 25, False), ("float32", 0.0004, True),
                    ("float64", 0.002, False), ("float16", 1, True)):
                with self.subTest(size=size, dtype=dtype):
                    run(size, lambda group: steps(group, dtype, bucket_mb,
                                                  copies))

    def test_training(self):
        for size in SIZES:
            run(size, training)

    def test_one_rank_is_wrong(self):
        for offend, told in ((twice, "'b' is already ready in this step"),
                             (not_at_all, "not ready: a"),
                             (unknown, "'c' is not a parameter of this averager"),
                             (bad_weight, "weight is nan"),
                             (wrong_shape, "the gradient for 'a' has shape (4,); it must "
                              "have shape (3,)")):
            with self.subTest(told=told):
                run(3, Offence(offend, told))

    def test_others(self):
        for work in (unused, differing, bad_type, nothing, overlaps):
            with self.subTest(work=work.__name__):
                run(3, work)

    def test_alone(self):
        with lockstep.Group.open("averager alone", 0, 1) as group:
            averager = lockstep.GradientAverager(group, {"a": np.zeros(2)})
            with self.assertRaisesRegex(lockstep.StateError, "no step has begun"):
                averager.finish()
            averager.begin()
            with self.assertRaisesRegex(lockstep.StateError, "not ended"):
                averager.begin()
            averager.ready("a", np.ones(2))
            averager.finish()
            averager.close()
            averager.close()


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
