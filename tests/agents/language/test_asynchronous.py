import copy
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
import torch
from gaitway_agents.language.asynchronous import AsynchronousWorld, SamplerDied
from gaitway_agents.language.config import PolicyGradientConfig
from gaitway_agents.language.fixed_data import one_step
from gaitway_agents.language.policy_gradient import PolicyGradientTrainer
from gaitway_agents.language.shared_weights import SharedWeights
from tiny_models import tiny_lm
from token_worlds import Told, WantedToken, mute, wanted_token


@pytest.fixture
def start():
    """Worlds that are ended with the test."""
    worlds = []

    def make(*arguments, **settings):
        worlds.append(AsynchronousWorld(*arguments, **settings))
        return worlds[-1]

    yield make
    for world in worlds:
        world.close()


def weights(value):
    table = torch.zeros(2, 3)
    table[0, 1] = value
    return [("w", table), ("other", torch.ones(5, dtype=torch.bfloat16)), ("tied", table)]


def rounds(world, count, first=0, pause=0.0):
    """Versions of the weights that sampled the rollouts of ``count`` updates, and their numbers."""
    found = []
    for k in range(first, first + count):
        rollout = world.sample(2, 3)
        found.append((int(rollout.rewards[0]), -int(rollout.log_probs[0, 0])))
        time.sleep(pause)
        world.update_weights(weights(k + 1))
    return found


def test_rollout_k_has_the_weights_after_update_k_and_errors_arrive(start):
    world = start(partial(Told, fail_at=7), staleness=0)
    assert world.temperature == 0.5
    world.update_weights(weights(0))
    assert rounds(world, 6) == [(k, k + 1) for k in range(6)]
    with pytest.raises(KeyError, match="row 7 has no answer") as caught:
        world.sample(2, 3)
    assert any("In the sampling process" in note for note in caught.value.__notes__)


def test_a_slow_sampler_of_rollouts_larger_than_a_pipe_is_one_update_late(start):
    world = start(partial(Told, 0.03, size=20_000), staleness=1)
    world.update_weights(weights(0))
    assert rounds(world, 6) == [(max(0, k - 1), k + 1) for k in range(6)]
    with pytest.raises(ValueError, match="2 prompts of 2 answers asked for, but 2 of 3"):
        world.sample(2, 2)


def test_a_fast_sampler_is_no_more_than_n_updates_late_and_no_less(start):
    world = start(Told, staleness=3)
    world.update_weights(weights(0))
    assert rounds(world, 8, pause=0.03) == [(max(0, k - 3), k + 1) for k in range(8)]
    ages = []
    for k in range(8, 14):  # several rollouts for one update, as dynamic sampling takes them
        ages += [k - int(world.sample(2, 3).rewards[0]) for _ in range(1 + k % 3)]
        world.update_weights(weights(k + 1))
    assert max(ages) == 3 and min(ages) == 1


def test_rollouts_under_way_are_part_of_the_state_and_a_process_that_dies_is_noticed(start):
    one, two = (start(Told, staleness=2) for _ in range(2))
    one.update_weights(weights(0))
    before = rounds(one, 3)
    state = one.state_dict()
    assert len(state["rollouts"]) == 3
    two.update_weights(weights(3))
    two.load_state_dict(state)
    expected = [(max(0, k - 2), k + 1) for k in range(7)]
    assert before + rounds(one, 4, 3) == expected and before + rounds(two, 4, 3) == expected
    os.kill(two._process.pid, signal.SIGKILL)
    with pytest.raises(RuntimeError, match="exit code -9"):
        rounds(two, 4)


@pytest.mark.hostile("durability")
def test_an_answer_that_cannot_be_sent_is_not_waited_for():
    with pytest.raises(SamplerDied, match="the sampling process ended by itself, with exit code 1"):
        AsynchronousWorld(mute)


KILLED = """
from functools import partial
from gaitway_agents.language.asynchronous import AsynchronousWorld
from token_worlds import Told
world = AsynchronousWorld(partial(Told, 600.0), staleness=1)
world._shape = (1, 2)
world._fill()
print(world._process.pid, flush=True)
world._process.join()
"""


