"""Runs as Isaac Lab 2.3.2 and rsl_rl 3.0.1 would leave them, and what their policies answer.

The configuration files come from Isaac Lab's own tasks and writer, the checkpoint from rsl_rl's own classes and writer
(weights as initialised: nothing is learnt), and the answers from Isaac Lab's own observation manager and joint action
on random states, in the joint order of PhysX. Written for
``tests/sim2real/imports/isaaclab/test_stock_import.py``, which imports the runs in another environment and compares.
"""

from __future__ import annotations

import contextlib
import importlib
import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import torch
import yaml
from gaitway_tasks.robots import ROBOTS
from gaitway_tasks.robots.orders import physx_order
from isaac_side import Entity, Scene
from isaaclab.envs.mdp.actions.joint_actions import JointPositionAction
from isaaclab.envs.utils.io_descriptors import export_articulations_data
from isaaclab.managers import ObservationManager
from isaaclab.utils.io import dump_yaml
from isaaclab.utils.math import quat_apply_inverse
from isaaclab.utils.string import resolve_matching_names_values
from rsl_rl.modules import ActorCritic, ActorCriticRecurrent
from rsl_rl.runners import OnPolicyRunner
from tensordict import TensorDict

ROBOT_OF = {
    "Anymal-B": "anymal-b",
    "Anymal-C": "anymal-c",
    "Anymal-D": "anymal-d",
    "Unitree-Go1": "go1",
    "Unitree-Go2": "go2",
    "Unitree-A1": "a1",
    "H1": "h1",
    "G1": "g1",
}
"""Isaac Lab's name of each robot of its velocity tasks, and Gaitway's."""

TASKS = (
    *(f"Isaac-Velocity-Flat-{name}-v0" for name in ROBOT_OF),
    *(f"Isaac-Velocity-Rough-{name}-v0" for name in ROBOT_OF),
)
VARIANTS = ("recurrent", "reordered", "edited")
"""Further runs, of the flat ANYmal D, Go2 and G1: see :func:`write_variant`."""

N, STEPS = 8, 5


class Robot(Entity):
    """An articulation's names and state, for ``joints`` in this order."""

    def __init__(self, joints: list[str], data: SimpleNamespace):
        super().__init__(data)
        self.joint_names, self.num_joints = joints, len(joints)


def load(task: str) -> tuple[Any, Any]:
    """The environment's and the agent's configuration of a registered task."""
    package = task.split("-")[-2].lower() if "Anymal" not in task else f"anymal_{task.split('-')[-2].lower()}"
    importlib.import_module(f"isaaclab_tasks.manager_based.locomotion.velocity.config.{package}")
    entries = gymnasium.spec(task).kwargs

    def make(entry: str) -> Any:
        module, _, name = entry.partition(":")
        return getattr(importlib.import_module(module), name)()

    return make(entries["env_cfg_entry_point"]), make(entries["rsl_rl_cfg_entry_point"])


def joints_of(task: str) -> list[str]:
    return list(physx_order(ROBOTS[next(ours for name, ours in ROBOT_OF.items() if f"-{name}-" in task)]))


def write_stock(task: str, out: Path) -> None:
    """The run of a task as shipped."""
    env_cfg, agent_cfg = load(task)
    write_run(out, env_cfg, agent_cfg, joints_of(task))


