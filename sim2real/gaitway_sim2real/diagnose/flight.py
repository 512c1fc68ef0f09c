"""From a recorded flight to its cause: readings, drives, loads, and the same flight in simulation with the cause in it.

Base position and velocity are not in a flight. So readings are held against each other, reported torques against
commands, and motion against torques by inverse dynamics that need neither. A simulated flight then shows whether the
cause brings about how the flight went.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from gaitway_files.hardware import Hardware
from gaitway_onboard.bundle.contract import verify_files
from gaitway_onboard.flight.reading import Flight, read_flight

from ..digital_twin.faults import Fault
from ..digital_twin.quirks import SENSORS
from ..hardware import HARDWARE
from . import swaps
from .drive_law import DriveLaw, Misfit, fit_drive_law, misfits
from .findings import CAUSES, Diagnosis, Finding
from .load_causes import USUAL, Group, explain_loads
from .loads import Loads
from .readings import Readings, read_readings
from .recorded import FlightDiagnosisError, Recorded, recorded
from .simulated import fly
from .swaps import Swap
from .symptoms import Symptoms, differences, is_matched, policy_start, symptoms_of, trip_of

READ, BEHAVES, MATCHED = "read", "behaves", "matched by counterfactual"
CLOCK, LOST = 0.005, 0.035  # shares
NOISY = 3.0  # times the noise that rehearsals take for usual
GYRO = 0.03  # [rad/s]
LATE = 0.0055  # [s]
COARSE = 0.0105  # [s] between states, from which a torque is no longer that of the commands and speeds beside it
STIFFER, DAMPER = 0.07, 0.15  # shares
FEET = 0.5  # share of the weight that feet carry, below which something else carries the robot
LOADS_NEED, ROWS_NEED = 0.6, 100  # [s] and samples upright on the feet
SLIDING, SLIPPERY = 0.08, 0.85  # share of the pairs of feet, and of the model's friction
LARGE = 4.0  # tolerances, up to which a flight without a cause may differ from its simulation
UNCHECKED = "not checked"
LONGEST = 20.0  # [s] of policy that are simulated
WORDS = {
    "clock": ("the robot's clock runs at {rate:.3f} times the computer's rate", "set or replace the robot's clock"),
    "noise": ("{signal} has white noise of {noise:.3g} (standard deviation)", "look for a loose connector, or filter"),
    "lost_states": ("{share:.1%} of the robot's states were not seen", "use a cable, with no other traffic on it"),
    "gyro_bias": ("the gyroscope reads {x:+.3f}, {y:+.3f}, {z:+.3f} rad/s too much", "calibrate it at rest"),
    "delay": ("torques answer commands {delay:.3f} s late, there and back", "shorten the way, or train with it"),
    "gains": ("stiffness is {stiffness:.2f} and damping {damping:.2f} times the commanded", "set the bundle's gains"),
    "motor_strength": ("motors give {strength:.2f} times the torque that is due", "check supply and gears"),
    "dead_motor": ("the motor gives no torque, after {time:.2f} s", "check the motor and its cable"),
    "stuck_motor": ("the motor gives {torque:.1f} N m whatever it is told, after {time:.2f} s", "check its drive"),
    "sign": ("{part} turns the wrong way, after {time:.2f} s", "check the sign of its commands and readings"),
    "joint_order": ("joints follow the targets of others: {source}", "map commands to motors by name"),
    "encoder_offset": ("the encoder reads {offset:+.3f} rad too much", "calibrate its zero"),
    "payload": ("the base carries {mass:+.1f} kg", "take the load off, or train with it"),
    "joint_friction": ("dry friction is {dry:+.2f} N m beside the model's", "grease the joints, or train with it"),
    "imu_mounting": ("the IMU is turned by {roll:+.3f} rad about x and {pitch:+.3f} about y", "level or correct it"),
    "armature": ("joints have {armature:.4f} kg m^2 of rotors' inertia (model: {model:.4f})", "set it in the model"),
    "ground_friction": ("feet slide on a ground of friction {friction:.2f} (model: {model:g})", "train with less"),
}  # fmt: skip
"""What is said of a cause, with its numbers, and the fix."""


@dataclass(frozen=True, kw_only=True)
class FlightDiagnosis(Diagnosis):
    """Causes of a flight. ``differs`` says what differs where no single group of parameters explains it."""

    differs: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """One of "cause named", "unexplained" and "no fault"."""
        return ("no fault", "cause named", "", "unexplained")[self.exit_code]

    @property
    def exit_code(self) -> int:
        """1 if a cause is named, 3 if something differs that none explains."""
        return 1 if self.findings else 3 if self.differs else 0

    @property
    def nothing(self) -> str:
        if not self.differs:
            partly = any(UNCHECKED in text for text in self.checks)
            return "NO FAULT FOUND" + ", BUT NOT EVERYTHING COULD BE CHECKED" * partly
        return "\n".join(["SOMETHING DIFFERS, NO SINGLE GROUP EXPLAINS IT", *(f"  {text}" for text in self.differs)])

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"verdict": self.verdict}


def diagnose_flight(
    bundle: str | Path, flight: str | Path, *, simulate: bool = True, say: Callable[[str], None] = lambda text: None
) -> FlightDiagnosis:
    """Name the cause of ``flight`` (.mcap), flown with ``bundle``.

    ``simulate`` also flies the twin without and with the cause. Raises :class:`UserError` for a flight or bundle that
    cannot be used.
    """
    bundle, path = Path(bundle), Path(flight)
    verify_files(bundle)
    record = recorded(read_flight(path), bundle)
    case = _Case(record, bundle)
    case.check_wire()
    case.check_drives()
    case.check_loads()
    if simulate:
        say("simulating the flight without and with the cause")
        case.check_counterfactuals()
    flown = record.flight
    return FlightDiagnosis(
        bundle=f"{bundle}: {record.contract.task}",
        recording=f"{path}: {flown.seconds:.1f} s of {flown.robot}, {len(flown.state)} states",
        findings=tuple(case.findings),
        checks=tuple(case.checks),
        differs=tuple(case.differs),
    )


@dataclass(eq=False)
class _Case:
    """A flight while it is diagnosed: what was checked, found, and left without a cause."""

    record: Recorded
    bundle: Path
    checks: list[str] = field(default_factory=list)
    differs: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    swaps: list[Swap] = field(default_factory=list)
    """What each finding changes in the twin."""
    loads: Loads | None = None

    def __post_init__(self) -> None:
        self.readings: Readings = read_readings(self.record)
        self.law: DriveLaw = fit_drive_law(self.record)
        self.names = self.record.flight.joint_names

    def add(self, cause: str, level: str, where: str, evidence: str, swap: Swap, **numbers: Any) -> None:
        what, fix = WORDS[cause]
        self.swaps.append(swap)
        text = what.format(**numbers)
        found = Finding(
            cause=cause, where=(where,), what=text, evidence=evidence, fix=fix, numbers=numbers, level=level
        )
        self.findings.append(found)

    def since_policy(self, time: float) -> float | None:
        """Seconds after the policy took over, None if it did not."""
        start = policy_start(self.record.flight)
        return None if start is None else time - start

    # ---- readings --------------------------------------------------------------------------------------------------

    def check_wire(self) -> None:
        """Clock, noise, lost states, the gyroscope's zero, and an encoder that turns round."""
        found = self.readings
        drift, bias = abs(found.clock_rate - 1.0), float(np.abs(found.gyro_bias).max())
        self.checks.append(
            f"readings: clock x {found.clock_rate:.4f}, {found.lost:.1%} of the states lost, gyroscope off by "
            f"{bias:.3f} rad/s"
        )
        if drift > CLOCK:
            swap, evidence = swaps.clock_rate(found.clock_rate), "slope of the robot's ticks over their arrival"
            self.add("clock", READ, "robot's clock", evidence, swap, rate=found.clock_rate)
        usual = {"joint_pos": SENSORS.encoder_noise, "joint_vel": SENSORS.velocity_noise, "gyro": SENSORS.gyro_noise}
        worst = max(usual, key=lambda name: found.noise[name] / usual[name])
        if (factor := found.noise[worst] / usual[worst]) > NOISY:
            evidence = f"{factor:.1f} times that of the sensors of rehearsals"
            self.add("noise", READ, worst, evidence, Swap(quirks=self._noise()), signal=worst, noise=found.noise[worst])
        if found.lost > LOST + 1.5 * found.bunched + drift:
            swap, evidence = Swap(quirks={"loss": found.lost}), "gaps of the robot's clock, or of arrivals"
            self.add("lost_states", READ, "wire", evidence, swap, share=found.lost)
        if bias > max(GYRO, 0.3 * found.gyro_left):
            x, y, z = found.gyro_bias.tolist()
            evidence = f"beside the turning of the orientation, whose difference varies by {found.gyro_left:.3f} rad/s"
            self.add("gyro_bias", READ, "gyro", evidence, swaps.gyro_bias(found.gyro_bias), x=x, y=y, z=z)
        if found.flipped is not None:
            joint, time = found.flipped
            swap = swaps.fault(Fault.JOINT_SIGN, self.names[joint], self.since_policy(time))
            evidence = "the position jumps to its negative from one state to the next"
            time -= self.record.flight.start
            self.add("sign", READ, self.names[joint], evidence, swap, part="the encoder", time=time)

    def _noise(self) -> dict[str, float]:
        noise = self.readings.noise
        return {"encoder_noise": noise["joint_pos"], "velocity_noise": noise["joint_vel"], "gyro_noise": noise["gyro"]}

    # ---- drives ----------------------------------------------------------------------------------------------------

    def check_drives(self) -> None:
        """Delay, gains, and single motors."""
        law = self.law
        kp, kd = law.stiffness_most, law.damping_most
        self.checks.append(
            f"drives: torques follow the commands of {1e3 * law.delay:.0f} ms ago with stiffness x {kp:.2f} and "
            f"damping x {kd:.2f}, {law.left:.2f} N m are left"
        )
        if law.delay > LATE:
            evidence = "least misfit of the drive law; with one clock, late states and late commands look alike"
            self.add("delay", READ, "wire", evidence, Swap(quirks={"command_latency": law.delay}), delay=law.delay)
        if self.readings.noise["joint_vel"] > NOISY * SENSORS.velocity_noise:
            self.checks.append("gains and motors: not checked, speeds are too noisy")
            return
        if max(abs(kp - 1.0) / STIFFER, abs(kd - 1.0) / DAMPER) > 1.0:
            swap = swaps.parameters(self.record.flight, stiffness_scale=kp, damping_scale=kd)
            evidence = f"fit of the reported torques, {law.left:.2f} N m are left"
            cause = "motor_strength" if kp < 1.0 - STIFFER and abs(kp - kd) < STIFFER else "gains"
            self.add(cause, READ, "drives", evidence, swap, stiffness=kp, damping=kd, strength=kp)
        if self.record.period > COARSE:
            self.checks.append(f"motors: not checked, states are {1e3 * self.record.period:.0f} ms apart (10 at most)")
            return
        found = misfits(self.record, law)
        self.checks.append(f"motors: {', '.join(self.names[each.joint] for each in found) or 'none'} off the drive law")
        if found:
            self._add_motor(found)

    def _add_motor(self, found: list[Misfit]) -> None:
        best = next((each for each in found if each.kind == "order"), found[0])
        name, after, time = self.names[best.joint], self.since_policy(best.start), best.start - self.record.flight.start
        evidence = f"{best.before:.1f} N m (rms) off the drive law for {best.seconds:.2f} s, {best.after:.2f} N m so"
        match best.kind:
            case "dead":
                self.add("dead_motor", READ, name, evidence, swaps.fault(Fault.MOTOR, name, after), time=time)
            case "stuck":
                swap = swaps.fault(Fault.MOTOR_STUCK, name, after)
                self.add("stuck_motor", READ, name, evidence, swap, time=time, torque=best.value)
            case "motor_sign" | "encoder_sign":
                motor = best.kind == "motor_sign"
                swap = swaps.fault(Fault.MOTOR_SIGN if motor else Fault.JOINT_SIGN, name, after)
                part = "the motor" if motor else "the encoder"
                self.add("sign", READ, name, evidence, swap, part=part, time=time)
            case "offset":
                swap = swaps.encoder_offset(name, best.value)
                self.add("encoder_offset", READ, name, evidence, swap, offset=best.value)
            case "order":
                source = {self.names[e.joint]: self.names[e.other] for e in found if e.other is not None}
                text = ", ".join(f"{joint} that of {other}" for joint, other in source.items())
                self.add(
                    "joint_order", READ, ", ".join(source), evidence, swaps.joint_order(source, after), source=text
                )
            case _:
                text = f"gives {best.before:.1f} N m (rms) else than it is told, for {best.seconds:.2f} s"
                self.differs.append(f"{name} {text}")

    # ---- loads -----------------------------------------------------------------------------------------------------

    def check_loads(self) -> None:
        """Mass, strength, friction, rotors, encoders and IMU, by inverse dynamics; and feet that slide."""
        self.loads, why = usable_loads(self.record, self.bundle)
        if self.loads is None or any(each.cause in ("sign", "joint_order") for each in self.findings):
            self.checks.append(f"loads: not checked, {why or 'joints are mixed up'}")
            return
        found, (share, limit) = explain_loads(self.loads), self.loads.sliding()
        model = float(self.loads.model.geom_friction[self.loads.geoms, 0].max())
        best = CAUSES[found.best.cause] if found.best else "any group"
        self.checks.append(
            f"loads: misfit {found.before:.2f} (up to {USUAL:g} is usual), {found.left:.0%} left with {best}; feet "
            f"slide in {share:.0%} of the pairs"
        )
        if found.best is not None and not found.doubt:
            self._add_group(self.loads, found.best, found.left)
        elif found.best is not None:
            doubt = f"{best} and {CAUSES[found.doubt]} explain it about as well"
            self.differs.append(f"torques do not move the robot as it moved; {doubt}")
        elif not self.findings and share > SLIDING and limit < SLIPPERY * model:
            evidence = f"{share:.0%} of the pairs of loaded feet slide, at {limit:.2f} times their load"
            swap = swaps.ground_friction(limit)
            self.add("ground_friction", BEHAVES, "ground", evidence, swap, friction=limit, model=model)
        elif found.before > USUAL:
            self.differs.append(f"torques do not move the robot as it moved (misfit {found.before:.2f}), by any group")

    def _add_group(self, loads: Loads, group: Group, left: float) -> None:
        flight, model, joint = self.record.flight, loads.model, group.joint
        value = group.armature if group.cause == "armature" else float(group.values[0])
        dofs = loads.joints if not joint else loads.joints[[self.names.index(joint)]]
        numbers: dict[str, float] = {}
        match group.cause:
            case "payload":
                mass = float(model.body_mass[loads.body.plant.base_body])
                swap, numbers["mass"] = swaps.parameters(flight, base_mass=max(mass + value, 0.2)), value
            case "motor_strength":
                numbers["strength"] = max(1.0 + value, 0.0)
                swap = swaps.parameters(flight, joint, **numbers)
            case "joint_friction":
                friction = float(np.mean(model.dof_frictionloss[dofs])) + value
                swap, numbers["dry"] = swaps.parameters(flight, joint, friction=max(friction, 0.0)), value
            case "encoder_offset":
                swap, numbers["offset"] = swaps.encoder_offset(joint, value), value
            case "imu_mounting":
                roll, pitch = (-group.values).tolist()
                swap, numbers = swaps.imu_mounting(roll, pitch), {"roll": roll, "pitch": pitch}
            case _:
                numbers["model"] = float(np.mean(model.dof_armature[dofs]))
                numbers["armature"] = max(numbers["model"] + value, 0.0)
                swap = swaps.parameters(flight, armature=numbers["armature"])
        where = {"payload": "base", "imu_mounting": "IMU"}.get(group.cause, joint or "all joints")
        evidence = f"on stretches that were not fitted, {left:.0%} of the misfit is left"
        self.add(group.cause, BEHAVES, where, evidence, swap, **numbers)

    # ---- counterfactuals -------------------------------------------------------------------------------------------

    def check_counterfactuals(self) -> None:
        """Fly the twin without and with each cause, and see which flight goes as the recorded one."""
        flight = self.record.flight
        hardware = HARDWARE.get(flight.hardware)
        if hardware is None or not len(flight.policy):
            why = "the policy was never in charge" if hardware else f"no twin of {flight.hardware or 'this robot'}"
            self.checks.append(f"counterfactual: not simulated, {why}")
            return
        start = float(flight.policy.time[0])
        ends = (e.time for e in flight.events if e.kind in ("stop", "trip") or (e.kind, e.text) == ("mode", "settle"))
        end = next((time for time in ends if time > start), flight.start + flight.seconds)
        seconds = min(LONGEST, max(0.2, end - start))
        flown = symptoms_of(self.record, self.loads, seconds)
        without, takes_over = self._simulated(hardware, Swap(), seconds, 0.0)
        for number, (finding, swap) in enumerate(zip(self.findings, self.swaps, strict=True)):
            matched, shown = is_matched(flown, without, self._simulated(hardware, swap, seconds, takes_over)[0])
            seen = ", ".join(shown[:3])
            how = "does not show in how the flight went" if not shown else f"does not reproduce {seen}"
            if matched:
                how, evidence = f"reproduces {seen}", f"{finding.evidence}; simulated, it brings about {seen}"
                self.findings[number] = replace(finding, level=MATCHED, evidence=evidence)
            self.checks.append(f"counterfactual: {CAUSES[finding.cause]} {how}")
        if not self.findings:
            found = [name for name, value in differences(flown, without).items() if abs(value) > LARGE]
            text = f"the flight differs from its simulation in {', '.join(found) or 'nothing'}"
            self.checks.append(f"counterfactual: {text}")
            if found:
                self.differs.append(f"{text} ({flown.trip})" if flown.trip else text)

    def _simulated(self, hardware: Hardware, swap: Swap, seconds: float, takes_over: float) -> tuple[Symptoms, float]:
        """Symptoms of a simulated flight, and when its policy took over [s]."""
        flight = self.record.flight
        usual = {name: min(value, getattr(SENSORS, name)) for name, value in self._noise().items()}
        quirks = replace(SENSORS, **{**usual, **swap.quirks})
        times, commands = flight.policy.time - flight.policy.time[0], flight.policy.command

        def command(time: float) -> tuple[float, ...]:
            return tuple(commands[max(0, int(np.searchsorted(times, time, side="right")) - 1)].tolist())

        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "simulated.mcap"
            fly(
                out, self.bundle, hardware, command, seconds, quirks=quirks, seed=1,
                alter=lambda twin: swap.alter(twin, takes_over),
            )  # fmt: skip
            found: Flight = read_flight(out)
        begun = policy_start(found) or 0.0
        try:
            record = recorded(found, self.bundle)
        except FlightDiagnosisError:  # it ended at once
            return Symptoms(trip=trip_of(found)), begun
        return symptoms_of(record, usable_loads(record, self.bundle)[0], seconds), begun


def usable_loads(record: Recorded, bundle: Path) -> tuple[Loads | None, str]:
    """The inverse dynamics; or None, and the reason."""
    if record.force is None:
        return None, "no accelerometer"
    if (seconds := record.period * record.usable.sum()) < LOADS_NEED:
        return None, f"only {seconds:.2f} s upright on its feet (at least {LOADS_NEED:g} s)"
    loads = Loads(record, bundle)
    if (loads.model.geom_type[loads.geoms] != mujoco.mjtGeom.mjGEOM_SPHERE).any():
        return None, "feet are no balls, so where the ground presses is unknown"
    if len(loads.rows) < ROWS_NEED:
        return None, "too few states without a gap"
    if (carried := loads.carried()) < FEET:
        return None, f"feet carry {carried:.0%} of the weight: does it hang?"
    return loads, ""
