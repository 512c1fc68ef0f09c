import json

import numpy as np
import pytest
from gaitway_onboard.interface import DeployError
from gaitway_onboard.transports.motion_switcher import CHECK_MODE, RELEASE_MODE, SELECT_MODE, SERVICE, Service
from gaitway_onboard.transports.open import Connection
from gaitway_onboard.transports.unitree import UnitreeRobot
from gaitway_onboard.transports.unitree_frames import CommandFrame
from gaitway_onboard.wire.bus import Topic
from gaitway_onboard.wire.declarations import SPORT_MODE_STATE, WIRELESS_CONTROLLER
from gaitway_onboard.wire.layouts import layout_of
from gaitway_onboard.wire.memory import MemoryBus
from gaitway_sim2real.digital_twin.quirks import QuirkError, Quirks
from gaitway_sim2real.digital_twin.twin import Twin, TwinError, open_twin
from gaitway_tasks.robots import ANYMAL_C, GO2, H1
from gaitway_tasks.robots.parameters import RobotParameters

PERIOD = 0.002


def pair(name="unitree-go2", *, own_controller=False, connect=True, **settings):
    """A twin and a transport that drives it, on one bus."""
    bus = MemoryBus()
    twin = open_twin(name, bus.join("twin"), own_controller=own_controller, **settings)
    bus.attach(twin.advance)
    robot = UnitreeRobot(twin.hardware, Connection(bus=bus, own_controller=own_controller))
    if connect:
        robot.connect()
        robot.take_over()
    return twin, robot


def run(robot, seconds, targets=None, kp=60.0, kd=3.0):
    """Drive towards ``targets`` for a while, or damp; the readings, one row for each period."""
    rows = []
    count = len(robot.joint_names)
    for _ in range(round(seconds / PERIOD)):
        signals = robot.read()
        rows.append((signals.stamp, signals.joint_pos))
        if targets is None:
            robot.damp()
        else:
            robot.write(targets, np.full(count, kp), np.full(count, kd))
        robot.sleep_until(robot.clock() + PERIOD)
    return rows


@pytest.mark.parametrize("name", ["unitree-go2", "unitree-h1", "unitree-g1", "unitree-g1-23dof"])
def test_what_the_robot_reads_is_what_the_body_does(name):
    twin, robot = pair(name, hung=True)
    wave = twin.body.default_pos + 0.1 * np.sin(np.arange(len(twin.joint_names)))
    run(robot, 0.3, wave, kp=30.0, kd=1.0)
    signals, truth = robot.read(), twin.truth()
    assert robot.joint_names == twin.joint_names
    np.testing.assert_allclose(signals.joint_pos, truth.joint_pos, atol=1e-6)
    np.testing.assert_allclose(signals.joint_vel, truth.joint_vel, atol=1e-5)
    np.testing.assert_allclose(signals.joint_torque, truth.joint_torque, atol=1e-4)
    np.testing.assert_allclose(signals.imu_quat_wxyz, truth.base_quat_wxyz, atol=1e-6, err_msg="behind a waist?")
    np.testing.assert_allclose(signals.gyro, truth.base_ang_vel, atol=1e-6)
    np.testing.assert_allclose(signals.accelerometer, [0.0, 0.0, 9.81], atol=0.05)
    assert signals.stamp == twin.time == pytest.approx(robot.clock())
    assert signals.health.battery == pytest.approx(0.9) and signals.health.corrupt == 0
    assert signals.health.motor_temperature.tolist() == [30.0] * len(twin.joint_names)
    assert np.abs(truth.joint_pos - twin.body.default_pos).max() > 0.05


def test_a_lying_go2_is_released_stands_up_and_damps_down():
    twin, robot = pair(own_controller=True)
    assert not twin.sport.active and twin.truth().base_pos[2] < 0.15
    start, goal = robot.read().joint_pos, twin.body.default_pos
    for share in np.linspace(0.0, 1.0, 50):
        run(robot, 0.02, start + share * (goal - start))
    run(robot, 0.5, goal)
    standing = twin.truth()
    assert 0.25 < standing.base_pos[2] < 0.33 and standing.tilt < 0.05 and standing.foot_contact.all()
    weight = 9.81 * float(twin.body.model.body_mass.sum())
    order = [twin.body.foot_names.index(name) for name in twin.hardware.feet]
    np.testing.assert_allclose(robot.read().foot_force, standing.foot_force[order], atol=1.0)
    assert standing.foot_force.sum() == pytest.approx(weight, rel=0.05)
    run(robot, 1.0)
    assert twin.truth().base_pos[2] < 0.15


