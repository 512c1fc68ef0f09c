"""From a recorded flight to its cause: readings, drives, loads, and the same flight in simulation with the cause in it.

Base position and velocity are not in a flight. So nothing is replayed: readings are held against each other, reported
torques against commands, and motion against torques by inverse dynamics that need neither.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from gaitway_onboard.bundle.contract import verify_files
from gaitway_onboard.flight.reading import Flight, read_flight

from ..digital_twin.faults import Fault
from ..digital_twin.quirks import Quirks
from ..hardware import HARDWARE
from ..rehearse.suite import SENSORS
from . import swaps
from .drive_law import DriveLaw, Misfit, fit_drive_law, misfits
from .findings import Diagnosis, Finding
from .load_causes import USUAL, Group, LoadCauses, explain_loads
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
STIFFER, DAMPER = 0.07, 0.15  # shares
FEET = 0.5  # share of the weight that feet carry, below which something else carries the robot
LOADS_NEED = 0.6  # [s] upright on the feet
SLIDING, SLIPPERY = 0.08, 0.85  # share of the pairs of feet, and of the model's friction
CALM_SYMPTOM = 4.0  # tolerances, up to which a flight without a cause may differ from its simulation
LONGEST = 20.0  # [s] of policy that are simulated


@dataclass(frozen=True, kw_only=True)
class FlightDiagnosis(Diagnosis):
    """Causes of a flight. ``differs`` says what differs where no single group of parameters explains it."""

    differs: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """ "cause named", "unexplained" or "no fault"."""
        return "cause named" if self.findings else "unexplained" if self.differs else "no fault"

    @property
    def exit_code(self) -> int:
        """1 if a cause is named, 3 if something differs that none explains."""
        return 1 if self.findings else 3 if self.differs else 0

    @property
    def nothing(self) -> str:
        if not self.differs:
            return "NO FAULT FOUND"
        return "\n".join(["SOMETHING DIFFERS, NO SINGLE GROUP EXPLAINS IT", *(f"  {text}" for text in self.differs)])

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"verdict": self.verdict}


@dataclass(frozen=True, kw_only=True)
class _Suspect:
    finding: Finding
    swap: Swap


def diagnose_flight(
    bundle: str | Path, flight: str | Path, *, simulate: bool = True, say: Callable[[str], None] = lambda text: None
) -> FlightDiagnosis:
    """Name the cause of ``flight`` (.mcap), flown with ``bundle``.

    ``simulate`` flies the twin without and with the cause. Raises :class:`UserError` for a flight or bundle that cannot
    be used.
    """
    bundle, path = Path(bundle), Path(flight)
    verify_files(bundle)
    flown = read_flight(path)
    record = recorded(flown, bundle)
    checks: list[str] = []
    differs: list[str] = []
    readings, law = read_readings(record), fit_drive_law(record)
    suspects = [*_wire(record, readings, checks), *_drives(record, law, readings, checks, differs)]
    loads = _loads(record, bundle, checks)
    if loads is not None and not any(each.finding.cause in ("sign", "joint_order") for each in suspects):
        suspects += _of_loads(loads, checks, differs, alone=not suspects)
    findings = [each.finding for each in suspects]
    if simulate:
        say("simulating the flight without and with the cause")
        findings = _counterfactuals(record, bundle, readings, law, loads, suspects, checks, differs)
    return FlightDiagnosis(
        bundle=f"{bundle}: {record.contract.task}",
        recording=f"{path}: {flown.seconds:.1f} s of {flown.robot}, {len(flown.state)} states",
        findings=tuple(findings), checks=tuple(checks), differs=tuple(differs),
    )  # fmt: skip


def _suspect(
    cause: str, level: str, where: str, what: str, evidence: str, fix: str, swap: Swap, **numbers: Any
) -> _Suspect:
    finding = Finding(
        cause=cause, level=level, where=(where,), what=what, evidence=evidence, fix=fix,
        numbers=numbers,
    )  # fmt: skip
    return _Suspect(finding=finding, swap=swap)


def _wire(record: Recorded, found: Readings, checks: list[str]) -> list[_Suspect]:
    """Clock, lost states, noise and the gyroscope's zero."""
    suspects = []
    checks.append(
        f"readings: clock x {found.clock_rate:.4f}, {found.lost:.1%} of the states lost, gyroscope off by "
        f"{np.abs(found.gyro_bias).max():.3f} rad/s"
    )
    if abs(found.clock_rate - 1.0) > CLOCK:
        suspects.append(_suspect(
            "clock", READ, "robot's tick", f"the robot's clock runs at {found.clock_rate:.3f} times our rate",
            "slope of ticks over arrival times", "use the computer's time, or set the robot's clock",
            Swap(alter=swaps.clock_rate(found.clock_rate)), rate=found.clock_rate,
        ))  # fmt: skip
    usual = {"joint_pos": SENSORS.encoder_noise, "joint_vel": SENSORS.velocity_noise, "gyro": SENSORS.gyro_noise}
    worst = max(usual, key=lambda name: found.noise[name] / usual[name])
    if (factor := found.noise[worst] / usual[worst]) > NOISY:
        suspects.append(_suspect(
            "noise", READ, worst, f"{worst} has white noise of {found.noise[worst]:.3g} (standard deviation)",
            f"{factor:.1f} times that of the sensors of rehearsals", "look for a loose connector, or filter",
            Swap(quirks=_noise(found)), **found.noise,
        ))  # fmt: skip
    if found.lost > LOST + 1.5 * found.bunched + abs(found.clock_rate - 1.0):
        suspects.append(_suspect(
            "lost_states", READ, "wire", f"{found.lost:.1%} of the robot's states did not arrive",
            "gaps of its tick, or of arrival times", "use a cable, and no other traffic on it",
            Swap(quirks={"loss": min(found.lost, 1.0)}), share=found.lost,
        ))  # fmt: skip
    if np.abs(found.gyro_bias).max() > max(GYRO, 0.3 * found.gyro_left):
        x, y, z = found.gyro_bias
        suspects.append(_suspect(
            "gyro_bias", READ, "gyro", f"the gyroscope reads {x:+.3f}, {y:+.3f}, {z:+.3f} rad/s too much",
            f"compared with the turning of the orientation, {found.gyro_left:.3f} rad/s are left of "
            f"{np.abs(found.gyro_bias).max():.3f}", "calibrate the gyroscope at rest",
            Swap(alter=swaps.gyro_bias(found.gyro_bias)), bias=found.gyro_bias.tolist(),
        ))  # fmt: skip
    if found.flipped is not None:
        joint, time = found.flipped
        name = record.flight.joint_names[joint]
        suspects.append(_suspect(
            "sign", READ, name, f"the encoder of {name} changes its sign after {time - record.flight.start:.2f} s",
            "the position jumps to its negative from one state to the next", "check the encoder and its sign",
            Swap(fault=(Fault.JOINT_SIGN, name), after=_after(record, time)), time=time,
        ))  # fmt: skip
    return suspects


