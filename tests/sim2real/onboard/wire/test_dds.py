"""The DDS bus, on loopback: between buses of one process, and between processes."""

import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from gaitway_onboard.interface import DeployError
from gaitway_onboard.wire.bus import BusError, Topic
from gaitway_onboard.wire.crc import check, seal
from gaitway_onboard.wire.dds import DdsBus, configuration
from gaitway_onboard.wire.declarations import GO_LOW_CMD, GO_LOW_STATE, REQUEST
from gaitway_onboard.wire.idl import decode, encode
from gaitway_onboard.wire.layouts import layout_of
from gaitway_onboard.wire.messages import TYPES

COMMAND = Topic("rt/lowcmd", GO_LOW_CMD.name)
ECHO = Topic("rt/echo", GO_LOW_CMD.name, depth=50)
REQUESTS = Topic("rt/api/motion_switcher/request", REQUEST.name, depth=10)
PATIENCE = 20.0
"""A test that waits this long [s] has failed, however busy the computer is."""


@pytest.fixture
def buses(dds_domain):
    """Makes buses of this test's domain, and closes them."""
    made = []

    def make():
        made.append(DdsBus("lo", dds_domain))
        return made[-1]

    yield make
    for bus in made:
        bus.close()


def eventually(condition):
    """Result of ``condition`` as soon as it is true."""
    deadline = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)
    return found


def introduced(publisher, payload, subscriber):
    """Send until the other side hears it: discovery takes a moment. Returns what came first."""

    def exchange():
        publisher.send(payload)
        return subscriber.take()

    return eventually(exchange)


def command(number=0):
    message = layout_of(GO_LOW_CMD).new()
    message["sn"] = (number, 0)
    message["motor_cmd.q"] = np.linspace(-1, 1, 20) * number
    seal(message)
    return message


def test_payloads_arrive_as_they_were_sent(buses):
    publisher, subscriber = buses().publisher(COMMAND), buses().subscriber(COMMAND)
    sent = command(3)
    before = time.monotonic()
    came, payload = introduced(publisher, sent.payload, subscriber)
    assert payload == bytes(sent.payload)
    assert before <= came <= time.monotonic()
    assert check(layout_of(GO_LOW_CMD).read(payload))


def test_the_newest_message_or_all_of_them(buses):
    sender, receiver = buses(), buses()
    publisher = sender.publisher(ECHO)
    newest, every = receiver.subscriber(COMMAND), receiver.subscriber(ECHO)
    other = sender.publisher(COMMAND)
    introduced(publisher, command().payload, every)
    introduced(other, command().payload, newest)
    every.take_all()
    newest.take_all()
    for number in range(1, 11):
        publisher.send(command(number).payload)
        other.send(command(number).payload)
    layout = layout_of(GO_LOW_CMD)
    got: list[int] = []

    def all_came():
        got.extend(int(layout.read(payload)["sn"][0]) for _, payload in every.take_all())
        return 10 in got

    eventually(all_came)
    assert got == list(range(1, 11))
    last = eventually(newest.take)
    assert layout.read(last[1])["sn"][0] == 10
    assert newest.take() is None and newest.take_all() == []


def test_messages_of_any_length_travel(buses):
    publisher, subscriber = buses().publisher(REQUESTS), buses().subscriber(REQUESTS)
    request = {"header": {"identity": {"id": 5, "api_id": 1001}}, "parameter": '{"name":"normal"}', "binary": b"\1\2\3"}
    _, payload = introduced(publisher, encode(REQUEST, request), subscriber)
    found = decode(REQUEST, payload)
    assert found["header"]["identity"]["api_id"] == 1001
    assert (found["parameter"], found["binary"]) == (request["parameter"], request["binary"])


def test_best_effort_readers_hear_reliable_writers_and_not_the_reverse(buses):
    bus, other = buses(), buses()
    careless = Topic(COMMAND.name, COMMAND.type, reliable=False)
    introduced(bus.publisher(COMMAND), command().payload, other.subscriber(careless))
    silent = Topic("rt/careless", COMMAND.type, reliable=False)
    careful, witness = other.subscriber(Topic(silent.name, silent.type)), other.subscriber(silent)
    introduced(bus.publisher(silent), command().payload, witness)
    assert careful.take() is None


