"""The features that programs use with gloo, on gloo and on Lockstep in the same processes.

Each feature is a small program that returns tensors. On 1 and 2 ranks, where a
sum has one order, they equal gloo's bit for bit, and on more within what the
order of sums explains; what all ranks should have has the same bits on all.

    conformance_features.py                       # all, on 2 and 3 ranks
    conformance_features.py --ranks 1 2 3 5 8
    conformance_features.py --only ddp pipeline --backend gloo
"""

import argparse
import contextlib
import copy
import hashlib
import os
import shutil
import sys
import tempfile
import warnings

import ranks
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.algorithms.ddp_comm_hooks import (
    default_hooks, powerSGD_hook)
from torch.distributed.algorithms.join import Join
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel as DDP

STEPS = 6
FEATURES = {}


def feature(function):
    FEATURES[function.__name__] = function
    return function


def sharded_feature(function):
    return feature(function) if ranks.HAS_FSDP2 else function


class Same(list):
    """Results that all ranks have alike."""


def network(width=33):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(17, width), nn.GELU(), nn.Linear(width, width),
                         nn.GELU(), nn.Linear(width, 5))


def batches(rank, steps=STEPS, rows=8):
    generator = torch.Generator().manual_seed(100 + rank)
    for _ in range(steps):
        yield (torch.randn(rows, 17, generator=generator),
               torch.randint(5, (rows,), generator=generator))


def train(model, optimizer, data, loss=F.cross_entropy):
    losses = []
    for x, y in data:
        optimizer.zero_grad()
        value = loss(model(x), y)
        value.backward()
        optimizer.step()
        losses.append(value.detach())
    return losses


def weights(model):
    return Same(p.detach().clone() for p in model.parameters())


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


# ---- DDP ----

def ddp_with(rank, hook=None, bucket_mb=0.005, **told):
    model = DDP(network(), bucket_cap_mb=bucket_mb, **told)
    if hook:
        hook(model)
    train(model, sgd(model), batches(rank))
    return weights(model)


@feature
def ddp(rank, size):
    return ddp_with(rank)


@feature
def ddp_views(rank, size):
    return ddp_with(rank, gradient_as_bucket_view=True)


@feature
def ddp_static(rank, size):
    return ddp_with(rank, static_graph=True)


@feature
def ddp_fp16_hook(rank, size):
    return ddp_with(rank, lambda model: model.register_comm_hook(
        None, default_hooks.fp16_compress_hook))


@feature
def ddp_bf16_hook(rank, size):
    return ddp_with(rank, lambda model: model.register_comm_hook(
        None, default_hooks.bf16_compress_hook))


@feature
def ddp_power_sgd(rank, size):
    state = powerSGD_hook.PowerSGDState(
        None, matrix_approximation_rank=2, start_powerSGD_iter=2,
        min_compression_rate=1)
    return ddp_with(rank, lambda model: model.register_comm_hook(
        state, powerSGD_hook.powerSGD_hook), 25)  # gloo hangs with many buckets


