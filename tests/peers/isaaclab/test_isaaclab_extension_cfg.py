"""The configurations that Gaitway's tasks build, beyond what Isaac Lab's own tasks use."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import gaitway_isaaclab
import gymnasium
import pytest
from gaitway_isaaclab import env_cfgs
from gaitway_isaaclab.compat import IsaacLabError
from gaitway_isaaclab.registration import cfg_name, env_id, names
from gaitway_tasks.actions import JointPositionAction
from gaitway_tasks.mdp import events
from gaitway_tasks.registry import get_task
from gaitway_tasks.robots import ANYMAL_C, ImplicitPD
from gaitway_tasks.spec import Event
from gaitway_tasks.terrain import SubTerrain, TerrainGenerator, Tiles
from isaac_side import BODIES
from isaaclab_tasks.utils.parse_cfg import load_cfg_from_registry
from stock_tasks import PREFIXES, STOCK, differences, robot_of, stock_runner_cfg

FLAT = "velocity-flat-anymal-c"


@pytest.fixture(autouse=True)
def asset(request, monkeypatch):
    """Isaac Lab's own asset, without asking its server; robots that it does not have are made from their MJCF."""
    task = getattr(request.node, "callspec", None) and request.node.callspec.params.get("name")
    ours = task is not None and robot_of(task) not in PREFIXES
    monkeypatch.setenv("GAITWAY_ISAACLAB_ASSET", "mjcf" if ours else "nucleus")


@pytest.mark.parametrize("name", names("2.3"))
def test_every_task_builds_and_survives_isaac_lab_s_files(name):
    """Isaac Lab writes configurations as dictionaries of plain values, and its command line reads them back."""
    cfg = gaitway_isaaclab.env_cfg(get_task(name), num_envs=12, device="cpu", seed=3)
    cfg.validate()
    tree = cfg.to_dict()
    assert (cfg.scene.num_envs, cfg.sim.device, cfg.seed) == (12, "cpu", 3)
    again = gaitway_isaaclab.env_cfg(get_task(name), seed=0)
    again.from_dict(tree)
    assert again.to_dict() == tree
    for term in get_task(name).rewards:
        assert getattr(again.rewards, term).func is getattr(cfg.rewards, term).func
    assert list(vars(cfg.observations)) == list(get_task(name).observations)


def test_kinds_of_ours_survive_isaac_lab_s_files():
    kinds = {"kerbs": {"kerb_height_range": (0.0, 0.1)}, "gap": {"gap_width_range": (0.0, 0.3)}}
    subs = {name: SubTerrain(kind=name, proportion=0.5, params=params) for name, params in kinds.items()}
    ground = Tiles(generator=TerrainGenerator(sub_terrains=subs, seed=4))
    cfg = gaitway_isaaclab.env_cfg(get_task("velocity-rough-anymal-c").replace(ground=ground), 4, "cpu")
    cfg.validate()
    tree = cfg.to_dict()
    cfg.from_dict(tree)
    assert cfg.to_dict() == tree
    found = cfg.scene.terrain.terrain_generator
    assert found.seed == 4 and found.sub_terrains["kerbs"].params == kinds["kerbs"]
    assert type(found.sub_terrains["gap"]).__name__ == "MeshGapTerrainCfg"


@pytest.mark.parametrize("name", names("2.3"))
def test_registered_configurations_load_through_isaac_lab(name):
    for play in (False, True):
        spec = gymnasium.spec(env_id(name, play, release="2.3"))
        assert spec.entry_point == "isaaclab.envs:ManagerBasedRLEnv"
        cfg = load_cfg_from_registry(spec.id, "env_cfg_entry_point")
        assert cfg.gaitway_task == name and cfg.scene.num_envs == (50 if play else 4096)
        assert load_cfg_from_registry(spec.id, "skrl_cfg_entry_point")["agent"]["rollouts"] == 24


@pytest.mark.parametrize("name", STOCK)
def test_rsl_rl_learns_with_isaac_lab_s_settings(name):
    _, ground, robot = name.split("-", 2)
    ours = load_cfg_from_registry(env_id(name, release="2.3"), "rsl_rl_cfg_entry_point")
    found = {path for path, *_ in differences(ours.to_dict(), stock_runner_cfg(robot, ground).to_dict())}
    assert found <= {"experiment_name", "obs_groups", "obs_groups.policy", "obs_groups.critic"}
    assert ours.obs_groups == {"policy": ["policy"], "critic": ["policy"]}


def test_an_asymmetric_task_gives_the_critic_its_own_group():
    ours = load_cfg_from_registry(env_id(f"{FLAT}-blind", release="2.3"), "rsl_rl_cfg_entry_point")
    assert ours.obs_groups == {"policy": ["policy"], "critic": ["critic"]}


def test_unknown_configurations_name_the_nearest():
    with pytest.raises(AttributeError, match="did you mean 'VelocityRoughAnymalCEnvCfg'"):
        _ = env_cfgs.VelocityRoghAnymalCEnvCfg
    assert cfg_name(FLAT) == "VelocityFlatAnymalC"


