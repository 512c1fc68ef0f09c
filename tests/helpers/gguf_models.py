"""GGUF files of tiny models, and a plain computation of what they say, in numpy from the file alone."""

from pathlib import Path

import gguf
import numpy as np
import torch
from gguf.quants import dequantize, quantize
from tokenizers.pre_tokenizers import ByteLevel
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

KINDS = {
    "llama": (LlamaConfig, LlamaForCausalLM),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM),
}
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def tiny_model(architecture: str = "llama", *, tied: bool = True):
    """A random model whose vocabulary is that of :func:`write_gguf`."""
    config, kind = KINDS[architecture]
    settings = config(
        vocab_size=len(SPECIAL) + 256 + 2, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128, tie_word_embeddings=tied,
        rope_parameters={"rope_type": "default", "rope_theta": 5000.0}, head_dim=16,
    )  # fmt: skip
    torch.manual_seed(0)
    model = kind(settings)
    for parameter in model.parameters():  # biases and norms start as constants, which would hide a mistake
        torch.nn.init.normal_(parameter, std=0.2)
    return model


def write_gguf(path: Path, model, *, quantisation: str = "F32", fields: dict | None = None, leave: str = "") -> Path:
    """Write ``model`` as llama.cpp has it: names, pairs of rotated rows side by side, matrices quantised.

    ``fields`` replace fields of the file, None removes one; the tensor ``leave`` is left out.
    """
    config = model.config
    architecture = config.model_type
    number = next(key for key, name in gguf.MODEL_ARCH_NAMES.items() if name == architecture)
    names = gguf.get_tensor_name_map(number, config.num_hidden_layers)
    writer = gguf.GGUFWriter(path, architecture)
    tokens = [*SPECIAL, *sorted(ByteLevel.alphabet()), "Ġa", "ab"]
    told = {
        f"{architecture}.block_count": config.num_hidden_layers,
        f"{architecture}.context_length": config.max_position_embeddings,
        f"{architecture}.embedding_length": config.hidden_size,
        f"{architecture}.feed_forward_length": config.intermediate_size,
        f"{architecture}.attention.head_count": config.num_attention_heads,
        f"{architecture}.attention.head_count_kv": config.num_key_value_heads,
        f"{architecture}.attention.key_length": 16,
        f"{architecture}.attention.layer_norm_rms_epsilon": config.rms_norm_eps,
        f"{architecture}.rope.freq_base": 5000.0,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3] * len(SPECIAL) + [1] * (len(tokens) - len(SPECIAL)),
        "tokenizer.ggml.merges": ["Ġ a", "a b"],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.padding_token_id": 2,
        "tokenizer.chat_template": TEMPLATE,
    } | (fields or {})
    for name, value in told.items():
        if value is None:
            continue
        if isinstance(value, list):
            writer.add_array(name, value)
        elif isinstance(value, str):
            writer.add_string(name, value)
        elif isinstance(value, float):
            writer.add_float32(name, value)
        else:
            writer.add_uint32(name, value)
    for name, parameter in model.named_parameters():
        weight = parameter.detach().numpy()
        stem, _, kind = name.rpartition(".")
        if architecture == "llama" and (".q_proj." in name or ".k_proj." in name):
            heads = config.num_attention_heads if ".q_proj." in name else config.num_key_value_heads
            weight = weight.reshape(heads, 2, weight.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(weight.shape)
        named = f"{names.get_name(stem)}.{kind}"
        if named == leave:
            continue
        if weight.ndim == 2 and quantisation != "F32":
            kept = gguf.GGMLQuantizationType[quantisation]
            writer.add_tensor(named, quantize(np.ascontiguousarray(weight), kept), raw_dtype=kept)
        else:
            writer.add_tensor(named, np.ascontiguousarray(weight))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def plain_logits(path: Path, tokens: list[int]) -> np.ndarray:
    """Logits (T, vocabulary) of a GGUF file in llama's architecture, computed in float64 from the file's own order."""
    reader = gguf.GGUFReader(path)
    fields = {name.removeprefix("llama."): field.contents() for name, field in reader.fields.items()}
    weights = {t.name: dequantize(t.data, t.tensor_type).astype(np.float64) for t in reader.tensors}
    heads, kept = fields["attention.head_count"], fields["attention.head_count_kv"]
    eps, base = fields["attention.layer_norm_rms_epsilon"], fields["rope.freq_base"]

    def norm(x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weights[name]

    def rotated(x):  # (T, heads, size), neighbours rotate together
        size = x.shape[-1]
        angle = np.arange(len(x))[:, None] * base ** (-np.arange(0, size, 2) / size)
        pairs = (x[..., ::2] + 1j * x[..., 1::2]) * np.exp(1j * angle)[:, None]
        return np.stack([pairs.real, pairs.imag], -1).reshape(x.shape)

    state = weights["token_embd.weight"][tokens]
    length = len(tokens)
    for layer in range(fields["block_count"]):
        at = f"blk.{layer}."
        x = norm(state, at + "attn_norm.weight")
        q, k, v = (x @ weights[f"{at}attn_{part}.weight"].T for part in "qkv")
        q, k, v = (
            rotated(q.reshape(length, heads, -1)),
            rotated(k.reshape(length, kept, -1)),
            v.reshape(length, kept, -1),
        )
        k, v = (np.repeat(part, heads // kept, axis=1) for part in (k, v))
        scores = np.einsum("thd,shd->hts", q, k) / np.sqrt(q.shape[-1])
        scores[:, np.triu(np.ones((length, length), bool), 1)] = -np.inf
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        state = state + np.einsum("hts,shd->thd", shares, v).reshape(length, -1) @ weights[at + "attn_output.weight"].T
        x = norm(state, at + "ffn_norm.weight")
        gate, up = (x @ weights[f"{at}ffn_{part}.weight"].T for part in ("gate", "up"))
        state = state + (gate / (1.0 + np.exp(-gate)) * up) @ weights[at + "ffn_down.weight"].T
    head = weights.get("output.weight", weights["token_embd.weight"])
    return norm(state, "output_norm.weight") @ head.T
