"""Switching the robot's own controller off, with a service that works, is absent, slow, stubborn or talks nonsense."""

from __future__ import annotations

import json

import pytest
from gaitway_onboard.interface import DeployError
from gaitway_onboard.transports.motion_switcher import SERVICE, Service
from gaitway_onboard.transports.open import Connection
from gaitway_onboard.transports.unitree import UnitreeRobot
from gaitway_onboard.wire.bus import Topic
from gaitway_onboard.wire.declarations import RESPONSE
from gaitway_onboard.wire.idl import encode
from gaitway_onboard.wire.memory import MemoryBus
from gaitway_sim2real.hardware import HARDWARE

from .robots_by_hand import HandRobot


def meet(name: str = "unitree-go2") -> tuple[UnitreeRobot, HandRobot, list[str]]:
    bus, said = MemoryBus(), []
    robot = UnitreeRobot(HARDWARE[name], Connection(bus=bus, say=said.append))
    hand = HandRobot(HARDWARE[name], bus)
    robot.connect()
    return robot, hand, said


def refusal(robot: UnitreeRobot, hand: HandRobot, within: float) -> str:
    started = robot.clock()
    with pytest.raises(DeployError) as refused:
        robot.take_over()
    assert robot.clock() - started <= within and hand.commands() == []
    return str(refused.value)


def done(hand: HandRobot) -> list[tuple[str, int]]:
    return [(service, function) for _, service, function in hand.calls]


def test_a_standing_go2_is_laid_down_and_then_released():
    robot, hand, said = meet()
    hand.controller("normal")
    hand.serve("sport", lambda function: (0, ""))
    robot.take_over()
    assert done(hand) == [(SERVICE, 1001), ("sport", 1005), (SERVICE, 1003), (SERVICE, 1001)]
    down, released = (next(time for time, *call in hand.calls if call == list(x)) for x in (("sport", 1005),
                                                                                        (SERVICE, 1003)))  # fmt: skip
    assert released - down >= 3.0  # it has time to lie down
    assert said == [
        "laying the robot down (its controller 'normal' is active)",
        "switching off the robot's controller 'normal'",
    ]
    assert len(hand.commands()) == 1  # damping, at once


def test_a_humanoid_is_released_as_it_hangs():
    robot, hand, said = meet("unitree-g1")
    hand.controller("ai")
    robot.take_over()
    assert done(hand) == [(SERVICE, 1001), (SERVICE, 1003), (SERVICE, 1001)] and len(said) == 1


def test_nothing_is_active():
    robot, hand, said = meet()
    hand.controller("")
    robot.take_over()
    assert done(hand) == [(SERVICE, 1001)] and said == []


def test_a_simulator_without_a_controller_is_not_asked():
    bus = MemoryBus()
    robot = UnitreeRobot(HARDWARE["unitree-go2"], Connection(bus=bus, own_controller=False))
    hand = HandRobot(HARDWARE["unitree-go2"], bus)
    robot.connect()
    robot.take_over()
    assert hand.calls == [] and len(hand.commands()) == 1


def test_the_service_is_absent():
    robot, hand, _ = meet()
    text = refusal(robot, hand, within=3.0)
    assert "motion_switcher is not on this network, and every such robot has one, so its own controller may be" in text
    assert "restart the robot" in text


def test_the_service_is_there_and_silent():
    robot, hand, _ = meet()
    hand.serve(SERVICE, lambda function: None)
    assert "is on the network and does not answer" in refusal(robot, hand, within=26.0)


def test_the_service_is_slow():
    robot, hand, _ = meet()
    hand.controller("normal")
    hand.serve("sport", lambda function: (0, ""))
    prompt, late = hand._respond, []

    def slow(service, responses, identity):
        late.append((robot.clock() + 2.0, service, responses, identity))

    def answer_late(deadline):
        while late and late[0][0] <= robot.clock():
            prompt(*late.pop(0)[1:])

    hand._respond = slow
    robot.bus.attach(answer_late)
    robot.take_over()
    assert len(hand.commands()) == 1


@pytest.mark.parametrize(
    "data", ["", "null", "{}", "[]", '"normal"', "3", '{"name": null}', '{"name": 7}', '{"name": "no', "\x00<nonsense>"]
)
def test_nonsense_is_no_permission(data):
    robot, hand, _ = meet()
    hand.serve(SERVICE, lambda function: (0, data))
    assert f"answers the question for the active controller with {data!r}, which has no name" in refusal(
        robot, hand, within=1.0
    )


