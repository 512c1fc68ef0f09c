"""Random network distillation in PPO: where the reward goes, and what is learnt from it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from bit_by_bit import differences
from box_spaces import box, boxes
from gaitway_agents.models.actor_critic import ActorCriticConfig
from gaitway_agents.on_policy import OnPolicyTrainer
from gaitway_agents.presets import PPO_CLASSIC
from gaitway_agents.rnd import RND, RNDConfig
from gaitway_agents.source import source_of
from gaitway_files.errors import UserError
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv

CONFIG = replace(
    PPO_CLASSIC, num_steps=16, learning_rate_final=None, optimizer=replace(PPO_CLASSIC.optimizer, epochs=1),
    model=ActorCriticConfig(actor_hidden=(16,), critic_hidden=(16,)),
    additions={"rnd": RNDConfig(num_outputs=4, predictor_hidden_dims=(16,), target_hidden_dims=(16,))},
)  # fmt: skip


class Corridor(VectorEnv):
    """A way that begins at 0 and is told in ``policy`` and, with noise, in ``rnd_state``. Nothing is ever earned."""

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(self, num_envs: int = 8):
        self.num_envs, self.device = num_envs, torch.device("cpu")
        self.single_observation_space, self.single_action_space = boxes(policy=1, rnd_state=2), box(1)
        self.place = torch.zeros(num_envs, 1)

    def _seen(self):
        return {"policy": self.place, "rnd_state": torch.cat((self.place, self.place.square()), 1)}

    def reset(self, *, seed=None, options=None):
        return self._seen(), {}

    def step(self, actions):
        self.place = self.place + 0.1 * actions.clamp(-1.0, 1.0)
        no = torch.zeros(self.num_envs, dtype=torch.bool)
        return self._seen(), torch.zeros(self.num_envs), no, no, {}

    def state_dict(self):
        return {"place": self.place}

    def load_state_dict(self, state):
        self.place = state["place"]


def trainer(**settings) -> OnPolicyTrainer:
    config = replace(CONFIG, additions={"rnd": replace(CONFIG.additions["rnd"], **settings)})
    return OnPolicyTrainer(source_of(Corridor(), config), config, seed=1)


def test_its_reward_is_learnt_from_and_not_reported():
    learner = trainer()
    metrics = [learner.iterate() for _ in range(15)]
    assert all(row["rollout/reward"] == 0.0 for row in metrics)
    assert metrics[0]["learn/rnd_reward"] > 0.0 and metrics[0]["learn/rnd_weight"] == 0.1
    assert metrics[-1]["learn/rnd_loss"] < 0.5 * metrics[0]["learn/rnd_loss"], "what is seen often is not new"
    assert learner.additions["rnd"].name == "rnd_state"
    assert not any("rnd" in name for name in learner.policy.state_dict())


def test_what_is_far_from_everything_seen_is_newer():
    learner = trainer(state_normalization=False)
    for _ in range(20):
        learner.iterate()
    errors = learner.additions["rnd"].errors(torch.tensor([[0.0, 0.0], [30.0, 900.0]])).norm(dim=1)
    assert errors[1] > 10.0 * errors[0]


def test_it_goes_on_where_it_was():
    settings = {"reward_normalization": True, "weight_schedule": "linear", "final_step": 500}
    whole, first, second = (trainer(**settings) for _ in range(3))
    for learner in (whole, whole, whole, first):
        learner.iterate()
    second.load_state_dict(first.state_dict())
    for _ in range(2):
        second.iterate()
    assert differences(whole.state_dict(), second.state_dict()) == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"weight_schedule": "step"}, "'step' with final_step None: give a number of steps above 0"),
        ({"weight_schedule": "linear", "initial_step": 9, "final_step": 9}, "final_step 9: .* above 9"),
        ({"weight_schedule": "cosine"}, "cosine.*linear"),
        ({"observation": "camera"}, "'camera' is not there; there is policy Box"),
    ],
)
def test_settings_that_cannot_be(settings, message):
    with pytest.raises(UserError, match=message):
        trainer(**settings)


def test_pictures_are_refused():
    seen = spaces.Dict({"policy": spaces.Box(0, 255, (4, 84, 84))})
    with pytest.raises(UserError, match="needs a vector"):
        RND(RNDConfig(), seen, 1, torch.device("cpu"), torch.Generator())
