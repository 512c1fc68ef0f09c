"""Runs of every velocity task of Isaac Lab 3.0.0, written by its own writer; nothing is simulated or learnt."""

from __future__ import annotations

from importlib import metadata

import pytest
import torch
from gaitway_tasks.robots import ROBOTS, DCMotor
from gaitway_tasks.robots.orders import newton_order, physx_order

pytestmark = pytest.mark.quick

CORE = {"AnymalD": "anymal-d", "UnitreeGo2": "go2", "H1": "h1", "G1": "g1"}
CONTRIB = {"AnymalB": "anymal-b", "AnymalC": "anymal-c", "UnitreeA1": "a1", "UnitreeGo1": "go1"}
TASKS = {
    f"{prefix}-Velocity-{terrain}-{name}": robot
    for terrain in ("Flat", "Rough")
    for prefix, robots in (("Isaac", CORE), ("IsaacContrib", CONTRIB))
    for name, robot in robots.items()
}
SCAN = 187


def write_run(folder, task_id, preset, width, joints):
    """``params`` as ``isaaclab train`` leaves them, and a checkpoint of rsl_rl's own actor as initialised."""
    import isaaclab_tasks  # noqa: F401  registers the stock tasks
    from isaaclab_rl.entrypoints.common import dump_train_configs
    from isaaclab_rl.rsl_rl import handle_deprecated_rsl_rl_cfg
    from isaaclab_tasks.utils import load_cfg_from_registry, resolve_presets
    from rsl_rl.models import MLPModel
    from tensordict import TensorDict

    cfg = resolve_presets(load_cfg_from_registry(task_id, "env_cfg_entry_point"), (preset,))
    agent = load_cfg_from_registry(task_id, "rsl_rl_cfg_entry_point")
    agent = handle_deprecated_rsl_rl_cfg(agent, metadata.version("rsl-rl-lib"))
    dump_train_configs(str(folder), cfg, agent)
    settings = agent.to_dict()
    actor = {key: settings["actor"][key] for key in ("hidden_dims", "activation", "obs_normalization")}
    seen = TensorDict({"policy": torch.randn(8, width)}, batch_size=[8])
    model = MLPModel(
        seen, settings["obs_groups"], "actor", joints, **actor, distribution_cfg=settings["actor"]["distribution_cfg"]
    )
    torch.save({"actor_state_dict": model.state_dict(), "iter": 300, "infos": None}, folder / "model_300.pt")
    return cfg, model.eval(), seen


def limits_of(cfg, names):
    """(effort, speed) of each joint for which a group says it, as Isaac Lab resolves names, patterns and old fields."""
    from isaaclab.actuators.actuator_base import resolve_joint_parameter
    from isaaclab.actuators.actuator_base_cfg import _is_implicit_actuator_cfg
    from isaaclab.actuators.actuator_compat import resolve_limit_aliases
    from isaaclab.utils.string import resolve_matching_names

    found = {}
    for group, actuator in cfg.scene.robot.actuators.items():
        _, joints = resolve_matching_names(actuator.joint_names_expr, list(names))
        resolve_limit_aliases(group, actuator, joints, warn_deprecated=False)
        implicit = _is_implicit_actuator_cfg(actuator)
        wanted = [actuator.joint_effort_limit if implicit else actuator.actuator_effort_limit]
        wanted.append(None if implicit else actuator.actuator_velocity_limit)
        columns = [
            [None] * len(joints)
            if limit is None
            else resolve_joint_parameter(limit, None, joints, 1, "cpu")[0].tolist()
            for limit in wanted
        ]
        found |= {joint: (effort, speed) for joint, effort, speed in zip(joints, *columns, strict=True)}
    return found


@pytest.mark.parametrize("preset", ["ovphysx", "newton_mjwarp"])
@pytest.mark.parametrize("task_id", TASKS)
def test_a_stock_run_is_read_as_it_was_meant(lab, tmp_path, task_id, preset):
    from gaitway_sim2real.imports.isaaclab.importer import read_run

    ours = ROBOTS[TASKS[task_id]]
    rough, joints = "-Rough-" in task_id, ours.num_joints
    cfg, model, seen = write_run(tmp_path, task_id, preset, 12 + 3 * joints + SCAN * rough, joints)
    run = read_run(tmp_path)
    robot = run.task.robot
    assert robot.name == ours.name and run.learner == "rsl_rl 5.x"
    assert robot.joint_names == (newton_order if "newton" in preset else physx_order)(ours)
    assert robot.init_height == cfg.scene.robot.init_state.pos[2]
    command, ranges = run.task.commands["base_velocity"], cfg.commands.base_velocity.ranges
    assert (command.lin_vel_x, command.ang_vel_z) == (tuple(ranges.lin_vel_x), tuple(ranges.ang_vel_z))
    with torch.inference_mode():
        torch.testing.assert_close(run.actor(seen["policy"]), model(seen), rtol=0.0, atol=1e-5)

    said = limits_of(cfg, robot.joint_names)
    laws = dict(zip(robot.joint_names, robot.joint_actuators, strict=True))
    assert sum(effort is not None for effort, _ in said.values()) > joints // 2
    for joint, (effort, speed) in said.items():
        law = laws[joint]
        assert effort is None or law.effort_limit == pytest.approx(effort), joint
        assert not isinstance(law, DCMotor) or law.velocity_limit == pytest.approx(speed), joint
