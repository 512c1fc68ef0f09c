"""A four-legged robot of meshes, written into a folder: a dented trunk, and legs that taper."""

from __future__ import annotations

from pathlib import Path

LEGS = {"FL": (0.2, 0.12), "FR": (0.2, -0.12), "RL": (-0.2, 0.12), "RR": (-0.2, -0.12)}
DENT = 8
"""The vertex of the trunk that is within its convex hull."""

LEG = """
<body name="{leg}_thigh" pos="{x} {y} 0">
  <joint name="{leg}_hip" axis="0 1 0" range="-1.2 1.3" damping="0.2" armature="0.01"/>
  <geom type="mesh" mesh="taper" mass="0.8"/>
  <body name="{leg}_shank" pos="0 0 -0.2">
    <joint name="{leg}_knee" axis="0 1 0" range="-2.2 0.1" damping="0.2" frictionloss="0.1" armature="0.01"/>
    <geom type="mesh" mesh="taper" mass="0.4"/>
    <geom type="mesh" mesh="ball" class="seen" pos="0 0 -0.2"/>
  </body>
</body>
"""
ROBOT = """
<mujoco model="mule">
  <compiler angle="radian" meshdir="meshes"/><option timestep="0.005" integrator="implicitfast"/>
  <default><geom contype="0" conaffinity="1"/><mesh inertia="convex"/>
    <default class="seen"><geom contype="0" conaffinity="0" mass="0"/></default></default>
  <asset><mesh name="trunk" file="trunk.obj"/><mesh name="taper" file="taper.obj" scale="1 1 0.2"/>
    <mesh name="ball" file="trunk.obj" scale="0.05 0.05 0.05"/></asset>
  <worldbody><body name="trunk" pos="0 0 0.42"><freejoint/>
    <geom type="mesh" mesh="trunk" mass="9" quat="0.996 0 0 0.087"/>{legs}
  </body></worldbody>
  <actuator>{drives}</actuator>
</mujoco>
"""
DRIVE = '<position joint="{leg}_{joint}" kp="120" kv="4" forcerange="-40 40"/>'


def write_mesh_robot(folder: Path) -> Path:
    """The MJCF of the robot, beside its meshes."""
    meshes = folder / "meshes"
    meshes.mkdir(parents=True)
    box = [(x * (0.25 + 0.03 * z), y * 0.1, z * 0.06) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]
    bottom = [(0, 4, 8), (4, 6, 8), (6, 2, 8), (2, 0, 8)]  # around the dent
    sides = [
        (0, 2, 3),
        (0, 3, 1),
        (4, 5, 7),
        (4, 7, 6),
        (0, 1, 5),
        (0, 5, 4),
        (2, 6, 7),
        (2, 7, 3),
        (1, 3, 7),
        (1, 7, 5),
    ]
    (meshes / "trunk.obj").write_text(obj([*box, (0.05, 0.0, -0.02)], [*sides, *((a, c, b) for a, b, c in bottom)]))
    ring = [(1, 0), (0.5, 0.87), (-0.5, 0.87), (-1, 0), (-0.5, -0.87), (0.5, -0.87)]
    points = [(0.03 * x, 0.03 * y, 0.0) for x, y in ring] + [(0.015 * x, 0.015 * y, -1.0) for x, y in ring]
    around = [f for i in range(6) for f in ((i, 6 + i, (i + 1) % 6), ((i + 1) % 6, 6 + i, 6 + (i + 1) % 6))]
    caps = [f for i in range(1, 5) for f in ((0, i, i + 1), (6, 7 + i, 6 + i))]
    (meshes / "taper.obj").write_text(obj(points, [*around, *caps]))
    model = folder / "mule.xml"
    legs = "".join(LEG.format(leg=leg, x=x, y=y) for leg, (x, y) in LEGS.items())
    drives = "".join(DRIVE.format(leg=leg, joint=joint) for leg in LEGS for joint in ("hip", "knee"))
    model.write_text(ROBOT.format(legs=legs, drives=drives))
    return model


def obj(points: list[tuple[float, ...]], faces: list[tuple[int, ...]]) -> str:
    lines = ["v {:.6f} {:.6f} {:.6f}".format(*point) for point in points]
    return "\n".join([*lines, *("f {} {} {}".format(*(corner + 1 for corner in face)) for face in faces), ""])
