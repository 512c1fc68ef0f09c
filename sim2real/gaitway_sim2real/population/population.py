"""The population: ranges from which twins are drawn, wider than and different from those of training and suite.

Nothing here may change without a new :data:`VERSION`: figures of one version are comparable, others are not.
"""

from __future__ import annotations

import numpy as np

from .twin import Kind, Twin

VERSION = "1"
SEED = 20261129
"""Of the published figures; other seeds draw other twins from the same ranges."""
TWINS = 300

RANGES: dict[str, tuple[float, float]] = {
    "payload": (-0.10, 0.20),
    "friction": (0.35, 1.4),
    "softness": (0.006, 0.025),
    "impedance": (0.90, 0.99),
    "strength": (0.80, 1.15),
    "stiffness": (0.85, 1.15),
    "damping": (0.70, 1.30),
    "armature": (0.70, 1.50),
    "joint_friction": (0.0, 0.02),
    "delay": (0.0, 0.022),
    "jitter": (0.0, 0.006),
    "backlash": (0.0, 0.015),
    "gyro_noise": (0.0, 0.12),
    "orientation_noise": (0.0, 0.02),
    "joint_pos_noise": (0.0, 0.006),
    "joint_vel_noise": (0.0, 0.8),
}
"""Uniform draws, by field of :class:`.Twin`."""
PAYLOAD_AT = (0.10, 0.06, 0.10)
"""Largest distance of the payload from the base's centre of mass along x, y, z, in standing heights."""
LINK_MASS, LINK_INERTIA, LINK_LENGTH = 0.15, 0.20, 0.015
"""Largest deviations of each link, as shares."""
JOINT_STRENGTH = 0.05
"""Largest deviation of one motor from the others, as a share."""
BANDWIDTH = (20.0, 80.0)
"""[Hz], uniform in its logarithm, as is :data:`IMPRATIO`."""
IMPRATIO = (10.0, 200.0)
FEET = (0.85, 1.0, 1.2)
FOOT_SHAPES = (None, None, "capsule", "worn")
ENCODER_OFFSET = 0.015
"""Standard deviation [rad], cut off at twice it."""
IMU_TILT, IMU_DRIFT, GYRO_BIAS = 0.03, 0.0005, 0.03
"""Largest mounting error [rad], drift [rad/s] and bias [rad/s] about each axis."""


def twin(kind: Kind, number: int, seed: int = SEED) -> Twin:
    """Twin ``number`` of a robot: the same for every policy of that robot."""
    rng = np.random.default_rng((seed, number))
    bodies, joints = kind.plant.model.nbody, kind.contract.num_joints

    def about(center: float, share: float, count: int) -> tuple[float, ...]:
        return tuple(rng.uniform(center - share, center + share, count).tolist())

    def logarithmic(low: float, high: float) -> float:
        return float(np.exp(rng.uniform(np.log(low), np.log(high))))

    drawn = {name: float(rng.uniform(*ends)) for name, ends in RANGES.items()}
    x, y, z = (float(rng.uniform(-end, end)) for end in PAYLOAD_AT)
    roll, pitch = about(0.0, IMU_TILT, 2)
    dx, dy, dz = about(0.0, IMU_DRIFT, 3)
    bx, by, bz = about(0.0, GYRO_BIAS, 3)
    offsets = np.clip(rng.standard_normal(joints), -2.0, 2.0) * ENCODER_OFFSET
    return Twin(
        **drawn,
        payload_at=(x, y, z),
        imu_tilt=(roll, pitch),
        imu_drift=(dx, dy, dz),
        gyro_bias=(bx, by, bz),
        bandwidth=logarithmic(*BANDWIDTH),
        impratio=logarithmic(*IMPRATIO),
        cone=str(rng.choice(["pyramidal", "elliptic"])),
        foot_size=float(rng.choice(FEET)),
        foot_shape=FOOT_SHAPES[rng.integers(len(FOOT_SHAPES))],
        encoder_offset=tuple(offsets.tolist()),
        link_mass=about(1.0, LINK_MASS, bodies),
        link_inertia=about(1.0, LINK_INERTIA, bodies),
        link_length=about(1.0, LINK_LENGTH, bodies),
        joint_strength=about(1.0, JOINT_STRENGTH, joints),
    )
