"""Every value of ``velocity-flat-anymal-c`` against Isaac Lab's own task; deliberate differences are listed."""

from __future__ import annotations

import math

import pytest
from gaitway_tasks.robots import ANYMAL_C, DCMotor
from gaitway_tasks.spec import UniformNoise
from gaitway_tasks.velocity import velocity_flat
from isaac_side import BODIES, JOINTS
from isaaclab.managers import ActionTermCfg, EventTermCfg, ObservationTermCfg, RewardTermCfg, TerminationTermCfg
from isaaclab.utils.string import resolve_matching_names, resolve_matching_names_values
from isaaclab_assets.robots.anymal import ANYDRIVE_3_SIMPLE_ACTUATOR_CFG, ANYMAL_C_CFG
from isaaclab_tasks.manager_based.locomotion.velocity.config.anymal_c.flat_env_cfg import AnymalCFlatEnvCfg

TASK = velocity_flat(ANYMAL_C)
CFG = AnymalCFlatEnvCfg()


def terms(group, kind):
    return {name: term for name, term in vars(group).items() if isinstance(term, kind)}


def test_timing():
    assert TASK.timing.physics_dt == CFG.sim.dt
    assert TASK.timing.decimation == CFG.decimation
    assert TASK.timing.episode_length_s == CFG.episode_length_s
    # Isaac Lab's own expression for the number of control steps.
    assert TASK.timing.max_episode_length == math.ceil(CFG.episode_length_s / (CFG.sim.dt * CFG.decimation))


def test_terrain():
    ground = CFG.scene.terrain
    assert TASK.ground.flat and ground.terrain_type == "plane"
    assert TASK.ground.friction == ground.physics_material.static_friction
    # The robot's friction times the ground's 1.0: in both the robot's own value decides.
    assert ground.physics_material.friction_combine_mode == "multiply"
    assert CFG.curriculum.terrain_levels is None and TASK.curriculum == {}
    assert CFG.scene.height_scanner is None and TASK.height_scanners == {}


def test_observations():
    theirs = terms(CFG.observations.policy, ObservationTermCfg)
    group = TASK.observations["policy"]
    assert list(TASK.observations) == ["policy"]
    assert list(group.terms) == list(theirs)  # the order is part of the contract
    for name, term in group.terms.items():
        other = theirs[name]
        assert term.func.__name__ == other.func.__name__
        noise = UniformNoise(low=other.noise.n_min, high=other.noise.n_max) if other.noise else None
        assert term.noise == noise, name
        assert term.clip == other.clip and term.scale == (1.0 if other.scale is None else other.scale)
        assert dict(term.params) == other.params
    assert group.enable_corruption == CFG.observations.policy.enable_corruption
    assert group.history_length == 1 and CFG.observations.policy.history_length is None


def test_actions():
    theirs = terms(CFG.actions, ActionTermCfg)
    assert list(theirs) == ["joint_pos"]
    action = theirs["joint_pos"]
    assert TASK.actions.scale == action.scale and action.use_default_offset and action.offset == 0.0
    assert action.joint_names == [".*"] and action.clip is None


def test_rewards():
    theirs = terms(CFG.rewards, RewardTermCfg)
    assert list(TASK.rewards) == list(theirs)
    for name, term in TASK.rewards.items():
        other = theirs[name]
        assert term.weight == other.weight, name
        assert term.func.__name__ == other.func.__name__
        for key, value in other.params.items():
            if key != "sensor_cfg":
                assert term.params[key] == value, f"{name}.{key}"
                continue
            ours = [p for k, p in term.params.items() if k in ("feet", "bodies")]
            assert len(ours) == 1 and matched(ours[0]) == matched(value.body_names)
        # Nothing of ours that is not theirs.
        assert {k for k in term.params if k not in ("feet", "bodies")} == set(other.params) - {"sensor_cfg"}


def matched(pattern):
    return set(resolve_matching_names(pattern, BODIES)[1])


def test_terminations():
    theirs = terms(CFG.terminations, TerminationTermCfg)
    assert list(TASK.terminations) == list(theirs)
    for name, term in TASK.terminations.items():
        assert term.func.__name__ == theirs[name].func.__name__
        assert term.time_out == theirs[name].time_out
    ours, other = TASK.terminations["base_contact"].params, theirs["base_contact"].params
    assert ours["threshold"] == other["threshold"]
    assert matched(ours["bodies"]) == matched(other["sensor_cfg"].body_names) == {"base"}


