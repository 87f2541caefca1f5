"""Batch normalisation over the batches of all ranks, on CPU.

PyTorch's ``nn.SyncBatchNorm`` refuses tensors on the CPU. This layer accepts
them, with any backend that can all-reduce float64. It makes one collective in
forward and one in backward. Ranks may have batches of different sizes, and empty ones.
"""

from __future__ import annotations

from typing import Any, Optional

import torch
import torch.distributed as dist
from torch import Tensor, nn

Group = Optional[dist.ProcessGroup]


def _sum_over_ranks(numbers: Tensor, group: Group) -> Tensor:
    dist.all_reduce(numbers, group=group)
    return numbers


def _precision(dtype: torch.dtype) -> torch.dtype:
    """Return the type of the statistics for inputs of type `dtype`."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def _statistics(x: Tensor, group: Group) -> tuple[Tensor, Tensor, int]:
    """Return each channel's mean and biased variance, and the values per channel.

    Each rank computes statistics centred on the mean of its batch. In float64 they
    are converted to sums, added over ranks, and converted back. So they stay
    accurate if means are large compared with deviations.
    """
    channels = x.shape[1]
    count = x.numel() // channels if channels else 0
    sums = torch.zeros(2 * channels + 1, dtype=torch.float64)
    if count:
        kept = torch.zeros(channels, dtype=_precision(x.dtype))
        mean, var = torch.batch_norm_update_stats(x, kept, kept.clone(), 0.0)
        mean = mean.double()
        sums[:channels] = mean * count
        sums[channels:-1] = (var.double() + mean * mean) * count
        sums[-1] = count
    sums = _sum_over_ranks(sums, group)
    total = int(sums[-1])
    if total < 2:
        raise ValueError(
            "SyncBatchNorm: training needs more than one value per channel, but the "
            f"batches of all ranks contain only {total} in total")
    sums /= total
    mean = sums[:channels]
    var = (sums[channels:-1] - mean * mean).clamp_(min=0)
    dtype = _precision(x.dtype)
    return mean.to(dtype), var.to(dtype), total


class _Normalize(torch.autograd.Function):
    """Normalise x with the mean and variance over all ranks.

    The result is (x - mean) / sqrt(var + eps) * weight + bias.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Optional[Tensor],
                bias: Optional[Tensor], eps: float, group: Group
                ) -> tuple[Tensor, Tensor, Tensor, int]:
        if not x.is_contiguous(memory_format=torch.channels_last):
            x = x.contiguous()
        mean, var, total = _statistics(x, group)
        scale, shift = (None if p is None else p.to(mean.dtype)
                        for p in (weight, bias))
        y = torch.batch_norm(x, scale, shift, mean, var, False, 0.0, eps, False) \
            if x.numel() else torch.empty_like(x)
        ctx.save_for_backward(x, weight, mean, var)
        ctx.eps, ctx.group, ctx.total = eps, group, total
        ctx.bias_dtype = None if bias is None else bias.dtype
        ctx.mark_non_differentiable(mean, var)
        return y, mean, var, total

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, dy: Tensor, *_: Any) -> Any:
        x, weight, mean, var = ctx.saved_tensors
        channels = x.shape[1]
        scale = torch.ones_like(mean) if weight is None else weight.to(mean.dtype)
        if x.numel():
            # Gradients as if the statistics were constants.
            _, by_scale, by_shift = torch.ops.aten.native_batch_norm_backward(
                dy.contiguous(memory_format=_layout(x)), x, scale, mean, var,
                None, None, False, ctx.eps, [False, True, True])
        else:
            by_scale = by_shift = torch.zeros_like(mean)
        dx = None
        if ctx.needs_input_grad[0]:
            sums = torch.cat([by_scale, by_shift]).double()
            sums = _sum_over_ranks(sums, ctx.group) / ctx.total
            dx = _input_gradient(dy, x, scale, mean, var, ctx.eps,
                                 sums[:channels].to(mean.dtype),
                                 sums[channels:].to(mean.dtype))
        return (dx,
                by_scale.to(weight.dtype) if ctx.needs_input_grad[1] else None,
                by_shift.to(ctx.bias_dtype) if ctx.needs_input_grad[2] else None,
                None, None)


def _layout(x: Tensor) -> torch.memory_format:
    return torch.contiguous_format if x.is_contiguous() else torch.channels_last


def _input_gradient(dy: Tensor, x: Tensor, scale: Tensor, mean: Tensor,
                    var: Tensor, eps: float, by_scale: Tensor, by_shift: Tensor
                    ) -> Tensor:
    """Return the gradient with respect to the layer's input.

    It is scale / sqrt(var + eps) * (dy - by_shift - n * by_scale). Here n is the
    normalised x, and dy is the gradient of the layer's output. by_scale is the mean
    of dy * n over all ranks; by_shift is the mean of dy.
    """
    shape = [1, -1] + [1] * (x.dim() - 2)
    factor = scale * torch.rsqrt(var + eps)
    if not x.numel():
        return torch.empty_like(x)
    if x.dtype != mean.dtype:
        # In float32, with one rounding at the end.
        x = x.to(mean.dtype)
    dx = torch.batch_norm(x, -factor * by_scale, -factor * by_shift, mean, var,
                          False, 0.0, eps, False)
    dx.addcmul_(dy.to(mean.dtype), factor.view(shape))
    return dx.to(dy.dtype)


