"""Presets: values with which a task is learnt on a few CPU cores, and the settings of the learner that go with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..actions import JointPositionAction, joint_positions
from ..mdp import events, rewards, terminations
from ..mdp.commands import UniformVelocityCommand
from ..robots.description import Preset
from ..robots.robot import ActuatorLaw, DCMotor, Robot
from ..spec import Event, ObservationGroup, Reward, Task, Termination, Timing
from . import base
from .base import COMMAND
from .gaits import by_the_clock, gait_of, growing
from .rough import over_rough_ground
from .upright import from_facts, on_two_legs


def blind(task: Task, history_length: int = 8) -> Task:
    """The actor loses the base velocity and the height scan, which no robot measures, and gains a history.

    The critic keeps them, without noise.
    """
    group = task.observations["policy"]
    critic = ObservationGroup(terms=group.terms, history_length=1, enable_corruption=False)
    measurable = {name: each for name, each in group.terms.items() if name not in ("base_lin_vel", "height_scan")}
    return replace(
        task,
        name=f"{task.name}-blind",
        observations={"policy": replace(group, terms=measurable, history_length=history_length), "critic": critic},
    )


def cpu(task: Task) -> Task:
    """Values that make ``task`` learnable in minutes on a few CPU cores; the goal of the task stays the same.

    Isaac Lab's values are meant for some thirty million steps. Here a policy trains on a fifth of that or less, so:

    - physics runs at 10 ms x 2 instead of 5 ms x 4, at half the cost; a policy is validated at 5 ms;
    - tracking pays three times as much against the penalties and a fall costs as much as a second of perfect
      walking, or standing still is a local optimum that takes most of the budget to leave; accelerations, which
      include every impact, cost less than half;
    - a second, narrow tracking reward tells 0.3 m/s from standing still, which the wide one hardly does;
    - drives that follow their target slower than a tenth of a second (kd / kp) are stiffer, for ANYmal kp 80 and kd 4
      (legged_gym uses 80 and 2): at 40 and 5 the exploration noise of a joint target is damped out before it moves the
      robot;
    - joints whose real drive is geared down turn no faster than it lets them (Go2's calves: 30 rad/s in Isaac Lab,
      15.7 in the real drive), or the policy would learn motions that the robot cannot make;
    - commands change every 2.5 s, yaw rates are commanded directly, and each linear axis is exactly zero in 30 % of
      the commands, where the mirrored halves of the command space meet;
    - a robot walks by a clock (:func:`.gaits.by_the_clock`): rewards of contact and air times alone take several times
      as many steps, and end in a patter that lives on soft contact; the narrow tracking rewards are three times as
      large beside it, and an action moves a joint target by 0.5 rad at least, or exploration lifts no foot;
    - without a front-back mirror, on a plane, commands and pushes grow with success, and progress along the command is
      paid (:func:`.gaits.growing`): told to go forwards as often as backwards, a robot steps on the spot for long;
    - on two legs, rewards and ranges come from the robot's facts (:func:`.upright.on_two_legs`);
    - every seventh command is to stand, and a quarter are at ends of the command ranges, where robots fall first; the
      exported policy changes its command no faster than a robot can follow, because sudden stops and reversals at full
      speed are what it falls from;
    - commands are drawn from ranges a tenth wider, since robots walk slower than they are told, and the exported
      policy's command is calibrated;
    - every robot is pushed every 4 to 8 s, starts at up to 1 m/s in any direction and off its default pose, and carries
      its weight off centre: with less of it, robots fall when they are pushed or told to stop;
    - a base that is tilted by more than 1 rad or lower than half its height at a reset has fallen, as in validation, or
      a robot with folded legs would crawl on its shanks;
    - episodes last 8 s, or a policy that no longer falls hardly ever practises starting from a reset;
    - friction and hardness of the ground differ between environments, and actions arrive up to 20 ms late: a policy
      trained on only one simulated floor drags its feet and trips on the next.
    """
    upright = is_upright(task)
    task = from_facts(task) if upright else task
    drives = {name: stiffer(law) for name, law in as_built(task.robot).items()}
    command = replace(
        UniformVelocityCommand.of(task),
        resampling_time_range=(2.5, 2.5),
        heading_command=False,
        rel_heading_envs=0.0,
        rel_zero_axis=0.3,
        rel_standing_envs=0.15,
        rel_ends=0.25,
        margin=0.1,
        acceleration=(2.1, 2.1, 2.5),
    )
    timing = Timing(physics_dt=0.01, decimation=2, episode_length_s=8.0)
    weights = {"track_lin_vel_xy_exp": 3.0, "track_ang_vel_z_exp": 1.5, "dof_acc_l2": -1.0e-7, "feet_air_time": 0.5}
    gait = gait_of(task.robot) if task.robot.foot_height is not None or task.robot.quadruped else None
    fine = 3.0 if gait else 1.0
    narrow = {"std": 0.2, **COMMAND}
    added = {
        "track_lin_vel_xy_fine": Reward(func=rewards.track_lin_vel_xy_exp, weight=1.5 * fine, params=narrow),
        "track_ang_vel_z_fine": Reward(func=rewards.track_ang_vel_z_exp, weight=0.75 * fine, params=narrow),
        "termination": Reward(func=rewards.is_terminated, weight=-3.0 / timing.step_dt),
    }
    varied = {
        "physics_material": Event(
            func=events.randomize_rigid_body_material, mode="startup", params={"friction_range": (0.35, 1.6)}
        ),
        "ground_impedance": Event(
            func=events.randomize_ground_impedance, mode="startup", params={"impedance_range": (0.9, 0.98)}
        ),
        "action_delay": Event(func=events.randomize_action_delay, mode="reset", params={"delay_range": (0.0, 0.02)}),
    }
    falls = {
        "tilted": Termination(func=terminations.bad_orientation, params={"limit_angle": 1.0}),
        "low": Termination(
            func=terminations.root_height_below_minimum, params={"minimum_height": 0.5 * task.robot.init_height}
        ),
    }
    task = replace(
        task,
        robot=task.robot.replace(actuators=drives),
        timing=timing,
        commands={"base_velocity": command},
        terminations={**task.terminations, **falls},
        rewards={**{k: replace(r, weight=weights.get(k, r.weight)) for k, r in task.rewards.items()}, **added},
        events={**task.events, **_disturbances(task), **varied},
    )
    if gait is not None:
        turns = any(mirror.axis == "x" for mirror in task.robot.mirrors.values())
        task = by_the_clock(task, gait)
        task = task if turns or not task.ground.flat else growing(task)
        task = on_two_legs(task) if upright else replace(task, actions=_lively(joint_positions(task)))
    return task if task.ground.flat else over_rough_ground(task)


def is_upright(task: Task) -> bool:
    """True for a robot that walks on two legs and whose feet are known."""
    return len(task.robot.foot_names) == 2 and task.robot.foot_height is not None


def _lively(action: JointPositionAction) -> JointPositionAction:
    """``action`` with a scale of 0.5 rad at least."""
    scale = action.scale
    least = {name: max(0.5, s) for name, s in scale.items()} if isinstance(scale, Mapping) else max(0.5, scale)
    return replace(action, scale=least)


def _disturbances(task: Task) -> dict[str, Event]:
    """Pushes, starts and shifts of weight: those of the quadrupeds' common task, more often and faster."""
    common = base.flat(task.robot).events
    start, push = common["reset_base"], common["push_robot"]
    speeds = {**start.params["velocity_range"], "x": (-1.0, 1.0), "y": (-1.0, 1.0)}
    return {
        **{name: common[name] for name in ("reset_robot_joints", "base_com") if "push_robot" not in task.events},
        "reset_base": replace(start, params={**start.params, "velocity_range": speeds}),
        "push_robot": replace(push, interval_range_s=(4.0, 8.0)),
    }


