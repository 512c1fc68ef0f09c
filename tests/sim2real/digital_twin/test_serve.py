import pytest
from gaitway_onboard.wire.bus import Topic
from gaitway_onboard.wire.declarations import GO_LOW_STATE
from gaitway_onboard.wire.memory import MemoryBus
from gaitway_sim2real.digital_twin.serve import BEHIND, serve
from gaitway_sim2real.digital_twin.twin import open_twin


class WallClock:
    """A bus whose time passes by itself: a sleep ends when it should, but for the stalls it is told of."""

    def __init__(self, stalls=()):
        self.bus, self.now, self.stalls = MemoryBus(), 5.0, list(stalls)

    def __getattr__(self, name):
        return getattr(self.bus, name)

    def clock(self):
        return self.now

    def sleep_until(self, deadline):
        self.now = max(self.now, deadline)
        if self.stalls and self.now >= self.stalls[0][0]:
            self.now += self.stalls.pop(0)[1]


def served(stalls=(), **settings):
    bus = WallClock(stalls)
    twin = open_twin("unitree-go2", bus, hung=True)
    bus.now += 3.0  # it took a while to get ready
    states = bus.bus.subscriber(Topic("rt/lowstate", GO_LOW_STATE.name, depth=10_000))
    report = serve(twin, bus, **settings)
    return twin, report, len(states.take_all())


def test_a_state_for_every_period_of_the_wall_clock():
    twin, report, states = served(seconds=0.5)
    assert states == pytest.approx(250, abs=1) and twin.time == pytest.approx(8.5, abs=0.002)
    assert report.skipped == 0.0 and report.worst < 1e-6 and report.seconds == pytest.approx(0.5, abs=0.002)


def test_a_short_stall_is_caught_up_and_told():
    _, report, states = served([(8.1, 0.5 * BEHIND)], seconds=0.5)
    assert states == pytest.approx(250, abs=1)
    assert report.skipped == 0.0 and report.worst == pytest.approx(0.5 * BEHIND, abs=1e-6)


def test_a_long_stall_is_skipped_and_told():
    twin, report, states = served([(8.1, 0.3)], seconds=0.5)
    assert states == pytest.approx(100, abs=2), "no burst of old states"
    assert report.skipped == pytest.approx(0.3, abs=0.003) and twin.time == pytest.approx(8.5, abs=0.003)


def test_it_ends_when_it_is_asked_to():
    looks = iter(range(100))
    _, report, _ = served(stopped=lambda: next(looks) >= 10)
    assert report.seconds == pytest.approx(0.02, abs=0.003)
