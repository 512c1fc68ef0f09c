"""Lifting: an arm grasps a cube and brings it to places. Values are Isaac Lab 2.3.2's ``Isaac-Lift-Cube-Franka-v0``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from torch import Tensor

from .. import reach
from ..actions import BinaryJointPositionAction, JointPositionAction, joint_positions
from ..mdp import curriculums, events, objects, observations, pose, rewards, terminations
from ..objects import RigidObject
from ..robots import Preset, Robot
from ..robots.robot import ImplicitPD
from ..spec import Curriculum, Event, ObservationGroup, ObservationTerm, Reward, Task, Termination, Timing
from ..world import RobotState

ARM, FINGERS, HAND = "panda_joint.*", "panda_finger.*", "panda_hand"
COMMAND = {"command_name": "object_pose"}
LATER = 10_000
"""Control steps of a training after which smooth motion costs a thousand times more."""
EDGE = 0.048
"""Edge of the cube [m]: Isaac Lab scales one of 6 cm by 0.8."""
READY = (0.0, -0.255, 0.0, -2.438, 0.0, 2.183, 0.785, 0.039, 0.039)
"""Pose with the hand pointing down over the middle of the table [rad]; the fingers [m] are off their end stops."""


@dataclass(frozen=True, kw_only=True)
class ObjectPoseCommand(pose.UniformPoseCommand):
    """Goal of an object: its place counts, its rotation does not, as in Isaac Lab's rewards."""

    resampling_time_range: tuple[float, float] = (5.0, 5.0)
    suite: ClassVar[str] = "gaitway_lift.suite:SUITE"

    def errors(self, told: Tensor, robot: RobotState) -> dict[str, Tensor]:
        return {}


def lift(robot: Robot) -> Task:
    """Task of an arm with a Panda's names of joints, hand and fingers."""
    return Task(
        name=f"lift-{robot.name}",
        robot=robot,
        timing=Timing(physics_dt=0.01, decimation=2, episode_length_s=5.0),
        objects={"object": RigidObject(size=(EDGE,) * 3, mass=0.1, pos=(0.5, 0.0, 0.055))},
        estimators=("object_pos",),
        actions=JointPositionAction(
            joint_names=(ARM,),
            scale=0.5,
            gripper=BinaryJointPositionAction(joint_names=(FINGERS,), open_command=0.04, close_command=0.0),
        ),
        observations={
            "policy": ObservationGroup(
                terms={
                    "joint_pos": ObservationTerm(func=observations.joint_pos_rel),
                    "joint_vel": ObservationTerm(func=observations.joint_vel_rel),
                    "object_position": ObservationTerm(func=objects.object_position_in_robot_root_frame),
                    "target_object_position": ObservationTerm(func=pose.pose_command, params=COMMAND),
                    "actions": ObservationTerm(func=observations.last_action),
                },
                enable_corruption=True,
            )
        },
        commands={
            "object_pose": ObjectPoseCommand(
                body=robot.body_ids(HAND)[0],
                pos_x=(0.4, 0.6),
                pos_y=(-0.25, 0.25),
                pos_z=(0.25, 0.5),
                yaw=(0.0, 0.0),
                rest=(0.5, 0.0, 0.25, 0.0, 0.0, 0.0),
            )
        },
        rewards={
            "reaching_object": Reward(func=objects.object_ee_distance, weight=1.0, params={"std": 0.1, "body": HAND}),
            "lifting_object": Reward(func=objects.object_is_lifted, weight=15.0, params={"minimal_height": 0.04}),
            "object_goal_tracking": Reward(
                func=objects.object_goal_distance, weight=16.0, params={"std": 0.3, "minimal_height": 0.04, **COMMAND}
            ),
            "object_goal_tracking_fine_grained": Reward(
                func=objects.object_goal_distance, weight=5.0, params={"std": 0.05, "minimal_height": 0.04, **COMMAND}
            ),
            "action_rate": Reward(func=rewards.action_rate_l2, weight=-1e-4),
            "joint_vel": Reward(func=rewards.joint_vel_l2, weight=-1e-4),
        },
        terminations={
            "time_out": Termination(func=terminations.time_out, time_out=True),
            "object_dropping": Termination(func=objects.object_height_below_minimum, params={"minimum_height": -0.05}),
        },
        events={
            "reset_all": Event(func=events.reset_joints_by_scale, mode="reset", params={"position_range": (1.0, 1.0)}),
            "reset_object_position": Event(
                func=objects.reset_object_state_uniform,
                mode="reset",
                params={
                    "pose_range": {"x": (-0.1, 0.1), "y": (-0.25, 0.25), "z": (0.0, 0.0)},
                    "velocity_range": {},
                    "asset": "object",
                },
            ),
        },
        curriculum={
            name: Curriculum(
                func=curriculums.modify_reward_weight, params={"term_name": name, "weight": -0.1, "num_steps": LATER}
            )
            for name in ("action_rate", "joint_vel")
        },
    )