def frames(twin, robot):
    """A publisher of commands and a frame to tamper with."""
    frame = CommandFrame(twin.hardware)
    count = len(twin.joint_names)
    frame.fill(twin.body.default_pos, np.full(count, 20.0), np.full(count, 1.0))
    return robot.bus.publisher(robot.command_topic), frame


def test_commands_that_a_robot_would_not_obey_are_ignored_and_counted():
    twin, robot = pair(hung=True, connect=False)
    publisher, frame = frames(twin, robot)
    good = bytes(frame.sealed())
    spoilt = bytearray(good)
    spoilt[60] ^= 1
    frame.message["head"] = (0, 0)
    headless = bytes(frame.sealed())
    for payload in (bytes(spoilt), headless, b"\0" * 10, good[:-8]):
        publisher.send(payload)
    robot.sleep_until(0.01)
    counters = twin.counters
    assert (counters.corrupt, counters.foreign, counters.accepted) == (1, 3, 0)
    assert not twin.truth().joint_torque.any()
    publisher.send(good)
    robot.sleep_until(0.02)
    assert twin.counters.accepted == 1 and np.abs(twin.truth().joint_torque).max() > 0.0


def test_numbers_that_are_not_finite_never_reach_the_motors():
    twin, robot = pair(hung=True, connect=False)
    publisher, frame = frames(twin, robot)
    for field in ("q", "dq", "tau", "kp", "kd"):
        kept = frame.message[f"motor_cmd.{field}"][4].copy()
        frame.message[f"motor_cmd.{field}"][4] = np.nan
        publisher.send(bytes(frame.sealed()))
        frame.message[f"motor_cmd.{field}"][4] = kept
    robot.sleep_until(0.01)
    assert twin.counters.not_finite == 5 and np.isfinite(twin.truth().joint_pos).all()


def test_a_humanoid_obeys_only_those_who_repeat_its_mode_machine():
    twin, robot = pair("unitree-g1", connect=False)
    publisher, frame = frames(twin, robot)
    publisher.send(bytes(frame.sealed()))
    robot.sleep_until(0.01)
    assert twin.counters.foreign == 1
    frame.echo_machine(next(iter(twin.hardware.mode_machines)))
    publisher.send(bytes(frame.sealed()))
    robot.sleep_until(0.02)
    assert twin.counters.accepted == 1


def test_an_unknown_mode_machine_is_refused_by_the_transport():
    with pytest.raises(DeployError, match="mode_machine 77"):
        pair("unitree-g1", quirks=Quirks(mode_machine=77))
    with pytest.raises(QuirkError, match="unitree-go2 has none"):
        pair(quirks=Quirks(mode_machine=5))


def test_its_own_controller_refuses_commands_until_it_is_released():
    twin, robot = pair(own_controller=True, standing=True, connect=False)
    publisher, frame = frames(twin, robot)
    publisher.send(bytes(frame.sealed()))
    robot.sleep_until(0.5)
    assert twin.counters.refused == 1 and twin.counters.accepted == 0
    assert twin.truth().base_pos[2] > 0.25, "it does not stand"
    robot.connect()
    robot.take_over()
    assert not twin.sport.active and twin.sport.posture == "lying"


def switcher(manner):
    """A twin whose motion_switcher has this manner, and a client of it."""
    twin, robot = pair(own_controller=True, connect=False, quirks=Quirks(motion_switcher=manner))
    return twin, Service(robot.bus, SERVICE)


