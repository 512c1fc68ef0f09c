"""The same weights and the same batches into Stable-Baselines3's DQN and SAC and into Gaitway's, in float64.

Where their formulas differ from the papers', theirs is set to the papers' first: SAC's 1e-6 inside the logarithm of the
squashing correction is 0 here.
"""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import torch
from bounded_worlds import Bounded, Choices
from gaitway_agents.off_policy.config import DQNConfig, NetworkConfig, SACConfig
from gaitway_agents.off_policy.dqn import DQNTrainer
from gaitway_agents.off_policy.replay import ReplayBuffer, Transitions
from gaitway_agents.off_policy.sac import SACTrainer
from replay_diary import Diary
from tiny_worlds import never, zeros
from torch import nn

pytest.importorskip("stable_baselines3")
from stable_baselines3 import DQN, SAC
from stable_baselines3.common.buffers import NStepReplayBuffer
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.type_aliases import ReplayBufferSamples

OBS, ROWS, UPDATES = 5, 32, 4
VECTOR = gymnasium.spaces.Box(-9.0, 9.0, (OBS,), np.float32)


@pytest.fixture
def _float64():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def still(action_space: gymnasium.Space) -> gymnasium.Env:
    """Stable-Baselines3 wants an environment for its spaces; nothing is ever stepped."""
    env = gymnasium.Env()
    env.observation_space, env.action_space = VECTOR, action_space
    return env


def batches(actions: int | None) -> list[Transitions]:
    """Random ones; ``actions`` is the number of choices, None stands for three numbers."""
    made = []
    for _ in range(UPDATES):
        seen, following = torch.randn(2, ROWS, OBS).float().double()  # it casts observations to float32 on their way in
        made.append(
            Transitions(
                observations={"policy": seen},
                actions=torch.randint(actions, (ROWS,)) if actions else 2.0 * torch.rand(ROWS, 3) - 1.0,
                returns=3.0 * torch.randn(ROWS),
                discounts=0.97 ** torch.randint(1, 4, (ROWS,)) * (torch.rand(ROWS) < 0.8),
                next_observations={"policy": following},
                rows=torch.arange(ROWS),
            )
        )
    return made


def feed(agent: DQN | SAC, made: list[Transitions]) -> None:
    """Let its replay buffer return our batches."""
    queue = [
        ReplayBufferSamples(
            observations=batch.observations["policy"],
            actions=batch.actions[:, None] if batch.actions.dim() == 1 else batch.actions,
            next_observations=batch.next_observations["policy"],
            dones=(batch.discounts == 0.0).double()[:, None],
            rewards=batch.returns[:, None],
            discounts=batch.discounts[:, None],
        )
        for batch in made
    ]
    agent.replay_buffer.sample = lambda *_, **__: queue.pop(0)
    agent.set_logger(Logger(None, []))


def in_float64(*modules: nn.Module) -> None:
    for module in modules:
        module.register_forward_pre_hook(lambda _, inputs: tuple(x.double() for x in inputs))


def copy_weights(source: nn.Module, target: nn.Module) -> None:
    nn.utils.vector_to_parameters(nn.utils.parameters_to_vector(source.parameters()), target.parameters())


def assert_equal_weights(ours: nn.Module, theirs: nn.Module) -> None:
    found = nn.utils.parameters_to_vector(ours.parameters())
    torch.testing.assert_close(found, nn.utils.parameters_to_vector(theirs.parameters()), rtol=1e-9, atol=1e-9)