def high_pd(robot: Robot) -> Robot:
    """Arm that holds itself up, with stiffer drives: Isaac Lab's ``FRANKA_PANDA_HIGH_PD_CFG``."""

    def stiff(law: Any) -> Any:
        return replace(law, stiffness=400.0, damping=80.0) if isinstance(law, ImplicitPD) else law

    arm = {name: law if name == HAND else stiff(law) for name, law in robot.actuators.items()}
    return robot.replace(actuators=arm, gravity_compensation=True)


def cpu(task: Task) -> Task:
    """Values that make ``task`` learnable in minutes on a few CPU cores.

    - Drives are stiffer, and the arm holds itself up, as a real Panda does.
    - The policy also observes how far the cube is from the fingertips, by the encoders, how far the goal is from the
      cube, and how the hand is tilted. Without that it has to learn the kinematics.
    - Goals ramp as in an exported policy; the arm starts with its hand pointing down.
    - Mass of the cube and drives vary, and targets arrive up to 20 ms late.
    """
    command = task.commands["object_pose"]
    assert isinstance(command, pose.UniformPoseCommand)
    seen = {
        "object_distance": ObservationTerm(func=objects.measured_object_distance, params={"body": HAND}, scale=5.0),
        "object_distance_fine": ObservationTerm(
            func=objects.measured_object_distance, params={"body": HAND}, clip=(-0.03, 0.03), scale=33.0
        ),
        "object_error": ObservationTerm(func=objects.object_position_error, params=COMMAND, scale=5.0),
        "object_error_fine": ObservationTerm(
            func=objects.object_position_error, params=COMMAND, clip=(-0.05, 0.05), scale=20.0
        ),
        "tilt": ObservationTerm(func=objects.measured_tilt, params={"body": HAND}, scale=(1.0, 5.0, 5.0, 5.0)),
    }
    policy = task.observations["policy"]
    fingers = (1.0,) * 7 + (50.0, 50.0)
    widened = {"joint_pos": replace(policy.terms["joint_pos"], scale=fingers)}
    varied = {
        "object_mass": Event(
            func=objects.scale_object_mass, mode="startup", params={"scale_range": (0.5, 3.0), "asset": "object"}
        ),
        "motor_strength": Event(
            func=events.randomize_motor_strength, mode="startup", params={"strength_range": (0.9, 1.1)}
        ),
        "action_delay": Event(func=events.randomize_action_delay, mode="reset", params={"delay_range": (0.0, 0.02)}),
    }
    return task.replace(
        robot=high_pd(task.robot).replace(default_joint_pos=READY),
        timing=replace(task.timing, physics_dt=0.005, decimation=4),
        observations={"policy": replace(policy, terms={**policy.terms, **widened, **seen})},
        actions=replace(joint_positions(task), scale={"panda_joint[1-6]": 0.5, "panda_joint7": 1.0}),
        commands={"object_pose": replace(command, ramp=True)},
        events={**task.events, **varied},
        curriculum={},
    )


FEW_CORES: dict[str, Any] = {
    **reach.FEW_CORES,
    "num_envs": 256,
    "total_steps": 2_000_000,
    "examination_interval": 100_000,
    "agent.num_steps": 32,
    "agent.model.actor_hidden": (256, 128, 64),
    "agent.model.critic_hidden": (256, 128, 64),
    "simulator.cone": "elliptic",
}
"""For two cores. The policy begins with a scripted grasp (:mod:`.script`), so that exploration may be small. bfloat16
would be too coarse for it."""
CPU = Preset(change=cpu, settings=lambda task: FEW_CORES)
