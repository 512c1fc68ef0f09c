"""Converted robots as PhysX and Newton load them: their roots, what their joints lose to friction, late targets."""

import mujoco
import numpy as np
import pytest
import torch
from gaitway_tasks.mdp.events import randomize_action_delay
from gaitway_tasks.registry import get_task
from gaitway_tasks.robots import ROBOTS, ImplicitPD
from gaitway_tasks.robots.anymal_c import ANYMAL_C
from gaitway_tasks.robots.mjcf import set_actuators
from gaitway_tasks.spec import Event

# Arms on a floating base swing on the springs of their drives. Nothing but friction and damping slows them.
ARMS = {
    "free": "",
    "rubbing": 'frictionloss="0.15"',
    "oily": 'damping="0.1"',
    "both": 'frictionloss="0.05" damping="0.05"',
}
ARM = """
<body name="{name}" pos="0 {y} 0">
  <joint name="{name}_hinge" axis="0 1 0" {loss}/>
  <geom type="sphere" size="0.05" pos="0 0 -0.3" mass="1"/>
</body>
"""
SWING = """
<mujoco><option gravity="0 0 0" timestep="0.002" integrator="implicitfast"/><worldbody><body name="base"><freejoint/>
  <geom type="box" size="0.1 0.5 0.1" mass="2000"/>{arms}
</body></worldbody></mujoco>
"""
STEPS, DT = 1000, 0.002


@pytest.fixture(scope="module")
def swing(tmp_path_factory):
    path = tmp_path_factory.mktemp("swing") / "swing.xml"
    arms = [ARM.format(name=name, y=0.3 * row - 0.45, loss=loss) for row, (name, loss) in enumerate(ARMS.items())]
    path.write_text(SWING.format(arms="".join(arms)))
    return ANYMAL_C.replace(
        name="swing",
        joint_names=tuple(f"{name}_hinge" for name in ARMS),
        body_names=("base", *ARMS),
        foot_names=(),
        default_joint_pos=(0.0,) * len(ARMS),
        joint_limits=((-3.0, 3.0),) * len(ARMS),
        actuators={"springs": ImplicitPD(stiffness=2.0, damping=0.0, effort_limit=10.0)},
        mjcf=path,
        mirrors={},
        usd=None,
    )


@pytest.fixture(scope="module")
def scene(lab, physics, swing, tmp_path_factory):
    """The swing beside every robot; for Newton, which takes long to get ready, beside one of those it got wrong."""
    from gaitway_isaaclab import assets
    from gaitway_isaaclab.actuators import actuator_cfgs
    from gaitway_isaaclab.compat import do_without_gpu
    from isaaclab.scene import InteractiveScene, InteractiveSceneCfg
    from isaaclab.sim import SimulationCfg, SimulationContext
    from isaaclab_newton.physics import MJWarpSolverCfg, NewtonCfg
    from isaaclab_ov.physics import OvPhysxCfg

    newton = NewtonCfg(solver_cfg=MJWarpSolverCfg(njmax=200, nconmax=50, integrator="implicitfast"))
    sim_cfg = SimulationCfg(
        dt=DT, device="cpu", gravity=(0.0, 0.0, 0.0), physics=OvPhysxCfg() if physics == "physx" else newton
    )
    do_without_gpu(sim_cfg)
    cfg = InteractiveSceneCfg(num_envs=1, env_spacing=50.0)
    robots = [swing, *(ROBOTS.values() if physics == "physx" else [ROBOTS["g1-29dof"]])]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        for row, robot in enumerate(robots):
            articulation = assets._converted(robot)
            articulation.prim_path = f"{{ENV_REGEX_NS}}/{robot.name.replace('-', '_')}"
            articulation.init_state.pos = (3.0 * row, 0.0, 2.0)
            articulation.init_state.joint_pos = dict(zip(robot.joint_names, robot.default_joint_pos, strict=True))
            articulation.actuators = actuator_cfgs(get_task("velocity-flat-anymal-c").replace(robot=robot))
            setattr(cfg, robot.name, articulation)
    sim = SimulationContext(sim_cfg)
    scene = InteractiveScene(cfg)
    sim.reset()
    for articulation in scene.articulations.values():  # PhysX has made a step from the pose of the USD
        rest = articulation.data.default_joint_pos.torch
        articulation.write_joint_position_to_sim_index(position=rest)
        articulation.write_joint_velocity_to_sim_index(velocity=torch.zeros_like(rest))
        articulation.write_root_velocity_to_sim_index(root_velocity=torch.zeros(1, 6))
        articulation.set_joint_position_target_index(target=rest)
    yield scene
    sim.clear_instance()


