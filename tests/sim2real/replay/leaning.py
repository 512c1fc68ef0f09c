"""A Go2 whose policy reads joints, command and memory in a way that can be computed by hand, and flights of it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from gaitway_onboard.bundle.contract import Contract, sha256
from gaitway_onboard.bundle.policy import OnboardPolicy
from gaitway_onboard.control.controller import ControllerConfig
from gaitway_onboard.control.loop import Period, run_loop
from gaitway_onboard.flight.opening import open_flight
from gaitway_onboard.transports.open import Connection
from gaitway_onboard.transports.unitree import UnitreeRobot
from gaitway_onboard.wire.memory import MemoryBus
from gaitway_sim2real.bundle.golden import plausible_signals, record_golden
from gaitway_sim2real.digital_twin.quirks import Quirks
from gaitway_sim2real.digital_twin.twin import Twin
from gaitway_tasks.robots import GO2
from gaitway_tasks.robots.parameters import RobotParameters
from onnx import helper, numpy_helper
from stand_bundle import make_stand_bundle

FAST = ControllerConfig(ramp=0.5, hold=0.2, fade=0.1, settle=0.2, lower=0.3, damp=0.1)


def lean_bundle(folder: Path, feedback: float = -0.2) -> Path:
    """``target = pose + feedback (q - pose) + 0.1 sum(command) + 1e-4 memory``; the memory counts steps."""
    make_stand_bundle(folder, GO2, stiffness=60.0, damping=2.0, speed=0.5)
    model = onnx.load(folder / "policy.onnx")
    graph = model.graph
    numbers = {"feedback": [[feedback]], "tenth": [[0.1]], "little": [[1e-4]], "one": [[1.0]]}
    graph.initializer.extend(numpy_helper.from_array(np.array(v, np.float32), name) for name, v in numbers.items())
    kept = [node for node in graph.node if node.output[0] not in ("joint_pos_target", "next_state")]
    made = [
        helper.make_node("Sub", ["joint_pos", "pose"], ["away"]),
        helper.make_node("Mul", ["away", "feedback"], ["back"]),
        helper.make_node("Mul", ["command_sum", "tenth"], ["shift"]),
        helper.make_node("Mul", ["state", "little"], ["drift"]),
        helper.make_node("Sum", ["nothing", "pose", "back", "shift", "drift"], ["joint_pos_target"]),
        helper.make_node("Add", ["state", "one"], ["next_state"]),
    ]
    action = next(node for node in kept if node.output[0] == "action")
    kept.remove(action)
    del graph.node[:]
    graph.node.extend([*kept, *made, action])
    onnx.checker.check_model(model)
    onnx.save(model, folder / "policy.onnx")
    session = onnxruntime.InferenceSession(str(folder / "policy.onnx"), providers=["CPUExecutionProvider"])
    ranges = np.array([[-0.5, 0.5]] * 3)
    signals = plausible_signals(np.array(GO2.default_joint_pos), ranges, steps=8, batch=1, step_dt=0.02, seed=0)
    np.savez(folder / "golden.npz", allow_pickle=False, **record_golden(session, signals, 1))
    contract = Contract.load(folder)
    files = {name: sha256((folder / name).read_bytes()) for name in contract.files}
    dataclasses.replace(contract, files=files).save(folder)
    return folder


def record(
    out: Path, bundle: Path, seconds: float, *, hung: bool = False, parameters: RobotParameters | None = None
) -> np.ndarray:
    """Fly the twin and push it once. Time and true velocity of the base, base frame [m/s], of each period, (T, 4)."""
    assert GO2.hardware is not None
    bus = MemoryBus()
    quirks = Quirks(parameters=parameters)
    twin = Twin(GO2, bus.join("twin"), hung=hung, standing=True, own_controller=False, quirks=quirks)
    bus.attach(twin.advance)
    robot = UnitreeRobot(GO2.hardware, Connection(bus=bus, own_controller=False))
    policy = OnboardPolicy(bundle, GO2.hardware.joint_names)
    log = open_flight(out, GO2.hardware.joint_names, {"hardware": GO2.hardware.name}, realtime=False, bundle=bundle)
    truth: list[np.ndarray] = []

    def watch(period: Period) -> None:
        if not hung and len(truth) == 600:
            twin.body.push((0.3, 0.1, 0.0))
        truth.append(np.array([period.time, *twin.truth().base_lin_vel]))

    robot.connect()
    robot.take_over()
    report = run_loop(
        robot, policy, lambda t: (0.2, 0.0, -0.1) if t < 0.5 * seconds else (0.0, 0.1, 0.0), seconds,
        config=FAST, hardware=GO2.hardware, flight=log, on_period=watch,
    )  # fmt: skip
    log.close()
    assert report.ok, report.reason
    return np.array(truth)
