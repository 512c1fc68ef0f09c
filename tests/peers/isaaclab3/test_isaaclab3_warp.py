"""``--frontend warp``: Isaac Lab's Warp managers over our configurations, with its twins of all terms."""

import gaitway_isaaclab
import pytest
import torch
from gaitway_isaaclab.registration import named, names
from gaitway_isaaclab.world import IsaacLabWorld
from gaitway_tasks.registry import get_task


@pytest.mark.quick
@pytest.mark.parametrize("name", names("3.0"))
def test_tasks_on_a_plane_have_all_twins(lab, name):
    from isaaclab_experimental.envs.frontend import WarpFrontend

    cfg = gaitway_isaaclab.env_cfg(named(name), 4, "cpu", 0, "newton", asset="mjcf")
    reason = WarpFrontend.check_compatibility(cfg)
    if "flat" in name:
        assert reason is None
    else:
        assert {line.rpartition(".")[2].strip("'") for line in reason.splitlines()[1:]} == {"height_scan"}


@pytest.mark.quick
def test_what_a_preset_adds_is_named(lab):
    from isaaclab_experimental.envs.frontend import WarpFrontend

    task = get_task("velocity-flat-go2", "cpu")
    task = task.replace(events={k: v for k, v in task.events.items() if k != "ground_impedance"})
    reason = WarpFrontend.check_compatibility(gaitway_isaaclab.env_cfg(task, 4, "cpu", 0, "newton", asset="mjcf"))
    assert "no warp twin for 'DelayedJointPositionAction'" in reason and "feet_phase" in reason


class World(IsaacLabWorld):
    """The world over Warp's action manager, whose arrays are Warp's."""

    @property
    def action(self):
        import warp

        return warp.to_torch(self._env.action_manager.action)

    @property
    def previous_action(self):
        import warp

        return warp.to_torch(self._env.action_manager.prev_action)


@pytest.mark.newton
def test_twins_give_what_our_terms_give(lab):
    """In another order of joints than the task's. One environment a process: twins keep their command buffer."""
    from isaaclab.app import launch_simulation
    from isaaclab_experimental.envs import ManagerBasedRLEnvWarp

    task = get_task("velocity-flat-h1")
    cfg = lab.kitless(gaitway_isaaclab.env_cfg(task, 8, "cpu", 0, "newton", asset="mjcf"), 8)
    cfg.observations.policy.enable_corruption = False
    command = cfg.commands.base_velocity  # which is to stay as it is between reward and observation
    command.heading_command, command.rel_standing_envs = False, 0.0
    cfg.scene.robot.joint_ordering = "physx"
    with launch_simulation(cfg, {"device": "cpu"}):
        env = ManagerBasedRLEnvWarp(cfg)
    try:
        assert env.scene["robot"].joint_names != list(task.robot.joint_names)
        env.reset()
        world, generator = World(env, task.robot), torch.Generator().manual_seed(0)
        compared = 0
        for _ in range(40):
            actions = 0.5 * torch.randn(8, task.robot.num_joints, generator=generator)
            seen, reward, terminated, truncated, _ = env.step(actions)
            policy = torch.cat([t.func(world, **t.params) for t in task.observations["policy"].terms.values()], 1)
            torch.testing.assert_close(seen["policy"], policy, rtol=0.0, atol=1e-5)
            ours = sum(r.weight * env.step_dt * r.func(world, **r.params) for r in task.rewards.values() if r.weight)
            going = ~(terminated | truncated)  # rewards are of the state before a reset
            torch.testing.assert_close(reward[going], ours[going], rtol=0.0, atol=1e-5)
            compared += int(going.sum())
        assert compared > 100 and reward.unique().numel() == 8
    finally:
        env.close()