def test_the_base_is_the_root_and_joints_have_their_friction(scene):
    for name, articulation in scene.articulations.items():
        if name == "swing":
            continue
        robot, data = ROBOTS[name], articulation.data
        assert articulation.body_names[0] == robot.base_name, name
        model = mujoco.MjModel.from_xml_path(str(robot.mjcf))
        dofs = [int(model.joint(joint).dofadr[0]) for joint in articulation.joint_names]
        friction, damping = model.dof_frictionloss[dofs], np.ravel(model.dof_damping)[dofs]
        np.testing.assert_allclose(data.joint_friction_coeff.torch[0], friction, rtol=1e-5, err_msg=name)
        np.testing.assert_allclose(data.joint_viscous_friction_coeff.torch[0], damping, rtol=1e-5, err_msg=name)


def swung_in_mujoco(robot):
    """Angles of the hinges after each step, (STEPS, J)."""
    spec = mujoco.MjSpec.from_file(str(robot.mjcf))
    set_actuators(spec, robot.joint_names, robot.joint_actuators)
    model = spec.compile()
    data, angles = mujoco.MjData(model), []
    data.qpos[7:] = 1.0
    for _ in range(STEPS):
        mujoco.mj_step(model, data)
        angles.append(data.qpos[7:].copy())
    return np.array(angles)


def test_a_swinging_joint_comes_to_rest_as_in_mujoco(scene, swing):
    robot, sim = scene["swing"], scene.sim
    columns = [robot.joint_names.index(name) for name in swing.joint_names]
    robot.write_joint_position_to_sim_index(position=torch.ones(1, len(columns)))
    robot.write_joint_velocity_to_sim_index(velocity=torch.zeros(1, len(columns)))
    angles = []
    for _ in range(STEPS):
        scene.write_data_to_sim()
        sim.step(render=False)
        scene.update(DT)
        angles.append(robot.data.joint_pos.torch[0, columns].clone().numpy())
    expected = swung_in_mujoco(swing)
    np.testing.assert_allclose(np.array(angles), expected, atol=0.02)
    swings = np.abs(expected[-400:]).max(0)  # how far each still goes
    assert swings[0] > 0.95 and (swings[1:] < swings[0] - 0.2).all()


def test_late_targets_reach_the_implicit_drives_of_physx(make, monkeypatch, tmp_path):
    """An action a control step late is the last action in time, the default pose before the first."""
    import gaitway_isaaclab

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    late = Event(func=randomize_action_delay, mode="reset", params={"delay_range": (0.0, 0.02)})
    task = get_task("velocity-flat-h1").replace(events={"late": late})
    env = make(gaitway_isaaclab.env_cfg(task, 2, "cpu", 0, "physx", asset="mjcf"))
    robot = env.scene["robot"]
    assert env.cfg.sim.use_newton_actuators and robot.actuators.has_implicit_actuators
    env.reset()
    steps_late = env.action_manager.get_term("joint_pos")._delay_line.steps_late
    steps_late[:] = torch.tensor([env.cfg.decimation, 0])
    start = robot.data.joint_pos.torch.clone()
    actions = torch.randn(6, 1, task.robot.num_joints, generator=torch.Generator().manual_seed(0))
    last = torch.zeros_like(actions[0])
    for action in actions:
        env.step(torch.cat([action, last]))
        last = action
        torch.testing.assert_close(robot.data.joint_pos.torch[0], robot.data.joint_pos.torch[1], rtol=0.0, atol=1e-3)
    assert (robot.data.joint_pos.torch - start).abs().max() > 0.1
