"""A bundle run in MuJoCo in step with its controller."""
