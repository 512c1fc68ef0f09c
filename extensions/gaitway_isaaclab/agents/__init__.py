"""Settings of the learners that Isaac Lab's scripts run on Gaitway's tasks: Isaac Lab's own for the same robots."""
