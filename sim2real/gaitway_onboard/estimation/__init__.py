"""What no sensor measures, from what sensors do."""