def write_variant(kind: str, out: Path) -> None:
    """A run of an edited task: what people change first.

    ``recurrent``: LSTM, normaliser, history, scales, clips and clipped actions. ``reordered``: joints in an order that
    only the IO descriptors tell. ``edited``: an action on some of the joints with a scale for each, terms of joint
    subsets, and histories of different lengths.
    """
    task = {"recurrent": "Isaac-Velocity-Flat-Anymal-D-v0", "reordered": "Isaac-Velocity-Flat-Unitree-Go2-v0",
            "edited": "Isaac-Velocity-Flat-G1-v0"}[kind]  # fmt: skip
    env_cfg, agent_cfg = load(task)
    joints, policy = joints_of(task), env_cfg.observations.policy
    policy_cfg = agent_cfg.policy
    if kind == "recurrent":
        from isaaclab_rl.rsl_rl import RslRlPpoActorCriticRecurrentCfg

        policy.history_length = 3
        policy.base_ang_vel.scale, policy.base_ang_vel.clip = 0.25, (-2.0, 2.0)
        policy.velocity_commands.scale = (2.0, 2.0, 0.25)
        agent_cfg.clip_actions = 0.03
        agent_cfg.policy = RslRlPpoActorCriticRecurrentCfg(
            init_noise_std=1.0, actor_obs_normalization=True, critic_obs_normalization=False,
            actor_hidden_dims=[64, 32], critic_hidden_dims=[64, 32], activation="elu",
            rnn_type="lstm", rnn_hidden_dim=48, rnn_num_layers=2,
        )  # fmt: skip
    elif kind == "reordered":
        joints = joints[::-1]
    else:
        from isaaclab.envs import mdp
        from isaaclab.managers import SceneEntityCfg

        action = env_cfg.actions.joint_pos
        action.joint_names, action.preserve_order = [".*_ankle_.*", ".*_hip_.*", ".*_knee_joint"], True
        action.scale = {".*_hip_.*": 0.3, "left_knee_joint": 0.7}
        action.clip = {".*_ankle_roll_joint": (-0.01, 0.01)}
        policy.joint_pos.func = mdp.joint_pos  # not relative to the default pose
        policy.joint_pos.params = {"asset_cfg": SceneEntityCfg("robot", joint_names=[".*_knee_joint", ".*_hip_.*"])}
        policy.joint_vel.params = {
            "asset_cfg": SceneEntityCfg("robot", joint_names=[".*_knee_joint", "torso_joint"], preserve_order=True)
        }
        policy.joint_vel.history_length, policy.projected_gravity.history_length = 4, 2
        policy_cfg.actor_obs_normalization = True
    write_run(out, env_cfg, agent_cfg, joints, descriptors=kind == "reordered")


def write_run(out: Path, env_cfg: Any, agent_cfg: Any, joints: list[str], *, descriptors: bool = False) -> None:
    """A run folder and, in it, ``reference.npz``: signals by name (T, N, d) and the joint targets they give."""
    dump_yaml(str(out / "params" / "env.yaml"), env_cfg)
    dump_yaml(str(out / "params" / "agent.yaml"), agent_cfg)
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(1)
    env = make_env(env_cfg, joints)
    if descriptors:
        (out / "io_descriptors").mkdir(exist_ok=True)
        text = yaml.safe_dump({"articulations": export_articulations_data(env)})
        (out / "io_descriptors" / "IO_descriptors.yaml").write_text(text)
    randomize(env, env_cfg, generator)
    action = JointPositionAction(env_cfg.actions.joint_pos, env)
    env.action_manager.action = torch.zeros(N, action.action_dim)
    env_cfg.observations.policy.enable_corruption = False
    manager = ObservationManager(env_cfg.observations, env)
    width = manager.group_obs_dim["policy"][0]
    actor = make_actor(agent_cfg, width, action.action_dim, generator)
    save(actor, out / "model_300.pt")
    rows: dict[str, list[np.ndarray]] = {}
    for _ in range(STEPS):
        randomize(env, env_cfg, generator)
        observation = manager.compute(update_history=True)["policy"]
        with torch.inference_mode():
            raw = actor.act_inference(TensorDict({"policy": observation}, batch_size=[N]))
        if agent_cfg.clip_actions is not None:  # as RslRlVecEnvWrapper.step
            raw = torch.clamp(raw, -agent_cfg.clip_actions, agent_cfg.clip_actions)
        env.action_manager.action = raw.clone()
        action.process_actions(raw)
        action.apply_actions()
        for name, value in {**signals(env), "target": env.target, "observation": observation}.items():
            rows.setdefault(name, []).append(value.numpy().copy())
    stacked = {name: np.stack(values) for name, values in rows.items()}
    np.savez_compressed(out / "reference.npz", joint_names=np.array(joints), **stacked)


