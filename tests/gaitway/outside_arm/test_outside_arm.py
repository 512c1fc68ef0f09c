"""An arm of another package, with a command of its own: docs/examples/reacher, from training to the wire."""

from dataclasses import dataclass, replace
from pathlib import Path

import mujoco
import numpy as np
import pytest
import torch
from gaitway_files import trust as trusting
from gaitway_files.errors import UserError
from gaitway_mujoco import make_env
from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.bundle.policy import OnboardPolicy, SignalError
from gaitway_onboard.control.commands import parse_script, scripted, tour_of
from gaitway_onboard.control.controller import ControllerConfig
from gaitway_onboard.control.devices import Sticks
from gaitway_onboard.control.loop import run_loop
from gaitway_onboard.flight.reading import read_flight
from gaitway_onboard.interface import Signals
from gaitway_onboard.transports.ros2 import Ros2Robot
from gaitway_onboard.transports.ros2_config import load_ros2
from gaitway_onboard.wire.memory import MemoryBus
from gaitway_sim2real.bundle.contracts import ExportError, exportable
from gaitway_sim2real.digital_twin.twin import Twin
from gaitway_sim2real.lockstep.robot import LockstepRobot
from gaitway_tasks import registry
from gaitway_tasks.robots.check import check_robot
from gaitway_tasks.robots.mjcf import ModelError
from gaitway_tasks.signals import reads
from gaitway_tasks.spec import Event, ObservationTerm
from tree import ROOT

import gaitway
from gaitway.cli import main
from gaitway.start import Order, preset_of
from gaitway.train_config import resolve

EXAMPLE = ROOT / "docs/examples/reacher"


def test_it_is_trained_and_its_tip_is_measured(bundle, capsys):
    row = (bundle.parent / "run/evaluations.jsonl").read_text()
    assert '"point": {"tip": ' in row


def test_the_contract_says_what_is_followed_and_that_the_base_is_fixed(bundle):
    contract = Contract.load(bundle)
    assert (contract.operator, contract.fixed_base, contract.foot_bodies) == ("numbers", True, ())
    assert (contract.command_names, contract.command_units) == (("x", "z"), ("m", "m"))
    assert (contract.still, contract.command_acceleration) == ((0.35, -0.2), (0.5, 0.5))
    assert contract.input_names == ("joint_pos", "joint_vel", "command", "state")


def test_the_graph_starts_at_rest_and_limits_the_command(bundle, task):
    """The observation's command, read from what the graph remembers."""
    policy, contract = OnboardPolicy(bundle), Contract.load(bundle)
    signals = Signals(np.array(contract.default_joint_pos), np.zeros(2), None, None, 0.0)
    told = []
    for _ in range(3):
        policy.step(signals, (0.5, -0.2))
        told.append(policy.state[-2:])
    np.testing.assert_allclose(told, [[0.36, -0.2], [0.37, -0.2], [0.38, -0.2]], atol=1e-6)
    with pytest.raises(SignalError, match=r"command has shape \(3,\), expected \(2,\)"):
        policy.step(signals, (0.5, 0.0, 0.0))


def test_it_runs_in_a_simulation_and_is_recorded(bundle, capsys, tmp_path):
    log = tmp_path / "flight.mcap"
    assert main(["run", str(bundle), "--seconds", "1.2", "--command", "0.5,0.2", "--log", str(log)]) == 0
    assert "command        x        z" in capsys.readouterr().out
    flight = read_flight(log)
    assert not flight.follows_velocity
    np.testing.assert_array_equal(flight.policy.command[[0, 59, -1]], [[0.5, 0.2], [0.5, 0.2], [0.35, -0.2]])
    assert main(["replay", str(log)]) == 0
    assert main(["run", str(bundle), "--command", "0.5,0.2,0"]) == 2
    assert "follows 2, x, z" in capsys.readouterr().err


def test_its_physics_are_those_of_its_training(bundle, task):
    """Both swing from the default pose to other targets, in time steps of the lab."""
    robot = LockstepRobot(bundle)
    timing = replace(task.timing, physics_dt=robot.model.opt.timestep, decimation=robot.plant.decimation)
    default = replace(task.events["reset_robot_joints"], params={"position_range": (1.0, 1.0)})
    env = make_env(replace(task, events={"reset": default}, timing=timing), 1, num_threads=1)
    env.reset()
    robot.place(task.robot.default_joint_pos)
    start = {"stiffness": np.full(2, 60.0), "damping": np.full(2, 4.0)}
    for _ in range(25):
        env.step(torch.ones(1, 2))
        robot.write(np.array(task.robot.default_joint_pos) + 0.5, **start)
        robot.sleep_until(robot.clock() + task.timing.step_dt)
    found = env.world.robot.joint_pos[0].numpy()
    np.testing.assert_allclose(robot.read().joint_pos, found, atol=1e-5)
    assert abs(found - task.robot.default_joint_pos).max() > 0.3


