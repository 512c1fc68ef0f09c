"""How a policy leaves simulation: export, validate, twin and the on-board half. Importing this imports no torch."""
