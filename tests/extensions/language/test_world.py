"""The text world: prompts in order, answers with their rewards in tensors, and an engine that follows."""

import functools
import itertools
import pickle
import random
from dataclasses import replace

import pytest
import torch
from gaitway_agents.interfaces import Sampling, TokenWorld
from gaitway_language.conversation import Conversation
from gaitway_language.engines.transformers import TransformersEngine
from gaitway_language.sync import VerifiedEngine
from gaitway_language.tokenizer import build_tokenizer
from gaitway_language.world import TextWorld
from gaitway_tasks.language.env import EnvironmentSource, Turn
from gaitway_tasks.language.rows import RowError
from gaitway_tasks.language.score import score
from gaitway_tasks.language.spec import LanguageTask, TextReward
from gaitway_tasks.language.tasks import get_language_task
from gaitway_tasks.language.watched import EnvironmentFailedError
from transformers import Qwen2Config, Qwen2ForCausalLM

TASK = get_language_task("arithmetic")


def even(prompts, completions, **columns):
    """A reward with an opinion on every second completion only."""
    return [float(len(text)) if i % 2 == 0 else None for i, text in enumerate(completions)]


@pytest.fixture(scope="module")
def tokenizer():
    return build_tokenizer(TASK.source.vocabulary())


def make_model(tokenizer):
    config = Qwen2Config(
        vocab_size=len(tokenizer), hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, tie_word_embeddings=True,
    )  # fmt: skip
    torch.manual_seed(0)
    return Qwen2ForCausalLM(config)


def make_world(tokenizer, seed=0, task=TASK, model=None, **sampling) -> TokenWorld:
    conversation = Conversation(tokenizer)
    return TextWorld(
        task,
        conversation,
        TransformersEngine(model or make_model(tokenizer)),
        Sampling(**{"max_tokens": 12, "stop_tokens": conversation.stops, **sampling}),
        functools.partial(score, task),
        seed=seed,
    )


class Counter:
    """Always replies; the second answer and all after it earn a half."""

    def reset(self, row):
        self.turns = 0
        return row["prompt"]

    def step(self, answer):
        self.turns += 1
        return Turn("3", reward=0.5 * (self.turns > 1))


class Lake:
    """A game without data: three fields of ice, of which one breaks."""

    def reset(self, row):
        self.place, self.hole = 0, random.Random(row["seed"]).randrange(1, 3)
        return f"{self.hole} steps to the hole ?"

    def step(self, answer):
        self.place += 1
        return Turn(reward=-1.0) if self.place == self.hole else Turn("and now ?", reward=0.25)


def equal(a, b) -> bool:
    return all(torch.equal(getattr(a, n), getattr(b, n)) for n in ("tokens", "mask", "log_probs", "rewards"))


def test_a_rollout_is_what_it_says(tokenizer):
    world = make_world(tokenizer)
    rollout = world.sample(3, 4)
    assert rollout.groups.tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]
    assert len({rollout.prompts[i] for i in (0, 4, 8)}) == 3
    for i, prompt in enumerate(rollout.prompts):
        length, chosen = int(rollout.lengths[i]), rollout.mask[i].bool()
        head = world.conversation.prompt(prompt)
        assert rollout.tokens[i, : len(head)].tolist() == head
        assert not chosen[: len(head)].any() and chosen[len(head) : length].all() and not chosen[length:].any()
        assert (rollout.tokens[i, length:] == tokenizer.pad_token_id).all()
        assert bool(rollout.finished[i]) == (int(rollout.tokens[i, length - 1]) == tokenizer.eos_token_id)
        assert world.conversation.decode(rollout.tokens[i, len(head) : length].tolist()) == rollout.completions[i]
    assert (rollout.log_probs[rollout.mask == 0] == 0).all() and (rollout.log_probs[rollout.mask == 1] < 0).all()
    totals, parts = score(TASK, rollout.prompts, rollout.completions, rollout.rows)
    assert rollout.rewards.tolist() == pytest.approx(totals)
    assert set(rollout.parts) == set(parts) == set(TASK.rewards)


