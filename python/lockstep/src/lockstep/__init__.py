"""Collectives on NumPy arrays, between processes over shared memory.

```python
import lockstep, numpy as np
with lockstep.Group.from_env() as group:
    print(group.allreduce(np.arange(3.0) + group.rank))
```

Start two ranks of such a program by `lockstep run -n 2 -- example.py`, torchrun or
mpirun. All calls are methods of Group: help(lockstep.Group) lists the arguments,
results and errors of each. wait_all and wait_any wait for several requests, and
GradientAverager averages gradients. All errors are subclasses of Error. Its attribute
`rank` is the rank that caused the error.

A receive or a probe with ANY_RANK accepts messages from all ranks. With ANY_TAG, it
accepts all tags.
"""

from typing import TYPE_CHECKING, Any

from ._library import (AbortedError, ArgumentError, ArgumentTypeError, Error,
                       LateError, MismatchError, OutOfMemoryError, PeerDeadError,
                       StateError, StoreLike, SystemCallError, ask as _ask)
from ._types import DTypeName, ReduceOp

# Tracebacks name the exceptions as programs do.
for _error in (AbortedError, ArgumentError, ArgumentTypeError, Error, LateError,
               MismatchError, OutOfMemoryError, PeerDeadError, StateError,
               SystemCallError):
    _error.__module__ = __name__

if TYPE_CHECKING:
    from ._audit import Audit, Part
    from ._averager import GradientAverager
    from ._group import Group, Request
    from ._messages import Message
    from ._request import wait_all, wait_any

__version__: str = _ask("ls_version_string").decode()

ANY_RANK = -1  # source of a receive or a probe: any rank
ANY_TAG = -1  # tag of a receive or a probe: any tag

__all__ = ["ANY_RANK", "ANY_TAG", "AbortedError", "ArgumentError",
           "ArgumentTypeError", "Audit", "DTypeName", "Error", "GradientAverager", "Group",
           "LateError", "Message", "MismatchError", "OutOfMemoryError",
           "Part", "PeerDeadError", "ReduceOp", "Request", "StateError", "StoreLike",
           "SystemCallError", "__version__", "wait_all", "wait_any"]


def __getattr__(name: str) -> Any:
    """Import a module that needs NumPy when it is first used, not before."""
    if name in ("Group", "Request"):
        from . import _group
        return getattr(_group, name)
    if name == "Message":
        from ._messages import Message
        return Message
    if name in ("wait_all", "wait_any"):
        from . import _request
        return getattr(_request, name)
    if name in ("Audit", "Part"):
        from . import _audit
        return getattr(_audit, name)
    if name == "GradientAverager":
        from ._averager import GradientAverager
        return GradientAverager
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
