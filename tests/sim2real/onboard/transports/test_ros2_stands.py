"""A bundle on a robot under ros2_control: the same controller as on any robot, with MuJoCo behind the topics."""

import pytest
from gaitway_onboard.bundle.policy import OnboardPolicy
from gaitway_onboard.control.controller import ControllerConfig
from gaitway_onboard.control.loop import run_loop
from gaitway_onboard.safety.preflight import check_bundle
from gaitway_onboard.transports.ros2 import Ros2Robot
from gaitway_onboard.wire.memory import MemoryBus
from gaitway_sim2real.digital_twin.twin import Twin
from gaitway_tasks.robots import ANYMAL_C
from stand_bundle import make_stand_bundle

from .ros2_by_hand import anymal

BRISK = ControllerConfig(ramp=0.5, ramp_speed=4.0, hold=0.1, settle=0.2, lower=0.5, damp=0.5)


@pytest.mark.parametrize("interface", ["effort", "position"])
def test_a_bundle_runs_to_its_end_and_is_damped(tmp_path, interface):
    bundle = make_stand_bundle(tmp_path / "bundle")
    config = anymal(interface=interface, stiffness=200.0, damping=10.0, stop_damping=5.0, rate=400.0)
    assert check_bundle(bundle, config.hardware(), i_know=True)
    bus, heights = MemoryBus(), []
    twin = Twin(ANYMAL_C, bus.join("twin"), hardware=config.hardware())
    bus.attach(twin.advance)
    robot = Ros2Robot(config, bus)
    robot.connect()
    robot.take_over()
    policy = OnboardPolicy(bundle, robot.joint_names)
    report = run_loop(
        robot, policy, lambda elapsed: (0.0, 0.0, 0.0), 0.5, config=BRISK,
        on_period=lambda period: heights.append((period.mode.value, twin.truth().base_pos[2])),
    )  # fmt: skip
    assert report.ok and report.policy_periods == 25 and report.clamped == 0
    standing = [height for mode, height in heights if mode == "policy"]
    assert min(standing) > 0.5 and twin.truth().base_pos[2] < 0.2, "it stood up, and was lowered"
    robot.close()
    bus.sleep_until(bus.clock() + 0.5)
    assert abs(twin.truth().joint_vel).max() < 0.5