def _drives(
    record: Recorded, law: DriveLaw, readings: Readings, checks: list[str], differs: list[str]
) -> list[_Suspect]:
    """Delay, gains, and single motors."""
    names, suspects = record.flight.joint_names, []
    kp, kd = law.stiffness_most, law.damping_most
    checks.append(
        f"drives: torques follow the commands of {1e3 * law.delay:.0f} ms ago with stiffness x {kp:.2f} and damping "
        f"x {kd:.2f}, {law.left:.2f} N m are left"
    )
    if law.delay > LATE:
        suspects.append(_suspect(
            "delay", READ, "wire", f"torques answer commands {1e3 * law.delay:.0f} ms late, there and back",
            "least misfit of the drive law; a flight has one clock, so states and commands late look alike",
            "shorten the way, or train with this delay", Swap(quirks={"command_latency": law.delay}), delay=law.delay,
        ))  # fmt: skip
    noisy = readings.noise["joint_vel"] > NOISY * SENSORS.velocity_noise  # which makes damping look weaker
    found = misfits(record, law)
    if not noisy and (abs(kp - 1.0) > STIFFER or abs(kd - 1.0) > DAMPER):
        weak = kp < 1.0 - STIFFER and abs(kp - kd) < STIFFER
        suspects.append(_suspect(
            "motor_strength" if weak else "gains", READ, "drives",
            f"drives act with stiffness {kp:.2f} and damping {kd:.2f} times what they are told",
            f"fit of the reported torques, {law.left:.2f} N m are left", "give the drives the bundle's gains",
            Swap(parameters={"stiffness_scale": kp, "damping_scale": kd}), stiffness=kp, damping=kd,
        ))  # fmt: skip
    checks.append(f"motors: {', '.join(names[each.joint] for each in found) or 'none'} off the drive law")
    if found and not noisy:
        suspects += [each for each in (_motor(record, law, found),) if each is not None]
        if not suspects:
            each = found[0]
            differs.append(f"{names[each.joint]} gives {each.before:.1f} N m (rms) else than it is told, for "
                           f"{each.seconds:.2f} s")  # fmt: skip
    return suspects