class Branches(nn.Module):
    """Uses one of its two branches, another on each rank."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b = nn.Linear(17, 5), nn.Linear(17, 5)
        self.last = nn.Linear(5, 5)

    def forward(self, x):
        return self.last((self.a if x[0, 0] > 0 else self.b)(x))


@feature
def ddp_unused(rank, size):
    model = DDP(Branches(), find_unused_parameters=True)
    train(model, sgd(model), batches(rank))
    return weights(model)


@feature
def ddp_no_sync(rank, size):
    model = DDP(network(), gradient_as_bucket_view=True)
    optimizer = sgd(model)
    for step, (x, y) in enumerate(batches(rank)):
        with model.no_sync() if step % 3 else contextlib.nullcontext():
            F.cross_entropy(model(x), y).backward()
        if step % 3 == 0:
            optimizer.step()
            optimizer.zero_grad()
    return weights(model)


@feature
def ddp_join(rank, size):
    model = DDP(network())
    with model.join():
        train(model, sgd(model), batches(rank, STEPS + 2 * rank))
    return weights(model)


@feature
def ddp_sparse(rank, size):
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.EmbeddingBag(50, 6, sparse=True),
                              nn.Linear(6, 5)))
    generator = torch.Generator().manual_seed(rank)
    data = [(torch.randint(50, (4, 3), generator=generator),
             torch.randint(5, (4,), generator=generator)) for _ in range(STEPS)]
    train(model, torch.optim.SGD(model.parameters(), lr=0.1), data)
    return weights(model)


@feature
def ddp_loader(rank, size):
    """A DataLoader whose workers are forked after the group is there."""
    rows = torch.arange(40, dtype=torch.float32).repeat(17, 1).T
    data = torch.utils.data.TensorDataset(rows / 40, torch.arange(40) % 5)
    sampler = torch.utils.data.DistributedSampler(data, shuffle=False)
    loader = torch.utils.data.DataLoader(data, batch_size=4, sampler=sampler,
                                         num_workers=2)
    model = DDP(network())
    for _ in range(2):
        train(model, sgd(model), loader)
    return weights(model)


# ---- what shards ----

@feature
def zero_optimizer(rank, size):
    model = DDP(network())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam,
                                        lr=0.01)
    train(model, optimizer, batches(rank))
    optimizer.consolidate_state_dict(to=0)
    return weights(model)


@feature
def zero_join(rank, size):
    model = DDP(network())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.01)
    with Join([model, optimizer]):
        train(model, optimizer, batches(rank, STEPS + rank))
    return weights(model)


@feature
def fsdp1(rank, size):
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    model = FSDP(network(), auto_wrap_policy=ModuleWrapPolicy({nn.Linear}),
                 device_id=torch.device("cpu"), use_orig_params=True)
    train(model, torch.optim.Adam(model.parameters(), lr=0.01), batches(rank))
    with FSDP.summon_full_params(model):
        return weights(model)


def sharded(rank, size, mesh=None, **told):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    if mesh is None:
        mesh = init_device_mesh("cpu", (size,))
    model = network()
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh, **told)
    fully_shard(model, mesh=mesh, **told)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    return model, optimizer


@sharded_feature
def fsdp2(rank, size):
    model, optimizer = sharded(rank, size)
    train(model, optimizer, batches(rank))
    return Same(p.full_tensor().detach() for p in model.parameters())


@sharded_feature
def fsdp2_bf16(rank, size):
    from torch.distributed.fsdp import MixedPrecisionPolicy

    model, optimizer = sharded(rank, size, mp_policy=MixedPrecisionPolicy(
        param_dtype=torch.bfloat16, reduce_dtype=torch.float32))
    train(model, optimizer, batches(rank),
          lambda x, y: F.cross_entropy(x.float(), y))
    return Same(p.full_tensor().detach() for p in model.parameters())


@contextlib.contextmanager
def shared_folder(rank):
    """A folder that all ranks name alike, and that rank 0 removes."""
    folder = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(folder, 0)
    yield folder[0]
    dist.barrier()
    if rank == 0:
        shutil.rmtree(folder[0])


def states(model, optimizer):
    from torch.distributed.checkpoint.state_dict import get_state_dict

    return dict(zip(("model", "optimizer"), get_state_dict(model, optimizer)))


def load(model, optimizer, folder, group=None):
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import set_state_dict

    loaded = states(model, optimizer)
    dcp.load(loaded, checkpoint_id=folder, process_group=group)
    set_state_dict(model, optimizer, model_state_dict=loaded["model"],
                   optim_state_dict=loaded["optimizer"])


def whole_weights(model):
    return Same(p.full_tensor().detach().clone() for p in model.parameters())


@sharded_feature
def checkpoint(rank, size):
    """A sharded model, saved, and opened by others of its kind."""
    import torch.distributed.checkpoint as dcp

    with shared_folder(rank) as folder:
        model, optimizer = sharded(rank, size)
        train(model, optimizer, batches(rank))
        dcp.save(states(model, optimizer), checkpoint_id=folder)
        other, other_optimizer = sharded(rank, size)
        load(other, other_optimizer, folder)
        train(other, other_optimizer, batches(rank))
    return whole_weights(other)


@sharded_feature
def checkpoint_async(rank, size):
    """A sharded model, saved by a thread while it trains on."""
    import torch.distributed.checkpoint as dcp

    with shared_folder(rank) as folder:
        model, optimizer = sharded(rank, size)
        train(model, optimizer, batches(rank))
        before = whole_weights(model)
        # The calls of both threads are in flight at once.
        group = dist.new_group(backend=dist.get_backend())
        saved = dcp.async_save(states(model, optimizer), checkpoint_id=folder,
                               process_group=group)
        train(model, optimizer, batches(rank))
        saved.result()
        other, other_optimizer = sharded(rank, size)
        load(other, other_optimizer, folder)
        assert all(map(torch.equal, whole_weights(other), before)), "other weights"
        dist.destroy_process_group(group)
    return whole_weights(model)


@sharded_feature
def checkpoint_resharded(rank, size):
    """A sharded model, saved by all ranks, and opened and trained by fewer, and back."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.device_mesh import DeviceMesh

    if size == 1:
        return []
    fewer = list(range(size - 1))
    mesh = DeviceMesh("cpu", fewer)
    group = dist.new_group(fewer)
    with shared_folder(rank) as first, shared_folder(rank) as second:
        model, optimizer = sharded(rank, size)
        train(model, optimizer, batches(rank))
        dcp.save(states(model, optimizer), checkpoint_id=first)
        if rank in fewer:
            other, other_optimizer = sharded(rank, size, mesh)
            load(other, other_optimizer, first, group)
            train(other, other_optimizer, batches(rank))
            dcp.save(states(other, other_optimizer), checkpoint_id=second,
                     process_group=group)
        dist.barrier()
        load(model, optimizer, second)
        train(model, optimizer, batches(rank))
    return whole_weights(model)


