"""The classes of agents' settings that a configuration may hold. Imports none of them."""

from __future__ import annotations

from gaitway_agents import registry

from ..config.tree import Kinds

_ROWS = (*registry.ENVIRONMENTS.values(), *registry.TEXTS.values())
AGENT_KINDS = Kinds(*dict.fromkeys(row.config_path() for row in _ROWS))