def _motor(record: Recorded, law: DriveLaw, found: list[Misfit]) -> _Suspect | None:
    names = record.flight.joint_names
    best = next((each for each in found if each.kind == "order"), found[0])
    name, when = names[best.joint], f"after {best.start - record.flight.start:.2f} s"
    after = _after(record, best.start)
    evidence = f"{best.before:.1f} N m (rms) off the drive law for {best.seconds:.2f} s, {best.after:.2f} N m so"
    match best.kind:
        case "dead":
            return _suspect("dead_motor", READ, name, f"{name} gives no torque {when}", evidence,
                            "check motor and cable", Swap(fault=(Fault.MOTOR, name), after=after),
                            time=best.start)  # fmt: skip
        case "stuck":
            return _suspect("stuck_motor", READ, name, f"{name} gives {best.value:.1f} N m whatever it is told, {when}",
                            evidence, "check the drive", Swap(fault=(Fault.MOTOR_STUCK, name), after=after),
                            time=best.start, torque=best.value)  # fmt: skip
        case "motor_sign":
            return _suspect("sign", READ, name, f"{name} pulls against what it is told, {when}", evidence,
                            "swap two phases, or negate its commands",
                            Swap(fault=(Fault.MOTOR_SIGN, name), after=after), time=best.start)  # fmt: skip
        case "encoder_sign":
            return _suspect("sign", READ, name, f"the drive of {name} measures the negative of what it reports",
                            evidence, "check the sign of its reading",
                            Swap(fault=(Fault.JOINT_SIGN, name), after=after), time=best.start)  # fmt: skip
        case "offset":
            return _suspect("encoder_offset", READ, name, f"{name} reads {best.value:+.3f} rad more than its drive",
                            evidence, "calibrate its encoder", Swap(alter=swaps.encoder_offset(name, best.value)),
                            offset=best.value)  # fmt: skip
        case "order":
            source = {names[e.joint]: names[e.other] for e in found if e.kind == "order" and e.other is not None}
            text = ", ".join(f"{joint} follows the target of {other}" for joint, other in source.items())
            return _suspect("joint_order", READ, ", ".join(source), text, evidence, "map commands to motors by name",
                            Swap(alter=swaps.joint_order(source, 2.05 + (after or 0.0))), source=source)  # fmt: skip
    return None


def _after(record: Recorded, time: float) -> float | None:
    """Seconds after the policy took over."""
    start = policy_start(record.flight)
    return None if start is None else time - start


def _loads(record: Recorded, bundle: Path, checks: list[str]) -> Loads | None:
    seconds = record.period * record.usable.sum()
    if record.force is None or seconds < LOADS_NEED:
        why = f"only {seconds:.2f} s upright on its feet" if record.force is not None else "no accelerometer"
        checks.append(f"loads: not checked, {why}")
        return None
    loads = Loads(record, bundle)
    if len(loads.rows) < 100 or (carried := loads.carried()) < FEET:
        why = (
            "too few states without a gap"
            if len(loads.rows) < 100
            else f"feet carry {carried:.0%} of the weight: hung?"
        )
        checks.append(f"loads: not checked, {why}")
        return None
    return loads


