"""What stops a robot before it is harmed."""