def test_log_probs_are_the_models_at_the_temperature(tokenizer):
    world = make_world(tokenizer, temperature=0.7)
    rollout = world.sample(2, 2)
    logits = make_model(tokenizer)(rollout.tokens).logits.float() / world.temperature
    expected = torch.zeros_like(rollout.log_probs)
    expected[:, 1:] = logits.log_softmax(-1)[:, :-1].gather(2, rollout.tokens[:, 1:, None])[..., 0]
    torch.testing.assert_close(rollout.log_probs, expected.detach() * rollout.mask, atol=1e-5, rtol=1e-5)


def test_worlds_of_one_seed_are_equal_and_of_two_are_not(tokenizer):
    first, same, other = (make_world(tokenizer, seed) for seed in (0, 0, 1))
    one, two = first.sample(2, 3), first.sample(2, 3)
    assert equal(one, same.sample(2, 3)) and equal(two, same.sample(2, 3))
    assert one.prompts != two.prompts and one.prompts != other.sample(2, 3).prompts


def test_a_restored_world_goes_on_where_it_was(tokenizer):
    world = make_world(tokenizer)
    world.sample(3, 2)
    world.update_weights(make_model(tokenizer).state_dict().items())
    state, restored = world.state_dict(), make_world(tokenizer)
    restored.load_state_dict(state)
    again, expected = restored.sample(2, 2), world.sample(2, 2)
    assert equal(again, expected) and again.version == expected.version == 1
    assert again.prompts == expected.prompts


