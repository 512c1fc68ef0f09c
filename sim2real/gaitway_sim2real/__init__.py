"""Path of a policy from simulation to a robot: export, validate, twin and the on-board half. Imports no torch."""
