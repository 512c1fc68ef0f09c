"""Half an hour of the robot's wire over DDS on the loopback interface: does anything crash, grow, or arrive broken?

    python benchmarks/dds_soak.py [--minutes 30] [--peer PYTHON] [--domain N]

Two processes, as 'gaitway twin' and 'gaitway deploy' use the bus: one sends sealed Go2 states at 500 Hz and checks
every command that comes; the other answers each period with a sealed command and checks every state. Every frame has
other content. Memory is the resident set of each process, after a minute and at the end.

``--peer`` is a Python with cyclonedds 0.10.5, of the generation that robots speak. Then the robot's side is a process
there with that version's own types and objects (tests/peers/dds/cyclone10.py, the G1's messages), which answers
every command with a state that repeats its checksum: so each frame is checked both ways.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import subprocess
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from gaitway_onboard.wire import crc
from gaitway_onboard.wire.bus import Topic
from gaitway_onboard.wire.dds import DdsBus
from gaitway_onboard.wire.declarations import GO_LOW_CMD, GO_LOW_STATE, HG_LOW_CMD, HG_LOW_STATE
from gaitway_onboard.wire.idl import WireError
from gaitway_onboard.wire.layouts import layout_of

PERIOD = 0.002
WARM = 60.0
"""Memory counts as settled after this long [s]."""
ENOUGH = 1.0
"""Growth of memory that is still called none [MiB]."""
PEER = Path(__file__).parents[1] / "tests" / "peers" / "dds" / "cyclone10.py"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--peer", type=Path, metavar="PYTHON", help="a Python with cyclonedds 0.10.5")
    parser.add_argument("--domain", type=int, default=2 + os.getpid() % 98)
    options = parser.parse_args()
    seconds = 60.0 * options.minutes
    print(
        f"{options.minutes:g} min at {1 / PERIOD:.0f} Hz, domain {options.domain}, "
        f"load {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} cores",
        flush=True,
    )
    passed = with_peer(options, seconds) if options.peer else between_ours(options, seconds)
    print(f"load at the end {os.getloadavg()[0]:.1f}: {'PASS' if passed else 'FAIL'}")
    sys.exit(0 if passed else 1)


def between_ours(options: argparse.Namespace, seconds: float) -> bool:
    sides = [Side(options.domain, "robot", seconds), Side(options.domain, "computer", seconds)]
    results = [side.passed() for side in sides]  # of both, also when one has failed
    return all(results)


def with_peer(options: argparse.Namespace, seconds: float) -> bool:
    peer = subprocess.Popen([options.peer, PEER, str(options.domain)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    try:
        return Side(options.domain, "computer of the peer", seconds).passed() and peer.poll() is None
    finally:
        if peer.poll() is not None:
            print(f"peer: CRASHED, exit code {peer.returncode}")
        peer.communicate(timeout=30.0)


class Side:
    """A process that soaks."""

    def __init__(self, domain: int, name: str, seconds: float):
        context = multiprocessing.get_context("spawn")
        self._here, there = context.Pipe()
        self.worker = context.Process(target=soak, args=(there, domain, name, seconds), name=name)
        self.worker.start()
        there.close()

    def passed(self) -> bool:
        try:
            result = self._here.recv()
        except EOFError:
            result = None
        self.worker.join(30.0)
        return report(self.worker, result)


def report(worker: Any, result: dict[str, float] | None) -> bool:
    if result is None or worker.exitcode != 0:
        print(f"{worker.name}: CRASHED, exit code {worker.exitcode}")
        return False
    growth = result["after"] - result["before"]
    print(
        f"{worker.name}: sent {result['sent']:.0f}, received {result['received']:.0f}, broken {result['broken']:.0f}; "
        f"resident {result['before']:.1f} MiB settled, {result['after']:.1f} MiB at the end ({growth:+.2f}); "
        f"{100 * result['cpu']:.1f} % of a core; longest silence {1e3 * result['silence']:.0f} ms",
        flush=True,
    )
    return result["broken"] == 0 and result["received"] > 0 and growth < ENOUGH


def soak(end: Connection, domain: int, side: str, seconds: float) -> None:
    """One side: send at 500 Hz, each frame with other numbers, and check all that comes."""
    command, state = (HG_LOW_CMD, HG_LOW_STATE) if side == "computer of the peer" else (GO_LOW_CMD, GO_LOW_STATE)
    out, come = (state, command) if side == "robot" else (command, state)
    name = {command: "rt/lowcmd", state: "rt/lowstate"}
    bus = DdsBus("lo", domain)
    publisher = bus.publisher(Topic(name[out], out.name))
    subscriber = bus.subscriber(Topic(name[come], come.name, reliable=False, depth=64))
    sent, heard = layout_of(out).new(), layout_of(come).new()
    positions = sent["motor_state.q" if side == "robot" else "motor_cmd.q"]
    checksums = dict.fromkeys(range(2048), -1)  # of the newest commands, by number
    rng = np.random.default_rng(0)
    counts = {"sent": 0.0, "received": 0.0, "broken": 0.0, "silence": 0.0}
    begun = deadline = last = bus.clock()
    before, cpu = 0.0, time.process_time()

    def sound() -> bool:
        if side != "computer of the peer":
            return crc.check(heard)
        return int(heard["crc"]) == checksums[int(heard["tick"]) % len(checksums)]

    while deadline - begun < seconds:
        now = bus.clock()
        for _, payload in subscriber.take_all():
            if counts["received"]:
                counts["silence"] = max(counts["silence"], now - last)
            counts["received"] += 1
            last = now
            try:
                heard.load(payload)
            except WireError:
                counts["broken"] += 1
                continue
            counts["broken"] += not sound()
        number = int(counts["sent"])
        positions[:] = rng.standard_normal(len(positions))
        sent["reserve"][...] = number
        crc.seal(sent)
        checksums[number % len(checksums)] = int(sent["crc"])
        publisher.send(sent.payload)
        counts["sent"] += 1
        if not before and now - begun > min(WARM, 0.2 * seconds):
            before = resident()
        deadline = max(deadline + PERIOD, bus.clock() - 0.1)  # late: catch up, but not with a burst of seconds
        bus.sleep_until(deadline)
    share = (time.process_time() - cpu) / (bus.clock() - begun)
    end.send({**counts, "before": before, "after": resident(), "cpu": share})
    bus.close()


def resident() -> float:
    """Memory of this process that is in use [MiB]."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


if __name__ == "__main__":
    main()
