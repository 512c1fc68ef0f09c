"""TRL's own loss of generalised knowledge distillation against ours: values and gradients of the same logits."""

from __future__ import annotations

import os

import pytest
import torch
from gaitway_agents.core.distillation import generalised_jsd
from gaitway_agents.core.objective import masked_mean

for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE"):
    os.environ.setdefault(name, "1")
trl = pytest.importorskip("trl")
gkd = pytest.importorskip("trl.experimental.gkd.gkd_trainer")


@pytest.mark.parametrize("beta", [0.0, 0.1, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("temperature", [1.0, 0.9])
def test_the_loss_and_its_gradient_are_trls(beta, temperature):
    generator = torch.Generator().manual_seed(0)
    student, teacher = (3.0 * torch.randn(4, 6, 11, generator=generator, dtype=torch.float64) for _ in range(2))
    labels = torch.randint(0, 11, (4, 6), generator=generator)
    labels[torch.rand(4, 6, generator=generator) < 0.4] = -100
    mask = (labels != -100).double()
    ours, theirs = student.clone().requires_grad_(), student.clone().requires_grad_()

    expected = gkd.GKDTrainer.generalized_jsd_loss(theirs, teacher, labels, beta=beta, temperature=temperature)
    expected.backward()
    said, wanted = ((logits / temperature).log_softmax(-1) for logits in (ours, teacher))
    found = masked_mean(generalised_jsd(said, wanted, beta), mask, mask.sum())
    found.backward()
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-14)
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=0, atol=1e-14)
