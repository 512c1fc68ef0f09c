"""Walking: the family of tasks that follow a velocity."""
