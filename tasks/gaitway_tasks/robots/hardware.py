"""How a robot is driven over its own wire: motor slots, modes, and what its motors can bear. Data only, stdlib only.

The on-board half reads this on the robot's computer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """One product. Joints are named as in :class:`gaitway_tasks.robots.Robot`; mappings are by joint name."""

    name: str
    """What ``--robot`` says, such as "unitree-go2"."""
    robot: str
    """Name of the :class:`gaitway_tasks.robots.Robot` whose joints these are."""
    family: str
    """The messages it speaks: "unitree_go" or "unitree_hg"."""
    motors: tuple[str | None, ...]
    """Joint driven by each motor slot, in the order of the wire; None for a slot that drives nothing."""
    enable: Mapping[str, int]
    """Mode byte that switches each joint's motor on."""
    effort_limit: Mapping[str, float]
    """[N m]; no command may ask for more."""
    velocity_limit: Mapping[str, float]
    """[rad/s]; a joint that turns faster is out of control."""
    max_stiffness: Mapping[str, float]
    """Largest kp that a bundle may ask for [N m/rad]."""
    max_damping: Mapping[str, float]
    """Largest kd that a bundle may ask for [N m s/rad]."""
    damping: Mapping[str, float]
    """kd of the damping that ends everything [N m s/rad]."""
    mode_machines: Mapping[int, str] = field(default_factory=dict)
    """Values of ``mode_machine`` that this definition fits, and what they mean; empty where the wire has none."""
    mode_pr: int = 0
    """How parallel ankles and waists are driven, "unitree_hg" only: 0 by pitch and roll, 1 by their two motors."""
    command_period: float = 0.002
    """Time between two command frames [s]."""
    max_motor_temperature: float = 80.0
    """[degrees C]"""
    min_battery: float = 0.1
    """State of charge below which no policy starts, and a running one ends; of 1."""

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Driven joints in the order of the wire."""
        return tuple(name for name in self.motors if name is not None)
