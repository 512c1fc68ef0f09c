"""Changes of a whole task: what the actor sees, and values for learning on a few CPU cores."""

from __future__ import annotations

from dataclasses import replace

from ..mdp import events, rewards
from ..robots.robot import ActuatorLaw
from ..spec import Event, ObservationGroup, Reward, Task, Timing
from .base import COMMAND


def blind(task: Task, history_length: int = 8) -> Task:
    """The actor loses the base velocity, which no robot measures, and gains a history; the critic keeps both."""
    group = task.observations["policy"]
    critic = ObservationGroup(terms=group.terms, history_length=1, enable_corruption=False)
    measurable = {name: term for name, term in group.terms.items() if name != "base_lin_vel"}
    return replace(
        task,
        name=f"{task.name}-blind",
        observations={
            "policy": replace(group, terms=measurable, history_length=history_length),
            "critic": critic,
        },
    )


def cpu(task: Task) -> Task:
    """Values that make ``task`` learnable in minutes on a few CPU cores; what it means to walk stays the same.

    Isaac Lab's values are meant for some thirty million steps. Here a policy sees a fifth of that or less, so:

    - physics runs at 10 ms x 2 instead of 5 ms x 4, at half the cost; a policy is validated at 5 ms;
    - tracking pays three times as much against the penalties and a fall costs as much as a second of perfect
      walking, or standing still is a local optimum that takes most of the budget to leave; accelerations, which
      include every impact, cost less than half;
    - a second, narrow tracking reward tells 0.3 m/s from standing still, which the wide one hardly does;
    - drives that follow their target slower than a tenth of a second (kd / kp) are stiffer, for ANYmal kp 80 and kd 4
      (legged_gym uses 80 and 2): at 40 and 5 the exploration noise of a joint target is damped out before it moves the
      robot;
    - commands change every 3 s, yaw rates are commanded directly, and each linear axis is exactly zero in 30 % of
      the commands, where the mirrored halves of the command space meet;
    - episodes last 8 s, or a policy that no longer falls hardly ever practises to start from where a reset leaves it;
    - friction and hardness of the ground differ between environments, and actions arrive up to 20 ms late: a policy
      that has only met one simulated floor drags its feet and trips on the next.
    """
    drives = {name: _stiffer(law) for name, law in task.robot.actuators.items()}
    command = replace(
        task.commands["base_velocity"],
        resampling_time_range=(3.0, 3.0),
        heading_command=False,
        rel_heading_envs=0.0,
        rel_zero_axis=0.3,
    )
    timing = Timing(physics_dt=0.01, decimation=2, episode_length_s=8.0)
    weights = {"track_lin_vel_xy_exp": 3.0, "track_ang_vel_z_exp": 1.5, "dof_acc_l2": -1.0e-7}
    added = {
        "track_lin_vel_xy_fine": Reward(func=rewards.track_lin_vel_xy_exp, weight=1.5, params={"std": 0.2, **COMMAND}),
        "track_ang_vel_z_fine": Reward(func=rewards.track_ang_vel_z_exp, weight=0.75, params={"std": 0.2, **COMMAND}),
        "termination": Reward(func=rewards.is_terminated, weight=-3.0 / timing.step_dt),
    }
    varied = {
        "physics_material": Event(
            func=events.randomize_rigid_body_material, mode="startup", params={"friction_range": (0.4, 1.6)}
        ),
        "ground_impedance": Event(
            func=events.randomize_ground_impedance, mode="startup", params={"impedance_range": (0.93, 0.98)}
        ),
        "action_delay": Event(func=events.randomize_action_delay, mode="reset", params={"delay_range": (0.0, 0.02)}),
    }
    return replace(
        task,
        robot=task.robot.replace(actuators=drives),
        timing=timing,
        commands={"base_velocity": command},
        rewards={
            **{k: replace(r, weight=weights.get(k, r.weight)) for k, r in task.rewards.items()},
            **added,
        },
        events={**task.events, **varied},
    )


def sprint(task: Task) -> Task:
    """:func:`cpu` without noise, pushes and randomisation: the shortest way to a robot that walks in simulation.

    Without pushes to prepare for, a dearer fall is what teaches it to stay up.
    """
    task = cpu(task)
    fall = replace(task.rewards["termination"], weight=-5.0 / task.timing.step_dt)
    command = replace(task.commands["base_velocity"], rel_zero_axis=0.4)
    return replace(
        task,
        rewards={**task.rewards, "termination": fall},
        commands={"base_velocity": command},
        observations={name: replace(g, enable_corruption=False) for name, g in task.observations.items()},
        events={name: task.events[name] for name in ("reset_base", "reset_robot_joints")},
    )


def _stiffer(law: ActuatorLaw) -> ActuatorLaw:
    slow = law.damping > 0.1 * law.stiffness
    return replace(law, stiffness=2.0 * law.stiffness, damping=0.8 * law.damping) if slow else law
