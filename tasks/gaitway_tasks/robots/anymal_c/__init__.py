"""ANYbotics ANYmal C.

Joint order, default pose and actuator values are Isaac Lab 2.3.2's (``isaaclab_assets/robots/anymal.py``); the
actuator is its ``ANYDRIVE_3_SIMPLE_ACTUATOR_CFG``, since the LSTM network of the default one is not public data.
"""

from pathlib import Path

from ..description import IsaacLabRobot, RobotDescription, tracking_tasks, velocity_tasks
from ..robot import DCMotor, Mirror, Robot

LEGS = ("LF", "LH", "RF", "RH")

ANYMAL_C = Robot(
    name="anymal-c",
    joint_names=tuple(f"{leg}_{joint}" for leg in LEGS for joint in ("HAA", "HFE", "KFE")),
    body_names=("base", *(f"{leg}_{body}" for leg in LEGS for body in ("HIP", "THIGH", "SHANK", "FOOT"))),
    foot_names=tuple(f"{leg}_FOOT" for leg in LEGS),
    default_joint_pos=(0.0, 0.4, -0.8, 0.0, -0.4, 0.8, 0.0, 0.4, -0.8, 0.0, -0.4, 0.8),
    joint_limits=tuple(
        limit
        for leg in LEGS
        for limit in (((-0.72, 0.49) if leg[0] == "L" else (-0.49, 0.72)), *2 * ((-9.4248, 9.4248),))
    ),
    soft_joint_pos_limit_factor=0.95,
    init_height=0.6,
    foot_height=0.03,
    actuators={
        "legs": DCMotor(stiffness=40.0, damping=5.0, effort_limit=80.0, saturation_effort=120.0, velocity_limit=7.5)
    },
    mjcf=Path(__file__).with_name("anymal_c.xml"),
    usd="Robots/ANYbotics/ANYmal-C/anymal_c.usd",
    mirrors={
        "left-right": Mirror(axis="y", pairs={"LF": "RF", "LH": "RH"}, flip=("HAA",)),
        "front-back": Mirror(axis="x", pairs={"LF": "LH", "RF": "RH"}, flip=("HFE", "KFE")),
    },
)

DESCRIPTION = RobotDescription(
    robot=ANYMAL_C,
    title="ANYmal C",
    tasks={
        **velocity_tasks(
            "gaitway_tasks.velocity.base:flat",
            "gaitway_tasks.velocity.base:rough",
            blind=True,
            presets=("cpu", "sprint", "isaaclab3"),
        ),
        **tracking_tasks(),
    },
    isaaclab=IsaacLabRobot(asset="isaaclab_assets.robots.anymal:ANYMAL_C_CFG", flat_contacts=(120, 15), elliptic=True),
    order=0,
)
