"""A package with a robot's facts from its file: what was found, what was guessed and why, and what is missing."""

from __future__ import annotations

import importlib.util
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TypeVar

import mujoco
import numpy as np
from gaitway_files.errors import NotDone, UserError
from gaitway_files.patterns import matches
from gaitway_files.writing import whole_folder, write_text
from gaitway_tasks.robots import Robot, mjcf
from gaitway_tasks.robots.check import check_robot
from gaitway_tasks.robots.known import own
from gaitway_tasks.robots.robot import ActuatorLaw, DCMotor, ImplicitPD

from ..mujoco.model import GRAVITY, addresses, compile_robot, prepare_robot
from ..mujoco.shapes import Shape
from . import mirrors, pose
from .facts import package
from .feet import find_feet, mirrored, neutral
from .gains import Gain, gains
from .picture import take_picture
from .shapes import all_points, box_of, capsule_between, clear, points, simple
from .stance import Stance
from .tree import ENDLESS, AdoptError, Foot, Link, Tree, begun, read_tree
from .writing import build

T = TypeVar("T")
SECONDS, TILT = 5.0, 0.1
"""Time for which a robot on four feet or more stands [s], and the tilt that it may have then [rad]."""
STIFFER = (1.0, 1.2, 1.4, 1.7, 2.0, 2.5)
"""Factors on the legs' gains that are tried until it stands."""
ROTOR = 2.5e-4
"""Armature of a motor for its effort [kg m^2 / (N m)]: Go2 4.2e-4, ANYmal 2.5e-4, G1 1.2e-4 to 2.5e-4, H1 3.3e-4."""
STRONGEST = 8.0
"""Effort that is a placeholder, for the robot's weight times its height; real legs have a quarter to one."""
UNBALANCED = 0.1
LIGHT = 0.005
"""Share of the mass below which what a joint moves, off the legs, is a finger."""
UNEVEN = 0.05
"""Difference of a pose from its mirror image that rounding explains [rad]."""
NO_STAND = "the file's own keyframe is no pose to stand in"
SPREAD = 0.02
"""Difference in height of the soles in a keyframe, as a share of the robot's height."""
LOOSE = 0.01
"""Gap of a closed loop that rounding explains, as a share of the robot's height."""
CLEARANCE = 0.02
"""Height above the soles of whatever is no foot, as a share of the robot's."""
ANKLE, SHIN = 0.12, 0.06
"""Part of a shin that has no shape but the foot's, and radius of one that is made, as shares of its length."""
THIN = 0.08
"""Half the thickness of a base that is made, as a share of the robot's height."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the user says in place of a guess; patterns are regular expressions of whole names."""

    base: str | None = None
    forward: str = "x"
    feet: tuple[str, ...] = ()
    pose: Mapping[str, float] = field(default_factory=dict)
    gains: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    efforts: Mapping[str, float] = field(default_factory=dict)
    armatures: Mapping[str, float] = field(default_factory=dict)
    held: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()


def adopt(
    path: Path, out: Path, name: str, options: Options, prove: Callable[[Robot], None] = check_robot
) -> list[str]:
    """Write the package ``out`` of the robot in ``path``; returns a line for each thing that was found or guessed.

    ``prove`` raises :class:`UserError` for mirrors that the model does not have.
    """
    _check_names(out, name)
    adopted = _Adoption(path, name, options, prove)
    with whole_folder(out) as partial:
        robot = adopted.finish(partial)
        write_text(partial / "__init__.py", package(robot, path, adopted.notes))
        write_text(partial / "tasks.py", TASKS.format(title=name))
        _copy_license(path, partial)
        try:
            take_picture(robot, partial / "standing.png")
        except NotDone as error:
            adopted.notes.append(f"no standing.png: {error}")
    return adopted.notes


TASKS = '''"""What {title} learns: to follow velocity commands on flat ground."""

from gaitway_tasks.velocity import blind, legged

from . import ROBOT

WALK = legged.flat(ROBOT)
BLIND = blind(WALK)
"""The same task from what a robot measures."""
'''


