"""Policies trained in Isaac Lab on its own tasks, as bundles: reads what Isaac Lab and rsl_rl leave in a run folder."""
