"""Bundles on their way between people: pulled from and pushed to folders, file servers and the Hugging Face hub."""