def _of_loads(loads: Loads, checks: list[str], differs: list[str], *, alone: bool) -> list[_Suspect]:
    """``alone`` says that nothing else is known to be wrong, of which sliding could be a consequence."""
    found = explain_loads(loads, loads.columns())
    share, limit, _ = loads.sliding()
    model = float(loads.model.geom_friction[loads.geoms, 0].max())
    checks.append(
        f"loads: misfit {found.before:.2f} (up to {USUAL:g} is usual), {found.left:.0%} left with "
        f"{found.best.cause.replace('_', ' ') if found.best else 'any group'}; feet slide in {share:.0%} of the pairs"
    )
    if found.best is not None and not found.doubt:
        return [_of_group(loads, found, found.best)]
    if found.best is not None:
        differs.append(f"torques do not move the robot as it moved; {found.best.cause.replace('_', ' ')} and "
                       f"{found.doubt.replace('_', ' ')} explain it about as well")  # fmt: skip
    elif alone and share > SLIDING and limit < SLIPPERY * model:
        return [_suspect(
            "ground_friction", BEHAVES, "ground", f"feet slide on a ground of friction {limit:.2f} (model: {model:g})",
            f"{share:.0%} of the pairs of loaded feet slide, at {limit:.2f} times their load",
            "train with less friction, or walk on another ground",
            Swap(alter=swaps.ground_friction(limit)), friction=limit,
        )]  # fmt: skip
    elif found.before > USUAL:
        differs.append(
            f"torques do not move the robot as it moved (misfit {found.before:.2f}), whatever group is fitted"
        )
    return []


def _of_group(loads: Loads, found: LoadCauses, group: Group) -> _Suspect:
    model, names, joint = loads.model, loads.record.flight.joint_names, group.joint
    value = float(group.values[0]) if len(group.values) else group.armature
    evidence = f"on stretches that were not fitted, {found.left:.0%} of the misfit is left"
    where, numbers = (
        joint or "all joints",
        {name: float(v) for name, v in zip(group.columns, group.values, strict=True)},
    )

    def suspect(what: str, fix: str, swap: Swap, where: str = where) -> _Suspect:
        return _suspect(group.cause, BEHAVES, where, what, evidence, fix, swap, **numbers)

    match group.cause:
        case "payload":
            mass = float(model.body_mass[loads.body.plant.base_body])
            return suspect(f"the base carries {value:+.1f} kg", "take the load off, or train with it",
                           Swap(base_mass=max(mass + value, 0.2)), "base")  # fmt: skip
        case "motor_strength":
            return suspect(f"motors give {1.0 + value:.2f} times the torque they report",
                           "check supply and gear, or identify the strength (gaitway identify)",
                           Swap(parameters={"strength": max(1.0 + value, 0.0)}, joint=joint))  # fmt: skip
        case "joint_friction":
            dofs = loads.joints if not joint else loads.joints[names.index(joint)]
            dry = float(np.mean(model.dof_frictionloss[dofs])) + value
            return suspect(f"joints have {value:+.2f} N m of dry friction beside the model's",
                           "grease them, or train with it",
                           Swap(parameters={"friction": max(dry, 0.0)}, joint=joint))  # fmt: skip
        case "encoder_offset":
            return suspect(f"{joint} reads {value:+.3f} rad too much", "calibrate its zero",
                           Swap(alter=swaps.encoder_offset(joint, value)))  # fmt: skip
        case "imu_mounting":
            roll, pitch = (-float(v) for v in group.values)
            return suspect(f"the IMU is turned by {roll:+.3f} rad about x and {pitch:+.3f} rad about y",
                           "level the IMU, or correct its readings",
                           Swap(alter=swaps.imu_mounting(roll, pitch)), "IMU")  # fmt: skip
    own = float(np.mean(model.dof_armature[loads.joints]))
    return suspect(f"joints carry {group.armature:+.4f} kg m^2 of inertia beside the model's",
                   f"armature should be about {own + group.armature:.4f} kg m^2 (model: {own:.4f})",
                   Swap(parameters={"armature": max(own + group.armature, 0.0)}))  # fmt: skip


