"""MuJoCo Warp beside MuJoCo: the same motion, full buffers, waits for the device, settings, training."""

from __future__ import annotations

import signal
from dataclasses import replace

import pytest
import torch
from bit_by_bit import differences
from gaitway_files.errors import UserError
from gaitway_mujoco import make_env as mujoco_env
from gaitway_mujoco import shared, warp
from gaitway_mujoco.options import WarpOptions
from gaitway_tasks import episodes, managers, waits
from gaitway_tasks.mdp import gait, indices
from gaitway_tasks.registry import get_task, preset_of, task_names
from gaitway_tasks.spec import Timing
from pretend_gpu import PretendGpu
from quiet import quiet_task
from stopping import KillAfter, final_state
from waiting import Waits
from warp_worlds import DEVICE, ON_CPU, make_env, stepped

from gaitway.cli import main
from gaitway.runs.folder import RunFolder
from gaitway.training import loop
from gaitway.training.tracking import RobotMeasures

N = 4
FLAT = [name for name in task_names() if "-flat-" in name and not name.endswith("-blind")]
BASE = "velocity-flat-anymal-c"


def placed(world, height=0.0):
    """Robots in their default pose, ``height`` [m] above where they start."""
    ids = torch.arange(world.num_envs, device=world.device)
    world.reset_physics(ids)
    if not world.spec.fixed_base:
        place = world.ground.origin(ids)
        place[:, 2] += world.spec.init_height + height
        upright = torch.tensor([1.0, 0.0, 0.0, 0.0], device=world.device).expand(len(ids), 4)
        still = torch.zeros(len(ids), 3, device=world.device)
        world.write_root_state(ids, place, upright, still, still)
    pose = world.default_joint_pos.expand(len(ids), -1)
    world.write_joint_state(ids, pose, torch.zeros_like(pose))
    world.finish_events()


def script(task, steps):
    """Sinusoidal actions (steps, N, A), another for each robot."""
    count = task.actions.num(task.robot)
    phase = 0.3 * torch.arange(steps)[:, None, None] + torch.arange(count)
    return 0.3 * torch.sin(phase) * torch.linspace(0.0, 1.0, N)[:, None]


def difference(task, steps, height=0.0, **options):
    """Largest difference to MuJoCo of joint angles [rad] and of the base's place [m] in ``steps`` control steps."""
    ours, theirs = make_env(task, N, **options).world, mujoco_env(task, N, num_threads=1, **options).world
    placed(ours, height), placed(theirs, height)
    found = 0.0
    for action in script(task, steps):
        stepped(ours, action), stepped(theirs, action)
        for name in ("joint_pos", "root_pos_w"):
            apart = getattr(ours.robot, name).cpu() - getattr(theirs.robot, name)
            found = max(found, float(apart.abs().max()))
    touching = [world.robot.contact_force_norm.cpu() > 1.0 for world in (ours, theirs)]
    assert torch.equal(*touching), "the same bodies touch the ground"
    return found


def fine(name):
    """The task whose control steps are its physics steps."""
    task = get_task(name)
    return task.replace(timing=replace(task.timing, decimation=1))


def test_ten_physics_steps_on_the_ground_equal_those_of_mujoco():
    assert difference(fine(BASE), 10, height=-0.06) < 1e-6


@pytest.mark.parametrize("name", FLAT)
def test_every_robot_moves_as_in_mujoco(name):
    """With float32 in place of float64; a foot may touch down a little earlier."""
    assert difference(get_task(name), 5) < 1e-4


@pytest.mark.parametrize("options", [{"cone": "elliptic"}, {"solver": "cg", "iterations": 50}, {"warmstart": True}])
def test_settings_of_the_solver_are_those_of_mujoco(options):
    assert difference(fine(BASE), 10, height=-0.06, **options) < 1e-4


def test_rough_ground_is_where_it_looks_to_be():
    """Robots come to stand on their tiles as MuJoCo's do: contacts with a height field are not the same ones."""
    task = get_task("velocity-rough-anymal-c")
    ours, theirs = make_env(task, 8).world, mujoco_env(task, 8, num_threads=1).world
    theirs.ground.level.copy_(ours.ground.level.cpu())
    theirs.ground._find()
    placed(ours), placed(theirs)
    for _ in range(20):
        for world in (ours, theirs):
            stepped(world, torch.zeros(8, 12))
    assert len(ours._field("geom_dataid")[:, int(ours._ground_geoms[0])].unique()) == 8
    apart = (ours.robot.root_pos_w.cpu() - theirs.robot.root_pos_w).norm(dim=1)
    assert apart.median() < 0.01 and apart.max() < 0.05, apart
    assert (ours.robot.contact_force_norm.amax(1) > 1.0).all()


