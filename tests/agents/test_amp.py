"""Adversarial motion priors: losses and rewards against plain loops, pairs within episodes, checkpoints."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from bit_by_bit import differences
from box_spaces import box, boxes
from gaitway_agents.amp import AMP, AMPConfig
from gaitway_agents.imitation import Demonstrations
from gaitway_agents.models.actor_critic import ActorCriticConfig
from gaitway_agents.on_policy import OnPolicyTrainer
from gaitway_agents.presets import PPO_CLASSIC
from gaitway_agents.rollout import EnvRollout
from gaitway_agents.source import source_of
from gaitway_agents.symmetry import Symmetry
from gaitway_files.errors import UserError
from gymnasium.vector import AutoresetMode, VectorEnv

CPU = torch.device("cpu")
SETTINGS = AMPConfig(hidden_dims=(16, 8), batch_size=32, replay_size=60, replay_keep_prob=0.25)
CONFIG = replace(
    PPO_CLASSIC, num_steps=16, learning_rate_final=None, optimizer=replace(PPO_CLASSIC.optimizer, epochs=2),
    model=ActorCriticConfig(actor_hidden=(16,), critic_hidden=(16,)), additions={"amp": SETTINGS},
)  # fmt: skip


class Walkers(VectorEnv):
    """Robots on a line whose speed is the action; ``amp`` holds their last two places.

    Episodes last 5 to 9 steps by turns, and begin far away at 100 times the environment's number, so that whatever
    spans two of them is easily seen. Even ones run out of time, odd ones fall. Nothing is ever earned.
    """

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(self, num_envs: int = 6):
        self.num_envs, self.device = num_envs, CPU
        self.single_observation_space, self.single_action_space = boxes(policy=1, amp=2), box(1)
        self.age, self.number = torch.zeros(num_envs, dtype=torch.int64), torch.zeros(num_envs, dtype=torch.int64)
        self._start(torch.ones(num_envs, dtype=torch.bool))

    def _start(self, who):
        first = 100.0 * (torch.arange(self.num_envs) + 1) + 1000.0 * self.number
        self.pair = torch.where(who[:, None], first[:, None], getattr(self, "pair", torch.zeros(self.num_envs, 2)))

    def _seen(self):
        return {"policy": self.pair[:, 1:] % 100.0, "amp": self.pair}

    def reset(self, *, seed=None, options=None):
        return self._seen(), {}

    def step(self, actions):
        self.pair = torch.cat((self.pair[:, 1:], self.pair[:, 1:] + actions.clamp(-1.0, 1.0)), 1)
        self.age = self.age + 1
        done = self.age >= 5 + (torch.arange(self.num_envs) + self.number) % 5
        falls = done & (self.number % 2 == 1)
        info = {"final_obs": self._seen(), "_final_obs": done}
        self.age, self.number = self.age * ~done, self.number + done
        self._start(done)
        return self._seen(), torch.zeros(self.num_envs), falls, done & ~falls, info

    def state_dict(self):
        return {"pair": self.pair, "age": self.age, "number": self.number}

    def load_state_dict(self, state):
        self.pair, self.age, self.number = state["pair"], state["age"], state["number"]


def walking(speed: float = 0.5) -> torch.Tensor:
    """Pairs of robots that walk at ``speed`` anywhere."""
    place = 1000.0 * torch.rand(200, 1, generator=torch.Generator().manual_seed(3))
    return torch.cat((place, place + speed), 1)


def trainer(rows: torch.Tensor | None = None, **settings) -> OnPolicyTrainer:
    config = replace(CONFIG, additions={"amp": replace(SETTINGS, **settings)})
    shown = {"amp": walking() if rows is None else rows}
    return OnPolicyTrainer(source_of(Walkers(), config), config, seed=1, demonstrations=shown)


def amp(rows: torch.Tensor, symmetry: Symmetry | None = None, **settings) -> AMP:
    shown, generator = Demonstrations(rows, symmetry), torch.Generator().manual_seed(0)
    made = AMP(replace(SETTINGS, **settings), boxes(amp=rows.shape[1]), CPU, generator, shown)
    made.discriminator.double(), made.normalizer and made.normalizer.double()
    return made


def normal(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# ---- equality with plain loops ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["least_squares", "logistic"])
@pytest.mark.parametrize("normalization", [True, False])
def test_losses_are_those_of_the_paper(loss, normalization):
    """Row by row, by Peng et al. 2021, eqs. 6 and 8, and as IsaacGymEnvs' cross-entropy, in float64."""
    expert, policy = 2.0 * normal(12, 6, seed=1) + 1.0, normal(12, 6, seed=2)
    made = amp(expert.float(), loss=loss, normalization=normalization)
    parts = made.losses(policy, expert)

    net, norm = made.discriminator, made.normalizer
    mean, spread = (norm.mean, norm.var.sqrt() + norm.eps) if normalization else (0.0, 1.0)
    told = penalty = 0.0
    for real, fake in zip(expert, policy, strict=True):
        x = ((real - mean) / spread).clamp(-5.0, 5.0) if normalization else real
        x = x.detach().clone().requires_grad_(True)
        y = ((fake - mean) / spread).clamp(-5.0, 5.0) if normalization else fake
        d_real, d_fake = net(x)[0], net(y)[0].detach()
        if loss == "least_squares":
            told += 0.5 * ((float(d_real.detach()) - 1.0) ** 2 + (float(d_fake) + 1.0) ** 2) / 12
        else:
            real_chance, fake_chance = (1.0 / (1.0 + math.exp(-float(d.detach()))) for d in (d_real, d_fake))
            told += -0.5 * (math.log(real_chance) + math.log(1.0 - fake_chance)) / 12
        d_real.backward()
        penalty += float(x.grad.square().sum()) / 12
    assert float(parts["amp_loss"].detach()) == pytest.approx(told, rel=1e-12)
    assert float(parts["amp_grad_penalty"].detach()) == pytest.approx(penalty, rel=1e-12)
    assert float(parts["amp_logit_reg"].detach()) == pytest.approx(
        sum(w**2 for w in net[-1].weight[0].tolist()), rel=1e-12
    )


