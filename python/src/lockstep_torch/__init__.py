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

import atexit
import ctypes
import glob
import importlib
import os
import re
from datetime import timedelta
from typing import Any, Optional


def _autoload() -> None:
    """PyTorch calls this function at the end of its import.

    The function is defined above the import of torch. Otherwise, if a program imports
    this package first, PyTorch does not find the function.
    """


import torch
import torch.distributed as dist

from .accelerate import patch_accelerate
from .sync_batch_norm import SyncBatchNorm

__all__ = ["SyncBatchNorm", "create", "patch_accelerate", "register", "shared_buckets"]

_DEFAULT_TIMEOUT = timedelta(minutes=30)


_REINSTALL = ("In a checkout of lockstep, run: "
              "pip install --force-reinstall --no-deps ./python")
_REBUILD = f"Build the bridge for this PyTorch. {_REINSTALL}"

_HERE = os.path.dirname(os.path.abspath(__file__))


def _bridge_for(version: str) -> str:
    """Return the path of the C++ bridge for this PyTorch, or raise an ImportError.

    There is one bridge for each minor release: _bridge_2_15.so.
    """
    found = {tuple(map(int, re.findall(r"\d+", os.path.basename(path)))): path
             for path in glob.glob(os.path.join(_HERE, "_bridge_*.so"))}
    major, minor = version.split(".")[:2]
    path = found.get((int(major), int(minor)))
    if path:
        return path
    if not found:
        raise ImportError(
            f"lockstep_torch: '{_HERE}' contains no C++ bridge. {_REINSTALL}")
    releases = ", ".join(".".join(map(str, release)) for release in sorted(found))
    raise ImportError(
        f"lockstep_torch: this package is for PyTorch {releases}, but PyTorch {version} "
        f"is installed. {_REBUILD}")


def _raise_error(address: int) -> None:
    """Raise the exception at this address. The bridge calls it to end a wait."""
    raise ctypes.cast(address, ctypes.py_object).value


def _load() -> Any:
    """Load the C++ bridge and return its operators.

    Raises an ImportError with the cause, and with the command that fixes it.
    """
    try:
        # This import loads the library, which the bridge then finds.
        importlib.import_module("lockstep._library")
    except (ModuleNotFoundError, OSError) as error:
        raise ImportError(
            f"lockstep_torch: cannot import the package lockstep-dp, which "
            f"lockstep_torch needs: {error}. In a checkout of lockstep, run: "
            "pip install --force-reinstall --no-deps ./python/lockstep") from error
    path = _bridge_for(torch.__version__)
    try:
        torch.ops.load_library(path)
    except OSError as error:
        raise ImportError(
            f"lockstep_torch: cannot load the C++ bridge with PyTorch "
            f"{torch.__version__}: {error.__cause__ or error}. {_REBUILD}") from error
    torch.library.impl("lockstep::raise_error", "default", _raise_error)
    atexit.register(torch.ops.lockstep.shut_down_all)  # before threads and modules end
    return torch.ops.lockstep


_loaded: Any = None


def _bridge() -> Any:
    """Return the operators of the C++ bridge. The first call loads it."""
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
        ImportError: the package contains no C++ bridge for this PyTorch.
        RuntimeError: a rank is dead or late, or ranks disagree about the size.
    """
    return _create_as(_registered_name(), store, rank, size, timeout)


def _create_as(name: str, store: Any, rank: int, size: int,
               timeout: timedelta) -> Any:
    """Create a backend called `name`; its profiler events begin with this name."""
    return _open(name, store, rank, size, timeout)._get_backend(torch.device("cpu"))


def _open(name: str, store: Any, rank: int, size: int, timeout: timedelta) -> Any:
    """Create a process group whose only backend is called `name`.

    PyTorch passes groups to the operators of a library, but no backends.
    """
    operators = _bridge()
    group = dist.ProcessGroup(store, rank, size)
    operators.create(group.boxed(), timeout // timedelta(milliseconds=1), name)
    return group


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