def test_gravity_compensation_holds_the_mass_that_is_known():
    world = make_env(preset_of(get_task("lift-franka"), "cpu").change(get_task("lift-franka")), 2).world
    hand, cube = (world.model.body(name).id for name in ("panda_hand", "object"))
    world.set_mass_scale(torch.tensor([1], device=world.device), torch.tensor([3.0], device=world.device), "panda_hand")
    world.finish_events()
    mass, held = (world._field(name) for name in ("body_mass", "body_gravcomp"))
    assert float(mass[1, hand]) == pytest.approx(3.0 * float(mass[0, hand]))
    known = torch.full((2,), float(world.model.body_mass[hand]))
    torch.testing.assert_close((mass * held)[:, hand].cpu(), known)
    assert (held[:, cube] == 0.0).all(), "objects keep their weight"


# ---- buffers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "size"), [("njmax", 8), ("nconmax", 1)])
def test_a_full_buffer_is_an_error_that_names_the_setting(name, size):
    world = make_env(quiet_task(), N, **{name: size}).world
    placed(world, height=-0.05)
    with pytest.raises(UserError, match=rf"{size} .* is full.*simulator\.{name}={2 * size}"):
        stepped(world, torch.zeros(N, 12))
        world.broken(), world.check()


def test_measured_buffers_hold_a_robot_on_its_back():
    world = make_env(quiet_task(), N).world
    placed(world)
    on_its_back = torch.tensor([[0.0, 1.0, 0.0, 0.0]], device=world.device).expand(N, 4)
    place = torch.tensor([[0.0, 0.0, 0.1]], device=world.device).expand(N, 3)
    world.write_root_state(torch.arange(N, device=world.device), place, on_its_back, 0 * place, 0 * place)
    for _ in range(5):
        stepped(world, torch.zeros(N, 12))
    assert not world.broken().any() and 24 <= world.njmax <= 256 and 8 <= world.nconmax <= 64


# ---- one environment alone -------------------------------------------------------------------------------------------


def test_a_simulation_that_diverges_starts_anew_alone():
    env, twin = make_env(quiet_task(), N), make_env(quiet_task(), N)
    env.reset(), twin.reset()
    env.world._fields["qvel"][1] = torch.nan
    action = torch.zeros(N, 12)
    observation, reward, terminated, *_ = env.step(action)
    expected, expected_reward, *_ = twin.step(action)
    assert terminated.tolist() == [False, True, False, False]
    others = torch.tensor([0, 2, 3])
    for _ in range(3):
        assert torch.equal(observation["policy"][others], expected["policy"][others])
        assert torch.equal(reward[others], expected_reward[others]) and observation["policy"].isfinite().all()
        (observation, reward, *_), (expected, expected_reward, *_) = env.step(action), twin.step(action)


def test_time_is_turned_back_so_that_float32_tells_steps_apart():
    task = quiet_task(timing=Timing(physics_dt=0.005, decimation=4))
    world = make_env(task, N, max_action_delay=0.02).world
    placed(world)
    for _ in range(3):
        stepped(world, torch.zeros(N, 12))
    time, newest = world._fields["time"], world._delay_times.amax(2)
    torch.testing.assert_close(time, torch.full_like(time, 0.04), rtol=0.0, atol=1e-6)
    torch.testing.assert_close(newest, torch.full_like(newest, 0.035), rtol=0.0, atol=1e-6)


# ---- waits -----------------------------------------------------------------------------------------------------------


@ON_CPU
def test_a_step_waits_for_the_device_once(monkeypatch):
    """With every event, and episodes that end, as if nothing were on the host."""
    asked: list[int] = []
    rows_of = waits.rows_of

    def counted(masks):
        asked.append(len(masks))
        with torch._C.DisableTorchFunction():
            return rows_of(masks)

    task = get_task("velocity-flat-anymal-c-blind", "cpu")
    task = task.replace(timing=replace(task.timing, episode_length_s=3 * task.timing.step_dt))
    env = make_env(task, 8)
    env.reset(options={"random_episode_step": True})
    env.step(torch.zeros(8, 12))
    from gaitway_mujoco import env as module

    for place in (episodes, managers, shared, module):
        monkeypatch.setattr(place, "on_host", lambda tensor: False)
    for place in (episodes, managers):
        monkeypatch.setattr(place, "rows_of", counted)
        monkeypatch.setattr(place, "logged", lambda values: list(values.unbind()))
    ended = 0
    with Waits() as waited:
        for _ in range(4):
            ended += len(env.step(torch.zeros(8, 12))[-1]["ended"])
    assert ended > 8 and len(asked) == 4
    assert not waited.found, waited.found
    env.world.set_friction(torch.tensor([2]), torch.tensor([-0.5]))
    with pytest.raises(UserError, match=r"friction -0\.5: it cannot be negative"):
        env.step(torch.zeros(8, 12))
    with pytest.raises(UserError, match=r"the action for environment 3 is"):
        env.step(torch.zeros(8, 12).index_fill(0, torch.tensor([3]), torch.nan))