@pytest.mark.usefixtures("_float64")
@pytest.mark.parametrize("max_grad_norm", [10.0, 0.1])
@pytest.mark.parametrize("hidden", [(16, 8), ()])
def test_dqn_updates(hidden, max_grad_norm):
    settings = {"learning_rate": 3e-3, "batch_size": ROWS, "max_grad_norm": max_grad_norm}
    config = DQNConfig(model=NetworkConfig(hidden=hidden), buffer_size=100, **settings)
    world = Choices(zeros, lambda s, a, t: (s, a[:, 0], never(len(s))), actions=4, num_envs=2, observation_dim=OBS)
    ours = DQNTrainer(world, config, seed=0, total_steps=1000)
    space = gymnasium.spaces.Discrete(4)
    theirs = DQN("MlpPolicy", still(space), policy_kwargs={"net_arch": list(hidden)}, device="cpu", **settings)
    theirs.policy.double()
    with torch.no_grad():
        ours.target.vector.add_(0.3 * torch.randn_like(ours.target.vector))
    for source, target in ((ours.network, theirs.q_net), (ours.target.network, theirs.q_net_target)):
        copy_weights(source.plain, target.q_net)
        in_float64(target.q_net)
    theirs.policy.optimizer = torch.optim.Adam(theirs.q_net.parameters(), lr=3e-3)
    made = batches(4)
    feed(theirs, made)
    start = ours.learner.vector.detach().clone()
    for batch in made:
        ours.update(batch, ours.target_values(batch))
        theirs.train(1, ROWS)
        assert_equal_weights(ours.network, theirs.q_net)
    assert (ours.learner.vector - start).abs().max() > 3e-3
    mean_loss = ours._statistics(ours._records[-1:])["loss"]
    assert mean_loss == pytest.approx(theirs.logger.name_to_value["train/loss"], rel=1e-9)


@pytest.mark.usefixtures("_float64")
@pytest.mark.parametrize("temperature", ["learnt", "fixed"])
def test_sac_updates(temperature, monkeypatch):
    settings = {"learning_rate": 3e-3, "batch_size": ROWS, "tau": 0.1}
    layers = NetworkConfig(hidden=(16, 8))
    config = SACConfig(
        actor=layers,
        critic=layers,
        initial_temperature=0.7,
        learn_temperature=temperature == "learnt",
        buffer_size=100,
        **settings,
    )
    low, high = [-1.0, 0.0, -3.0], [1.0, 2.0, -1.0]
    world = Bounded(
        zeros, lambda s, a, t: (s, a[:, 0], never(len(s))), low=low, high=high, num_envs=2, observation_dim=OBS
    )
    ours = SACTrainer(world, config, seed=0)
    theirs = SAC(
        "MlpPolicy",
        still(gymnasium.spaces.Box(np.float32(low), np.float32(high))),
        policy_kwargs={"net_arch": list(layers.hidden)},
        ent_coef="auto_0.7" if temperature == "learnt" else 0.7,
        device="cpu",
        **settings,
    )
    theirs.policy.double()
    theirs.actor.action_dist.epsilon = 0.0
    actor = nn.ModuleList([theirs.actor.latent_pi, theirs.actor.mu, theirs.actor.log_std])
    copy_weights(ours.policy.outputs[:-1], theirs.actor.latent_pi)
    for half, other in zip(range(2), (theirs.actor.mu, theirs.actor.log_std), strict=True):
        other.weight.data = ours.policy.outputs[-1].weight.data.chunk(2)[half].clone()
        other.bias.data = ours.policy.outputs[-1].bias.data.chunk(2)[half].clone()
    with torch.no_grad():
        ours.target.vector.add_(0.3 * torch.randn_like(ours.target.vector))
    for source, target in ((ours.critic, theirs.critic), (ours.target.network, theirs.critic_target)):
        copy_weights(source.first, target.qf0)
        copy_weights(source.second, target.qf1)
        in_float64(target.qf0, target.qf1)
    in_float64(theirs.actor.latent_pi)
    theirs.actor.optimizer = torch.optim.Adam(actor.parameters(), lr=3e-3)
    theirs.critic.optimizer = torch.optim.Adam(theirs.critic.parameters(), lr=3e-3)

    noise = [torch.randn(ROWS, 3) for _ in range(2 * UPDATES)]
    mine, other = list(noise), list(noise)
    ours._noise = lambda rows: mine.pop(0)
    monkeypatch.setattr(torch.distributions.normal, "_standard_normal", lambda *_, **__: other.pop(0))
    made = batches(None)
    feed(theirs, made)
    start = ours.actor_learner.vector.detach().clone()
    for batch in made:
        ours.update(batch)
        theirs.train(1, ROWS)
        for critic, peer in ((ours.critic, theirs.critic), (ours.target.network, theirs.critic_target)):
            assert_equal_weights(critic.first, peer.qf0)
            assert_equal_weights(critic.second, peer.qf1)
        last = ours.policy.outputs[-1]
        expected = torch.cat((theirs.actor.mu.weight, theirs.actor.log_std.weight))
        torch.testing.assert_close(last.weight, expected, rtol=1e-9, atol=1e-9)
        assert_equal_weights(ours.policy.outputs[:-1], theirs.actor.latent_pi)
        if temperature == "learnt":
            torch.testing.assert_close(ours.temperature.log, theirs.log_ent_coef, rtol=1e-9, atol=1e-9)
    assert (ours.actor_learner.vector - start).abs().max() > 3e-3
    assert ours.temperature().item() != pytest.approx(0.7) or temperature == "fixed"
    metrics = ours._statistics(ours._records[-1:])
    assert metrics["critic_loss"] == pytest.approx(theirs.logger.name_to_value["train/critic_loss"], rel=1e-9)


