"""Every robot's task on flat ground steps in MuJoCo, is its own mirror image, and its terms see what they are about."""

import pytest
import torch
from gaitway_mujoco import make_env
from gaitway_mujoco.mirrors import verify_mirrors
from gaitway_tasks.registry import get_task, task_names
from gaitway_tasks.symmetry import mirror_group

FLAT = [name for name in task_names() if "-flat-" in name and not name.endswith("-blind")]
MIRRORED = [
    name
    for name in task_names()
    if name.startswith("velocity-") and name not in ("velocity-rough-h1", "velocity-rough-g1")
]
"""The scanners of the others hang from their torso, which MuJoCo's world refuses."""


@pytest.mark.parametrize("name", FLAT)
def test_random_actions_for_a_second(name):
    task = get_task(name)
    env = make_env(task, 4, num_threads=1)
    env.reset(seed=0)
    g = torch.Generator().manual_seed(0)
    paid = {term: False for term, reward in task.rewards.items() if reward.weight != 0.0}
    sums = env.managers.rewards.episode_sums
    for _ in range(50):
        observation, reward, *_ = env.step(torch.randn(4, task.robot.num_joints, generator=g))
        assert all(value.isfinite().all() for value in observation.values()) and reward.isfinite().all()
        paid = {term: paid[term] or bool((sums[i] != 0).any()) for i, term in enumerate(paid)}
    assert not env.world.diverged.any()
    # Falls and feet that land take longer for some robots than a second of noise.
    assert set(paid) - {term for term, any_paid in paid.items() if any_paid} <= {
        "feet_air_time", "undesired_contacts", "termination_penalty", "dof_pos_limits",
    }  # fmt: skip


@pytest.mark.parametrize("name", FLAT)
def test_the_base_contact_ends_the_episode(name):
    """Dropped on its back."""
    task = get_task(name)
    env = make_env(task.replace(events={}), 1, num_threads=1)
    env.reset(seed=0)
    env.world.write_root_state(
        torch.tensor([0]), torch.tensor([[0.0, 0.0, 0.6]]), torch.tensor([[0.0, 0.0, 1.0, 0.0]]), *torch.zeros(2, 1, 3)
    )
    env.world.finish_events()
    ended = [env.step(torch.zeros(1, task.robot.num_joints))[2].item() for _ in range(60)]
    assert any(ended) and not ended[0]


@pytest.mark.parametrize("name", MIRRORED)
def test_mirror_group(name):
    """Each element is its own inverse, on actions and on observations of every group; the model agrees."""
    task = get_task(name)
    verify_mirrors(task.robot)
    group = mirror_group(task)
    env = make_env(task, 1, num_threads=1)
    width = {key: manager.dim for key, manager in env.managers.observations.items()}
    assert len(group.actions[0]) == 2 ** len(task.robot.mirrors)
    for key, (perms, signs) in {**group.observations, None: group.actions}.items():
        assert perms.shape[1] == width.get(key, task.robot.num_joints)
        for perm, sign in zip(perms, signs, strict=True):
            assert torch.equal(perm[perm], torch.arange(len(perm))) and torch.equal(sign * sign[perm], sign.abs())
