"""Mirror symmetry as signed permutations: canonical images, augmentation, a loss. Knows indices, not robots."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import cast

import torch
from gaitway_files.errors import UserError
from torch import Tensor, nn

from .additions import Addition
from .core.batch import Batch, concatenate
from .core.policy import Evaluation
from .models.actor_critic import ActorCritic
from .models.encoders import ACTOR_FEATURES
from .models.estimator import EstimatingActor


class Symmetry(nn.Module):
    """A finite group of reflections acting on observations and actions.

    Element g maps ``x`` to ``sign[g] * x[perm[g]]``. Element 0 is the identity and every element is its own inverse,
    as combinations of commuting reflections are: elements are numbered so that bit i of g says whether generator i is
    applied.

    ``selectors`` are coordinates of the policy observation that every element keeps or flips. They choose the
    canonical image of an observation: the one whose first selector is not negative, among these the one whose second
    is not, and so on. Where all that would decide are zero, several elements lead to canonical images.
    """

    def __init__(
        self, observations: dict[str, tuple[Tensor, Tensor]], actions: tuple[Tensor, Tensor], selectors: Sequence[int]
    ):
        super().__init__()
        self.selectors, self.order = tuple(selectors), len(actions[0])
        for name, (perm, sign) in {**observations, "action": actions}.items():
            self.register_buffer(f"{name}_perm", perm.long())
            self.register_buffer(f"{name}_sign", sign.float())
            self._check_group(name, perm.shape[1])
        self._check_selectors()
        self._tabulate()

    def _tabulate(self) -> None:
        """Elements by the signs of the selectors, numbers to base 3, and by turn: looking up is one operation."""
        count = len(self.selectors)
        self.register_buffer("columns", torch.tensor(self.selectors, dtype=torch.int64), persistent=False)
        signs = torch.tensor(list(itertools.product((-1.0, 0.0, 1.0), repeat=count)))
        probe = torch.zeros(len(signs), self.get_buffer("policy_perm").shape[1])
        probe[:, list(self.selectors)] = signs
        elements = self.canonical_elements(probe, torch.arange(self.order)[None])
        self.register_buffer("elements", elements.flatten(), persistent=False)
        places = self.order * 3.0 ** torch.arange(count - 1, -1, -1)
        self.register_buffer("places", places, persistent=False)
        self.middle = int(places.sum())
        """The row of the table for selectors that are all 0."""

    def _check_group(self, name: str, dim: int) -> None:
        """Each element must undo itself and combine with the others as the bits of their numbers do."""
        everyone = torch.arange(self.order)
        probe = torch.arange(1.0, dim + 1.0).expand(self.order, dim)  # no two entries alike, none zero
        images = self.apply_to(name, probe, everyone)
        for g in range(self.order):
            twice = self.apply_to(name, images[g].expand_as(probe), everyone)
            for h in range(self.order):
                if not torch.equal(twice[h], images[g ^ h]):
                    raise UserError(f"symmetry of {name!r}: element {g} followed by {h} is not element {g ^ h}")

    def _check_selectors(self) -> None:
        perm, signs = self.get_buffer("policy_perm"), self.get_buffer("policy_sign")
        for column in self.selectors:
            if not (perm[:, column] == column).all():
                raise UserError(f"symmetry selector {column}: an element moves this coordinate, instead of flipping it")
        columns = signs[:, list(self.selectors)]
        if len(columns.unique(dim=0)) < self.order:
            raise UserError(f"symmetry selectors {self.selectors}: two elements flip the same of them")

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
            raise UserError(f"symmetry of {name!r}: columns {columns.tolist()} are mirrored into others: take them all")
        return same.long().argmax(-1), sign

    def canonical_elements(self, policy_observation: Tensor, turns: Tensor) -> Tensor:
        """Elements that take each observation to a canonical image, (B, K).

        Where several do, ``turns`` (B, K) or (1, K) count through them, over and over. Where all selectors are 0, as
        for a robot that is told to stand, it is the identity: to go through the images there makes robots vibrate.
        """
        signs = self.get_buffer("policy_sign")
        chosen = torch.ones_like(policy_observation[:, :1], dtype=torch.bool).expand(-1, self.order)
        for column in self.selectors:
            image = policy_observation[:, column : column + 1] * signs[:, column]  # (B, G)
            positive = chosen & (image > 0.0)
            chosen = chosen & (positive | ~positive.any(1, keepdim=True))
        count = chosen.long().cumsum(1)  # chosen ones up to each element
        stands = (policy_observation[:, list(self.selectors)] == 0.0).all(1, keepdim=True)
        place = torch.remainder(turns, count[:, -1:]) * ~stands
        return (count[:, None, :] <= place[:, :, None]).sum(-1)

    def canonicalize(self, observations: dict[str, Tensor], step: int = 0) -> tuple[dict[str, Tensor], Tensor]:
        """Canonical images of observations (N, D) at a time step, and the element (N,) that leads to each.

        Where several do, each robot takes them in turn from step to step, so that it only walks well if the policy
        does the same in all of these images.
        """
        policy = observations["policy"]
        turns = torch.arange(step, step + len(policy), device=policy.device).remainder_(self.order)
        signs = policy.index_select(1, self.get_buffer("columns")).nan_to_num_().sign_()
        row = (signs @ self.get_buffer("places")).long().add_(turns).add_(self.middle)
        element = self.get_buffer("elements").index_select(0, row)
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


class MirrorLoss(Addition):
    """The squared distance between the most likely action in an image and the image of the most likely action.

    The mean over elements and coordinates, weighed; only the action in the image is moved, as by rsl_rl.
    """

    def __init__(self, policy: ActorCritic, symmetry: Symmetry, coefficient: float):
        self.policy, self.symmetry, self.coefficient = policy, symmetry, coefficient

    @torch.no_grad()
    def advantages(self, batch: Batch) -> Batch:
        """The batch with what the actor reads in each image."""
        images = {}
        for g in range(1, self.symmetry.order):
            element = torch.full((len(batch),), g, device=batch.actions.device)
            image = {name: self.symmetry.apply_to(name, x, element) for name, x in batch.observations.items()}
            images[f"image {g}"] = self.policy.actor_features(image)
        return batch.replace(observations=batch.observations | images)

    def added_loss(self, policy: ActorCritic, new: Evaluation, batch: Batch) -> Tensor:
        action, errors = policy.head.mode(new.distribution).detach(), []
        for g in range(1, self.symmetry.order):
            there = policy.distribution({ACTOR_FEATURES: batch.observations[f"image {g}"]})
            wanted = self.symmetry.apply_to("action", action, torch.full((len(batch),), g, device=action.device))
            errors.append((policy.head.mode(there) - wanted).square().mean(1))
        return self.coefficient * torch.stack(errors).mean(0)


class CanonicalActor(nn.Module):
    """An actor that mirrors each observation into the canonical domain and its action back.

    Where several elements lead there, action and estimates are the means over them. So the mirror image of an
    observation gives the mirror image of the action, but for robots that nothing tells to move.
    """

    def __init__(self, actor: nn.Module, symmetry: Symmetry):
        super().__init__()
        self.actor, self.symmetry = actor, symmetry
        kept = symmetry.get_buffer("policy_sign")[:, list(symmetry.selectors)] > 0.0
        self.turns = int(kept.sum(0).max())
        """The most elements that one selector alone can leave: all, where no mirror flips it."""
        if isinstance(actor, EstimatingActor):
            self.widths = actor.widths
            perm, sign = symmetry.of_columns("critic", actor.estimator.targets)
            self.register_buffer("estimate_perm", perm)
            self.register_buffer("estimate_sign", sign)

    def forward(self, observation: Tensor) -> Tensor:
        elements, images = self._images(observation)
        return self._mean(self.symmetry.apply_to("action", self.actor(images), elements))

    def with_estimates(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        """As :meth:`.EstimatingActor.with_estimates`, of the robot as it is."""
        elements, images = self._images(observation)
        action, estimates = cast(EstimatingActor, self.actor).with_estimates(images)
        mirrored = estimates.gather(1, self.get_buffer("estimate_perm").index_select(0, elements))
        estimates = mirrored * self.get_buffer("estimate_sign").index_select(0, elements)
        return self._mean(self.symmetry.apply_to("action", action, elements)), self._mean(estimates)

    def _images(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        """Elements (N * K,) that lead each observation to canonical images, and these, (N * K, D).

        Each leading element has the same share of the K turns.
        """
        turns = torch.arange(self.turns, device=observation.device)[None]
        elements = self.symmetry.canonical_elements(observation, turns).flatten()
        repeated = observation[:, None].expand(-1, self.turns, -1).flatten(0, 1)
        return elements, self.symmetry.apply_to("policy", repeated, elements)

    def _mean(self, values: Tensor) -> Tensor:
        """Mean over each robot's images, (N * K, D) to (N, D)."""
        return values.unflatten(0, (-1, self.turns)).mean(1)
