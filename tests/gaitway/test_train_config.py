"""Layers merge in order, nonsense is refused by name, and what is written reads back."""

import functools
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from gaitway_agents.core.surrogates import SAPO, VESPO, ClippedSurrogate
from gaitway_tasks.mdp import rewards
from gaitway_tasks.registry import UnknownNameError, get_task, presets, task_names
from gaitway_tasks.robots import ANYMAL_C, ImplicitPD
from gaitway_tasks.spec import Task
from hypothesis import given, settings
from hypothesis import strategies as st

from gaitway.cli import main
from gaitway.config.tree import from_tree, to_tree
from gaitway.errors import ConfigError
from gaitway.start import Order, preset_of
from gaitway.train_config import config_from_tree, difference, dump, load, merge, resolve

BLIND = "velocity-flat-anymal-c-blind"


@pytest.fixture(scope="module")
def base():
    return resolve(BLIND)


def changed(base, *settings):
    return merge(base, None, settings)


def test_settings_of_earlier_versions(base, tmp_path):
    """``env_groups`` split the environments; at 1 it changed nothing."""
    path = tmp_path / "config.yaml"
    path.write_text(f"env_groups: 1\n{dump(base)}")
    assert load(path) == base
    path.write_text(f"env_groups: 2\n{dump(base)}")
    with pytest.raises(ConfigError, match="env_groups is no setting any more; write env_groups: 1 to play"):
        load(path)


OLD = {
    "surrogate": "clip",
    "ratio": "decision",
    "clip": 0.15,
    "clip_high": None,
    "dual_clip": None,
    "sapo_temperatures": [1.0, 1.05],
    "vespo_shapes": [2.0, 3.0],
    "vespo_rates": [3.0, 2.0],
    "kl_coefficient": 0.0,
    "kl_estimator": "k3",
    "kl_importance": False,
}
"""Optimiser settings of every run before surrogates had settings of their own."""


@pytest.mark.parametrize(
    ("old", "surrogate", "reference_kl", "value_clip"),
    [
        ({}, ClippedSurrogate(clip=0.15), None, None),
        ({"dual_clip": 3.0, "clip_high": 0.3}, ClippedSurrogate(clip=0.15, clip_high=0.3, dual_clip=3.0), None, None),
        ({"surrogate": "vespo", "vespo_rates": [3.0, 4.0]}, VESPO(rates=(3.0, 4.0)), None, 0.15),
        ({"kl_coefficient": 0.1, "kl_estimator": "k1+"}, ClippedSurrogate(clip=0.15), ("k1+", 0.1), None),
    ],
)
def test_optimisers_of_earlier_versions(base, tmp_path, old, surrogate, reference_kl, value_clip):
    tree = yaml.safe_load(dump(base))
    optimizer = tree["agent"]["optimizer"]
    del optimizer["surrogate"], optimizer["reference_kl"]
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(tree | {"agent": tree["agent"] | {"optimizer": optimizer | OLD | old}}))
    found = load(path).agent.optimizer
    leash = found.reference_kl and (found.reference_kl.estimator, found.reference_kl.coefficient)
    assert (found.surrogate, leash, found.value_clip) == (surrogate, reference_kl, value_clip)
    assert load(path).agent.model == base.agent.model


def test_a_few_settings_in_a_file_of_an_earlier_version(base, tmp_path):
    path = tmp_path / "few.yaml"
    path.write_text("agent: {optimizer: {clip: 0.1, kl_coefficient: 0.2, epochs: 3}}")
    found = merge(base, path, ()).agent.optimizer
    assert (found.surrogate.clip, found.reference_kl.coefficient, found.epochs) == (0.1, 0.2, 3)


@pytest.mark.parametrize(
    ("setting", "new"),
    [
        ("agent.optimizer.clip=0.1", "agent.optimizer.surrogate.clip"),
        ("agent.optimizer={vespo_rates: [1, 1]}", "agent.optimizer.surrogate.rates"),
        ("agent.optimizer.kl_coefficient=0.1", "agent.optimizer.reference_kl.coefficient"),
        ("agent.optimizer.surrogate=cispo", "agent.optimizer.surrogate.kind=CISPO"),
    ],
)
def test_the_command_line_names_the_new_key(base, setting, new):
    with pytest.raises(ConfigError, match=new):
        changed(base, setting)


def test_a_configuration_names_one_surrogate(base):
    assert "VESPO" not in dump(base) and "vespo" not in dump(base)
    found = changed(base, "agent.optimizer.surrogate={kind: SAPO, temperatures: [1.0, 2.0]}")
    assert found.agent.optimizer.surrogate == SAPO(temperatures=(1.0, 2.0))
    assert config_from_tree(to_tree(found)) == found


