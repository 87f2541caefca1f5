#!/usr/bin/env python3
"""Ray Train trains on Lockstep as on gloo, with 2 workers."""
import importlib.util
import os
import sys
import unittest

import frameworks
import torch
import torch.distributed as dist

if not importlib.util.find_spec("ray"):
    print("no module ray: not tested")
    sys.exit(77)


def worker(config):
    """A worker's part of the training."""
    import ray.train.torch

    torch.set_num_threads(1)
    model = ray.train.torch.prepare_model(frameworks.Model(config["width"]))
    loader = ray.train.torch.prepare_data_loader(torch.utils.data.DataLoader(
        frameworks.Sequences(config["steps"]), batch_size=frameworks.ROWS))
    optimizer = torch.optim.AdamW(model.parameters(), frameworks.RATE)
    clock, losses = frameworks.Clock(), []
    for batch in loader:
        optimizer.zero_grad()
        loss = model(**batch)["loss"]
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        clock()
    if ray.train.get_context().get_world_rank() == 0:
        torch.save(frameworks.result(dist.get_backend(), losses, model, clock),
                   config["file"])


def trainer(backend, file, steps, width):
    import ray
    from ray.train import RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer

    import lockstep_torch  # noqa: F401  (registers itself)

    # The workers of a busy machine start late.
    os.environ["RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S"] = "180"
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(num_cpus=frameworks.SIZE + 1, include_dashboard=False,
             object_store_memory=100 << 20, logging_level="error")
    TorchTrainer(
        worker, train_loop_config={"file": file, "steps": steps, "width": width},
        torch_config=TorchConfig(backend=backend),
        scaling_config=ScalingConfig(num_workers=frameworks.SIZE),
        run_config=RunConfig(storage_path=os.path.dirname(file))).fit()
    ray.shutdown()


class Training(unittest.TestCase):
    def test_trainer(self):
        frameworks.check_as_on_gloo(self, __file__, ["trainer"], launch=False)


if __name__ == "__main__":
    if sys.argv[1:2] == ["trainer"]:
        frameworks.main({"trainer": trainer})
    else:
        unittest.main()
