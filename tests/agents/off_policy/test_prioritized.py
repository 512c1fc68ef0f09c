"""Prioritised replay against direct computation."""

from __future__ import annotations

import io

import pytest
import torch
from gaitway_agents.off_policy.prioritized import EPSILON, PrioritizedReplayBuffer, find
from hypothesis import given
from hypothesis import strategies as st
from replay_diary import Diary


@given(st.integers(0, 10**6), st.sampled_from([1, 2, 127, 128, 5000]))
def test_each_row_has_the_share_of_its_weight(seed, size):
    torch.manual_seed(seed)
    weights = torch.randint(4, (size,)).double()  # whole numbers, so that sums are exact; a quarter of them zero
    if (total := float(weights.sum())) == 0.0:
        return
    expected = torch.repeat_interleave(torch.arange(size), weights.long())
    for offset in (0.25, 0.5, 0.75):
        shares = (torch.arange(total, dtype=torch.float64) + offset) / total
        assert torch.equal(find(weights, shares), expected)


@given(st.integers(0, 10**6), st.integers(1, 400))
def test_rounding_never_leads_to_a_row_of_no_weight(seed, size):
    torch.manual_seed(seed)
    weights = torch.rand(size, dtype=torch.float64) ** 20 * (torch.rand(size) < 0.5)
    weights[torch.randint(size, ())] = 1e-3
    shares = torch.cat((torch.rand(200, dtype=torch.float64), torch.tensor([0.0, 1.0, 1.01], dtype=torch.float64)))
    assert (weights[find(weights, shares)] > 0.0).all()


def filled(alpha: float = 0.6, beta: float = 0.4, seed: int = 0) -> tuple[Diary, PrioritizedReplayBuffer]:
    buffer = PrioritizedReplayBuffer(60, 3, gamma=0.9, seed=seed, alpha=alpha, beta=beta)
    diary = Diary(buffer, 0, invalid=0.2)
    diary.live(27)
    return diary, buffer


def test_transitions_are_drawn_in_proportion_to_their_priorities():
    _, buffer = filled()
    rows = buffer.valid.nonzero().flatten()
    errors = torch.linspace(0.0, 3.0, len(rows))
    buffer.update(rows, errors)
    priorities = (errors.double() + EPSILON) ** 0.6
    share = priorities / priorities.sum()
    counts = torch.bincount(torch.cat([buffer.sample(1000).rows for _ in range(200)]), minlength=60)
    assert counts.sum() == 200_000
    # Strata leave less to chance than independent draws would.
    spread = (200_000 * share * (1.0 - share)).sqrt()
    assert ((counts[rows] - 200_000 * share).abs() < 4.0 * spread + 1.0).all()
    assert counts[~buffer.valid].sum() == 0


def test_strata_bound_how_often_a_transition_is_drawn():
    """Of B draws a transition with share P gets between floor(B P) - 1 and ceil(B P) + 1, every single time."""
    _, buffer = filled(alpha=1.0)
    rows = buffer.valid.nonzero().flatten()
    errors = torch.rand(len(rows))
    buffer.update(rows, errors)
    share = errors.double() / errors.double().sum()
    for _ in range(20):
        counts = torch.bincount(buffer.sample(500).rows, minlength=60)[rows]
        assert ((counts - 500 * share).abs() < 2.0).all()


def test_importance_weights():
    _, buffer = filled(alpha=0.7, beta=0.5)
    rows = buffer.valid.nonzero().flatten()
    errors = torch.rand(len(rows)) + 0.1
    buffer.update(rows, errors)
    priorities = torch.zeros(60, dtype=torch.float64)
    priorities[rows] = (errors.double() + EPSILON) ** 0.7
    batch = buffer.sample(32)
    weights = (len(buffer) * priorities[batch.rows] / priorities.sum()) ** -0.5
    torch.testing.assert_close(batch.weights, (weights / weights.max()).float())


def test_new_transitions_have_the_largest_priority_so_far():
    diary, buffer = filled(alpha=1.0)
    assert set(buffer.sample(400).weights.tolist()) == {1.0}
    rows = buffer.valid.nonzero().flatten()
    buffer.update(rows, torch.full((len(rows),), 0.5))
    buffer.update(rows[:1], torch.tensor([7.0]))
    buffer.update(rows[:1], torch.tensor([0.5]))
    diary.live(1)
    buffer.sample(1)
    newest = range(((buffer.cursor - 1) % buffer.slots) * 3, ((buffer.cursor - 1) % buffer.slots) * 3 + 3)
    for row in newest:
        assert buffer.priorities[row] == (pytest.approx(7.0) if buffer.valid[row] else 0.0)


def test_what_is_drawn_is_what_happened():
    diary, buffer = filled()
    for _ in range(30):
        batch = buffer.sample(20)
        for i, row in enumerate(batch.rows.tolist()):
            step, total, discount, _ = diary.n_step(row)
            assert step.valid
            assert torch.equal(batch.observations["policy"][i], step.observation)
            assert (batch.returns[i].item(), batch.discounts[i].item()) == pytest.approx((total, discount))
        buffer.update(batch.rows, torch.rand(20))
        diary.live(2)


def test_forgotten_images_are_not_drawn():
    """Frames run out before the buffer is full, which takes the oldest transitions' priorities away."""
    buffer = PrioritizedReplayBuffer(200, 2, gamma=0.99, alpha=0.6, beta=0.4)
    Diary(buffer, 0, ends=1.0, stack=4).live(150)
    assert len(buffer) < 200
    buffer.sample(1)
    assert int((buffer.priorities > 0.0).sum()) == len(buffer)


def test_a_buffer_continued_from_its_state_draws_the_same_bits():
    _, buffer = filled()
    buffer.update(buffer.sample(30).rows, torch.rand(30))
    file = io.BytesIO()
    torch.save(buffer.state_dict(), file)
    file.seek(0)
    resumed = PrioritizedReplayBuffer(60, 3, gamma=0.9, seed=99, alpha=0.6, beta=0.4)
    resumed.load_state_dict(torch.load(file, weights_only=True))
    for _ in range(3):
        here, there = buffer.sample(40), resumed.sample(40)
        assert torch.equal(here.rows, there.rows)
        assert torch.equal(here.weights, there.weights)
        errors = torch.rand(40)
        buffer.update(here.rows, errors)
        resumed.update(there.rows, errors)