def make_env(env_cfg: Any, joints: list[str]) -> Any:
    """Environment for managers and terms, with the pose and the height scanner of ``env_cfg``."""
    count = len(joints)
    pose = torch.zeros(N, count)
    ids, _, values = resolve_matching_names_values(env_cfg.scene.robot.init_state.joint_pos, joints)
    pose[:, ids] = torch.tensor(values)
    data = SimpleNamespace(default_joint_pos=pose, default_joint_vel=torch.zeros(N, count),
                           default_joint_pos_limits=torch.zeros(N, count, 2))  # fmt: skip
    for name in ("damping", "stiffness", "friction", "armature"):
        setattr(data, f"default_joint_{name}", torch.zeros(N, count))
    robot = Robot(joints, data)
    env = SimpleNamespace(num_envs=N, device="cpu", sim=SimpleNamespace(is_playing=lambda: True))
    env.target = torch.zeros(N, count)  # Isaac Lab's buffer begins at zero

    def set_target(target: torch.Tensor, joint_ids: Any) -> None:
        env.target[:, joint_ids] = target

    robot.set_joint_position_target = set_target
    sensors = {}
    if (scanner := getattr(env_cfg.scene, "height_scanner", None)) is not None:
        starts, _ = scanner.pattern_cfg.func(scanner.pattern_cfg, "cpu")
        sensors["height_scanner"] = SimpleNamespace(data=SimpleNamespace(), starts=starts)
    env.scene = Scene(robot, sensors, N)
    env.scene.articulations = {"robot": robot}
    env.command_manager = SimpleNamespace(get_command=lambda name: env.command)
    env.action_manager = SimpleNamespace(action=None)
    return env


def randomize(env: Any, env_cfg: Any, generator: torch.Generator) -> None:
    """New states of everything that a term of the velocity tasks reads."""

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    robot = env.scene["robot"]
    data, count = robot.data, robot.num_joints
    data.joint_pos = data.default_joint_pos + 0.3 * normal(N, count)
    data.joint_vel = 2.0 * normal(N, count)
    data.root_quat_w = torch.nn.functional.normalize(normal(N, 4), dim=1)
    down = torch.tensor([[0.0, 0.0, -1.0]]).repeat(N, 1)
    data.projected_gravity_b = quat_apply_inverse(data.root_quat_w, down)
    data.root_lin_vel_b, data.root_ang_vel_b = normal(N, 3), normal(N, 3)
    env.command = normal(N, 3)
    if "height_scanner" in env.scene.sensors:
        sensor = env.scene.sensors["height_scanner"]
        sensor.data.pos_w = 0.6 + 0.1 * normal(N, 3)
        sensor.data.ray_hits_w = 0.3 * normal(N, len(sensor.starts), 3)


def signals(env: Any) -> dict[str, torch.Tensor]:
    """The state under the names of a bundle's inputs; quaternions of Isaac Lab 2.3 are w, x, y, z."""
    data = env.scene["robot"].data
    named = {"joint_pos": data.joint_pos, "joint_vel": data.joint_vel, "imu_quat_wxyz": data.root_quat_w,
             "gyro": data.root_ang_vel_b, "command": env.command, "base_lin_vel": data.root_lin_vel_b}  # fmt: skip
    if "height_scanner" in env.scene.sensors:
        scan = env.scene.sensors["height_scanner"].data
        named["height_scan"] = scan.pos_w[:, 2:3] - scan.ray_hits_w[..., 2]
    return named


def make_actor(agent_cfg: Any, width: int, actions: int, generator: torch.Generator) -> Any:
    """rsl_rl's policy of the configuration, its normaliser having seen something."""
    settings = agent_cfg.policy.to_dict()
    kind = {"ActorCritic": ActorCritic, "ActorCriticRecurrent": ActorCriticRecurrent}[settings.pop("class_name")]
    seen = TensorDict({"policy": torch.randn(64, width, generator=generator) * 2 + 0.5}, batch_size=[64])
    with contextlib.redirect_stdout(io.StringIO()):  # it prints itself
        actor = kind(seen, {"policy": ["policy"], "critic": ["policy"]}, actions, **settings)
    actor.update_normalization(seen)
    return actor.eval()


def save(actor: Any, path: Path) -> None:
    """rsl_rl's own writer."""
    optimizer = torch.optim.Adam(actor.parameters())
    alg = SimpleNamespace(policy=actor, optimizer=optimizer, rnd=None)
    runner = SimpleNamespace(alg=alg, current_learning_iteration=300, logger_type="tensorboard", disable_logs=True)
    OnPolicyRunner.save(runner, str(path))
