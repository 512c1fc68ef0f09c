"""From a run folder to a task and an actor: orders, terms, actions, robots, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from gaitway_sim2real.bundle.signal_policy import SignalPolicy
from gaitway_sim2real.imports.isaaclab.errors import IsaacLabImportError
from gaitway_sim2real.imports.isaaclab.importer import read_run
from gaitway_tasks.mdp import observations
from gaitway_tasks.mdp.commands import UniformVelocityCommand
from gaitway_tasks.robots import GO2, ROBOTS, DCMotor, ImplicitPD
from gaitway_tasks.robots.orders import newton_order, physx_order
from sim2real.imports.isaaclab.run_folder import (
    agent_settings,
    entity,
    env_settings,
    scanner,
    term,
    write_descriptors,
    write_run,
)
from tensordict import TensorDict

N = 5
GO2_XML = ROBOTS["go2"].mjcf


@pytest.fixture
def env():
    return env_settings()


def refused(folder: Path, env, agent=None, *, width=45, actions=12, **options) -> str:
    write_run(folder, env, agent, width=width, actions=actions)
    with pytest.raises(IsaacLabImportError) as error:
        read_run(folder, **options)
    return str(error.value)


def test_everything_of_a_plain_run(tmp_path, env):
    model = write_run(tmp_path, env)
    run = read_run(tmp_path)
    task, robot = run.task, run.task.robot
    assert (run.iteration, run.learner, run.joint_order, run.estimated) == (42, "rsl_rl 5.x", "physx (sim.physx)", ())
    assert task.name == "isaaclab-go2_flat" and robot.name == "go2"
    assert (task.timing.physics_dt, task.timing.decimation, task.timing.episode_length_s) == (0.005, 4, 20.0)
    assert robot.joint_names == physx_order(GO2) != GO2.joint_names
    pose = dict(zip(robot.joint_names, robot.default_joint_pos, strict=True))
    assert pose["FL_hip_joint"] == 0.1 and pose["RR_hip_joint"] == -0.1
    assert pose["FR_thigh_joint"] == 0.8 and pose["RL_thigh_joint"] == 1.0 and pose["RR_calf_joint"] == -1.5
    assert dict(zip(robot.joint_names, robot.joint_limits, strict=True)) == dict(
        zip(GO2.joint_names, GO2.joint_limits, strict=True)
    )
    assert robot.soft_joint_pos_limit_factor == 0.9 and robot.init_height == 0.4
    [law] = robot.actuators.values()
    assert isinstance(law, DCMotor) and law.armature is None
    assert (law.stiffness, law.damping, law.effort_limit, law.saturation_effort, law.velocity_limit) == (
        25.0, 0.5, 23.5, 23.5, 30.0,
    )  # fmt: skip
    assert task.actions.scale == 0.25 and task.actions.offset is None and task.actions.raw_clip is None
    assert task.commands["base_velocity"] == UniformVelocityCommand(lin_vel_y=(-0.5, 0.5), heading=(-3.14, 3.14))
    assert [t.func for t in task.observations["policy"].terms.values()] == [
        observations.base_ang_vel, observations.projected_gravity, observations.generated_commands,
        observations.joint_pos_rel, observations.joint_vel_rel, observations.last_action,
    ]  # fmt: skip
    assert run.notes == ()
    x = torch.randn(N, 45)
    with torch.inference_mode():
        expected = model(TensorDict({"policy": x}, batch_size=[N]))
        assert torch.allclose(run.actor(x), expected, atol=1e-6) and expected.std() > 0.01


def newton(env):
    """The form of 3.0: physics as a configuration of its own, and quaternions the other way round."""
    del env["sim"]["physx"]
    env["sim"]["physics"] = {"class_type": "isaaclab_newton.physics.mjwarp_manager:NewtonMJWarpManager"}
    env["scene"]["robot"]["init_state"]["rot"] = (0.0, 0.0, 0.0, 1.0)


def test_where_the_joint_order_comes_from(tmp_path, env):
    """The names on the command line, then those of the descriptors, then the physics engine."""
    newton(env)
    write_run(tmp_path, env)
    assert read_run(tmp_path).task.robot.joint_names == newton_order(GO2)
    assert read_run(tmp_path).joint_order == "newton (sim.physics)"
    assert read_run(tmp_path, joint_order="physx").task.robot.joint_names == physx_order(GO2)
    backwards = list(reversed(GO2.joint_names))
    write_descriptors(tmp_path, backwards, default_joint_pos=[0.5] * 12)
    described = read_run(tmp_path)
    assert described.task.robot.joint_names == tuple(backwards) and described.joint_order == "IO_descriptors.yaml"
    assert any("default pose: IO_descriptors.yaml has 0.5" in note for note in described.notes)
    given = ",".join(GO2.joint_names)
    assert read_run(tmp_path, joint_order=given).task.robot.joint_names == GO2.joint_names
    with pytest.raises(IsaacLabImportError, match=r"only go2 has RR_calf_joint, only --joint-order has tail"):
        read_run(tmp_path, joint_order=given.replace("RR_calf_joint", "tail"))
    env["sim"]["physics"] = {"class_type": "somewhere:OtherManager"}
    (tmp_path / "io_descriptors" / "IO_descriptors.yaml").unlink()
    assert "neither PhysX nor Newton" in refused(tmp_path, env)
    env["sim"]["physics"] = {"default": {}, "newton_mjwarp": {"num_substeps": 2}, "physx": {}}  # presets left open
    assert "neither PhysX nor Newton" in refused(tmp_path, env)
    env["sim"]["physics"] = {}
    write_run(tmp_path, env)
    assert read_run(tmp_path).joint_order == "physx (Isaac Lab's default)"


@pytest.mark.parametrize(
    ("physics", "order"),
    [
        ({"class_type": "isaaclab_ov.physics.ovphysx_manager:OvPhysxManager"}, physx_order),
        ({"class_type": "isaaclab_physx.physics.physx_manager:PhysxManager"}, physx_order),
        ({"class_type": None, "isaacsim_physx": {"dt": 1}, "ovphysx": {"dt": 1}}, physx_order),  # PhysxAutoCfg
        ({"class_type": "isaaclab_newton.physics.kamino_manager:NewtonKaminoManager"}, newton_order),
    ],
)
def test_the_engines_of_3_0(tmp_path, env, physics, order):
    del env["sim"]["physx"]
    env["sim"]["physics"] = physics
    write_run(tmp_path, env)
    assert read_run(tmp_path).task.robot.joint_names == order(GO2)


def test_an_order_of_the_run_s_own_overrules_the_engine(tmp_path, env):
    robot = env["scene"]["robot"]
    for ordering, expected, source in (
        ("mjwarp", newton_order(GO2), "newton (joint_ordering)"),
        ("PhysX", physx_order(GO2), "physx (joint_ordering)"),
        (tuple(reversed(GO2.joint_names)), tuple(reversed(GO2.joint_names)), "joint_ordering of env.yaml"),
    ):
        robot["joint_ordering"] = ordering
        write_run(tmp_path, env)
        run = read_run(tmp_path)
        assert (run.task.robot.joint_names, run.joint_order) == (expected, source)
    robot["joint_ordering"] = "robot_schema"
    said = refused(tmp_path, env)
    assert "robot.joint_ordering is 'robot_schema'" in said and "--joint-order" in said
    names = ",".join(GO2.joint_names)
    assert read_run(tmp_path, joint_order=names).task.robot.joint_names == GO2.joint_names
    robot["joint_ordering"] = ["FL_hip_joint", "tail"]
    assert "only joint_ordering of env.yaml has tail" in refused(tmp_path, env)


def test_a_history_by_time_step(tmp_path, env):
    """3.0's ``history_order``: each step has all terms of the group, oldest first; other groups are by term."""
    env["observations"]["policy"] |= {"history_length": 2, "history_order": "time"}
    env["observations"]["late"] = {"concatenate_terms": True, "history_length": 3, "history_order": "term",
                                   "gyro": term("base_ang_vel")}  # fmt: skip
    agent = agent_settings()
    agent["obs_groups"] = {"actor": ["policy", "late"]}
    write_run(tmp_path, env, agent, width=2 * 45 + 9)
    run = read_run(tmp_path)
    widths = (3, 3, 3, 12, 12, 12)
    starts = [3 * sum(widths[:k]) for k in range(len(widths))]
    step = [
        [start + age * width + column for start, width in zip(starts, widths, strict=True) for column in range(width)]
        for age in (1, 2)  # of our three
    ]
    assert list(run.observation.columns) == [*step[0], *step[1], *range(135, 144)]
    env["observations"]["policy"]["history_order"] = "sideways"
    assert "policy.history_order is 'sideways'; Isaac Lab has 'term' and 'time'" in refused(tmp_path, env, agent)


