"""Validation of a bundle outside its training world, in plain MuJoCo, by contract and ONNX graph alone."""

from .judging import validate_bundle
from .verdict import Verdict, VerdictError

__all__ = ["Verdict", "VerdictError", "validate_bundle"]
