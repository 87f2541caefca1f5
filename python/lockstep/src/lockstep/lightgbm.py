"""Let LightGBM communicate over a group instead of sockets.

```python
import lightgbm as lgb, lockstep, lockstep.lightgbm
with lockstep.Group.from_env() as group, lockstep.lightgbm.install(group) as network:
    model = lgb.train({"objective": "regression", **network.parameters},
                      lgb.Dataset(x, y))  # this rank's rows
```

docs/how-to/lightgbm.md has a complete example.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import c_char_p, c_double, c_int, c_void_p
from typing import Any, Optional

from ._group import Group
from ._library import _FILE, Error, StateError, _library

__all__ = ["Network", "install"]

_MODULE = os.path.join("lockstep-" + _FILE.partition(".so.")[2],
                       "liblockstep-lightgbm.so")
_FATAL = "_ZN8LightGBM3Log5FatalEPKcz"  # LightGBM::Log::Fatal(const char*, ...)


def _load_module() -> ctypes.CDLL:
    """Load the functions in C: of the wheel, or next to LOCKSTEP_COMM_LIBRARY."""
    named = os.environ.get("LOCKSTEP_COMM_LIBRARY")
    own = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib")
    folders = ([os.path.dirname(os.path.abspath(named))] if named else []) + [own]
    for path in (os.path.join(folder, _MODULE) for folder in folders):
        if os.path.exists(path):
            module = ctypes.CDLL(path)
            module.lsi_lightgbm_begin.argtypes = [c_void_p, c_void_p]
            module.lsi_lightgbm_end.restype = None
            module.lsi_lightgbm_seconds.restype = c_double
            return module
    raise Error(f"{_MODULE} is not in {' or '.join(folders)}. Install the wheel of "
                "lockstep-dp without LOCKSTEP_COMM_LIBRARY")


def _load_lightgbm() -> ctypes.CDLL:
    import lightgbm

    library = getattr(getattr(lightgbm, "basic", None), "_LIB", None)
    for name in ("LGBM_NetworkInitWithFunctions", "LGBM_NetworkFree", _FATAL):
        if not hasattr(library, name):
            raise Error(f"LightGBM {lightgbm.__version__} has no {name}, by which "
                        "Lockstep joins its network; 4.7.0 has it")
    assert library is not None
    return library


def _address(function: Any) -> c_void_p:
    return ctypes.cast(function, c_void_p)


class Network:
    """LightGBM's network on the thread that called install().

    A context manager that calls free().

    Attributes:
        parameters: those of LightGBM that make training distributed: the number of
            ranks, and "data" as the tree learner. "voting" works, too.
    """

    def __init__(self, library: ctypes.CDLL, module: ctypes.CDLL,
                 group: Group) -> None:
        self._library, self._module = library, module
        self._group: Optional[Group] = group
        self._seconds = 0.0
        self.parameters: dict[str, Any] = {"num_machines": group.size,
                                           "tree_learner": "data"}
        if module.lsi_lightgbm_begin(group._core.handle, _address(
                library[_FATAL])) != 0:
            raise StateError("LightGBM's network is installed on this thread; free "
                             "it first")
        if library.LGBM_NetworkInitWithFunctions(
                c_int(group.size), c_int(group.rank),
                _address(module.lsi_lightgbm_reduce_scatter),
                _address(module.lsi_lightgbm_all_gather)) != 0:
            library.LGBM_GetLastError.restype = c_char_p
            module.lsi_lightgbm_end()
            raise Error(library.LGBM_GetLastError().decode())

    @property
    def seconds(self) -> float:
        """Seconds that this rank has spent in collectives, without the reducer.

        LightGBM logs these of its sockets as "Finished linking network in".
        """
        if self._group is None:
            return self._seconds
        return float(self._module.lsi_lightgbm_seconds())

    def free(self) -> None:
        """Leave the network: LightGBM trains alone again. Local.

        Call it on the thread that called install(). May be called again.
        """
        if self._group is None:
            return
        self._seconds = self.seconds
        self._library.LGBM_NetworkFree()
        self._module.lsi_lightgbm_end()
        self._group.close()
        self._group = None

    def __enter__(self) -> Network:
        return self

    def __exit__(self, *_: Any) -> None:
        self.free()


def install(group: Group) -> Network:
    """Make LightGBM communicate over the ranks of a group. Collective.

    LightGBM's network belongs to the thread that calls this: create data sets and
    train on the same thread. The network has its own copy of the group.

    Args:
        group: the ranks that train together. It stays usable.

    Returns:
        The network, to be freed when training is over.

    Raises:
        Error: LightGBM is missing or unsuitable on a rank, this thread has a
            network, or a rank is dead or late.
    """
    problem, ready = None, None
    try:
        ready = _load_lightgbm(), _load_module()
    except (ImportError, OSError, Error) as error:
        problem = str(error)
    for rank, why in enumerate(group.allgather_object(problem)):
        if why is not None:
            raise Error(f"rank {rank} cannot install LightGBM's network: {why}")
    assert ready is not None
    part = group.split(0)
    assert part is not None
    try:
        return Network(*ready, part)
    except BaseException:
        part.close()
        raise
