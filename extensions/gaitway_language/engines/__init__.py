"""Engines: what continues prompts. Each implements :class:`gaitway_agents.interfaces.Engine`."""
