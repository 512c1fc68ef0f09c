"""``gaitway diagnose``: name the cause of a mismatch between simulators, or of what went wrong in a flight.

Compare a bundle with a recording of its policy, and name the cause of a mismatch. The recording is one of the simulator
the policy comes from (--recording), or the flight of a robot or twin (--flight), by 'gaitway deploy --log'.

Three checks of a recording: the bundle builds the recorded observation from the recorded states; its graph computes the
recorded actions and joint targets; MuJoCo moves each recorded state to the recorded next one. Possible causes are joint
order, sign, scale, offset, frames, quaternion order, history layout, clips, delay, another policy, gains, armature and
torque limit. Each comes with its evidence and the fix.

Four checks of a flight: its readings agree with each other; the reported torques follow the commands; they move the
bundle's robot as it moved; and a simulated flight with the cause goes as the flight did. Possible causes are payload,
friction of ground or joints, delay, gains, motor strength, armature, encoder zero, IMU mounting, gyroscope's zero,
joint order, sign, clock, dead or stuck motor, noise and lost states.

The exit code is 0 if nothing is found, 1 if a cause is named, 2 for bad input, and 3 for a flight in which something
differs that no single cause explains.

examples:
  gaitway diagnose bundles/go2 --recording rollout.npz
  gaitway diagnose runs/walk/bundle --recording rollout.npz --json diagnosis.json
  gaitway diagnose bundles/go2 --flight flights/first.mcap
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from .. import options, sources
from ..catalogue import FLIGHT, MUJOCO
from . import common

if TYPE_CHECKING:
    from gaitway_sim2real.diagnose import Diagnosis

WORKS_ON = True


def add_options(parser: options.Parser) -> None:
    parser.option("source RUN|BUNDLE", "run (exported first) or bundle", Path)
    common.add_checkpoint(parser)
    what = parser.add_mutually_exclusive_group(required=True)
    parser.option("--recording FILE.npz", "recording by 'gaitway record' or Isaac Lab's recorder", Path, within=what)
    parser.option("--flight FILE.mcap", "flight of the bundle, by 'gaitway deploy --log'", Path, within=what)
    parser.switch("--no-simulation", "of a flight, leave out the simulated flights with and without the cause")
    parser.option("--json FILE", "also write the findings as JSON", Path)


def run(args: argparse.Namespace) -> int:
    common.require("diagnose", MUJOCO)
    from ..runs.files import make_folder, write_text_atomically

    if args.flight is None:
        from gaitway_tasks.recording import Recording

        Recording.load(args.recording)
    which = sources.settled(args.source, args.checkpoint)
    bundle = sources.bundle_of(args.source, which=which)
    if args.json is not None:
        make_folder(args.json.absolute().parent)
    diagnosis = _of_flight(args, bundle) if args.flight is not None else _of_recording(args, bundle)
    if args.json is not None:
        write_text_atomically(args.json, diagnosis.to_json())
    print(diagnosis.summary())
    return diagnosis.exit_code


def _of_recording(args: argparse.Namespace, bundle: Path) -> Diagnosis:
    from gaitway_sim2real.diagnose import diagnose_bundle

    return diagnose_bundle(bundle, args.recording)


def _of_flight(args: argparse.Namespace, bundle: Path) -> Diagnosis:
    common.require("diagnose", FLIGHT)
    from gaitway_sim2real.diagnose.flight import diagnose_flight

    return diagnose_flight(bundle, args.flight, simulate=not args.no_simulation)
