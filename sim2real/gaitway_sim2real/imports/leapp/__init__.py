"""LEAPP packages, the form in which Isaac Lab 3.0 exports policies: read as bundles.

Nothing here is imported by the on-board half; a robot runs the bundle.
"""