def test_a_delayed_observation_is_noted(tmp_path, env):
    env["observations"]["policy"]["joint_vel"] |= {"delay_min_lag": 0, "delay_max_lag": 2, "delay_hold_prob": 1.0}
    write_run(tmp_path, env)
    [note] = read_run(tmp_path).notes
    assert note.startswith("joint_vel: up to 2 control steps late in training")


def test_columns_of_subsets_histories_and_groups(tmp_path, env):
    """The policy's numbers one by one: our observation, with each column telling where it comes from."""
    policy = env["observations"]["policy"]
    policy["joint_pos"] = term(
        "joint_pos", history_length=2,
        params={"asset_cfg": entity("robot", joint_names=["RR_calf_joint", "FL_.*"], preserve_order=True)},
    )  # fmt: skip
    policy["joint_vel"] = term(
        "joint_vel", params={"asset_cfg": entity("robot", joint_ids=[3, 0])}, scale=[0.5, 0.25], clip=(-9.0, 9.0)
    )
    env["observations"]["late"] = {"concatenate_terms": True, "history_length": 3, "flatten_history_dim": True,
                                   "gyro": term("base_ang_vel", scale=(1.0, 2.0, 3.0), history_length=7)}  # fmt: skip
    agent = agent_settings()
    agent["obs_groups"] = {"actor": ["late", "policy"], "critic": ["policy"]}
    widths = {"late.gyro": 9, "policy.base_ang_vel": 3, "policy.projected_gravity": 3, "policy.velocity_commands": 3,
              "policy.joint_pos": 8, "policy.joint_vel": 2, "policy.actions": 12}  # fmt: skip
    write_run(tmp_path, env, agent, width=sum(widths.values()))
    run = read_run(tmp_path)
    assert run.observation.widths == widths
    group = run.task.observations["policy"]
    assert group.history_length == 3
    order, names = run.task.robot.joint_names, list(run.task.robot.joint_names)
    assert group.terms["policy.joint_vel"].scale == tuple(
        {3: 0.5, 0: 0.25}.get(joint, 1.0) for joint in range(len(order))
    )
    assert group.terms["policy.joint_vel"].clip == (-9.0, 9.0)
    # Term-major, oldest first: gyro 3 x 3, then 3 x 3, 3 x 3, 3 x 3 of which the last is read, then 3 x 12, ...
    start = 4 * 9
    picked = [names.index(joint) for joint in ("RR_calf_joint", *(j for j in names if j.startswith("FL_")))]
    assert list(run.observation.columns) == [
        *range(9), *range(9 + 6, 18), *range(18 + 6, 27), *range(27 + 6, 36),
        *(start + 12 + j for j in picked), *(start + 24 + j for j in picked),
        start + 36 + 24 + 3, start + 36 + 24 + 0, *range(start + 72 + 24, start + 108),
    ]  # fmt: skip


