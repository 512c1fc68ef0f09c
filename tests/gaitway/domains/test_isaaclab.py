"""Runs in Isaac Lab, as far as they go without it: their settings, and what becomes of them afterwards."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from gaitway_agents.presets import PPOConfig, has_bfloat16
from gaitway_isaaclab.options import IsaacLabOptions
from gaitway_isaaclab.vector_env import IsaacLabVectorEnv
from isaac_like import IsaacLike

from gaitway import train_config as configuration
from gaitway.backends.isaaclab_player import walk_policy
from gaitway.cli import main
from gaitway.domains.robots import in_mujoco
from gaitway.errors import ConfigError
from gaitway.runs.folder import RunFolder
from gaitway.sources import export_run
from gaitway.train_config import TrainConfig, resolve
from gaitway.training.load import load_actor
from gaitway.training.loop import tensor_cores
from gaitway.view.walkers import WorldWalker

FLAT, BLIND, ROUGH = "velocity-flat-anymal-c", "velocity-flat-anymal-c-blind", "velocity-rough-anymal-c"


def settled(task: str, *overrides: str, **given: object) -> TrainConfig:
    return resolve(task, world="isaaclab", overrides=overrides, **given)


@pytest.mark.parametrize(
    ("task", "hidden", "iterations", "entropy"),
    [
        (FLAT, (128, 128, 128), 300, 0.005),
        (ROUGH, (512, 256, 128), 1500, 0.005),
        ("velocity-rough-go2", (512, 256, 128), 1500, 0.01),
        ("velocity-flat-g1", (256, 128, 128), 1500, 0.008),
    ],
)
def test_settings_are_those_that_rsl_rl_has_for_the_task(task, hidden, iterations, entropy):
    config = settled(task)
    agent = config.agent
    assert isinstance(agent, PPOConfig)
    assert config.num_envs == 4096 and config.total_steps == iterations * 24 * 4096
    assert agent.model.actor_hidden == agent.model.critic_hidden == hidden and agent.model.activation == "elu"
    assert not agent.model.normalize_observations and agent.model.init_std == 1.0
    assert (agent.num_steps, agent.gamma, agent.lam) == (24, 0.99, 0.95)
    optimizer = agent.optimizer
    assert (optimizer.epochs, optimizer.minibatches, optimizer.learning_rate) == (5, 4, 1e-3)
    assert (optimizer.schedule, optimizer.desired_kl, optimizer.surrogate.clip) == ("adaptive", 0.01, 0.2)
    assert (optimizer.entropy_coefficient, optimizer.value_coefficient, optimizer.max_grad_norm) == (entropy, 1.0, 1.0)
    assert optimizer.clip_value_loss and optimizer.chunk_size >= 24 * 4096 / 4  # a minibatch is one forward pass
    assert config.simulator == IsaacLabOptions() and config.device == "auto"


def test_a_preset_does_there_without_what_mujoco_alone_can_do():
    here, there = resolve(BLIND, preset="cpu").robot_task, settled(BLIND, preset="cpu").robot_task
    assert set(here.events) - set(there.events) == {"ground_impedance"}
    assert there == here.replace(events=there.events)


def test_the_configuration_reads_back(tmp_path):
    config = settled(ROUGH, "simulator.physics=newton", "device=cuda:1", "num_envs=64")
    path = tmp_path / "config.yaml"
    path.write_text(configuration.dump(config))
    assert configuration.load(path) == config
    assert config.simulator is not None and config.simulator.physics == "newton"


def test_a_run_of_mujoco_reads_back_without_the_new_settings(tmp_path):
    config = resolve(FLAT)
    path = tmp_path / "config.yaml"
    lines = configuration.dump(config).splitlines(keepends=True)
    path.write_text("".join(line for line in lines if not line.startswith(("isaaclab:", "device:"))))
    assert configuration.load(path) == config


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["device=tpu"], "device=tpu: use auto, cpu or cuda:0"),
        (["evaluation_episodes=5"], "evaluation_episodes=5: a process has one simulation"),
        (["simulator.physics=bullet"], "simulator: physics 'bullet': use 'physx' or 'newton'"),
        (["simulator.asset=urdf"], "simulator: asset 'urdf': use one of 'auto'"),
    ],
)
def test_settings_that_make_no_sense_there_are_refused(settings, said):
    with pytest.raises(ValueError, match=said):
        settled(FLAT, *settings)


def test_settings_of_isaac_lab_are_refused_elsewhere():
    with pytest.raises(ConfigError, match="world 'isaaclab' are IsaacLabOptions; choose it by --world"):
        resolve(FLAT, overrides=["world=isaaclab"])
    with pytest.raises(ConfigError, match="mujoco simulates on the CPU"):
        resolve(FLAT, overrides=["device=cuda:0"])
    with pytest.raises(ConfigError, match="cartpole is a task of gymnasium"):
        resolve("cartpole", world="isaaclab")
    with pytest.raises(ConfigError, match=r"processes=2: in Isaac Lab .*leave processes out and add --gpus 2"):
        settled(FLAT, "processes=2")
    with pytest.raises(ConfigError, match=r"agent 'sac' does not learn in Isaac Lab: .*own scripts .*rsl_rl"):
        settled(FLAT, agent="sac")
    with pytest.raises(ConfigError, match=r"agent 'impala' with agent\.decoupled=true: .*agent\.decoupled=false"):
        settled(FLAT, agent="impala")
    with pytest.raises(ConfigError, match=r"use --agent ppo with agent\.decoupled=false"):
        settled(FLAT, "agent.decoupled=true")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--physics", "newton"], "--physics newton is an engine of Isaac Lab: add --world isaaclab"),
        (["--world", "isaaclab"], "Isaac Lab is not installed here"),
        (
            ["--distributed"],
            "torchrun --nproc_per_node=N --no-python gaitway train TASK --distributed",
        ),
        (["--world", "isaac"], "did you mean 'isaaclab'?"),
    ],
)
def test_the_command_refuses_before_anything_starts(arguments, said, capsys, tmp_path):
    assert main(["train", FLAT, *arguments, "--out", str(tmp_path / "run")]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_processes_that_would_each_train_the_same_run_are_refused(capsys, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    assert main(["train", FLAT]) == 2
    assert "2 processes would train the same run, each alone: add --distributed" in capsys.readouterr().err


@pytest.mark.parametrize("given", [{"preset": "cpu"}, {"agent": "a2c"}], ids=str)
def test_what_a_gpu_likes_is_decided_last(given):
    """Whatever preset or agent the settings come from: one forward pass a minibatch, no threads."""
    optimizer = settled(BLIND, **given).agent.optimizer
    assert (optimizer.chunk_size, optimizer.workers) == (2**20, 1)
    assert settled(BLIND, "agent.optimizer.workers=2", **given).agent.optimizer.workers == 2


def test_bfloat16_is_decided_by_the_device_that_learns(monkeypatch):
    def precision(*overrides: str, world: str = "isaaclab") -> str:
        return resolve(BLIND, preset="cpu", world=world, overrides=overrides).agent.optimizer.precision

    def of_texts(*overrides: str) -> set[str]:
        config = resolve("arithmetic", agent="grpo", overrides=overrides)
        return {config.agent.optimizer.precision, config.language.dtype}

    native = "bfloat16" if has_bfloat16(torch.device("cpu")) else "float32"
    assert precision() == precision("device=cpu") == precision(world="mujoco") == native and of_texts() == {native}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for capability, expected in (((7, 5), "float32"), ((8, 0), "bfloat16")):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device, found=capability: found)
        assert of_texts() == of_texts("device=cuda:0") == {expected} and of_texts("device=cpu") == {native}
        assert precision() == precision("device=cuda:1") == "float32"  # small networks, and TF32 costs nothing
        assert precision("device=cpu") == precision(world="mujoco") == native


def test_tensor_float_32_is_isaac_lab_s_choice_and_nobody_else_s():
    assert settled(FLAT).tf32 and settled(FLAT, preset="cpu", agent="a2c").tf32 and not settled(FLAT, "tf32=false").tf32
    assert (
        not resolve(FLAT).tf32
        and not resolve("arithmetic").tf32
        and resolve("arithmetic", overrides=["tf32=true"]).tf32
    )
    flags = torch.backends.cuda.matmul, torch.backends.cudnn
    before = [flag.allow_tf32 for flag in flags]
    for asked in (True, False):
        with tensor_cores(settled(FLAT, f"tf32={asked}")):
            assert [flag.allow_tf32 for flag in flags] == [asked] * 2
        assert [flag.allow_tf32 for flag in flags] == before


@pytest.fixture
def isaac_lab(monkeypatch):
    """An Isaac Lab of a few lines in the place of the simulator, which is not here; returns the options it was given.

    Its asset server can be reached from the second start on.
    """
    asked: list[IsaacLabOptions] = []

    def make_env(task, num_envs, *, device, seed, options):
        asked.append(options)
        assert torch.backends.cuda.matmul.allow_tf32  # when the training begins, and no more when it is over
        env = IsaacLabVectorEnv(IsaacLike(num_envs, seed=seed, episode_length=5), seed=seed)
        there = "nucleus" if len(asked) > 1 else "mjcf"
        env.isaac.cfg = SimpleNamespace(
            gaitway_asset=there if options.asset == "auto" else options.asset,
            sim=SimpleNamespace(physics=type("NewtonCfg", (), {})()),
        )
        return env

    monkeypatch.setattr("gaitway_isaaclab.launch.make_env", make_env)
    monkeypatch.setattr("gaitway_isaaclab.preflight.check", lambda physics=None, installation=None: physics or "newton")
    return asked


SMALL = ("num_envs=4", "agent.num_steps=2", "agent.model.actor_hidden=[8]", "agent.model.critic_hidden=[8]")


def test_a_run_goes_on_with_the_robot_and_the_engine_that_it_began_with(isaac_lab, tmp_path, capsys):
    out = ["--out", str(tmp_path / "run")]
    assert main(["train", FLAT, "--world", "isaaclab", *SMALL, "total_steps=8", *out]) == 0
    assert re.search(r"^Isaac Lab .*, Newton; robot: mjcf$", capsys.readouterr().out, re.M)
    record = RunFolder.open(tmp_path / "run").record
    assert record["config"]["tf32"] is True
    assert record["config"]["simulator"]["asset"] == "auto"  # what was asked for stays, so the same command continues
    begun = record["isaaclab"]
    assert (begun["asset"], begun["physics"], begun["engine"]) == ("mjcf", "newton", "Newton")
    assert begun["versions"]["torch"] == importlib.metadata.version("torch")

    assert main(["train", FLAT, "--world", "isaaclab", "simulator.asset=auto", "total_steps=16", *out, "--resume"]) == 0
    assert not torch.backends.cuda.matmul.allow_tf32
    assert isaac_lab == [IsaacLabOptions(), IsaacLabOptions(asset="mjcf", physics="newton")]
    assert RunFolder.open(tmp_path / "run").record["isaaclab"]["asset"] == "mjcf"
    assert main(["train", FLAT, "simulator.asset=nucleus", "total_steps=24", *out, "--resume"]) == 2
    assert "simulator.asset cannot change" in capsys.readouterr().err


# ---- a run that was made in Isaac Lab --------------------------------------------------------------------------------


def run_of(config: TrainConfig, path) -> tuple[RunFolder, torch.nn.Module]:
    """A run folder as training in Isaac Lab leaves it, and its actor. The policy's spaces are the task's everywhere."""
    trainer = config.domain.trainer(in_mujoco(config), num_envs=2)
    run = RunFolder.create(path, config)
    run.save_checkpoint({"steps": 5, "iteration": 3, "trainer": trainer.state_dict()}, keep=1)
    return run, trainer.actor()


@pytest.mark.parametrize("task", [FLAT, ROUGH])
def test_its_policy_is_there_without_isaac_lab(task, tmp_path):
    config = settled(task, "num_envs=8", "device=cuda:0")
    run, actor = run_of(config, tmp_path / "run")
    loaded, again, _ = load_actor(run)
    assert loaded == config
    size = next(again.parameters()).shape[1]
    x = torch.randn(3, size)
    assert size == (48 if task == FLAT else 235) and torch.equal(again(x), actor(x))


def test_it_can_be_exported_and_played(tmp_path):
    run, _ = run_of(settled(BLIND, "num_envs=8"), tmp_path / "run")
    bundle = export_run(run.path, tmp_path / "bundle")
    assert (bundle / "policy.onnx").is_file()
    walker = WorldWalker(run.path)
    for _ in range(3):
        walker.step([0.5, 0.0, 0.0])
    assert walker.model.nq == 19


def test_it_can_be_written_for_rsl_rl(tmp_path, capsys):
    """Export for rsl_rl; its own runner loads it in tests/agents/test_rsl_rl_checkpoints.py."""
    settings = ["num_envs=8", "agent.model.actor_hidden=[16,8]", "agent.model.critic_hidden=[12]"]
    run, actor = run_of(settled(BLIND, *settings), tmp_path / "run")
    out = tmp_path / "checkpoints"
    assert main(["export", str(run.path), "--out", str(out), "--format", "rsl-rl"]) == 0
    said = capsys.readouterr().out
    assert "agent.actor.hidden_dims=[16,8] agent.actor.activation=elu agent.actor.obs_normalization=false" in said
    assert "agent.policy.critic_hidden_dims=[12]" in said
    written = torch.load(out / "model_3.pt", weights_only=True)
    assert torch.equal(written["actor_state_dict"]["mlp.0.weight"], next(actor.parameters()))
    assert torch.equal(written["model_state_dict"]["actor.0.weight"], next(actor.parameters()))
    assert main(["export", str(run.path), "--out", str(out), "--format", "rsl-rl", "--estimate", "height_scan"]) == 2
    mirrored, _ = run_of(settled(BLIND, "num_envs=8", preset="cpu"), tmp_path / "mirrored")
    assert main(["export", str(mirrored.path), "--out", str(out), "--format", "rsl-rl"]) == 2
    assert "agent.symmetry=canonical" in capsys.readouterr().err


def test_walking_is_measured_robot_by_robot(monkeypatch):
    config = in_mujoco(settled(BLIND, "num_envs=8", "task.timing.episode_length_s=0.1"))
    trainer = config.domain.trainer(config, num_envs=3)
    env = trainer.env
    off = iter([(1.0, 0.5), (3.0, 0.1), (2.0, 0.0), (5.0, 0.4), (9.0, 9.0)])  # the last after an episode's end
    robots = torch.arange(1.0, 4.0)
    monkeypatch.setattr(
        "gaitway.backends.isaaclab_player.off_command",
        lambda env, name: {key: value * robots for key, value in zip(("linear", "yaw"), next(off), strict=True)},
    )
    walk = walk_policy(trainer, env, range(5))
    assert walk.steps.tolist() == [4, 4, 4] and walk.falls.tolist() == [0, 0, 0]
    assert walk.lines(0.02) == [
        "robot 1: 0.1 s, 2.750 m/s and 0.250 rad/s off the commands, falls: 0",
        "robot 2: 0.1 s, 5.500 m/s and 0.500 rad/s off the commands, falls: 0",
        "robot 3: 0.1 s, 8.250 m/s and 0.750 rad/s off the commands, falls: 0",
        "all: 0.1 s, 5.500 m/s and 0.500 rad/s off the commands, falls: 0",
    ]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--world", "isaaclab"], "Isaac Lab is not installed here"),
        (["--world", "isaaclab", "--viz", "window"], "--viz window: use one of kit, newton_gl"),
        (["--world", "isaaclab", "--video", "walk.gif"], "--video walk.gif: name a file that ends in .mp4"),
        (["--viz", "viser"], "--viz is for Isaac Lab: add --world isaaclab"),
    ],
)
def test_playing_in_isaac_lab_refuses_before_anything_starts(options, said, tmp_path, capsys):
    run, _ = run_of(settled(BLIND, "num_envs=8"), tmp_path / "run")
    assert main(["play", str(run.path), *options]) == 2
    assert said in capsys.readouterr().err


def test_mujoco_shows_rough_runs_on_their_tiles(tmp_path):
    config = settled(ROUGH, "num_envs=8")
    shown = in_mujoco(config)
    assert shown.world == "mujoco" and shown.robot_task == config.robot_task
    run_of(config, tmp_path / "run")
    walker = WorldWalker(tmp_path / "run")
    for _ in range(3):
        walker.step([0.5, 0.0, 0.0])
    assert walker.env.task.ground == config.robot_task.ground
    assert (
        torch.from_numpy(walker.qpos).isfinite().all()
        and walker.env.world.ground.above(walker.env.world.robot.root_pos_w) > 0.3
    )
    assert in_mujoco(shown) is shown


# ---- several processes -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_torchrun_trains_one_run_with_two_processes(monkeypatch, tmp_path):
    """In MuJoCo over gloo: what differs in Isaac Lab is the device that gradients travel from."""
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "run"
    Path("gaitway.py").write_text("raise SystemExit(7)\n")  # which `torchrun -m gaitway` would run
    torchrun, gaitway = (str(Path(sys.executable).with_name(name)) for name in ("torchrun", "gaitway"))
    command = [torchrun, "--nproc_per_node=2", "--no-python", gaitway, "train", FLAT]
    settings = ["--distributed", "num_envs=8", "num_threads=1", "agent.num_steps=4", "--out", str(out), "--quiet"]
    for total in (128, 256):
        resume = ["--resume"] if out.exists() else []
        given = [*settings, *resume] if not resume else ["--distributed", "--out", str(out), "--quiet", "--resume"]
        done = subprocess.run([*command, *given, f"total_steps={total}"], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count(f"finished: {total} steps") == 1, done.stdout
    run = RunFolder.open(out)
    assert run.record["processes"] == 2 and run.record["status"] == "finished"
    rows = [row for row in (out / "metrics.jsonl").read_text().splitlines() if row]
    assert len(rows) == 4  # of 2 processes x 8 environments x 4 steps each
    config = run.config()
    assert replace(config, total_steps=128).num_envs == 8
