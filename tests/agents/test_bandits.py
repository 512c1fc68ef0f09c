"""Bandits against their theory: regret bounds, posteriors, gradients, and the price of never exploring."""

import io
import math

import pytest
import torch
from gaitway_agents.bandits.trainer import BanditConfig, BanditTrainer, Knowledge, choose, learn, ucb1_index
from gaitway_agents.bandits.worlds import BernoulliBandit, GaussianBandit
from gaitway_agents.trainer import evaluate
from gaitway_agents.vector.adapt import adapt
from gymnasium.vector import AutoresetMode

MEANS = (0.5, 0.9, 0.8, 0.3)
GAPS = (0.4, 0.1, 0.6)
ALL = {
    "epsilon-greedy": BanditConfig(strategy="epsilon-greedy"),
    "ucb1": BanditConfig(strategy="ucb1"),
    "thompson": BanditConfig(strategy="thompson"),
    "gaussian thompson": BanditConfig(strategy="thompson", prior="gaussian", reward_std=0.5),
    "gradient": BanditConfig(strategy="gradient"),
}


def known(counts, sums) -> Knowledge:
    counts, sums = (torch.tensor(x, dtype=torch.float64) for x in (counts, sums))
    return Knowledge(counts, sums, torch.zeros_like(counts))


# ---- worlds --------------------------------------------------------------------------------------------------------


def test_the_world_keeps_the_environment_contract():
    env = BernoulliBandit([1.0, 0.0], 3, horizon=4)
    assert adapt(env) is env and env.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    observation, _ = env.reset(seed=0)
    assert observation["policy"].tolist() == [[0.0]] * 3 and observation["policy"].dtype == torch.float32
    for t in range(1, 9):
        observation, reward, terminated, truncated, info = env.step(torch.tensor([0, 1, 0]))
        assert reward.tolist() == [1.0, 0.0, 1.0] and reward.dtype == torch.float32
        assert info["regret"].tolist() == [0.0, 1.0, 0.0]
        assert not terminated.any() and truncated.tolist() == [t % 4 == 0] * 3
        if t % 4 == 0:
            assert info["_final_obs"].all() and torch.equal(info["final_obs"]["policy"], torch.zeros(3, 1))
            assert info["episode"]["r"].tolist() == [4.0, 0.0, 4.0] and info["episode"]["l"].tolist() == [4, 4, 4]
        else:
            assert "episode" not in info and "final_obs" not in info


def test_arms_pay_what_they_should():
    arms = torch.arange(4).repeat(2_000)
    for env, variance in (
        (BernoulliBandit(MEANS, 8_000, seed=1), [m * (1 - m) for m in MEANS]),
        (GaussianBandit(MEANS, 8_000, noise=2.0, seed=1), [4.0] * 4),
    ):
        env.reset()
        rewards = torch.stack([env.step(arms)[1] for _ in range(5)]).reshape(-1, 4).double()
        for arm in range(4):
            error = 5 * (variance[arm] / len(rewards)) ** 0.5
            assert float(rewards[:, arm].mean()) == pytest.approx(MEANS[arm], abs=error)
            assert float(rewards[:, arm].var()) == pytest.approx(variance[arm], rel=0.1)


def test_the_state_of_a_world_is_exact():
    one, other = GaussianBandit(MEANS, 5, horizon=3, seed=1), GaussianBandit(MEANS, 5, horizon=3, seed=2)
    arms = torch.tensor([0, 1, 2, 3, 0])
    one.reset()
    one.step(arms)
    other.load_state_dict(one.state_dict())
    for _ in range(4):
        (_, ours, _, ended, info), (_, theirs, _, also, same) = one.step(arms), other.step(arms)
        assert torch.equal(ours, theirs) and torch.equal(ended, also)
        if "episode" in info:
            assert torch.equal(info["episode"]["r"], same["episode"]["r"])