def test_the_gradient_of_the_penalty_reaches_the_network():
    """Against finite differences of the penalty, by a weight of each layer."""
    expert, made = normal(5, 4, seed=1), amp(normal(5, 4, seed=1).float(), normalization=False)
    made.losses(expert, expert)["amp_grad_penalty"].backward()
    for layer in (made.discriminator[0], made.discriminator[2]):
        found, step = float(layer.weight.grad[0, 0]), 1e-6
        values = []
        for sign in (1.0, -1.0):
            with torch.no_grad():
                layer.weight[0, 0] += sign * step
            values.append(float(made.losses(expert, expert)["amp_grad_penalty"].detach()))
            with torch.no_grad():
                layer.weight[0, 0] -= sign * step
        assert found == pytest.approx((values[0] - values[1]) / (2 * step), rel=1e-5) and found != 0.0


def test_style_rewards_are_those_of_the_papers():
    logits = torch.tensor([-3.0, -1.0, 0.0, 0.5, 1.0, 2.0, 4.0], dtype=torch.float64)
    least_squares, logistic = (amp(normal(9, 2, seed=1).float(), loss=n).style(logits) for n in AMP_LOSSES)
    for d, squared, logged in zip(logits.tolist(), least_squares.tolist(), logistic.tolist(), strict=True):
        assert squared == pytest.approx(max(0.0, 1.0 - 0.25 * (d - 1.0) ** 2), abs=1e-12)
        assert logged == pytest.approx(-math.log(1.0 - 1.0 / (1.0 + math.exp(-d))), rel=1e-9)


AMP_LOSSES = ("least_squares", "logistic")


# ---- transitions -----------------------------------------------------------------------------------------------------


def collected(learner: OnPolicyTrainer, rollouts: int = 3) -> list[EnvRollout]:
    learner._publish()
    return [learner.source.collect(0, last=False) for _ in range(rollouts)]


def test_no_transition_spans_two_episodes():
    """Robots move by at most 1 in a step and stand still at none; where they fall or begin there is no transition."""
    learner = trainer()
    for rollout in collected(learner):
        reached, there = learner.additions["amp"].transitions(rollout)
        assert torch.equal(there, ~rollout.terminated)
        moved = (reached[..., 1] - reached[..., 0])[there]
        assert rollout.truncated.any() and rollout.terminated.any()
        torch.testing.assert_close(moved, rollout.actions[..., 0].clamp(-1.0, 1.0)[there], atol=1e-3, rtol=0)
        told = replace(rollout, finals=[])  # of an environment that tells no final observations
        assert torch.equal(learner.additions["amp"].transitions(told)[1], ~(rollout.terminated | rollout.truncated))


def test_steps_that_are_none_are_no_transitions():
    learner = trainer()
    (rollout,) = collected(learner, 1)
    valid = rollout.valid.clone()
    valid[3] = False
    _, there = learner.additions["amp"].transitions(replace(rollout, valid=valid))
    assert not there[3].any() and torch.equal(there[4], ~rollout.terminated[4])


def test_rewards_are_mixed_step_by_step():
    learner = trainer(task_reward_lerp=0.3, reward_coef=0.4)
    (rollout,) = collected(learner, 1)
    made, task = learner.additions["amp"], torch.rand(rollout.rewards.shape)
    mixed = made.rewards(replace(rollout, learnt_rewards=task)).learnt_rewards
    reached, _ = made.transitions(rollout)
    with torch.no_grad():
        for t in range(len(task)):
            for env in range(task.shape[1]):
                style = 0.4 * float(made.style(made.logits(reached[t, env][None])))
                style = 0.0 if rollout.terminated[t, env] else style
                wanted = 0.3 * float(task[t, env]) + 0.7 * style
                assert float(mixed[t, env]) == pytest.approx(wanted, rel=1e-4, abs=1e-6)
    assert torch.equal(made.rewards(rollout).rewards, rollout.rewards), "what is reported is the task's"


