"""Frames to and from a peer on Cyclone DDS 0.10.5, and what happens to it when octets are declared the other way."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from gaitway_onboard.wire.bus import Topic
from gaitway_onboard.wire.crc import seal
from gaitway_onboard.wire.dds import DdsBus
from gaitway_onboard.wire.declarations import HG_LOW_CMD, HG_LOW_STATE
from gaitway_onboard.wire.layouts import layout_of
from gaitway_onboard.wire.messages import TYPES

HERE = Path(__file__).parent
PYTHON = HERE.parents[2] / ".venv-cyclone10" / "bin" / "python"
COMMAND = Topic("rt/lowcmd", HG_LOW_CMD.name)
STATE = Topic("rt/lowstate", HG_LOW_STATE.name, reliable=False, depth=50)
PATIENCE = 30.0


@contextmanager
def running_peer(domain: int) -> Iterator[tuple[subprocess.Popen, list[str]]]:
    peer = subprocess.Popen(
        [str(PYTHON), str(HERE / "cyclone10.py"), str(domain)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield peer, [peer.stdout.readline().strip() for _ in range(2)]
    finally:
        peer.stdin.close()
        peer.wait(PATIENCE)
        peer.stdout.close()


def test_both_directions_flow_and_nobody_crashes(dds_domain):
    with running_peer(dds_domain) as (peer, type_ids):
        bus = DdsBus("lo", dds_domain)
        commands, states = bus.publisher(COMMAND), bus.subscriber(STATE)
        command, state = layout_of(HG_LOW_CMD).new(), layout_of(HG_LOW_STATE).new()
        number, answered, deadline = 0, set(), time.monotonic() + PATIENCE
        while len(answered) < 200:
            assert time.monotonic() < deadline and peer.poll() is None
            number += 1
            command["reserve"] = (number, 0, 0, 0)
            command["motor_cmd.q"] = np.arange(35) + number
            command["motor_cmd.mode"] = 1
            seal(command)
            commands.send(command.payload)
            for _, payload in states.take_all():
                state.load(payload)
                told = int(state["tick"])
                np.testing.assert_array_equal(state["motor_state.q"], np.arange(35, dtype=np.float32) + told)
                assert (state["motor_state.mode"] == 1).all() and (state["wireless_remote"] == dds_domain).all()
                assert int(state["mode_machine"]) == 5
                answered.add(told)
            time.sleep(0.002)
        assert f"pid {peer.pid}" in bus.other_writers(Topic("rt/lowstate", HG_LOW_STATE.name))[0]
        bus.close()
        peer.stdin.close()
        assert peer.wait(PATIENCE) == 0
    ours = [TYPES[kind.name].__idl__.get_type_info().minimal.typeid_with_size.type_id.value.hex()
            for kind in (HG_LOW_CMD, HG_LOW_STATE)]  # fmt: skip
    assert type_ids == ours


def test_octets_as_uint8_kill_the_peer(dds_domain):
    """Reason why :mod:`gaitway_onboard.wire.messages` declares them as ``byte``."""
    with running_peer(dds_domain) as (peer, _):
        subprocess.run([sys.executable, str(HERE / "uint8_writer.py"), str(dds_domain)], timeout=PATIENCE, check=True)
        assert peer.wait(PATIENCE) == -11