def test_actions_of_some_joints_in_an_order_of_their_own(tmp_path, env):
    action = env["actions"]["joint_pos"]
    action |= {"joint_names": ["R._calf_joint", "FL_hip_joint"], "preserve_order": True, "offset": {"FL_.*": 0.3},
               "scale": {".*_calf_joint": 0.5}, "clip": {"FL_hip_joint": (-0.2, 0.4)},
               "use_default_offset": False}  # fmt: skip
    env["actions"]["front"] = {**action, "joint_names": ["F._thigh_joint"], "preserve_order": False, "scale": 2.0,
                               "offset": 0.0, "clip": None, "use_default_offset": True}  # fmt: skip
    env["observations"]["policy"]["actions"] = term("last_action", params={"action_name": "joint_pos"})
    agent = agent_settings()
    agent["clip_actions"] = 0.1
    model = write_run(tmp_path, env, agent, width=3 + 3 + 3 + 12 + 12 + 3, actions=5)
    run = read_run(tmp_path)
    assert run.action_order == (
        "RL_calf_joint", "RR_calf_joint", "FL_hip_joint", "FL_thigh_joint", "FR_thigh_joint",
    )  # fmt: skip
    policy = SignalPolicy(run.task, run.actor).eval()
    signals = [torch.randn(N, width) for width in policy.input_widths.values()]
    signals[-1][:] = 0.0
    names = run.task.robot.joint_names
    with torch.inference_mode():
        raw = run.actor(policy.observation(*signals)[0])
        target, action, _ = policy(*signals)
        seen = policy.observation(*signals)[0][:, list(run.observation.columns)]
        expected = model(TensorDict({"policy": seen}, batch_size=[N])).clamp(-0.1, 0.1)
    assert expected.abs().max() == pytest.approx(0.1) and expected.unique().numel() > 5
    by_name = dict(zip(names, target.T, strict=True))
    wanted = {"RL_calf_joint": 0.5 * expected[:, 0], "RR_calf_joint": 0.5 * expected[:, 1],
              "FL_hip_joint": (0.3 + expected[:, 2]).clamp(-0.2, 0.4), "FL_thigh_joint": 0.8 + 2 * expected[:, 3],
              "FR_thigh_joint": 0.8 + 2 * expected[:, 4]}  # fmt: skip
    for name in names:
        assert torch.allclose(by_name[name], wanted.get(name, torch.zeros(N)), atol=1e-6), name
    assert (action[:, [names.index(n) for n in names if n not in wanted]] == 0.0).all() and raw.shape == (N, 12)
    assert any("FR_hip_joint" in note and "held at 0 rad" in note for note in run.notes)


