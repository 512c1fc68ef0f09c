"""The served model: one copy of its weights, which every client's adapters lie on."""

from __future__ import annotations

import copy
import hashlib
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from gaitway_files.errors import UserError
from gaitway_language.conversation import Conversation
from gaitway_language.engines.merged import merged
from gaitway_language.model import add_lora, load_model, stop_tokens
from gaitway_language.options import LanguageOptions, LoraOptions
from torch import nn

from ..domains.texts.models import load_writer
from ..runs.choice import Which

MOST_RANK = 1024
ALPHA = 32.0
"""Scale of adapters, as Tinker's: their product times 32 / rank."""


@dataclass(frozen=True)
class Adapters:
    """The part of a model that a client trains: adapters of a rank, or with ``rank`` None all weights."""

    rank: int | None
    seed: int
    train_attn: bool = True
    train_mlp: bool = True

    @staticmethod
    def asked(config: Any) -> Adapters:
        """Tinker's ``LoraConfig`` as JSON; None asks for all weights."""
        if config is None:
            return Adapters(None, 0)
        if not isinstance(config, dict):
            raise UserError(f"lora_config {config!r}: must be an object, or left out to train all weights")
        rank, seed = config.get("rank"), config.get("seed")
        if type(rank) is not int or not 1 <= rank <= MOST_RANK:
            raise UserError(f"lora_config.rank {rank!r}: must be a whole number from 1 to {MOST_RANK}")
        if seed is not None and (type(seed) is not int or not 0 <= seed < 2**63):
            raise UserError(f"lora_config.seed {seed!r}: must be a whole number from 0 to 2^63 - 1, or left out")
        attn, mlp = bool(config.get("train_attn", True)), bool(config.get("train_mlp", True))
        if not attn and not mlp:
            raise UserError("lora_config: only the output layer is left to train; set train_attn or train_mlp")
        return Adapters(rank, random.getrandbits(32) if seed is None else seed, attn, mlp)


class BaseModel:
    """``name`` is the source as the user wrote it: a run, a folder in Hugging Face's form or an id of its hub."""

    def __init__(self, name: str, model: nn.Module, tokenizer: Any):
        net: Any = merged(model)
        self.name, self.tokenizer = name, tokenizer
        self.stops: tuple[int, ...] = Conversation(tokenizer, "", stop_tokens(net)).stops
        """Tokens that end an answer."""
        self.model: Any = net.eval().requires_grad_(False)
        self.device: torch.device = next(net.parameters()).device
        self.vocabulary = int(net.get_input_embeddings().num_embeddings)
        config = net.config.get_text_config()
        self.positions: int | None = getattr(config, "max_position_embeddings", None)
        """Most tokens of a sequence."""
        self.fingerprint = _fingerprint(net)

    @staticmethod
    def load(source: str, which: Which = None) -> BaseModel:
        """Raises UserError for a source that is no language model that writes."""
        loaded = load_writer(source, which=which)
        return BaseModel(source, loaded.model, loaded.tokenizer)

    def learner_model(self, adapters: Adapters) -> nn.Module:
        """A model to train. With adapters, it shares the frozen weights; else it is a copy in float32."""
        if adapters.rank is None:
            whole: Any = copy.deepcopy(self.model)
            return whole.float().requires_grad_(True)
        shared = {id(tensor): tensor for tensor in [*self.model.parameters(), *self.model.buffers()]}
        options = LoraOptions(rank=adapters.rank, alpha=ALPHA, targets=self._targets(adapters))
        return add_lora(copy.deepcopy(self.model, shared), options, seed=adapters.seed)

    def check_name(self, name: Any) -> None:
        """Raise UserError for the name of another model."""
        if name != self.name:
            raise UserError(f"base_model {name!r}: this server has {self.name!r} only")

    def read_whole(self, folder: Path) -> nn.Module:
        """A model of :meth:`learner_model` without adapters, as a checkpoint's folder has it."""
        options = LanguageOptions(model=str(folder))
        return load_model(options, self.tokenizer, device=self.device)

    def _targets(self, adapters: Adapters) -> tuple[str, ...]:
        """Names of the linear layers that get adapters: never the output layer."""
        head = self.model.get_output_embeddings()
        layers = {
            name: "attn" in name or "attention" in name
            for name, module in self.model.named_modules()
            if isinstance(module, nn.Linear) and module is not head
        }
        wanted = {
            name.rpartition(".")[2]
            for name, attn in layers.items()
            if (adapters.train_attn if attn else adapters.train_mlp)
        }
        return tuple(sorted(wanted))


@torch.no_grad()
def _fingerprint(model: nn.Module) -> str:
    """A digest of names, shapes and sums of a model's weights: other weights have another one."""
    digest = hashlib.sha256()
    for name, tensor in model.state_dict().items():
        digest.update(f"{name} {tuple(tensor.shape)} {float(tensor.double().sum()):.9e}\n".encode())
    return digest.hexdigest()[:32]
