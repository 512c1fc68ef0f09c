"""Agents whose decisions are tokens, and which know text only as tensors. Each builds a ``Batch`` for the core."""
