"""A causal language model as a policy: log-probabilities of tokens with a limited number of logits in memory."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from gaitway_files.adapters import MergedWeights
from gaitway_files.errors import UserError
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ..core.batch import Batch
from ..core.policy import Evaluation, Policy
from .llama import LONGEST, lean, lean_states
from .prefixes import WORTH, can_share, shared_chunks, split, suffix_states
from .sequences import hidden_states, token_chunks, without_dropout
from .token_critic import TokenCritic
from .token_log_probs import token_log_probs

LOGITS = {"cpu": 2**24, "cuda": 2**26}
"""Logits that are in memory at a time, by kind of device: 64 MiB of them, and 256 MiB."""
KEPT = 2**27
"""Logits that are kept for the backward pass, once, on a CPU: 256 MiB in bfloat16, 512 MiB in float32."""
ENTROPY = ("none", "statistic", "gradient")


class CausalLMPolicy(Policy):
    """``model`` is a causal LM of transformers (``get_decoder()``, ``get_output_embeddings()``), adapters included.

    Rows of its batches are sequences: ``observations["lengths"]`` (B,), ``actions`` (B, L) and ``mask`` (B, L), as
    described in :mod:`gaitway_agents.interfaces`. A minibatch's forward passes have about
    ``OptimizerConfig.chunk_size`` *tokens*, padding included. Rows that begin with the same prompt are read together,
    the prompt once, where that saves time; the gradient is the same.

    The ``critic`` says what each token's values are. ``entropy`` is left out ("none", it is 0 then), a "statistic", or
    has a "gradient", for losses that hold it. ``likeliest`` asks whether chosen tokens were the likeliest. The model is
    without dropout unless ``dropout``: sampled tokens are learnt from by comparing what the policy says of them now
    and then.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        temperature: float = 1.0,
        critic: TokenCritic | None = None,
        entropy: str = "statistic",
        likeliest: bool = False,
        dropout: bool = False,
    ):
        super().__init__()
        if entropy not in ENTROPY:
            raise UserError(f"entropy {entropy!r}: use one of {', '.join(map(repr, ENTROPY))}")
        if not temperature > 0.0:
            raise UserError(f"temperature {temperature}: must be positive")
        self.model, self.critic = model, critic
        self.temperature, self.entropy, self.likeliest, self.dropout = temperature, entropy, likeliest, dropout
        if not dropout:
            without_dropout(model)
        check_head(model)

    def evaluate(self, batch: Batch) -> Evaluation:
        """Log-probabilities, entropies and values (B, L) of the tokens that ``batch.mask`` keeps; 0 elsewhere."""
        assert batch.mask is not None
        log_probs, entropy, likeliest, *values = self.read(batch.actions, batch.observations["lengths"], batch.mask)
        return Evaluation(
            log_probs=log_probs,
            entropy=entropy,
            values=values[0] if values else None,
            likeliest=likeliest if self.likeliest else None,
        )

    def chunks(self, batch: Batch, size: int) -> list[Tensor]:
        """The rows of each forward pass, of about ``size`` tokens: of similar length, or with the same beginning."""
        apart = token_chunks(batch, size)
        mask = batch.observations.get("mask") if batch.mask is None else batch.mask
        if mask is None or not self._shares:
            return apart
        lengths = batch.observations["lengths"]
        together, tokens = shared_chunks(batch.actions, lengths, mask, size)
        padded = sum(int(lengths[part].max()) * lengths[part].numel() for part in apart)
        return together if tokens <= WORTH * padded else apart

    def grouped(self, batch: Batch, order: Tensor) -> Tensor:
        """``order`` (B,) with the rows of each prompt beside each other, so that minibatches read few prompts."""
        mask = batch.observations.get("mask") if batch.mask is None else batch.mask
        if mask is None:
            return order
        begins, rows = mask.bool().int().argmax(1).tolist(), batch.actions.tolist()
        groups: dict[tuple[int, ...], list[int]] = {}
        for row in order.tolist():
            groups.setdefault(tuple(rows[row][: begins[row]]), []).append(row)
        return torch.tensor([row for group in groups.values() for row in group], device=order.device)

    def layers(self) -> list[nn.Module]:
        """The layers of all decoders, of which a process may keep parts."""
        net: Any = self.model
        kinds = net._no_split_modules or ()
        return [module for module in self.modules() if type(module).__name__ in kinds]

    @property
    def _shares(self) -> bool:
        return not self.dropout and not self.in_parts and can_share(self.model)

    def hidden(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Last hidden states, shape (B, L, D)."""
        dropout = self.dropout and self.training and torch.is_grad_enabled()
        return hidden_states(self.model, tokens, lengths, dropout=dropout)

    def log_probs(self, tokens: Tensor, lengths: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probability of each masked token after those before it, and the entropy there, shape (B, L) each."""
        log_probs, entropy = self.read(tokens, lengths, mask)[:2]
        return log_probs, entropy

    def read(self, tokens: Tensor, lengths: Tensor, mask: Tensor) -> list[Tensor]:
        """Results of :func:`_log_probs` and, with a critic, values, for tokens, lengths and mask of :meth:`evaluate`; a
        prefix that rows share is read once."""
        shape, width = tokens.shape, int(lengths.max())
        tokens, mask = tokens[:, :width], mask[:, :width]
        parts = split(tokens, lengths, mask) if self._shares else None

        def states_of(model: nn.Module) -> Tensor:
            if self._shares and width <= LONGEST and lean(model):
                return lean_states(model, tokens, lengths, parts)
            if parts is not None:
                return suffix_states(model, tokens, parts)
            return self.hidden(tokens, lengths) if model is self.model else hidden_states(model, tokens, lengths)

        states = states_of(self.model)
        targets, kept = (tokens, mask) if parts is None else (parts.take(tokens), parts.take(mask))
        chosen = kept[:, 1:].bool()
        where = nn.functional.pad(chosen, (1, 0))
        found = [
            values.new_zeros(where.shape).masked_scatter(where, values)
            for values in self._of(states[:, :-1][chosen], targets[:, 1:][chosen])
        ]
        if self.critic is not None:
            found.append(self.critic.of_states(states_of(self.critic.backbone)) * where)
        if parts is not None:
            found = [parts.put(values, width) for values in found]
        return [nn.functional.pad(values, (0, shape[1] - width)) for values in found]

    def _of(self, states: Tensor, targets: Tensor) -> tuple[Tensor, ...]:
        """Log-probabilities from states (M, D) and targets (M,), a slice of logits at a time."""
        head, most = output_layer(self.model), LOGITS.get(states.device.type, 2**24)
        once: Callable[..., tuple[Tensor, ...]] = functools.partial(
            _log_probs, head=head, temperature=self.temperature, entropy=self.entropy, likeliest=self.likeliest
        )
        if type(head) is nn.Linear and head.bias is None and self.entropy != "gradient" and states.device.type == "cpu":
            most, spread = KEPT, self.entropy == "statistic"
            once = functools.partial(
                token_log_probs, weight=head.weight, temperature=self.temperature, entropy=spread,
                likeliest=self.likeliest,
            )  # fmt: skip
        rows = max(1, most // _vocabulary(self.model))
        if len(states) <= rows:
            return once(states, targets)
        parts = [
            checkpoint(once, s, t, use_reentrant=False)
            for s, t in zip(states.split(rows), targets.split(rows), strict=True)
        ]
        return tuple(torch.cat(values) for values in zip(*parts, strict=True))

    def named_weights(self) -> MergedWeights:
        """The model's weights for an engine: as in its ``state_dict``, adapters merged."""
        return MergedWeights(self.model)

    def parameter_groups(self) -> list[list[nn.Parameter]]:
        """The model's parameters that learn and, if there is one, the critic's."""
        modules = [self.model] if self.critic is None else [self.model, self.critic]
        return [[parameter for parameter in module.parameters() if parameter.requires_grad] for module in modules]


def output_layer(model: nn.Module) -> Callable[[Tensor], Tensor]:
    """Function from states (M, D) to logits (M, V), with the scaling and capping of Gemma, Cohere and Granite."""
    net: Any = model
    head, config = net.get_output_embeddings(), net.config.get_text_config()
    cap = getattr(config, "final_logit_softcapping", None)
    scale = getattr(config, "logit_scale", None) or 1.0 / (getattr(config, "logits_scaling", None) or 1.0)
    if cap is None and scale == 1.0:
        return head
    if cap is None:
        return lambda states: head(states) * scale
    return lambda states: cap * torch.tanh(head(states) * scale / cap)


@torch.no_grad()
def check_head(model: nn.Module) -> None:
    """Refuse a model whose logits are not :func:`output_layer` of :func:`hidden_states`."""
    net: Any = model
    lengths = torch.tensor([6, 4], device=next(model.parameters()).device)
    tokens = torch.arange(12, device=lengths.device).view(2, 6) % _vocabulary(model)
    # Flash attention computes in bfloat16 only.
    flash = str(net.config._attn_implementation).startswith("flash_attention")
    with torch.autocast(tokens.device.type, torch.bfloat16, enabled=flash):
        ours = output_layer(model)(hidden_states(model, tokens, lengths)).float()
        theirs = [
            net(row[None, :length], use_cache=False).logits[0].float()
            for row, length in zip(tokens, (6, 4), strict=True)
        ]
    low = flash or next(model.parameters()).dtype != torch.float32
    for row, other in zip(ours, theirs, strict=True):
        gap = float((row[: len(other)] - other).abs().max())
        if not gap <= (0.05 if low else 1e-3) * float(other.abs().max()):
            raise UserError(
                f"{type(model).__name__}: its logits are not its output layer's of its decoder's last states, but up "
                f"to {gap:.3g} apart: models that do more there, or that need a mask of padding, are not supported"
            )


def _vocabulary(model: nn.Module) -> int:
    net: Any = model
    return int(net.get_output_embeddings().weight.shape[0])


def _log_probs(
    states: Tensor, targets: Tensor, head: Callable[[Tensor], Tensor], temperature: float, entropy: str, likeliest: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Log-probabilities of targets, entropies, and 1.0 where targets are the likeliest; 0 if not asked for."""
    logits = head(states)
    normalised = ((logits if logits.dtype == torch.float64 else logits.float()) / temperature).log_softmax(-1)
    found = normalised.gather(1, targets[:, None])[:, 0]
    spread = best = torch.zeros_like(found)
    if entropy != "none":
        with torch.set_grad_enabled(entropy == "gradient" and torch.is_grad_enabled()):
            spread = -(normalised.exp() * normalised).sum(-1)
    if likeliest:
        with torch.no_grad():
            best = (found >= normalised.amax(-1)).to(found.dtype)
    return found, spread, best