@pytest.mark.parametrize("manner", ["normal", "stubborn"])
def test_the_motion_switcher_names_and_releases(manner):
    twin, service = switcher(manner)
    assert json.loads(service.call(CHECK_MODE).data) == {"form": "0", "name": "normal"}
    assert service.call(RELEASE_MODE).code == 0
    left = json.loads(service.call(CHECK_MODE).data)["name"]
    assert (left, twin.sport.active) == (("normal", True) if manner == "stubborn" else ("", False))
    assert service.call(SELECT_MODE, {"name": "dance"}).code != 0
    assert service.call(SELECT_MODE, {"name": "normal"}).code == 0 and twin.sport.active
    assert service.call(4711).code == 3203


def test_a_motion_switcher_in_a_bad_mood():
    _, service = switcher("absent")
    assert service.call(CHECK_MODE, timeout=0.1) is None and not service.present
    _, service = switcher("slow")
    assert service.call(CHECK_MODE, timeout=1.5) is None and service.present
    _, service = switcher("slow")
    assert service.call(CHECK_MODE, timeout=2.5).code == 0
    _, service = switcher("nonsense")
    with pytest.raises(ValueError):
        json.loads(service.call(CHECK_MODE).data)


def test_its_own_controller_may_stay_on_the_topic_of_commands():
    with pytest.raises(DeployError, match="twin could send commands"):
        pair(own_controller=True, quirks=Quirks(own_writer="stays"))


def test_the_sport_service_lays_down_and_stands_up():
    twin, robot = pair(own_controller=True, standing=True, connect=False)
    service = Service(robot.bus, "sport")
    assert service.call(1005).code == 0
    robot.sleep_until(2.0)
    assert twin.truth().base_pos[2] < 0.15
    assert service.call(1004).code == 0
    robot.sleep_until(4.0)
    assert twin.truth().base_pos[2] > 0.25
    assert service.call(1009).code == 3203
    twin.sport.release()
    assert service.call(1004).code != 0


def test_the_sport_state_is_there_until_sport_mode_is_released():
    bus = MemoryBus()
    twin = open_twin("unitree-go2", bus.join("twin"), standing=True)
    bus.attach(twin.advance)
    states = bus.subscriber(Topic("rt/sportmodestate", SPORT_MODE_STATE.name, reliable=False))
    bus.sleep_until(0.5)
    state = layout_of(SPORT_MODE_STATE).read(states.take()[1])
    assert state["position"][2] == pytest.approx(twin.truth().base_pos[2], abs=1e-3)
    twin.sport.release()
    bus.sleep_until(0.6)
    states.take()
    bus.sleep_until(1.0)
    assert states.take() is None and twin.truth().base_pos[2] < 0.2, "released while standing, it drops"


def test_the_transmitter_reaches_the_operator():
    twin, robot = pair()
    twin.press("L2", "B")
    twin.stick(left=(0.5, -0.25), right=(0.0, 1.0))
    remotes = robot.bus.subscriber(Topic("rt/wirelesscontroller", WIRELESS_CONTROLLER.name, reliable=False))
    run(robot, 0.1)
    remote = robot.read().health.remote
    assert remote.buttons == {"L2", "B"} and remote.left == (0.5, -0.25) and remote.right == (0.0, 1.0)
    topic = layout_of(WIRELESS_CONTROLLER).read(remotes.take()[1])
    assert int(topic["keys"]) == 1 << 5 | 1 << 9 and float(topic["ly"]) == -0.25
    twin.press("start", seconds=0.05)
    run(robot, 0.04)
    assert robot.read().health.remote.buttons == {"start"}
    run(robot, 0.04)
    assert not robot.read().health.remote.buttons
    with pytest.raises(TwinError, match="no button turbo"):
        twin.press("turbo")


def trace(seed, quirks):
    twin, robot = pair(quirks=quirks, seed=seed, standing=True)
    return np.array([np.append(stamp, pos) for stamp, pos in run(robot, 0.4, twin.body.default_pos)])


TROUBLED = Quirks(
    latency=0.003, jitter=0.004, loss=0.1, command_latency=0.002, command_loss=0.1, encoder_noise=0.01,
    encoder_bias=0.02, gyro_bias=0.1, latch_rate=2.0, imu_glitch_rate=1.0,
)  # fmt: skip