@pytest.mark.parametrize(("name", "preset"), [(n, p) for n in task_names() for p in [None, *presets(n)]])
def test_every_task_and_preset_reads_back(name, preset, tmp_path):
    config = resolve(name, preset=preset)
    (tmp_path / "config.yaml").write_text(dump(config))
    assert load(tmp_path / "config.yaml") == config
    assert from_tree(Task, to_tree(config.task), "task") == config.task


@settings(max_examples=15)
@given(st.floats(-3e38, 3e38))  # all that float32, in which terms compute, can hold
def test_numbers_survive_the_file_exactly(tmp_path_factory, number):
    base = resolve(BLIND)
    reward = replace(base.task.rewards["action_rate_l2"], weight=number)
    config = replace(base, task=base.task.replace(rewards={**base.task.rewards, "action_rate_l2": reward}))
    path = tmp_path_factory.mktemp("config") / "config.yaml"
    path.write_text(dump(config))
    assert load(path) == config


def test_layers_in_rising_order(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("num_envs: 128\nagent:\n  gamma: 0.98\n  optimizer: {learning_rate: 2e-4}\n")
    config = resolve(BLIND, seed=7, config_file=file, overrides=["num_envs=64", "total_steps=2e6"])
    assert (config.seed, config.num_envs, config.total_steps) == (7, 64, 2_000_000)
    assert config.agent.gamma == 0.98
    assert config.agent.optimizer.learning_rate == 2e-4
    assert isinstance(config.total_steps, int)


def test_settings_reach_into_the_task(base):
    config = changed(base, "task.rewards.action_rate_l2.weight=-0.02", "task.timing.decimation=2")
    assert config.task.rewards["action_rate_l2"].weight == -0.02
    assert config.task.timing.decimation == 2
    assert config.task.rewards["action_rate_l2"].func is rewards.action_rate_l2
    assert sorted(difference(base, config)) == ["task.rewards.action_rate_l2.weight", "task.timing.decimation"]


def test_terms_can_be_added_and_removed(base):
    config = changed(
        base,
        "task.events.push_robot=null",
        "task.rewards.alive={func: 'gaitway_tasks.mdp.rewards:is_alive', weight: 0.5}",
    )
    assert "push_robot" not in config.task.events
    assert config.task.rewards["alive"].func is rewards.is_alive
    assert config.task.rewards["alive"].weight == 0.5


def test_a_part_of_another_kind_replaces_the_whole(base):
    config = changed(base, "task.robot.actuators.legs={kind: ImplicitPD, stiffness: 80, damping: 2, effort_limit: 80}")
    assert config.task.robot.actuators == {"legs": ImplicitPD(stiffness=80.0, damping=2.0, effort_limit=80.0)}


def test_robot_files_are_stored_by_robot(base):
    assert to_tree(base.task)["robot"]["mjcf"] == "robot:anymal-c"
    assert from_tree(Task, to_tree(base.task), "task").robot == ANYMAL_C


BAD = {
    "num_env=3": "unknown key 'num_env': did you mean 'num_envs'?",
    "agent.learning_rate=3e-4": "unknown key 'agent.learning_rate': did you mean 'agent.optimizer.learning_rate'?",
    "task.rewards.action_rate.weight=-1": "did you mean 'task.rewards.action_rate_l2'?",
    "task.rewards.track_lin_vel_xy_exp.params.sdt=3": "did you mean 'task.rewards.track_lin_vel_xy_exp.params.std'?",
    "num_envs=many": "num_envs='many': expected a whole number",
    "num_envs=2.5": "num_envs=2.5: expected a whole number",
    "num_envs=true": "num_envs=True: expected a whole number",
    "agent.gamma=high": "agent.gamma='high': expected a number",
    "simulator.warmstart=3": "simulator.warmstart=3: expected true or false",
    "agent=ppo": "agent='ppo': expected a mapping",
    "agent.model.actor_hidden=128": "expected a list such as",
    "task.rewards.track_lin_vel_xy_exp.params.std=abc": "expected a number, such as 0.5",
    "task.commands.base_velocity.lin_vel_x=[1,2,3]": "expected a list of 2 values",
    "task.commands.base_velocity.lin_vel_x=[1,-1]": "the lower end comes first",
    "task.rewards.lin_vel_z_l2.func=gaitway_tasks.mdp.rewards:lin_vel_z": "did you mean 'lin_vel_z_l2'?",
    "task.rewards.lin_vel_z_l2.func=no_such_module:f": "cannot import 'no_such_module'",
    "task.events.push_robot.mode=never": "use 'startup', 'reset' or 'interval'",
    "task.robot.actuators.legs.kind=Muscle": "use one of ImplicitPD, DCMotor",
    "task.robot.mjcf=robot:anymal-cc": "unknown robot 'anymal-cc': did you mean 'anymal-c'?",
    "task.timing.decimation=0": "decimation=0",
    "task.timing.episode_length_s=0.001": "shorter than one control step",
    "agent.gamma=2": "gamma 2.0: must lie in [0, 1]",
    "agent.optimizer.schedule=linear": "schedule 'linear': use 'adaptive' or 'constant'",
    "num_envs=0": "num_envs=0: must be at least 1",
    "total_steps=10": "less than one rollout",
    "world=gazebo": "unknown world 'gazebo'",
    "algorithm=pp": "unknown agent 'pp': did you mean 'ppo'?",
    "num_envs": "write key=value",
    "task=${nothing}": "${key} names another setting",
}


@pytest.mark.parametrize(("setting", "message"), BAD.items())
def test_nonsense_is_refused_by_name(base, setting, message):
    with pytest.raises(ValueError) as error:
        changed(base, setting)
    assert message in str(error.value)
    assert isinstance(error.value, ConfigError | UnknownNameError)
    assert "\n" not in str(error.value)


def test_combinations_are_checked(base):
    with pytest.raises(ConfigError, match="cannot be split"):
        changed(base, "num_envs=1", "agent.num_steps=2", "agent.optimizer.minibatches=4")
    with pytest.raises(ConfigError, match=r"agent\.symmetry='canonical' needs a robot with mirrors"):
        replace(
            changed(base, "agent.symmetry=canonical"),
            task=base.task.replace(robot=base.task.robot.replace(mirrors={})),
        )
    weightless = {name: replace(reward, weight=0.0) for name, reward in base.task.rewards.items()}
    with pytest.raises(ConfigError, match="nothing to learn from"):
        replace(base, task=base.task.replace(rewards=weightless))


def test_missing_parameters_are_named(base):
    with pytest.raises(ConfigError, match=r"params\.threshold is missing: undesired_contacts needs it"):
        changed(
            base,
            "task.rewards.a={func: 'gaitway_tasks.mdp.rewards:undesired_contacts', weight: 1, params: {bodies: base}}",
        )


def test_files_that_are_no_configuration(tmp_path):
    with pytest.raises(ConfigError, match="cannot read"):
        resolve(BLIND, config_file=tmp_path / "none.yaml")
    for text in ("a: [", "- 1\n- 2\n", "num_env: 3", "agent: {gama: 1.0}", "seed: 1\nnum_env: ${seed}"):
        (tmp_path / "bad.yaml").write_text(text)
        with pytest.raises(ConfigError, match=r"bad\.yaml"):
            resolve(BLIND, config_file=tmp_path / "bad.yaml")
    (tmp_path / "good.yaml").write_text("num_envs: 4")
    with pytest.raises(ConfigError, match=r"^unknown key 'num_env'"):
        resolve(BLIND, config_file=tmp_path / "good.yaml", overrides=["num_env=3"])


def test_unknown_names_suggest_the_nearest():
    with pytest.raises(UnknownNameError, match="did you mean 'velocity-flat-anymal-c'"):
        get_task("velocity-flat-anymal")
    with pytest.raises(UnknownNameError, match="preset"):
        get_task(BLIND, "gpu")


def test_functions_without_a_name_cannot_be_written():
    with pytest.raises(ConfigError, match="plain function"):
        to_tree(functools.partial(print))
    with pytest.raises(ConfigError, match="plain function"):
        to_tree(lambda world: world)


def test_from_tree_refuses_what_the_schema_lacks():
    with pytest.raises(ConfigError, match="name is missing"):
        from_tree(Task, {}, "task")


@pytest.mark.hostile("untrusted files")
@pytest.mark.parametrize(
    "value",
    ["${oc.env:SECRET}", "${", "x${oc.env:SECRET}y", "\\${seed}", "[1, '${oc.env:SECRET}']", "${.seed}", "${${seed}}"],
)
def test_the_environment_is_not_filled_in(base, tmp_path, monkeypatch, value):
    """Neither it nor a custom resolver goes into a configuration, which is written back."""
    monkeypatch.setenv("SECRET", "77")
    file = tmp_path / "settings.yaml"
    file.write_text(f"# costs ${{}}\nphysics: {{x: 1}}\nagent:\n  num_steps: {value}\n")
    refused = r"{}=.*\$\{{\.\.\.\}} is not filled in"
    with pytest.raises(ConfigError, match=refused.format("^num_envs")):
        merge(base, None, [f"num_envs={value}"])
    for read in (load, lambda path: merge(base, path, [])):
        with pytest.raises(ConfigError, match=refused.format(r"settings\.yaml: agent\.num_steps(\.1)?")):
            read(file)


@pytest.mark.hostile("untrusted files")
def test_a_run_has_no_references(tmp_path):
    file = tmp_path / "settings.yaml"
    file.write_text("num_envs: 64\ntotal_steps: ${num_envs}\n")
    with pytest.raises(ConfigError, match=r"settings\.yaml: total_steps=.* is not filled in; write the value"):
        load(file)


def test_a_setting_may_be_that_of_another_key(base, tmp_path):
    file = tmp_path / "settings.yaml"
    file.write_text("num_envs: 128\nagent: {num_steps: 32, optimizer: {minibatches: '${agent.num_steps}'}}\n")
    found = merge(base, file, ["total_steps=${checkpoint_interval}", "checkpoint_interval=400000"])
    assert (found.agent.optimizer.minibatches, found.total_steps) == (32, 400_000)
    weight = merge(base, None, ["task.rewards.action_rate_l2.weight=${task.rewards.dof_acc_l2.weight}"]).task.rewards
    assert weight["action_rate_l2"].weight == weight["dof_acc_l2"].weight
    param = "task.rewards.track_lin_vel_xy_exp.params.std"
    assert merge(base, None, [f"{param}=${{agent.gamma}}"]).task.rewards["track_lin_vel_xy_exp"].params["std"] == 0.99
    assert "${" not in dump(found)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["total_steps=${num_env}"], "num_env"),
        (["total_steps=${checkpoint_interval}", "checkpoint_interval=${total_steps}"], "names another setting"),
        (["num_envs=${world}"], "num_envs"),
    ],
)
def test_a_reference_that_leads_nowhere_is_named(base, settings, said):
    with pytest.raises(ConfigError, match=said):
        merge(base, None, settings)


