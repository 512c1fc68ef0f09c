import copy
import math

import pytest
import torch
from gaitway_agents.language.fixed_data import one_step
from gaitway_agents.language.preference import PreferenceConfig, PreferenceTrainer
from gaitway_agents.language.schedule import LearningRateSchedule
from peft import LoraConfig, get_peft_model
from tiny_models import VOCABULARY, Copies, HigherWins, tiny_lm

CONSTANT = LearningRateSchedule()


def trainer(loss="dpo", data=None, batch_size=8, updates=1, learning_rate=1e-3, **settings):
    model = tiny_lm()
    config = PreferenceConfig(
        loss=loss,
        batch_size=batch_size,
        updates=updates,
        schedule=CONSTANT,
        optimizer=one_step(learning_rate=learning_rate),
        **settings,
    )
    return PreferenceTrainer(model, data or HigherWins(40), config, seed=0)


def plain_log_probs(model, tokens, mask):
    """Sum of the masked tokens' log-probabilities by the plain formula."""
    with torch.no_grad():
        said = model(tokens[None]).logits[0, :-1].log_softmax(-1).gather(1, tokens[1:, None])[:, 0]
    return float((said * mask[1:]).sum())


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("kind", ["", "adapters", "checkpointing"])
def test_dpo_starts_at_ln_2(precision, kind):
    """However the examples are cut into forward passes, the reference's are the policy's."""
    model = tiny_lm()
    if kind == "checkpointing":
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    if kind == "adapters":
        model = get_peft_model(model, LoraConfig(r=2, target_modules="all-linear"))
    optimizer = one_step(learning_rate=1e-3, precision=precision, chunk_size=64)
    config = PreferenceConfig(batch_size=16, updates=1, schedule=CONSTANT, optimizer=optimizer, beta=1.0)
    first = PreferenceTrainer(model, HigherWins(40), config, seed=0).iterate()
    assert first["learn/loss"] == pytest.approx(math.log(2.0), abs=1e-6)
    assert first["learn/margin"] == pytest.approx(0.0, abs=1e-6)


def test_decisions_are_sums_over_whole_answers():
    learner = trainer(batch_size=4)
    with torch.no_grad():  # away from the reference
        for parameter in learner.policy.parameters():
            parameter.add_(0.02 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    rows = [3, 0, 17]
    batch = learner.batch_of(rows)
    said = learner.policy.evaluate(batch).log_probs
    for row, new, old in zip(rows, said.tolist(), batch.reference.tolist(), strict=True):
        for place, (tokens, mask) in enumerate(learner.pairs[row][:2]):
            assert new[place] == pytest.approx(plain_log_probs(learner.policy.model, tokens, mask), abs=1e-4)
            assert old[place] == pytest.approx(plain_log_probs(tiny_lm(), tokens, mask), abs=1e-4)


@pytest.mark.parametrize(
    ("loss", "settings"),
    [("dpo", {}), ("hinge", {}), ("ipo", {}), ("simpo", {"beta": 2.0, "gamma": 0.5}), ("kto", {"beta": 0.5})],
)
def test_every_loss_makes_the_policy_prefer_what_is_preferred(loss, settings):
    learner = trainer(loss, HigherWins(300), batch_size=32, updates=20, learning_rate=3e-3, **settings)
    start = copy.deepcopy(learner.policy.model)
    for _ in range(3):
        metrics = learner.iterate()
    assert metrics["learn/accuracy"] > 0.8 and metrics["learn/margin"] > 0.05
    prompt = torch.randint(2, VOCABULARY, (50, 2), generator=torch.Generator().manual_seed(5))
    before, after = (
        model(prompt).logits[:, -1].softmax(-1)[:, VOCABULARY // 2 :].sum(-1).mean().item()
        for model in (start, learner.policy.model)
    )
    assert after > before + 0.15


def test_ktos_baseline_is_the_divergence_on_answers_of_other_prompts():
    learner = trainer("kto", HigherWins(10), batch_size=6)
    with torch.no_grad():
        for parameter in learner.policy.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    rows = [0, 5, 9, 12, 3, 16]
    batch = learner.batch_of(rows)
    data, apart = [answer for pair in HigherWins(10) for answer in pair[:2]], []
    for row, other in zip(rows, [*rows[1:], rows[0]], strict=True):
        tokens = torch.cat((data[row][0][:2], data[other][0][2:]))
        mask = torch.cat((torch.zeros(2), torch.ones(len(tokens) - 2)))
        apart.append(plain_log_probs(learner.policy.model, tokens, mask) - plain_log_probs(tiny_lm(), tokens, mask))
    expected = max(0.0, sum(apart) / len(apart))
    assert batch.observations["baseline"].tolist() == pytest.approx([expected] * 6, abs=1e-4)
    assert batch.observations["desirable"].tolist() == [1.0, 0.0, 0.0, 1.0, 0.0, 1.0]


def test_kto_takes_single_answers():
    liked = [(example, index % 3 > 0) for index, example in enumerate(Copies(20))]
    learner = trainer("kto", liked, batch_size=20)
    assert learner.iterate()["learn/loss"] == pytest.approx(0.5, abs=1e-5)
    with pytest.raises(ValueError, match="'dpo' needs pairs"):
        trainer("dpo", liked)


@pytest.mark.parametrize("loss", ["dpo", "kto"])
def test_a_resumed_training_is_the_same_training(loss):
    def short():
        return trainer(loss, HigherWins(12), updates=2)  # the third step begins to read again

    whole, first, second = short(), short(), short()
    for _ in range(4):
        whole.iterate()
    for _ in range(2):
        first.iterate()
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    for _ in range(2):
        second.iterate()
    for mine, theirs in zip(second.policy.parameters(), whole.policy.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_the_reference_is_asked_once_for_each_pair():
    learner = trainer(data=HigherWins(8), batch_size=8, updates=3)
    asked = []
    inner = learner.reference.evaluate
    learner.reference.evaluate = lambda batch, config: asked.append(batch.actions.shape[:2]) or inner(batch, config)
    learner.iterate()
    assert asked == [(8, 2)]


def test_bad_data_and_settings_are_named():
    class Empty(HigherWins):
        def pair(self, index):
            chosen, (tokens, mask) = super().pair(index)
            return chosen, (tokens, mask * float(index != 4))

    with pytest.raises(ValueError, match="pair 4: the rejected answer is empty"):
        trainer(data=Empty(8))
    with pytest.raises(ValueError, match="batch_size 1"):
        PreferenceConfig(loss="kto", batch_size=1)
