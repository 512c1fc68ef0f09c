"""Models as folders in Hugging Face's form, written a tensor at a time."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from operator import methodcaller
from pathlib import Path
from typing import Any

import torch
from gaitway_files.adapters import MergedWeights, packed_weights, unmergeable
from gaitway_files.errors import UserError
from gaitway_files.writing import write_file, write_text
from torch import Tensor, nn

from .engines.stream import content, head, shapes

STATISTICS = ("reward_mean", "reward_std")
"""Shift and scale of a reward model's scores, in its ``config.json``."""
FILE_BYTES = 5 * 10**9
"""Most bytes of tensors in a file, but for a tensor that is larger by itself."""
PATTERN, INDEX = "model{suffix}.safetensors", "model.safetensors.index.json"


def save_model(model: nn.Module, tokenizer: Any, folder: Path, *, file_bytes: int = FILE_BYTES) -> None:
    """Write a plain folder in Hugging Face's form: config, safetensors with adapters merged, tokeniser.

    Beside the model no more than a tensor is in memory. ``config.json`` comes after the weights, so a folder that has
    it has these. Raises :class:`OSError` where the disk is full, and UserError for adapters that cannot be merged.
    """
    base: Any = model
    base = base.get_base_model() if hasattr(base, "get_base_model") else base
    config = copy.deepcopy(base.config)
    outline = base
    if packed_weights(model):
        del config.quantization_config
        with torch.device("meta"):  # what was read of packed files is no guide to these
            outline = type(base)._from_config(config)
    weights = SavedWeights(model, outline)
    folder.mkdir(parents=True, exist_ok=True)
    _write(weights, folder, file_bytes)
    config.architectures = [type(base).__name__]
    config.dtype = next(t.dtype for t in weights.layout.values() if t.is_floating_point())
    if weights.apart:
        config.get_text_config().tie_word_embeddings = config.tie_word_embeddings = False
    config.save_pretrained(folder)
    if base.can_generate():
        base.generation_config.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def save_reward_model(model: nn.Module, mean: Tensor, std: Tensor, tokenizer: Any, folder: Path) -> None:
    """Save a reward model as a sequence classification model; its scores are (head - mean) / std, as in its config."""
    net: Any = model
    net.config.update(dict(zip(STATISTICS, (float(mean), float(std)), strict=True)))
    save_model(model, tokenizer, folder)


class SavedWeights:
    """Names and tensors of a model's files, those of each of its own tensors when its turn comes.

    transformers may have joined, split or renamed what it read, as the experts of a mixture: here tensors are as they
    were in the files.
    """

    def __init__(self, model: nn.Module, base: Any):
        """``base`` is the model without adapters and packed weights; its values are not read."""
        if names := unmergeable(model):
            raise UserError(
                f"{names[0]} has adapters on weights that are quantised otherwise than by language.lora.four_bits, and "
                "these cannot be merged: train adapters on a model that is not quantised, with four_bits if memory is "
                "short"
            )
        self.base, self._weights = base, MergedWeights(model)
        ignored = set(base._keys_to_ignore_on_save or ())
        own = {name: tensor for name, tensor in shapes(self._weights).items() if name not in ignored}
        self.layout = self._in_files(own)
        """Tensors of the files, without their values."""
        self.apart = not own.keys().isdisjoint(base.all_tied_weights_keys)
        """Tensors that a configuration may tie have values of their own."""
        self._alone: set[str] = own.keys() & self.layout.keys()
        self._changed = any(self.layout.get(name) is not tensor for name, tensor in own.items())
        if self._changed:
            self._alone = {name for name, tensor in own.items() if self._is_alone(name, tensor)}
        self._together = own.keys() - self._alone

    def __iter__(self) -> Iterator[tuple[str, Tensor]]:
        together = {}
        for name, tensor in self._weights:
            if name in self._together:
                together[name] = tensor
            elif name in self._alone:
                found = self._in_files({name: tensor}) if self._changed else {name: tensor}
                del tensor
                while found:
                    yield found.popitem()
            else:
                del tensor
        yield from self._in_files(together).items()

    def _in_files(self, own: dict[str, Tensor]) -> dict[str, Tensor]:
        from transformers.core_model_loading import revert_weight_conversion

        found: dict[str, Tensor] = revert_weight_conversion(self.base, dict(own))
        return found

    def _is_alone(self, name: str, tensor: Tensor) -> bool:
        """Whether tensors of the files are made of this one, and of no other beside it."""
        try:
            found = self._in_files({name: tensor})
        except (ValueError, RuntimeError):
            return False
        return all(each in self.layout and part.shape == self.layout[each].shape for each, part in found.items())


def _write(weights: SavedWeights, folder: Path, file_bytes: int) -> None:
    from huggingface_hub import split_torch_state_dict_into_shards

    layout = weights.layout
    split = split_torch_state_dict_into_shards(layout, filename_pattern=PATTERN, max_shard_size=file_bytes)
    places: dict[str, slice] = {}
    for file_name, names in split.filename_to_tensors.items():
        # The larger a number, the earlier it comes, so that each begins at a multiple of its size.
        names = sorted(names, key=lambda name: -layout[name].dtype.itemsize)
        beginning, found = head({name: layout[name] for name in names}, format="pt")
        write_file(folder / file_name, methodcaller("write", beginning))
        places |= found
    for name, tensor in weights:
        with open(folder / split.tensor_to_filename[name], "r+b") as file:
            file.seek(places[name].start)
            file.write(content(tensor))
        del tensor  # before the next one is made
    if split.is_sharded:
        count = sum(tensor.numel() for tensor in layout.values())
        index = {
            "metadata": {"total_parameters": count, **split.metadata},
            "weight_map": split.tensor_to_filename,
        }
        write_text(folder / INDEX, json.dumps(index, indent=2, sort_keys=True) + "\n")