def sprint(task: Task) -> Task:
    """:func:`cpu` without noise, pushes and randomisation: the shortest way to a robot that walks in simulation.

    Without pushes, a higher cost of falling teaches the robot to stay up.
    """
    task = cpu(task)
    fall = replace(task.rewards["termination"], weight=-5.0 / task.timing.step_dt)
    command = replace(UniformVelocityCommand.of(task), rel_zero_axis=0.4)
    return replace(
        task,
        rewards={**task.rewards, "termination": fall},
        commands={"base_velocity": command},
        observations={name: replace(g, enable_corruption=False) for name, g in task.observations.items()},
        events={name: task.events[name] for name in ("reset_base", "reset_robot_joints")},
    )


def as_built(robot: Robot) -> dict[str, ActuatorLaw]:
    """The robot's drives; joints whose real drive is slower form groups of their own."""
    laws: dict[str, ActuatorLaw] = dict(robot.actuators)
    if robot.hardware is None:
        return laws
    speed, effort = robot.hardware.velocity_limit, robot.hardware.effort_limit
    for name, law in robot.actuators.items():
        joints = [joint for joint, own in zip(robot.joint_names, robot.joint_actuators, strict=True) if own is law]
        slow = tuple(j for j in joints if isinstance(law, DCMotor) and speed[j] < law.velocity_limit)
        if not slow:
            continue
        assert isinstance(law, DCMotor)
        fast = tuple(joint for joint in joints if joint not in slow)
        laws |= {name: replace(law, joints=fast)} if fast else {}
        for number, (limit, torque) in enumerate(sorted({(speed[joint], effort[joint]) for joint in slow})):
            group = tuple(joint for joint in slow if (speed[joint], effort[joint]) == (limit, torque))
            laws[f"{name}_geared{number or ''}"] = replace(
                law, effort_limit=torque, saturation_effort=torque, velocity_limit=limit, joints=group
            )
    return laws


