"""Configurations of Gaitway's tasks as Isaac Lab's own are used: copied, replaced, pickled, subclassed and overridden.

Tests of both releases of Isaac Lab, which import them.
"""

import pickle
import sys

import pytest
from gaitway_isaaclab import build, env_cfg, env_cfgs
from gaitway_isaaclab.registration import ENV_CFG, PLAY, cfg_name, names
from gaitway_tasks.registry import get_task
from isaaclab.utils import configclass

FLAT = "velocity-flat-anymal-c"
GROUPS = ("observations", "actions", "commands", "rewards", "terminations", "events", "curriculum", "scene", "sim")


@pytest.fixture(autouse=True)
def own_asset(monkeypatch):
    monkeypatch.setenv("GAITWAY_ISAACLAB_ASSET", "mjcf")


def class_of(task, end=ENV_CFG):
    return getattr(env_cfgs, cfg_name(task) + end)


def test_the_first_configuration_needs_no_other_import(monkeypatch):
    """As in a script that only has ``env_cfg``: nothing else has loaded the module of the classes."""
    monkeypatch.delitem(sys.modules, env_cfgs.__name__)
    assert build.class_of.__wrapped__(FLAT)().gaitway_task == FLAT


@pytest.mark.parametrize("name", names("2.3"))
def test_a_configuration_keeps_all_terms_when_it_is_copied_replaced_and_pickled(name):
    cfg, task = class_of(name)(), get_task(name)
    plain = cfg.to_dict()
    again = pickle.loads(pickle.dumps(cfg))
    assert type(again) is type(cfg) and again.to_dict() == plain == cfg.copy().to_dict() == cfg.replace().to_dict()
    for group in GROUPS:
        whole = getattr(cfg, group)
        assert whole.replace().to_dict() == whole.copy().to_dict() == plain[group]
        assert pickle.loads(pickle.dumps(whole)).to_dict() == plain[group]
    for group, terms in (("rewards", task.rewards), ("terminations", task.terminations), ("events", task.events)):
        assert list(getattr(cfg, group).__dataclass_fields__) == list(terms)
    for group, observations in task.observations.items():
        assert set(observations.terms) <= set(getattr(cfg.observations, group).__dataclass_fields__)
    assert type(env_cfg(task)) is type(cfg)


def test_a_subclass_changes_its_own_values_alone():
    stock = class_of(FLAT)

    @configclass
    class RewardsCfg(stock.RewardsCfg):
        def __post_init__(self):
            super().__post_init__()
            self.dof_torques_l2 = None

    @configclass
    class Mine(stock):
        rewards: RewardsCfg = RewardsCfg()

        def __post_init__(self):
            super().__post_init__()
            self.rewards.lin_vel_z_l2.weight = -9.0
            self.scene.num_envs = 3

    mine, theirs = Mine(), stock()
    assert (mine.rewards.lin_vel_z_l2.weight, mine.scene.num_envs, mine.rewards.dof_torques_l2) == (-9.0, 3, None)
    assert theirs.rewards.lin_vel_z_l2.weight == -2.0 and theirs.rewards.dof_torques_l2 is not None
    assert theirs.scene.num_envs == 4096 and mine.gaitway_task == FLAT


def test_the_variant_for_watching_is_a_class_too():
    play = class_of(FLAT, ENV_CFG + PLAY)
    cfg = play()
    assert issubclass(play, class_of(FLAT)) and cfg.scene.num_envs == 50 and cfg.events.push_robot is None
    assert type(pickle.loads(pickle.dumps(cfg))) is play
    assert class_of(FLAT)().events.push_robot is not None


def test_a_changed_task_has_a_class_of_its_own():
    task = get_task(FLAT)
    changed = env_cfg(task.replace(rewards={"lin_vel_z_l2": task.rewards["lin_vel_z_l2"]}))
    assert list(changed.rewards.__dataclass_fields__) == ["lin_vel_z_l2"] == list(vars(changed.rewards.replace()))
    assert type(changed) is not class_of(FLAT) and len(vars(env_cfg(task).rewards)) == len(task.rewards)


def test_images_for_rsl_rl_are_those_of_the_task_s_mirrors():
    from types import SimpleNamespace

    import torch
    from gaitway_isaaclab.agents.symmetry import mirror_images
    from gaitway_tasks.symmetry import mirror_group
    from tensordict import TensorDict

    task = get_task(f"{FLAT}-blind")
    group, random = mirror_group(task), torch.Generator().manual_seed(0)
    seen = {name: torch.randn(5, perms.shape[1], generator=random) for name, (perms, _) in group.observations.items()}
    done = torch.randn(5, 12, generator=random)
    env = SimpleNamespace(cfg=class_of(f"{FLAT}-blind")())
    env.unwrapped = env
    images, actions = mirror_images(env, TensorDict(seen, batch_size=[5]), done)
    assert images.batch_size == (20,) and actions.shape == (20, 12) and set(images.keys()) == {"policy", "critic"}
    for g in range(4):
        rows = slice(5 * g, 5 * g + 5)
        for name, (perms, signs) in group.observations.items():
            assert torch.equal(images[name][rows], signs[g] * seen[name][:, perms[g]])
        assert torch.equal(actions[rows], group.actions[1][g] * done[:, group.actions[0][g]])
    assert torch.equal(actions[:5], done) and mirror_images(env) == (None, None)


@pytest.mark.parametrize("end", ["", "WithSymmetry", "Recurrent"])
def test_settings_of_rsl_rl_by_name(end):
    from gaitway_isaaclab.agents import rsl_rl_ppo_cfg

    cfg = getattr(rsl_rl_ppo_cfg, f"VelocityRoughGo2{end}")()
    assert (cfg.algorithm.symmetry_cfg is not None) == (end == "WithSymmetry")
    network = getattr(cfg, "actor", None) or cfg.policy
    assert ("rnn" in str(vars(network))) == (end == "Recurrent")
