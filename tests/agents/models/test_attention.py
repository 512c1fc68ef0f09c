import pytest
import torch
from gaitway_agents.models import attention
from gaitway_agents.models.causal_lm import CausalLMPolicy
from tiny_models import tiny_lm
from torch.nn import functional


def heads(keys, size=8):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(2, 3, keys, size, generator=generator, dtype=torch.bfloat16) for _ in range(3)]


def test_few_keys_are_attended_to_in_float32():
    query, key, value = heads(6)
    plain = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    with torch.autocast("cpu", torch.bfloat16), attention.short_attention(query.device):
        found = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    assert plain.dtype == torch.bfloat16 and found.dtype == torch.float32
    exact = functional.scaled_dot_product_attention(query.float(), key.float(), value.float(), is_causal=True)
    assert torch.equal(found, exact) and not torch.equal(plain.float(), exact)


def test_masks_that_add_go_along():
    query, key, value = heads(6)
    mask = torch.full((6, 6), -1.0, dtype=torch.bfloat16).tril()
    with torch.autocast("cpu", torch.bfloat16), attention.short_attention(query.device):
        found = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    exact = functional.scaled_dot_product_attention(query.float(), key.float(), value.float(), attn_mask=mask.float())
    assert torch.equal(found, exact)


@pytest.mark.parametrize(("autocast", "most"), [(False, attention.MOST), (True, 6 * 8 - 1)])
def test_many_keys_and_other_precisions_stay(monkeypatch, autocast, most):
    monkeypatch.setattr(attention, "MOST", most)
    query, key, value = heads(6)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast), attention.short_attention(query.device):
        assert functional.scaled_dot_product_attention(query, key, value).dtype == torch.bfloat16


@pytest.mark.parametrize("checkpointing", [False, True])
def test_a_policy_in_bfloat16_says_and_learns_what_one_in_float32_does(checkpointing):
    tokens = torch.randint(2, 24, (6, 12), generator=torch.Generator().manual_seed(0))
    tokens[:, :4] = tokens[0, :4]
    lengths, mask = torch.full((6,), 12), (torch.arange(12) >= 4).float().expand(6, 12)
    found = []
    for low in (False, True):
        model = tiny_lm()
        if checkpointing:
            model.gradient_checkpointing_enable()
        policy = CausalLMPolicy(model)
        with torch.autocast("cpu", torch.bfloat16, enabled=low):
            said, _ = policy.log_probs(tokens, lengths, mask)
        said.sum().backward()
        found.append((said.detach(), torch.cat([p.grad.flatten() for p in policy.parameters()])))
    (exact, gradient), (rounded, other) = found
    torch.testing.assert_close(rounded, exact, rtol=0, atol=0.05)
    assert float(functional.cosine_similarity(gradient, other, dim=0)) > 0.999