class SyncBatchNorm(nn.modules.batchnorm._BatchNorm):
    """Batch normalisation over the batches of all ranks, for 1d, 2d or 3d inputs.

    Accepts a CPU tensor of shape (N, C), (N, C, L), (N, C, H, W) or
    (N, C, D, H, W) and returns one of that shape and type. N, L, H, W
    and D may differ between ranks, and may be 0. In training, ``forward`` is
    collective over the group, and so is ``backward`` if the input requires a
    gradient: all ranks call them in the same order.

    Statistics are float32 for inputs of bfloat16, float16 and float32, and
    float64 for float64. They have the same bits on all ranks. In eval mode, or
    without a group of more than one rank, it behaves as ``nn.BatchNorm``.
    The gradients of weight and bias are those of the rank's batch; DDP
    averages them as all other gradients. The layer cannot be differentiated twice.

    Args:
        num_features: Number of channels, C.
        eps: Added to the variance, as in ``nn.BatchNorm``.
        momentum: Weight of a batch in the running statistics. None averages over
            all batches.
        affine: Whether the layer has weight and bias.
        track_running_stats: Whether the layer keeps running statistics.
        process_group: The group whose ranks share batches. Default: all ranks.
        device: Device of the parameters and statistics.
        dtype: Type of the parameters and statistics.

    Raises:
        ValueError: in ``forward``, on all ranks, if all batches together have fewer than two
            values per channel; on this rank alone, if the input has another
            number of dimensions, number of channels or device.
    """

    def __init__(self, num_features: int, eps: float = 1e-5,
                 momentum: Optional[float] = 0.1, affine: bool = True,
                 track_running_stats: bool = True, process_group: Group = None,
                 device: Any = None, dtype: Optional[torch.dtype] = None) -> None:
        super().__init__(num_features, eps, momentum, affine,
                         track_running_stats, device=device, dtype=dtype)
        self.process_group = process_group

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() not in (2, 3, 4, 5) or input.shape[1] != self.num_features:
            raise ValueError(
                f"SyncBatchNorm: the input has shape {tuple(input.shape)}; it must have 2 "
                f"to 5 dimensions, and the second dimension must be of size {self.num_features}")
        if input.device.type != "cpu":
            raise ValueError(
                f"SyncBatchNorm: the input is on {input.device}; move the input to the "
                "CPU, or use torch.nn.SyncBatchNorm")

    def forward(self, input: Tensor) -> Tensor:
        """Normalise `input`. In training, all ranks of the group must make this call."""
        self._check_input_dim(input)
        if not self.training or not dist.is_available() \
                or not dist.is_initialized() \
                or dist.get_world_size(self.process_group) < 2:
            return super().forward(input)
        return self._forward_together(input)

    # Collectives of torch.distributed break a graph anyway.
    @torch.compiler.disable
    def _forward_together(self, input: Tensor) -> Tensor:
        y, mean, var, total = _Normalize.apply(
            input, self.weight, self.bias, self.eps, self.process_group)
        if self.track_running_stats and self.running_mean is not None:
            self._track(mean, var, total)
        return y

    @torch.no_grad()
    def _track(self, mean: Tensor, var: Tensor, total: int) -> None:
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        factor = self.momentum if self.momentum is not None \
            else 1.0 / float(self.num_batches_tracked)
        unbiased = var * (total / (total - 1))
        for kept, new in ((self.running_mean, mean), (self.running_var, unbiased)):
            assert kept is not None
            kept.copy_(torch.lerp(kept.to(new.dtype), new, factor))

    @classmethod
    def convert_sync_batchnorm(cls, module: nn.Module,
                               process_group: Group = None) -> nn.Module:
        """Replace each ``nn.BatchNorm*d`` and ``nn.SyncBatchNorm`` by this layer. Local.

        Parameters and buffers are kept, not copied, so an optimizer that was made
        before stays valid.

        Args:
            module: any module; its children are replaced in place.
            process_group: the ranks whose batches are normalised together
                (default: all ranks).

        Returns:
            `module`, or its replacement if it is a BatchNorm itself.
        """
        if isinstance(module, cls):
            return module
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            return cls._of(module, process_group)
        for name, child in list(module.named_children()):
            new = cls.convert_sync_batchnorm(child, process_group)
            if new is not child:
                setattr(module, name, new)
        return module

    @classmethod
    def _of(cls, module: Any, process_group: Group) -> "SyncBatchNorm":
        new = cls(module.num_features, module.eps, module.momentum, False,
                  False, process_group)
        new.affine = module.affine
        new.track_running_stats = module.track_running_stats
        new.training = module.training
        new.weight, new.bias = module.weight, module.bias
        for name in ("running_mean", "running_var", "num_batches_tracked"):
            setattr(new, name, getattr(module, name))
        if hasattr(module, "qconfig"):
            new.qconfig = module.qconfig
        return new
