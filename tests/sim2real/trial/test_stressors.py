"""A stressor of another package: one class, which a scenario lists; nothing else knows of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drawing import drawn
from gaitway_onboard.bundle.contract import Contract
from gaitway_sim2real.mujoco.robots import RobotBatch
from gaitway_sim2real.trial import running, validate_bundle
from gaitway_sim2real.trial.scenario import Scenario
from gaitway_sim2real.trial.stressors import SensorNoise, Signals, Stressor
from gaitway_velocity.scenarios import SCENARIOS
from gaitway_velocity.suite import SUITE
from gaitway_velocity.variants import NOMINAL
from stand_bundle import make_stand_bundle


@dataclass(frozen=True)
class Wind(Stressor):
    """A gust that speeds robots up in a direction of their own, while an anemometer's gyro drifts."""

    speed: float
    """[m/s] in each control step."""

    def start(self, world: RobotBatch, rng: np.random.Generator) -> Any:
        world.mass += 1.0
        angle = rng.uniform(-np.pi, np.pi, len(world.mass))
        return self.speed * np.stack([np.cos(angle), np.sin(angle)], 1)

    def before_step(self, world: RobotBatch, step: int, kept: Any) -> None:
        world.qvel[:, world.plant.base_dof : world.plant.base_dof + 2] += kept

    def sensed(self, signals: Signals, kept: Any) -> Signals:
        return {**signals, "gyro": signals["gyro"] + 0.1}


CALM = replace(
    next(scenario for scenario in SCENARIOS if scenario.name == NOMINAL), envs=4, seconds=0.5, commands="standing"
)
WINDY = replace(CALM, name="wind", stressors=(Wind(0.05), SensorNoise()), factor="wind", level="gusts", number=0.05)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_stand_bundle(tmp_path_factory.mktemp("stand"))


def walked(bundle: Path, scenario: Scenario, seed: int = 0) -> Any:
    contract = Contract.load(bundle)
    plants = running.Plants(contract, bundle / "robot.xml", bundle / "robot.xml")
    return running.run_scenario(SUITE, bundle, contract, plants, scenario, seed)


def test_it_does_what_it_says(bundle: Path) -> None:
    calm, windy, again = walked(bundle, CALM), walked(bundle, WINDY), walked(bundle, WINDY)
    speed = [np.linalg.norm(seen.lin_vel[:, :, :2], axis=-1).mean() for seen in (calm, windy)]
    assert speed[1] > speed[0] + 0.05
    np.testing.assert_allclose(windy.mass, calm.mass + 1.0)
    np.testing.assert_array_equal(windy.command, calm.command)  # of the same robots
    np.testing.assert_array_equal(windy.start_pos, calm.start_pos)
    np.testing.assert_array_equal(windy.base_pos, again.base_pos)
    assert not np.array_equal(windy.base_pos, walked(bundle, WINDY, seed=1).base_pos)


def test_its_draws_are_its_own() -> None:
    ranges = ((-1.0, 1.0), (-0.5, 0.5), (-1.0, 1.0))
    plain, windy = (drawn(scenario, ranges, 12, 0.02, 0) for scenario in (CALM, WINDY))
    np.testing.assert_array_equal(plain.yaw, windy.yaw)
    numbers = [stressor.generator(windy.seed).random() for stressor in windy.stressors]
    assert len({*numbers, np.random.default_rng(windy.seed).random()}) == 3


def test_its_factor_is_in_the_table_of_sensitivities(bundle: Path) -> None:
    verdict = validate_bundle(bundle, scenarios=(CALM, WINDY))
    [factor] = verdict.sensitivity
    assert (factor.name, factor.title) == ("wind", "Wind")
    assert [(level.label, level.number) for level in factor.levels] == [("without", 0.0), ("gusts", 0.05)]