def test_deployed_to_its_twin_over_ros_messages(bundle, task):
    hardware = load_ros2(EXAMPLE / "ros2.yaml").hardware()
    bus = MemoryBus()
    twin = Twin(task.robot, bus.join("twin"), hardware=hardware)
    bus.attach(twin.advance)
    robot, policy = Ros2Robot(hardware.wire, bus), OnboardPolicy(bundle, hardware.joint_names)
    robot.connect()
    robot.take_over()
    assert robot.read().gyro is None
    report = run_loop(
        robot, policy, scripted(tour_of(policy.contract, 2.0)), 2.0,
        config=ControllerConfig(auto=True), hardware=hardware,
    )  # fmt: skip
    assert report.ok, report.reason
    assert twin.body.hung and report.policy_periods == 100
    with pytest.raises(UserError, match="the base of reacher is fixed"):
        twin.body.hung = False


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["record", "{bundle}", "--out", "r.npz"], "recordings have velocity commands"),
        (["rehearse", "{bundle}", "--robot", "unitree-go2"], "rehearsals give velocity commands"),
    ],
)
def test_what_is_about_velocities_says_so(bundle, capsys, words, said):
    assert main([word.format(bundle=bundle) for word in words]) == 2
    assert said in capsys.readouterr().err


def test_sticks_move_nothing_but_velocities(bundle):
    sticks = Sticks(Contract.load(bundle))
    sticks.move(1.0, 1.0, 1.0, now=0.0)
    assert sticks.command(0.0) == Contract.load(bundle).still


def test_a_tour_goes_to_each_end(bundle):
    contract = Contract.load(bundle)
    told = [command for _, command in tour_of(contract, 6.0)]
    assert told == [(0.35, -0.2), (0.25, -0.2), (0.5, -0.2), (0.35, -0.4), (0.35, 0.3), (0.35, -0.2)]
    assert parse_script("0:0.3,0;1:0.4,0.1") == [(0.0, (0.3, 0.0)), (1.0, (0.4, 0.1))]


def test_a_command_without_a_limit_is_refused(task):
    from reacher.tasks import Point

    class Jumping(Point):
        acceleration = None

    with pytest.raises(ExportError, match=r"'point' has no acceleration.*x, z: set Jumping\.acceleration"):
        exportable(replace(task, commands={"point": Jumping()}))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"ranges": lambda self: {"x": (0.5, 0.25)}},
            r"the range of x is \(0\.5, 0\.25\): give finite ones, the lowest first",
        ),
        ({"units": ("m",)}, r"its units \('m',\) need one for each of x, z"),
        ({"acceleration": (0.5, 0.0)}, r"its acceleration is \(0\.5, 0\.0\): all must be above 0"),
        ({"rest": (9.0, 0.0)}, r"its rest of x is 9\.0, outside the range \(0\.25, 0\.5\)"),
        ({"suite": "reacher.suite"}, r"its suite is 'reacher\.suite': expected module:OBJECT"),
        ({"ranges": lambda self: {}}, "its ranges are empty"),
    ],
)
def test_numbers_of_a_command_that_do_not_fit_are_refused_before_training(task, tmp_path, monkeypatch, change, said):
    from reacher import tasks

    odd = dataclass(frozen=True, kw_only=True)(
        type("Odd", (tasks.Point,), {**change, "__module__": "reacher.tasks", "__annotations__": {}})
    )
    monkeypatch.setattr(tasks, "Odd", odd, raising=False)
    with pytest.raises(UserError, match=rf"task\.commands: 'point', a Odd: {said}"):
        gaitway.train(replace(task, commands={"point": odd()}), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("errors", "said"),
    [
        (lambda self, told, robot: {"tip": told.mean()}, r"'point': its error 'tip' is \(\): expected .* shape \(1,\)"),
        (
            lambda self, told, robot: {"tip": robot.nose},
            r"'point', errors, \(reacher\.tasks:Odd\) failed: AttributeError",
        ),
    ],
)
def test_a_measure_of_a_command_that_fails_is_told_before_training(task, tmp_path, monkeypatch, errors, said):
    from reacher import tasks

    changes = {"errors": errors, "__module__": "reacher.tasks", "__annotations__": {}}
    odd = dataclass(frozen=True, kw_only=True)(type("Odd", (tasks.Point,), changes))
    monkeypatch.setattr(tasks, "Odd", odd, raising=False)
    with pytest.raises(UserError, match=said):
        gaitway.train(replace(task, commands={"point": odd()}), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_an_arm_has_no_imu(task):
    from gaitway_tasks.mdp.observations import projected_gravity

    group = task.observations["policy"]
    seen = replace(group, terms={**group.terms, "gravity": ObservationTerm(func=projected_gravity)})
    with pytest.raises(ExportError, match="term 'gravity' reads imu_quat_wxyz"):
        exportable(replace(task, observations={"policy": seen}))


def test_events_cannot_move_a_fixed_base(task):
    from gaitway_tasks.mdp.events import push_by_setting_velocity

    push = Event(func=push_by_setting_velocity, mode="reset", params={"velocity_range": {"x": (1.0, 1.0)}})
    env = make_env(replace(task, events={"push": push}), 2, num_threads=1)
    with pytest.raises(UserError, match="the base of reacher is fixed: leave out the events that move or push it"):
        env.reset()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('<body name="post" pos="0 0 1">', '<body name="post" pos="0 0 1"><freejoint/>', "has a free joint on 'post'"),
        ('<body name="post" pos="0 0 1">', '<body name="post" pos="0 0 1"><joint name="turn" axis="0 0 1"/>',
         "'post' has the joint 'turn'"),
    ],
)  # fmt: skip
def test_models_that_are_not_fixed(task, tmp_path, old, new, said):
    path = tmp_path / "robot.xml"
    path.write_text(task.robot.mjcf.read_text().replace(old, new))
    with pytest.raises(ModelError, match=said):
        check_robot(task.robot.replace(mjcf=path))
    with pytest.raises(ModelError, match="set fixed_base=True"):
        check_robot(task.robot.replace(fixed_base=False, foot_names=("tip",)))