def test_commands():
    ours, theirs = TASK.commands["base_velocity"], CFG.commands.base_velocity
    assert list(TASK.commands) == [name for name, term in vars(CFG.commands).items() if term is not None]
    for name in (
        "resampling_time_range", "rel_standing_envs", "rel_heading_envs", "heading_command",
        "heading_control_stiffness",
    ):  # fmt: skip
        assert getattr(ours, name) == getattr(theirs, name), name
    for name in ("lin_vel_x", "lin_vel_y", "ang_vel_z", "heading"):
        assert getattr(ours, name) == pytest.approx(getattr(theirs.ranges, name), abs=0.0), name
    assert ours.rel_zero_axis == ours.rel_ends == ours.margin == 0.0  # ours alone, and off


EVENT_DIFFERENCES = {
    # Forces and torques of zero: the event does nothing, in Isaac Lab either.
    "base_external_force_torque": "absent",
}


def test_events():
    theirs = terms(CFG.events, EventTermCfg)
    assert list(TASK.events) == [name for name in theirs if EVENT_DIFFERENCES.get(name) != "absent"]
    force = theirs["base_external_force_torque"].params
    assert set(force["force_range"]) == set(force["torque_range"]) == {0.0}
    for name, event in TASK.events.items():
        assert event.mode == theirs[name].mode
        assert event.interval_range_s == theirs[name].interval_range_s
        function = theirs[name].func
        assert event.func.__name__ == function.__name__
    params = {name: (dict(event.params), theirs[name].params) for name, event in TASK.events.items()}

    ours, other = params["physics_material"]
    # MuJoCo has one sliding friction: Isaac Lab's static one. Its dynamic one is 0.6.
    assert ours["friction_range"] == other["static_friction_range"]
    assert other["dynamic_friction_range"] == (0.6, 0.6) and other["restitution_range"] == (0.0, 0.0)

    ours, other = params["add_base_mass"]
    assert ours["mass_distribution_params"] == other["mass_distribution_params"]
    assert other["operation"] == "add" and matched(other["asset_cfg"].body_names) == {TASK.robot.base_name}

    ours, other = params["base_com"]
    assert ours["com_range"] == other["com_range"] and matched(other["asset_cfg"].body_names) == {TASK.robot.base_name}

    ours, other = params["reset_base"]
    assert ours["velocity_range"] == other["velocity_range"]
    assert set(ours["pose_range"]) == set(other["pose_range"])
    for axis, limits in other["pose_range"].items():
        # Isaac Lab writes 3.14 for a full circle of yaw.
        assert ours["pose_range"][axis] == pytest.approx(limits, abs=0.002 if axis == "yaw" else 0.0)

    ours, other = params["reset_robot_joints"]
    assert ours["position_range"] == other["position_range"] and other["velocity_range"] == (0.0, 0.0)

    ours, other = params["push_robot"]
    assert ours["velocity_range"] == other["velocity_range"]


def test_robot():
    robot = CFG.scene.robot
    ids, _, values = resolve_matching_names_values(robot.init_state.joint_pos, list(ANYMAL_C.joint_names))
    assert dict(zip(ids, values, strict=True)) == dict(enumerate(ANYMAL_C.default_joint_pos))
    assert robot.init_state.pos == (0.0, 0.0, ANYMAL_C.init_height)
    assert robot.init_state.rot == (1.0, 0.0, 0.0, 0.0)
    assert robot.soft_joint_pos_limit_factor == ANYMAL_C.soft_joint_pos_limit_factor
    assert ANYMAL_C_CFG.spawn.usd_path.endswith("/" + ANYMAL_C.usd)
    assert set(JOINTS) == set(ANYMAL_C.joint_names) and set(BODIES) == set(ANYMAL_C.body_names)


def test_actuator_is_the_simple_anydrive():
    """A difference: Isaac Lab's task drives the legs with an LSTM network of the same limits."""
    cfg, law = ANYDRIVE_3_SIMPLE_ACTUATOR_CFG, ANYMAL_C.joint_actuators[0]
    assert law == DCMotor(
        stiffness=cfg.stiffness[".*"],
        damping=cfg.damping[".*"],
        effort_limit=cfg.effort_limit,
        saturation_effort=cfg.saturation_effort,
        velocity_limit=cfg.velocity_limit,
    )
    network = CFG.scene.robot.actuators["legs"]
    assert type(network).__name__ == "ActuatorNetLSTMCfg"
    limits = (network.effort_limit, network.saturation_effort, network.velocity_limit)
    assert limits == (law.effort_limit, law.saturation_effort, law.velocity_limit)


def test_contact_sensor_sees_more_than_the_last_physics_step():
    """A difference: contact terms of Isaac Lab take the strongest of the last three physics steps, ours the last."""
    sensor = CFG.scene.contact_forces
    assert (sensor.history_length, sensor.track_air_time, sensor.update_period) == (3, True, CFG.sim.dt)
