"""Rough ground: Isaac Lab's generated terrain as data, the grounds that tasks stand on, and those that judge.

``tile`` and ``kinds`` make one tile; ``generator`` lays them out; ``heights`` looks heights up; ``tiles`` is the ground
of a training, on which environments are ``standing``, and ``course`` that of an examination. Torch is imported for a
training alone.
"""

from .course import COURSES, Course, read_ground, write_ground
from .generator import SubTerrain, TerrainGenerator
from .tiles import Tiles

__all__ = ["COURSES", "Course", "SubTerrain", "TerrainGenerator", "Tiles", "read_ground", "write_ground"]
