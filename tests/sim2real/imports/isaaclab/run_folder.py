"""Run folders in the shape that Isaac Lab leaves them, small and of our own making."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import torch
import yaml
from rsl_rl.models import MLPModel, RNNModel
from tensordict import TensorDict

OBSERVATIONS = "isaaclab.envs.mdp.observations"
WHOLE = slice(None, None, None)


def term(function: str, **changes: Any) -> dict[str, Any]:
    """An observation term as Isaac Lab writes it; ``function`` of its ``mdp.observations`` unless it names a module."""
    path = function if ":" in function else f"{OBSERVATIONS}:{function}"
    return {"func": path, "params": {}, "modifiers": None, "noise": {"n_min": -0.1, "n_max": 0.1}, "clip": None,
            "scale": None, "history_length": 0, "flatten_history_dim": True, **changes}  # fmt: skip


def entity(name: str, **changes: Any) -> dict[str, Any]:
    """A ``SceneEntityCfg``."""
    return {"name": name, "joint_names": None, "joint_ids": WHOLE, "body_names": None, "body_ids": WHOLE,
            "preserve_order": False, **changes}  # fmt: skip


def env_settings() -> dict[str, Any]:
    """A velocity task of the Go2 with PhysX, in the form of 2.3."""
    return {
        "sim": {"device": "cuda:0", "dt": 0.005, "gravity": (0.0, 0.0, -9.81), "physx": {"solver_type": 1}},
        "decimation": 4,
        "episode_length_s": 20.0,
        "scene": {
            "num_envs": 4096,
            "robot": {
                "class_type": "isaaclab.assets.articulation.articulation:Articulation",
                "spawn": {"usd_path": "https://somewhere/Isaac/IsaacLab/Robots/Unitree/Go2/go2.usd"},
                "init_state": {
                    "pos": (0.0, 0.0, 0.4),
                    "joint_pos": {".*L_hip_joint": 0.1, ".*R_hip_joint": -0.1, "F[L,R]_thigh_joint": 0.8,
                                  "R[L,R]_thigh_joint": 1.0, ".*_calf_joint": -1.5},
                    "joint_vel": {".*": 0.0},
                },
                "soft_joint_pos_limit_factor": 0.9,
                "actuators": {
                    "base_legs": {
                        "class_type": "isaaclab.actuators.actuator_pd:DCMotor",
                        "joint_names_expr": [".*_hip_joint", ".*_thigh_joint", ".*_calf_joint"],
                        "effort_limit": 23.5, "velocity_limit": 30.0, "saturation_effort": 23.5,
                        "effort_limit_sim": 1.0e9, "stiffness": 25.0, "damping": 0.5, "armature": None,
                        "friction": 0.0,
                    }
                },
            },
            "height_scanner": None,
        },
        "observations": {
            "policy": {
                "concatenate_terms": True, "concatenate_dim": -1, "enable_corruption": True, "history_length": None,
                "flatten_history_dim": True,
                "base_ang_vel": term("base_ang_vel"),
                "projected_gravity": term("projected_gravity"),
                "velocity_commands": term("generated_commands", params={"command_name": "base_velocity"}),
                "joint_pos": term("joint_pos_rel"),
                "joint_vel": term("joint_vel_rel"),
                "actions": term("last_action"),
                "height_scan": None,
            }
        },
        "actions": {
            "joint_pos": {
                "class_type": "isaaclab.envs.mdp.actions.joint_actions:JointPositionAction", "asset_name": "robot",
                "clip": None, "joint_names": [".*"], "scale": 0.25, "offset": 0.0, "preserve_order": False,
                "use_default_offset": True,
            }
        },
        "commands": {
            "base_velocity": {
                "class_type": "isaaclab.envs.mdp.commands.velocity_command:UniformVelocityCommand",
                "resampling_time_range": (10.0, 10.0), "heading_command": True, "heading_control_stiffness": 0.5,
                "rel_standing_envs": 0.02, "rel_heading_envs": 1.0,
                "ranges": {"lin_vel_x": (-1.0, 1.0), "lin_vel_y": (-0.5, 0.5), "ang_vel_z": (-1.0, 1.0),
                           "heading": (-3.14, 3.14)},
            }
        },
    }  # fmt: skip


def scanner(**pattern: Any) -> dict[str, Any]:
    """A height scanner of the scene, 5 x 3 points."""
    return {
        "prim_path": "{ENV_REGEX_NS}/Robot/base",
        "offset": {"pos": (0.0, 0.0, 20.0), "rot": (1.0, 0.0, 0.0, 0.0)},
        "attach_yaw_only": None,
        "ray_alignment": "yaw",
        "pattern_cfg": {
            "func": "isaaclab.sensors.ray_caster.patterns.patterns:grid_pattern", "resolution": 0.2,
            "size": [0.8, 0.4], "direction": (0.0, 0.0, -1.0), "ordering": "xy", **pattern,
        },
    }  # fmt: skip


def agent_settings(**actor: Any) -> dict[str, Any]:
    """Settings of the agent in the form of 3.0, whose unset fields are ``{}``."""
    return {
        "empirical_normalization": {},
        "obs_groups": {},
        "clip_actions": None,
        "experiment_name": "go2_flat",
        "class_name": "OnPolicyRunner",
        "actor": {
            "class_name": "MLPModel", "hidden_dims": [32, 16], "activation": "elu", "obs_normalization": True,
            "distribution_cfg": {"class_name": "GaussianDistribution", "init_std": 1.0, "std_type": "scalar"},
            "stochastic": {}, "init_noise_std": {}, **actor,
        },
        "policy": {},
    }  # fmt: skip


def make_model(agent: dict[str, Any], width: int, actions: int) -> MLPModel:
    """rsl_rl 5's own actor of the settings, its normaliser having seen something."""
    settings = {k: copy.deepcopy(v) for k, v in agent["actor"].items() if v != {}}
    kind = {"MLPModel": MLPModel, "RNNModel": RNNModel}[settings.pop("class_name")]
    seen = TensorDict({"policy": torch.randn(64, width) * 2 + 0.5}, batch_size=[64])
    model = kind(seen, {"actor": ["policy"]}, "actor", actions, **settings)
    model.update_normalization(seen)
    return model.eval()


