"""Bundles: what export writes."""