def build(**changes):
    return gaitway_isaaclab.env_cfg(get_task(FLAT).replace(**changes), 4, "cpu")


def test_action_settings_reach_isaac_lab():
    action = JointPositionAction(
        scale={".*_HAA": 0.3, ".*_KFE": 0.7}, offset={"LF_.*": 0.1}, clip={".*_HFE": (-1.0, 1.5)}, raw_clip=2.0
    )
    cfg = build(actions=action).actions.joint_pos
    assert cfg.scale == action.scale and cfg.offset == action.offset and cfg.clip == action.clip
    assert not cfg.use_default_offset and cfg.raw_clip == 2.0 and cfg.preserve_order
    assert cfg.joint_names == list(ANYMAL_C.joint_names)


def test_shares_and_margin_of_commands_reach_isaac_lab():
    plain = build().commands.base_velocity
    assert plain.rel_zero_axis == plain.rel_ends == plain.margin == 0.0
    command = get_task(FLAT, "cpu").commands["base_velocity"]
    cfg = build(commands={"base_velocity": command}).commands.base_velocity
    assert cfg.rel_zero_axis == command.rel_zero_axis > 0 and cfg.ranges.heading is None
    assert cfg.rel_ends == command.rel_ends > 0 and cfg.margin == command.margin > 0


def test_gains_and_delays_become_isaac_lab_s_own():
    varied = {
        "gains": Event(
            func=events.randomize_actuator_gains,
            mode="startup",
            params={"stiffness_range": (0.9, 1.1), "damping_range": (0.8, 1.2)},
        ),
        "delay": Event(func=events.randomize_action_delay, mode="reset", params={"delay_range": (0.0, 0.02)}),
    }
    cfg = build(events=varied)
    assert list(vars(cfg.events)) == ["gains"]  # the delay is the action term's
    assert cfg.actions.joint_pos.delay == (0.0, 0.02)
    gains = cfg.events.gains
    assert gains.func.__name__ == "randomize_actuator_gains" and gains.params["operation"] == "scale"
    assert gains.params["stiffness_distribution_params"] == (0.9, 1.1)
    legs = cfg.scene.robot.actuators["legs"]
    assert type(legs).__name__ == "DCMotorCfg"
    assert (legs.saturation_effort, legs.velocity_limit) == (120.0, 7.5)
    late = {"delay": Event(func=events.randomize_action_delay, mode="startup", params={"delay_range": (0.0, 0.02)})}
    with pytest.raises(IsaacLabError, match=r"'delay'.*drawn at resets"):
        build(events=late)


def test_implicit_drives_stay_implicit_behind_a_delay():
    law = ImplicitPD(stiffness=60.0, damping=2.0, effort_limit=45.0, armature=0.01)
    late = {"delay": Event(func=events.randomize_action_delay, mode="reset", params={"delay_range": (0.0, 0.02)})}
    cfg = build(robot=ANYMAL_C.replace(actuators={"legs": law}), events=late).scene.robot.actuators["legs"]
    assert type(cfg).__name__ == "ImplicitActuatorCfg"
    assert (cfg.stiffness, cfg.damping, cfg.effort_limit_sim, cfg.armature) == ({".*": 60.0}, {".*": 2.0}, 45.0, 0.01)


def test_events_without_a_counterpart_are_refused_together():
    task = get_task(FLAT)
    extra = {
        "floor": Event(func=events.randomize_ground_impedance, mode="startup", params={"impedance_range": (0.9, 0.98)}),
        "motors": Event(func=events.randomize_motor_strength, mode="startup", params={"strength_range": (0.9, 1.1)}),
        "encoders": Event(func=events.randomize_joint_offset, mode="startup", params={"offset_range": (-0.1, 0.1)}),
    }
    with pytest.raises(IsaacLabError, match=r"floor .*motors .*encoders .*take them out") as error:
        build(events={**task.events, **extra})
    assert "push_robot" not in str(error.value)


def test_physics_and_actuators_that_this_release_has_not():
    with pytest.raises(IsaacLabError, match=r"'newton' needs Isaac Lab 3\.0"):
        gaitway_isaaclab.env_cfg(get_task(FLAT), physics="newton")
    with pytest.raises(IsaacLabError, match="physics 'bullet': use one of physx, newton"):
        gaitway_isaaclab.env_cfg(get_task(FLAT), physics="bullet")
    with pytest.raises(IsaacLabError, match="actuators 'spring': use one of task, isaaclab"):
        gaitway_isaaclab.env_cfg(get_task(FLAT), actuators="spring")