def test_a_height_scan_becomes_an_estimated_input(tmp_path, env):
    env["scene"]["height_scanner"] = scanner()
    env["observations"]["policy"]["height_scan"] = term(
        "height_scan", params={"sensor_cfg": entity("height_scanner"), "offset": 0.3}, clip=(-1.0, 1.0)
    )
    write_run(tmp_path, env, width=45 + 15)
    run = read_run(tmp_path)
    assert run.estimated == ("height_scan",) and run.observation.widths["height_scan"] == 15
    assert run.task.observations["policy"].terms["height_scan"].params == {"sensor": "height_scanner", "offset": 0.3}
    for changes, said in (
        ({"ordering": "yx"}, "ordering is 'yx'"),
        ({"func": "isaaclab.sensors.ray_caster.patterns.patterns:lidar_pattern"}, "lidar_pattern"),
        ({"direction": (1.0, 0.0, 0.0)}, "do not point down"),
    ):
        env["scene"]["height_scanner"] = scanner(**changes)
        assert said in refused(tmp_path, env, width=60)
    env["scene"]["height_scanner"] = {**scanner(), "ray_alignment": "base"}
    assert "aligned with 'base'" in refused(tmp_path, env, width=60)


def test_all_that_cannot_be_mapped_is_listed_with_its_function(tmp_path, env):
    policy = env["observations"]["policy"]
    policy["base_ang_vel"] = term("my_robot.mdp:base_ang_vel")
    policy["forces"] = term("body_incoming_wrench")
    policy["joint_vel"]["modifiers"] = [{"func": "isaaclab.utils.modifiers.modifier:bias"}]
    policy["joint_pos"]["params"] = {"asset_cfg": entity("table")}
    policy["projected_gravity"] |= {"history_length": 2, "flatten_history_dim": False}
    env["actions"]["wheels"] = {"class_type": "isaaclab.envs.mdp.actions.joint_actions:JointVelocityAction"}
    said = refused(tmp_path, env)
    for line in (
        "observation term 'base_ang_vel': my_robot.mdp:base_ang_vel is not known",
        "observation term 'forces': isaaclab.envs.mdp.observations:body_incoming_wrench is not known",
        "observation term 'joint_vel': isaaclab.envs.mdp.observations:joint_vel_rel passes through modifiers",
        "observation term 'joint_pos': isaaclab.envs.mdp.observations:joint_pos_rel reads 'table', not the robot",
        "observation term 'projected_gravity': isaaclab.envs.mdp.observations:projected_gravity keeps its history",
        "action term 'wheels': isaaclab.envs.mdp.actions.joint_actions:JointVelocityAction is not known",
        "known observation functions are base_lin_vel",
        "only JointPositionAction of isaaclab.envs.mdp",
    ):
        assert line in said
    assert len([line for line in said.splitlines() if line.startswith("  - ")]) == 6