def test_a_dollar_is_a_dollar(base, tmp_path):
    file = tmp_path / "settings.yaml"
    file.write_text("# ${not.a.setting}\nnum_envs: 8192\nagent: {optimizer: {learning_rate: 1e-3}}\n")
    found = merge(base, file, ["total_steps=2e7"])
    assert (found.num_envs, found.agent.optimizer.learning_rate, found.total_steps) == (8192, 1e-3, 20_000_000)


@pytest.mark.parametrize(
    ("asked", "preset"),
    [
        ({"task": "velocity-flat-anymal-c"}, "cpu"),
        ({"task": "velocity-flat-anymal-c", "preset": "none"}, None),
        ({"task": "velocity-flat-anymal-c", "preset": "sprint"}, "sprint"),
        ({"task": "velocity-flat-anymal-c", "world": "isaaclab"}, None),
        ({"task": "velocity-flat-anymal-c", "config": Path("mine.yaml")}, None),
        ({"task": "velocity-flat-g1"}, None),
        ({"task": "cartpole"}, None),
    ],
)
def test_a_robot_in_mujoco_is_trained_for_a_cpu_unless_told_otherwise(asked, preset):
    assert preset_of(Order(**asked)) == preset


def test_settings_of_simulators_of_earlier_versions(base, tmp_path):
    """``physics`` was MuJoCo's, ``isaaclab`` Isaac Lab's, and a run in Isaac Lab had both."""
    tree = yaml.safe_load(dump(changed(base, "simulator.cone=elliptic")))
    kind = tree.pop("simulator")
    assert kind.pop("kind") == "PhysicsOptions"
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(tree | {"physics": kind, "isaaclab": None}))
    assert load(path).simulator.cone == "elliptic"
    lab = resolve(BLIND, world="isaaclab")
    tree = yaml.safe_load(dump(lab)) | {"physics": kind}
    options = tree.pop("simulator")
    del options["kind"]
    path.write_text(yaml.safe_dump(tree | {"isaaclab": options | {"physics": "newton"}}))
    assert load(path).simulator == replace(lab.simulator, physics="newton")
    few = tmp_path / "few.yaml"
    few.write_text("physics: {cone: elliptic}")
    assert merge(base, few, ()).simulator.cone == "elliptic"
    for setting in ("physics.cone=elliptic", "isaaclab.physics=newton"):
        with pytest.raises(ConfigError, match=r"it is now 'simulator\.(cone|physics)'"):
            changed(base, setting)
    with pytest.raises(
        ConfigError, match=r"simulator\.kind='IsaacLabOptions': the settings of world 'mujoco' are Phys"
    ):
        changed(base, "simulator={kind: IsaacLabOptions}")


def test_the_settings_of_a_training_are_listed(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["train", "cartpole", "num_envs=3", "evaluation_episodes=${num_envs}", "--settings"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert "num_envs=3" in listed and any(line.startswith("agent.gamma=") for line in listed)
    values = dict(line.partition("=")[::2] for line in listed)
    assert values["evaluation_episodes"] == "3"
    assert main(["train", "cartpole", "--settings", "learning_rate"]) == 0
    assert all("learning_rate" in line for line in capsys.readouterr().out.splitlines())
    assert main(["train", "cartpole", "--settings", "learning_rat_"]) == 2
    assert "unknown setting of cartpole with 'learning_rat_'" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
