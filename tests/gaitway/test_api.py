"""``import gaitway`` does what the command does, and raises what the command prints."""

import importlib.util
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.vec_env import DummyVecEnv

import gaitway

SMALL = {"total_steps": 512, "num_envs": 4, "agent.num_steps": 32, "evaluation_episodes": 0, "num_threads": 1}
FLAT = "velocity-flat-anymal-c"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return gaitway.train("cartpole", out=tmp_path_factory.mktemp("api") / "run", quiet=True, seed=3, **SMALL)


def test_importing_loads_nothing_and_every_name_is_there():
    light = subprocess.run(
        [sys.executable, "-c", "import sys, gaitway; print(sorted({'numpy', 'typing', 'torch'} & set(sys.modules)))"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert light.stdout.strip() == "[]"
    assert all(getattr(gaitway, name).__doc__ for name in gaitway.OFFERED)
    with pytest.raises(AttributeError, match=r"tain.*load_run"):
        gaitway.tain  # noqa: B018


def test_a_run_is_what_its_folder_says(run):
    again = gaitway.load_run(str(run.path))
    assert (again.status, again.steps, again.config.seed, again.config.num_envs) == ("finished", 512, 3, 4)
    steps, lengths = again.series("episodes/length")
    assert steps.tolist() == [row["steps"] for row in again.rows() if "episodes/length" in row] and (lengths > 1).all()
    assert again.checkpoint == run.path / "checkpoints/step_000000000512.pt"
    assert again.rows("examinations") == []
    with pytest.raises(gaitway.UserError, match=r"'episodes/retrun'.*episodes/return"):
        again.series("episodes/retrun")


def test_a_policy_acts_as_the_evaluation_does(run):
    policy = run.policy()
    env = gymnasium.make_vec("CartPole-v1", 5)
    seen, _ = env.reset(seed=0)
    together = policy(seen)
    assert together.shape == (5,) and together.tolist() == [policy(one) for one in seen]
    assert policy({"policy": torch.as_tensor(seen)}).tolist() == together.tolist()
    with pytest.raises(gaitway.UserError, match=r"\(5, 3\).*'N', 4"):
        policy(seen[:, :3])
    found = gaitway.evaluate(run, 4, seed=11)
    assert found["returns"] == gaitway.evaluate(run.path, 4, seed=11)["returns"] == found["lengths"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"task": "cartpol"}, "cartpol.*cartpole"),
        ({"nm_envs": 3}, "nm_envs.*num_envs"),
        ({"agent": "pp"}, "pp.*ppo"),
        ({"num_envs": object()}, "num_envs=<object"),
        ({"model": "tiny"}, "^model.*cartpole"),
        ({"num_envs": 1.5}, "num_envs=1.5"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_written(given, message, tmp_path):
    with pytest.raises(gaitway.UserError, match=message):
        gaitway.train(**{"task": "cartpole", "out": tmp_path / "run"} | given)
    assert not (tmp_path / "run").exists()


def test_what_is_given_in_python_is_what_would_be_typed(tmp_path):
    from gaitway.train_config import resolve
    from gaitway.vectors import typed

    given = {"agent.optimizer.learning_rate": np.float64(1e-5), "evaluation_episodes": 0, "agent.scale_rewards": True}
    config = resolve("cartpole", overrides=typed(given))
    assert config.agent.optimizer.learning_rate == 1e-5 and config.agent.scale_rewards is True


def test_a_stop_leaves_a_run_that_goes_on(tmp_path):
    """A notebook's stop button is a SIGINT: a checkpoint, and no exception."""
    many = SMALL | {"total_steps": 50_000_000}
    out = tmp_path / "run"

    def stop():
        while not (out / "metrics.jsonl").exists():
            ended.wait(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    ended = threading.Event()
    threading.Thread(target=stop, daemon=True).start()
    run = gaitway.train("cartpole", out=out, quiet=True, **many)
    assert run.status == "interrupted" and run.checkpoint is not None
    done = run.steps
    with pytest.raises(gaitway.UserError, match="resume=True"):
        gaitway.train("cartpole", out=out, **many)
    again = gaitway.train("cartpole", out=out, quiet=True, resume=True, **many | {"total_steps": done + 128})
    assert again.status == "finished" and again.steps == done + 128


def test_a_task_may_be_an_object(tmp_path):
    """The same task by its name gives the same policy."""
    from gaitway_tasks.registry import get_task

    task = get_task("velocity-flat-anymal-c-blind", "cpu")
    few = {"num_envs": 4, "total_steps": 96, "agent.num_steps": 24, "evaluation_episodes": 0, "num_threads": 1}
    few |= {"agent.optimizer.minibatches": 1, "seed": 1}
    mine = gaitway.train(task.replace(name="mine"), out=tmp_path / "mine", quiet=True, **few)
    assert (mine.status, mine.config.task) == ("finished", task.replace(name="mine"))
    env = gaitway.make_vec(task, 3, num_threads=1)
    assert env.num_envs == 3 and env.reset()[0]["policy"].shape[0] == 3
    env.close()
    few["total_steps"] = 192
    again = gaitway.train(task.replace(name="mine"), out=tmp_path / "mine", quiet=True, resume=True, **few)
    assert again.steps == 192
    with pytest.raises(gaitway.UserError, match="task 7: give the name of one, or a Task"):
        gaitway.train(7, out=tmp_path / "other")
    with pytest.raises(gaitway.UserError, match=r'preset \'cpu\'.*get_task\(NAME, "cpu"\)'):
        gaitway.train(task, preset="cpu", out=tmp_path / "other")


def test_a_task_of_a_module_is_made_by_its_name(tmp_path, monkeypatch):
    """Naming it trusts its module, as on the command line; no flag is asked for."""
    made = "get_task('velocity-flat-anymal-c-blind').replace(name='m')"
    (tmp_path / "tasks_of_mine.py").write_text(f"from gaitway_tasks.registry import get_task\nTASK = {made}\n")
    monkeypatch.syspath_prepend(tmp_path)
    env = gaitway.make_vec("tasks_of_mine:TASK", 2, num_threads=1)
    assert env.num_envs == 2
    env.close()


def test_functions_of_a_script_have_no_name_in_a_run(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import dataclasses, gaitway\n"
        "from gaitway_tasks.registry import get_task\n"
        "from gaitway_tasks.spec import Reward\n"
        "def mine(world):\n    return world.robot.joint_pos[:, 0]\n"
        "task = get_task('velocity-flat-anymal-c-blind')\n"
        "gaitway.train(task.replace(rewards={'mine': Reward(func=mine, weight=1.0)}), out='run', num_envs=2)\n"
    )
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "UserError" in done.stderr or "ConfigError" in done.stderr
    assert "the function 'mine' of __main__ cannot be named" in done.stderr and not (tmp_path / "run").exists()


def test_errors_name_arguments(tmp_path, run):
    with pytest.raises(gaitway.UserError, match=r"choose another out$"):
        gaitway.train("cartpole", out=run.path, resume=True, seed=9)
    with pytest.raises(gaitway.UserError, match=r"names code .*|cannot import"):
        gaitway.make_vec("no_such_module_here:TASK")


def test_training_works_in_a_thread_and_leaves_torch_its_threads(tmp_path):
    runs = []
    torch.set_num_threads(2)
    work = threading.Thread(
        target=lambda: runs.append(gaitway.train("cartpole", out=tmp_path / "run", quiet=True, **SMALL))
    )
    work.start()
    work.join()
    assert [run.status for run in runs] == ["finished"] and torch.get_num_threads() == 2


def test_an_evaluation_has_the_threads_of_a_training_and_leaves_torch_its_own(run, monkeypatch):
    found = []
    monkeypatch.setattr("gaitway.training.evaluator.played", lambda *_: found.append(torch.get_num_threads()))
    torch.set_num_threads(2)
    gaitway.evaluate(run)
    assert found == [1] and torch.get_num_threads() == 2


def test_one_environment_passes_the_checks_of_others():
    env = gymnasium.make(f"Gaitway/{FLAT.title()}-v0", preset="cpu").unwrapped
    check_env(env, warn=False)
    assert env.reset(seed=4)[0].tolist() == env.reset(seed=4)[0].tolist() != env.reset(seed=5)[0].tolist()
    with pytest.raises(gaitway.UserError, match="action_limit=0"):
        gymnasium.make(f"Gaitway/{FLAT.title()}-v0", action_limit=0)


def test_asking_for_gymnasium_does_not_lose_the_environments():
    code = (
        "import gaitway.gymnasium_plugin as plugin, importlib.util; plugin.install(); "
        "importlib.util.find_spec('gymnasium'); import gymnasium; "
        f"assert 'Gaitway/{FLAT.title()}-v0' in gymnasium.registry"
    )
    subprocess.run([sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {code}"], check=True)


def test_stable_baselines3_gets_what_its_own_environments_give():
    """Beside its DummyVecEnv: shapes, types, ends by fall and by time, and what the infos say of them."""
    ours, theirs = (
        gaitway.make_vec("cartpole", 3, library="sb3"),
        DummyVecEnv([lambda: gymnasium.make("CartPole-v1")] * 3),
    )
    ours.seed(1)
    first, other = ours.reset(), theirs.reset()
    assert (first.dtype, first.shape) == (other.dtype, other.shape)
    assert (ours.action_space, ours.observation_space.shape) == (theirs.action_space, theirs.observation_space.shape)
    seen = {}
    for _ in range(60):
        actions = np.ones(3, np.int64)
        for name, env in (("ours", ours), ("theirs", theirs)):
            observation, reward, done, infos = env.step(actions)
            assert [part.dtype.name for part in (observation, reward, done)] == ["float32", "float32", "bool"]
            for row in np.flatnonzero(done):
                seen[name] = infos[row]
                assert abs(infos[row]["terminal_observation"][2]) > 0.2 > abs(observation[row][2])
    assert not seen["ours"]["TimeLimit.truncated"] and not seen["theirs"]["TimeLimit.truncated"]
    assert seen["ours"]["episode"]["r"] == seen["ours"]["episode"]["l"] > 5


def test_a_time_limit_is_no_end_for_stable_baselines3():
    env = gaitway.make_vec("pendulum", 2, library="sb3")
    env.reset()
    for _ in range(200):
        observation, _, done, infos = env.step(np.zeros((2, 1), np.float32))
    assert done.all() and all(info["TimeLimit.truncated"] for info in infos)
    assert not np.allclose(infos[0]["terminal_observation"], observation[0])
    assert np.isfinite(env.action_space.high).all() and env.get_attr("num_envs") == [2, 2]


def test_stable_baselines3_trains_a_robot():
    env = gaitway.make_vec(FLAT, 8, preset="cpu", library="sb3", num_threads=1, action_limit=2.0)
    assert env.action_space.high.tolist() == [2.0] * 12
    model = PPO("MlpPolicy", env, n_steps=8, batch_size=32, n_epochs=1, seed=0, device="cpu")
    before = [p.clone() for p in model.policy.parameters()]
    model.learn(128)
    assert model.num_timesteps == 128
    assert any((a != b).any() for a, b in zip(before, model.policy.parameters(), strict=True))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"library": "sb4"}, "sb4"),
        ({"num_envs": 0}, "num_envs 0"),
        ({"library": "sb3", "action_limit": -1.0}, "action_limit=-1.0"),
        ({"preset": "gpu"}, "gpu"),
    ],
)
def test_wrong_environments_are_refused(given, message):
    with pytest.raises(gaitway.UserError, match=message):
        gaitway.make_vec(**{"task": FLAT, "num_envs": 2, "num_threads": 1} | given)


def test_wrong_estimates_and_no_episodes_are_refused(run):
    with pytest.raises(gaitway.UserError, match="'base_lin_val' is not estimated"):
        gaitway.export(run, "nowhere", "base_lin_val")
    with pytest.raises(gaitway.UserError, match="base_lin_vel is not estimated by 'me'"):
        gaitway.export(run, "nowhere", {"base_lin_vel": "me"})
    with pytest.raises(gaitway.UserError, match="episodes=0"):
        gaitway.evaluate(run, 0)


def test_nothing_to_play_is_said():
    with pytest.raises(gaitway.UserError, match="nowhere"):
        gaitway.play(Path("nowhere"))


@pytest.mark.parametrize(
    ("missing", "call", "message"),
    [
        ("torch", lambda: gaitway.train("cartpole"), r"torch.*pip install 'gaitway\[train\]'"),
        ("torch", lambda: gaitway.make_vec("cartpole"), r"torch.*pip install 'gaitway\[train"),
        ("mujoco", lambda: gaitway.validate("nowhere"), r"mujoco.*pip install 'gaitway\[mujoco\]'"),
        ("stable_baselines3", lambda: gaitway.make_vec("cartpole", library="sb3"), "pip install stable-baselines3"),
    ],
)
def test_a_notebook_without_an_extra_is_told_how_to_get_it(missing, call, message, monkeypatch):
    def find(name, package=None):
        return None if name == missing else found(name, package)

    found = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", find)
    monkeypatch.setattr("gaitway.vectors.find_spec", find)
    with pytest.raises(gaitway.UserError, match=message):
        call()


@pytest.mark.parametrize(
    ("change", "message"),
    [("version_info = (3, 10, 4)", r"3\.13, and this is 3\.10"), ("platform = 'win32'", "WSL 2 [^\n]*container")],
)
def test_elsewhere_it_says_what_it_needs(change, message):
    """A program gets an ImportError, the user of the command one line."""
    source = Path(gaitway.__file__)
    code = f"import sys; sys.{change}; exec(compile(open({str(source)!r}).read(), 'gaitway', 'exec'))"
    for program, start in (("", "Traceback .*\nImportError: "), (r"C:\Scripts\gaitway.exe", "")):
        asked = [sys.executable, "-S", "-c", f"import sys; sys.argv[0] = {program!r}; {code}"]
        done = subprocess.run(asked, capture_output=True, text=True)
        assert done.returncode == 1 and re.fullmatch(f"{start}Gaitway [^\n]*{message}\n", done.stderr, re.DOTALL)