def test_other_writers_are_told_by_process(buses):
    mine, other = buses(), buses()
    mine.publisher(COMMAND)
    publisher = other.publisher(COMMAND)
    other.publisher(ECHO)
    found = eventually(lambda: mine.other_writers(COMMAND))
    assert len(found) == 1 and "pid" in found[0]
    mine.ignore(other.guid)
    assert mine.other_writers(COMMAND) == ()
    assert len(eventually(lambda: other.other_writers(COMMAND))) == 1
    other.close()
    eventually(lambda: not mine.other_writers(ECHO))
    with pytest.raises(DeployError, match="closed"):
        publisher.send(command().payload)


def test_a_writer_of_another_type_is_seen_too(buses):
    mine, other = buses(), buses()
    mine.publisher(COMMAND)
    other.publisher(Topic(COMMAND.name, GO_LOW_STATE.name))
    assert len(eventually(lambda: mine.other_writers(COMMAND))) == 1
    assert mine.other_types(COMMAND) == (GO_LOW_STATE.name,)
    theirs = Topic(COMMAND.name, GO_LOW_STATE.name)
    assert eventually(lambda: other.other_types(theirs)) == (GO_LOW_CMD.name,)
    assert mine.other_types(theirs) == ()


@pytest.mark.parametrize("payload", [b"", b"\0\1\0\0", bytes(400)])
def test_what_is_too_short_for_its_type_is_not_sent(buses, payload):
    publisher = buses().publisher(COMMAND)
    with pytest.raises(BusError, match=r"rt/lowcmd: .* bytes of unitree_go::msg::dds_::LowCmd_"):
        publisher.send(payload)


def test_times_of_the_sender(buses, dds_domain):
    sender, late = buses(), DdsBus("lo", dds_domain, sender_times=True)
    publisher, subscriber = sender.publisher(COMMAND), late.subscriber(COMMAND)
    introduced(publisher, command().payload, subscriber)
    before = late.clock()
    publisher.send(command(1).payload)
    after = late.clock()
    late.sleep_until(after + 0.05)
    came, _ = eventually(subscriber.take)
    assert before - 0.005 <= came <= after + 0.005  # wall clock and monotonic clock are not read at once
    late.close()


