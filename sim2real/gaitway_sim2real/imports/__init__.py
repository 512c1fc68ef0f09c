"""Policies that others trained, as bundles: one reader a family."""
