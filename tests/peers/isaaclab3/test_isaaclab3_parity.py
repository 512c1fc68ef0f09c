"""Gaitway's terms and Isaac Lab's own on the same states: every step of a rollout, each term by itself."""

import gaitway_isaaclab
import pytest
import torch
from gaitway_tasks.registry import get_task

TOLERANCE = {"rtol": 0.0, "atol": 1e-5}
STEPS = 60


def by_joint_name(observation, robot, task):
    """Isaac Lab's observations with the joints in the task's order; its actions are in that order already."""
    order = torch.tensor([robot.joint_names.index(name) for name in task.robot.joint_names])
    moved = observation.clone()
    for start in (12, 24):
        moved[:, start : start + 12] = observation[:, start : start + 12][:, order]
    return moved


@pytest.mark.parametrize("terrain", [pytest.param("flat", marks=pytest.mark.quick), "rough"])
def test_managers_of_both_agree_on_every_step(lab, make, physics, terrain):
    from isaaclab.managers import ObservationManager, RewardManager, TerminationManager

    task = get_task(f"velocity-{terrain}-anymal-c")
    cfg = lab.kitless(gaitway_isaaclab.env_cfg(task, 8, "cpu", 0, physics, asset="mjcf"), 8)
    stock = lab.stock_cfg(lab.STOCK_ROUGH if terrain == "rough" else lab.STOCK_FLAT, 8, physics)
    cfg.observations.policy.enable_corruption = stock.observations.policy.enable_corruption = False
    for rewards in (cfg.rewards, stock.rewards):  # what weighs nothing is not computed, and so would not be compared
        for term in vars(rewards).values():
            term.weight = term.weight or -1.0
    env = make(cfg)
    env.reset()
    robot = env.scene["robot"]
    theirs = {
        "rewards": RewardManager(stock.rewards, env),
        "terminations": TerminationManager(stock.terminations, env),
        "observations": ObservationManager(stock.observations, env),
    }
    assert set(env.reward_manager.active_terms) == set(theirs["rewards"].active_terms)
    rows = [theirs["rewards"].active_terms.index(name) for name in env.reward_manager.active_terms]
    compute, calls = env.reward_manager.compute, []

    def compute_both(dt):
        """Compute both rewards where the environment does: after the physics, before any reset."""
        ours, other = compute(dt).clone(), theirs["rewards"].compute(dt)
        torch.testing.assert_close(
            env.reward_manager._step_reward, theirs["rewards"]._step_reward[:, rows], **TOLERANCE
        )
        torch.testing.assert_close(ours, other, **TOLERANCE)
        theirs["terminations"].compute()
        assert torch.equal(env.termination_manager.terminated, theirs["terminations"].terminated)
        assert torch.equal(env.termination_manager.time_outs, theirs["terminations"].time_outs)
        calls.append(env.reward_manager._step_reward.clone())
        return ours

    env.reward_manager.compute = compute_both
    generator, ended = torch.Generator().manual_seed(0), torch.zeros(8, dtype=torch.bool)
    env.episode_length_buf[0] = env.max_episode_length - 20  # one that runs out of time on the way
    for step in range(STEPS):
        size = 0.3 if step < STEPS // 2 else 4.0  # first it walks in its place, then it falls
        actions = size * torch.randn(8, 12, generator=generator)
        observations, _, terminated, truncated, _ = env.step(actions)
        ended |= terminated | truncated
        expected = by_joint_name(theirs["observations"].compute()["policy"], robot, task)
        torch.testing.assert_close(observations["policy"], expected, **TOLERANCE)
    assert len(calls) == STEPS
    seen = torch.stack(calls).abs().amax(dim=(0, 1))
    for name, largest in zip(env.reward_manager.active_terms, seen.tolist(), strict=True):
        assert largest > 0.0 or name == "dof_pos_limits", f"{name} was zero all the time: nothing was compared"
    assert ended[0] and ended.any()


def rollout(env, steps=40):
    """Observations, rewards, terminations, time-outs and joint angles of each of ``steps`` random steps."""
    env.reset()
    env.episode_length_buf[0] = env.max_episode_length - 20  # one reset on the way
    generator, found = torch.Generator().manual_seed(0), []
    shape = (env.num_envs, env.action_manager.total_action_dim)
    for _ in range(steps):
        observations, *rest, _ = env.step(0.5 * torch.randn(shape, generator=generator))
        values = [observations["policy"], *rest, env.scene["robot"].data.joint_pos.torch]
        found.append([value.clone() for value in values])
    return [torch.stack(values) for values in zip(*found, strict=True)]


@pytest.mark.slow
@pytest.mark.quick
@pytest.mark.parametrize(
    ("name", "stock_id"),
    [
        ("velocity-flat-anymal-c", "IsaacContrib-Velocity-Flat-AnymalC"),
        ("velocity-rough-go2", "Isaac-Velocity-Rough-UnitreeGo2"),
        ("velocity-flat-h1", "Isaac-Velocity-Flat-H1"),
    ],
)
def test_from_one_seed_both_go_the_same_way(lab, make, physics, name, stock_id):
    """Noise, commands, resets, mass, friction and the times of pushes included: nothing is drawn in another order.

    Left out: a force of zero at each reset, which has random numbers drawn.
    """
    task = get_task(name, "isaaclab3")
    make_stock = lab.stock_cfg if "anymal" in name else lab.env_cfg
    stock = make_stock(stock_id, 8, physics)
    cfg = lab.kitless(gaitway_isaaclab.env_cfg(task, 8, "cpu", 0, physics, asset="nucleus"), 8)
    for both in (stock, cfg):  # or each would draw for its joints in another order
        both.scene.robot.joint_ordering = list(task.robot.joint_names)
    stock.events.base_external_force_torque = None
    theirs = rollout(make(stock))
    ours = rollout(make(cfg))
    assert theirs[3].any() and not theirs[3].all()
    for name, a, b in zip(("observation", "reward", "terminated", "time_out", "joint_pos"), ours, theirs, strict=True):
        torch.testing.assert_close(a, b, **TOLERANCE, msg=lambda text, name=name: f"{name}: {text}")
