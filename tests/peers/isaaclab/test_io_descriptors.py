"""``io_descriptors.yaml`` against what Isaac Lab's own managers and functions export for the same task."""

from __future__ import annotations

import dataclasses
import importlib
from types import SimpleNamespace

import pytest
import torch
import yaml
from gaitway_sim2real.bundle.io_descriptors import io_descriptors
from gaitway_tasks.robots import ANYMAL_C
from gaitway_tasks.velocity import blind, velocity_flat
from isaac_side import JOINTS, TO_ISAAC, isaac_env
from isaaclab.envs.mdp.actions.joint_actions import JointPositionAction
from isaaclab.envs.utils.io_descriptors import (
    GenericActionIODescriptor,
    GenericObservationIODescriptor,
    export_articulations_data,
)
from isaaclab.managers import ActionManager, ObservationManager
from isaaclab_tasks.manager_based.locomotion.velocity.config.anymal_c.flat_env_cfg import AnymalCFlatEnvCfg
from tensor_world import TensorWorld

DIMS = {
    "base_lin_vel": 3, "base_ang_vel": 3, "projected_gravity": 3, "velocity_commands": 3, "joint_pos": 12,
    "joint_vel": 12, "actions": 12,
}  # fmt: skip
ARMATURE, FRICTION = [0.001 * k for k in range(12)], [0.01 * k for k in range(12)]


def read_back(task):
    """As a file, through the loader that Isaac Lab's users have."""
    return yaml.safe_load(yaml.safe_dump(io_descriptors(task, DIMS, armature=ARMATURE, friction=FRICTION)))


@pytest.fixture(scope="module")
def env():
    env = isaac_env(TensorWorld(ANYMAL_C, 2).randomize(0))
    stock = AnymalCFlatEnvCfg()
    data = env.scene["robot"].data
    laws = [ANYMAL_C.joint_actuators[i] for i in TO_ISAAC]

    def rows(values):
        return torch.tensor([values, values])

    data.default_joint_pos_limits = rows([ANYMAL_C.joint_limits[i] for i in TO_ISAAC])
    data.default_joint_stiffness = rows([law.stiffness for law in laws])
    data.default_joint_damping = rows([law.damping for law in laws])
    data.default_joint_armature = rows([ARMATURE[i] for i in TO_ISAAC])
    data.default_joint_friction = rows([FRICTION[i] for i in TO_ISAAC])
    env.scene.articulations = {"robot": env.scene["robot"]}
    env.cfg = stock
    return env


@pytest.fixture(scope="module")
def ours():
    return read_back(velocity_flat(ANYMAL_C))


def theirs_of(env, history=None):
    cfg = AnymalCFlatEnvCfg().observations
    cfg.policy.history_length = history
    return ObservationManager(cfg, env).get_IO_descriptors["policy"]


def in_our_order(values):
    """A list in Isaac Lab's joint order, in that of the bundle."""
    return [values[JOINTS.index(name)] for name in ANYMAL_C.joint_names]


def test_every_observation_is_described_as_isaac_lab_describes_it(env, ours):
    theirs, rows = theirs_of(env), ours["observations"]["policy"]
    assert [row["name"] for row in rows] == [row["name"] for row in theirs]
    for row, reference in zip(rows, theirs, strict=True):
        assert set(row) == set(reference), row["name"]
        for key in ("full_path", "mdp_type", "observation_type", "dtype", "shape", "overloads"):
            assert row[key] == reference[key], (row["name"], key)
        for key in ("units", "axes"):
            assert row["extras"].get(key) == reference["extras"].get(key), (row["name"], key)
        for key in ("joint_names", "joint_pos_offsets", "joint_vel_offsets"):
            if key in reference:
                assert row[key] == pytest.approx(in_our_order(reference[key])), (row["name"], key)


def test_history_is_described_as_isaac_lab_describes_it(env):
    rows = read_back(blind(velocity_flat(ANYMAL_C), 4))["observations"]["policy"]
    reference = {row["name"]: row["overloads"] for row in theirs_of(env, history=4)}
    assert {row["name"]: row["overloads"] for row in rows} == {
        name: overloads for name, overloads in reference.items() if name != "base_lin_vel"
    }


def test_the_action_is_described_as_isaac_lab_describes_it(env, ours):
    cfg = AnymalCFlatEnvCfg().actions.joint_pos
    manager = SimpleNamespace(_terms={"joint_pos": JointPositionAction(cfg, env)})
    [theirs] = ActionManager.get_IO_descriptors.fget(manager)
    [row] = ours["actions"]
    assert set(row) == set(theirs)
    assert row["joint_names"] == in_our_order(theirs["joint_names"])
    assert row["offset"] == pytest.approx(in_our_order(theirs["offset"]))
    for key in ("name", "full_path", "mdp_type", "action_type", "dtype", "shape", "scale", "clip"):
        assert row[key] == theirs[key], key


def test_articulation_and_scene_have_isaac_labs_keys_and_values(env, ours):
    theirs, row = export_articulations_data(env)["robot"], ours["articulations"]["robot"]
    assert set(row) == set(theirs)
    assert row["joint_names"] == in_our_order(theirs["joint_names"])
    for key in set(theirs) - {"joint_names"}:
        torch.testing.assert_close(torch.tensor(row[key]), torch.tensor(in_our_order(theirs[key])))
    cfg = AnymalCFlatEnvCfg()
    assert ours["scene"] == {
        "physics_dt": cfg.sim.dt, "dt": cfg.sim.dt * cfg.decimation, "decimation": cfg.decimation
    }  # fmt: skip


def test_isaac_labs_classes_and_functions_are_found_from_the_file(ours):
    """A reader fills the descriptor classes and imports each ``full_path``."""
    for cls, rows in (
        (GenericObservationIODescriptor, ours["observations"]["policy"]),
        (GenericActionIODescriptor, ours["actions"]),
    ):
        fields = {field.name for field in dataclasses.fields(cls)} - {"description", "export"}
        for row in rows:
            assert fields <= set(row)
            descriptor = cls(**{name: row[name] for name in fields})
            module, _, name = descriptor.full_path.rpartition(".")
            assert callable(getattr(importlib.import_module(module), name))


def test_a_drives_own_armature_replaces_the_models(ours):
    law = dataclasses.replace(ANYMAL_C.joint_actuators[0], armature=0.5)
    robot = ANYMAL_C.replace(actuators={"legs": law})
    described = read_back(velocity_flat(robot))
    assert described["articulations"]["robot"]["default_joint_armature"] == [0.5] * 12