# ---- DTensor and pipelines ----

@feature
def tensors(rank, size):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (size,))
    # Parts differ in size; none is empty, since an empty part has no largest element.
    height = 3 * size - 1
    whole = torch.arange(height * 11, dtype=torch.float32).reshape(height, 11)
    rows = distribute_tensor(whole, mesh, [Shard(0)])
    columns = rows.redistribute(mesh, [Shard(1)])
    product = torch.mm(columns, distribute_tensor(whole.T.contiguous(), mesh,
                                                  [Shard(0)]))
    return Same([columns.redistribute(mesh, [Replicate()]).to_local(),
                 product.full_tensor(), rows.sum(0).full_tensor(),
                 rows.max().full_tensor()])


@feature
def tensor_parallel(rank, size):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import (
        ColwiseParallel, RowwiseParallel, parallelize_module)

    mesh = init_device_mesh("cpu", (size,))
    model = parallelize_module(network(8 * size), mesh, {
        "0": ColwiseParallel(), "2": RowwiseParallel()})
    train(model, sgd(model), batches(0))
    return Same(getattr(p, "full_tensor", lambda p=p: p)().detach()
                for p in model.parameters())


def pipeline_by(schedule, rank, size):
    from torch.distributed.pipelining import PipelineStage

    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(17, 17), nn.Tanh()) for _ in range(size)]
    mine = layers[rank]
    stage = PipelineStage(mine, rank, size, torch.device("cpu"))
    plan = schedule(stage, n_microbatches=4,
                    loss_fn=lambda x, y: F.cross_entropy(x, y))
    optimizer = sgd(mine)
    kept = []
    for x, y in batches(0):
        optimizer.zero_grad()
        losses = []
        if rank == size - 1:
            plan.step(*([x] if rank == 0 else []), target=y, losses=losses)
        elif rank == 0:
            plan.step(x)
        else:
            plan.step()
        optimizer.step()
        kept += [loss.detach() for loss in losses]
    return kept + [p.detach().clone() for p in mine.parameters()]


@feature
def pipeline_gpipe(rank, size):
    from torch.distributed.pipelining import ScheduleGPipe

    return pipeline_by(ScheduleGPipe, rank, size)


@feature
def pipeline_1f1b(rank, size):
    from torch.distributed.pipelining import Schedule1F1B

    if size > 4:  # as many microbatches as stages, at least
        return []
    if torch.__version__.startswith("2.7."):  # where it hangs on gloo
        return []
    return pipeline_by(Schedule1F1B, rank, size)


# ---- calls ----

def functions(x, group, size):
    total = functional.all_reduce(x * 2, "sum", group)
    gathered = functional.all_gather_tensor(total + 1, 0, group)
    part = functional.reduce_scatter_tensor(gathered, "sum", 0, group)
    turned = functional.all_to_all_single(
        functional.wait_tensor(gathered), None, None, group)
    return total + part, turned


@feature
def functional_collectives(rank, size):
    x = torch.arange(13.0) + rank
    several = functional.all_reduce_coalesced([x, x + 1], "sum", dist.group.WORLD)
    gathered = functional.all_gather_into_tensor_coalesced([x, x * 3],
                                                           dist.group.WORLD)
    return [*functions(x, dist.group.WORLD, size), *several, *gathered]


@feature
def compiled(rank, size):
    torch._dynamo.reset()
    run = torch.compile(functions, backend="aot_eager", fullgraph=True)
    return list(run(torch.arange(13.0) + rank, dist.group.WORLD, size))


@feature
def compiled_ddp(rank, size):
    torch._dynamo.reset()
    model = DDP(torch.compile(network(), backend="aot_eager"))
    train(model, sgd(model), batches(rank))
    return weights(model)


@feature
def objects(rank, size):
    got = [None] * size
    dist.all_gather_object(got, {"rank": rank, "word": "x" * (1000 * rank + 1)})
    told = [{"a": rank}, "b" * rank]
    dist.broadcast_object_list(told, size - 1)
    mine = [None]
    dist.scatter_object_list(mine, [f"to {i}" for i in range(size)] if rank == 0
                             else None, 0)
    gathered = [None] * size if rank == 0 else None
    dist.gather_object(("from", rank), gathered, 0)
    text = repr((got, told, mine, gathered)).encode()
    return [torch.tensor(list(hashlib.sha256(text).digest()))]


