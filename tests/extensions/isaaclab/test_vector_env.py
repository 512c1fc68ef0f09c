"""The adapter against an environment that steps as Isaac Lab's does."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import conformance
import gymnasium
import pytest
import torch
from gaitway_agents.core.optimizer import OptimizerConfig
from gaitway_agents.models.actor_critic import ActorCriticConfig
from gaitway_agents.presets import PPOConfig
from gaitway_isaaclab.vector_env import IsaacLabVectorEnv
from gpu_work import GpuWork
from gymnasium import spaces
from isaac_like import IsaacLike
from on_policy import on_policy_trainer
from torch import Tensor

NEVER = 10**9


def make(num_envs: int, *, seed: int = 0, num_threads: int = 1, endless: bool = False, **settings: Any) -> Any:
    length = settings.pop("episode_length", None) or 1000
    if endless:
        settings |= {"edge": float("inf")}
        length = NEVER
    return IsaacLabVectorEnv(IsaacLike(num_envs, seed=seed, episode_length=length, **settings), seed=seed)


CHECKS = (
    conformance.check_shapes_and_types,
    conformance.check_results_are_not_overwritten,
    conformance.check_bad_use_is_refused,
    conformance.check_time_limit_is_exact,
    conformance.check_seeds,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_it_keeps_the_contract(check: Callable[..., None]):
    check(lambda num_envs, **settings: make(num_envs, **{"noise": 0.1} | settings))


def test_final_observations_and_accounts_are_true():
    """Of three positions observed, two were seen before."""
    env = make(8, episode_length=7)

    def follows(before: dict[str, Tensor], action: Tensor, after: dict[str, Tensor]) -> Tensor:
        return (after["policy"][:, :4] == before["policy"][:, 2:6]).all(1)

    assert conformance.check_transitions(env, follows, conformance.actions(env, 40)) >= 40


def same_start(noise: float = 0.0, seed: int = 0) -> tuple[Any, Any]:
    """An environment whose episodes end, and its twin whose do not: alike until a first episode ends."""
    pair = make(16, episode_length=25, noise=noise), make(16, endless=True, noise=noise)
    for env in pair:
        env.reset(seed=seed)
    return pair


def test_final_observations_are_what_the_unreset_twin_sees():
    """Histories, heading commands, and modifiers that remember included."""
    env, twin = same_start()
    alive = torch.ones(16, dtype=torch.bool)
    seen = {"terminated": 0, "truncated": 0}
    for action in conformance.actions(env, 25, scale=1.2):
        observation, reward, terminated, truncated, info = env.step(action)
        true_observation, true_reward, *_ = twin.step(action)
        done = terminated | truncated
        assert not (terminated & truncated).any()
        assert info["ended"].tolist() == done.nonzero().flatten().tolist()
        assert ("final_obs" in info) == ("_final_obs" in info) == bool(done.any())
        assert torch.equal(reward[alive], true_reward[alive])
        for name, value in observation.items():
            assert torch.equal(value[alive & ~done], true_observation[name][alive & ~done])
            first = alive & done
            if first.any():
                assert torch.equal(info["final_obs"][name][first], true_observation[name][first])
                assert not torch.equal(info["final_obs"][name][first], value[first])
        seen["terminated"] += int((alive & terminated).sum())
        seen["truncated"] += int((alive & truncated).sum())
        alive &= ~done
    assert seen["terminated"] > 3 and seen["truncated"] > 3 and not alive.any(), seen


def test_asking_for_final_observations_leaves_no_trace():
    """Noise, resets, histories and all go on as in the bare environment."""
    bare = IsaacLike(8, episode_length=6, noise=0.3)
    env = make(8, episode_length=6, noise=0.3)
    assert conformance.same(bare.reset(seed=3)[0], env.reset(seed=3)[0])
    ends = 0
    for action in conformance.actions(env, 40):
        torch.manual_seed(ends)  # both draw from one stream, so each gets its own copy
        expected = copy.deepcopy(bare.step(action)[:4])
        torch.manual_seed(ends)
        observation, reward, terminated, truncated, info = env.step(action)
        assert conformance.same(observation, expected[0]) and torch.equal(reward, expected[1])
        assert torch.equal(terminated, expected[2]) and torch.equal(truncated, expected[3] & ~expected[2])
        ends += len(info["ended"])
    assert ends > 40


def test_final_observations_are_noisy_too_and_never_alike():
    env = make(400, episode_length=2, noise=0.5)
    twin = make(400, endless=True, noise=0.5)
    deviations = []
    for seed in range(2):
        env.reset(seed=seed), twin.reset(seed=seed)
        for _ in range(2):
            *_, info = env.step(torch.zeros(400, 3))
        noise = info["final_obs"]["policy"][:, 4:6] - env.reset(seed=seed)[0]["policy"][:, 4:6]
        deviations.append(noise)
    assert 0.3 < deviations[0].abs().max() < 1.01
    assert not torch.equal(deviations[0], deviations[1])


def test_a_failure_at_the_time_limit_is_a_failure():
    env = make(4, episode_length=1, edge=0.05)
    env.reset(seed=0)
    action = torch.zeros(4, 3)
    action[:2, 0] = 50.0
    action[2:, :2] = -2.0 * env.isaac.position[2:] / 0.2
    _, _, terminated, truncated, info = env.step(action)
    assert terminated.tolist() == [True, True, False, False] and truncated.tolist() == [False, False, True, True]
    assert info["ended"].tolist() == [0, 1, 2, 3]


def test_episodes_and_the_log_are_accounted_for():
    env = make(5, episode_length=4)
    env.reset(seed=0)
    for step in range(8):
        _, _, _, _, info = env.step(torch.zeros(5, 3))
        assert ("episode" in info) == ("log" in info) == (step in (3, 7))
    expected = 4 * (1.0 - env.isaac.position.new_tensor(0.0))
    assert info["episode"]["l"].tolist() == [4] * 5 and (info["episode"]["r"] < expected).all()
    assert set(info["log"]) == {"reward/alive", "termination/edge", "curriculum/levels"}


def test_random_episode_starts_spread_the_time_outs():
    env = make(64, episode_length=50)
    env.reset(seed=0, options={"random_episode_step": True})
    ends = [len(env.step(torch.zeros(64, 3))[-1]["ended"]) for _ in range(50)]
    assert sum(count > 0 for count in ends) > 20 and sum(ends) >= 64


def test_curricula_survive_a_restart_and_everything_else_starts_anew():
    env = make(6, climb=True)
    env.reset(seed=0)
    env.step(torch.full((6, 3), 4.0))
    env.reset()
    levels = env.isaac.scene.terrain.terrain_levels.clone()
    assert levels.tolist() == [1] * 6
    state = copy.deepcopy(env.state_dict())

    again = make(6, climb=True, seed=1)
    again.reset()
    again.step(torch.full((6, 3), 4.0))  # far away: the curriculum would promote it
    again.load_state_dict(state)
    with pytest.raises(gymnasium.error.ResetNeeded):
        again.step(torch.zeros(6, 3))
    again.reset()
    terrain = again.isaac.scene.terrain
    assert torch.equal(terrain.terrain_levels, levels) and again.isaac.common_step_counter == 1
    assert torch.equal(terrain.env_origins, terrain.terrain_origins[levels, terrain.terrain_types])
    again.step(torch.full((6, 3), 4.0))
    again.reset()
    assert terrain.terrain_levels.tolist() == [2] * 6  # the curriculum is back at work

    fewer = make(3, climb=True)
    fewer.load_state_dict(state)
    fewer.reset()
    assert fewer.isaac.scene.terrain.terrain_levels.tolist() == [0] * 3


def test_groups_that_are_not_concatenated_are_refused():
    env = IsaacLike(2)
    env.single_observation_space = spaces.Dict(policy=spaces.Dict(position=spaces.Box(0, 1, (2,))))
    with pytest.raises(ValueError, match="must be concatenated"):
        IsaacLabVectorEnv(env)


def test_final_observations_are_of_the_groups_that_the_critic_reads():
    """Counted on the CPU: kernels launched in a step that ends episodes. What is left out changes nothing else."""
    work, results = {}, {}
    for groups in (["policy", "critic"], ["critic"]):
        env = make(8, episode_length=3, noise=0.3)
        if len(groups) == 1:
            on_policy_trainer(env, SMALL, seed=0)  # whoever learns says what its critic reads
        assert env.final_groups == groups
        env.reset(seed=0)
        for _ in range(3):
            with GpuWork() as work[len(groups)]:
                observation, _, _, truncated, info = env.step(torch.zeros(8, 3))
        assert list(info["final_obs"]) == groups and truncated.all()
        results[len(groups)] = info["final_obs"]["critic"], observation
    assert conformance.same(results[1], results[2])
    with GpuWork() as policy:
        torch.nan_to_num(env.isaac.observation_manager.compute_group("policy", update_history=True))
    saved = work[2].launches - work[1].launches
    assert saved >= policy.launches + 4, (saved, work[2].launches, work[1].launches)  # 4 to keep its history as it was
    alone = IsaacLike(8, episode_length=3, noise=0.3)
    alone.reset(seed=0)
    for _ in range(3):
        with GpuWork() as bare:
            alone.step(torch.zeros(8, 3))
    assert work[1].launches - bare.launches <= 22 and len(work[1].waits) == len(bare.waits)


# ---- learning --------------------------------------------------------------------------------------------------------

SMALL = PPOConfig(
    num_steps=8,
    gamma=0.9,
    model=ActorCriticConfig(actor_hidden=(16,), critic_hidden=(32,), normalize_observations=False, init_std=0.1),
    optimizer=OptimizerConfig(
        epochs=4, minibatches=2, learning_rate=3e-3, schedule="constant", clip_value_loss=False, entropy_coefficient=0.0
    ),
)


class Alive(IsaacLike):
    """Every step is worth 1 and nothing but time ends an episode."""

    def step(self, action: Tensor) -> tuple[Any, ...]:
        observation, reward, terminated, time_outs, extras = super().step(torch.zeros_like(action))
        return observation, torch.ones_like(reward), terminated, time_outs, extras


@pytest.mark.slow
def test_the_value_of_a_constant_reward_does_not_depend_on_the_time_limit():
    limit = 5
    env = IsaacLabVectorEnv(Alive(32, episode_length=limit, edge=float("inf")))
    env.isaac.observation_manager._group_obs_class_instances[0].gain = 0.0  # else the critic sees how old an episode is
    trainer = on_policy_trainer(env, SMALL, seed=0)
    for _ in range(150):
        trainer.iterate()
    with torch.no_grad():
        values = trainer.policy.value(trainer.source.observations)
    assert values.mean().item() == pytest.approx(1.0 / (1.0 - SMALL.gamma), rel=0.05)
    assert trainer.pop_episodes()[-1].length == limit


def test_a_run_resumes_with_the_same_learner_and_new_episodes():
    trainer = on_policy_trainer(make(8, episode_length=5), SMALL, seed=0)
    trainer.iterate()
    state = copy.deepcopy(trainer.state_dict())
    assert state["observations"] is None
    again = on_policy_trainer(make(8, episode_length=5, seed=7), SMALL, seed=3)
    again.load_state_dict(state)
    assert conformance.same(again.state_dict()["policy"], state["policy"])
    assert conformance.same(again.state_dict()["optimizer"], state["optimizer"])
    again.iterate()
    assert again.steps == 2 * trainer.steps


LIMIT = 3


def ready() -> IsaacLabVectorEnv:
    env = make(16, episode_length=LIMIT)
    env.reset(seed=0)
    return env


def step_by_itself(env: IsaacLabVectorEnv, steps: int) -> None:
    """Step the environment by itself, and compute the observations once more where an episode ends."""
    for step in range(1, steps + 1):
        env.isaac.step(torch.zeros(16, 3))
        if step % LIMIT == 0:
            env.isaac.observation_manager.compute(update_history=True)


def collect(env: IsaacLabVectorEnv, steps: int, recurrent: str) -> None:
    model = ActorCriticConfig(actor_hidden=(8,), critic_hidden=(8,), recurrent=recurrent, init_std=1e-6, min_std=1e-6)
    trainer = on_policy_trainer(env, PPOConfig(num_steps=steps, model=model, random_episode_start=False), seed=0)
    with torch.no_grad():
        for parameter in trainer.policy.actor.parameters():
            parameter.zero_()
    trainer.source.play(0)


def waits(use: Callable[..., None], *given: Any) -> int:
    env = ready()
    with GpuWork() as work:
        use(env, *given)
    return len(work.waits)


def counted_copies(monkeypatch) -> list[str]:
    """A name for each time that tensors are copied to the host from now on."""
    copies: list[str] = []
    for name in ("tolist", "numpy", "cpu"):
        method = getattr(Tensor, name)

        def counted(self: Tensor, *args: Any, method: Any = method, **kwargs: Any) -> Any:
            copies.append(method.__name__)
            return method(self, *args, **kwargs)

        monkeypatch.setattr(Tensor, name, counted)
    return copies


@pytest.mark.parametrize("adaptive", [True, False])
def test_learning_waits_for_the_device_once_a_minibatch(adaptive, monkeypatch):
    """And four times a rollout: for what is not finite, and for three of its metrics."""
    schedule = "adaptive" if adaptive else "constant"
    config = PPOConfig(num_steps=6, model=SMALL.model, optimizer=replace(SMALL.optimizer, schedule=schedule))
    trainer = on_policy_trainer(make(16, episode_length=3), config, seed=0)
    trainer.optimizer._written_out = None  # which is for CPUs
    rollout = trainer.source.collect(0, last=True)
    monkeypatch.setattr(trainer.source, "collect", lambda steps, last: rollout)
    trainer.iterate()
    copies = counted_copies(monkeypatch)
    with GpuWork() as work:
        trainer.iterate()
    minibatches = config.optimizer.epochs * config.optimizer.minibatches
    assert len(work.waits) + len(copies) == minibatches + 4, (work.waits, copies)


@pytest.mark.parametrize("recurrent", ["none", "gru"])
def test_collecting_waits_for_the_device_no_oftener_than_the_environment_does(recurrent, monkeypatch):
    """Counted on the CPU: the operations that would make the host of a GPU wait."""
    of_ours = waits(collect, 60, recurrent) - waits(collect, 30, recurrent)
    assert 0 < of_ours <= waits(step_by_itself, 60) - waits(step_by_itself, 30)

    copies, numbers = counted_copies(monkeypatch), []
    for steps in (30, 60):
        env = ready()
        copies.clear()
        collect(env, steps, recurrent)
        numbers.append(len(copies))
    assert numbers[0] == numbers[1] > 0  # of a whole rollout, none of a step
