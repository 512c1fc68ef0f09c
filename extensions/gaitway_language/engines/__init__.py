"""Engines: what continues prompts. Each implements :class:`gaitway_language.rollout.Engine`."""
