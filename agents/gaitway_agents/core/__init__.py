"""The learning core: advantages, objectives, batches and the policy optimiser. Knows no environment."""
