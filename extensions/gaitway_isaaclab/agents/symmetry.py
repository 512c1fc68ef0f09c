"""Mirror images of what a policy sees and does, for rsl_rl: every robot that declares mirrors has them."""

from __future__ import annotations

from typing import Any

from gaitway_tasks.symmetry import MirrorGroup, SignedPermutation, mirror_group
from tensordict import TensorDict
from torch import Tensor

from ..world import TASK

MIRRORS = "_gaitway_mirrors"
"""Attribute of an environment that holds its mirror group."""


def mirror_images(env: Any, obs: TensorDict | None = None, actions: Tensor | None = None) -> tuple[Any, Any]:
    """rsl_rl's ``data_augmentation_func``: all images of a batch, one after the other, the batch itself first.

    ``obs`` holds (B, D) for each observation group, ``actions`` (B, A); what is returned has G B rows for the G images
    of the task's :class:`~gaitway_tasks.symmetry.MirrorGroup`.
    """
    group = _group(env.unwrapped)
    images = None
    if obs is not None:
        seen = {name: _images(obs[name], maps) for name, maps in group.observations.items()}
        images = TensorDict(seen, batch_size=[len(next(iter(seen.values())))], device=obs.device)
    return images, None if actions is None else _images(actions, group.actions)


def _images(rows: Tensor, maps: SignedPermutation) -> Tensor:
    perms, signs = (part.to(rows.device) for part in maps)
    return (rows[:, perms] * signs).transpose(0, 1).flatten(0, 1)


def _group(env: Any) -> MirrorGroup:
    """Made once for each environment."""
    found: MirrorGroup | None = vars(env).get(MIRRORS)
    if found is None:
        found = mirror_group(getattr(env.cfg, TASK))
        setattr(env, MIRRORS, found)
    return found
