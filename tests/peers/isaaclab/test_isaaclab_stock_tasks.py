"""The sixteen velocity tasks that Isaac Lab has too, value by value; every difference has a reason."""

from __future__ import annotations

import functools
import re

import pytest
from gaitway_isaaclab import env_cfgs
from gaitway_isaaclab.registration import cfg_name
from gaitway_tasks.registry import get_task
from gaitway_tasks.robots import ROBOTS, DCMotor
from isaaclab.envs import ManagerBasedRLEnvCfg
from isaaclab_assets.robots.anymal import ANYDRIVE_3_SIMPLE_ACTUATOR_CFG
from stock_tasks import PREFIXES, differences, resolved, stock_cfg

DIFFERENCES = {
    r".*: gaitway_(task|asset|actuators)": "ours alone: what the configuration was built from",
    r".*: actions\.joint_pos\.(preserve_order|class_type)": (
        "actions are in the robot's own joint order, whatever the simulator's is"
    ),
    r".*: commands\.base_velocity\.(class_type|rel_zero_axis|rel_ends|margin)": (
        "draws and follows headings without waiting for the GPU, to the same values; the others are ours, and 0"
    ),
    r".*: events\.reset_base\.params\.pose_range\.yaw": "a full circle is 2 pi; Isaac Lab writes 3.14 for half of it",
    r".*: events\.base_external_force_torque": "forces and torques of zero, and gone from the variants for play",
    r".*anymal-[bcd].*: scene\.robot\.actuators\.[LR].*\.(class_type|stiffness|damping|network_file)": (
        "the task's DC motor instead of the LSTM network, whose file is not public data; compared below"
    ),
    r".*go1.*: scene\.robot\.actuators\.[FR].*\."
    r"(class_type|stiffness|damping|network_file|(pos|vel|torque)_scale|input_(order|idx))": (
        "the task's DC motor with the limits of the network, whose file is not public data"
    ),
    r"velocity-rough-[hg]1 play: (episode_length_s|commands\.base_velocity\.ranges\.(lin_vel_x|lin_vel_y|heading))": (
        "Isaac Lab shows its humanoids walking straight ahead for 40 s; ours play what they were trained for"
    ),
}
STOCK = [name for name, robot in ROBOTS.items() if robot.usd is not None]
NAMES = [
    f"velocity-{ground}-{robot}{play}" for robot in STOCK for ground in ("flat", "rough") for play in ("", " play")
]


@pytest.fixture(autouse=True, scope="module")
def stock_asset():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GAITWAY_ISAACLAB_ASSET", "nucleus")
        yield


def pair(name):
    """Our configuration and Isaac Lab's."""
    task, _, play = name.partition(" ")
    _, ground, robot = task.split("-", 2)
    ours = getattr(env_cfgs, f"{cfg_name(task)}EnvCfg{'_PLAY' if play else ''}")()
    return ours, stock_cfg(robot, ground, bool(play)), ROBOTS[robot]


@functools.cache
def found(name):
    ours, theirs, robot = pair(name)
    assert isinstance(ours, ManagerBasedRLEnvCfg)
    return [
        (f"{name}: {path}", *values)
        for path, *values in differences(resolved(ours.to_dict(), robot), resolved(theirs.to_dict(), robot))
    ]


def test_there_is_a_stock_task_for_every_robot():
    assert set(PREFIXES) == set(STOCK)


@pytest.mark.parametrize("name", NAMES)
def test_every_value_is_isaac_lab_s(name):
    assert [
        entry for entry in found(name) if not any(re.fullmatch(p + r"(\..*)?", entry[0]) for p in DIFFERENCES)
    ] == []
    force = pair(name)[1].events.base_external_force_torque
    assert force is None or not any((*force.params["force_range"], *force.params["torque_range"]))


def test_no_difference_is_allowed_for_nothing():
    entries = [entry[0] for name in NAMES for entry in found(name)]
    assert [p for p in DIFFERENCES if not any(re.match(p, entry) for entry in entries)] == []


def test_a_difference_would_be_seen():
    ours, theirs, robot = pair("velocity-rough-g1")
    theirs.rewards.lin_vel_z_l2.weight = -1.9
    theirs.observations.policy.joint_vel.noise.n_max = 1.4
    theirs.rewards.dof_acc_l2.params["asset_cfg"].joint_names = [".*_hip_.*"]
    theirs.rewards.feet_slide.params["threshold"] = 2.0
    theirs.terminations.base_contact.params["sensor_cfg"].body_names = "pelvis"
    theirs.scene.height_scanner.prim_path = "{ENV_REGEX_NS}/Robot/pelvis"
    theirs.scene.terrain.terrain_generator.sub_terrains["boxes"].grid_height_range = (0.025, 0.1)
    theirs.scene.robot.actuators["legs"].stiffness[".*_knee_joint"] = 201.0
    paths = {path for path, *_ in differences(resolved(ours.to_dict(), robot), resolved(theirs.to_dict(), robot))}
    assert {
        "rewards.lin_vel_z_l2.weight",
        "observations.policy.joint_vel.noise.n_max",
        "rewards.dof_acc_l2.params.joints",
        "rewards.feet_slide.params.threshold",
        "terminations.base_contact.params.bodies",
        "scene.height_scanner.prim_path",
        "scene.terrain.terrain_generator.sub_terrains.boxes.grid_height_range",
        "scene.robot.actuators.left_knee_joint.stiffness",
    } <= paths


@pytest.mark.parametrize("robot", STOCK)
def test_order_of_observations_and_of_the_scene(robot):
    ours, theirs, _ = pair(f"velocity-rough-{robot}")
    assert list(vars(ours.observations.policy)) == list(vars(theirs.observations.policy))
    order = list(vars(ours.scene))
    assert order.index("terrain") < order.index("robot") < order.index("contact_forces")


@pytest.mark.parametrize("robot", ["anymal-b", "anymal-c", "anymal-d"])
def test_the_dc_motor_is_the_simple_anydrive(robot):
    legs = getattr(env_cfgs, cfg_name(f"velocity-flat-{robot}") + "EnvCfg")().scene.robot.actuators["legs"].to_dict()
    assert {path for path, *_ in differences(legs, ANYDRIVE_3_SIMPLE_ACTUATOR_CFG.to_dict())} == {"joint_names_expr"}


def test_the_dc_motor_of_go1_has_the_network_s_limits():
    (law,) = get_task("velocity-flat-go1").robot.actuators.values()
    network = stock_cfg("go1", "flat").scene.robot.actuators["base_legs"]
    assert isinstance(law, DCMotor)
    for key in ("effort_limit", "saturation_effort", "velocity_limit"):
        assert getattr(law, key) == getattr(network, key), key
