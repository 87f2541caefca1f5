"""The backend "lockstep" of torch.distributed: CPU ranks over shared memory.

    torch.distributed.init_process_group("lockstep")

PyTorch 2.15 finds it by itself, those before it once this package is imported.
"""

from __future__ import annotations

import os
import warnings
from datetime import timedelta
from typing import Any, Optional


def _autoload() -> None:
    """Called while torch is imported, which imports this first.

    Defined before torch is imported here: else who imports this package first
    has torch look for it in a package that is half there.
    """


import torch
import torch.distributed as dist

from .sync_batch_norm import SyncBatchNorm

__all__ = ["SyncBatchNorm", "create", "implementation", "register",
           "shared_buckets"]

_DEFAULT_TIMEOUT = timedelta(minutes=30)


def _extension() -> Any:
    """The C++ part, or None: not built, or for another PyTorch.

    LOCKSTEP_TORCH=cpp insists on it, LOCKSTEP_TORCH=ctypes goes without.
    """
    wanted = os.environ.get("LOCKSTEP_TORCH", "")
    if wanted not in ("", "cpp", "ctypes"):
        raise ValueError(
            f'LOCKSTEP_TORCH is "{wanted}" and should be cpp or ctypes')
    if wanted == "ctypes":
        return None
    told = os.environ.get("LOCKSTEP_COMM_LIBRARY")
    try:
        if told:
            import ctypes
            ctypes.CDLL(told)  # what the extension then finds loaded
        from . import _C
    except ImportError as error:
        if wanted == "cpp":
            raise
        if isinstance(error, ModuleNotFoundError):
            return None
        warnings.warn(f"lockstep_torch: the C++ part does not load, ctypes "
                      f"serves instead: {error}")
        return None
    here = ".".join(torch.__version__.split(".")[:2])
    if _C.built_for != here:
        text = (f"lockstep_torch: the C++ part was built for PyTorch "
                f"{_C.built_for}, and this is {here}; install the package "
                f"again")
        if wanted == "cpp":
            raise ImportError(text)
        warnings.warn(text + "; ctypes serves until then")
        return None
    return _C


_loaded: Optional[tuple[str, Any]] = None


def _backend() -> tuple[str, Any]:
    """What serves here, and the class."""
    global _loaded
    if _loaded is None:
        extension = _extension()
        if extension is not None:
            _loaded = "cpp", extension.Backend
        else:
            from ._ctypes_backend import Backend
            _loaded = "ctypes", Backend
    return _loaded


def shared_buckets(model: Any, timeout: Optional[timedelta] = None) -> None:
    """Has DDP's buckets averaged in place, in memory that all ranks map.

    See lockstep_torch.buckets.share, which this calls.
    """
    from .buckets import share
    share(model, timeout)


def implementation() -> str:
    """"cpp", or "ctypes" where the C++ part is not there."""
    return _backend()[0]


def create(store: Any, rank: int, size: int,
           timeout: timedelta = _DEFAULT_TIMEOUT) -> Any:
    """A backend for rank `rank` of `size`, which meet at a torch Store.

    What torch.distributed.Backend.register_backend asks for, so that a program
    can register it under any name. Called by the members of the group only.
    """
    return _create_as(_registered_name(), store, rank, size, timeout)


def _create_as(name: str, store: Any, rank: int, size: int,
               timeout: timedelta) -> Any:
    """As create; `name` is what the backend, and its events, go by."""
    implementation, backend = _backend()
    if implementation == "cpp":
        return backend(store, rank, size, timeout, name)
    return backend(store, rank, size, timeout)


def _registered_name() -> str:
    """Under which a program has registered `create`: the latest, if several."""
    for name, plugin in reversed(list(dist.Backend._plugins.items())):
        if plugin.creator_fn is create:
            return name.lower()
    return "lockstep"


def _create_lockstep(store: Any, rank: int, size: int,
                     timeout: timedelta = _DEFAULT_TIMEOUT) -> Any:
    return _create_as("lockstep", store, rank, size, timeout)


def register() -> None:
    """Registers the backend "lockstep"; to import the package is enough."""
    if "LOCKSTEP" not in dist.Backend._plugins:
        dist.Backend.register_backend("lockstep", _create_lockstep,
                                      devices=["cpu"])


if dist.is_available():
    register()
