"""Values of tokens, rewards of answers and log-probabilities of a reference."""

import copy
from dataclasses import replace

import pytest
import torch
from gaitway_agents.core.optimizer import OptimizerConfig, PolicyOptimizer
from gaitway_agents.language.evaluation import evaluate
from gaitway_agents.language.reference import Reference
from gaitway_agents.models.causal_lm import CausalLMPolicy
from gaitway_agents.models.reward_model import RewardModel
from gaitway_agents.models.sequences import hidden_states
from gaitway_agents.models.token_critic import TokenCritic
from tiny_models import VOCABULARY, tiny_lm

from .test_causal_lm import adapted, batch_of, sequences

PASSES = OptimizerConfig(chunk_size=24)


def tiny_classifier(seed=0):
    from transformers import Qwen2Config, Qwen2ForSequenceClassification

    config = Qwen2Config(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        pad_token_id=0,
        num_labels=1,
        initializer_range=0.3,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Qwen2ForSequenceClassification(config)


def padded(tokens, lengths):
    return tokens * (torch.arange(tokens.shape[1]) < lengths[:, None])


def test_reward_model_says_what_transformers_says():
    model = tiny_classifier()
    tokens, lengths, _ = sequences()
    with torch.no_grad():
        ours = RewardModel(model).score(tokens, lengths)
        theirs = model(input_ids=padded(tokens, lengths), attention_mask=padded(tokens, lengths) > 0).logits[:, 0]
    assert ours.std() > 0.1
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0.0)


def test_scores_are_normalised_on_samples_again_and_again():
    reward = RewardModel(tiny_classifier())
    tokens, lengths, _ = sequences()
    with torch.no_grad():
        raw = reward.score(tokens, lengths)
        for _ in range(2):
            reward.normalise(reward.score(tokens, lengths))
            found = reward.score(tokens, lengths)
            torch.testing.assert_close(found, (raw - raw.mean()) / raw.std(), atol=1e-5, rtol=0.0)
    with pytest.raises(ValueError, match="to normalise needs two or more"):
        reward.normalise(torch.ones(4))


def test_reward_model_needs_one_label():
    with pytest.raises(ValueError, match="num_labels=1"):
        RewardModel(tiny_lm())


def test_critic_starts_at_zero_and_learns_apart():
    model = tiny_lm()
    policy = CausalLMPolicy(model, critic=TokenCritic(model))
    batch = batch_of(*sequences())
    found = policy.evaluate(batch)
    assert found.values.shape == batch.actions.shape and not found.values.any()
    actor, critic = policy.parameter_groups()
    assert not {id(p) for p in actor} & {id(p) for p in critic}
    assert len(critic) == len(actor) + 2  # the decoder, whose tied embeddings are the head, and weight and bias
    (found.values * batch.mask).sum().backward()
    assert not any(p.grad is not None for p in actor)


def test_values_belong_to_what_came_before():
    model = tiny_lm()
    critic = TokenCritic(model)
    torch.nn.init.normal_(critic.head.weight)
    tokens, lengths, _ = sequences()
    before = critic.of_states(hidden_states(critic.backbone, tokens, lengths))
    other = tokens.clone()
    other[:, 5] = (other[:, 5] + 1) % VOCABULARY
    after = critic.of_states(hidden_states(critic.backbone, other, lengths))
    assert torch.equal(before[:, :6], after[:, :6])
    assert (before[:, 6] != after[:, 6]).all()
    assert not before[:, 0].any() and before[:, 1:].all()


def test_critic_of_a_reward_model_says_at_the_end_what_it_says():
    reward = RewardModel(tiny_classifier())
    tokens, lengths, _ = sequences()
    with torch.no_grad():
        reward.normalise(reward.score(tokens, lengths))
        expected = reward.score(tokens, lengths)
        critic = TokenCritic.of(reward)
        values = critic.of_states(hidden_states(critic.backbone, tokens, lengths))
    torch.testing.assert_close(values[torch.arange(4), lengths], expected, atol=1e-5, rtol=0.0)


def test_values_learn_through_the_optimiser():
    model = tiny_lm()
    policy = CausalLMPolicy(model, critic=TokenCritic(model))
    batch = batch_of(*sequences())
    batch = batch.replace(returns=batch.mask, values=torch.zeros_like(batch.mask))
    settings = {"minibatches": 1, "schedule": "constant", "entropy_coefficient": 0.0, "normalize_advantages": "none"}
    config = OptimizerConfig(epochs=20, learning_rate=3e-3, clip_value_loss=False, chunk_size=20, **settings)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    optimizer = PolicyOptimizer(policy, config)
    first = optimizer.update(batch)["value_loss"]
    assert optimizer.update(batch)["value_loss"] < 0.3 * first
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_adapters_off_is_the_model_they_were_put_on():
    base = tiny_lm()
    policy = CausalLMPolicy(adapted(copy.deepcopy(base)))
    with torch.no_grad():
        expected = CausalLMPolicy(base).log_probs(*sequences())[0]
        reference = Reference(policy)
        found = reference.evaluate(batch_of(*sequences()), PASSES)
        torch.testing.assert_close(found, expected, atol=1e-6, rtol=0.0)
        assert (policy.log_probs(*sequences())[0] - expected).abs().max() > 0.01  # they are on again
    assert len(list(policy.parameters())) == len(list(reference.policy.parameters()))
    with pytest.raises(ValueError, match="cannot follow"):
        reference.move_towards(policy, 0.5)


def test_a_copy_in_bfloat16_says_what_the_policy_says_in_it():
    policy = CausalLMPolicy(tiny_lm())
    reference = Reference(policy, "bfloat16")
    passes = replace(PASSES, precision="bfloat16")
    expected = evaluate(policy, batch_of(*sequences()), passes).log_probs
    assert torch.equal(reference.evaluate(batch_of(*sequences()), passes), expected)
    low = {name for name, p in reference.policy.model.named_parameters() if p.dtype == torch.bfloat16}
    layers = {name for name, m in policy.model.named_modules() if isinstance(m, torch.nn.Linear)} - {"lm_head"}
    assert {name.rpartition(".")[0] for name in low} == layers  # tied embeddings stay as they are read
    assert all(p.dtype == torch.float32 for p in policy.model.parameters())


def test_a_copy_stays_where_it_was_until_it_follows():
    policy = CausalLMPolicy(tiny_lm(), temperature=0.7)
    reference = Reference(policy)
    with torch.no_grad():
        expected = policy.log_probs(*sequences())[0]
        for parameter in policy.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(3)))
        moved = policy.log_probs(*sequences())[0]
    found = reference.evaluate(batch_of(*sequences()), PASSES)
    assert not found.requires_grad
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=0.0)
    assert reference.state_dict() == {}
    half = copy.deepcopy(reference)
    half.move_towards(policy, 0.5)
    new, old, mine = (p.model.model.norm.weight for p in (half.policy, reference.policy, policy))
    torch.testing.assert_close(new, 0.5 * (old + mine))
    tied = [p.model.lm_head.weight for p in (half.policy, reference.policy, policy)]
    torch.testing.assert_close(tied[0], 0.5 * (tied[1] + tied[2]))  # once, though it has two names
    reference.move_towards(policy, 1.0)
    torch.testing.assert_close(reference.evaluate(batch_of(*sequences()), PASSES), moved, atol=1e-6, rtol=0.0)
    again = Reference(CausalLMPolicy(tiny_lm(5), temperature=0.7))
    again.load_state_dict(reference.state_dict())
    assert torch.equal(
        again.evaluate(batch_of(*sequences()), PASSES), reference.evaluate(batch_of(*sequences()), PASSES)
    )
