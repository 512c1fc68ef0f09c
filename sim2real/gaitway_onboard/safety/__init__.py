"""Safety: checks and limits that stop a robot before it is harmed."""