def test_the_engine_follows(tokenizer):
    model = make_model(tokenizer)
    world = make_world(tokenizer, model=model)
    before = world.sample(2, 2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    world.update_weights(model.state_dict().items())
    after = world.sample(2, 2)
    assert (before.version, after.version) == (0, 1)
    sequence = after.tokens[0, : after.lengths[0]].tolist()
    fresh = TransformersEngine(model)
    assert world.engine.score([sequence])[0] == pytest.approx(fresh.score([sequence])[0], abs=1e-5)


def test_a_reward_may_have_no_opinion(tokenizer):
    task = TASK.replace(rewards={**TASK.rewards, "even": TextReward(func=even, weight=2.0)})
    rollout = make_world(tokenizer, task=task).sample(1, 4)
    assert rollout.parts["even"].isnan().tolist() == [False, True, False, True]
    assert not rollout.rewards.isnan().any()
    assert rollout.rewards[0] >= 2.0 * rollout.parts["even"][0]


def test_a_dialogue_of_many_turns_stays_within_what_the_model_sees(tokenizer):
    """Also where one has little room left and another, beside it, has much."""
    model, prompt = make_model(tokenizer), Conversation(tokenizer).prompt(TASK.source.rows("train")[0]["prompt"])
    model.config.max_position_embeddings = len(prompt) + 40
    task = TASK.replace(environment=Counter, max_turns=8, max_completion_tokens=40)
    world = make_world(tokenizer, task=task, model=model, max_tokens=40, stop_tokens=tuple(range(1, 40)))
    world._stream = itertools.repeat(TASK.source.rows("train")[0])
    rollout = world.sample(1, 16)
    said = rollout.lengths - len(prompt)
    assert int(said.max()) == 40 and int(said.min()) < 40  # a reply would not have fitted
    assert not rollout.finished.any()


def test_a_prompt_that_is_too_long_is_refused(tokenizer):
    world = make_world(tokenizer, task=replace(TASK, max_prompt_tokens=5))
    with pytest.raises(RowError, match=r"tokens, more than task\.max_prompt_tokens=5: raise that"):
        world.sample(1, 1)


def test_an_environment_replies_and_rewards_turn_by_turn(tokenizer):
    stops = tuple(range(1, len(tokenizer)))  # every answer is one token
    task = TASK.replace(environment=Counter, max_turns=4, rewards={}, max_completion_tokens=60)
    rollout = make_world(tokenizer, task=task, max_tokens=60, stop_tokens=stops).sample(1, 3)
    ended = rollout.finished
    assert ended.any() and rollout.parts["environment"][ended].tolist() == [1.5] * int(ended.sum())
    assert torch.equal(rollout.rewards, rollout.parts["environment"])
    assert torch.equal(rollout.turn_rewards.sum(1), rollout.rewards)
    assert ((rollout.turn_rewards > 0) <= (rollout.mask > 0)).all()  # at tokens that the model chose
    assert (rollout.turn_rewards > 0).sum(1)[ended].tolist() == [3] * int(ended.sum())


def test_an_environment_may_be_a_task_by_itself(tokenizer):
    task = LanguageTask(name="lake", source=EnvironmentSource(environment=Lake, test=5), max_turns=3)
    pickle.loads(pickle.dumps(task))
    held, learnt = task.source.rows("test"), task.source.rows("train")
    assert len(held) == 5 and not {row["seed"] for row in held} & {row["seed"] for row in learnt}
    stops = tuple(range(1, len(tokenizer)))
    world = make_world(tokenizer, task=task, max_tokens=60, stop_tokens=stops)
    rollout = world.sample(8, 1)
    holes = [int(prompt[0]) for prompt in rollout.prompts]
    ended = [i for i in range(8) if rollout.finished[i]]
    assert {holes[i] for i in ended} == {1, 2}
    for i in ended:
        assert float(rollout.rewards[i]) == (-1.0 if holes[i] == 1 else -0.75)
    assert {row["seed"] for row in rollout.rows}.isdisjoint(row["seed"] for row in held)


@pytest.mark.parametrize(
    ("reset", "said"),
    [
        (lambda seed: 1 // seed, "seed 0 raised ZeroDivisionError"),
        (lambda seed: None, "seed 0 returned None: .*text"),
        (lambda seed: " ", "seed 0 returned ' ': .*text"),
        (lambda seed: [], r"seed 0 returned \[\]: .*text"),
        (lambda seed: [{"content": "go"}], "seed 0 returned .*'role'"),
    ],
)
def test_a_broken_opening_is_found_before_anything_is_learnt(reset, said):
    class Shut:
        def reset(self, row):
            return reset(row["seed"])

    with pytest.raises(EnvironmentFailedError, match=f"environment Shut .*{said}"):
        EnvironmentSource(environment=Shut).rows("test")


def test_an_opening_that_does_not_follow_from_its_row_is_refused(tokenizer):
    """The model would read another opening than the one that its environment is in."""

    class Drifting(Lake):
        drawn = 0

        def reset(self, row):
            Drifting.drawn += 1
            return super().reset({"seed": Drifting.drawn % 2})

    task = LanguageTask(name="lake", source=EnvironmentSource(environment=Drifting, test=5), max_turns=3)
    with pytest.raises(EnvironmentFailedError, match=r"environment Drifting.*equal openings"):
        make_world(tokenizer, task=task, max_tokens=60).sample(8, 2)


def test_an_engine_that_can_rest_does_when_answers_are_there(tokenizer):
    calls = []

    class Resting(TransformersEngine):
        def generate(self, prompts, sampling):
            calls.append("answers")
            return super().generate(prompts, sampling)

        def rest(self):
            calls.append("rests")

    model = make_model(tokenizer)
    conversation = Conversation(tokenizer)
    engine = VerifiedEngine(Resting(model), TransformersEngine(model, copied=False).score, [[5, 9]])
    sampling = Sampling(max_tokens=12, stop_tokens=conversation.stops)
    world = TextWorld(TASK, conversation, engine, sampling, functools.partial(score, TASK), seed=0)
    calls.clear()
    world.sample(2, 2)
    assert calls == ["answers", "rests"]
