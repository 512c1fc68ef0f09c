"""Agents: one PPO-family core for joint targets, game buttons and language tokens."""
