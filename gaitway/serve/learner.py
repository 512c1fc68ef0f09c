"""A client's model that learns: gradients that add up over requests, and a step of Adam when one is asked for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gaitway_agents.core.flat import FlatParameters
from gaitway_agents.core.objective import masked_mean
from gaitway_agents.core.policy import computing
from gaitway_files.errors import UserError
from gaitway_language.saving import save_model
from torch import Tensor, nn

from .base import Adapters, BaseModel
from .losses import batch_of, loss_of
from .messages import Array, TrainingRequest
from .targets import TargetPolicy

WEIGHTS, OPTIMIZER = "adapter_model.safetensors", "optimizer.safetensors"
CHUNK = 1024
"""Tokens of a forward pass, padding included: of 4096, a model of 135 million parameters has activations of 10 GB."""


@dataclass(frozen=True)
class AdamParams:
    """Settings of one step, named and with defaults as Tinker's."""

    learning_rate: float = 1e-4
    beta1: float = 0.9
    beta2: float = 0.95
    eps: float = 1e-12
    weight_decay: float = 0.0
    grad_clip_norm: float = 0.0
    """Largest norm of the gradient; 0 does not clip."""

    @staticmethod
    def asked(given: Mapping[str, Any]) -> AdamParams:
        known = {field.name for field in fields(AdamParams)}
        if unknown := sorted(set(given) - known):
            raise UserError(f"adam_params {unknown[0]!r}: unknown; there are {', '.join(sorted(known))}")
        for name, value in given.items():
            ends = 1.0 if name.startswith("beta") else math.inf
            if type(value) not in (int, float) or not 0.0 <= value < ends:
                raise UserError(f"adam_params {name} {value!r}: must be a finite number from 0, betas below 1")
        return AdamParams(**given)


