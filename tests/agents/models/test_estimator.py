"""Estimates of signals that only the critic sees: how they are learnt, and that nobody else learns by it."""

from __future__ import annotations

import copy
import io
from dataclasses import replace
from typing import Any

import pytest
import torch
from bit_by_bit import differences
from box_spaces import box, boxes
from gaitway_agents import presets
from gaitway_agents.core.batch import Batch
from gaitway_agents.core.optimizer import OptimizerConfig
from gaitway_agents.estimation import EstimatorOptimizer
from gaitway_agents.models.actor_critic import ActorCritic, ActorCriticConfig
from gaitway_agents.models.critics import DreamerTricks
from gaitway_agents.models.estimator import EstimatorColumns, EstimatorConfig
from gaitway_agents.on_policy import OnPolicyTrainer
from gaitway_agents.presets import PPOConfig
from hidden_worlds import COLUMNS, UNIT, HiddenSpeed, SometimesInvalid, left_and_right
from on_policy import on_policy_trainer
from torch import Tensor, nn

ESTIMATOR = EstimatorConfig(signals=("speed",), hidden=(16, 8), epochs=3, minibatches=4, learning_rate=3e-3)
MODEL = ActorCriticConfig(actor_hidden=(16,), critic_hidden=(16,), estimator=ESTIMATOR)
CONFIG = PPOConfig(num_steps=8, model=MODEL, optimizer=OptimizerConfig(epochs=2, minibatches=2))
ROWS = 90


def make_policy(**changes: Any) -> ActorCritic:
    """A policy that has seen something, so that its normalisers do something."""
    torch.manual_seed(2)
    policy = ActorCritic(boxes(policy=2, critic=3), box(1), replace(MODEL, **changes), COLUMNS)
    policy.update_normalizers(observe(200, seed=9))
    return policy


def observe(rows: int, seed: int) -> dict[str, Tensor]:
    g = torch.Generator().manual_seed(seed)
    before, place, noise = torch.randn(3, rows, generator=g)
    critic = torch.stack((noise, 5.0 + UNIT * (place - before), place), 1)
    return {"policy": torch.stack((before, place), 1), "critic": critic}


def make_batch(masked: bool = False) -> Batch:
    mask = (torch.arange(ROWS) % 3 > 0).float() if masked else None
    zeros = torch.zeros(ROWS)
    return Batch(
        observations=observe(ROWS, seed=4), actions=torch.zeros(ROWS, 1), log_probs=zeros, advantages=zeros, mask=mask
    )


def plain_loop(policy: ActorCritic, batch: Batch, config: EstimatorConfig, generator: torch.Generator) -> nn.Module:
    """A network trained as any tutorial would."""
    layers = [
        nn.Linear(m.in_features, m.out_features) if hasattr(m, "in_features") else nn.ELU()
        for m in policy.estimator.net
    ]
    network = nn.Sequential(*layers)
    network.load_state_dict(policy.estimator.net.state_dict())
    features = policy.actor_encoder(batch.observations).detach()
    wanted = policy.critic_encoder(batch.observations)[:, 1:2].detach()
    mask = torch.ones(ROWS) if batch.mask is None else batch.mask
    adam = torch.optim.Adam(network.parameters(), config.learning_rate)
    for _ in range(config.epochs):
        order = torch.randperm(ROWS, generator=generator)
        for rows in order.tensor_split(config.minibatches):
            squares = (network(features[rows]) - wanted[rows]).square().mean(1)
            adam.zero_grad()
            ((squares * mask[rows]).sum() / mask[rows].sum()).backward()
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            adam.step()
    return network


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("workers", [1, 2])
def test_learning_is_a_plain_loop_of_supervision(workers, masked):
    policy, batch = make_policy(), make_batch(masked)
    expected = plain_loop(policy, batch, ESTIMATOR, torch.Generator().manual_seed(5))
    before = copy.deepcopy(policy.state_dict())
    beside = OptimizerConfig(chunk_size=10, workers=workers)
    EstimatorOptimizer(policy, ESTIMATOR, beside, torch.Generator().manual_seed(5)).update(batch)
    for name, value in expected.state_dict().items():
        torch.testing.assert_close(policy.estimator.net.state_dict()[name], value, rtol=0.0, atol=1e-6)
    changed = {
        name.split(".")[0] for name, value in policy.state_dict().items() if not torch.equal(value, before[name])
    }
    assert changed == {"estimator"}