@pytest.mark.slow
@pytest.mark.hostile("durability")
def test_a_killed_learner_takes_its_sampler_along():
    helpers = str(Path(__file__).parents[2] / "helpers")
    paths = os.pathsep.join([helpers, *filter(None, sys.path)])
    learner = subprocess.Popen(
        [sys.executable, "-c", KILLED], stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": paths}
    )
    assert learner.stdout is not None
    sampler = int(learner.stdout.readline())
    learner.kill()
    learner.wait()
    deadline = time.monotonic() + 60
    while Path(f"/proc/{sampler}/stat").exists():
        assert time.monotonic() < deadline, "the sampling process goes on without its learner"
        time.sleep(0.05)


def test_an_end_does_not_wait_for_what_is_being_sampled(start):
    world = start(partial(Told, 60.0), staleness=1)
    world.update_weights(weights(0))
    world._shape = (1, 2)
    world._fill()
    began = time.perf_counter()
    world.close()
    assert time.perf_counter() - began < 30.0 and not world._process.is_alive()


@pytest.mark.parametrize(("settings", "message"), [({"staleness": -1}, "staleness -1"), ({"threads": 0}, "threads 0")])
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        AsynchronousWorld(Told, **settings)


def test_a_world_that_cannot_go_to_another_process_is_refused():
    with pytest.raises(ValueError, match="use a function of a module"):
        AsynchronousWorld(lambda: Told())


def test_shared_weights_hold_versions_apart_and_tied_ones_together():
    shared = SharedWeights.like(weights(0), slots=2)
    shared.write(0, weights(5))
    shared.write(1, weights(6))
    assert [float(dict(shared.read(slot))["tied"][0, 1]) for slot in range(2)] == [5.0, 6.0]
    assert dict(shared.read(0))["other"].dtype == torch.bfloat16
    with pytest.raises(ValueError, match="other"):
        shared.write(0, [("w", torch.zeros(2, 3)), ("new", torch.ones(5)), ("tied", torch.zeros(2, 3))])
    path = shared.path
    shared.unlink()
    assert not path.exists() and float(dict(shared.read(0))["w"][0, 1]) == 5.0


CONFIG = PolicyGradientConfig(prompts_per_step=4, group_size=4, optimizer=one_step(learning_rate=3e-3))


def parameters(learner):
    return torch.cat([p.detach().flatten() for p in learner.policy.model.parameters()])


class Late(WantedToken):
    """Samples in this process with the weights of one update ago."""

    def __init__(self, model):
        super().__init__(model, own_weights=True)
        self.next = None

    def update_weights(self, parameters):
        late, self.next = self.next, {name: value.clone() for name, value in parameters}
        return super().update_weights((late or self.next).items())


@pytest.mark.slow
def test_a_training_is_that_of_one_process_with_old_weights_and_goes_on_bit_for_bit(start):
    plain = PolicyGradientTrainer(model := tiny_lm(vocab_size=12), Late(model), CONFIG, seed=0)
    whole = PolicyGradientTrainer(tiny_lm(vocab_size=12), start(wanted_token, staleness=1), CONFIG, seed=0)
    other = start(partial(wanted_token, seed=5), staleness=1)
    resumed = PolicyGradientTrainer(tiny_lm(vocab_size=12), other, CONFIG, seed=0)
    for learner in (plain, whole):
        ages = [learner.iterate()["rollout/staleness"] for _ in range(3)]
    resumed.load_state_dict(copy.deepcopy(whole.state_dict()))
    for _ in range(3):
        kept = [learner.iterate() for learner in (plain, whole, resumed)]
        ages.append(kept[2]["rollout/staleness"])
        for name in ("rollout/reward", "learn/kl", "learn/entropy"):
            assert kept[0][name] == kept[1][name] == kept[2][name] != 0.0
    assert torch.equal(parameters(plain), parameters(whole)) and torch.equal(parameters(whole), parameters(resumed))
    assert ages == [0.0, 1.0, 1.0, 1.0, 1.0, 1.0]