def save_model(model: MLPModel, path: Path, iteration: int = 42) -> None:
    """A checkpoint with the sections that rsl_rl 5 writes."""
    optimizer = torch.optim.Adam(model.parameters())
    sections = {"actor_state_dict": model.state_dict(), "critic_state_dict": {}}
    sections["optimizer_state_dict"] = optimizer.state_dict()
    torch.save({**sections, "iter": iteration, "infos": None}, path)


def write_run(
    folder: Path,
    env: dict[str, Any] | None = None,
    agent: dict[str, Any] | None = None,
    *,
    width: int = 45,
    actions: int = 12,
) -> MLPModel:
    """A complete run folder; returns the actor whose weights are in it."""
    agent = agent or agent_settings()
    (folder / "params").mkdir(parents=True, exist_ok=True)
    for name, data in (("env", env or env_settings()), ("agent", agent)):
        (folder / "params" / f"{name}.yaml").write_text(yaml.dump(data, sort_keys=False))
    model = make_model(agent, width, actions)
    save_model(model, folder / "model_42.pt")
    return model


def write_descriptors(folder: Path, joints: list[str], **changes: Any) -> None:
    """``IO_descriptors.yaml`` where train.py --export_io_descriptors leaves it."""
    (folder / "io_descriptors").mkdir(parents=True, exist_ok=True)
    data = {"articulations": {"robot": {"joint_names": joints, **changes}}}
    (folder / "io_descriptors" / "IO_descriptors.yaml").write_text(yaml.safe_dump(data))
