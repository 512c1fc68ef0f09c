"""Robots, terms and task specifications. Imports only torch and numpy, and torch only on use."""