def stiffer(law: ActuatorLaw) -> ActuatorLaw:
    """``law`` of a drive that follows its target within a tenth of a second."""
    slow = law.damping > 0.1 * law.stiffness
    return replace(law, stiffness=2.0 * law.stiffness, damping=0.8 * law.damping) if slow else law


# ---- the learner -----------------------------------------------------------------------------------------------------

FEW_CORES: dict[str, Any] = {
    "num_envs": 256,
    "checkpoint_interval": 50,
    "total_steps": 4_500_000,
    "agent.num_steps": 16,
    "agent.gamma": 0.98,
    "agent.symmetry": "canonical",
    "agent.learning_rate_final": 1.5e-4,
    "agent.anneal": "exponential",
    "agent.average_steps": 250_000,
    "agent.model.init_std": 0.8,
    "agent.model.estimator": {},
    "agent.optimizer.epochs": 4,
    "agent.optimizer.minibatches": 2,
    "agent.optimizer.entropy_coefficient": 0.003,
    "agent.optimizer.learning_rate": 1.5e-3,
    "agent.optimizer.schedule": "constant",
    "agent.optimizer.max_kl": 0.12,
    "agent.optimizer.workers": 2,
}
"""For two cores: few environments and many updates. A policy acts in one quarter of the command space and is mirrored
into the others, which halves the steps it needs. The mean over the last updates is what is examined and exported, so
the learning rate may be high for long; a third of it is left after half the steps, and a tenth at the end, or a policy
that is not good early gets worse again."""
SHORT = FEW_CORES | {"total_steps": 3_000_000, "agent.learning_rate_final": 1e-4, "agent.anneal": "linear"}
ROUGH = FEW_CORES | {"total_steps": 8_000_000, "agent.anneal_steps": 3_000_000}
"""On rough ground an environment step takes twice as long. Robots learn to walk at the high learning rate, and hardly
climb before it is low."""
UPRIGHT = FEW_CORES | {
    "num_envs": 512,
    "total_steps": 20_000_000,
    "agent.first_guess": True,
    "agent.anneal": "linear",
    "agent.model.init_std": 0.5,
    "agent.optimizer.learning_rate": 1e-3,
}
"""On two legs. Noise of 0.8 throws them over, and more robots in a rollout make up for what less of it explores."""


def on_few_cores(task: Task) -> Mapping[str, Any]:
    """Settings of a :func:`cpu` task's training, by dotted keys."""
    if is_upright(task):
        return UPRIGHT
    return FEW_CORES if task.ground.flat else ROUGH


CPU = Preset(change=cpu, settings=on_few_cores)
SPRINT = Preset(change=sprint, settings=lambda task: SHORT)
