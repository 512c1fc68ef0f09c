"""Image stacks kept as single frames are the stacks that were put in."""

from __future__ import annotations

import pytest
import torch
from gaitway_agents.off_policy.columns import Frames, Whole, make_column
from gaitway_agents.off_policy.replay import ReplayBuffer
from hypothesis import given
from hypothesis import strategies as st
from replay_diary import Diary
from torch import Tensor


class Twice(ReplayBuffer):
    """Keeps every image a second time, as it came."""

    def _allocate(self, observations: dict, actions: Tensor, next_observations: dict) -> None:
        super()._allocate(observations, actions, next_observations)
        self.columns["whole"] = Whole(observations["policy"], self.slots * self.num_envs)

    def add(self, observations: dict, *rest: Tensor) -> None:
        images = rest[4]
        following = {**images, "whole": images["policy"]}
        super().add({**observations, "whole": observations["policy"]}, *rest[:4], following, *rest[5:])


@given(
    st.integers(0, 10**6),
    st.integers(1, 3),
    st.integers(2, 5),
    st.integers(1, 60),
    st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    st.integers(1, 3),
)
def test_stacks_are_rebuilt_bit_for_bit(seed, envs, stack, steps, ends, n_step):
    buffer = Twice(20 * envs, envs, gamma=0.99, n_step=n_step, seed=seed)
    Diary(buffer, seed, ends=ends, invalid=0.1, stack=stack).live(steps)
    assert isinstance(buffer.columns["policy"], Frames)
    if len(buffer):
        check(buffer)


def check(buffer: Twice) -> None:
    batch = buffer.sample(100)
    assert torch.equal(batch.observations["policy"], batch.observations["whole"])
    assert torch.equal(batch.next_observations["policy"], batch.next_observations["whole"])


def test_short_episodes_use_up_the_frames_and_the_oldest_transitions_go_early():
    buffer = Twice(200, 2, gamma=0.99)
    diary = Diary(buffer, 0, ends=1.0, stack=4)
    diary.live(300)
    assert 40 < len(buffer) < 200
    check(buffer)
    diary.ends = 0.0
    diary.live(300)
    assert len(buffer) == 200


def test_a_lost_life_costs_no_frames():
    """The episode is over, but the game goes on from what was seen last."""

    class Lives(Diary):
        def first(self) -> Tensor:
            return self.history[0][-1].following if self.count else super().first()

    buffer = Twice(200, 1, gamma=0.99)
    diary = Lives(buffer, 0, ends=0.9, stack=4)
    diary.live(400)
    assert len(buffer) == 200
    check(buffer)


def test_a_game_may_begin_with_blank_images():
    buffer = Twice(20, 2, gamma=0.99)
    blank = torch.zeros(2, 4, 5, 3, dtype=torch.uint8)
    following = torch.cat((blank[:, 1:], torch.full((2, 1, 5, 3), 7, dtype=torch.uint8)), 1)
    no = torch.zeros(2, dtype=torch.bool)
    buffer.add({"policy": blank}, no.long(), torch.zeros(2), no, no, {"policy": following})
    check(buffer)


def test_images_that_are_no_stacks_are_kept_too():
    """Colour channels are not consecutive frames."""

    class Colours(Diary):
        def first(self) -> Tensor:
            return torch.stack([self.frame() for _ in range(3)])

        def second(self, observation: Tensor) -> Tensor:
            return self.first()

    buffer = Twice(60, 2, gamma=0.99)
    Colours(buffer, 0, ends=0.05, stack=3).live(100)
    assert len(buffer) >= 56
    check(buffer)


def test_a_frame_costs_an_eighth_of_two_stacks():
    """One frame instead of an observation and the next one, of four frames each."""
    n, slots = 2, 500
    stacks = torch.randint(256, (n, 5, 84, 84), dtype=torch.uint8)
    before, after = stacks[:, :-1], stacks[:, 1:]
    lazy, whole = make_column(before, after, slots), Whole(before, slots * n)
    assert isinstance(lazy, Frames)
    assert whole.nbytes == 2 * n * slots * 4 * 84 * 84
    assert 0.125 < lazy.nbytes / whole.nbytes < 0.145
    assert make_column(before[:, :1], after[:, :1], slots).nbytes / (whole.nbytes / 4) == pytest.approx(0.5, rel=0.1)


def test_numbers_and_vectors_are_kept_whole():
    assert isinstance(make_column(torch.zeros(2, 3), torch.zeros(2, 3), 10), Whole)
    assert isinstance(make_column(torch.zeros(2, dtype=torch.int64), torch.zeros(2), 10), Whole)