def test_rows_that_do_not_count_teach_nothing():
    policies, batch = [make_policy(), make_policy()], make_batch(masked=True)
    nonsense = {name: torch.where(batch.mask[:, None] > 0, value, 7.0) for name, value in batch.observations.items()}
    found = []
    for policy, seen in zip(policies, (batch, batch.replace(observations=nonsense)), strict=True):
        found.append(
            EstimatorOptimizer(policy, ESTIMATOR, OptimizerConfig(), torch.Generator().manual_seed(5)).update(seen)
        )
    assert found[0] == found[1]
    assert differences(*(dict(policy.state_dict()) for policy in policies)) == []


@pytest.mark.parametrize("normalised", [True, False])
def test_errors_are_in_the_unit_of_the_signal(normalised):
    """Of one minibatch, the error is that before its step: what the exported actor estimates, less what was true."""
    config = replace(ESTIMATOR, signals=("speed", "unrelated"), epochs=1, minibatches=1)
    policy, batch = make_policy(normalize_observations=normalised, estimator=config), make_batch()
    with torch.no_grad():
        _, estimates = policy.export_actor().with_estimates(batch.observations["policy"])
    errors = (estimates - batch.observations["critic"][:, [1, 0]]).square().mean(0).sqrt().tolist()
    found = EstimatorOptimizer(policy, config, OptimizerConfig(), torch.Generator()).update(batch)
    expected = dict(zip(("speed", "unrelated"), errors, strict=True))
    assert found == {f"estimate_error_{name}": pytest.approx(error, rel=1e-4) for name, error in expected.items()}
    assert errors[0] > 3.0  # nothing is learnt yet of a signal about 5 with a spread of 5.7


def test_the_actor_reads_the_newest_frame_and_the_estimates():
    policy = make_policy()
    seen = observe(6, seed=1)
    read: list[Tensor] = []
    policy.actor.register_forward_pre_hook(lambda _, inputs: read.append(inputs[0]))
    policy.distribution(seen)
    features = policy.actor_encoder(seen)
    assert torch.equal(read[0], torch.cat((features[:, 1:], policy.estimator.net(features)), 1))
    action, estimates = policy.export_actor().with_estimates(seen["policy"])
    torch.testing.assert_close(action, policy.distribution(seen)[0])
    torch.testing.assert_close(policy.export_actor()(seen["policy"]), action)
    assert estimates.shape == (6, 1)


def test_no_gradient_of_the_policy_reaches_the_estimator():
    policy = make_policy()
    for batch in (make_batch(), policy.prepared(make_batch())):
        evaluation = policy.evaluate(batch)
        (evaluation.log_probs.sum() + evaluation.values.sum()).backward()
        assert all(parameter.grad is None for parameter in policy.estimator.parameters())
        assert all(parameter.grad is not None for parameter in policy.actor.parameters())


# ---- beside every kind of learner -----------------------------------------------------------------------------------


def with_estimator(config: PPOConfig, **changes: Any) -> PPOConfig:
    quick = replace(ESTIMATOR, learning_rate=1e-2)  # some of them do not normalise what they learn from
    model = replace(config.model, estimator=quick, actor_hidden=(16,), critic_hidden=(16,))
    return replace(config, num_steps=8, model=model, **changes)


BFLOAT16 = OptimizerConfig(epochs=2, minibatches=2, precision="bfloat16", workers=2, chunk_size=64)
LEARNERS = {
    "ppo": CONFIG,
    "ppo in bfloat16": replace(CONFIG, optimizer=BFLOAT16),
    "ppo, decoupled": replace(CONFIG, decoupled=True),
    "ppo, mirrored": replace(CONFIG, symmetry="canonical"),
    "ppo, augmented": replace(CONFIG, symmetry="augment"),
    "mujoco": with_estimator(presets.PPO_MUJOCO_QUICK),
    "a2c": with_estimator(presets.A2C),
    "vpg": with_estimator(presets.VPG),
    "reinforce": with_estimator(presets.REINFORCE),
    "trpo": with_estimator(presets.TRPO),
    "impala": with_estimator(presets.IMPALA),
}


def make_trainer(config: PPOConfig, world: type[HiddenSpeed] = HiddenSpeed, num_envs: int = 32) -> OnPolicyTrainer:
    symmetry = None if config.symmetry == "none" else left_and_right()
    return on_policy_trainer(world(num_envs), config, seed=3, symmetry=symmetry, total_steps=100_000, columns=COLUMNS)


