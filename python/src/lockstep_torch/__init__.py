"""The backend "lockstep" for torch.distributed: ranks on CPUs, over shared memory.

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
    """PyTorch calls this function at the end of its import.

    The function is defined above the import of torch. Otherwise, if a program imports
    this package first, PyTorch does not find the function.
    """


import torch
import torch.distributed as dist

from .sync_batch_norm import SyncBatchNorm

__all__ = ["SyncBatchNorm", "create", "register", "shared_buckets"]

_DEFAULT_TIMEOUT = timedelta(minutes=30)


_REINSTALL = ("In a checkout of lockstep, run: "
              "pip install --force-reinstall --no-deps ./python")
_REBUILD = f"Build the module for this PyTorch. {_REINSTALL}"


def _load() -> Any:
    """Import the C++ module.

    Raises an ImportError with the cause, and with the command that fixes it.
    """
    here = torch.__version__
    try:
        # This import loads the library, which the module then finds.
        importlib.import_module("lockstep._library")
    except (ModuleNotFoundError, OSError) as error:
        raise ImportError(
            f"lockstep_torch: cannot import the package lockstep-dp, which "
            f"lockstep_torch needs: {error}. In a checkout of lockstep, run: "
            "pip install --force-reinstall --no-deps ./python/lockstep") from error
    try:
        module = importlib.import_module("._C", __name__)
    except ModuleNotFoundError as error:
        raise ImportError(
            f"lockstep_torch: '{os.path.dirname(__file__)}' contains no C++ module for "
            f"Python {sys.version_info[0]}.{sys.version_info[1]}. {_REINSTALL}") from error
    except ImportError as error:
        raise ImportError(
            f"lockstep_torch: cannot load the C++ module with PyTorch {here}: "
            f"{error}. {_REBUILD}") from error
    if module.built_for != ".".join(here.split(".")[:2]):
        raise ImportError(
            f"lockstep_torch: the C++ module was built for PyTorch {module.built_for}, "
            f"but PyTorch {here} is installed. {_REBUILD}")
    return module


_loaded: Any = None


def _backend() -> Any:
    """Return the C++ module. The first call loads it."""
    global _loaded
    if _loaded is None:
        _loaded = _load()
    return _loaded


def shared_buckets(model: Any, timeout: Optional[timedelta] = None) -> None:
    """Average DDP's gradient buckets in place, in shared memory. Collective.

    Call it once, after DistributedDataParallel and before the first step. The averages
    are the same as without this call. From the third iteration on, when DDP has
    ordered its buckets, the buckets are in shared memory of the same size. The call
    installs a communication hook; a model can have only one.

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
    """Create a backend. A program can register this function under another name.

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
    """Create a backend called `name`; its profiler events begin with this name."""
    return _backend().Backend(store, rank, size, timeout, name)


def _registered_name() -> str:
    """Return the name under which the program last registered `create`."""
    for name, plugin in reversed(list(dist.Backend._plugins.items())):
        if plugin.creator_fn is create:
            return name.lower()
    return "lockstep"


def _create_lockstep(store: Any, rank: int, size: int,
                     timeout: timedelta = _DEFAULT_TIMEOUT) -> Any:
    return _create_as("lockstep", store, rank, size, timeout)


def register() -> None:
    """Register the backend "lockstep". Importing the package calls register(). Local."""
    if "LOCKSTEP" not in dist.Backend._plugins:
        dist.Backend.register_backend("lockstep", _create_lockstep,
                                      devices=["cpu"])


if dist.is_available():
    register()
