"""A policy as it arrives on a robot: contract, graph, verdict and signature."""