def _noise(found: Readings) -> dict[str, float]:
    noise = found.noise
    return {"encoder_noise": noise["joint_pos"], "velocity_noise": noise["joint_vel"], "gyro_noise": noise["gyro"]}


def _counterfactuals(
    record: Recorded, bundle: Path, readings: Readings, law: DriveLaw, loads: Loads | None,
    suspects: list[_Suspect], checks: list[str], differs: list[str],
) -> list[Finding]:  # fmt: skip
    """Findings with the level that a simulation of the flight, without and with each cause, gives them."""
    flight, found = record.flight, [each.finding for each in suspects]
    hardware = HARDWARE.get(flight.hardware)
    if hardware is None or not len(flight.policy):
        why = (
            "the policy was never in charge"
            if hardware is not None
            else f"no twin of {flight.hardware or 'this robot'}"
        )
        checks.append(f"counterfactual: not simulated, {why}")
        return found
    start = policy_start(flight)
    ends = (e.time for e in flight.events if e.kind in ("stop", "trip") or (e.kind, e.text) == ("mode", "settle"))
    end = next((time for time in ends if time > (start or 0.0)), flight.start + flight.seconds)
    seconds = min(LONGEST, max(0.2, end - float(flight.policy.time[0])))
    flown = symptoms_of(record, loads, seconds)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)

        def simulated(name: str, swap: Swap, takes_over: float) -> tuple[Symptoms, Flight]:
            base = replace(SENSORS, **{k: min(v, getattr(SENSORS, k)) for k, v in _noise(readings).items()})
            quirks: Quirks = swap.quirked(base, flight.robot, flight.joint_names)
            out = place / f"{name}.mcap"
            times, commands = flight.policy.time - flight.policy.time[0], flight.policy.command
            fly(
                out, bundle, hardware,
                lambda t: tuple(commands[max(0, int(np.searchsorted(times, t, side="right")) - 1)].tolist()),
                seconds, quirks=quirks, seed=1, alter=lambda twin: swap.apply(twin, takes_over),
            )  # fmt: skip
            sim = read_flight(out)
            try:
                again = recorded(sim, bundle)
            except FlightDiagnosisError:
                return Symptoms(trip=trip_of(sim)), sim
            return symptoms_of(again, _loads(again, bundle, []), seconds), sim

        without, sim = simulated("without", Swap(), 0.0)
        takes_over = policy_start(sim) or 0.0
        levels: list[Finding] = []
        for number, each in enumerate(suspects):
            swapped, _ = simulated(f"with-{number}", each.swap, takes_over)
            matched, shown = is_matched(flown, without, swapped)
            text = f"counterfactual: {each.finding.cause.replace('_', ' ')} "
            if not shown:
                checks.append(f"{text}does not show in how the flight went")
            else:
                checks.append(f"{text}{'reproduces' if matched else 'does not reproduce'} {', '.join(shown[:3])}")
            levels.append(replace(
                each.finding, level=MATCHED if matched else each.finding.level,
                evidence=f"{each.finding.evidence}; simulated with it, the flight shows its {', '.join(shown[:3])}"
                if matched else each.finding.evidence,
            ))  # fmt: skip
        if not suspects:
            _judge_calm(flown, without, checks, differs)
    return levels


def _judge_calm(flown: Symptoms, without: Symptoms, checks: list[str], differs: list[str]) -> None:
    """A flight without a cause should look like its simulation."""
    found = {name: value for name, value in differences(flown, without).items() if abs(value) > CALM_SYMPTOM}
    checks.append(f"counterfactual: the flight differs from its simulation in {', '.join(found) or 'nothing'}")
    if found:
        differs.append(
            f"the flight differs from its simulation in {', '.join(found)}" + (f" ({flown.trip})" if flown.trip else "")
        )
