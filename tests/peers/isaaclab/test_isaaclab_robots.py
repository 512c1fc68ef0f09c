"""Every robot against Isaac Lab's asset and the official velocity task that uses it."""

import re

import pytest
from gaitway_tasks.robots import ROBOTS, DCMotor, ImplicitPD
from isaaclab.actuators import ActuatorNetLSTMCfg, ActuatorNetMLPCfg, DCMotorCfg, ImplicitActuatorCfg
from isaaclab.managers import SceneEntityCfg
from isaaclab.utils.string import resolve_matching_names, resolve_matching_names_values
from isaaclab_assets.robots.anymal import ANYDRIVE_3_SIMPLE_ACTUATOR_CFG
from stock_tasks import stock_cfg

STOCK = {name: robot for name, robot in ROBOTS.items() if robot.usd is not None}
"""Those that Isaac Lab has too."""
robots = pytest.mark.parametrize("robot", STOCK.values(), ids=STOCK)


def task_of(robot):
    return stock_cfg(robot.name, "rough")


def per_joint(robot, names, value):
    """A number or a {regular expression: number} of an actuator group, for ``names``."""
    if not isinstance(value, dict):
        return dict.fromkeys(names, value)
    _, found, values = resolve_matching_names_values(value, names)
    assert sorted(found) == sorted(names), robot.name
    return dict(zip(found, values, strict=True))


@robots
def test_asset(robot):
    cfg = task_of(robot).scene.robot
    assert cfg.spawn.usd_path.endswith(robot.usd)
    assert cfg.init_state.pos == (0.0, 0.0, robot.init_height)
    assert cfg.soft_joint_pos_limit_factor == robot.soft_joint_pos_limit_factor
    pose = dict.fromkeys(robot.joint_names, 0.0)
    _, names, values = resolve_matching_names_values(cfg.init_state.joint_pos, robot.joint_names)
    pose.update(zip(names, values, strict=True))
    assert tuple(pose.values()) == robot.default_joint_pos


@robots
def test_drives(robot):
    laws = dict(zip(robot.joint_names, robot.joint_actuators, strict=True))
    seen = set()
    for group in task_of(robot).scene.robot.actuators.values():
        _, names = resolve_matching_names(group.joint_names_expr, robot.joint_names)
        seen |= set(names)
        values = {key: per_joint(robot, names, getattr(group, key)) for key in ("effort_limit", "effort_limit_sim")}
        for name in names:
            law = laws[name]
            if isinstance(group, ImplicitActuatorCfg):
                assert type(law) is ImplicitPD
                assert law.effort_limit == values["effort_limit_sim"][name]
            else:
                assert type(law) is DCMotor and isinstance(group, DCMotorCfg)
                assert law.effort_limit == values["effort_limit"][name]
                assert law.saturation_effort == group.saturation_effort
                assert law.velocity_limit == group.velocity_limit
            assert law.armature == per_joint(robot, names, group.armature)[name], name
            if isinstance(group, ActuatorNetMLPCfg):
                continue  # a network without gains
            gains = ANYDRIVE_3_SIMPLE_ACTUATOR_CFG if isinstance(group, ActuatorNetLSTMCfg) else group
            assert law.stiffness == per_joint(robot, names, gains.stiffness)[name], name
            assert law.damping == per_joint(robot, names, gains.damping)[name], name
    assert seen == set(robot.joint_names)


@robots
def test_every_joint_and_body_that_the_task_names_is_there(robot):
    cfg = task_of(robot)
    entities = [
        param
        for group in (cfg.rewards, cfg.terminations, cfg.events)
        for term in vars(group).values()
        if term is not None and getattr(term, "weight", 1.0) != 0.0
        for param in term.params.values()
        if isinstance(param, SceneEntityCfg)
    ]
    for entity in entities:
        for patterns, names in ((entity.joint_names, robot.joint_names), (entity.body_names, robot.body_names)):
            if patterns is not None and patterns != slice(None):
                resolve_matching_names(patterns, names)  # raises unless each pattern matches
    feet = cfg.rewards.feet_air_time.params["sensor_cfg"].body_names
    assert tuple(name for name in robot.body_names if re.fullmatch(feet, name)) == robot.foot_names
    base = cfg.terminations.base_contact.params["sensor_cfg"].body_names
    assert resolve_matching_names(base, robot.body_names)[1] in ([robot.base_name], ["torso_link"])
    assert cfg.scene.height_scanner.prim_path.rsplit("/", 1)[1] in robot.body_names