def test_the_same_seed_is_the_same_robot_to_the_last_bit():
    first, again, other = trace(4, TROUBLED), trace(4, TROUBLED), trace(5, TROUBLED)
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    assert not np.array_equal(trace(4, Quirks()), first)


def test_states_come_late_by_what_was_asked():
    twin, robot = pair(quirks=Quirks(latency=0.007, jitter=0.004))
    late = []
    for _ in range(200):
        robot.sleep_until(robot.clock() + PERIOD)
        signals = robot.read()
        late.append(signals.stamp - 1e-3 * signals.health.tick)
    assert min(late) > 0.006 and max(late) < 0.013, "a tick is a millisecond, a jitter at most 4"
    assert twin.time - 1e-3 * robot.read().health.tick < 0.016


def test_noise_and_bias_have_the_asked_size():
    quirks = Quirks(encoder_noise=0.01, gyro_noise=0.2, orientation_noise=0.02, accelerometer_noise=0.5)
    twin, robot = pair(quirks=quirks, hung=True)
    rows = []
    for _ in range(500):
        signals = robot.read()
        rows.append(
            np.concatenate(
                [
                    signals.joint_pos - twin.body.joint_pos,
                    signals.gyro,
                    2.0 * signals.imu_quat_wxyz[1:],
                    signals.accelerometer - (0.0, 0.0, 9.81),
                ]
            )
        )
        robot.damp()
        robot.sleep_until(robot.clock() + PERIOD)
    spread = np.array(rows).std(0)
    np.testing.assert_allclose(spread[:12], 0.01, rtol=0.2)
    np.testing.assert_allclose(spread[12:15], 0.2, rtol=0.2)
    np.testing.assert_allclose(spread[15:18], 0.02, rtol=0.2)
    np.testing.assert_allclose(spread[18:21], 0.5, rtol=0.2)


def test_a_hidden_delay_moves_the_answer_by_itself():
    """A step of a target 10.6 ms late moves the joint as the same step did, 10.6 ms later."""
    moved = []
    for delay in (0.0, 0.0106):
        twin, robot = pair(hung=True, quirks=Quirks(parameters=RobotParameters(robot="go2", delay=delay)))
        run(robot, 0.5, twin.body.default_pos)
        rows = run(robot, 0.06, twin.body.default_pos + 0.2)
        moved.append(np.array([pos[0] for _, pos in rows]))
    times = PERIOD * np.arange(len(moved[0]))
    shifted = np.interp(times - 0.0106, times, moved[0])
    late = times > 0.0106 + PERIOD
    assert np.abs(moved[1] - moved[0])[late].max() > 0.02
    np.testing.assert_allclose(moved[1][late], shifted[late], atol=2e-3)


def test_time_that_is_skipped_is_not_simulated():
    twin, robot = pair()
    run(robot, 0.1)
    tick, pos = twin.time, twin.body.joint_pos.copy()
    late = twin.inject("silence", after=0.01)
    twin.skip(2.0)
    assert twin.time == pytest.approx(tick + 2.0)
    np.testing.assert_array_equal(twin.body.joint_pos, pos)
    assert twin.faults.injections[0].start == pytest.approx(late.start + 2.0)


def test_the_physics_may_be_finer_than_the_states():
    _, robot = pair(timestep=0.0005, hung=True)
    stamps = [stamp for stamp, _ in run(robot, 0.05)]
    np.testing.assert_allclose(np.diff(stamps), PERIOD)
    with pytest.raises(TwinError, match=r"timestep = 0\.01"):
        pair(timestep=0.01)


def test_what_cannot_be_served():
    with pytest.raises(TwinError, match="anymal-c has no hardware"):
        Twin(ANYMAL_C, MemoryBus())
    with pytest.raises(DeployError, match=r"known are .*unitree-go2"):
        open_twin("unitree-go9", MemoryBus())


def test_robots_on_two_feet_hang_unless_they_are_told_not_to():
    bus = MemoryBus()
    assert Twin(H1, bus).body.hung and not Twin(H1, bus, hung=False).body.hung
    assert not Twin(GO2, bus).body.hung
