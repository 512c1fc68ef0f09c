"""Numbers about what was sampled."""

import math

import torch
from gaitway_agents.language.samples import Samples, statistics_of


def test_parts_without_an_opinion_are_left_out_of_means():
    nan = math.nan
    samples = Samples(
        tokens=torch.ones(4, 3, dtype=torch.long),
        lengths=torch.full((4,), 3),
        mask=torch.tensor([[0.0, 1.0, 1.0]] * 4),
        log_probs=torch.zeros(4, 3),
        groups=torch.tensor([0, 0, 1, 1]),
        finished=torch.tensor([True, True, True, False]),
        rewards=torch.tensor([1.0, 1.0, 0.0, 2.0]),
        turn_rewards=torch.zeros(4, 3),
        staleness=torch.tensor([[9, 1, 0], [9, 2, 2], [9, 0, 0], [9, 0, 0]]),
        parts={"some": torch.tensor([1.0, nan, 2.0, nan]), "none": torch.full((4,), nan)},
    )
    found = statistics_of(samples)
    assert found["rollout/reward/some"] == 1.5 and "rollout/reward/none" not in found
    assert found["rollout/reward"] == 1.0 and found["rollout/length"] == 2.0
    assert found["rollout/staleness"] == 2.0 and found["rollout/staleness_mean"] == 5 / 8
    assert found["rollout/mixed_versions"] == 0.25
    assert found["rollout/finished"] == 0.75 and found["learn/used_groups"] == 0.5
    assert all(math.isfinite(value) for value in found.values())
