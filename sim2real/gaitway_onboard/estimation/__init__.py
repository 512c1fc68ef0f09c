"""Estimation of quantities that no sensor measures, from those that sensors do."""
