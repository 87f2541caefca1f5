"""The backend "lockstep" of torch.distributed: CPU ranks over shared memory.

```python
import torch.distributed as dist
import lockstep_torch
dist.init_process_group("lockstep")    # in place of "gloo"
```

PyTorch 2.15 and later find the backend without the import. SyncBatchNorm normalises
over the batches of all ranks on CPU, and shared_buckets averages DDP's gradients
without copies.
"""

from __future__ import annotations

import importlib
import os
import sys
from datetime import timedelta
from typing import Any, Optional


def _autoload() -> None:
    """Called by torch at the end of its import.

    Defined above the import of torch. Otherwise a program that imports this package
    first has torch look for this function in a half-imported package.
    """


import torch
import torch.distributed as dist

from .sync_batch_norm import SyncBatchNorm

__all__ = ["SyncBatchNorm", "create", "register", "shared_buckets"]

_DEFAULT_TIMEOUT = timedelta(minutes=30)


_REINSTALL = ("In a checkout of lockstep, run: "
              "pip install --force-reinstall --no-deps ./python")


def _load() -> Any:
    """Import the C++ module. An ImportError names the mismatch and the command that fixes it."""
    here = torch.__version__
    try:
        # This import loads the library, which the module then finds.
        importlib.import_module("lockstep._library")
    except (ModuleNotFoundError, OSError) as error:
        raise ImportError(
            f"lockstep_torch: cannot import the package lockstep-dp, whose library it "
            f"uses: {error}. In a checkout of lockstep, run: "
            "pip install --force-reinstall --no-deps ./python/lockstep") from error
    try:
        module = importlib.import_module("._C", __name__)
    except ModuleNotFoundError as error:
        raise ImportError(
            f"lockstep_torch: '{os.path.dirname(__file__)}' has no C++ module for "
            f"Python {sys.version_info[0]}.{sys.version_info[1]}. {_REINSTALL}") from error
    except ImportError as error:
        raise ImportError(
            f"lockstep_torch: cannot load the C++ module with PyTorch {here}: "
            f"{error}. Build it for this PyTorch. {_REINSTALL}") from error
    if module.built_for != ".".join(here.split(".")[:2]):
        raise ImportError(
            f"lockstep_torch: the C++ module was built for PyTorch {module.built_for}, "
            f"but PyTorch {here} is installed. Build it for this PyTorch. {_REINSTALL}")
    return module


_loaded: Any = None


def _backend() -> Any:
    """The C++ module, loaded once."""
    global _loaded
    if _loaded is None:
        _loaded = _load()
    return _loaded


def shared_buckets(model: Any, timeout: Optional[timedelta] = None) -> None:
    """Average DDP's buckets in place, in memory that all ranks map. Collective.

    Call it once, after DistributedDataParallel and before the first step. The
    gradients are the same averages as without it. From the third iteration on,
    when DDP has ordered its buckets, the buckets are in shared memory, whose size
    is that of the gradients. It installs a communication hook, of which a model has
    only one.

    Args:
        model: a DistributedDataParallel made with
            ``gradient_as_bucket_view=True``, on the CPU. Its process group may
            have any backend; all its ranks are on one machine.
        timeout: time for which ranks wait for each other (default: five minutes).

    Raises:
        ValueError: the model is not on the CPU, or its gradients are not views
            of buckets.
        RuntimeError: the model already has a communication hook, or a rank is dead
            or late.
    """
    from .buckets import share
    share(model, timeout)


def create(store: Any, rank: int, size: int,
           timeout: timedelta = _DEFAULT_TIMEOUT) -> Any:
    """Create a backend, for a program that registers it under another name.

        dist.Backend.register_backend("mine", lockstep_torch.create, devices=["cpu"])

    Collective: all ranks of the group call it, and no others.

    Args:
        store: the torch Store through which the ranks find each other.
        rank: this process's rank, 0 to size - 1.
        size: number of ranks.
        timeout: time for which ranks wait for each other (default: 30 minutes).

    Returns:
        A torch.distributed.Backend.

    Raises:
        ImportError: the C++ module does not fit this PyTorch.
        RuntimeError: a rank is dead or late, or ranks disagree about the size.
    """
    return _create_as(_registered_name(), store, rank, size, timeout)


def _create_as(name: str, store: Any, rank: int, size: int,
               timeout: timedelta) -> Any:
    """As create; `name` is the name of the backend and of its events."""
    return _backend().Backend(store, rank, size, timeout, name)


def _registered_name() -> str:
    """The name under which a program registered `create`: the latest, if several."""
    for name, plugin in reversed(list(dist.Backend._plugins.items())):
        if plugin.creator_fn is create:
            return name.lower()
    return "lockstep"


def _create_lockstep(store: Any, rank: int, size: int,
                     timeout: timedelta = _DEFAULT_TIMEOUT) -> Any:
    return _create_as("lockstep", store, rank, size, timeout)


def register() -> None:
    """Register the backend "lockstep". Importing the package does so. Local."""
    if "LOCKSTEP" not in dist.Backend._plugins:
        dist.Backend.register_backend("lockstep", _create_lockstep,
                                      devices=["cpu"])


if dist.is_available():
    register()