@feature
def subgroups(rank, size):
    """Overlapping pairs, calls under way in all of them at once."""
    pairs = [sorted({i, (i + 1) % size}) for i in range(size)]
    groups = [dist.new_group(pair) for pair in pairs]
    data = [torch.full((101 + i,), float(rank + i)) for i in range(size)]
    works = [dist.all_reduce(data[i], group=groups[i], async_op=True)
             for i in range(size) if rank in pairs[i]]
    for work in reversed(works):
        work.wait()
    mine, _ = dist.new_subgroups_by_enumeration(
        [list(range(size // 2)), list(range(size // 2, size))]
        if size > 1 else [[0]])
    total = torch.tensor([float(rank)])
    dist.all_reduce(total, group=mine)
    for group in groups:
        if group is not dist.GroupMember.NON_GROUP_MEMBER:
            dist.destroy_process_group(group)
    return data + [total]


@feature
def messages(rank, size):
    ranks.monitored_barrier(60)
    if size == 1:
        return []
    after, before = (rank + 1) % size, (rank - 1) % size
    sent = [torch.full((n,), float(10 * rank + n)) for n in (1, 0, 5000, 300001)]
    room = [torch.zeros_like(x) for x in sent]
    works = dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, x, after, tag=i) for i, x in enumerate(sent)]
        + [dist.P2POp(dist.irecv, x, before, tag=i) for i, x in enumerate(room)])
    total = torch.ones(3)
    dist.all_reduce(total)  # while messages are in flight
    for work in works:
        work.wait()
    found = torch.zeros(size)
    if rank == 0:
        for _ in range(size - 1):
            one = torch.zeros(1)
            found[dist.recv(one, tag=9)] = one.item()
    else:
        dist.send(torch.tensor([float(rank)]), 0, tag=9)
    return room + [total, found]


# ---- beside gloo ----

def bound(size, found):
    """Sums of `size` addends in another order, carried through STEPS steps."""
    if not found.is_floating_point():
        return 0
    return 32 * STEPS * size * torch.finfo(torch.float32).eps


def compare(name, size, theirs, ours):
    assert len(theirs) == len(ours), name
    loose = "16" in name or "power" in name  # a sum that is rounded to 16 bits
    for a, b in zip(theirs, ours):
        if size <= 2:
            assert torch.equal(a, b), \
                f"{name}: {(a - b).abs().max()} from gloo on {size} ranks"
        else:
            tolerance = 0.02 if loose else bound(size, a)
            assert torch.allclose(a, b, rtol=tolerance, atol=tolerance), \
                f"{name}: {(a - b).abs().max()} from gloo on {size} ranks"


def same_everywhere(name, result):
    """By gloo, that the bits of a result are those of rank 0."""
    text = b"".join(x.reshape(-1).view(torch.uint8).numpy().tobytes()
                    for x in result)
    mine = hashlib.sha256(text).hexdigest()
    first = [mine]
    dist.broadcast_object_list(first, 0)
    assert first[0] == mine, f"{name}: other bits than rank 0 has"


def run_all(rank, size, names, told):
    out = {}
    for name in names:
        if told:
            print(f"  {name}", flush=True)
        torch.manual_seed(rank)
        out[name] = FEATURES[name](rank, size)
    return out


def work(rank, size, backend, names, folder, told):
    warnings.simplefilter("ignore")
    theirs = run_all(rank, size, names, False)
    dist.destroy_process_group()
    dist.init_process_group(backend, init_method=f"file://{folder}/{size}",
                            rank=rank, world_size=size)
    ours = run_all(rank, size, names, told and rank == 0)
    dist.destroy_process_group()
    dist.init_process_group("gloo", init_method=f"file://{folder}/{size}.last",
                            rank=rank, world_size=size)
    for name in names:
        if isinstance(ours[name], Same):
            same_everywhere(name, ours[name])
        compare(name, size, theirs[name], ours[name])
    dist.barrier()  # gloo's connections are made late
    if rank == 0:
        print(f"{size} ranks: {len(names)} features are as on gloo", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 3])
    parser.add_argument("--only", nargs="+", help="features whose names begin so")
    parser.add_argument("--backend", default="lockstep")
    parser.add_argument("--apart", action="store_true",
                        help="each in separate processes; a failure does not stop the others")
    parser.add_argument("--told", action="store_true", help="print names")
    arguments = parser.parse_args()
    if arguments.backend not in ranks.backends():
        return 77
    names = [name for name in FEATURES if not arguments.only
             or name.startswith(tuple(arguments.only))]
    parts = [[name] for name in names] if arguments.apart else [names]
    failed = []
    for size in arguments.ranks:
        for part in parts:
            with tempfile.TemporaryDirectory() as folder:
                try:
                    ranks.run(size, "gloo", work, arguments.backend, part, folder,
                              arguments.told)
                except AssertionError as error:
                    failed.append(f"{part} on {size} ranks: {error}")
    print("\n".join(failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
