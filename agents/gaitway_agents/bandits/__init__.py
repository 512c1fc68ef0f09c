"""Multi-armed bandits."""
