"""Isaac Lab 3.0's ray caster and its depth camera, each row of which belongs to the environment of that number.

On PhysX without Isaac Sim (``ovphysx``) 3.0.0 finds the bodies of a ray caster by a pattern, and their rows come in the
order of text: env_0, env_1, env_10, ... From eleven environments on a robot would see the ground of another one.
"""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Sequence
from typing import Any

from .compat import IsaacLabError

ENV = re.compile(r"/env_(\d+)(?:/|$)")
log = logging.getLogger(__name__)


def ray_caster(cfg: Any) -> Any:
    """The ray caster of the engine that runs, for ``cfg`` (``RayCasterCfg``); a ``class_type`` of configurations."""
    from isaaclab.sensors import RayCaster

    return _mended(RayCaster, cfg)


def ray_caster_camera(cfg: Any) -> Any:
    """The depth camera of the engine that runs, for ``cfg`` (``RayCasterCameraCfg``); a ``class_type`` as well."""
    from isaaclab.sensors import RayCasterCamera

    return _mended(RayCasterCamera, cfg)


def _mended(factory: Any, cfg: Any) -> Any:
    kind = factory.resolve_class(cfg)
    return (_in_order(kind) if kind.__module__.startswith("isaaclab_ov.") else kind)(cfg)


def environments(paths: Sequence[str]) -> list[int]:
    """Numbers of the environments that bodies at ``paths`` belong to; refuses a body outside of all."""
    found = [ENV.search(path) for path in paths]
    if not all(found):
        outside = next(path for path, match in zip(paths, found, strict=True) if match is None)
        raise IsaacLabError(f"ray caster: its body {outside} is in no environment; use --physics newton")
    return [int(match[1]) for match in found if match]


@functools.cache
def _in_order(kind: Any) -> Any:
    class RayCaster(kind):
        _ovphysx_body_view: Any

        def _initialize_pose_tracking(self) -> None:
            super()._initialize_pose_tracking()
            bound = self._ovphysx_body_view
            if bound is None:
                return
            paths = list(bound.prim_paths)
            numbers = environments(paths)
            if numbers == sorted(numbers):
                return
            ordered = [path for _, path in sorted(zip(numbers, paths, strict=True))]
            self._ovphysx_body_view = _bind(ordered)
            bound.destroy()
            if list(self._ovphysx_body_view.prim_paths) != ordered:
                raise IsaacLabError(
                    "ray caster: Isaac Lab gives its rows in another order than the environments, and does not take "
                    "the right one: use --physics newton"
                )
            _say()

    return RayCaster


def _bind(paths: list[str]) -> Any:
    """Poses of the bodies at ``paths``, a row each."""
    from isaaclab_ov import tensor_types
    from isaaclab_ov.physics import OvPhysxManager

    return OvPhysxManager.get_physx_instance().create_tensor_binding(
        prim_paths=paths, tensor_type=tensor_types.RIGID_BODY_POSE
    )


@functools.cache
def _say() -> None:
    """Once a process."""
    log.warning("height scans and depth images: Isaac Lab had them in the order env_0, env_1, env_10: mended")
