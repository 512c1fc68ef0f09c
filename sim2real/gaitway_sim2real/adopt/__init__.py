"""A robot's facts from its file alone: tree, feet, mirrors, standing pose, gains, shapes, and the package with them."""
