"""Files that a browser needs to run a bundle: ``python docs/tools/browser_robot.py BUNDLE FOLDER`` writes it.

``robot.xml`` is the plant of the lockstep simulation with its drives, ``robot.json`` the part of the contract that the
page reads; ``policy.onnx`` and the robot's licence are the bundle's.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUNDLE = ROOT / "gaitway" / "demo" / "bundles" / "anymal-c"


def files(bundle: Path = BUNDLE) -> dict[str, bytes]:
    """Contents of these files by name."""
    from gaitway_onboard.bundle.contract import Contract, verify_files
    from gaitway_sim2real.mujoco.laws import actuator_laws
    from gaitway_sim2real.mujoco.model import prepare_robot
    from gaitway_sim2real.mujoco.physics import NOMINAL_PHYSICS
    from gaitway_sim2real.mujoco.plant import build_plant
    from gaitway_tasks.robots.mjcf import set_actuators

    read, contract = verify_files(bundle), Contract.load(bundle)
    own = bundle / "robot.xml"
    plant = build_plant(contract, own, own)
    spec, _ = prepare_robot(own, contract.joint_names, timestep=plant.model.opt.timestep, visual=True)
    NOMINAL_PHYSICS.apply(spec)
    set_actuators(spec, contract.joint_names, actuator_laws(contract))
    spec.compile()
    told = {
        "joint_names": contract.joint_names,
        "default_joint_pos": contract.default_joint_pos,
        "joint_qpos": plant.joint_qpos.tolist(),
        "joint_dof": plant.joint_dof.tolist(),
        "base_qpos": plant.base_qpos,
        "base_dof": plant.base_dof,
        "start_height": plant.start_height,
        "steps": plant.decimation,
        "control_dt": contract.control_dt,
        "command_ranges": contract.command_ranges,
        "state_dim": contract.state_dim,
    }
    return {
        "robot.xml": spec.to_xml().encode(),
        "robot.json": json.dumps(told, indent=1).encode(),
        "policy.onnx": read["policy.onnx"],
        "robot_license.txt": (bundle / "robot_license.txt").read_bytes(),
    }


def main() -> None:
    folder = Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files(Path(sys.argv[1])).items():
        (folder / name).write_bytes(content)


if __name__ == "__main__":
    main()
