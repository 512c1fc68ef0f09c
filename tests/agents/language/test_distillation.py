"""Generalised knowledge distillation: its divergences, what it learns, and from whose answers."""

import copy

import pytest
import torch
from gaitway_agents.core.distillation import generalised_jsd
from gaitway_agents.language.distillation import DistillationConfig, DistillationTrainer
from gaitway_agents.language.fixed_data import one_step
from gaitway_agents.language.sft import batch_of_examples
from gaitway_agents.models.distilled_lm import DistilledLMPolicy
from tiny_models import tiny_lm
from token_worlds import WantedToken
from torch.distributions import Categorical, kl_divergence

EXAMPLES = [(torch.tensor([3, 4, 5, 6, 1]), torch.tensor([0.0, 0, 1, 1, 1])), (torch.tensor([7, 8]), torch.ones(2))]


def trainer(student=None, teacher=None, demonstrations=(), **settings):
    student, teacher = student or tiny_lm(vocab_size=12), teacher or tiny_lm(vocab_size=12, seed=1)
    usual = {"prompts_per_step": 16, "optimizer": one_step(learning_rate=3e-3)}
    return DistillationTrainer(
        student, WantedToken(student, seed=1), DistillationConfig(**(usual | settings)), teacher=teacher,
        demonstrations=demonstrations, seed=0,
    )  # fmt: skip


@pytest.mark.parametrize("beta", [0.0, 0.3, 0.5, 1.0])
def test_divergences_are_those_of_the_distributions(beta):
    student, teacher = torch.randn(2, 5, 7, dtype=torch.float64).log_softmax(-1)
    p, q = Categorical(logits=teacher), Categorical(logits=student)
    mixture = Categorical(probs=beta * p.probs + (1 - beta) * q.probs)
    expected = beta * kl_divergence(p, mixture) + (1 - beta) * kl_divergence(q, mixture)
    if beta in (0.0, 1.0):
        expected = kl_divergence(*((p, q) if beta == 0.0 else (q, p)))
    torch.testing.assert_close(generalised_jsd(student, teacher, beta), expected)


def test_a_policy_compares_whole_distributions_at_the_masked_tokens(monkeypatch):
    student, teacher = tiny_lm(vocab_size=12).double(), tiny_lm(vocab_size=12, seed=1).double()
    batch = batch_of_examples(EXAMPLES, torch.device("cpu"))
    policy = DistilledLMPolicy(student, teacher, beta=0.3, temperature=0.7)
    found = policy.evaluate(batch)
    for row, (tokens, mask) in enumerate(EXAMPLES):
        said, wanted = ((m(input_ids=tokens[None]).logits[0, :-1] / 0.7).log_softmax(-1) for m in (student, teacher))
        expected = generalised_jsd(said, wanted, 0.3) * mask[1:]
        torch.testing.assert_close(found.divergence[row, 1 : len(tokens)], expected)
        assert not found.divergence[row, len(tokens) :].any() and not found.divergence[row, 0]
    monkeypatch.setattr("gaitway_agents.models.distilled_lm.LOGITS", {"cpu": 30})  # a token a slice
    torch.testing.assert_close(policy.evaluate(batch).divergence, found.divergence)
    assert not any("teacher" in name for name in policy.state_dict())


def test_a_teacher_with_more_logits_is_cut_to_the_tokens_that_both_have():
    teacher = tiny_lm(vocab_size=12, seed=1)
    larger = tiny_lm(vocab_size=16, seed=1)
    shared = {n: p[:12] if "embed" in n or "lm_head" in n else p for n, p in larger.state_dict().items()}
    teacher.load_state_dict(shared)
    batch = batch_of_examples(EXAMPLES, torch.device("cpu"))
    cut, same = (
        DistilledLMPolicy(tiny_lm(vocab_size=12), one, beta=1.0).evaluate(batch).divergence for one in (larger, teacher)
    )
    torch.testing.assert_close(cut, same)


@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0])
def test_a_student_learns_its_teachers_distributions(beta):
    learner = trainer(beta=beta, optimizer=one_step(learning_rate=1e-2))
    taught = copy.deepcopy(learner.policy._teacher[0].state_dict())
    first = learner.iterate()
    for _ in range(15):
        last = learner.iterate()
    assert last["learn/loss"] < 0.4 * first["learn/loss"]
    assert learner.steps == 16 * 16 and first["rollout/staleness"] == 0.0
    assert all(torch.equal(value, taught[name]) for name, value in learner.policy._teacher[0].state_dict().items())


def test_the_share_of_own_answers_is_what_it_says(monkeypatch):
    learner = trainer(demonstrations=EXAMPLES, on_policy=0.25)
    seen = []
    monkeypatch.setattr(learner.optimizer, "update", lambda batch: seen.append(batch) or {})
    learner.iterate()
    demonstrated = [row for row, n in zip(seen[0].actions, seen[0].observations["lengths"], strict=True)
                    if any(torch.equal(row[:n], tokens) for tokens, _ in EXAMPLES)]  # fmt: skip
    assert len(seen[0]) == 16 and len(demonstrated) == 12 and learner.steps == 16
    none = trainer(demonstrations=EXAMPLES, on_policy=0.0)
    assert not any(name.startswith("rollout/") for name in none.iterate()) and none.world.calls == 0


def test_a_stopped_training_goes_on_as_if_it_had_not():
    whole = trainer(demonstrations=EXAMPLES, on_policy=0.5)
    whole.iterate()
    state = copy.deepcopy(whole.state_dict())
    expected = whole.iterate()
    again = trainer(demonstrations=EXAMPLES, on_policy=0.5)
    again.load_state_dict(state)
    assert again.iterate()["learn/loss"] == expected["learn/loss"]
    assert again.steps == whole.steps and again.order.position == whole.order.position


def test_settings_without_a_meaning_are_refused():
    with pytest.raises(ValueError, match=r"minibatches 4: there are only prompts_per_step 2"):
        DistillationConfig(prompts_per_step=2, optimizer=one_step(minibatches=4))
    with pytest.raises(ValueError, match=r"beta 1\.5"):
        DistillationConfig(beta=1.5)
