"""A policy that learnt in Gaitway's MuJoCo world walks in Isaac Lab's engines, with nothing converted but the world.

GAITWAY_RUN names its run folder; ``make walk`` makes one.
"""

import math
import os
from dataclasses import replace
from pathlib import Path

import gaitway_isaaclab
import pytest
import torch

RUN = os.environ.get("GAITWAY_RUN")
SECONDS, NUM_ENVS = 10.0, {"physx": 128, "newton": 16}


def examination(task):
    """``task`` with held commands, the first of them to stand still; no noise, no pushes, Isaac Lab's physics step."""
    (name,) = task.commands
    held = replace(
        task.commands[name],
        heading_command=False,
        rel_standing_envs=0.0,
        rel_zero_axis=0.0,
        rel_ends=0.0,
        margin=0.0,
        resampling_time_range=(1e9, 1e9),
    )
    step = round(task.timing.step_dt / 0.005)
    return task.replace(
        commands={name: held},
        curriculum={},
        events={key: event for key, event in task.events.items() if key in ("reset_base", "reset_robot_joints")},
        observations={key: replace(group, enable_corruption=False) for key, group in task.observations.items()},
        timing=replace(task.timing, physics_dt=0.005, decimation=step, episode_length_s=2 * SECONDS),
    )


def actor_of(run, config, observations):
    """The deterministic policy of ``run``'s newest checkpoint, without its world: that needs a newer MuJoCo."""
    from gaitway_agents.models.actor_critic import ActorCritic
    from gaitway_agents.symmetry import CanonicalActor, Symmetry
    from gaitway_tasks.symmetry import mirror_group
    from gymnasium import spaces

    sizes = {name: spaces.Box(-math.inf, math.inf, (values.shape[1],)) for name, values in observations.items()}
    policy = ActorCritic(spaces.Dict(sizes), spaces.Box(-math.inf, math.inf, (12,)), config.agent.model)
    state, _ = run.load_checkpoint()
    policy.load_state_dict(state["trainer"]["policy"])
    actor = policy.export_actor()
    if config.agent.symmetry == "canonical":
        group = mirror_group(config.task)
        actor = CanonicalActor(actor, Symmetry(group.observations, group.actions, group.selectors))
    return actor.eval()


@pytest.mark.skipif(RUN is None, reason="GAITWAY_RUN names no run folder of velocity-flat-anymal-c")
def test_it_stands_and_walks(lab, make, physics, capsys):
    from gaitway.runs.folder import RunFolder

    count = NUM_ENVS[physics]
    run = RunFolder.open(Path(RUN))
    config = run.config()
    task = examination(config.task)
    (name,) = task.commands
    cfg = gaitway_isaaclab.env_cfg(task, count, "cpu", 10_000, physics, asset="mjcf")
    env = make(lab.kitless(cfg, count, 10_000))
    data = env.scene["robot"].data
    observations, _ = env.reset()
    actor = actor_of(run, config, observations)
    command = env.command_manager.get_command(name)
    command[0] = 0.0
    fell = torch.zeros(count, dtype=torch.bool)
    start = data.root_pos_w.torch[:, :2].clone()
    linear, yaw = [], []
    with torch.inference_mode():
        for _ in range(round(SECONDS / env.step_dt)):
            wanted = command.clone()
            observations, _, terminated, _, _ = env.step(actor(observations["policy"]))
            fell |= terminated
            linear.append((wanted[:, :2] - data.root_lin_vel_b.torch[:, :2]).norm(dim=1))
            yaw.append((wanted[:, 2] - data.root_ang_vel_b.torch[:, 2]).abs())
    linear, yaw = torch.stack(linear), torch.stack(yaw)
    drift = (data.root_pos_w.torch[0, :2] - start[0]).norm()
    linear, yaw = linear[50:].mean(), yaw[50:].mean()  # after the first second
    with capsys.disabled():
        print(
            f"\n{count} robots, {SECONDS:g} s on {physics}: {linear:.3f} m/s and {yaw:.3f} rad/s off the command, "
            f"{int(fell.sum())} fell; the one told to stand moved {drift:.3f} m"
        )
    assert not fell.any()
    assert linear < 0.2 and yaw < 0.2
    assert drift < 0.3
