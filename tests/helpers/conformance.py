"""The contract every Gaitway environment keeps: Gymnasium's vector API in torch, with SAME_STEP autoreset.

Each check takes a factory ``make(num_envs, *, seed=0, num_threads=1, endless=False, episode_length=None)``.
``episode_length`` is in control steps. ``endless=True`` is the same environment whose episodes never end. Noise in
observations must be off in both, and chance must not enter between resets, so that two copies can be compared.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, VectorEnv

Factory = Callable[..., VectorEnv]


def actions(env: VectorEnv, steps: int, seed: int = 0, scale: float = 1.0) -> torch.Tensor:
    """Random actions (steps, N, A), or choices (steps, N)."""
    generator = torch.Generator().manual_seed(seed)
    if isinstance(env.single_action_space, gymnasium.spaces.Discrete):
        return torch.randint(int(env.single_action_space.n), (steps, env.num_envs), generator=generator)
    return scale * torch.randn(steps, *env.action_space.shape, generator=generator)


def still(env: VectorEnv) -> torch.Tensor:
    """The action 0 for everybody."""
    return torch.zeros_like(actions(env, 1)[0])


def torch_type(space: gymnasium.Space[Any]) -> torch.dtype:
    """Images are bytes, choices are whole numbers, everything else is float32."""
    if isinstance(space, gymnasium.spaces.Discrete | gymnasium.spaces.MultiDiscrete):
        return torch.int64
    if isinstance(space, gymnasium.spaces.MultiBinary):
        return torch.bool
    return torch.uint8 if space.dtype == np.uint8 and len(space.shape) == 3 else torch.float32


def same(a: Any, b: Any) -> bool:
    """True if two nested results are equal bit for bit."""
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return bool(a == b)


def roll(env: VectorEnv, steps: torch.Tensor) -> list[Any]:
    return [env.step(action) for action in steps]


def check_shapes_and_types(make: Factory) -> None:
    env = make(5)
    assert isinstance(env, VectorEnv) and env.num_envs == 5
    assert env.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    assert isinstance(env.single_observation_space, gymnasium.spaces.Dict)
    assert "policy" in env.single_observation_space.spaces
    observation, info = env.reset(seed=1)
    assert isinstance(info, dict)
    devices = {observation["policy"].device}
    for action in actions(env, 3):
        observation, reward, terminated, truncated, info = env.step(action)
        assert set(observation) == set(env.single_observation_space.spaces)
        for name, value in observation.items():
            single, batched = env.single_observation_space[name], env.observation_space[name]
            assert value.dtype == torch_type(single) and single.dtype == batched.dtype
            if isinstance(single, gymnasium.spaces.Box):
                assert value.numpy(force=True).dtype == single.dtype
            assert tuple(value.shape) == batched.shape == (5, *single.shape)
            assert batched.contains(value.cpu().numpy())
        assert env.single_action_space.shape == action.shape[1:]
        assert reward.dtype == torch.float32 and reward.shape == (5,)
        for flag in (terminated, truncated):
            assert flag.dtype == torch.bool and flag.shape == (5,)
        devices |= {value.device for value in (*observation.values(), reward, terminated, truncated)}
    assert len(devices) == 1
    env.close()


def check_results_are_not_overwritten(make: Factory) -> None:
    """A learner keeps observations; a later step must not write into them."""
    env = make(3)
    observation, _ = env.reset(seed=0)
    kept = [observation]
    copies = [copy.deepcopy(observation)]
    for action in actions(env, 4):
        result = env.step(action)
        kept.append(result[:4])
        copies.append(copy.deepcopy(result[:4]))
    assert same(kept, copies)


def check_bad_use_is_refused(make: Factory) -> None:
    env = make(4)
    action = still(env)
    _raises(gymnasium.error.ResetNeeded, lambda: env.step(action))
    env.reset()
    short = (action[:, :-1],) if action.dim() > 1 else ()
    for bad in (action[:1], action[0], *short, torch.cat((action, action[:1]))):
        message = _raises(ValueError, lambda bad=bad: env.step(bad))
        assert str(tuple(bad.shape)) in message and str(tuple(action.shape)) in message
    _raises(ValueError, lambda: make(0))


def check_time_limit_is_exact(make: Factory, episode_length: int = 6) -> None:
    """An episode that nothing else ends is truncated by its ``episode_length``-th step, again and again."""
    env = make(4, episode_length=episode_length)
    env.reset(seed=0)
    for step in range(1, 3 * episode_length + 1):
        _, _, terminated, truncated, info = env.step(still(env))
        assert not terminated.any()
        assert truncated.all() if step % episode_length == 0 else not truncated.any()
        assert ("final_obs" in info) == (step % episode_length == 0)


def check_endings(make: Factory, violent: float, steps: int, episode_length: int, *, both: bool = True) -> None:
    """With actions wild enough to end episodes early: flags exclusive, masks right, final observations true.

    ``both`` says that some end early and others by their time, as those of robots that walk do.

    A twin that is put into the same state, but whose episodes do not end, shows what the last observation was.
    """
    env = make(16, episode_length=episode_length)
    twin = make(16, endless=True)
    env.reset(seed=3, options={"random_episode_step": True})
    twin.reset(seed=3)
    seen = {"terminated": 0, "truncated": 0}
    for action in actions(env, steps, scale=violent):
        twin.load_state_dict(env.state_dict())
        observation, reward, terminated, truncated, info = env.step(action)
        true_observation, true_reward, never, nor_ever, _ = twin.step(action)
        assert not (never | nor_ever).any()
        assert not (terminated & truncated).any()
        done = terminated | truncated
        assert ("final_obs" in info) == ("_final_obs" in info) == bool(done.any())
        seen["terminated"] += int(terminated.sum())
        seen["truncated"] += int(truncated.sum())
        for name, value in observation.items():
            assert torch.isfinite(value).all()
            assert torch.equal(value[~done], true_observation[name][~done])
            if done.any():
                assert torch.equal(info["_final_obs"], done)
                final = info["final_obs"][name]
                assert final.shape == value.shape and torch.isfinite(final).all()
                assert torch.equal(final[done], true_observation[name][done])
                assert not torch.equal(final[done], value[done])  # what is returned belongs to the new episode
        assert torch.equal(reward[~terminated], true_reward[~terminated])  # an end may be rewarded for what it is
    assert min(seen.values()) > 3 if both else sum(seen.values()) > 30, seen


def check_transitions(
    env: VectorEnv, follows: Callable[[dict, torch.Tensor, dict], torch.Tensor], script: torch.Tensor
) -> int:
    """Every observation, the final ones above all, follows from the one before; what the next episode starts with
    does not follow from the last. ``follows(before, actions, after)`` says of each row whether it does (N,).

    Returns how many ends were seen, and checks the account that is given of each episode.
    """
    observation, _ = env.reset(seed=1)
    returns, lengths = torch.zeros(env.num_envs), torch.zeros(env.num_envs, dtype=torch.int64)
    ends = 0
    for action in script:
        before = observation
        observation, reward, terminated, truncated, info = env.step(action)
        done = terminated | truncated
        assert "valid" not in info and not (terminated & truncated).any()
        assert ("final_obs" in info) == ("_final_obs" in info) == bool(done.any())
        assert torch.equal(follows(before, action, observation), ~done)
        returns, lengths = returns + reward, lengths + 1
        if done.any():
            assert torch.equal(info["_final_obs"], done)
            assert follows(before, action, info["final_obs"])[done].all()
            assert torch.equal(info["_episode"], done) and info["ended"].tolist() == done.nonzero().flatten().tolist()
            assert torch.equal(info["episode"]["l"][done], lengths[done])
            torch.testing.assert_close(info["episode"]["r"][done], returns[done])
            returns, lengths = returns * ~done, lengths * ~done
            ends += int(done.sum())
    return ends


def check_seeds(make: Factory, num_envs: int = 6, all_differ: bool = True) -> None:
    """A seed fixes everything, whether given to the factory or to reset; another seed gives something else.

    ``all_differ`` says whether no two environments may start alike.
    """

    def run(env: VectorEnv, **reset: Any) -> list[Any]:
        first = env.reset(**reset)
        return [first, *roll(env, actions(env, 12))]

    by_factory = run(make(num_envs, seed=11, episode_length=8))
    assert same(by_factory, run(make(num_envs, seed=11, episode_length=8)))
    assert not same(by_factory, run(make(num_envs, seed=12, episode_length=8)))
    env = make(num_envs, seed=0, episode_length=8)
    by_reset = run(env, seed=5)
    assert same(by_reset, run(make(num_envs, seed=1, episode_length=8), seed=5))
    roll(env, actions(env, 3, seed=9))
    assert same(by_reset, run(env, seed=5)), "an environment that was used before must forget it"
    assert not same(by_reset, run(env, seed=6))
    assert not same(run(env)[0], run(env)[0]), "a reset without a seed goes on drawing"
    rows = by_factory[0][0]["policy"]
    distinct = len(torch.unique(rows, dim=0))
    assert distinct == len(rows) if all_differ else distinct > 1, "environments must differ from each other"


def check_state_round_trip(make: Factory, steps: int = 25, episode_length: int = 10) -> None:
    """A saved state, through a file's worth of copying, continues bit for bit in a fresh environment."""
    env = make(6, seed=2, episode_length=episode_length)
    env.reset(options={"random_episode_step": True})
    roll(env, actions(env, 7))
    saved = copy.deepcopy(env.state_dict())
    script = actions(env, steps, seed=1)
    expected = roll(env, script)
    assert any(done.any() for _, _, _, done, _ in expected)
    fresh = make(6, seed=99, episode_length=episode_length)
    fresh.load_state_dict(copy.deepcopy(saved))
    assert same(expected, roll(fresh, script))
    env.load_state_dict(saved)
    assert same(expected, roll(env, script)), "going back in the same environment"


def check_threads_do_not_matter(make: Factory, num_envs: int = 7) -> None:
    one, many = (make(num_envs, seed=4, num_threads=n, episode_length=8) for n in (1, 3))
    assert same(one.reset(), many.reset())
    script = actions(one, 12)
    assert same(roll(one, script), roll(many, script))


def _raises(kind: type[BaseException], call: Callable[[], Any]) -> str:
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError(f"{kind.__name__} was not raised")
