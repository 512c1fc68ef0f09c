"""Grounds and feet of the suite: each setting reaches the compiled robot, and no floor lets a standing robot slide."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest
from gaitway_onboard.bundle.contract import Contract
from gaitway_sim2real.mujoco.physics import Physics
from gaitway_sim2real.mujoco.plant import FixedFeet, Plant, build_plant
from gaitway_tasks.robots import G1
from stand_bundle import make_stand_bundle


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_stand_bundle(tmp_path_factory.mktemp("stand"))


def plant_on(bundle: Path, physics: Physics) -> Plant:
    return build_plant(Contract.load(bundle), bundle / "robot.xml", bundle / "robot.xml", physics=physics)


def stand(plant: Plant, contract: Contract, seconds: float = 1.0) -> mujoco.MjData:
    """The robot after it stood for ``seconds`` in its default pose."""
    data = mujoco.MjData(plant.model)
    data.qpos[plant.base_qpos + 2] = plant.start_height
    data.qpos[plant.joint_qpos] = data.ctrl[:] = contract.default_joint_pos
    mujoco.mj_step(plant.model, data, round(seconds / plant.model.opt.timestep))
    return data


def sunk(data: mujoco.MjData) -> float:
    """Depth of the deepest contact [m]."""
    return -float(data.contact.dist.min())


def test_settings_reach_the_model(bundle: Path) -> None:
    physics = Physics(
        timestep=0.002, integrator="euler", cone="pyramidal", impratio=7.0, solref=(0.03, 0.9), solimp=(0.8, 0.9, 0.002)
    )
    plant = plant_on(bundle, physics)
    model = plant.model
    assert (model.opt.timestep, model.opt.impratio, plant.decimation) == (0.002, 7.0, 10)
    assert (
        model.opt.integrator == mujoco.mjtIntegrator.mjINT_EULER and model.opt.cone == mujoco.mjtCone.mjCONE_PYRAMIDAL
    )
    np.testing.assert_allclose(model.geom_solref[plant.soles], [[0.03, 0.9]] * len(plant.soles))
    np.testing.assert_allclose(model.geom_solimp[plant.soles, :3], [[0.8, 0.9, 0.002]] * len(plant.soles))


def test_nothing_said_is_the_file(bundle: Path) -> None:
    model = plant_on(bundle, Physics()).model
    assert (model.opt.timestep, model.opt.impratio) == (0.005, 100.0)
    assert model.opt.integrator == mujoco.mjtIntegrator.mjINT_IMPLICITFAST


def test_softness_is_how_far_feet_sink(bundle: Path) -> None:
    contract = Contract.load(bundle)
    hard, soft = (
        sunk(stand(plant_on(bundle, physics), contract))
        for physics in (Physics(solref=(0.01, 1.0)), Physics(solimp=(0.9, 0.95, 0.001)))
    )
    assert hard < 0.001 < 0.005 < soft


def test_size_of_feet(bundle: Path) -> None:
    nominal, small, large = (plant_on(bundle, Physics(foot_size=size)) for size in (1.0, 0.85, 1.15))
    foot = nominal.model.geom("LF_FOOT").id
    assert [p.model.geom_size[foot, 0] for p in (small, nominal, large)] == pytest.approx([0.0255, 0.03, 0.0345])
    shank = nominal.model.geom("LF_SHANK").id
    assert small.model.geom_size[shank].tolist() == nominal.model.geom_size[shank].tolist()


@pytest.mark.parametrize("shape", ["capsule", "worn"])
def test_shapes_of_feet_lie_flat_in_the_default_pose(bundle: Path, shape: str) -> None:
    contract = Contract.load(bundle)
    ball, other = plant_on(bundle, Physics()), plant_on(bundle, Physics(foot_shape=shape))
    data = stand(other, contract)
    assert data.ncon >= 8  # two ends of a capsule, corners of a sole
    assert np.ptp(data.contact.dist) < 0.002
    assert stand(ball, contract).qpos[2] == pytest.approx(data.qpos[2], abs=0.006)


def test_feet_that_cannot_be_altered_are_named(tmp_path: Path) -> None:
    bundle = make_stand_bundle(tmp_path, G1)
    with pytest.raises(FixedFeet, match="feet are no balls"):
        plant_on(bundle, Physics(foot_shape="worn"))
    assert plant_on(bundle, Physics(foot_size=1.1)).soles.size