# ---- learning --------------------------------------------------------------------------------------------------------


def speeds(iterations: int = 30, **settings) -> list[float]:
    """The policy's speed after each update, with no task at all and a reference of robots at about 0.5."""
    amp = replace(SETTINGS, task_reward_lerp=0.0, learning_rate=3e-3, grad_penalty=1.0, **settings)
    config = replace(CONFIG, additions={"amp": amp}, optimizer=replace(CONFIG.optimizer, learning_rate=1e-3))
    ways = 0.5 + 0.3 * torch.randn(500, 1, generator=torch.Generator().manual_seed(5))
    rows, env = torch.cat((torch.zeros_like(ways), ways), 1), Speeds()
    learner = OnPolicyTrainer(source_of(env, config), config, seed=1, demonstrations={"amp": rows})
    found = [env.mean_speed(learner)]
    for _ in range(iterations):
        assert learner.iterate()["rollout/reward"] == 0.0
        found.append(env.mean_speed(learner))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("loss", AMP_LOSSES)
def test_a_policy_takes_on_the_style(loss):
    """Differences of places are all that tells. Speeds swing about the right one, as a discriminator never ends."""
    found = speeds(loss=loss)
    assert found[0] < 0.0 and min(abs(speed - 0.5) for speed in found) < 0.1


@pytest.mark.slow
def test_a_style_of_no_worth_is_not_taken_on():
    assert max(speeds(reward_coef=0.0)) < 0.3


class Speeds(Walkers):
    """As :class:`Walkers`, whose pair is told from its first place on: (0, way)."""

    def _seen(self):
        return {"policy": torch.zeros(self.num_envs, 1), "amp": self.pair - self.pair[:, :1]}

    @staticmethod
    def mean_speed(learner: OnPolicyTrainer) -> float:
        return float(learner.predict({"policy": torch.zeros(1, 1)})[0].clamp(-1.0, 1.0))


def test_the_discriminator_tells_them_apart():
    learner = trainer()
    rows = [learner.iterate() for _ in range(15)]
    assert rows[-1]["learn/amp_expert_logit"] - rows[-1]["learn/amp_policy_logit"] > 0.2
    assert rows[-1]["learn/amp_loss"] < rows[0]["learn/amp_loss"]
    made = learner.additions["amp"]
    assert len(made.replay) == SETTINGS.replay_size, "older ones are dropped"
    assert not any("discriminator" in name for name in learner.policy.state_dict())


def test_it_goes_on_where_it_was():
    whole, first, second = (trainer() for _ in range(3))
    for learner in (whole, whole, whole, first):
        learner.iterate()
    second.load_state_dict(first.state_dict())
    for _ in range(2):
        second.iterate()
    assert differences(whole.state_dict(), second.state_dict()) == []


def test_canonical_images_are_seen_in_all_images():
    """A policy whose rollouts hold one side alone is not told from a reference of both sides by the side."""
    flip = (torch.tensor([[0, 1], [0, 1]]), torch.tensor([[1.0, 1.0], [-1.0, -1.0]]))
    act = (torch.tensor([[0], [0]]), torch.tensor([[1.0], [-1.0]]))
    symmetry = Symmetry({"policy": (flip[0][:, :1], flip[1][:, :1]), "amp": flip}, act, (0,))
    both = torch.cat((walking(), -walking()))
    made = amp(both, symmetry)
    images = made._mirrored(walking().repeat(4, 1))
    share = float((images[:, 0] < 0).float().mean())
    assert 0.4 < share < 0.6 and torch.equal(images.abs(), walking().repeat(4, 1))
    assert torch.equal(amp(both)._mirrored(both), both)


# ---- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "settings", "message"),
    [
        (walking(), {"observation": "camera"}, "'camera', which is not there; there is amp, policy"),
        (walking()[:, :1], {}, r"shape \(200, 1\): the observation 'amp' needs \(P, 2\)"),
        (walking()[:0], {}, r"shape \(0, 2\)"),
        (torch.full((4, 2), torch.nan), {}, "reference transition 0 is not finite"),
        (walking(), {"loss": "hinge"}, "hinge.*least_squares"),
        (walking(), {"task_reward_lerp": 1.5}, r"task_reward_lerp.*\[0, 1\]"),
    ],
)
def test_settings_that_cannot_be(rows, settings, message):
    with pytest.raises(UserError, match=message):
        trainer(rows, **settings)


def test_without_demonstrations():
    with pytest.raises(UserError, match="need reference transitions: name motions"):
        OnPolicyTrainer(source_of(Walkers(), CONFIG), CONFIG, seed=1)
