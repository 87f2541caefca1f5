#!/usr/bin/env python3
"""Time per step of frameworks on gloo and on Lockstep: two ranks of one thread each.

    python3 python/tests/speed_frameworks.py [--only Trainer FSDP2] [--rounds 3]

Each framework trains the model of frameworks.py, with 1.6 million parameters, in jobs
that alternate between the backends. Prints Markdown: the median over rank 0's steps of
all jobs, without the first fifth of each job. Let nothing else run.
"""
import argparse
import os
import statistics
import sys
import tempfile

import frameworks
import torch
import torch.distributed as dist

HERE = os.path.dirname(os.path.abspath(__file__))
OWN = os.path.join(HERE, os.path.basename(__file__))
STEPS, WIDTH = 40, 256


def sharded(backend, width):
    from torch.distributed.fsdp import fully_shard

    if backend == "lockstep":
        import lockstep_torch  # noqa: F401  (registers itself)
    dist.init_process_group(backend)
    model = frameworks.Model(width)
    mesh = dist.device_mesh.init_device_mesh("cpu", (dist.get_world_size(),))
    for part in (*model.blocks.layers, model):
        fully_shard(part, mesh=mesh)
    return model, torch.optim.AdamW(model.parameters(), frameworks.RATE)


def finish(clock, file):
    if dist.get_rank() == 0:
        torch.save({"seconds": clock.steps}, file)
    dist.destroy_process_group()


def fsdp2(backend, file, steps, width):
    model, optimizer = sharded(backend, width)
    # Both ranks read all rows, so that a step needs half as many.
    loader = torch.utils.data.DataLoader(frameworks.Sequences(steps // 2),
                                         batch_size=frameworks.ROWS)
    clock = frameworks.Clock()
    for batch in loader:
        optimizer.zero_grad()
        model(**batch)["loss"].backward()
        optimizer.step()
        clock()
    finish(clock, file)


def save(backend, file, steps, width):
    """A step is a checkpoint of the sharded model."""
    import torch.distributed.checkpoint as dcp

    model, _ = sharded(backend, width)
    folder = [tempfile.mkdtemp(dir=os.path.dirname(file))]
    dist.broadcast_object_list(folder, 0)
    clock = frameworks.Clock()
    for _ in range(steps):
        dcp.save(model.state_dict(), checkpoint_id=folder[0])
        clock()
    finish(clock, file)


# of each row: the script, the function in it, and whether torchrun starts it
JOBS = {
    "Trainer": ("test_accelerate.py", "trainer", True),
    "accelerate": ("test_accelerate.py", "accelerator", True),
    "Lightning": ("test_lightning.py", "trainer", True),
    "Ray Train": ("test_ray.py", "trainer", False),
    "FSDP2": (OWN, "fsdp2", True),
    "torch.distributed.checkpoint: save": (OWN, "save", True),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=JOBS, default=list(JOBS))
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    print(f"PyTorch {torch.__version__}, {STEPS} steps, {asked.rounds} rounds\n")
    print("| | gloo, ms | lockstep, ms | times |")
    print("|" + "---|" * 4)
    for name in asked.only:
        script, way, launch = JOBS[name]
        seconds = {"gloo": [], "lockstep": []}
        for _ in range(asked.rounds):
            for backend, found in seconds.items():
                steps = frameworks.train(os.path.join(HERE, script), way, backend,
                                         STEPS, WIDTH, launch)["seconds"]
                found += steps[len(steps) // 5:]
        gloo, ours = (statistics.median(found) * 1e3 for found in seconds.values())
        print(f"| {name} | {gloo:.1f} | {ours:.1f} | {gloo / ours:.2f} |", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] in (["fsdp2"], ["save"]):
        frameworks.main({"fsdp2": fsdp2, "save": save})
    else:
        main()