def _check_names(out: Path, name: str) -> None:
    if out.exists() or out.is_symlink():
        raise UserError(f"--out {out} exists: remove it, or name another folder")
    if not out.name.isidentifier():
        raise UserError(
            f"--out {out}: the folder is a Python package, so name it in letters, digits and _, like my_robot"
        )
    if out.name in sys.stdlib_module_names or importlib.util.find_spec(out.name) is not None:
        raise UserError(f"--out {out}: Python has a package {out.name!r}: choose another name")
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", name):
        raise UserError(f"--name {name}: write it in letters, digits, - and _, like my-robot")
    if name in own():
        raise UserError(f"Gaitway has a robot named {name!r}: give this one another, as with --name my-{name}")


def _copy_license(path: Path, folder: Path) -> None:
    for place in path.absolute().parents[:4]:
        for file in sorted(place.glob("LICEN[CS]E*")):
            if file.is_file() and file.stat().st_size < 1_000_000:
                write_text(folder / "LICENSE", file.read_text("utf-8", "replace"))
                return


class _Adoption:
    def __init__(self, path: Path, name: str, options: Options, prove: Callable[[Robot], None]):
        self.path, self.name, self.options, self.prove = path, name, options, prove
        self.notes: list[str] = []
        tree = read_tree(path, options.base, None, options.forward)
        self.notes += tree.notes
        key = dict(tree.key)
        try:
            feet, _, _ = find_feet(tree, options.feet)
        except AdoptError:
            if not key:
                raise
            key = {}
            feet, _, _ = find_feet(replace(tree, key=key), options.feet)
            self.notes.append(NO_STAND)
        held = self._held(replace(tree, key=key), feet)
        tree = read_tree(path, options.base, held, options.forward) if held else tree
        self.tree = tree = replace(tree, key=key)
        self.feet, self.size, notes = find_feet(tree, options.feet)
        self.notes += [
            f"base: {tree.links[0].name}, {tree.mass:.4g} kg with all of it; --base BODY names another",
            *notes,
        ]
        self.joints = self._joint_order()
        self.efforts = self._efforts()
        self.tree = tree = self._with_rotors()
        self.stance = Stance(tree)
        self._check_loops()
        self.limits = self._limits()
        self.legs = pose.legs_of(tree, self.stance, self.feet)
        self.reflections = self._reflections()
        self.pose = self._standing()

    # ---- joints ----------------------------------------------------------------------------------------------------

    def _held(self, tree: Tree, feet: list[Foot]) -> dict[str, float]:
        """Joints off the legs that are made rigid: arms of a robot on four feet, fingers, slides, followers."""
        legs = {name for foot in feet for name in tree.limb(foot.link)}
        followers = {loop.names[0] for loop in tree.loops if loop.points is None}
        sprung = {joint.name for joint in tree.joints.values() if joint.stiffness > 0.0}
        told = neutral(tree) | dict(self.options.pose)
        found: dict[str, list[str]] = {}
        for link in tree.links:
            light = sum(each.inertial.mass for each in tree.below(link.name)) < LIGHT * tree.mass
            for joint in link.joints:
                why = ""
                if any(matches(pattern, joint.name) for pattern in self.options.held):
                    why = "as --hold says"
                elif joint.name in legs or any(matches(pattern, joint.name) for pattern in self.options.moved):
                    continue
                elif len(feet) > 2 and joint.name in tree.driven:
                    why = "not of a leg, and a robot on four feet or more walks without them"
                elif joint.slide or light or joint.name in followers:
                    why = "fingers and slides: they move too little to matter for walking"
                elif joint.name not in tree.driven and joint.name not in sprung and len(feet) > 2:
                    why = "without a motor"
                if why:
                    found.setdefault(why, []).append(joint.name)
        self.notes += [
            f"held still: {', '.join(names)} ({why}); --move REGEX moves them" for why, names in found.items()
        ]
        return {name: told[name] for names in found.values() for name in names}

    def _joint_order(self) -> list[str]:
        """Leg by leg, then the rest as in the file."""
        tree = self.tree
        legs = [name for foot in self.feet for name in tree.limb(foot.link)]
        names = dict.fromkeys(name for name in (*legs, *tree.joints) if name in tree.driven)
        if passive := [name for name in tree.joints if name not in names]:
            self.notes.append(f"without a motor: {', '.join(passive)}: they move, and no policy commands them")
        return list(names)

    def _check_loops(self) -> None:
        """Raise for loops that cannot be closed: MuJoCo would tear the robot."""
        self.stance.put(neutral(self.tree))
        if not self.tree.loops:
            return
        gaps = np.abs(self.stance.gaps())
        if gaps.max() > LOOSE * self.size:
            sizes = [1 if loop.points is None else 3 for loop in self.tree.loops]
            loop = self.tree.loops[int(np.searchsorted(np.cumsum(sizes), gaps.argmax(), side="right"))]
            raise AdoptError(
                f"{self.path}: the loop between {loop.names[0]!r} and {loop.names[1]!r} stays open by "
                f"{gaps.max():.3f} m, and MuJoCo cannot hold it: move the links so that its ends meet, and leave its "
                "joints without motors"
            )

    def _efforts(self) -> dict[str, float]:
        told = {name: value for name, value in self.tree.efforts.items() if name in self.joints}
        most = STRONGEST * self.tree.mass * GRAVITY * self.size
        absurd = {name: value for name, value in told.items() if value > most}
        told = {name: value for name, value in told.items() if name not in absurd}
        told |= _by_name(self.options.efforts, self.joints, "--effort")
        if missing := [name for name in self.joints if name not in told]:
            why = f" ({max(absurd.values()):g} N m is no motor of a robot of {self.tree.mass:.3g} kg)" if absurd else ""
            raise AdoptError(
                f"{self.path} does not say how strong the motors of {', '.join(missing)} are{why}: give their largest "
                "torque in N m, as --effort 'REGEX=N', such as --effort '.*=20'"
            )
        return told

    def _with_rotors(self) -> Tree:
        """The tree with an armature for each motor: the file's, the user's, or one that fits the motor's torque."""
        given = _by_name(self.options.armatures, self.joints, "--armature")
        bare = [name for name in self.joints if self.tree.joints[name].armature == 0.0 and name not in given]
        if bare:
            values = sorted(ROTOR * self.efforts[name] for name in bare)
            self.notes.append(
                f"armature: {values[0]:.2g} to {values[-1]:.2g} kg m^2 where the file has none, {ROTOR:g} "
                f"for each N m of "
                "effort, as geared motors have; --armature REGEX=N says better"
            )
        found = given | {name: float(f"{ROTOR * self.efforts[name]:.2g}") for name in bare}
        links = [
            replace(
                link, joints=tuple(replace(each, armature=found.get(each.name, each.armature)) for each in link.joints)
            )
            for link in self.tree.links
        ]
        return replace(self.tree, links=tuple(links))

    def _limits(self) -> dict[str, tuple[float, float]]:
        own = {name: self.tree.joints[name].limits for name in self.joints}
        if endless := [name for name, limits in own.items() if limits is None]:
            self.notes.append(f"no limits: {', '.join(endless)}: three half turns each way")
        return {name: limits or (-ENDLESS, ENDLESS) for name, limits in own.items()}

    # ---- mirrors and pose ------------------------------------------------------------------------------------------

    def _reflections(self) -> dict[str, mirrors.Reflection]:
        found = {}
        for title, axis in (("left-right", "y"), ("front-back", "x")):
            if axis == "x" and len(self.feet) < 4:
                continue
            try:
                reflection = mirrors.find_reflection(self.tree, self.stance, axis, self.size)
                self.limits = mirrors.narrowed(reflection, self.limits)
            except mirrors.NoMirror as reason:
                self.notes.append(f"no mirror {title}: {reason}")
                continue
            found[title] = reflection
            for foot, other in ((a, b) for a in self.feet for b in self.feet if reflection.links[a.link] == b.link):
                if self.feet.index(foot) < self.feet.index(other):
                    self.feet[self.feet.index(other)] = mirrored(self.stance, foot, other, "xyz".index(axis))
        return found

    def _standing(self) -> dict[str, float]:
        """The default pose, by the file's own keyframe if the robot can stand in it."""
        if self.tree.key and not self.options.pose:
            told = {name: self.tree.key[name] for name in self.tree.joints}
            self.stance.put(told)
            level = pose.unlevel(self.stance, self.feet) < SPREAD * self.size
            torques, missed = self.stance.torques(pose.supports(self.stance, self.feet))
            weak = pose.lacking(torques, self.efforts)
            inside = all(low <= told[name] <= high for name, (low, high) in self.limits.items())
            if level and weak is None and missed < UNBALANCED and inside:
                told = self._settled(told)
                self.notes.append(
                    "default pose: the file's own keyframe, in which it stands; --pose JOINT=RAD,... changes it"
                )
                return told
            self.notes.append(NO_STAND)
            self.tree = replace(self.tree, key={})
        weak, missed, found = None, 0.0, {}
        for factor in pose.RATIOS:
            ratio = min(pose.STRAIGHT[len(self.feet)] * factor, 0.98)
            found = pose.search(self.tree, self.stance, self.legs, list(self.reflections.values()), ratio)
            for reflection in self.reflections.values():
                found = mirrors.even(found, reflection)
            found = self._settled(found | self._told())
            self.stance.put(found)
            torques, missed = self.stance.torques(pose.supports(self.stance, self.feet))
            weak = pose.lacking(torques, self.efforts)
            if weak is None and missed < UNBALANCED:
                break
        if weak is not None:
            raise AdoptError(
                f"{self.path}: the motors are too weak to stand: {weak[0]} needs "
                f"{weak[1] * self.efforts[weak[0]]:.3g} N m "
                f"and has {self.efforts[weak[0]]:.3g}: if it has more, say --effort '{weak[0]}=N', or give a pose with "
                "straighter legs, --pose JOINT=RAD,..."
            )
        if missed > UNBALANCED:
            raise AdoptError(
                f"{self.path}: in the pose that was found its weight lies beside its feet: give one that balances, "
                "--pose JOINT=RAD,..., or other feet, --feet A,B,..."
            )
        if (high := pose.unlevel(self.stance, self.feet)) > 2.0 * SPREAD * self.size:
            raise AdoptError(
                f"{self.path}: feet {', '.join(foot.name for foot in self.feet)} do not reach the ground "
                f"together: in the "
                f"pose that was found they differ by {high:.3f} m in height: give one, --pose JOINT=RAD,..."
            )
        if self.options.pose:
            self.notes.append("default pose: as given, the other joints by a search")
        else:
            self.notes.append(
                f"default pose: feet under the hips or the weight, legs {ratio:.0%} of their straight "
                f"height, base level, "
                f"within limits and the motors' torque; --pose JOINT=RAD,... changes it"
            )
        return found

    def _told(self) -> dict[str, float]:
        for name, value in self.options.pose.items():
            if name not in self.tree.joints:
                raise UserError(
                    f"--pose {name}: the robot has no such joint that moves; it has {', '.join(self.joints)}"
                )
            low, high = self.limits.get(name, (-math.inf, math.inf))
            if not low <= value <= high:
                raise UserError(f"--pose {name}={value:g}: its range is {low:.4g} to {high:.4g} rad")
        told = dict(self.options.pose)
        for reflection in self.reflections.values():
            told = {reflection.joints[n][0]: reflection.joints[n][1] * q for n, q in told.items()} | told
        return told

    def _settled(self, found: dict[str, float]) -> dict[str, float]:
        """A pose within limits and alike in mirror images; a mirror of which it is no image is given up."""
        for title, reflection in list(self.reflections.items()):
            image = mirrors.even(found, reflection)
            if max(abs(image[name] - found[name]) for name in image) > UNEVEN:
                self.notes.append(f"no mirror {title}: the default pose is not its own image")
                del self.reflections[title]
            else:
                found = image
        return {
            name: float(np.clip(value, *self.limits[name])) if name in self.limits else value
            for name, value in found.items()
        }

    # ---- model -----------------------------------------------------------------------------------------------------

    def _shapes(self) -> dict[str, list[Shape]]:
        """Collision shapes of links and feet, none of which but the feet's is near the ground."""
        stance, tree = self.stance, self.tree
        soles = {foot.link: foot for foot in self.feet}
        ground = min(float(stance.place(foot.link, foot.sole)[2]) for foot in self.feet)
        floor = ground + CLEARANCE * self.size
        found: dict[str, list[Shape]] = {foot.name: list(foot.shapes) for foot in self.feet}
        for link in tree.links:
            foot = soles.get(link.name)
            if foot is not None and not foot.own_body:
                continue
            gone = set(foot.frames) if foot is not None else set()
            own = simple([each for frame in link.frames if frame.name not in gone for each in frame.shapes])
            place, above = None, floor
            if foot is not None and link.joints:
                start, end = link.joints[-1].position, foot.sole
                place = capsule_between(start, start + 0.75 * (end - start), SHIN * float(np.linalg.norm(end - start)))
                above = max(floor, ground + ANKLE * float(stance.place(link.name, start)[2] - ground))
            if link.parent is None and not own:
                own = [self._body_box()]
                self.notes.append(f"base {link.name}: no shape in the file: a box between the hips (a guess)")

            def lowest(shape: Shape, link: Link = link) -> float:
                return float(stance.place(link.name, points(shape))[:, 2].min())

            kept = clear(own, place, above, lowest)
            if link.parent is None and own and not kept:
                below = min(lowest(each) for each in own) - ground
                raise AdoptError(
                    f"{self.path}: in its default pose it would lie on its base {link.name!r}, which is {below:.3f} m "
                    "above the soles: give a pose with straighter legs, --pose JOINT=RAD,..."
                )
            found[link.name] = kept
        return found

    def _body_box(self) -> Shape:
        """A box between the first joints of the legs, in the base's frame."""
        hips = np.array([self.stance.anchor(leg.joints[0]) for leg in self.legs])
        thick = [[0.0, 0.0, end * THIN * self.size] for end in (-1.0, 1.0)]
        wide = [[end * THIN * self.size, 0.0, 0.0] for end in (-1.0, 1.0)]
        return box_of(np.concatenate([hips * [1.0, 0.9, 1.0], hips.mean(0) + np.array([*thick, *wide])]), np.eye(3))

    def _height(self) -> tuple[float, float]:
        """Height of the base above the soles, and of the feet's origins above them [m]."""
        stance = self.stance
        low = {foot.name: float(stance.place(foot.link, all_points(foot.shapes))[:, 2].min()) for foot in self.feet}
        over = [float(stance.place(foot.link, foot.position)[2]) - low[foot.name] for foot in self.feet]
        return float(stance.place(self.tree.links[0].name)[2]) - min(low.values()), max(float(np.mean(over)), 0.0)

    def finish(self, folder: Path) -> Robot:
        """The robot, with its model in ``folder``."""
        self.stance.put(self.pose)
        shapes = self._shapes()
        height, foot_height = self._height()
        file = folder / f"{self.name}.xml"
        tree = begun(self.tree, {name: self.stance.pose[name] for name in self.stance.passive})
        spec = build(tree, shapes, self.feet, round(height, 4))
        spec.modelname = self.name
        spec.compile()
        write_text(file, spec.to_xml())
        digits = 2 if height > 0.2 else 3
        start = math.ceil(height * 10**digits + 0.2) / 10**digits
        flat = any(foot.flat for foot in self.feet)
        self.notes.append(
            f"init_height {start:g} m: base {height:.4f} m above the soles; foot_height {foot_height:.4f} m"
        )
        names = [link.name for link in self.tree.links] + [foot.name for foot in self.feet if foot.own_body]
        robot = Robot(
            name=self.name,
            joint_names=tuple(self.joints),
            body_names=tuple(names),
            foot_names=tuple(foot.name for foot in self.feet),
            default_joint_pos=tuple(self.pose[name] for name in self.joints),
            joint_limits=tuple((round(low, 5), round(high, 5)) for low, high in (self.limits[n] for n in self.joints)),
            soft_joint_pos_limit_factor=0.9,
            init_height=start,
            foot_height=round(foot_height, 4) if not flat or foot_height else None,
            actuators={},
            mjcf=file,
            mirrors={
                title: mirrors.as_mirror(found, self.joints, self.feet) for title, found in self.reflections.items()
            },
        )
        robot = self._proven(self._driven(robot))
        check_robot(robot)
        return robot

    def _proven(self, robot: Robot) -> Robot:
        kept = {}
        for title, mirror in robot.mirrors.items():
            try:
                self.prove(robot.replace(mirrors={title: mirror}))
            except UserError as error:
                self.notes.append(f"no mirror {title}: {error}")
            else:
                kept[title] = mirror
                self.notes.append(f"mirror {title}: places, axes, masses and limits of the joints are mirror images")
        return robot.replace(mirrors=kept)

    def _driven(self, robot: Robot) -> Robot:
        """``robot`` with the gains under which it stands."""
        torques, _ = self.stance.torques(pose.supports(self.stance, self.feet))
        tilt = 0.0
        for factor in STIFFER:
            found, topple = gains(self.tree, self.stance, self.legs, self.joints, self.efforts, torques, factor)
            given = _by_name(self.options.gains, self.joints, "--gains")
            found |= {name: Gain(kp=kp, kd=kd, part="given") for name, (kp, kd) in given.items()}
            robot = robot.replace(actuators=self._laws(found))
            tilt, fallen = stands(robot)
            if len(self.feet) < 4 or not fallen:
                break
        told = ", ".join(
            f"{part} kp {_span(each.kp for each in found.values() if each.part == part)} kd "
            f"{_span(each.kd for each in found.values() if each.part == part)}"
            for part in dict.fromkeys(each.part for each in found.values())
        )
        stiffer = f", legs {factor:g} times as stiff, or it would not stand" if factor > 1.0 else ""
        self.notes.append(
            f"gains: {told} (gravity topples a leg's share by {topple:.3g} N m/rad; fitted to nine robots{stiffer}); "
            "--gains REGEX=KP:KD,... changes them"
        )
        if len(self.feet) < 4:
            self.notes.append("two feet: these gains do not balance it, a policy does")
        elif fallen:
            raise AdoptError(
                f"{self.path}: it does not stand in its default pose: after {SECONDS:g} s it is tilted by "
                f"{tilt:.2f} rad or "
                "has sunk: give stiffer gains, --gains 'REGEX=KP:KD', or another pose, --pose JOINT=RAD,..."
            )
        else:
            self.notes.append(f"stands for {SECONDS:g} s under these gains, tilted by {tilt:.3f} rad at most")
        return robot

    def _laws(self, found: Mapping[str, Gain]) -> dict[str, ActuatorLaw]:
        groups: dict[tuple[Gain, float, float | None], list[str]] = {}
        for name in self.joints:
            key = found[name], float(f"{self.efforts[name]:.5g}"), self.tree.velocities.get(name)
            groups.setdefault(key, []).append(name)
        count: dict[str, int] = {}
        laws: dict[str, ActuatorLaw] = {}
        for (gain, effort, speed), names in groups.items():
            count[gain.part] = number = count.get(gain.part, 0) + 1
            title = gain.part + (f"_{number}" if number > 1 else "")
            ends = mirrors.endings(names, self.joints)
            joints = tuple(re.escape(end) if end in names else f".*{re.escape(end)}" for end in ends)
            if len(names) == len(self.joints):
                joints = (".*",)
            law = ImplicitPD(stiffness=gain.kp, damping=gain.kd, effort_limit=effort, joints=joints)
            laws[title] = law
            if speed is not None:
                values = {each.name: getattr(law, each.name) for each in fields(law)}
                laws[title] = DCMotor(**values, saturation_effort=effort, velocity_limit=speed)
        if any(isinstance(law, DCMotor) for law in laws.values()):
            note = "motors: torque falls to nothing at the file's velocity, from its effort at rest"
            if note not in self.notes:
                self.notes.append(note)
        return laws