@ON_CPU
def test_nothing_is_made_beside_the_simulation():
    """Told by what would be on a GPU: operations with tensors of the host would fail there."""
    task = get_task("velocity-flat-anymal-c-blind", "cpu")
    env = make_env(task.replace(timing=replace(task.timing, episode_length_s=3 * task.timing.step_dt)), 8)
    env.reset()
    for kept in (indices.row, indices.spans, indices._indices, gait._table):  # are made there when they are needed
        kept.cache_clear()
    gpu, measures, action = PretendGpu(), RobotMeasures(env), torch.zeros(8, 12)
    made = [cell.cell_contents for cell in env.world._targets.__closure__]
    gpu.put(env, env.world, env.episodes, env.managers, made, action)
    with gpu.watching():
        env.reset(options={"random_episode_step": True})
        for _ in range(4):
            _, _, terminated, truncated, _ = env.step(action)
            measures(torch.ones(8, dtype=torch.bool), terminated, truncated)
    assert gpu.mixed == []


# ---- settings --------------------------------------------------------------------------------------------------------


def test_what_it_cannot_do_is_refused(monkeypatch):
    with pytest.raises(UserError, match=r"solver 'pgs': use 'newton' or 'cg'"):
        WarpOptions(solver="pgs")
    monkeypatch.setattr(shared, "drives_are_network", lambda robot: True)
    with pytest.raises(UserError, match=r"actuator network.*--world mujoco"):
        make_env(quiet_task(), 1)


@pytest.mark.parametrize(("version", "told"), [((12, 2), r"12\.2"), (None, "none")])
def test_an_old_driver_is_refused(version, told, monkeypatch):
    import warp as wp

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(wp, "get_cuda_driver_version", lambda: version)
    with pytest.raises(UserError, match=rf"driver for CUDA 12\.4.*{told}"):
        warp.device_of("auto")


def test_the_deterministic_mode_computes_the_same_motion():
    runs = []
    for deterministic in (False, True):
        world = make_env(quiet_task(), N, deterministic=deterministic).world
        placed(world, height=-0.06)
        for action in script(quiet_task(), 3):
            stepped(world, action)
        runs.append(world.robot.joint_pos)
    torch.testing.assert_close(*runs, rtol=0.0, atol=1e-5)


# ---- training --------------------------------------------------------------------------------------------------------

SMALL = (f"device={DEVICE}", "num_envs=16", "agent.num_steps=4", "agent.model.actor_hidden=[16]",
         "agent.model.critic_hidden=[16]", "agent.optimizer.minibatches=2", "evaluation_episodes=0",
         "total_steps=256", "simulator.deterministic=true")  # fmt: skip


def test_the_command_trains_and_resumes_bit_by_bit(tmp_path, capsys, monkeypatch):
    """With the recipe of the walk: mirrors by the clock, a base velocity that is estimated, every randomisation."""
    command = ["train", f"{BASE}-blind", "--preset", "cpu", "--world", "mujoco-warp", *SMALL, "--out"]
    assert main([*command, str(tmp_path / "whole")]) == 0, capsys.readouterr().err
    assert DEVICE != "cpu" or "for tests: --world mujoco" in capsys.readouterr().out
    with monkeypatch.context() as patch:
        patch.setattr(loop, "make_progress", lambda *_, **__: KillAfter(2, signal.SIGTERM))
        assert main([*command, str(tmp_path / "parts")]) == 143
    assert main([*command, str(tmp_path / "parts"), "--resume"]) == 0, capsys.readouterr().err
    whole, parts = (RunFolder.open(tmp_path / name) for name in ("whole", "parts"))
    assert parts.record["world"] == "mujoco-warp" and "mujoco-warp" in parts.record["versions"]
    assert differences(final_state(whole), final_state(parts)) == []
    assert "kind: WarpOptions" in (parts.path / "config.yaml").read_text()
