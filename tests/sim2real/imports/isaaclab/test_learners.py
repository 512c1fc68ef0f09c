"""Runs of skrl and rl_games: their networks, normalisers and clamps by hand; others are told what to do."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
import torch
from gaitway_onboard.bundle.contract import Contract
from gaitway_sim2real.imports.isaaclab.errors import IsaacLabImportError
from gaitway_sim2real.imports.isaaclab.importer import read_run
from sim2real.imports.isaaclab.learner_runs import (
    rl_games_action,
    rl_games_settings,
    save_rl_games,
    save_skrl,
    skrl_action,
    skrl_settings,
    write_settings,
)

D, A = 45, 12
X = 3.0 * torch.randn(64, D, generator=torch.Generator().manual_seed(7))


def action(run, x=X):
    """The imported actor on the policy's own columns, and its joints in the policy's own order."""
    with torch.inference_mode():
        return run.actor.actor(x)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("key", ["state_preprocessor", "observation_preprocessor"])
def test_skrl(tmp_path, shared, key):
    agent = skrl_settings()
    agent["agent"][key] = agent["agent"].pop("state_preprocessor")
    write_settings(tmp_path, agent)
    save_skrl(tmp_path, D, A, shared=shared, key=key)
    run = read_run(tmp_path)
    assert run.checkpoint.name == "agent_9600.pt" and run.learner == "skrl" and run.iteration == 9600
    assert torch.allclose(action(run), skrl_action(X, D, A), atol=1e-5)
    other = read_run(tmp_path, checkpoint=tmp_path / "checkpoints" / "agent_960.pt")
    assert not torch.allclose(action(other), skrl_action(X, D, A), atol=1e-1)


def test_skrl_with_a_clamp_of_its_own(tmp_path):
    agent = skrl_settings()
    agent["agent"]["state_preprocessor_kwargs"] = {"size": None, "clip_threshold": 1.5, "epsilon": 0.1}
    write_settings(tmp_path, agent)
    save_skrl(tmp_path, D, A)
    assert torch.allclose(action(read_run(tmp_path)), skrl_action(X, D, A, clip=1.5, epsilon=0.1), atol=1e-5)


@pytest.mark.parametrize("prefix", ["", "_orig_mod."])
@pytest.mark.parametrize("scaled", [True, False])
def test_rl_games(tmp_path, prefix, scaled):
    write_settings(tmp_path, rl_games_settings(clip_actions=scaled))
    save_rl_games(tmp_path, D, A, prefix)
    run = read_run(tmp_path)
    assert run.checkpoint.name == "last_go2_flat_ep_200_rew_12.5.pth" and run.learner == "rl_games"
    assert torch.allclose(action(run), rl_games_action(X, D, A, scaled), atol=1e-5)
    assert (action(run).abs() > 0.69).any() and (action(run).abs() < 0.5).any()


def test_the_best_of_rl_games_is_read_where_no_last_is(tmp_path):
    write_settings(tmp_path, rl_games_settings())
    save_rl_games(tmp_path, D, A)
    for last in (tmp_path / "nn").glob("last_*"):
        last.unlink()
    assert read_run(tmp_path).checkpoint.name == "go2_flat.pth"


def test_a_bundle_of_rl_games_clamps_and_remembers_the_scaled_action(tmp_path):
    write_settings(tmp_path, rl_games_settings())
    save_rl_games(tmp_path, D, A)
    run = read_run(tmp_path)
    bundle = run.export(tmp_path / "bundle")
    contract, golden = Contract.load(bundle), np.load(bundle / "golden.npz")
    session = onnxruntime.InferenceSession((bundle / "policy.onnx").read_bytes())
    feed = {name: golden[name][:1] for name in contract.input_names}
    target, raw = session.run(["joint_pos_target", "action"], feed)
    assert np.abs(raw).max() <= 0.7 + 1e-6
    np.testing.assert_allclose(target[0] - np.array(contract.default_joint_pos), 0.25 * raw[0], atol=1e-5)
    assert "rl_games" in (bundle / "import.yaml").read_text()


LSTM = {"rnn": {"name": "lstm", "units": 64, "layers": 1}}
SQUASHED = {"space": {"continuous": {"mu_activation": "tanh"}}}
NETWORK = {"name": "net", "input": "OBSERVATIONS", "layers": [32, 16]}


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        (skrl_settings(output="tanh(ACTIONS)"), r"output is tanh\(ACTIONS\).*--describe"),
        (skrl_settings(network=[NETWORK | {"activations": ["elu", "softmax"]}]), "activations.*softmax"),
        (skrl_settings(network=[NETWORK, NETWORK]), "2 parts"),
        (skrl_settings(network=[NETWORK | {"activations": "elu", "layers": [32, 10**9]}]), "16384 units"),
        (
            skrl_settings(network=[NETWORK | {"activations": "elu", "layers": [64, 16]}]),
            r"net_container\.0\.weight.*32",
        ),
        (skrl_settings() | {"agent": {"class": "PPO"}}, "a normaliser of observations.*has none"),
        (rl_games_settings(LSTM), r"rnn is .*lstm.*--describe"),
        (rl_games_settings(SQUASHED), "mu_activation is tanh"),
        (rl_games_settings(normalize_input=False, name="other"), "last_other_ep"),
        ({"policy": "MlpPolicy", "n_timesteps": 1e6}, "Stable-Baselines3.*MlpPolicy.*--describe"),
        ({"learner": "mine"}, "rl_games"),
    ],
)
def test_other_actors_are_refused_by_setting(tmp_path, agent, words):
    write_settings(tmp_path, agent)
    save_skrl(tmp_path, D, A)
    save_rl_games(tmp_path, D, A)
    with pytest.raises(IsaacLabImportError, match=words):
        read_run(tmp_path)


def test_a_range_of_actions_that_is_missing_is_asked_for(tmp_path):
    agent = rl_games_settings()
    agent["params"]["env"] = {}
    write_settings(tmp_path, agent)
    save_rl_games(tmp_path, D, A)
    with pytest.raises(IsaacLabImportError, match="clip_actions is missing"):
        read_run(tmp_path)


def test_no_checkpoint_names_the_file_that_is_expected(tmp_path):
    write_settings(tmp_path, skrl_settings())
    with pytest.raises(IsaacLabImportError, match=r"agent_<timestep>\.pt in .*checkpoints"):
        read_run(tmp_path)
