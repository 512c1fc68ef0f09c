"""Small robots as MJCFs and a URDF, and what gaitway adopt makes of them."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
from gaitway_files.errors import UserError
from gaitway_mujoco.mirrors import verify_mirrors
from gaitway_sim2real.adopt.adopt import Options, adopt
from gaitway_tasks.robots import Robot
from gaitway_tasks.robots.check import check_robot

LEG = """
<body name="{leg}_hip" pos="{x} {y} 0"><joint name="{leg}_hip_joint" axis="1 0 0" range="-0.8 0.8"/>
 <inertial pos="0 0 0" mass="0.5" diaginertia=".001 .001 .001"/>
 <body name="{leg}_thigh" pos="0 {out} 0"><joint name="{leg}_thigh_joint" axis="0 1 0" range="-2 2"/>
  <geom type="capsule" size=".02" fromto="0 0 0 0 0 -.2" mass=".6"/>
  <body name="{leg}_shank" pos="0 0 -.2"><joint name="{leg}_knee_joint" axis="0 1 0" range="{knee}"/>
   <geom type="capsule" size=".015" fromto="0 0 0 0 0 -.2" mass=".2"/>{foot}
  </body></body></body>"""
FOOT = """<body name="{leg}_foot" pos="0 0 -.2"><geom type="sphere" size=".02" mass=".05"/></body>"""
SPIDER = """
<body name="{leg}_coxa" pos="{x} {y} 0" euler="0 0 {turn}"><joint name="{leg}_yaw" axis="0 0 1" range="-.8 .8"/>
 <geom type="sphere" size=".02" mass=".1"/>
 <body name="{leg}_femur" pos=".05 0 0"><joint name="{leg}_lift" axis="0 1 0" range="-1.6 1.6"/>
  <geom type="capsule" size=".012" fromto="0 0 0 .1 0 0" mass=".1"/>
  <body name="{leg}_tibia" pos=".1 0 0"><joint name="{leg}_knee" axis="0 1 0" range="-2.4 2.4"/>
   <geom type="capsule" size=".01" fromto="0 0 0 .14 0 0" mass=".08"/>
  </body></body></body>"""
HUMAN = """
<body name="{leg}_hip" pos="0 {y} -.1"><joint name="{leg}_hip_roll" axis="1 0 0" range="-.5 .5"/>
 <geom type="sphere" size=".05" mass="1"/>
 <body name="{leg}_thigh"><joint name="{leg}_hip_pitch" axis="0 1 0" range="-1.5 1.5"/>
  <geom type="capsule" size=".05" fromto="0 0 -.05 0 0 -.35" mass="3"/>
  <body name="{leg}_shank" pos="0 0 -.4"><joint name="{leg}_knee" axis="0 1 0" range="-.1 2.3"/>
   <geom type="capsule" size=".04" fromto="0 0 -.05 0 0 -.35" mass="2"/>
   <body name="{leg}_ankle" pos="0 0 -.4"><joint name="{leg}_ankle_pitch" axis="0 1 0" range="-.9 .6"/>
    <geom type="box" size=".1 .04 .015" pos=".03 0 -.05" mass=".8"/>
   </body></body></body></body>
