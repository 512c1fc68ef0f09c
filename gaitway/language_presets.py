"""Recipes: how tiny models learn the tasks that they are made for, found by experiment."""

from __future__ import annotations

from typing import Any

RECIPES: dict[tuple[str, str], dict[str, Any]] = {}
"""Fields of :class:`gaitway.config.TrainConfig` by task and agent: ``agent``, ``language``, ``total_steps``, ..."""
