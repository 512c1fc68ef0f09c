import numpy as np
import pytest
from gaitway_sim2real.digital_twin.link import Link


def run(seed=0, latency=0.0, jitter=0.0, loss=0.0, count=2000, period=0.002):
    """Arrival times by number of message."""
    link = Link(latency, jitter, loss, np.random.SeedSequence(seed))
    arrived = {}
    for step in range(count + 50):
        now = step * period
        if step < count:
            link.send(now, step)
        for due, number in link.arrivals(now):
            arrived[number] = due
    return arrived, link


def test_a_perfect_link_delivers_at_once():
    arrived, link = run()
    assert arrived == {step: pytest.approx(step * 0.002) for step in range(2000)} and link.lost == 0


def test_latency_jitter_and_order():
    arrived, _ = run(latency=0.010, jitter=0.005)
    late = np.array([due - 0.002 * number for number, due in arrived.items()])
    assert list(arrived) == sorted(arrived) and len(arrived) == 2000
    assert late.min() >= 0.010 and late.max() <= 0.015 + 1e-9
    assert late.std() > 0.0005


def test_losses_are_counted_and_of_the_asked_share():
    arrived, link = run(loss=0.1)
    assert len(arrived) + link.lost == 2000
    assert 0.07 < link.lost / 2000 < 0.13


def test_the_same_seed_is_the_same_link():
    first, again, other = (run(seed, jitter=0.005, loss=0.05)[0] for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_jitter_does_not_change_which_messages_are_lost():
    assert run(loss=0.05)[0].keys() == run(loss=0.05, jitter=0.01)[0].keys()