def test_worlds_refuse_nonsense():
    with pytest.raises(ValueError, match=r"1\.5 is no probability"):
        BernoulliBandit([0.5, 1.5])
    with pytest.raises(ValueError, match="at least 2 arms"):
        BernoulliBandit([0.5])
    with pytest.raises(ValueError, match=r"noise -1\.0"):
        GaussianBandit(MEANS, noise=-1.0)
    env = BernoulliBandit(MEANS, 2)
    env.reset()
    for wrong in (torch.tensor([0, 4]), torch.tensor([-1, 0]), torch.tensor([0])):
        with pytest.raises(ValueError, match="2 arms are needed, numbered from 0 to 3"):
            env.step(wrong)


# ---- strategies, one decision at a time ----------------------------------------------------------------------------


def test_ucb1_index():
    counts, sums = torch.tensor([[3.0, 5.0, 0.0]]), torch.tensor([[1.0, 4.0, 0.0]])
    bounds = ucb1_index(counts, sums, math.sqrt(2.0))[0].tolist()
    assert bounds[:2] == pytest.approx([1 / 3 + math.sqrt(2 * math.log(8) / 3), 4 / 5 + math.sqrt(2 * math.log(8) / 5)])
    assert bounds[2] == math.inf


def test_ucb1_tries_every_arm_once_before_any_twice():
    env = BernoulliBandit(MEANS, 50)
    trainer = BanditTrainer(env, BanditConfig(num_steps=4), seed=0)
    trainer.iterate()
    assert torch.equal(trainer.known.counts, torch.ones(50, 4, dtype=torch.float64))


def test_beta_posterior():
    """The share of players who pick an arm is the posterior probability that it is the best."""
    generator = torch.Generator().manual_seed(0)
    state = known([[10.0, 3.0]], [[7.0, 2.0]])
    players = Knowledge(*(x.expand(200_000, 2) for x in (state.counts, state.sums, state.preferences)))
    share = float(choose(BanditConfig(strategy="thompson"), players, generator).double().mean())
    rng = torch.distributions
    first = rng.Beta(torch.tensor(8.0), torch.tensor(4.0)).sample((200_000,))
    second = rng.Beta(torch.tensor(3.0), torch.tensor(2.0)).sample((200_000,))
    assert share == pytest.approx(float((second > first).double().mean()), abs=0.006)


def test_gaussian_posterior():
    """Two arms, one of them known perfectly: the other's posterior is N(m / (n + s^2 / p^2), s^2 / (n + s^2 / p^2))."""
    generator = torch.Generator().manual_seed(0)
    config = BanditConfig(strategy="thompson", prior="gaussian", prior_std=2.0, reward_std=3.0)
    weight = 4.0 + 9.0 / 4.0
    mean, std = 5.0 / weight, 3.0 / math.sqrt(weight)
    for quantile in (-1.0, 0.0, 1.5):
        certain, sure = mean + quantile * std, 1e12
        state = known([[4.0, sure]], [[5.0, certain * sure]])
        players = Knowledge(*(x.expand(100_000, 2) for x in (state.counts, state.sums, state.preferences)))
        below = float(choose(config, players, generator).double().mean())
        assert below == pytest.approx(0.5 * (1 + math.erf(quantile / math.sqrt(2))), abs=0.008)


def test_the_gradient_bandit_climbs_the_expected_reward():
    """Sutton & Barto 2018, section 2.8: the mean update is the learning rate times the gradient of the mean reward."""
    config = BanditConfig(strategy="gradient", learning_rate=0.1)
    preferences = torch.tensor([0.3, -0.2, 0.5, 0.0], dtype=torch.float64, requires_grad=True)
    means = torch.tensor(MEANS, dtype=torch.float64)
    (gradient,) = torch.autograd.grad(preferences.softmax(0) @ means, preferences)
    update = torch.zeros(4, dtype=torch.float64)
    for arm, probability in enumerate(preferences.detach().softmax(0).tolist()):
        state = known([[2.0, 1.0, 0.0, 4.0]], [[3.0, 0.5, 0.0, 1.0]])
        state.preferences = preferences.detach()[None].clone()
        learn(config, state, torch.tensor([arm]), means[arm][None])
        update += probability * (state.preferences[0] - preferences.detach())
    torch.testing.assert_close(update, 0.1 * gradient)