def test_commands_that_cannot_be_carried(tmp_path, env):
    env["commands"]["base_velocity"] |= {
        "class_type": "isaaclab.envs.mdp.commands.pose_2d_command:UniformPose2dCommand",
        "ranges": {"pos_x": (-3.0, 3.0), "pos_y": (-3.0, 3.0), "heading": (-3.14, 3.14)},
    }
    said = refused(tmp_path, env)
    assert "command 'base_velocity': isaaclab.envs.mdp.commands.pose_2d_command:UniformPose2dCommand" in said
    assert "only UniformVelocityCommand" in said
    env["observations"]["policy"]["more"] = term("generated_commands", params={"command_name": "other"})
    assert "reads 2 commands (base_velocity, other)" in refused(tmp_path, env)
    del env["observations"]["policy"]["more"], env["observations"]["policy"]["velocity_commands"]
    assert "no observation term reads a command" in refused(tmp_path, env)


def implicit(**changes):
    return {"class_type": "isaaclab.actuators.actuator_pd:ImplicitActuator", "joint_names_expr": [".*"],
            "effort_limit": None, "effort_limit_sim": 40.0, "velocity_limit_sim": None, "stiffness": 30.0,
            "damping": {".*_hip_joint": 1.0, ".*_thigh_joint": 2.0}, "armature": 0.01, **changes}  # fmt: skip


def test_actuators_joint_by_joint(tmp_path, env):
    actuators = env["scene"]["robot"]["actuators"]
    actuators.clear()
    actuators["all"] = implicit()
    write_run(tmp_path, env)
    robot = read_run(tmp_path).task.robot
    laws = dict(zip(robot.joint_names, robot.joint_actuators, strict=True))
    # A joint that no pattern of a mapping matches gets 0, as in Isaac Lab.
    for name, damping in (("FL_hip_joint", 1.0), ("RR_thigh_joint", 2.0), ("FR_calf_joint", 0.0)):
        law = laws[name]
        assert isinstance(law, ImplicitPD)
        assert (law.stiffness, law.damping, law.effort_limit, law.armature) == (30.0, damping, 40.0, 0.01)
    assert len(robot.actuators) == 3

    path = "isaaclab.actuators.actuator_pd:DelayedPDActuator"
    actuators["all"] = implicit(class_type=path, joint_names_expr=[".*_calf_joint"], damping=1.0, effort_limit=9.0)
    write_run(tmp_path, env)
    run = read_run(tmp_path)
    laws = dict(zip(run.task.robot.joint_names, run.task.robot.joint_actuators, strict=True))
    assert laws["FL_calf_joint"].effort_limit == 9.0  # of the actuator, not of the solver
    assert laws["FL_hip_joint"].stiffness == GO2.joint_actuators[0].stiffness
    assert any("its delay is not part of the bundle" in note for note in run.notes)
    assert any("FL_hip_joint" in note and "in no actuator group" in note for note in run.notes)


def test_limits_by_their_names_of_3_0(tmp_path, env):
    """All numbers differ from Gaitway's Go2, which fills in what a run leaves out."""
    groups = env["scene"]["robot"]["actuators"]
    [motor] = groups.values()
    motor |= {"effort_limit": None, "velocity_limit": None, "effort_limit_sim": None, "actuator_effort_limit": 17.0,
              "actuator_velocity_limit": {".*_hip_joint": 11.0, ".*_thigh_joint": 12.0, ".*_calf_joint": 13.0},
              "joint_effort_limit": None, "joint_velocity_limit": 99.0, "dynamic_friction": 0.1}  # fmt: skip

    def law(**changes):
        motor.update(changes)
        write_run(tmp_path, env)
        run = read_run(tmp_path)
        assert not any("env.yaml does not say" in note for note in run.notes)
        return run, dict(zip(run.task.robot.joint_names, run.task.robot.joint_actuators, strict=True))["FL_calf_joint"]

    run, found = law()
    assert isinstance(found, DCMotor) and (found.effort_limit, found.velocity_limit) == (17.0, 13.0)
    assert any("joint friction is that of the model" in note for note in run.notes)
    # A motor without a speed of its own has the solver's, and the solver clips what it gives.
    _, found = law(actuator_velocity_limit=None, joint_effort_limit=15.0)
    assert (found.effort_limit, found.velocity_limit) == (15.0, 99.0)
    _, found = law(class_type="isaaclab.actuators.actuator_pd:IdealPDActuator", joint_effort_limit=None)
    assert isinstance(found, ImplicitPD) and found.effort_limit == 17.0
    # An implicit drive is clipped by the solver; the actuator's own limit only appears in its telemetry there.
    _, found = law(class_type="isaaclab.actuators.actuator_pd:ImplicitActuator", joint_effort_limit=16.0)
    assert isinstance(found, ImplicitPD) and found.effort_limit == 16.0


