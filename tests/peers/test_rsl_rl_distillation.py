"""The same student, teacher and rollout into rsl_rl 5.5's Distillation and into Gaitway: a whole update."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from box_spaces import box, boxes
from gaitway_agents.distillation import PolicyDistillationConfig, StudentOptimizer
from gaitway_agents.models.actor_critic import ActorCritic, ActorCriticConfig
from gaitway_agents.models.recurrent import POLICIES
from gaitway_agents.rollout import EnvRollout
from gaitway_agents.teacher import OBSERVATION, Teacher
from torch import Tensor

pytest.importorskip("rsl_rl")
from rsl_rl.algorithms import Distillation
from rsl_rl.models import MLPModel, RNNModel
from rsl_rl.storage import RolloutStorage
from tensordict import TensorDict

STEPS, ENVS, OBS, SEEN, ACTIONS, HIDDEN, MEMORY = 12, 16, 5, 7, 3, [16, 8], 6
MODEL = ActorCriticConfig(actor_hidden=tuple(HIDDEN), critic_hidden=(4,), init_std=0.3, memory_size=MEMORY)
GROUPS = {"student": ["policy"], "teacher": [OBSERVATION]}


@pytest.fixture(autouse=True)
def _float64():
    """Rounding hides differences; with 53 bits what is left is a difference of method."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def seen(t: int, rollout: dict[str, Tensor]) -> TensorDict:
    return TensorDict({name: rollout[name][t] for name in ("policy", OBSERVATION)}, batch_size=[ENVS])


def make_rollout() -> dict[str, Tensor]:
    return {
        "policy": torch.randn(STEPS, ENVS, OBS),
        OBSERVATION: torch.randn(STEPS, ENVS, SEEN),
        "done": torch.rand(STEPS, ENVS) < 0.15,
    }


def make_student(recurrent: str) -> ActorCritic:
    config = ActorCriticConfig(**{**vars(MODEL), "recurrent": recurrent})
    return POLICIES[recurrent](boxes(policy=OBS), box(ACTIONS), config)


def network(name: str, recurrent: str) -> MLPModel:
    example = TensorDict({"policy": torch.zeros(ENVS, OBS), OBSERVATION: torch.zeros(ENVS, SEEN)}, batch_size=[ENVS])
    noise = {"class_name": "GaussianDistribution", "init_std": 0.3}
    given: dict[str, Any] = {"obs_normalization": name == "student", "distribution_cfg": noise}
    if recurrent == "none":
        return MLPModel(example, GROUPS, name, ACTIONS, HIDDEN, "elu", **given)
    return RNNModel(example, GROUPS, name, ACTIONS, HIDDEN, "elu", rnn_type="gru", rnn_hidden_dim=MEMORY, **given)


def gru_of(policy: ActorCritic) -> dict[str, Tensor]:
    """Weights of our unit by ``nn.GRU``'s names."""
    unit = policy.actor_gru
    return {
        "weight_ih_l0": unit.input.weight, "bias_ih_l0": unit.input.bias,
        "weight_hh_l0": unit.recurrent.weight, "bias_hh_l0": unit.recurrent.bias,
    }  # fmt: skip


def pair(recurrent: str, **settings: Any) -> tuple[ActorCritic, Distillation]:
    """Our student, and rsl_rl's algorithm with the same student."""
    policy, student, teacher = make_student(recurrent), network("student", recurrent), network("teacher", "none")
    student.mlp.load_state_dict(policy.actor.state_dict())
    if recurrent == "gru":
        student.rnn.rnn.load_state_dict(gru_of(policy))
    example = TensorDict({"policy": torch.zeros(ENVS, OBS), OBSERVATION: torch.zeros(ENVS, SEEN)}, batch_size=[ENVS])
    storage = RolloutStorage("distillation", ENVS, STEPS, example, [ACTIONS])
    return policy, Distillation(student, teacher, storage, **settings)


def collect(theirs: Distillation, rollout: dict[str, Tensor]) -> None:
    """Let rsl_rl act in and record ``rollout``, through its own interface."""
    for t in range(STEPS):
        theirs.act(seen(t, rollout))
        theirs.process_env_step(seen(t, rollout), torch.zeros(ENVS), rollout["done"][t], {})


