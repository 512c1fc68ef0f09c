"""The replay buffer against a slow one made of lists."""

from __future__ import annotations

import io

import pytest
import torch
from gaitway_agents.off_policy.replay import ReplayBuffer, Transitions
from hypothesis import given
from hypothesis import strategies as st
from replay_diary import Diary


def check(diary: Diary, batch: Transitions) -> None:
    for i, row in enumerate(batch.rows.tolist()):
        step, total, discount, last = diary.n_step(row)
        assert step.valid
        assert torch.equal(batch.observations["policy"][i], step.observation)
        assert torch.equal(batch.next_observations["policy"][i], last)
        assert batch.actions[i] == step.action
        assert batch.returns[i].item() == pytest.approx(total, abs=1e-5)
        assert batch.discounts[i].item() == pytest.approx(discount, abs=1e-6)


@given(
    st.integers(0, 10**6),
    st.integers(1, 4),
    st.integers(1, 5),
    st.integers(1, 40),
    st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    st.sampled_from([0.0, 0.3]),
)
def test_every_draw_is_what_happened(seed, envs, n_step, steps, ends, invalid):
    buffer = ReplayBuffer(12 * envs, envs, gamma=0.9, n_step=n_step, seed=seed)
    diary = Diary(buffer, seed, ends=ends, invalid=invalid)
    diary.live(steps)
    there = sum(step.valid for history in diary.history for step in history[-12:])
    assert len(buffer) == there
    if there:
        check(diary, buffer.sample(64))


def test_truncation_bootstraps_and_termination_does_not():
    buffer = ReplayBuffer(10, 1, gamma=0.9, n_step=3)
    yes, no = torch.tensor([True]), torch.tensor([False])
    for value, terminated, truncated in ((0.0, no, no), (1.0, no, yes), (10.0, no, no), (11.0, yes, no)):
        observation = {"policy": torch.tensor([[value]])}
        following = {"policy": torch.tensor([[value + 0.5]])}
        buffer.add(observation, torch.zeros(1), torch.ones(1), terminated, truncated, following)
    batch = buffer.sample(200)
    found = {
        (
            batch.observations["policy"][i].item(),
            round(batch.returns[i].item(), 5),
            round(batch.discounts[i].item(), 5),
            batch.next_observations["policy"][i].item(),
        )
        for i in range(200)
    }
    assert found == {(0.0, 1.9, 0.81, 1.5), (1.0, 1.0, 0.9, 1.5), (10.0, 1.9, 0.0, 11.5), (11.0, 1.0, 0.0, 11.5)}


def test_draws_are_uniform():
    buffer = ReplayBuffer(40, 4, gamma=0.99)
    Diary(buffer, 0, invalid=0.3).live(25)
    counts = torch.bincount(buffer.sample(200_000).rows, minlength=40).double()
    expected = 200_000 / len(buffer)
    assert ((counts > 0) == buffer.valid).all()
    chi_square = ((counts[buffer.valid] - expected).square() / expected).sum().item()
    assert chi_square < 70.0  # some 28 degrees of freedom


def test_the_same_seed_draws_the_same_and_other_random_numbers_do_not_matter():
    draws = []
    for seed in (1, 1, 2):
        buffer = ReplayBuffer(100, 2, gamma=0.99, seed=seed)
        Diary(buffer, 0).live(30)
        torch.rand(seed)
        draws.append(buffer.sample(50).rows)
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])


@pytest.mark.parametrize("steps", [7, 12, 30])
@pytest.mark.parametrize("stack", [0, 4])
def test_a_buffer_continued_from_its_state_draws_the_same_bits(steps, stack):
    def make() -> ReplayBuffer:
        return ReplayBuffer(24, 2, gamma=0.9, n_step=2, seed=3)

    diary = Diary(make(), 0, stack=stack, invalid=0.1)
    diary.live(steps)
    diary.buffer.sample(5)
    file = io.BytesIO()
    torch.save(diary.buffer.state_dict(), file)
    file.seek(0)
    resumed = make()
    resumed.load_state_dict(torch.load(file, weights_only=True))
    for _ in range(3):
        here, there = diary.buffer.sample(40), resumed.sample(40)
        for name in ("rows", "actions", "returns", "discounts"):
            assert torch.equal(getattr(here, name), getattr(there, name))
        assert torch.equal(here.next_observations["policy"], there.next_observations["policy"])
        state = diary.generator.get_state()
        before = diary.current, diary.count, [list(h) for h in diary.history]
        diary.live(4)
        diary.generator.set_state(state)
        original, diary.buffer = diary.buffer, resumed
        diary.current, diary.count, diary.history = before
        diary.live(4)
        diary.buffer = original


def test_a_checkpoint_is_no_larger_than_what_is_in_the_buffer():
    buffer = ReplayBuffer(1_000_000, 1, gamma=0.99)
    Diary(buffer, 0).live(20)
    file = io.BytesIO()
    torch.save(buffer.state_dict(), file)
    assert file.tell() < 20_000


def test_bad_use_is_refused():
    with pytest.raises(ValueError, match="buffer_size 10: 4 environments need at least 16"):
        ReplayBuffer(10, 4, gamma=0.99, n_step=3)
    with pytest.raises(ValueError, match="empty"):
        ReplayBuffer(10, 4, gamma=0.99).sample(1)
