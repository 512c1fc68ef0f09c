"""The bus inside one process: simulated time, perfect delivery, and the same behaviour as on DDS otherwise."""

from gaitway_onboard.wire.bus import Topic
from gaitway_onboard.wire.memory import MemoryBus

ONE, MANY = Topic("rt/one", "a"), Topic("rt/many", "a", depth=3)


def test_time_passes_only_while_somebody_sleeps():
    bus, seen = MemoryBus(), []
    robot = bus.join("robot")

    def advance(deadline):
        while robot.time < deadline:
            robot.time = min(deadline, robot.time + 0.25)
            seen.append(robot.clock())

    bus.attach(advance)
    assert bus.clock() == 0.0
    bus.sleep_until(1.0)
    assert seen == [0.25, 0.5, 0.75, 1.0] and bus.clock() == robot.clock() == 1.0
    bus.sleep_until(0.5)
    assert bus.clock() == 1.0, "time does not run backwards"


def test_messages_are_copies_and_carry_the_time_of_sending():
    bus = MemoryBus()
    publisher, newest, every = bus.publisher(ONE), bus.subscriber(ONE), bus.subscriber(Topic("rt/one", "a", depth=3))
    payload = bytearray(b"0")
    for number in range(5):
        payload[:] = b"%d" % number
        publisher.send(payload)
        bus.sleep_until(bus.clock() + 1.0)
    assert newest.take() == (4.0, b"4") and newest.take() is None
    assert every.take_all() == [(2.0, b"2"), (3.0, b"3"), (4.0, b"4")] and every.take_all() == []


def test_writers_are_those_of_other_participants():
    bus = MemoryBus()
    robot = bus.join("robot")
    bus.publisher(ONE)
    robot.publisher(Topic("rt/one", "b"))
    assert bus.other_writers(ONE) == ("robot",) and robot.other_writers(ONE) == ("computer",)
    assert bus.other_types(ONE) == ("b",) and bus.other_types(Topic("rt/one", "b")) == ()
    assert bus.other_writers(MANY) == ()
    robot.close()
    assert bus.other_writers(ONE) == ()
