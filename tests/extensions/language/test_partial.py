"""Answers drawn in parts: which weights drew each token, how late they may be, and that all of it repeats."""

import copy
import functools
import pickle

import pytest
import torch
from gaitway_agents.interfaces import Sampling
from gaitway_language.conversation import Conversation
from gaitway_language.engines.transformers import TransformersEngine
from gaitway_language.tokenizer import build_tokenizer
from gaitway_language.world import TextWorld
from gaitway_tasks.language.score import score
from gaitway_tasks.language.tasks import get_language_task
from transformers import Qwen2Config, Qwen2ForCausalLM

TASK = get_language_task("arithmetic")
TOKENIZER = build_tokenizer(TASK.source.vocabulary())
CONVERSATION = Conversation(TOKENIZER)
LIMIT = 12


def model_of(seed):
    config = Qwen2Config(
        vocab_size=len(TOKENIZER), hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, tie_word_embeddings=True, initializer_range=0.3,
    )  # fmt: skip
    torch.manual_seed(seed)
    return Qwen2ForCausalLM(config).eval()


MODELS = [model_of(seed) for seed in range(10)]
"""Weights after each update: quite different ones, as no training has them."""


class Recorded(TransformersEngine):
    """Notes how many tokens each call draws at most."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.limits = []

    def generate(self, prompts, sampling):
        self.limits.append(sampling.limits)
        return super().generate(prompts, sampling)


def make_world(ahead, stops=CONVERSATION.stops, task=TASK):
    return TextWorld(
        task,
        CONVERSATION,
        Recorded(copy.deepcopy(MODELS[0])),
        Sampling(max_tokens=LIMIT, stop_tokens=stops),
        functools.partial(score, task),
        seed=0,
        ahead=ahead,
    )


def rollouts(world, count, prompts=3, answers=4):
    """One rollout for each update."""
    for _ in range(count):
        found = world.sample(prompts, answers)
        world.update_weights(MODELS[world.version + 1].state_dict().items())
        yield found


def log_probs_of(model, rollout):
    with torch.no_grad():
        said = model(rollout.tokens).logits[:, :-1].log_softmax(-1)
    found = said.gather(2, rollout.tokens[:, 1:, None])[..., 0]
    return torch.nn.functional.pad(found, (1, 0))


@pytest.mark.parametrize("ahead", [1, 2, 5])
def test_log_probabilities_are_those_of_the_weights_that_drew_each_token(ahead):
    several = 0
    for now, rollout in enumerate(rollouts(make_world(ahead), 7)):
        chosen = rollout.mask.bool()
        versions = rollout.versions
        assert rollout.version == now and int((now - versions)[chosen].max()) == min(ahead, now)
        assert bool((versions.diff(dim=1) >= 0)[chosen[:, 1:] & chosen[:, :-1]].all())
        everyone = torch.stack([log_probs_of(model, rollout) for model in MODELS])
        expected = everyone.gather(0, versions[None])[0]
        torch.testing.assert_close(rollout.log_probs[chosen], expected[chosen], rtol=0.0, atol=2e-5)
        if now:
            assert (rollout.log_probs - everyone[now])[chosen & (versions < now)].abs().max() > 0.1
        several += int((versions.where(chosen, 99).amin(1) < versions.where(chosen, -1).amax(1)).sum())
        for row, length in enumerate(rollout.lengths.tolist()):
            answer = rollout.tokens[row, :length][chosen[row, :length]].tolist()
            assert bool(rollout.finished[row]) == (answer[-1] in CONVERSATION.stops)
            assert rollout.finished[row] or len(answer) == LIMIT
            assert rollout.completions[row] == CONVERSATION.decode(answer)
    assert several > 10


def test_no_call_waits_for_a_long_answer():
    world = make_world(2, stops=())
    ages = [(now - r.versions)[0][r.mask[0].bool()].tolist() for now, r in enumerate(rollouts(world, 6))]
    steps = [max(limits) for limits in world.engine.limits]
    assert steps == [12, 8, 4, 4, 4, 4]
    assert ages[2:] == [[2] * 4 + [1] * 4 + [0] * 4] * 4


def test_prompts_are_those_of_whole_rollouts_in_the_same_order():
    world, partial = make_world(0), make_world(3)
    for whole, part in zip(rollouts(world, 4), rollouts(partial, 4), strict=True):
        assert whole.rows == part.rows and whole.prompts == part.prompts
        assert whole.groups.tolist() == part.groups.tolist() and whole.versions is None


def test_a_curriculum_draws_other_prompts_for_each_rollout():
    task = TASK.replace(curriculum=True)
    whole, partial = ([rollout.prompts[0] for rollout in rollouts(make_world(ahead, task=task), 4)] for ahead in (0, 3))
    assert whole[0] == partial[0] and len(set(partial)) == 4


def test_answers_under_way_are_part_of_the_state():
    world, resumed = make_world(2), make_world(2)
    list(rollouts(world, 3))
    resumed.update_weights(MODELS[3].state_dict().items())
    resumed.load_state_dict(pickle.loads(pickle.dumps(world.state_dict())))
    for one, other in zip(rollouts(world, 4), rollouts(resumed, 4), strict=True):
        for name in ("tokens", "mask", "log_probs", "versions", "rewards", "finished"):
            assert torch.equal(getattr(one, name), getattr(other, name)), name
        assert one.rows == other.rows and one.completions == other.completions


def test_the_number_of_answers_stays():
    world = make_world(1)
    world.sample(3, 4)
    with pytest.raises(ValueError, match=r"2 prompts of 4 answers asked for, but 3 of 4 are under way"):
        world.sample(2, 4)


def test_answers_that_get_replies_are_refused():
    task = get_language_task("arithmetic").replace(tools=("calculator",), max_turns=3)
    with pytest.raises(ValueError, match=r"language.max_staleness above language.staleness, by 1.*leave language.max"):
        make_world(1, task=task)
    make_world(0, task=task)
