"""Any policy, run as a description says that somebody wrote."""

from __future__ import annotations

from pathlib import Path

from gaitway_files.reading import FileError
from gaitway_files.yaml_files import read_yaml

from ..described_policy import DescribedPolicy, described
from ..description_file import description_from
from ..errors import PolicyImportError
from ..families import Options
from ..weights import read_network

TEMPLATE = """\
# How to run a policy. Joints are in the policy's own order. A number of joints is one for all, a list in the order of
# joints, or a mapping of patterns: {".*_knee_joint": 150.0, ".*": 100.0}.
name: my-walk
joints: [left_hip_joint, left_knee_joint, right_hip_joint, right_knee_joint]
default_joint_pos: {".*_hip_.*": -0.1, ".*_knee_.*": 0.3}  # rad
stiffness: 100.0  # N m/rad
damping: 2.0  # N m s/rad
effort_limit: 88.0  # N m; leave it out to take the robot's
control_dt: 0.02  # s, from one action to the next
physics_dt: 0.005  # s, of the training
action:  # target = offset + scale * clamp(action, raw_clip)
  scale: 0.25
  # joints: [...]   those that the policy moves, in the order of its numbers; all unless named
  # offset: default_joint_pos unless given
  # raw_clip: 100.0
  # previous_action: 0.2   a low-pass: 0.8 * action + 0.2 * the action before; previous_result is a recursive one
observation:  # in order; scale * clamp(term, clip)
  - {term: base_ang_vel, scale: 0.25}
  - {term: projected_gravity}
  - {term: generated_commands, scale: [2.0, 2.0, 0.25]}
  - {term: joint_pos_rel}
  - {term: joint_vel_rel, scale: 0.05}
  - {term: last_action}
  # also base_lin_vel, euler_xyz, joint_pos, constant, phase, phase_sin, phase_cos (these three need a clock)
# history: {ages: [4, 3, 2, 1, 0], by: term, fill: first}   # by: term or step; fill: first or zeros
# clock: {frequency: 1.25, offsets: [0.0, 0.5], first: 1, rest_below: 0.01, rest_phase: 0.5}
command:
  ranges: {lin_vel_x: [-1.0, 1.0], lin_vel_y: [-0.5, 0.5], ang_vel_z: [-1.0, 1.0]}  # m/s, m/s, rad/s
# held: {position: {".*": 0.0}, stiffness: {".*": 100.0}, damping: {".*": 2.0}}   # joints that the policy does not know
# network: {file: policy.onnx, memory: [[h_in, h_out, 1], [c_in, c_out, 1]]}      # recurrent ONNX graphs only
licence: not stated
source: not stated
"""


def load(source: Path, file: Path, options: Options) -> DescribedPolicy:
    """The network ``source`` (ONNX or TorchScript), run as the YAML ``file`` says."""
    if not source.is_file():
        raise PolicyImportError(f"{source} is no file: with --describe, SOURCE is the network, .onnx or .pt")
    try:
        data = read_yaml(file)
    except FileError as error:
        raise PolicyImportError(str(error)) from None
    d = description_from(data, str(file), family="described", name=source.stem, network={"file": source.name})
    return described(read_network(d, source), options)
