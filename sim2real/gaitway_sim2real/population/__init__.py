"""Robots that a policy has never seen: copies of its robot that differ from the model as real ones do, and walk."""