def parts(trainer: OnPolicyTrainer) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Parameters and buffers of the policy, and of its estimator."""
    state = {name: value.clone() for name, value in trainer.policy.state_dict().items()}
    mine = {name for name in state if name.startswith("estimator.")}
    return {name: state[name] for name in state.keys() - mine}, {name: state[name] for name in mine}


@pytest.mark.parametrize(
    ("name", "world"),
    [*((name, HiddenSpeed) for name in LEARNERS), *((name, SometimesInvalid) for name in ("ppo", "trpo", "impala"))],
)
def test_policy_and_estimator_learn_apart(monkeypatch, name, world):
    trainer = make_trainer(LEARNERS[name], world)
    learns, estimates = trainer.optimizer.update, trainer.additions["estimator_optimizer"].update

    def learn(*arguments: Any) -> dict[str, float]:
        before = parts(trainer)
        found = learns(*arguments)
        after = parts(trainer)
        assert differences(before[0], after[0]) and not differences(before[1], after[1])
        return found

    def estimate(batch: Batch) -> dict[str, float]:
        before = parts(trainer)
        found = estimates(batch)
        after = parts(trainer)
        assert differences(before[1], after[1]) and not differences(before[0], after[0])
        return found

    monkeypatch.setattr(trainer.optimizer, "update", learn)
    monkeypatch.setattr(trainer.additions["estimator_optimizer"], "update", estimate)
    errors = [trainer.iterate()["learn/estimate_error_speed"] for _ in range(6)]
    assert errors[-1] < 0.8 * errors[0]
    assert all(value.dtype == torch.float32 for value in trainer.policy.estimator.state_dict().values())


def test_what_history_tells_is_learnt():
    """In a few updates the error falls below a tenth of the signal's spread, which is 4."""
    quick = replace(ESTIMATOR, hidden=(32,), epochs=4, learning_rate=1e-2)
    trainer = make_trainer(replace(CONFIG, num_steps=24, model=replace(MODEL, estimator=quick)), num_envs=128)
    errors = [trainer.iterate()["learn/estimate_error_speed"] for _ in range(8)]
    assert errors[0] > 0.4 * UNIT and errors[-1] < 0.1 * UNIT


@pytest.mark.parametrize("name", ["ppo", "ppo, mirrored", "impala", "trpo"])
def test_a_resumed_training_is_the_one_that_was_never_interrupted(name):
    whole, first = make_trainer(LEARNERS[name]), make_trainer(LEARNERS[name])
    for _ in range(4):
        whole.iterate()
    first.iterate()
    first.iterate()
    file = io.BytesIO()
    torch.save({"learner": first.state_dict(), "world": first.env.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=False)
    second = make_trainer(LEARNERS[name])
    second.load_state_dict(saved["learner"])
    second.env.load_state_dict(saved["world"])
    second.iterate()
    second.iterate()
    found = differences(whole.state_dict(), second.state_dict())
    assert [path for path in found if ".timing." not in path] == []  # of a rollout under way, which takes its own time


# ---- what is refused ------------------------------------------------------------------------------------------------


def test_signals_are_named_once_and_at_least_one():
    for signals in ((), ("speed", "speed")):
        with pytest.raises(ValueError, match="name one or more, each once"):
            EstimatorConfig(signals=signals)


def test_settings_that_exclude_each_other():
    with pytest.raises(ValueError, match="estimator with recurrent 'gru'"):
        replace(MODEL, recurrent="gru")
    with pytest.raises(ValueError, match=r"estimator with dreamer\.symlog_observations"):
        replace(MODEL, dreamer=DreamerTricks(symlog_observations=True))


@pytest.mark.parametrize("space", [boxes(policy=2), boxes(policy=2, other=3)])
def test_an_estimator_needs_a_critic_that_sees_more(space):
    with pytest.raises(ValueError, match="no observation 'critic'"):
        ActorCritic(space, box(1), MODEL, COLUMNS)


def test_an_estimator_needs_to_know_what_is_where():
    with pytest.raises(ValueError, match="no observation 'critic'"):
        ActorCritic(boxes(policy=2, critic=3), box(1), MODEL)
    beyond = EstimatorColumns(newest=(1,), signals={"speed": (3,)})
    with pytest.raises(ValueError, match="'critic' has 3 columns, and column 3"):
        ActorCritic(boxes(policy=2, critic=3), box(1), MODEL, beyond)