@reads("body_pos_w", "body_quat_wxyz", "body_lin_vel_w", "body_ang_vel_w")
def seen_bodies(world):
    robot = world.robot
    parts = (robot.body_pos_w, robot.body_quat_wxyz, robot.body_lin_vel_w, robot.body_ang_vel_w)
    return torch.cat([part.flatten(1) for part in parts], 1)


def test_observed_bodies_are_those_of_now_after_a_reset_too(task):
    """Against MuJoCo's own forward kinematics of the state that the robot is in."""
    group = replace(task.observations["policy"], terms={"bodies": ObservationTerm(func=seen_bodies)})
    timing = replace(task.timing, episode_length_s=0.1)
    env = make_env(replace(task, observations={"policy": group}, timing=timing), 3, num_threads=1)
    seen, _ = env.reset()
    generator = torch.Generator().manual_seed(0)
    for _ in range(8):
        assert_bodies(env.world, seen["policy"])
        seen = env.step(torch.randn(3, 2, generator=generator))[0]


def assert_bodies(world, seen):
    data = mujoco.MjData(world.model)
    ids = [world.model.body(name).id for name in world.spec.body_names]
    for row in range(3):
        data.qpos[:], data.qvel[:] = world.batch.bind("qpos")[row], world.batch.bind("qvel")[row]
        mujoco.mj_forward(world.model, data)
        velocity = np.zeros((len(ids), 6))
        for k, body in enumerate(ids):
            mujoco.mj_objectVelocity(world.model, data, mujoco.mjtObj.mjOBJ_BODY, body, velocity[k], 0)
        parts = (data.xpos[ids], data.xquat[ids], velocity[:, 3:], velocity[:, :3])
        expected = np.concatenate([part.ravel() for part in parts])
        np.testing.assert_allclose(seen[row].numpy(), expected, atol=1e-5)


def test_the_example_names_no_path_of_this_machine():
    assert "/" not in (EXAMPLE / "reacher/__init__.py").read_text().replace("//", "")
    assert Path(EXAMPLE / "pyproject.toml").read_text().count('reacher = "reacher:DESCRIPTION"') == 1


def test_its_preset_is_a_whole_recipe(folder, here, monkeypatch):
    """As of an installed package, whose description the registry has."""
    trusting.trust("reacher")
    from reacher import DESCRIPTION

    row = registry._tasks_of(DESCRIPTION)["reach-reacher"]
    monkeypatch.setitem(registry.entries(), "reach-reacher", row)
    assert registry.get_task("reach-reacher", "cpu").name == "reach-reacher"
    config = resolve("reach-reacher", preset="cpu", overrides=["agent.gamma=0.9"])
    assert (config.num_envs, config.total_steps, config.agent.gamma) == (64, 3_000_000, 0.9)
    assert config.agent.symmetry == "none" and config.agent.model.estimator is None
    assert preset_of(Order(task="reach-reacher")) == "cpu"
    with pytest.raises(UserError, match="unknown preset of reach-reacher 'sprint'"):
        resolve("reach-reacher", preset="sprint")
