"""A controller that takes the weight off an arm knows the arm, and not what is hung on it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gaitway_mujoco import make_env
from gaitway_tasks.registry import get_task, preset_of


@pytest.fixture(scope="module")
def env():
    task = get_task("lift-franka")
    return make_env(preset_of(task, "cpu").change(task), num_envs=2, seed=0)


def test_it_holds_the_mass_that_is_known(env):
    world, hand = env.world, env.world.model.body("panda_hand").id
    world.set_mass_scale(torch.tensor([1]), torch.tensor([3.0]), "panda_hand")
    world.finish_events()
    mass, held = (world.batch.expand(name)[:, hand] for name in ("body_mass", "body_gravcomp"))
    assert mass[1] == pytest.approx(3.0 * mass[0])
    np.testing.assert_allclose(mass * held, world.model.body_mass[hand])
    cube = world.model.body("object").id
    assert (world.batch.expand("body_gravcomp")[:, cube] == 0.0).all(), "objects keep their weight"
