"""Settings of the learners that Isaac Lab's scripts run on Gaitway's tasks. Values are Isaac Lab's for ANYmal C."""
