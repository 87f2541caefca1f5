"""Let Hugging Face's accelerate and Trainer accept the backend "lockstep".

For processes on CPUs accelerate knows the backends mpi and gloo, and refuses others.
Trainer's option ddp_backend has a list of choices. patch_accelerate() changes both.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import inspect
from dataclasses import fields
from typing import Any, Optional

_WITHOUT = ('Call torch.distributed.init_process_group("lockstep") ahead of '
            "accelerate instead, and choose the backend gloo")
_PARAMETERS = ["self", "cpu", "sagemaker_dp", "backend"]

_original: Any = None  # accelerate's own PartialState._prepare_backend


def _prepare_backend(self: Any, cpu: bool = False, sagemaker_dp: bool = False,
                     backend: Optional[str] = None) -> Any:
    """Replace PartialState._prepare_backend: treat lockstep as gloo."""
    asked = "gloo" if backend == "lockstep" else backend
    chosen, kind = _original(self, cpu, sagemaker_dp, asked)
    if backend == "lockstep" and chosen == "gloo":
        chosen = "lockstep"
    return chosen, kind


def _refuse(package: str, difference: str) -> None:
    version = importlib.metadata.version(package)
    raise RuntimeError(
        f"patch_accelerate: {package} {version} is not as expected: {difference}. {_WITHOUT}")


def _check_accelerate(state: Any) -> None:
    method = getattr(state, "_prepare_backend", None)
    if method is None:
        _refuse("accelerate", "PartialState has no method _prepare_backend")
    names = list(inspect.signature(method).parameters)
    if names != _PARAMETERS:
        _refuse("accelerate", "the parameters of PartialState._prepare_backend are "
                f"'{', '.join(names)}' instead of '{', '.join(_PARAMETERS)}'")


def _choices_of_trainer() -> Optional[list[str]]:
    """Return the choices of ddp_backend; None without transformers."""
    if importlib.util.find_spec("transformers") is None:
        return None
    from transformers import TrainingArguments
    for field in fields(TrainingArguments):
        if field.name == "ddp_backend":
            choices = field.metadata.get("choices")
            if isinstance(choices, list) and "gloo" in choices:
                return choices
    _refuse("transformers", "TrainingArguments.ddp_backend has no list of choices with "
            "'gloo'")


def patch_accelerate() -> None:
    """Let accelerate, and Trainer of transformers, use the backend "lockstep". Local.

        lockstep_torch.patch_accelerate()
        TrainingArguments(ddp_backend="lockstep", use_cpu=True, ...)
        Accelerator(cpu=True, kwargs_handlers=[InitProcessGroupKwargs(backend="lockstep")])

    Call it in each process, ahead of TrainingArguments, HfArgumentParser and Accelerator.
    Further calls do nothing. Other backends are chosen as before. If transformers is
    installed, the call imports it.

    Raises:
        ImportError: accelerate is not installed.
        RuntimeError: accelerate or transformers differs from the versions for which
            this function was written. Nothing is changed.
    """
    global _original
    from accelerate.state import PartialState
    patched = getattr(PartialState, "_prepare_backend", None) is _prepare_backend
    if not patched:
        _check_accelerate(PartialState)
    choices = _choices_of_trainer()
    if choices is not None and "lockstep" not in choices:
        choices.append("lockstep")
    if not patched:
        _original = PartialState._prepare_backend
        PartialState._prepare_backend = _prepare_backend