def test_epsilon_greedy_frequencies():
    state = known([[5.0] * 4], [[1.0, 4.0, 2.0, 0.0]])
    players = Knowledge(*(x.expand(40_000, 4) for x in (state.counts, state.sums, state.preferences)))
    config = BanditConfig(strategy="epsilon-greedy", epsilon=0.2)
    picked = choose(config, players, torch.Generator().manual_seed(0)).bincount(minlength=4) / 40_000
    torch.testing.assert_close(picked, torch.tensor([0.05, 0.85, 0.05, 0.05]), atol=0.01, rtol=0)


def test_beta_prior_refuses_other_rewards():
    with pytest.raises(ValueError, match=r"reward of 0\.5.*use 'gaussian'"):
        learn(BanditConfig(strategy="thompson"), Knowledge.none(1, 2), torch.tensor([0]), torch.tensor([0.5]))


# ---- regret --------------------------------------------------------------------------------------------------------


def regrets(config: BanditConfig, pulls: int, players: int = 200) -> tuple[list[float], BanditTrainer]:
    """Mean regret after a quarter, a half and all of the pulls."""
    trainer = BanditTrainer(BernoulliBandit(MEANS, players, seed=1), config, seed=0)
    curve = [trainer.iterate()["learn/regret"] for _ in range(pulls // config.num_steps)]
    return [curve[len(curve) // 4 - 1], curve[len(curve) // 2 - 1], curve[-1]], trainer


def growth(seen: list[float]) -> float:
    """Regret of the last half of all pulls over that of the quarter before: 1 if logarithmic, 2 if linear."""
    return (seen[2] - seen[1]) / (seen[1] - seen[0])


def test_ucb1_stays_below_the_bound_of_auer_et_al_and_grows_like_a_logarithm():
    seen, trainer = regrets(BanditConfig(strategy="ucb1"), 2000)
    for pulls, regret in zip((500, 1000, 2000), seen, strict=True):
        bound = 8 * math.log(pulls) * sum(1 / gap for gap in GAPS) + (1 + math.pi**2 / 3) * sum(GAPS)
        assert regret < bound
    for arm, gap in zip((0, 2, 3), GAPS, strict=True):
        pulled = float(trainer.known.counts[:, arm].mean())
        assert pulled < 8 * math.log(2000) / gap**2 + 1 + math.pi**2 / 3
    assert growth(seen) < 1.5


def test_thompson_sampling_loses_about_as_little_as_possible():
    """Below Lai & Robbins' (1985) asymptote plus little, and far below UCB1."""
    seen, _ = regrets(BanditConfig(strategy="thompson"), 2000)
    best = max(MEANS)

    def kl(p: float) -> float:
        return p * math.log(p / best) + (1 - p) * math.log((1 - p) / (1 - best))

    asymptote = math.log(2000) * sum((best - m) / kl(m) for m in MEANS if m != best)
    assert seen[2] < asymptote + 5.0 and growth(seen) < 1.5
    assert seen[2] < 0.5 * regrets(BanditConfig(strategy="ucb1"), 2000)[0][2]


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_greedy_and_a_fixed_epsilon_lose_linearly(epsilon):
    config = BanditConfig(strategy="epsilon-greedy", epsilon=epsilon)
    seen, trainer = regrets(config, 2000)
    assert growth(seen) > 1.7
    if epsilon:
        exploring = epsilon / len(MEANS) * sum(GAPS) * 1000
        assert seen[2] - seen[1] >= 0.9 * exploring  # the best arm found, this is lost for ever
    else:
        stuck = trainer.known.counts.argmax(1) != 1
        assert 0.2 < float(stuck.double().mean()) < 0.95


def test_the_gradient_bandit_finds_the_best_arm():
    seen, trainer = regrets(BanditConfig(strategy="gradient", learning_rate=0.2), 2000)
    assert growth(seen) < 1.7
    assert float((trainer.known.preferences.argmax(1) == 1).double().mean()) > 0.8


# ---- the agent -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_every_strategy_ends_up_with_the_best_arm(name):
    trainer = BanditTrainer(BernoulliBandit(MEANS, 40, horizon=50, seed=1), ALL[name], seed=0)
    first = trainer.iterate()
    for _ in range(9):
        metrics = trainer.iterate()
    assert trainer.steps == 40 * 1000
    assert metrics["rollout/reward"] > first["rollout/reward"] and metrics["rollout/best_arm"] > 0.5
    arms, memory = trainer.predict({"policy": torch.zeros(3, 1)})
    assert arms.tolist() == [1, 1, 1] and memory == {}
    episodes = trainer.pop_episodes()
    assert len(episodes) == 40 * 20 and {e.length for e in episodes} == {50} and trainer.pop_episodes() == []
    played = evaluate(trainer, BernoulliBandit(MEANS, 10, horizon=100, seed=9), 10, seed=9)
    assert sum(e.ret for e in played) / 1000 == pytest.approx(0.9, abs=0.05)


@pytest.mark.parametrize("name", ALL)
def test_resuming_is_bit_identical(name):
    def make() -> BanditTrainer:
        return BanditTrainer(BernoulliBandit(MEANS, 5, horizon=7, seed=3), ALL[name], seed=4)

    straight = make()
    straight.iterate()
    file = io.BytesIO()
    torch.save(straight.state_dict(), file)
    file.seek(0)
    state = torch.load(file, weights_only=True)
    resumed = make()
    resumed.load_state_dict(state)
    ours, theirs = straight.iterate(), resumed.iterate()
    assert {k: v for k, v in ours.items() if "time" not in k} == {k: v for k, v in theirs.items() if "time" not in k}
    assert all(torch.equal(value, vars(resumed.known)[part]) for part, value in vars(straight.known).items())


@pytest.mark.parametrize("name", ALL)
def test_one_player_can_play_what_many_have_learnt(name):
    many = BanditTrainer(BernoulliBandit((0.1, 0.2, 0.9), 20), ALL[name], seed=0)
    many.iterate()
    single = BanditTrainer(BernoulliBandit((0.1, 0.2, 0.9)), ALL[name], seed=0)
    nothing = {"policy": torch.zeros(1, 1)}
    assert single.predict(nothing)[0].tolist() == [0]
    single.load_policy(many.state_dict())
    assert single.predict(nothing)[0].tolist() == [2] and single.steps == 0


def test_states_of_others_are_refused():
    state = BanditTrainer(BernoulliBandit(MEANS, 3), ALL["ucb1"], seed=0).state_dict()
    with pytest.raises(ValueError, match=r"3 players, 2 are needed"):
        BanditTrainer(BernoulliBandit(MEANS, 2), ALL["ucb1"], seed=0).load_state_dict(state)
    with pytest.raises(ValueError, match="4 arms, 2 are needed"):
        BanditTrainer(BernoulliBandit([0.1, 0.2], 3), ALL["ucb1"], seed=0).load_policy(state)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("CartPole-v1", "a bandit has no state; .* q-learning, dqn or ppo"),
        ("Pendulum-v1", "Discrete arms; .* ppo or sac"),
    ],
)
def test_worlds_with_states_are_refused(name, message):
    import gymnasium

    env = adapt(gymnasium.make_vec(name, num_envs=1, vectorization_mode="sync"))
    with pytest.raises(ValueError, match=message):
        BanditTrainer(env, ALL["ucb1"], seed=0)


@pytest.mark.parametrize(
    ("field", "value"),
    [("strategy", "luck"), ("prior", "flat"), ("epsilon", 1.5), ("exploration", 0.0), ("num_steps", 0)],
)
def test_settings_that_make_no_sense_are_named(field, value):
    with pytest.raises(ValueError, match=f"{field} {value!r}"):
        BanditConfig(**{field: value})