def test_another_process_echoes_every_frame(buses, dds_domain):
    bus = buses()
    publisher, echoes = bus.publisher(Topic(COMMAND.name, COMMAND.type, depth=50)), bus.subscriber(ECHO)
    script = Path(__file__).with_name("echo.py")
    with subprocess.Popen(
        [sys.executable, str(script), str(dds_domain)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as peer:
        guid = peer.stdout.readline().strip()
        introduced(publisher, command().payload, echoes)
        assert str(peer.pid) in eventually(lambda: bus.other_writers(ECHO))[0]
        bus.ignore(guid)
        assert bus.other_writers(ECHO) == ()
        layout, frames, got = layout_of(GO_LOW_CMD), 40, set()
        for number in range(1, frames + 1):
            publisher.send(command(number).payload)

        def all_came():
            for _, payload in echoes.take_all():
                assert check(layout.read(payload))
                got.add(int(layout.read(payload)["sn"][0]))
            return frames in got

        eventually(all_came)
        assert got >= set(range(1, frames + 1))
        peer.stdin.close()
        assert peer.wait(PATIENCE) == 0
    eventually(lambda: not bus.other_writers(ECHO))


def test_buses_in_threads_of_one_process(buses):
    sender, receiver = buses(), buses()
    publisher, subscriber = sender.publisher(ECHO), receiver.subscriber(ECHO)
    introduced(publisher, command().payload, subscriber)
    stop = threading.Event()

    def send():
        number = 0
        while not stop.is_set():
            number += 1
            publisher.send(command(number).payload)
            stop.wait(0.001)

    thread = threading.Thread(target=send)
    thread.start()
    layout, numbers = layout_of(GO_LOW_CMD), []

    def enough_came():
        numbers.extend(int(layout.read(payload)["sn"][0]) for _, payload in subscriber.take_all())
        return len(numbers) > 100

    try:
        eventually(enough_came)
    finally:
        stop.set()
        thread.join()
    assert numbers == sorted(numbers)


def test_sleeping_never_ends_early(buses):
    bus = buses()
    deadline = bus.clock() + 0.01
    bus.sleep_until(deadline)
    assert bus.clock() >= deadline
    bus.sleep_until(bus.clock() - 5)


def test_a_closed_bus_says_so(buses):
    bus = buses()
    subscriber = bus.subscriber(COMMAND)
    bus.close()
    bus.close()
    for use in (lambda: bus.publisher(COMMAND), subscriber.take, lambda: bus.other_writers(COMMAND)):
        with pytest.raises(DeployError, match="closed"):
            use()
    assert buses().clock() > 0  # the domain can be opened again


@pytest.mark.parametrize(
    "interface, domain, reason",
    [
        ("eth-nonsense", 0, "no network interface 'eth-nonsense': this computer has lo"),
        ("lo", 233, "domain 233: domains are 0 to 232"),
        ("lo", -1, "domain -1"),
    ],
)
def test_what_cannot_be_a_bus_is_refused(interface, domain, reason):
    with pytest.raises(DeployError, match=reason):
        DdsBus(interface, domain)


def test_one_process_has_one_interface_per_domain(buses, dds_domain, monkeypatch):
    buses()
    monkeypatch.setattr("socket.if_nameindex", lambda: [(1, "lo"), (2, "eth9")])
    with pytest.raises(DeployError, match=f"domain {dds_domain} on lo, so not on eth9"):
        DdsBus("eth9", dds_domain)


def test_a_topic_has_one_known_type(buses):
    bus = buses()
    bus.publisher(COMMAND)
    with pytest.raises(DeployError, match="carries unitree_go::msg::dds_::LowCmd_"):
        bus.subscriber(Topic(COMMAND.name, GO_LOW_STATE.name))
    with pytest.raises(DeployError, match="unknown message type nonsense"):
        bus.subscriber(Topic("rt/nonsense", "nonsense"))


def test_interfaces_with_multicast_need_no_peers():
    assert "Peer" in configuration("lo") and "Peer" not in configuration("eth0")
    assert 'name="eth0"' in configuration("eth0")


TYPE_IDS = {
    "unitree_go::msg::dds_::LowCmd_": "52cc8eb0d427d692aa2b20a90540",
    "unitree_go::msg::dds_::LowState_": "08f239c471d3a27e67e7c7723184",
    "unitree_go::msg::dds_::SportModeState_": "e59749630fff75cc170afb238783",
    "unitree_go::msg::dds_::WirelessController_": "e9686fe76f7b08f92cb24943ac72",
    "unitree_hg::msg::dds_::LowCmd_": "42b0283aa7e1bb592ec898a0dbed",
    "unitree_hg::msg::dds_::LowState_": "2be9706c9587e8d8afd8bfc6de7b",
    "unitree_hg::msg::dds_::IMUState_": "7d4166754177d86fa27cd25b0403",
    "unitree_hg::msg::dds_::BmsState_": "0cdba6862498f554ba927ba18de0",
    "unitree_api::msg::dds_::Request_": "c47a4429fcbf539486498753c48f",
    "unitree_api::msg::dds_::Response_": "d1c32cc02214901a464a6c51325d",
}


@pytest.mark.parametrize("name", TYPE_IDS)
def test_types_are_announced_as_unitree_announces_them(name):
    """Their own Python types on Cyclone 0.10.5 have these ids. A peer that is told another one may crash."""
    identifier = TYPES[name].__idl__.get_type_info().complete.typeid_with_size.type_id
    assert identifier.value.hex() == TYPE_IDS[name]
