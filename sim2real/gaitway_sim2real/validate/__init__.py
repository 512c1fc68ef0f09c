"""Does a bundle walk outside its training world? Plain MuJoCo, the contract and the ONNX graph; no task, no torch."""

from .suite import validate_bundle
from .verdict import Verdict, VerdictError

__all__ = ["Verdict", "VerdictError", "validate_bundle"]
