"""New weights for an unmodified vLLM server by HTTP: the backend "gaitway" of vLLM's own weight transfer.

vLLM finds :func:`register` by its entry point, wherever Gaitway is installed beside it:

    VLLM_SERVER_DEV_MODE=1 vllm serve MODEL --weight-transfer-config '{"backend": "gaitway"}' ...

vLLM's own backends need a GPU of their own on either side. This one needs none, and the server reaches no trainer.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

BACKEND = "gaitway"


def register() -> None:
    """Tell vLLM of the backend, and keep its CPU build from packing weights away from it."""
    try:
        from vllm.config import get_current_vllm_config_or_none
        from vllm.distributed.weight_transfer import WeightTransferEngineFactory
        from vllm.model_executor.layers import utils

        engine = backend()
    except ImportError:  # an older vLLM goes on without it, and trainings refuse that by its version
        return

    from .vllm import _unpacked

    WeightTransferEngineFactory.register_engine(BACKEND, engine)
    packed = utils.dispatch_cpu_unquantized_gemm

    def dispatch(layer: Any, remove_weight: bool) -> None:
        """Of tied embeddings the packed copy would stay behind, whichever backend brings new ones."""
        config = get_current_vllm_config_or_none()
        learns = config is not None and config.weight_transfer_config is not None
        (_unpacked if learns else packed)(layer, remove_weight)

    utils.dispatch_cpu_unquantized_gemm = dispatch


def backend() -> type:
    """The class of the backend: vLLM's own for NCCL, but that weights are in the request, as a safetensors file."""
    from safetensors.torch import load
    from vllm.distributed.weight_transfer import base
    from vllm.distributed.weight_transfer.nccl_engine import NCCLWeightTransferEngine

    @dataclass
    class Nothing(base.WeightTransferInitInfo):
        pass

    @dataclass
    class Weights(base.WeightTransferUpdateInfo):
        safetensors: str
        """The file in base64."""

    class GaitwayWeightTransferEngine(NCCLWeightTransferEngine):
        init_info_cls, update_info_cls = Nothing, Weights

        def init_transfer_engine(self, init_info: Nothing) -> None:
            """Meet nobody."""

        def update_weights(self, update_info: dict[str, Any]) -> None:
            weights = load(base64.b64decode(self.parse_update_info(update_info).safetensors))
            self.model.load_weights((name, tensor.to(self.device)) for name, tensor in weights.items())

    return GaitwayWeightTransferEngine
