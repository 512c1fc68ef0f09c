"""A run is played in the world that its configuration describes."""

from __future__ import annotations

import pytest
import torch

from gaitway.train_config import resolve
from gaitway.view.walkers import _quiet_env


@pytest.mark.parametrize("preset", [None, "cpu", "sprint"])
def test_every_preset_can_be_played_with_its_own_physics(preset):
    config = resolve("velocity-flat-anymal-c-blind", preset=preset, overrides=["simulator.cone=elliptic"])
    env, _ = _quiet_env(config)
    env.reset()
    assert env.world.options == config.simulator
    if preset == "cpu":
        assert torch.from_numpy(env.world.batch.expand("actuator_delay")).max() == pytest.approx(0.01)


def test_a_longer_delay_needs_no_second_setting():
    config = resolve(
        "velocity-flat-anymal-c", preset="cpu", overrides=["task.events.action_delay.params.delay_range=[0.05,0.05]"]
    )
    env, _ = _quiet_env(config)
    env.reset()
    assert torch.from_numpy(env.world.batch.expand("actuator_delay")).max() == pytest.approx(0.05)


def test_a_delay_that_is_no_range_is_refused_by_name():
    config = resolve(
        "velocity-flat-anymal-c", preset="cpu", overrides=["task.events.action_delay.params.delay_range=[0.05]"]
    )
    with pytest.raises(ValueError, match=r"task\.events\.action_delay\.params\.delay_range=\(0\.05,\).*shortest and"):
        _quiet_env(config)
