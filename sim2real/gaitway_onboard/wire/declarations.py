"""The messages of Unitree's robots and of ROS 2, field by field as their IDL has them."""

from __future__ import annotations

from .idl import Array, Kind, Sequence, Struct, struct_of

_FLOATS = dict.fromkeys(("q", "dq", "tau", "kp", "kd"), "float32")
_DRIVE: dict[str, Kind] = {"mode": "octet", **_FLOATS}
_IMU: dict[str, Kind] = {
    "quaternion": Array("float32", 4),
    **dict.fromkeys(("gyroscope", "accelerometer", "rpy"), Array("float32", 3)),
}
_START: dict[str, Kind] = {
    "head": Array("octet", 2), "level_flag": "octet", "frame_reserve": "octet", "sn": Array("uint32", 2),
    "version": Array("uint32", 2), "bandwidth": "uint16",
}  # fmt: skip

# ---- unitree_go: Go2, B2, H1 ---------------------------------------------------------------------------------------

_GO_MOTOR_CMD = struct_of("unitree_go::msg::dds_::MotorCmd_", **_DRIVE, reserve=Array("uint32", 3))
_GO_BMS_CMD = struct_of("unitree_go::msg::dds_::BmsCmd_", off="octet", reserve=Array("octet", 3))
GO_LOW_CMD = struct_of(
    "unitree_go::msg::dds_::LowCmd_",
    **_START, motor_cmd=Array(_GO_MOTOR_CMD, 20), bms_cmd=_GO_BMS_CMD, wireless_remote=Array("octet", 40),
    led=Array("octet", 12), fan=Array("octet", 2), gpio="octet", reserve="uint32", crc="uint32",
)  # fmt: skip
_GO_IMU_STATE = struct_of("unitree_go::msg::dds_::IMUState_", **_IMU, temperature="octet")
_GO_MOTOR_STATE = struct_of(
    "unitree_go::msg::dds_::MotorState_",
    mode="octet", q="float32", dq="float32", ddq="float32", tau_est="float32", q_raw="float32", dq_raw="float32",
    ddq_raw="float32", temperature="octet", lost="uint32", reserve=Array("uint32", 2),
)  # fmt: skip
_GO_BMS_STATE = struct_of(
    "unitree_go::msg::dds_::BmsState_",
    version_high="octet", version_low="octet", status="octet", soc="octet", current="int32", cycle="uint16",
    bq_ntc=Array("octet", 2), mcu_ntc=Array("octet", 2), cell_vol=Array("uint16", 15),
)  # fmt: skip
GO_LOW_STATE = struct_of(
    "unitree_go::msg::dds_::LowState_",
    **_START, imu_state=_GO_IMU_STATE, motor_state=Array(_GO_MOTOR_STATE, 20), bms_state=_GO_BMS_STATE,
    foot_force=Array("int16", 4), foot_force_est=Array("int16", 4), tick="uint32", wireless_remote=Array("octet", 40),
    bit_flag="octet", adc_reel="float32", temperature_ntc1="octet", temperature_ntc2="octet", power_v="float32",
    power_a="float32", fan_frequency=Array("uint16", 4), reserve="uint32", crc="uint32",
)  # fmt: skip
_TIME_SPEC = struct_of("unitree_go::msg::dds_::TimeSpec_", sec="int32", nanosec="uint32")
_PATH_POINT = struct_of(
    "unitree_go::msg::dds_::PathPoint_",
    t_from_start="float32", x="float32", y="float32", yaw="float32", vx="float32", vy="float32", vyaw="float32",
)  # fmt: skip
SPORT_MODE_STATE = struct_of(
    "unitree_go::msg::dds_::SportModeState_",
    stamp=_TIME_SPEC, error_code="uint32", imu_state=_GO_IMU_STATE, mode="octet", progress="float32",
    gait_type="octet", foot_raise_height="float32", position=Array("float32", 3), body_height="float32",
    velocity=Array("float32", 3), yaw_speed="float32", range_obstacle=Array("float32", 4),
    foot_force=Array("int16", 4), foot_position_body=Array("float32", 12), foot_speed_body=Array("float32", 12),
    path_point=Array(_PATH_POINT, 10),
)  # fmt: skip
WIRELESS_CONTROLLER = struct_of(
    "unitree_go::msg::dds_::WirelessController_",
    lx="float32", ly="float32", rx="float32", ry="float32", keys="uint16",
)  # fmt: skip

# ---- unitree_hg: G1, H1-2 ------------------------------------------------------------------------------------------

_HG_MOTOR_CMD = struct_of("unitree_hg::msg::dds_::MotorCmd_", **_DRIVE, reserve="uint32")
HG_LOW_CMD = struct_of(
    "unitree_hg::msg::dds_::LowCmd_",
    mode_pr="octet", mode_machine="octet", motor_cmd=Array(_HG_MOTOR_CMD, 35), reserve=Array("uint32", 4),
    crc="uint32",
)  # fmt: skip
HG_IMU_STATE = struct_of("unitree_hg::msg::dds_::IMUState_", **_IMU, temperature="int16")
_HG_MOTOR_STATE = struct_of(
    "unitree_hg::msg::dds_::MotorState_",
    mode="octet", q="float32", dq="float32", ddq="float32", tau_est="float32", temperature=Array("int16", 2),
    vol="float32", sensor=Array("uint32", 2), motorstate="uint32", reserve=Array("uint32", 4),
)  # fmt: skip
HG_LOW_STATE = struct_of(
    "unitree_hg::msg::dds_::LowState_",
    version=Array("uint32", 2), mode_pr="octet", mode_machine="octet", tick="uint32", imu_state=HG_IMU_STATE,
    motor_state=Array(_HG_MOTOR_STATE, 35), wireless_remote=Array("octet", 40), reserve=Array("uint32", 4),
    crc="uint32",
)  # fmt: skip
HG_BMS_STATE = struct_of(
    "unitree_hg::msg::dds_::BmsState_",
    version_high="octet", version_low="octet", fn="octet", cell_vol=Array("uint16", 40),
    bmsvoltage=Array("uint32", 3), current="int32", soc="octet", soh="octet", temperature=Array("int16", 12),
    cycle="uint16", manufacturer_date="uint16", bmsstate=Array("uint32", 5), reserve=Array("uint32", 3),
)  # fmt: skip

