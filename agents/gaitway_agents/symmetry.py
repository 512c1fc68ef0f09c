"""Mirror symmetry as signed permutations: canonicalisation and augmentation. Knows indices and signs, not robots."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .core.batch import Batch, concatenate


class Symmetry(nn.Module):
    """A finite group of reflections acting on observations and actions.

    Element g maps ``x`` to ``sign[g] * x[perm[g]]``. Element 0 is the identity and every element is its own inverse,
    as combinations of commuting reflections are. ``selectors`` are coordinates of the policy observation, one for
    each generating reflection, that reflection flips; an observation is canonical when all of them are >= 0.
    Elements are numbered so that bit i of g says whether generator i is applied.
    """

    def __init__(
        self,
        observations: dict[str, tuple[Tensor, Tensor]],
        actions: tuple[Tensor, Tensor],
        selectors: tuple[int, ...],
    ):
        super().__init__()
        self.selectors = selectors
        self.order = len(actions[0])
        if self.order != 2 ** len(selectors):
            raise ValueError(f"{len(selectors)} generators make {2 ** len(selectors)} elements, not {self.order}")
        for name, (perm, sign) in {**observations, "action": actions}.items():
            self.register_buffer(f"{name}_perm", perm.long())
            self.register_buffer(f"{name}_sign", sign.float())

    def apply_to(self, name: str, x: Tensor, element: Tensor) -> Tensor:
        """Act with ``element`` (B,) on ``x`` (B, D), an observation group's rows or, for "action", actions."""
        perm, sign = getattr(self, f"{name}_perm"), getattr(self, f"{name}_sign")
        return x.gather(1, perm[element]) * sign[element]

    def canonical_element(self, policy_observation: Tensor) -> Tensor:
        """The element that takes each observation to the canonical domain, (B,)."""
        element = torch.zeros_like(policy_observation[:, 0], dtype=torch.int64)  # len() would fix the batch
        for bit, column in enumerate(self.selectors):
            element = element + (policy_observation[:, column] < 0.0).long() * (1 << bit)
        return element

    def canonicalize(self, observations: dict[str, Tensor]) -> tuple[dict[str, Tensor], Tensor]:
        element = self.canonical_element(observations["policy"])
        return {name: self.apply_to(name, x, element) for name, x in observations.items()}, element

    def augment(self, batch: Batch) -> Batch:
        """The batch and its images under every element; log-probabilities, advantages and returns are shared."""
        images = [batch]
        for g in range(1, self.order):
            element = torch.full((len(batch),), g, device=batch.actions.device)
            images.append(
                batch.replace(
                    observations={n: self.apply_to(n, x, element) for n, x in batch.observations.items()},
                    actions=self.apply_to("action", batch.actions, element),
                    distribution=(
                        self.apply_to("action", batch.distribution[0], element),
                        batch.distribution[1].gather(1, self.action_perm[element]),
                    ),
                )
            )
        return concatenate(images)


class CanonicalActor(nn.Module):
    """An actor that mirrors each observation into the canonical domain and its action back."""

    def __init__(self, actor: nn.Module, symmetry: Symmetry):
        super().__init__()
        self.actor, self.symmetry = actor, symmetry

    def forward(self, observation: Tensor) -> Tensor:
        element = self.symmetry.canonical_element(observation)
        action = self.actor(self.symmetry.apply_to("policy", observation, element))
        return self.symmetry.apply_to("action", action, element)
