"""Mirror symmetry as signed permutations: canonicalisation and augmentation. Knows indices and signs, not robots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import torch
from torch import Tensor, nn

from .core.batch import Batch, concatenate
from .models.estimator import EstimatingActor


class Symmetry(nn.Module):
    """A finite group of reflections acting on observations and actions.

    Element g maps ``x`` to ``sign[g] * x[perm[g]]``. Element 0 is the identity and every element is its own inverse,
    as combinations of commuting reflections are: elements are numbered so that bit i of g says whether generator i is
    applied.

    ``selectors`` are coordinates of the policy observation that every element keeps or flips. They choose the
    canonical image of an observation: the one whose first selector is not negative, among these the one whose second
    is not, and so on. Where all that would decide are zero, several elements lead to canonical images, and the first of
    them is taken. (To take the mean over all of them would make a policy equivariant there too; robots that stand then
    vibrate, since no single image has learnt to be one of several.)
    """

    def __init__(
        self,
        observations: dict[str, tuple[Tensor, Tensor]],
        actions: tuple[Tensor, Tensor],
        selectors: Sequence[int],
    ):
        super().__init__()
        self.selectors, self.order = tuple(selectors), len(actions[0])
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
        for column in self.selectors:
            if not (perm[:, column] == column).all():
                raise ValueError(
                    f"symmetry selector {column}: an element moves this coordinate, instead of flipping it"
                )
        columns = signs[:, list(self.selectors)]
        if len(columns.unique(dim=0)) < self.order:
            raise ValueError(f"symmetry selectors {self.selectors}: two elements flip the same of them")

    def apply_to(self, name: str, x: Tensor, element: Tensor) -> Tensor:
        """Act with ``element`` (B,) on ``x`` (B, D), an observation group's rows or, for "action", actions."""
        perm, sign = getattr(self, f"{name}_perm"), getattr(self, f"{name}_sign")
        return x.gather(1, perm.index_select(0, element)) * sign.index_select(0, element)  # quicker than perm[element]

    def of_columns(self, name: str, columns: Tensor) -> tuple[Tensor, Tensor]:
        """Permutations and signs (G, K) of K ``columns`` of an observation group alone.

        Raises ``ValueError`` where an element takes them to others.
        """
        perm, sign = getattr(self, f"{name}_perm")[:, columns], getattr(self, f"{name}_sign")[:, columns]
        same = perm[:, :, None] == columns
        if not same.any(-1).all():
            raise ValueError(
                f"symmetry of {name!r}: columns {columns.tolist()} are mirrored into others: take them all"
            )
        return same.long().argmax(-1), sign

    def canonical_element(self, policy_observation: Tensor) -> Tensor:
        """The first element that takes each observation to its canonical image, (B,)."""
        chosen = torch.ones_like(policy_observation[:, :1], dtype=torch.bool).expand(-1, self.order)
        signs = self.get_buffer("policy_sign")
        for column in self.selectors:
            image = policy_observation[:, column : column + 1] * signs[:, column]  # (B, G)
            positive = chosen & (image > 0.0)
            chosen = chosen & (positive | ~positive.any(1, keepdim=True))
        return (chosen.long().cumsum(1) == 0).sum(1)

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
        if isinstance(actor, EstimatingActor):
            self.widths = actor.widths
            perm, sign = symmetry.of_columns("critic", actor.estimator.targets)
            self.register_buffer("estimate_perm", perm)
            self.register_buffer("estimate_sign", sign)

    def forward(self, observation: Tensor) -> Tensor:
        element = self.symmetry.canonical_element(observation)
        action = self.actor(self.symmetry.apply_to("policy", observation, element))
        return self.symmetry.apply_to("action", action, element)

    def with_estimates(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        """As :meth:`.EstimatingActor.with_estimates`, of the robot as it is."""
        element = self.symmetry.canonical_element(observation)
        image = self.symmetry.apply_to("policy", observation, element)
        action, estimates = cast(EstimatingActor, self.actor).with_estimates(image)
        mirrored = estimates.gather(1, self.get_buffer("estimate_perm").index_select(0, element))
        estimates = mirrored * self.get_buffer("estimate_sign").index_select(0, element)
        return self.symmetry.apply_to("action", action, element), estimates
