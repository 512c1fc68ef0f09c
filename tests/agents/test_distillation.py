"""Policy distillation: the student's trainer and its teacher."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import torch
from bit_by_bit import differences
from box_spaces import box, boxes
from gaitway_agents.distillation import PolicyDistillationConfig, PolicyDistillationTrainer, StudentOptimizer, source_of
from gaitway_agents.models.actor_critic import ActorCritic, ActorCriticConfig
from gaitway_agents.teacher import Teacher
from gaitway_files.errors import NotDone, UserError
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from torch import Tensor, nn

SMALL = PolicyDistillationConfig(
    num_steps=20, gradient_length=10, learning_rate=1e-2,
    model=ActorCriticConfig(actor_hidden=(16,), critic_hidden=(4,), init_std=0.1, normalize_observations=False),
)  # fmt: skip


class Hidden(VectorEnv):
    """A number that the teacher sees at once, and the student in the next step; episodes end at random."""

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(self, num_envs: int = 8):
        self.num_envs, self.device = num_envs, torch.device("cpu")
        self.single_observation_space, self.single_action_space = boxes(policy=1, teacher=1), box(1)
        self.generator, self.number = torch.Generator().manual_seed(0), torch.zeros(num_envs, 1)

    def _seen(self) -> dict[str, Tensor]:
        last, self.number = self.number, torch.randn(self.num_envs, 1, generator=self.generator)
        return {"policy": last, "teacher": self.number}

    def reset(self, *, seed=None, options=None):
        return self._seen(), {}

    def step(self, actions):
        done = torch.rand(self.num_envs, generator=self.generator) < 0.1
        return self._seen(), -actions.square().sum(1), done, torch.zeros_like(done), {}

    def state_dict(self):
        return {"generator": self.generator.get_state(), "number": self.number}

    def load_state_dict(self, state):
        self.generator.set_state(state["generator"])
        self.number = state["number"]


class Before(nn.Module):
    """Acts on the number before: from its memory."""

    memory_size = 1

    def forward(self, observation: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        return 0.5 * memory, observation


class Same(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.tensor(0.5))

    def forward(self, observation: Tensor) -> Tensor:
        return self.gain * observation


def trainer(teacher: nn.Module | None = None, config: PolicyDistillationConfig = SMALL, env: VectorEnv | None = None):
    taught = None if teacher is None else Teacher(teacher)
    return PolicyDistillationTrainer(source_of(env or Hidden(), config), config, seed=1, teacher=taught)


def test_a_student_learns_what_a_teacher_with_a_memory_does():
    """The student sees one step late what the teacher remembers, so that the loss can be nearly nothing.

    Where an episode ends the teacher forgets, and acts with 0: a tenth of the labels, which cannot be foreseen.
    """
    learner = trainer(Before())
    std = learner.policy.head.raw_std.detach().clone()
    losses = [learner.iterate()["learn/behavior_loss"] for _ in range(20)]
    assert losses[0] > 0.15 and losses[-1] < 0.05, losses
    assert torch.equal(learner.policy.head.raw_std, std), "how noisily it acts is a setting"


def test_the_critic_is_left_alone():
    learner = trainer(Same())
    before = {name: part.clone() for name, part in learner.policy.critic.state_dict().items()}
    learner.iterate()
    assert all(torch.equal(part, before[name]) for name, part in learner.policy.critic.state_dict().items())


@pytest.mark.parametrize("recurrent", ["none", "gru"])
def test_it_goes_on_where_it_was(recurrent):
    config = replace(SMALL, model=replace(SMALL.model, recurrent=recurrent, memory_size=8, normalize_observations=True))
    whole, first, second = (trainer(Before(), config) for _ in range(3))
    for learner in (whole, whole, whole, first):
        learner.iterate()
    second.load_state_dict(first.state_dict())
    for _ in range(2):
        second.iterate()
    assert differences(whole.state_dict(), second.state_dict()) == []
    assert whole.steps == 480


def test_it_goes_on_with_the_teacher_that_it_began_with():
    first, second = trainer(Same()), trainer(Same())
    with torch.no_grad():
        second.teacher.actor.gain.fill_(-3.0)  # trained on since then
    second.load_state_dict(first.state_dict())
    assert float(second.teacher.actor.gain) == 0.5


def test_a_step_that_only_begins_an_episode_counts_for_nothing():
    """Such steps have weight 0, and the others of the same moment more."""
    learner = trainer(Same())
    rollout = learner.source.collect(0, last=False)
    labels = rollout.observations["teacher"] * 0.5
    wrong, valid = labels.clone(), rollout.valid.clone()
    wrong[:, 0] += 100.0
    valid[:, 0] = False
    found = []
    for each, said in ((replace(rollout, valid=valid), wrong), (rollout, wrong)):
        optimizer = StudentOptimizer(trainer().policy, SMALL)
        found.append(optimizer.update(each, said, torch.ones_like(labels, dtype=torch.bool))["behavior_loss"])
    assert found[0] < 2.0 and found[1] > 100.0


def test_without_a_teacher_it_only_plays():
    learner, taught = trainer(), trainer(Same())
    taught.iterate()
    learner.load_policy(taught.state_dict())
    seen = {"policy": torch.ones(8, 1)}
    assert torch.equal(learner.predict(seen)[0], taught.actor()(seen["policy"]))
    with pytest.raises(UserError, match="no teacher"):
        learner.iterate()


class Broken(nn.Module):
    def forward(self, observation: Tensor) -> Tensor:
        return observation * float("nan")


def test_a_loss_that_is_not_finite_ends_it():
    with pytest.raises(NotDone, match="diverged"):
        trainer(Broken()).iterate()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"gradient_length": 7}, r"gradient_length 7: num_steps 20 .*2 are 40 .*divisor of 40"),
        ({"loss_type": "mae"}, r"mae.*mse.*huber"),
        ({"model": replace(SMALL.model, share_encoder=True)}, "share_encoder"),
    ],
)
def test_settings_that_cannot_be(settings, message):
    with pytest.raises(UserError, match=message):
        replace(SMALL, **settings)


@pytest.mark.parametrize(
    ("teacher", "message"),
    [
        (nn.Linear(3, 1), "cannot read observations of 1 numbers"),
        (nn.Linear(1, 2), "2 numbers, and .* have 1"),
    ],
)
def test_a_teacher_of_other_sizes_is_refused(teacher, message):
    with pytest.raises(UserError, match=message):
        trainer(teacher)


def test_a_world_without_the_teachers_observation_is_refused():
    with pytest.raises(UserError, match="no observation 'teacher'"):
        Teacher(Same()).check(boxes(policy=1), 1, torch.device("cpu"))


def test_choices_are_refused():
    policy = ActorCritic(boxes(policy=1), spaces.Discrete(2), SMALL.model)
    with pytest.raises(UserError, match=re.escape("actions in a Box")):
        StudentOptimizer(policy, SMALL)