# ---- unitree_api: remote procedures --------------------------------------------------------------------------------

_IDENTITY = struct_of("unitree_api::msg::dds_::RequestIdentity_", id="int64", api_id="int64")
_LEASE = struct_of("unitree_api::msg::dds_::RequestLease_", id="int64")
_POLICY = struct_of("unitree_api::msg::dds_::RequestPolicy_", priority="int32", noreply="boolean")
_REQUEST_HEADER = struct_of("unitree_api::msg::dds_::RequestHeader_", identity=_IDENTITY, lease=_LEASE, policy=_POLICY)
REQUEST = struct_of(
    "unitree_api::msg::dds_::Request_", header=_REQUEST_HEADER, parameter="string", binary=Sequence("octet")
)
_STATUS = struct_of("unitree_api::msg::dds_::ResponseStatus_", code="int32")
_RESPONSE_HEADER = struct_of("unitree_api::msg::dds_::ResponseHeader_", identity=_IDENTITY, status=_STATUS)
RESPONSE = struct_of(
    "unitree_api::msg::dds_::Response_", header=_RESPONSE_HEADER, data="string", binary=Sequence("octet")
)

# ---- ROS 2 ---------------------------------------------------------------------------------------------------------

_TIME = struct_of("builtin_interfaces::msg::dds_::Time_", sec="int32", nanosec="uint32")
_DURATION = struct_of("builtin_interfaces::msg::dds_::Duration_", sec="int32", nanosec="uint32")
_ROS_HEADER = struct_of("std_msgs::msg::dds_::Header_", stamp=_TIME, frame_id="string")
_VECTOR3 = struct_of("geometry_msgs::msg::dds_::Vector3_", x="float64", y="float64", z="float64")
_QUATERNION = struct_of("geometry_msgs::msg::dds_::Quaternion_", x="float64", y="float64", z="float64", w="float64")
JOINT_STATE = struct_of(
    "sensor_msgs::msg::dds_::JointState_",
    header=_ROS_HEADER, name=Sequence("string"), position=Sequence("float64"), velocity=Sequence("float64"),
    effort=Sequence("float64"),
)  # fmt: skip
IMU = struct_of(
    "sensor_msgs::msg::dds_::Imu_",
    header=_ROS_HEADER, orientation=_QUATERNION, orientation_covariance=Array("float64", 9),
    angular_velocity=_VECTOR3, angular_velocity_covariance=Array("float64", 9), linear_acceleration=_VECTOR3,
    linear_acceleration_covariance=Array("float64", 9),
)  # fmt: skip
LOG = struct_of(
    "foxglove_msgs::msg::dds_::Log_",
    timestamp=_TIME, level="octet", message="string", name="string", file="string", line="uint32",
)  # fmt: skip
"""Recorded in flights, and never sent."""
_DIMENSION = struct_of("std_msgs::msg::dds_::MultiArrayDimension_", label="string", size="uint32", stride="uint32")
_ARRAY_LAYOUT = struct_of("std_msgs::msg::dds_::MultiArrayLayout_", dim=Sequence(_DIMENSION), data_offset="uint32")
FLOAT64_MULTI_ARRAY = struct_of(
    "std_msgs::msg::dds_::Float64MultiArray_", layout=_ARRAY_LAYOUT, data=Sequence("float64")
)
_TRAJECTORY_POINT = struct_of(
    "trajectory_msgs::msg::dds_::JointTrajectoryPoint_",
    positions=Sequence("float64"), velocities=Sequence("float64"), accelerations=Sequence("float64"),
    effort=Sequence("float64"), time_from_start=_DURATION,
)  # fmt: skip
JOINT_TRAJECTORY = struct_of(
    "trajectory_msgs::msg::dds_::JointTrajectory_",
    header=_ROS_HEADER, joint_names=Sequence("string"), points=Sequence(_TRAJECTORY_POINT),
)  # fmt: skip
TWIST = struct_of("geometry_msgs::msg::dds_::Twist_", linear=_VECTOR3, angular=_VECTOR3)
TWIST_STAMPED = struct_of("geometry_msgs::msg::dds_::TwistStamped_", header=_ROS_HEADER, twist=TWIST)

MESSAGES: dict[str, Struct] = {
    message.name: message
    for message in (
        GO_LOW_CMD, GO_LOW_STATE, SPORT_MODE_STATE, WIRELESS_CONTROLLER, HG_LOW_CMD, HG_LOW_STATE, HG_IMU_STATE,
        HG_BMS_STATE, REQUEST, RESPONSE, JOINT_STATE, IMU, FLOAT64_MULTI_ARRAY, JOINT_TRAJECTORY, TWIST, TWIST_STAMPED,
    )
}  # fmt: skip
"""Every message that is sent or received as such, by its name on the wire."""
