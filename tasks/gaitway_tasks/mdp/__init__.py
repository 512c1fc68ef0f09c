"""Term library. Names and formulas are Isaac Lab's (``isaaclab.envs.mdp`` and ``isaaclab_tasks...velocity.mdp``)."""
