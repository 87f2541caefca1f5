#!/usr/bin/env python3
"""LightGBM over a group: the models that it trains over sockets, and errors.

--time prints the seconds in communication over both, and fails if a group takes more
than half of those of sockets. Without it, the tests run. Exits with 77 without NumPy or
LightGBM.
"""
import importlib.util
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from test_group import lockstep, np, run

if importlib.util.find_spec("lightgbm") is None:
    print("no LightGBM here: not tested")
    sys.exit(77)

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../../.."))
ROUNDS = 20
SEED = 20261127
COMMON = {"verbosity": 1, "num_threads": 1, "seed": SEED, "deterministic": True,
          "force_row_wise": True, "time_out": 1, "num_iterations": ROUNDS}


def rows(rank, size, features=12, count=4000):
    """This rank's rows. Normal numbers have no ties."""
    random = np.random.default_rng(SEED)
    x = random.normal(size=(count, features))
    y = x[:, 0] * x[:, 1] + np.sin(3 * x[:, 2]) + 0.1 * random.normal(size=count)
    return x[rank::size], y[rank::size]


def train(parameters, rank, size, callbacks=(), **shape):
    import lightgbm
    x, y = rows(rank, size, **shape)
    return lightgbm.train({"objective": "regression", **COMMON, **parameters},
                          lightgbm.Dataset(x, y), callbacks=list(callbacks))


class Log:
    """LightGBM's own lines."""

    def __init__(self):
        self.text = ""

    def info(self, line):
        self.text += line + "\n"

    warning = info


def free_ports(n):
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()
    return ports


def train_by_sockets(group, parameters, **shape):
    """(the model, the seconds that LightGBM logs)."""
    import lightgbm
    log = Log()
    lightgbm.register_logger(log)
    ports = group.bcast_object(free_ports(group.size) if group.rank == 0 else None)
    model = train({**parameters, "num_machines": group.size,
                   "machines": ",".join(f"127.0.0.1:{port}" for port in ports),
                   "local_listen_port": ports[group.rank]},
                  group.rank, group.size, **shape)
    model.free_network()
    seconds = re.search(r"Finished linking network in ([\d.]+) seconds", log.text)
    return model, float(seconds[1])


def train_by_group(group, parameters, **shape):
    import lockstep.lightgbm
    with lockstep.lightgbm.install(group) as network:
        model = train({**network.parameters, **parameters}, group.rank, group.size,
                      **shape)
    return model, network.seconds


def trees(model):
    return model.model_to_string().split("\nparameters:")[0]


def compare(learner="data", rounds=ROUNDS, **shape):
    def play(group):
        x, _ = rows(0, 1, **shape)
        parameters = {"tree_learner": learner, "num_iterations": rounds}
        theirs, _ = train_by_sockets(group, parameters, **shape)
        ours, _ = train_by_group(group, parameters, **shape)
        alone = train(parameters, group.rank, group.size, **shape)
        group.barrier()
        error = np.abs(ours.predict(x) - theirs.predict(x)).max()
        assert error <= 1e-12, error
        assert trees(ours) == trees(theirs)
        assert np.abs(alone.predict(x) - ours.predict(x)).max() > 1e-3
    return play


class Models(unittest.TestCase):
    def test_models_of_sockets(self):
        for size in (2, 3, 4, 5, 7):
            with self.subTest(size):
                run(size, compare())

    def test_voting(self):
        run(3, compare("voting"))

    def test_long_vectors(self):
        """Of over 10 MB, which three sockets reduce in a ring."""
        run(3, compare(features=3000, count=900, rounds=2))


@unittest.skipUnless("LOCKSTEP" in os.environ, "LOCKSTEP names no program")
class Page(unittest.TestCase):
    def test_the_example_trains(self):
        page = os.path.join(ROOT, "docs", "how-to", "lightgbm.md")
        with open(page, encoding="utf-8") as file:
            program = re.search(r"```python\n(.*?)```", file.read(), re.S)[1]
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [os.environ["LOCKSTEP"], "run", "-n", "4", "--", sys.executable, "-c",
                 program], cwd=folder, capture_output=True, text=True, timeout=100,
                env={**os.environ, "PYTHONPATH": os.path.dirname(
                    os.path.dirname(lockstep.__file__))})
            self.assertEqual(done.returncode, 0, done.stderr)
            found = re.search(r"100 trees, mean square error ([\d.]+)", done.stdout)
            self.assertLess(float(found[1]), 0.2)  # the variance of y is 1.5
            self.assertIn("model.txt", os.listdir(folder))


class Errors(unittest.TestCase):
    def test_a_rank_that_dies_is_an_error(self):
        def play(group):
            import lightgbm
            import lockstep.lightgbm

            def die(env):
                if group.rank == 2 and env.iteration == 3:
                    os._exit(5)

            with lockstep.lightgbm.install(group) as network:
                began = time.monotonic()
                try:
                    train(network.parameters, group.rank, group.size, [die])
                except lightgbm.basic.LightGBMError as error:
                    assert "rank 2 (host" in str(error), error
                    assert time.monotonic() - began < 30
                else:
                    raise AssertionError("a model of some of the ranks")
            alone = train({}, group.rank, group.size)
            assert alone.num_trees() == ROUNDS
        run(3, play, [0, 0, 5])

    def test_one_network_a_thread(self):
        def play(group):
            import lockstep.lightgbm
            network = lockstep.lightgbm.install(group)
            try:
                lockstep.lightgbm.install(group)
            except lockstep.StateError as error:
                assert "is installed" in str(error), error
            else:
                raise AssertionError("two networks")
            train({**network.parameters, "num_iterations": 2}, group.rank, group.size)
            network.free()
            network.free()
            again = lockstep.lightgbm.install(group)
            assert again.seconds == 0
            again.free()
        run(2, play)

    def test_a_rank_without_lightgbm_is_named(self):
        def play(group):
            import lockstep.lightgbm
            if group.rank == 1:
                sys.modules["lightgbm"] = None
            try:
                lockstep.lightgbm.install(group)
            except lockstep.Error as error:
                assert "rank 1 cannot install LightGBM's network" in str(error), error
            else:
                raise AssertionError("installed")
            group.barrier()
        run(2, play)


def measure(group):
    """Both in turn. Prints the median of the rounds, each the mean of all ranks."""
    times = {"sockets": [], "lockstep": []}
    parameters = {"tree_learner": "data", "num_iterations": 30}
    shape = {"features": 50, "count": 40000}
    for _ in range(15):
        for name, by in (("sockets", train_by_sockets), ("lockstep", train_by_group)):
            began = time.monotonic()
            _, seconds = by(group, parameters, **shape)
            mean = group.allreduce(np.array([seconds, time.monotonic() - began]),
                                   "avg")
            times[name].append(mean)
    medians = {name: np.median(found, axis=0) for name, found in times.items()}
    for name, (seconds, in_all) in medians.items():
        if group.rank == 0:
            print(f"{name}: {seconds:.3f} s in communication, {in_all:.3f} s in all",
                  flush=True)
    assert medians["lockstep"][0] <= medians["sockets"][0] / 2


if __name__ == "__main__":
    if "--time" in sys.argv:
        run(4, measure, timeout=300)
    else:
        unittest.main()
