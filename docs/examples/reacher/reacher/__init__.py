"""Reacher: an arm with two joints on a fixed post, which moves in a vertical plane."""

from pathlib import Path

from gaitway_tasks.robots import ImplicitPD, Robot, RobotDescription, RobotTask

REACHER = Robot(
    name="reacher",
    fixed_base=True,
    joint_names=("shoulder", "elbow"),
    body_names=("post", "upper_arm", "forearm", "tip"),
    default_joint_pos=(0.6, -1.2),
    joint_limits=((-2.6, 2.6), (-2.4, 2.4)),
    soft_joint_pos_limit_factor=0.95,
    init_height=1.0,
    actuators={"arm": ImplicitPD(stiffness=60.0, damping=4.0, effort_limit=30.0)},
    mjcf=Path(__file__).with_name("reacher.xml"),
)

DESCRIPTION = RobotDescription(
    robot=REACHER,
    title="Reacher",
    tasks={
        "reach-{robot}": RobotTask(
            make="reacher.tasks:reach",
            summary="{title} brings its tip to a point",
            presets={"cpu": "reacher.tasks:CPU"},
        )
    },
)