def test_an_actuator_network_becomes_the_motor_around_it(tmp_path, env):
    [group] = env["scene"]["robot"]["actuators"].values()
    group |= {"class_type": "isaaclab.actuators.actuator_net:ActuatorNetMLP", "stiffness": None, "damping": None,
              "network_file": "https://somewhere/unitree_go2.pt", "effort_limit": 11.0}  # fmt: skip
    write_run(tmp_path, env)
    run = read_run(tmp_path)
    [law] = run.task.robot.actuators.values()
    own = GO2.joint_actuators[0]
    assert isinstance(law, DCMotor) and law.effort_limit == 11.0
    assert (law.stiffness, law.damping) == (own.stiffness, own.damping)
    assert any("trained with a network (unitree_go2.pt)" in note for note in run.notes)
    assert "no stiffness for my_FL_hip_joint" in refused(tmp_path, rename(env), model=renamed(tmp_path))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"class_type": "my.module:Muscle"}, "class_type is my.module:Muscle: only ImplicitActuator"),
        ({"joint_names_expr": ["wheel"]}, "'wheel' matches none of the joints"),
    ],
)
def test_actuators_without_an_equivalent(tmp_path, env, change, said):
    env["scene"]["robot"]["actuators"] = {"all": implicit(**change)}
    assert said in refused(tmp_path, env)


def rename(env):
    """The same run with a robot and joint names of its own."""
    robot = env["scene"]["robot"]
    robot["spawn"]["usd_path"] = "/data/my_dog.usd"
    robot["init_state"]["joint_pos"] = {f"my_{key}": value for key, value in robot["init_state"]["joint_pos"].items()}
    for group in robot["actuators"].values():
        group["joint_names_expr"] = [f"my_{pattern}" for pattern in group["joint_names_expr"]]
    env["rewards"] = {"feet_air_time": {"params": {"sensor_cfg": entity("contact_forces", body_names=".*_foot")}}}
    return env


def renamed(folder: Path) -> Path:
    """The Go2's model with those joint names, a floor, and meshes that lie beside it."""
    text = GO2_XML.read_text()
    for joint in GO2.joint_names:
        text = text.replace(f'"{joint}"', f'"my_{joint}"')
    corners = [(x, y, z) for x in (0, 1) for y in (0, 1) for z in (0, 1)]
    faces = ["1 3 4", "1 4 2", "5 6 8", "5 8 7", "1 2 6", "1 6 5", "3 7 8", "3 8 4", "1 5 7", "1 7 3", "2 4 8", "2 8 6"]
    lines = [f"v {x} {y} {z}" for x, y, z in corners] + [f"f {face}" for face in faces]
    (folder / "box.obj").write_text("\n".join(lines))
    assets = '<asset><mesh name="box" file="box.obj" scale="0.02 0.03 0.04"/></asset>'
    text = text.replace("<worldbody>", f'{assets}<worldbody><geom type="plane" size="1 1 1"/>', 1)
    start = text.index("<body", text.index("<body", text.index("<body") + 1) + 1)
    end = text.index(">", start) + 1
    text = text[:end] + '<geom type="mesh" mesh="box" contype="1" conaffinity="1" pos="0.1 0 0"/>' + text[end:]
    path = folder / "my_dog.xml"
    path.write_text(text)
    return path


