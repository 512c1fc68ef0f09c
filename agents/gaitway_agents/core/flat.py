"""All parameters of a module in one tensor, and all gradients in another: one operation where there were dozens."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class FlatParameters:
    """Moves the parameters of ``groups`` into one buffer, group after group; the module keeps views into it.

    ``flat`` is a parameter for an optimiser, whose gradient the module's gradients are views of.
    """

    def __init__(self, groups: Sequence[Sequence[nn.Parameter]]):
        everything = [parameter for group in groups for parameter in group]
        self.flat = nn.Parameter(torch.cat([p.detach().flatten() for p in everything]))
        self.parameters = everything
        sizes = [sum(p.numel() for p in group) for group in groups]
        self.slices = [slice(sum(sizes[:i]), sum(sizes[: i + 1])) for i in range(len(sizes))]
        for parameter, view in zip(everything, self.views(self.flat.data), strict=True):
            parameter.data = view
        self.flat.grad = self.attach_gradients(everything)

    def views(self, buffer: Tensor) -> list[Tensor]:
        """Parts of ``buffer`` in the shapes of the parameters."""
        parts = buffer.split([p.numel() for p in self.parameters])
        return [part.view(p.shape) for part, p in zip(parts, self.parameters, strict=True)]

    def attach_gradients(self, parameters: Sequence[nn.Parameter]) -> Tensor:
        """Give ``parameters``, these or a replica's, gradients that are views of one buffer, and return it."""
        buffer = torch.zeros_like(self.flat.data)
        for parameter, view in zip(parameters, self.views(buffer), strict=True):
            parameter.grad = view
        return buffer

    def clip_gradients(self, max_norm: float, *, look: bool = False) -> Tensor:
        """Scale the gradient of each group to at most ``max_norm``, as ``clip_grad_norm_`` does; the whole norm.

        With ``look`` shorter gradients are not touched. Only a CPU can look at their length without waiting for it.
        """
        assert self.flat.grad is not None
        norms = []
        for part in self.slices:
            gradient = self.flat.grad[part]
            norm = torch.linalg.vector_norm(gradient)
            if not look or not norm + 1e-6 < max_norm:
                gradient.mul_((max_norm / (norm + 1e-6)).clamp(max=1.0))
            norms.append(norm)
        return norms[0] if len(norms) == 1 else torch.stack(norms).norm()