class Learner:
    """Adapters on ``base``, or a copy of it; ``folder`` is a checkpoint to begin with.

    ``precision`` is that of forward and backward passes. Losses are sums over all tokens, and so are gradients over
    requests until a step.
    """

    def __init__(self, base: BaseModel, adapters: Adapters, precision: str = "float32", folder: Path | None = None):
        self.base, self.adapters, self.precision = base, adapters, precision
        self.model = model_of(base, adapters, folder)
        self.policy = TargetPolicy(self.model)
        self.flat = FlatParameters([[p for p in self.model.parameters() if p.requires_grad]])
        self.optimizer = torch.optim.AdamW([self.flat.flat], fused=True)
        self.failed = False
        """A request for gradients failed since the last step, so the next step would lack them."""

    @property
    def gradient(self) -> Tensor:
        assert self.flat.flat.grad is not None
        return self.flat.flat.grad

    def losses(self, request: TrainingRequest) -> tuple[list[dict[str, Array]], dict[str, float]]:
        """Log-probabilities of each datum's targets, and the sum of the losses; adds gradients unless forward only.

        A request that fails leaves the gradient as it was.
        """
        try:
            return self._losses(request)
        except Exception:
            self.failed = self.failed or not request.forward_only
            raise

    def _losses(self, request: TrainingRequest) -> tuple[list[dict[str, Array]], dict[str, float]]:
        base, learns = self.base, not request.forward_only
        loss = loss_of(request.loss, request.settings)
        batch = batch_of(
            request.data, request.loss, vocabulary=base.vocabulary, positions=base.positions, device=base.device
        )
        before = self.gradient.clone() if learns else None
        found = torch.zeros(batch.observations["targets"].shape)
        each = torch.zeros_like(found)
        total = 0.0
        try:
            for rows in self.policy.chunks(batch, CHUNK):
                part = batch[rows]
                with torch.set_grad_enabled(learns):
                    with computing(base.device, self.precision):
                        new = self.policy.evaluate(part)
                    losses, _ = loss(new, part)
                    loss_sum = masked_mean(losses, part.mask, 1.0)
                    if learns:
                        loss_sum.backward()
                total += float(loss_sum.detach())
                where = rows.cpu()
                found[where], each[where] = new.log_probs.detach().float().cpu(), losses.detach().float().cpu()
            if not (math.isfinite(total) and (not learns or bool(self.gradient.isfinite().all()))):
                raise UserError("the loss or its gradient is not finite: lower the learning rate, or load a checkpoint")
        except BaseException:
            if before is not None:
                self.gradient.copy_(before)
            raise
        outputs = []
        for row, datum in enumerate(request.data):
            shape = datum.inputs["target_tokens"].shape
            tensors = {"logprobs": _cut(found[row], shape)}
            if request.loss == "cross_entropy":
                tensors["elementwise_loss"] = _cut(each[row], shape)
            outputs.append(tensors)
        return outputs, {"loss:sum": total}

    def step(self, params: AdamParams) -> dict[str, float]:
        """A step of AdamW with the sum of the gradients since the last one. UserError if one of these failed."""
        if self.failed:
            self.gradient.zero_()
            self.failed = False
            raise UserError(
                "no step was taken, and its gradients are dropped: a forward_backward since the last step failed"
            )
        # g <- g min(1, c / |g|)
        norm = self.flat.clip_gradients(params.grad_clip_norm or math.inf)
        (group,) = self.optimizer.param_groups
        group |= {
            "lr": params.learning_rate,
            "betas": (params.beta1, params.beta2),
            "eps": params.eps,
            "weight_decay": params.weight_decay,
        }
        self.optimizer.step()
        self.gradient.zero_()
        return {"grad_norm": float(norm), "learning_rate": params.learning_rate}

    def save(self, folder: Path, *, optimizer: bool) -> None:
        """Adapters in peft's form, or a whole model in Hugging Face's, and Adam's moments beside them."""
        from safetensors.torch import save_file

        if self.adapters.rank is None:
            save_model(self.model, self.base.tokenizer, folder)
        else:
            net: Any = self.model
            net.save_pretrained(folder, save_embedding_layers=False)
        state = self.optimizer.state.get(self.flat.flat)
        if optimizer and state:
            tensors = {name: state[name].detach().cpu().clone() for name in ("step", "exp_avg", "exp_avg_sq")}
            save_file(tensors, folder / OPTIMIZER)

    def load_optimizer(self, folder: Path) -> None:
        """Adam's moments of a checkpoint; one saved before the first step has none."""
        from safetensors.torch import load_file

        if not (folder / OPTIMIZER).exists():
            return
        tensors = load_file(folder / OPTIMIZER)
        if tensors["exp_avg"].shape != self.flat.flat.shape:
            raise UserError(f"{folder}: its optimiser's state belongs to {tensors['exp_avg'].numel()} parameters")
        moments = {name: tensors[name].to(self.flat.flat.device) for name in ("exp_avg", "exp_avg_sq")}
        self.optimizer.state[self.flat.flat] = {"step": tensors["step"].to(self.flat.flat.device), **moments}

    def replace(self, folder: Path, *, optimizer: bool) -> None:
        """Take the weights of a checkpoint, and with ``optimizer`` its moments; else those begin anew."""
        theirs = [p for p in model_of(self.base, self.adapters, folder).parameters() if p.requires_grad]
        with torch.no_grad():
            self.flat.flat.copy_(torch.cat([p.flatten() for p in theirs]))
        self.gradient.zero_()
        self.failed = False
        self.optimizer.state.clear()
        if optimizer:
            self.load_optimizer(folder)


def model_of(base: BaseModel, adapters: Adapters, folder: Path | None) -> nn.Module:
    """A model to train, with the weights of a checkpoint's folder or, with None, as it begins."""
    if folder is not None and adapters.rank is None:
        return base.read_whole(folder)
    model = base.learner_model(adapters)
    if folder is not None:
        _load_adapters(model, folder)
    return model


def _cut(values: Tensor, shape: tuple[int, ...]) -> Array:
    """The part of a datum's padded values, (L,) or (L, K), that has the ``shape`` of its targets."""
    wide = values[: shape[0]].reshape(shape[0], -1)
    return np.asarray(wide[:, : shape[1]] if len(shape) == 2 else wide[:, 0])


def _load_adapters(model: nn.Module, folder: Path) -> None:
    from peft import set_peft_model_state_dict
    from safetensors.torch import load_file

    state = load_file(folder / WEIGHTS)
    own = {name for name, p in model.named_parameters() if p.requires_grad}
    if len(state) != len(own):
        raise UserError(f"{folder} has {len(state)} tensors of adapters, and the model {len(own)}: another model's")
    found: Any = set_peft_model_state_dict(model, state)
    if found.unexpected_keys:
        raise UserError(f"{folder} has adapters of {found.unexpected_keys[0]}, which the model has not")
