"""Collectives between processes over shared memory, on NumPy arrays.

    import lockstep, numpy as np
    with lockstep.Group.from_env() as group:
        print(group.allreduce(np.arange(3.0) + group.rank))
"""

from ._group import Group, Request, StoreLike
from ._library import (AbortedError, ArgumentError, Error, LateError,
                       MismatchError, PeerDeadError, ask as _ask)

__version__: str = _ask("ls_version_string").decode()

__all__ = ["AbortedError", "ArgumentError", "Error", "Group", "LateError",
           "MismatchError", "PeerDeadError", "Request", "StoreLike",
           "__version__"]