def _span(values: Iterable[float]) -> str:
    found = sorted(values)
    return f"{found[0]:g}" if found[0] == found[-1] else f"{found[0]:g} to {found[-1]:g}"


def _by_name(values: Mapping[str, T], names: Sequence[str], option: str) -> dict[str, T]:
    """The value of each joint that a pattern matches; the first pattern counts."""
    found: dict[str, T] = {}
    for pattern, value in values.items():
        matching = [name for name in names if matches(pattern, name)]
        if not matching:
            raise UserError(f"{option} {pattern}: no joint that moves has such a name; there are {', '.join(names)}")
        found = dict.fromkeys(matching, value) | found
    return found


def stands(robot: Robot) -> tuple[float, bool]:
    """Largest tilt of the base [rad] while the robot holds its default pose on flat ground, and True if it falls."""
    spec, base = prepare_robot(robot.mjcf, robot.joint_names, timestep=0.005)
    mjcf.set_actuators(spec, robot.joint_names, robot.joint_actuators)
    model = compile_robot(spec, robot.mjcf)
    at = addresses(model, base, robot.joint_names)
    data = mujoco.MjData(model)
    data.qpos[at["base_qpos"] + 2] = robot.init_height
    data.qpos[at["joint_qpos"]] = robot.default_joint_pos
    data.ctrl[:] = robot.default_joint_pos
    tilt = 0.0
    for _ in range(round(SECONDS / 0.005)):
        mujoco.mj_step(model, data)
        up = float(data.xmat[at["base_body"]][8])
        tilt = max(tilt, math.acos(min(max(up, -1.0), 1.0)))
        if not math.isfinite(up) or tilt > 1.0:
            return tilt, True
    sunk = float(data.qpos[at["base_qpos"] + 2]) < 0.6 * robot.init_height
    return tilt, tilt > TILT or sunk