@pytest.mark.parametrize("n_step", [1, 3, 6])
def test_n_step_returns(n_step):
    """Every transition of a ring that has gone round more than twice."""
    ours = ReplayBuffer(30, 1, gamma=0.9, n_step=n_step)
    theirs = NStepReplayBuffer(
        30,
        gymnasium.spaces.Box(-1e9, 1e9, (1,)),
        gymnasium.spaces.Discrete(5),
        "cpu",
        handle_timeout_termination=True,
        n_steps=n_step,
        gamma=0.9,
    )
    diary = Diary(ours, 0, ends=0.3)
    diary.live(75)
    for step in diary.history[0]:
        theirs.add(
            step.observation.numpy(),
            step.following.numpy(),
            np.array([step.action]),
            np.array([step.reward]),
            np.array([step.terminated or step.truncated]),
            [{"TimeLimit.truncated": step.truncated and not step.terminated}],
        )
    batch = ours.sample(500)
    assert len(batch.rows.unique()) == 30
    peer = theirs._get_samples(batch.rows.numpy())
    torch.testing.assert_close(batch.observations["policy"], peer.observations)
    torch.testing.assert_close(batch.next_observations["policy"], peer.next_observations)
    torch.testing.assert_close(batch.returns, peer.rewards[:, 0])
    torch.testing.assert_close(batch.discounts, (peer.discounts * (1.0 - peer.dones))[:, 0])
    assert (batch.actions == peer.actions[:, 0]).all()


def test_updates_come_where_theirs_do():
    """One environment: the numbers of steps before each update, and before each update of the target network."""
    settings = {"train_frequency": 6, "gradient_steps": 2, "learning_starts": 10, "target_update_interval": 9}
    world = Choices(zeros, lambda s, a, t: (s, a[:, 0], never(len(s))), num_envs=1)
    ours = DQNTrainer(world, DQNConfig(buffer_size=100, iteration_steps=30, **settings), seed=0, total_steps=60)
    events: list[tuple[str, int]] = []
    ours.update = lambda *_: events.append(("update", ours.steps))
    ours.target.move = lambda *_: events.append(("target", ours.steps))
    while ours.steps < 60:
        ours.iterate()

    theirs = DQN(
        "MlpPolicy",
        gymnasium.make("CartPole-v1"),
        train_freq=6,
        gradient_steps=2,
        learning_starts=10,
        target_update_interval=9,
        device="cpu",
        buffer_size=100,
    )
    expected: list[tuple[str, int]] = []
    theirs.train = lambda gradient_steps, batch_size: expected.extend(
        [("update", theirs.num_timesteps)] * gradient_steps
    )
    theirs.learn(60)
    assert [event for event in events if event[0] == "update"] == expected
    # Its target network moves in the middle of a round, ours at the end: no update lies between.
    moves = [-(-steps // 6) * 6 for steps in range(9, 61, 9)]
    assert [steps for name, steps in events if name == "target"] == moves
