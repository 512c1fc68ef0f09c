"""Mirror symmetry as signed permutations: canonicalisation and augmentation. Knows indices and signs, not robots."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from .core.batch import Batch, concatenate


class Symmetry(nn.Module):
    """A finite group of reflections acting on observations and actions.

    Element g maps ``x`` to ``sign[g] * x[perm[g]]``. Element 0 is the identity and every element is its own inverse,
    as combinations of commuting reflections are: elements are numbered so that bit i of g says whether generator i is
    applied.

    ``selectors`` are coordinates of the policy observation that every element keeps or flips. They choose the
    canonical image of an observation: the one whose first selector is not negative, among these the one whose second
    is not, and so on. Where all that would decide are zero, several elements lead to a canonical image.
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

    def leads_to_canonical(self, policy_observation: Tensor) -> Tensor:
        """Whether each element takes each observation to a canonical image, (B, G) bool; never all False in a row."""
        chosen = torch.ones_like(policy_observation[:, :1], dtype=torch.bool)
        chosen = chosen.expand(-1, self.order)
        signs = self.get_buffer("policy_sign")
        for column in self.selectors:
            image = policy_observation[:, column : column + 1] * signs[:, column]  # (B, G)
            positive = chosen & (image > 0.0)
            chosen = torch.where(positive.any(1, keepdim=True), positive, chosen)
        return chosen

    def canonical_element(self, policy_observation: Tensor, turn: Tensor | int = 0) -> Tensor:
        """An element that takes each observation to a canonical image, (B,).

        Where several do, ``turn`` (B,) counts through them.
        """
        chosen = self.leads_to_canonical(policy_observation).long()
        place = torch.remainder(torch.as_tensor(turn, device=chosen.device), chosen.sum(1))
        # The first element that has more than ``place`` chosen ones up to itself.
        return (chosen.cumsum(1) > place[:, None]).long().argmax(1)

    def canonicalize(self, observations: dict[str, Tensor], step: int = 0) -> tuple[dict[str, Tensor], Tensor]:
        """Canonical images of observations (N, D) at a time step, and the element (N,) that leads to each.

        Where several elements do, each robot takes them in turn from step to step, so that it only walks well if the
        policy does the same in all of these images.
        """
        policy = observations["policy"]
        element = self.canonical_element(policy, torch.arange(step, step + len(policy), device=policy.device))
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
    """An actor that mirrors each observation into the canonical domain and its action back.

    Where several elements lead there, the action is the mean over all of them. So the mirror image of an observation
    always gives the mirror image of the action.
    """

    def __init__(self, actor: nn.Module, symmetry: Symmetry):
        super().__init__()
        self.actor, self.symmetry = actor, symmetry

    def forward(self, observation: Tensor) -> Tensor:
        symmetry = self.symmetry
        elements = [symmetry.canonical_element(observation, turn) for turn in range(symmetry.order)]
        # Each leading element has the same share of the turns, since their number divides the group's order.
        images = torch.cat([symmetry.apply_to("policy", observation, element) for element in elements])
        actions = self.actor(images).chunk(symmetry.order)
        mirrored = [symmetry.apply_to("action", a, element) for a, element in zip(actions, elements, strict=True)]
        return torch.stack(mirrored).mean(0)