def recorded(policy: ActorCritic, rollout: dict[str, Tensor]) -> EnvRollout:
    """The rollout in our form, whose first memories are those of new episodes."""
    memory = {name: part.expand(STEPS, *part.shape) for name, part in policy.initial_memory(ENVS).items()}
    zeros, done = torch.zeros(STEPS, ENVS), rollout["done"]
    return EnvRollout(
        observations={"policy": rollout["policy"], OBSERVATION: rollout[OBSERVATION], **memory},
        actions=torch.zeros(STEPS, ENVS, ACTIONS), distribution=(), rewards=zeros, learnt_rewards=zeros,
        terminated=done, truncated=torch.zeros_like(done), valid=torch.ones_like(done),
        finals=[], following={}, episodes=[], log={}, timing={}, complete=True,
    )  # fmt: skip


@pytest.mark.parametrize("recurrent", ["none", "gru"])
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({}, {}),
        ({"num_learning_epochs": 5, "gradient_length": 4}, {}),
        ({"num_learning_epochs": 3, "gradient_length": 9}, {}),
        ({"loss_type": "huber"}, {}),
        ({"max_grad_norm": 0.05}, {}),
        ({"max_grad_norm": None}, {}),
    ],
    ids=["defaults", "short gradients", "gradients across epochs", "huber", "tight clip", "no clip"],
)
def test_parameters_after_updates(recurrent, ours, theirs):
    """Two updates, each of them from memories of new episodes."""
    settings = {"num_learning_epochs": 2, "gradient_length": 6, "learning_rate": 3e-3, "max_grad_norm": 1.0, **ours}
    policy, peer = pair(recurrent, **settings)
    start = [p.detach().clone() for p in policy.parameters()]
    optimizer = StudentOptimizer(policy, PolicyDistillationConfig(num_steps=STEPS, model=MODEL, **settings))
    for _ in range(2):
        rollout = make_rollout()
        assert rollout["done"].any()
        peer.student.reset()
        peer.last_hidden_states = (None, None)
        collect(peer, rollout)
        labels = peer.storage.privileged_actions.clone()
        statistics = optimizer.update(recorded(policy, rollout), labels, ~rollout["done"][..., None])
        policy.update_normalizers({"policy": rollout["policy"].flatten(0, 1)})
        losses = peer.update()
        assert statistics["behavior_loss"] == pytest.approx(losses["behavior"], rel=1e-9)
    pairs = [(policy.actor.state_dict(), peer.student.mlp.state_dict())]
    pairs += [(gru_of(policy), peer.student.rnn.rnn.state_dict())] if recurrent == "gru" else []
    pairs += [({"std": policy.head.raw_std.data}, {"std": peer.student.distribution.std_param.data})]
    for mine, others in pairs:
        assert mine.keys() == others.keys()
        for name, value in mine.items():
            torch.testing.assert_close(value.data, others[name], rtol=1e-9, atol=1e-9, msg=name)
    assert any((p - q).abs().max() > 1e-3 for p, q in zip(policy.parameters(), start, strict=True))


def test_a_recurrent_teachers_labels_and_its_memory():
    """Within a rollout they are rsl_rl's, which forgets its teacher's memory after an update; ours goes on."""
    peer = pair("none", gradient_length=STEPS)[1]
    theirs = peer.teacher = peer._raw_teacher = network("teacher", "gru")

    class Actor(torch.nn.Module):
        memory_size = MEMORY

        def forward(self, observation: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
            latent, after = theirs.rnn.rnn(observation[None], memory[None])
            return theirs.mlp(latent[0]), after[0]

    first, second = make_rollout(), make_rollout()
    teacher = Teacher(Actor())
    whole = {name: torch.cat((first[name], second[name])) for name in first}
    labels = teacher.labels(whole[OBSERVATION], ~whole["done"][..., None])
    collect(peer, first)
    torch.testing.assert_close(labels[:STEPS], peer.storage.privileged_actions)
    peer.update()
    collect(peer, second)
    assert (labels[STEPS:] - peer.storage.privileged_actions).abs().max() > 1e-3
    teacher.memory = None
    again = teacher.labels(second[OBSERVATION], ~second["done"][..., None])
    torch.testing.assert_close(again, peer.storage.privileged_actions)
