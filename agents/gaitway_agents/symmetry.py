"""Mirror symmetry as signed permutations: canonicalisation and augmentation. Knows indices and signs, not robots."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from .core.batch import Batch, concatenate


class Symmetry(nn.Module):
    """A finite group of reflections acting on observations and actions.

    Element g maps ``x`` to ``sign[g] * x[perm[g]]``. Element 0 is the identity and every element is its own inverse,
    as combinations of commuting reflections are. ``selectors`` are coordinates of the policy observation, one for
    each generating reflection, that reflection flips; an observation is canonical when all of them are >= 0.
    Where a selector is exactly 0, ``tie_breaker``, a coordinate that every generator flips, takes its place.
    Elements are numbered so that bit i of g says whether generator i is applied.
    """

    def __init__(
        self,
        observations: dict[str, tuple[Tensor, Tensor]],
        actions: tuple[Tensor, Tensor],
        selectors: tuple[int, ...],
        tie_breaker: int | None = None,
    ):
        super().__init__()
        self.selectors, self.tie_breaker = selectors, tie_breaker
        self.order = len(actions[0])
        if self.order != 2 ** len(selectors):
            raise ValueError(f"{len(selectors)} generators make {2 ** len(selectors)} elements, not {self.order}")
        for name, (perm, sign) in {**observations, "action": actions}.items():
            self.register_buffer(f"{name}_perm", perm.long())
            self.register_buffer(f"{name}_sign", sign.float())
            self._check_group(name, perm.shape[1])
        self._check_selectors()

    def _check_group(self, name: str, dim: int) -> None:
        """Each element must undo itself and combine with the others as the bits of their numbers do."""
        everyone = torch.arange(self.order)
        probe = torch.arange(1.0, dim + 1.0).expand(self.order, dim)  # no two entries alike, none zero
        images = self.apply_to(name, probe, everyone)
        for g in range(self.order):
            twice = self.apply_to(name, images[g].expand_as(probe), everyone)
            for h in range(self.order):
                if not torch.equal(twice[h], images[g ^ h]):
                    raise ValueError(f"symmetry of {name!r}: element {g} followed by {h} is not element {g ^ h}")

    def _check_selectors(self) -> None:
        perm, signs = self.get_buffer("policy_perm"), self.get_buffer("policy_sign")
        for bit in range(len(self.selectors)):
            for other, column in enumerate(self.selectors):
                sign = -1.0 if other == bit else 1.0
                if perm[1 << bit, column] != column or signs[1 << bit, column] != sign:
                    raise ValueError(
                        f"symmetry selector {column}: reflection {other} alone must flip this policy observation, and "
                        f"reflection {bit} {'does not' if other == bit else 'moves it too'}"
                    )

        if self.tie_breaker is not None:
            for bit in range(len(self.selectors)):
                if perm[1 << bit, self.tie_breaker] != self.tie_breaker or signs[1 << bit, self.tie_breaker] != -1.0:
                    raise ValueError(f"symmetry tie breaker {self.tie_breaker}: reflection {bit} must flip it")

    def apply_to(self, name: str, x: Tensor, element: Tensor) -> Tensor:
        """Act with ``element`` (B,) on ``x`` (B, D), an observation group's rows or, for "action", actions."""
        perm, sign = getattr(self, f"{name}_perm"), getattr(self, f"{name}_sign")
        return x.gather(1, perm.index_select(0, element)) * sign.index_select(0, element)  # quicker than perm[element]

    def canonical_element(self, policy_observation: Tensor) -> Tensor:
        """The element that takes each observation to the canonical domain, (B,)."""
        element = torch.zeros_like(policy_observation[:, 0], dtype=torch.int64)  # len() would fix the batch
        for bit, column in enumerate(self.selectors):
            element = element + (policy_observation[:, column] < 0.0).long() * (1 << bit)
        if self.tie_breaker is None:
            return element
        # The reflections chosen so far may have flipped the tie breaker; the first undecided one sets it right.
        tie = policy_observation[:, self.tie_breaker] * self.get_buffer("policy_sign")[element, self.tie_breaker]
        for bit, column in enumerate(self.selectors):
            flip = (policy_observation[:, column] == 0.0) & (tie < 0.0)
            element = element + flip.long() * (1 << bit)
            tie = torch.where(flip, -tie, tie)
        return element

    def canonicalize(self, observations: dict[str, Tensor]) -> tuple[dict[str, Tensor], Tensor]:
        element = self.canonical_element(observations["policy"])
        return {name: self.apply_to(name, x, element) for name, x in observations.items()}, element

    def augment(self, batch: Batch, distribution: Callable[[dict[str, Tensor]], tuple[Tensor, ...]]) -> Batch:
        """The batch and its images under every element; log-probabilities, advantages and returns are shared.

        ``distribution`` gives the parameters (B, A) of the behaviour policy. The KL divergence, if any, is measured
        from what that policy would have done in the image, so that an adaptive learning rate sees how far the policy
        has moved and not how asymmetric it is.
        """
        images = [batch]
        for g in range(1, self.order):
            element = torch.full((len(batch),), g, device=batch.actions.device)
            observations = {n: self.apply_to(n, x, element) for n, x in batch.observations.items()}
            images.append(
                batch.replace(
                    observations=observations,
                    actions=self.apply_to("action", batch.actions, element),
                    distribution=distribution(observations) if batch.distribution else (),
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
