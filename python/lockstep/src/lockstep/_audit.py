"""Write audit files: digests of a training's state, as a chain."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from types import TracebackType
from typing import Any, Callable, Mapping, NamedTuple, Optional, TypeVar, Union

import numpy as np

from ._group import Array, Group
from ._library import ArgumentError, MismatchError, StateError, ask

_LEAF = 4096  # elements
_MOST_BLOCKS = 16
_TYPES = {"float16": "f16", "float32": "f32", "float64": "f64", "bfloat16": "bf16",
          "int8": "i8", "uint8": "u8", "int32": "i32", "int64": "i64", "bool": "bool"}
_MARK = ',"digest":"'

_T = TypeVar("_T")
_Leaves = dict[tuple[str, int], bytes]


class Part(NamedTuple):
    """The elements of a tensor that this rank has, in row-major order.

    Attributes:
        data: the elements, contiguous.
        begin: number of the first one in the whole tensor.
        count: elements of the whole tensor. Together the ranks must have each
            element once.
    """

    data: Array
    begin: int
    count: int


def _sha(*pieces: Any) -> bytes:
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.digest()


def _of_all(tensor: Any, group: Group) -> Part:
    """This rank's leaves of a tensor that every rank has."""
    flat = np.ascontiguousarray(tensor).reshape(-1)
    leaves = -(-flat.size // _LEAF)
    begin, end = (min(flat.size, leaves * rank // group.size * _LEAF)
                  for rank in (group.rank, group.rank + 1))
    return Part(flat[begin:end], begin, flat.size)


def _digest_leaves(name: str, part: Part, whole: _Leaves,
                   pieces: list[tuple[str, int, int, bytes]]) -> None:
    """Digest the leaves that this rank has, and add the pieces of others."""
    flat = np.ascontiguousarray(part.data).reshape(-1)
    size = flat.dtype.itemsize
    data = memoryview(flat.view(np.uint8))
    at, end = part.begin, part.begin + flat.size
    while at < end:
        leaf = at // _LEAF
        stop = min(end, (leaf + 1) * _LEAF)
        own = data[(at - part.begin) * size:(stop - part.begin) * size]
        if stop - at == min(part.count - leaf * _LEAF, _LEAF):
            whole[name, leaf] = _sha(own)
        else:
            pieces.append((name, leaf, at, bytes(own)))
        at = stop


def _join(pieces: list[tuple[str, int, int, bytes]], leaves: _Leaves) -> None:
    joined: dict[tuple[str, int], list[tuple[int, bytes]]] = {}
    for name, leaf, at, data in pieces:
        joined.setdefault((name, leaf), []).append((at, data))
    for key, parts in joined.items():
        leaves[key] = _sha(*(data for _, data in sorted(parts)))


def _digest_tensor(name: str, count: int, leaves: _Leaves) -> tuple[bytes, list[bytes]]:
    n = -(-count // _LEAF)
    missing = [leaf for leaf in range(n) if (name, leaf) not in leaves]
    if missing:
        raise ArgumentError(f"tensor '{name}': no rank has the elements from "
                            f"{missing[0] * _LEAF} on; its count is {count}")
    all_leaves = [leaves[name, leaf] for leaf in range(n)]
    each = 1
    while n > each * _MOST_BLOCKS:
        each *= 2
    blocks = [_sha(*all_leaves[i:i + each]) for i in range(0, n, each)]
    return _sha(*blocks), blocks


def _pairs(given: Optional[Mapping[str, Any]]) -> dict[str, str]:
    return {str(name): str(value) for name, value in (given or {}).items()}


def _first_difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> Optional[str]:
    names = [*one, *(name for name in other if name not in one)]
    return next((name for name in names if one.get(name) != other.get(name)), None)


class Audit:
    """Write a file that proves a training run, as `lockstep train --audit` does.

        with lockstep.Audit(group, "run.audit", settings={"seed": 7}) as audit:
            audit.step(0, tensors)
            for step in range(1, steps + 1):
                train()
                if step % 10 == 0:
                    audit.step(step, tensors)
            print("final digest", audit.digest)

    Each entry has SHA-256 digests of all tensors, and the digest of the entry before. So
    the last digest covers the whole file. Entries do not depend on the number of
    ranks. `lockstep audit check` and `lockstep audit compare` read the file. Rank 0
    writes it. All calls are collective.

    Attributes:
        digest: of the last entry, the same on every rank.
    """

    def __init__(self, group: Group, path: str, *,
                 settings: Optional[Mapping[str, Any]] = None, resume: bool = False,
                 step: int = 0) -> None:
        """Create the file, or continue the file of a run that was interrupted.

        Args:
            group: the ranks that train.
            path: of the file, on rank 0.
            settings: everything on which the bits of the training depend.
            resume: the run continues after `step` steps. Later entries of the file
                are removed. Without a file, a new one is made.
            step: steps done.

        Raises:
            StateError: the file exists and `resume` is False, or it has no entry of
                `step`.
            MismatchError: the file has other settings.
        """
        self._group, self._path = group, os.fspath(path)
        self._fd = -1
        self._known: Optional[dict[str, Any]] = None
        self.digest = ""
        try:
            self.digest = self._on_first(lambda: self._open(_pairs(settings), resume, step))
        except BaseException:
            self.close()
            raise

    def _on_first(self, call: Callable[[], _T]) -> _T:
        """Call on rank 0, for all ranks. All ranks raise the exception of rank 0."""
        outcome: tuple[Optional[Exception], Any] = (None, None)
        if self._group.rank == 0:
            try:
                outcome = (None, call())
            except Exception as error:  # pylint: disable=broad-exception-caught
                outcome = (error, None)
        error, value = self._group.bcast_object(outcome)
        if error is not None:
            raise error
        return value  # type: ignore[no-any-return]

    # ---- the file, on rank 0 ----

    def _write(self, content: dict[str, Any], in_chain: bool, before: str) -> str:
        text = json.dumps(content, separators=(",", ":"), ensure_ascii=False)[:-1]
        digest = _sha(before.encode(), text.encode()).hex()
        line = f'{text}{_MARK}{digest}"}}\n'.encode()
        end = os.lseek(self._fd, 0, os.SEEK_END)
        if os.write(self._fd, line) != len(line):
            os.ftruncate(self._fd, end)
            raise OSError(f"cannot write all of an entry to '{self._path}'")
        return digest if in_chain else before

    def _open(self, settings: dict[str, str], resume: bool, step: int) -> str:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        try:
            self._fd = os.open(self._path, flags if resume else flags | os.O_EXCL, 0o666)
        except FileExistsError:
            raise StateError(f"the audit file '{self._path}' already exists; give another "
                             "file, or continue it with resume=True") from None
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StateError(f"another run writes to '{self._path}'") from None
        digest = self._continue(settings, step) if os.fstat(self._fd).st_size > 0 else ""
        if not digest:
            digest = self._write({"lockstep audit": 1,
                                  "version": ask("ls_version_string").decode(),
                                  "settings": settings}, True, "")
        return self._write({"run": {"ranks": self._group.size}}, False, digest)

    def _continue(self, settings: dict[str, str], step: int) -> str:
        """Keep the lines up to the step. "" if the file has no entries yet."""
        with open(self._path, encoding="utf-8") as file:
            lines = file.readlines()
        before, kept, digest, end = "", 0, "", 0
        for number, line in enumerate(lines, 1):
            if not line.endswith("\n"):
                break  # the run was killed while it wrote
            text, _, mine = line.rpartition(_MARK)
            if _sha(before.encode(), text.encode()).hex() != mine[:64]:
                raise MismatchError(f"'{self._path}', line {number}: its digest does not fit; "
                                    "a line was changed, removed or moved")
            content = json.loads(line)
            if number == 1:
                name = _first_difference(content["settings"], settings)
                if name is not None:
                    raise MismatchError(f"the audit file '{self._path}' and this run differ "
                                        f"in setting '{name}'")
            if number == 1 or "step" in content:
                before = mine[:64]
            end += len(line.encode())
            kept += "step" in content
            if content.get("step", content.get("saved")) == step:
                self._known, digest = content, before
                os.ftruncate(self._fd, end)
                break
        if kept > 0 and not digest:
            raise StateError(f"the audit file '{self._path}' has no entry of step {step}")
        if not digest:
            os.ftruncate(self._fd, 0)
        return digest

    # ---- entries ----

    def step(self, step: int, tensors: Mapping[str, Union[Array, Part]],
             values: Optional[Mapping[str, Any]] = None) -> None:
        """Append an entry after `step` steps.

        If the file that was continued has an entry of this step, compare with it.

        Args:
            step: ascends.
            tensors: weights, optimizer state and buffers by name, in the same order in
                each call. An array is the same on all ranks. Of a tensor that ranks
                divide, give a Part.
            values: position in the data and state of random numbers.

        Raises:
            MismatchError: the state is not that of the file's entry. The message names
                the tensor and its block.
        """
        whole: _Leaves = {}
        pieces: list[tuple[str, int, int, bytes]] = []
        about: dict[str, tuple[str, int]] = {}
        for name, tensor in tensors.items():
            part = tensor if isinstance(tensor, Part) else _of_all(tensor, self._group)
            kind = _TYPES.get(part.data.dtype.name, part.data.dtype.name)
            about[name] = (kind, part.count)
            _digest_leaves(name, part, whole, pieces)
        gathered = self._group.allgather_object((about, whole, pieces))
        self.digest = self._on_first(
            lambda: self._put(step, gathered, _pairs(values)))

    def _put(self, step: int, gathered: list[Any], values: dict[str, str]) -> str:
        about = gathered[0][0]
        leaves: _Leaves = {}
        for rank, (other, whole, _) in enumerate(gathered):
            if other != about:
                raise MismatchError(f"the tensors of rank {rank} are not those of rank 0")
            leaves.update(whole)
        _join([piece for _, _, pieces in gathered for piece in pieces], leaves)
        root, tensors = bytes(32), {}
        for name, (kind, count) in about.items():
            digest, blocks = _digest_tensor(name, count, leaves)
            root = _sha(root, name.encode(), b"\0", kind.encode(), b"\0", digest)
            tensors[name] = [count, digest.hex()[:16], "".join(b.hex()[:8] for b in blocks)]
        entry = {"step": step, "values": values, "state": root.hex(), "tensors": tensors}
        if self._known is None or self._known.get("step", self._known.get("saved")) != step:
            return self._write(entry, True, self.digest)
        self._compare(self._known, entry)
        return self.digest

    def _compare(self, known: dict[str, Any], entry: dict[str, Any]) -> None:
        where = f"the state of step {entry['step']} is not that of '{self._path}': "
        name = _first_difference(known["tensors"], entry["tensors"])
        if name is not None:
            one, other = (e["tensors"].get(name, [0, "", ""])[2] for e in (known, entry))
            block = next((i for i in range(0, len(one), 8) if one[i:i + 8] != other[i:i + 8]), 0)
            raise MismatchError(f"{where}tensor '{name}', block {block // 8}")
        name = _first_difference(known["values"], entry["values"])
        if name is not None:
            raise MismatchError(f"{where}value '{name}'")

    def close(self) -> None:
        """Close the file. Local; later calls do nothing."""
        if self._fd >= 0:
            os.fsync(self._fd)
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Audit:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()