<body name="{leg}_arm" pos="0 {shoulder} .4"><joint name="{leg}_shoulder_pitch" axis="0 1 0" range="-2 2"/>
 <geom type="capsule" size=".03" fromto="0 0 0 0 0 -.4" mass="2"/></body>"""
ROBOT = """<mujoco><compiler angle="radian"/><worldbody>{scene}
<body name="base" pos="0 0 {height}">{free}<geom name="trunk" type="box" size="{size}" mass="{mass}"/>{parts}</body>
{more}</worldbody><actuator>{motors}</actuator>{end}</mujoco>"""
SIDES = {"left": 1.0, "right": -1.0}


def robot(
    parts: str, *, size: str = ".2 .08 .05", mass: float = 6.0, free: str = "<freejoint/>", effort: float | None = 20.0,
    joints: tuple[str, ...] = (), more: str = "", scene: str = "", end: str = "", height: float = 0.5,
) -> str:  # fmt: skip
    motors = "".join(f'<motor joint="{name}" ctrlrange="-{effort} {effort}"/>' for name in joints if effort)
    return ROBOT.format(
        parts=parts, size=size, mass=mass, free=free, motors=motors, more=more, scene=scene, end=end, height=height
    )


def dog(names: tuple[str, ...] = ("FL", "FR", "RL", "RR"), *, feet: bool = True, knee: str = "-2.5 2.5", **more) -> str:
    """Four legs of 0.2 m + 0.2 m, of 8 to 9 kg; without ``feet`` the shanks end in nothing but themselves."""
    places = ((0.2, 1.0), (0.2, -1.0), (-0.2, 1.0), (-0.2, -1.0))
    parts = "".join(
        LEG.format(leg=leg, x=x, y=0.07 * y, out=0.04 * y, knee=knee, foot=FOOT.format(leg=leg) if feet else "")
        for leg, (x, y) in zip(names, places, strict=True)
    )
    joints = tuple(f"{leg}_{joint}_joint" for leg in names for joint in ("hip", "thigh", "knee"))
    return robot(parts + more.pop("on_base", ""), joints=joints, **more)


def spider(**more) -> str:
    """Six legs that stand sideways, stretched out level with all joints at zero."""
    legs = [(f"{side[0]}{row}", x, y) for row, x in enumerate((0.12, 0.0, -0.12)) for side, y in SIDES.items()]
    parts = "".join(SPIDER.format(leg=leg, x=x, y=0.06 * y, turn=1.5708 * y) for leg, x, y in legs)
    joints = tuple(f"{leg}_{joint}" for leg, _, _ in legs for joint in ("yaw", "lift", "knee"))
    return robot(parts, size=".15 .06 .03", mass=1.5, effort=3.0, joints=joints, **more)


def human(**more) -> str:
    """Two legs with flat feet, and two arms."""
    parts = "".join(HUMAN.format(leg=side, y=0.1 * y, shoulder=0.25 * y) for side, y in SIDES.items())
    kinds = ("hip_roll", "hip_pitch", "knee", "ankle_pitch", "shoulder_pitch")
    joints = tuple(f"{side}_{kind}" for side in SIDES for kind in kinds)
    return robot(parts, size=".1 .15 .3", mass=20.0, effort=150.0, joints=joints, height=1.1, **more)


def written(folder: Path, text: str, name: str = "robot.xml") -> Path:
    (folder / name).write_text(text)
    return folder / name


LINKED = """
<body name="{leg}_thigh" pos="{x} {y} 0"><joint name="{leg}_hip" axis="0 1 0" range="-1.5 1.5"/>
 <geom type="capsule" size=".02" fromto="0 0 0 0 0 -.2" mass=".6"/>
 <body name="{leg}_shank" pos="0 0 -.2"><joint name="{leg}_knee" axis="0 1 0" range="-2.2 2.2"/>
  <geom type="capsule" size=".015" fromto="0 0 0 0 0 -.2" mass=".2"/>
  <geom type="sphere" size=".02" pos="0 0 -.2" mass=".02"/>
 </body></body>
