"""Vector environments in the shape that agents take."""
