"""ANYmal C on rough ground with a depth camera instead of a height scan, in Isaac Lab 3.0; the camera needs no GPU.

The actor sees an image of the ground in front, through a convolutional network of rsl_rl. The critic keeps the scan.
"""

import copy

import gymnasium
from gaitway_isaaclab.agents import rsl_rl_ppo_cfg
from gaitway_isaaclab.env_cfgs import VelocityRoughAnymalCEnvCfg
from isaaclab.managers import ObservationGroupCfg, ObservationTermCfg
from isaaclab.sensors import RayCasterCameraCfg
from isaaclab.sensors.ray_caster.patterns import PinholeCameraPatternCfg
from isaaclab.utils import configclass
from isaaclab_rl.rsl_rl import RslRlCNNModelCfg

TASK = "Depth-Rough-Anymal-C"
FAR = 3.0  # [m]
DOWN_30_DEGREES = (0.0, 0.25882, 0.0, 0.96593)  # x, y, z, w


def depth_image(env):
    """Image of the camera (N, 1, H, W), distances up to FAR as 0 to 1."""
    depth = env.scene.sensors["depth_camera"].data.output["distance_to_image_plane"]
    return depth.permute(0, 3, 1, 2) / FAR


@configclass
class DepthCfg(ObservationGroupCfg):
    """A group of its own: images and vectors cannot be concatenated."""

    image: ObservationTermCfg = ObservationTermCfg(func=depth_image)


@configclass
class DepthWalkEnvCfg(VelocityRoughAnymalCEnvCfg):
    def __post_init__(self):
        super().__post_init__()
        self.scene.depth_camera = RayCasterCameraCfg(
            class_type="gaitway_isaaclab.scanner:ray_caster_camera",  # each row is its own robot's
            prim_path="{ENV_REGEX_NS}/Robot/base",
            offset=RayCasterCameraCfg.OffsetCfg(pos=(0.4, 0.0, 0.1), rot=DOWN_30_DEGREES, convention="world"),
            pattern_cfg=PinholeCameraPatternCfg(width=32, height=24),
            mesh_prim_paths=["/World/ground"],
            global_world_only=True,
            max_distance=FAR,
            depth_clipping_behavior="max",
            update_period=0.1,
        )
        self.observations.proprioception = copy.deepcopy(self.observations.policy)
        self.observations.proprioception.height_scan = None
        self.observations.depth = DepthCfg()


def runner_cfg():
    """Settings of the task with a height scan, but for the actor's network and what it sees."""
    cfg = rsl_rl_ppo_cfg.VelocityRoughAnymalC()
    cfg.experiment_name = "depth_walk"
    cfg.obs_groups = {"actor": ["proprioception", "depth"], "critic": ["policy"]}
    cfg.actor = RslRlCNNModelCfg(
        hidden_dims=cfg.actor.hidden_dims,
        activation="elu",
        distribution_cfg=cfg.actor.distribution_cfg,
        cnn_cfg=RslRlCNNModelCfg.CNNCfg(output_channels=[16, 32], kernel_size=[5, 3], stride=2, activation="elu"),
    )
    return cfg


def register():
    """Callback of ``isaaclab train`` and ``play``."""
    gymnasium.register(
        id=TASK,
        entry_point="isaaclab.envs:ManagerBasedRLEnv",
        disable_env_checker=True,
        kwargs={"env_cfg_entry_point": DepthWalkEnvCfg, "rsl_rl_cfg_entry_point": runner_cfg},
    )