def test_an_unknown_robot_needs_its_model(tmp_path, env):
    rename(env)
    said = refused(tmp_path, env)
    assert "/data/my_dog.usd, which is none of the robots known here (anymal-c" in said and "--model" in said
    assert "is go2 the robot of this run?" in refused(tmp_path, env, robot="go2")
    assert "--robot 'dog' is not known" in refused(tmp_path, env, robot="dog")
    model = renamed(tmp_path)
    run = read_run(tmp_path, model=model)
    robot = run.task.robot
    assert robot.name == "my_dog" and robot.joint_names == tuple(f"my_{joint}" for joint in physx_order(GO2))
    assert set(robot.foot_names) == set(GO2.foot_names) and robot.base_name == GO2.base_name
    assert any("if the training asset keeps all joints in one place" in note for note in run.notes)
    bundle = run.export(tmp_path / "bundle")
    (tmp_path / "box.obj").unlink()
    import mujoco

    alone = mujoco.MjModel.from_xml_path(str(bundle / "robot.xml"))
    own = mujoco.MjModel.from_xml_path(str(GO2_XML))
    assert alone.nmesh == 1 and alone.body("world").geomnum[0] == 0
    # The box is 0.02 x 0.03 x 0.04 at 0.1 on the second link, wherever MuJoCo puts a mesh's own origin.
    [geom] = [g for g in range(alone.ngeom) if alone.geom_type[g] == mujoco.mjtGeom.mjGEOM_MESH]
    corners = alone.mesh_vert @ quat_matrix(alone.geom_quat[geom]).T + alone.geom_pos[geom]
    assert corners.min(0) == pytest.approx([0.1, 0.0, 0.0], abs=1e-6)
    assert corners.max(0) == pytest.approx([0.12, 0.03, 0.04], abs=1e-6)
    added = alone.body_subtreemass[1] - own.body_subtreemass[1]
    assert added == pytest.approx(0.0, abs=1e-4)  # links with an inertial of their own weigh what it says


def quat_matrix(quat):
    import mujoco
    import numpy as np

    matrix = np.zeros(9)
    mujoco.mju_quat2Mat(matrix, quat)
    return matrix.reshape(3, 3)


def test_models_that_are_no_robot(tmp_path, env):
    write_run(tmp_path, rename(env))
    path = tmp_path / "fixed.xml"
    for body, said in (
        ('<body name="a"><joint name="j"/><geom size="1"/></body>', "body 'a' has no free joint"),
        ('<body name="a"><freejoint/><geom size="1"/></body>', "has no hinge or slide joint"),
        ('<body name="a"><freejoint/><geom size="1"/><body name="b"><joint/><geom size="1"/></body></body>', "no name"),
    ):
        path.write_text(f"<mujoco><worldbody>{body}</worldbody></mujoco>")
        with pytest.raises(ValueError, match=said):
            read_run(tmp_path, model=path)


def test_folders_that_are_no_run(tmp_path, env):
    with pytest.raises(IsaacLabImportError, match="no run folder at"):
        read_run(tmp_path / "absent")
    with pytest.raises(IsaacLabImportError, match=r"has no params/env.yaml, which Isaac Lab's train.py writes$"):
        read_run(tmp_path)
    write_run(tmp_path / "2026-01-01", env)
    with pytest.raises(IsaacLabImportError, match=r"its runs are 2026-01-01: give one of them"):
        read_run(tmp_path)
    assert (
        read_run(tmp_path / "2026-01-01" / "params", checkpoint=tmp_path / "2026-01-01" / "model_42.pt").iteration == 42
    )
    del env["observations"]
    assert "env.yaml has no 'observations': only manager-based tasks" in refused(tmp_path / "direct", env)


def test_a_checkpoint_of_another_task_names_the_term(tmp_path, env):
    said = refused(tmp_path, env, width=48)
    assert "actor_state_dict['obs_normalizer._mean']" in said or "actor_state_dict['mlp.0.weight']" in said
    assert "it reads 48 numbers, and env.yaml's terms give 45" in said and "joint_pos 12" in said


def test_default_velocities_other_than_zero_are_refused(tmp_path, env):
    env["scene"]["robot"]["init_state"]["joint_vel"] = {".*_hip_joint": 0.5}
    assert "joint_vel of FL_hip_joint is 0.5" in refused(tmp_path, env)
