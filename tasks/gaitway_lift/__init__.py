"""Lifting: the family of tasks in which an arm grasps an object and brings it to places."""