def test_the_actuator_network_by_choice(monkeypatch, tmp_path):
    from isaaclab_assets.robots.anymal import ANYMAL_C_CFG

    legs = ANYMAL_C_CFG.actuators["legs"].copy()
    legs.network_file = str(tmp_path / "anydrive_3_lstm_jit.pt")
    monkeypatch.setitem(ANYMAL_C_CFG.actuators, "legs", legs)
    with pytest.raises(IsaacLabError, match=r"'legs'.*anydrive_3_lstm_jit.pt, cannot be reached"):
        gaitway_isaaclab.env_cfg(get_task(FLAT), actuators="isaaclab")
    from gaitway_isaaclab.assets import reachable

    reachable.cache_clear()
    (tmp_path / "anydrive_3_lstm_jit.pt").touch()
    cfg = gaitway_isaaclab.env_cfg(get_task(FLAT), actuators="isaaclab")
    assert type(cfg.scene.robot.actuators["legs"]).__name__ == "ActuatorNetLSTMCfg"


# ---- the robot from Gaitway's own model ------------------------------------------------------------------------------


@pytest.fixture
def converted(monkeypatch, tmp_path):
    """The configuration on a machine that Isaac Lab's asset server is out of reach for."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("GAITWAY_ISAACLAB_ASSET", "mjcf")
    return gaitway_isaaclab.env_cfg(get_task(FLAT), 4, "cpu")


def test_nothing_of_it_is_fetched(converted):
    """Isaac Lab's own paths hold the stand-in for its asset server's address; only where one is does it fetch."""
    scene = converted.scene
    assert scene.terrain.class_type.__name__ == "LocalGroundImporter"
    assert scene.terrain.visual_material is None and scene.sky_light.spawn.texture_file is None
    assert not converted.commands.base_velocity.debug_vis
    assert converted.gaitway_asset == "mjcf"


def test_the_converted_robot(converted, tmp_path):
    from isaaclab_assets.robots.anymal import ANYMAL_C_CFG
    from pxr import Usd, UsdPhysics

    robot = converted.scene.robot
    path = Path(robot.spawn.usd_path)
    assert path.is_relative_to(tmp_path)
    stage = Usd.Stage.Open(str(path))
    prims = list(stage.Traverse())
    assert {prim.GetName() for prim in prims if prim.HasAPI(UsdPhysics.RigidBodyAPI)} == set(BODIES)
    assert {prim.GetName() for prim in prims if prim.IsA(UsdPhysics.RevoluteJoint)} == set(ANYMAL_C.joint_names)
    written = path.stat().st_mtime_ns
    gaitway_isaaclab.env_cfg(get_task(FLAT), 4, "cpu")
    assert path.stat().st_mtime_ns == written  # made once
    ours, theirs = robot.spawn.to_dict(), ANYMAL_C_CFG.spawn.to_dict()
    assert {entry for entry, *_ in differences(ours, theirs)} == {
        "usd_path",
        "articulation_props.enabled_self_collisions",
    }


def test_converting_a_robot_before_isaac_sim_starts_imports_nothing_of_it(tmp_path):
    """Isaac Sim cannot start any more in a process that has another ``pxr``."""
    code = (
        "import sys; from gaitway_isaaclab import assets; from gaitway_tasks.robots import ANYMAL_C\n"
        "print(assets._usd_of(ANYMAL_C)); print(*{name.partition('.')[0] for name in sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    path, modules = done.stdout.splitlines()
    assert Path(path).is_relative_to(tmp_path) and Path(path).stat().st_size > 0
    assert not {"pxr", "omni", "trimesh", "isaaclab"} & set(modules.split())


def test_the_ground():
    from gaitway_isaaclab.ground import GROUND
    from pxr import Usd, UsdPhysics

    stage = Usd.Stage.Open(str(GROUND))
    planes = [prim for prim in stage.Traverse() if prim.GetTypeName() == "Plane"]
    assert len(planes) == 1 and planes[0].HasAPI(UsdPhysics.CollisionAPI)
    assert planes[0].GetAttribute("axis").Get() == "Z" and stage.GetDefaultPrim()


def test_masses_that_the_simulator_lost_are_named():
    import mujoco
    import torch
    from gaitway_isaaclab.assets import check_masses
    from gaitway_isaaclab.usd import body_inertials

    model = mujoco.MjModel.from_xml_path(str(ANYMAL_C.mjcf))
    masses = {model.body(i).name: inertial.mass for i, inertial in enumerate(body_inertials(model)) if i > 0}
    loaded = torch.tensor([masses[name] for name in BODIES]).repeat(3, 1)
    articulation = SimpleNamespace(body_names=BODIES, data=SimpleNamespace(default_mass=loaded))
    check_masses(ANYMAL_C, articulation)
    loaded[:, BODIES.index("RF_THIGH")] *= 1.009
    check_masses(ANYMAL_C, articulation)
    loaded[:, BODIES.index("LF_THIGH")] *= 0.98
    with pytest.raises(IsaacLabError, match=r"anymal-c with other masses.*LF_THIGH: .* kg instead of") as error:
        check_masses(ANYMAL_C, articulation)
    assert "RF_THIGH" not in str(error.value)
