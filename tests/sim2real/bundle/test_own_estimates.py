"""Estimates of a policy are exported with it, in SI units, through every runtime."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from estimating import estimating, estimating_bundle
from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.bundle.policy import OnboardPolicy
from gaitway_onboard.interface import Signals
from gaitway_sim2real.bundle.batched_policy import BatchedPolicy
from gaitway_sim2real.bundle.golden import plausible_signals
from gaitway_sim2real.bundle.in_memory import InMemoryPolicy
from gaitway_sim2real.bundle.signal_policy import SignalPolicy
from gaitway_tasks.spec import Task
from torch import nn

NAME = "estimated_base_lin_vel"
STEPS, BATCH = 20, 3


@pytest.fixture(scope="module")
def made() -> tuple[Task, nn.Module]:
    return estimating()


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return estimating_bundle(tmp_path_factory)


@pytest.fixture(scope="module")
def signals(made: tuple[Task, nn.Module]) -> dict[str, np.ndarray]:
    pose = np.array(made[0].robot.default_joint_pos)
    return plausible_signals(pose, np.array([[-1.0, 1.0]] * 3), steps=STEPS, batch=BATCH, step_dt=0.02, seed=0)


def test_the_contract_names_it(bundle: Path) -> None:
    contract = Contract.load(bundle)
    assert contract.estimates == (NAME,) and contract.estimated == ()
    (output,) = (signal for signal in contract.outputs if signal.name == NAME)
    assert (output.shape, output.unit) == (("N", 3), "m/s")


def test_all_runtimes_give_the_same(bundle: Path, made: tuple[Task, nn.Module], signals: dict[str, np.ndarray]) -> None:
    contract, policy = Contract.load(bundle), SignalPolicy(*made).eval()
    batched = BatchedPolicy(bundle / "policy.onnx", contract, BATCH)
    memory, onboard = InMemoryPolicy(policy, BATCH), OnboardPolicy(bundle)
    for step in range(STEPS):
        row = {name: value[step] for name, value in signals.items()}
        for runtime in (batched, memory):
            runtime(row)
        first = {name: value[0].astype(float) for name, value in row.items()}
        onboard.step(Signals(**{n: first[n] for n in first if n != "command"}, stamp=0.0), first["command"])
        assert batched.estimates.keys() == memory.estimates.keys() == onboard.estimates.keys() == {NAME}
        np.testing.assert_allclose(batched.estimates[NAME], memory.estimates[NAME], atol=1e-5)
        np.testing.assert_allclose(batched.estimates[NAME][0], onboard.estimates[NAME], atol=1e-5)
    assert np.ptp(batched.estimates[NAME], axis=0).min() > 1e-3


def test_a_term_that_the_critic_sees_scaled_is_estimated_in_its_unit(
    made: tuple[Task, nn.Module], signals: dict[str, np.ndarray]
) -> None:
    task, actor = made
    critic = task.observations["critic"]
    terms = {**critic.terms, "base_lin_vel": replace(critic.terms["base_lin_vel"], scale=(2.0, 2.0, 0.5))}
    scaled = task.replace(observations={**task.observations, "critic": replace(critic, terms=terms)})
    feed = [torch.from_numpy(value[0]) for value in signals.values()]
    with torch.inference_mode():
        plain, other = (
            dict(zip(p.output_widths, p(*feed, torch.zeros(BATCH, p.state_dim)), strict=True))
            for p in (SignalPolicy(task, actor).eval(), SignalPolicy(scaled, actor).eval())
        )
    torch.testing.assert_close(other[NAME] * torch.tensor([2.0, 2.0, 0.5]), plain[NAME])
    torch.testing.assert_close(other["action"], plain["action"])