@pytest.mark.hostile("deployment")
@pytest.mark.parametrize(
    "data",
    [100_000 * "[", 10_000 * '{"name":', '{"name": "' + 5000 * "x" + '"}', '{"name": ' + 5000 * "9" + "}", 10**6 * " "],
    ids=["deep list", "deep object", "long name", "long number", "blanks"],
)
def test_an_answer_without_end_is_no_permission(data):
    robot, hand, _ = meet()
    hand.serve(SERVICE, lambda function: (0, data))
    text = refusal(robot, hand, within=1.0)
    assert "which has no name in it: restart the robot" in text and len(text) < 400


@pytest.mark.hostile("deployment")
@pytest.mark.parametrize("code", [3203, -1, -(2**31), 2**31 - 1])
def test_any_code_but_zero_is_an_error(code):
    robot, hand, _ = meet()
    hand.serve(SERVICE, lambda function: (code, json.dumps({"name": ""})))
    assert f"with error {code}" in refusal(robot, hand, within=1.0)


@pytest.mark.hostile("deployment")
def test_a_flood_of_answers_to_nobody_ends_in_a_refusal():
    robot, hand, _ = meet()
    noise = hand.bus.publisher(Topic(f"rt/api/{SERVICE}/response", RESPONSE.name))
    answer = encode(RESPONSE, {"header": {"identity": {"id": 5, "api_id": 1001}}, "data": '{"name": ""}'})
    hand.serve(SERVICE, lambda function: None)
    hand.tamper = lambda state: [noise.send(answer) for _ in range(4)]
    assert "motion_switcher" in refusal(robot, hand, within=26.0)


@pytest.mark.hostile("deployment")
def test_two_that_answer_are_asked_nothing():
    robot, hand, _ = meet()
    hand.controller("normal")
    robot.bus.join("someone").publisher(Topic(f"rt/api/{SERVICE}/response", RESPONSE.name))
    text = refusal(robot, hand, within=1.0)
    assert "robot, id robot and someone, id someone answer for motion_switcher" in text and done(hand) == []


def test_a_release_that_is_refused():
    robot, hand, _ = meet("unitree-g1")
    hand.serve(SERVICE, lambda function: (0, '{"name": "ai"}') if function == 1001 else (3201, ""))
    assert "refuses to release 'ai': error 3201" in refusal(robot, hand, within=1.0)


def test_a_controller_that_stays():
    robot, hand, _ = meet("unitree-g1")
    hand.controller("ai", releases=False)
    assert "'ai' is still active after 20 s of asking motion_switcher to release it" in refusal(
        robot, hand, within=21.0
    )


@pytest.mark.parametrize(("answer", "text"), [(None, "does not answer"), ((7004, ""), "answers with error 7004")])
def test_a_robot_that_will_not_lie_down_is_not_released(answer, text):
    robot, hand, _ = meet()
    hand.controller("normal")
    hand.serve("sport", lambda function: answer)
    assert f"asked to lay it down, {text}" in refusal(robot, hand, within=7.0)
    assert (SERVICE, 1003) not in done(hand)


def test_answers_to_others_and_garbage_are_passed_over():
    robot, hand, _ = meet()
    noise = hand.bus.publisher(Topic(f"rt/api/{SERVICE}/response", RESPONSE.name))
    hand.controller("")
    hand.tamper = lambda state: (
        noise.send(b"\0\1\0\0garbage"),
        noise.send(encode(RESPONSE, {"header": {"identity": {"id": 5, "api_id": 1001}}, "data": '{"name": "ai"}'})),
    )
    robot.take_over()
    assert done(hand) == [(SERVICE, 1001)]


def test_a_call_that_was_lost_is_made_again():
    robot, hand, _ = meet()
    heard: list[int] = []
    hand.serve(SERVICE, lambda function: heard.append(function) or ((0, "{}") if len(heard) > 1 else None))
    assert Service(robot.bus, SERVICE).call(1001).code == 0
    assert heard == [1001, 1001]


@pytest.mark.hostile("deployment")
@pytest.mark.parametrize("answer", ["", "nonsense", '{"name": 7}', "[" * 5000, '{"name": "normal"}', None])
def test_a_controller_that_is_switched_on_again_is_seen_while_driving(answer: str | None):
    robot, hand, _ = meet()
    hand.controller("normal")
    hand.serve("sport", lambda function: (0, ""))
    robot.take_over()
    assert robot.read().health.taken_by == ""
    hand.answers[SERVICE] = lambda function: None if answer is None else (0, answer)
    seen, calls = set(), len(hand.calls)
    for _ in range(250):
        robot.sleep_until(robot.clock() + 0.002)
        seen.add(robot.read().health.taken_by)
    assert seen - {""} == ({"normal"} if answer and "normal" in answer else set())
    assert 4 <= len(hand.calls) - calls <= 6, "it is asked ten times a second"