<body name="{leg}_crank" pos="{x} {y} 0"><joint name="{leg}_motor" axis="0 1 0" range="-2.2 2.2"/>
 <geom type="capsule" size=".01" fromto="0 0 0 .05 0 0" mass=".1"/>
 <body name="{leg}_rod" pos=".05 0 0"><joint name="{leg}_rod_joint" axis="0 1 0"/>
  <geom type="capsule" size=".008" fromto="0 0 0 0 0 -.2" mass=".05"/>
 </body></body>"""


def linked_dog(gap: float = 0.0) -> str:
    """Four legs whose knees are moved by cranks at the hips, and rods; with ``gap`` [m] a loop that cannot close."""
    legs = (("FL", 0.2, 0.1), ("FR", 0.2, -0.1), ("RL", -0.2, 0.1), ("RR", -0.2, -0.1))
    parts = "".join(LINKED.format(leg=leg, x=x, y=y) for leg, x, y in legs)
    loops = "".join(f'<connect body1="{leg}_rod" body2="{leg}_shank" anchor="0 0 -.2"/>' for leg, _, _ in legs)
    if gap:
        for body, site in (("FL_rod", f'<site name="a" pos="0 {gap} 0"/>'), ("FL_shank", '<site name="b"/>')):
            head = re.search(rf'<body name="{body}"[^>]*>', parts)[0]
            parts = parts.replace(head, head + site)
        loops += '<connect site1="a" site2="b"/>'
    joints = tuple(f"{leg}_{joint}" for leg, _, _ in legs for joint in ("hip", "motor"))
    return robot(parts, joints=joints, end=f"<equality>{loops}</equality>")


URDF_LINK = """<link name="{name}"><inertial><mass value="{mass}"/><origin xyz="0 0 {low}"/>
<inertia ixx=".002" iyy=".002" izz=".002" ixy="0" ixz="0" iyz="0"/></inertial>
<collision><origin xyz="0 0 {low}"/><geometry>{shape}</geometry></collision></link>"""
URDF_JOINT = """<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/><origin xyz="{at}"/>
<axis xyz="{axis}"/><limit lower="-1.8" upper="1.8" effort="20" velocity="20"/></joint>"""


def urdf(velocity: str = "20") -> str:
    """A dog with a massless root on the ground, a camera, a mesh that is not there, and feet on fixed joints."""
    mesh, ball = '<mesh filename="package://dog/trunk.stl"/>', '<sphere radius="0.02"/>'
    rod = '<cylinder radius="0.02" length="0.15"/>'
    parts = ['<link name="base_footprint"/>', URDF_LINK.format(name="trunk", mass=6, low=0, shape=mesh)]
    parts += [
        URDF_JOINT.format(name="up", kind="fixed", parent="base_footprint", child="trunk", at="0 0 .4", axis="1 0 0")
    ]
    parts += ['<link name="camera"/>']
    parts += [URDF_JOINT.format(name="eye", kind="fixed", parent="trunk", child="camera", at=".3 0 0", axis="1 0 0")]
    for leg, x, y in (("LF", 0.2, 0.1), ("RF", 0.2, -0.1), ("LH", -0.2, 0.1), ("RH", -0.2, -0.1)):
        chain = (
            ("HAA", "revolute", "trunk", "hip", f"{x} {y} 0", "1 0 0", 0.5, 0, ball),
            ("HFE", "revolute", f"{leg}_hip", "thigh", f"0 {0.4 * y} 0", "0 1 0", 0.6, -0.1, rod),
            ("KFE", "revolute", f"{leg}_thigh", "shank", "0 0 -.2", "0 1 0", 0.2, -0.1, rod),
            ("sole", "fixed", f"{leg}_shank", "foot", "0 0 -.2", "0 1 0", 0.05, 0, ball),
        )
        for joint, kind, parent, child, at, axis, mass, low, shape in chain:
            parts.append(URDF_LINK.format(name=f"{leg}_{child}", mass=mass, low=low, shape=shape))
            parts.append(
                URDF_JOINT.format(
                    name=f"{leg}_{joint}", kind=kind, parent=parent, child=f"{leg}_{child}", at=at, axis=axis
                )
            )
    return f'<robot name="dog">{"".join(parts)}</robot>'.replace('velocity="20"', f'velocity="{velocity}"')


def adopted(folder: Path, path: Path, **options) -> tuple[Robot, list[str]]:
    """The robot of the package that adopting ``path`` writes, and the lines that are printed."""
    lines = adopt(path, folder / "made", "made", Options(**options), verify_mirrors)
    spec = importlib.util.spec_from_file_location("made", folder / "made/__init__.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    check_robot(module.ROBOT)
    return module.ROBOT, lines


def refusal(folder: Path, text: str, name: str = "robot.xml", **options) -> str:
    with pytest.raises(UserError) as caught:
        adopt(written(folder, text, name), folder / "made", "made", Options(**options), verify_mirrors)
    assert not (folder / "made").exists()
    return str(caught.value)
