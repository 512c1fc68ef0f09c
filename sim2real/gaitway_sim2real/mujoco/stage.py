"""Light, sky and a checkered floor for models that are shown to people. Physics never sees any of it.

No shadow maps: software rendering spends most of its time on them and speckles. A camera may draw a soft blot instead.
"""

from __future__ import annotations

from typing import Any

import mujoco

FRAME = (1920, 1080)  # [pixels], the largest that is rendered offscreen
FLOOR = "stage_floor"


def dress_ground(spec: Any) -> None:
    """Give the geoms of the world the material of the stage, if there is one."""
    if spec.material(FLOOR) is not None:
        for geom in spec.worldbody.geoms:
            geom.material = FLOOR


def set_stage(spec: Any) -> None:
    """Dress a spec and its ground; replaces the file's own lights."""
    for light in list(spec.lights):
        spec.delete(light)
    spec.visual.global_.offwidth, spec.visual.global_.offheight = FRAME
    spec.visual.headlight.ambient, spec.visual.headlight.diffuse = [0.32] * 3, [0.35] * 3
    spec.visual.headlight.specular = [0.1] * 3
    spec.visual.rgba.haze = [0.86, 0.88, 0.90, 1.0]
    spec.visual.map.haze = 0.35
    spec.visual.quality.offsamples = 0  # a camera smooths edges
    spec.visual.quality.numslices, spec.visual.quality.numstacks = 20, 10
    for texture in list(spec.textures):
        if texture.type == mujoco.mjtTexture.mjTEXTURE_SKYBOX:
            spec.delete(texture)
    spec.add_texture(
        name="stage_sky",
        type=mujoco.mjtTexture.mjTEXTURE_SKYBOX,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_GRADIENT,
        rgb1=[0.93, 0.94, 0.95],
        rgb2=[0.72, 0.77, 0.82],
        width=128,
        height=768,
    )
    spec.add_texture(
        name=FLOOR,
        type=mujoco.mjtTexture.mjTEXTURE_2D,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_CHECKER,
        mark=mujoco.mjtMark.mjMARK_EDGE,
        rgb1=[0.78, 0.80, 0.82],
        rgb2=[0.73, 0.75, 0.77],
        markrgb=[0.64, 0.66, 0.68],
        width=512,
        height=512,
    )
    floor = spec.add_material(name=FLOOR, texuniform=True, texrepeat=[1.0, 1.0], specular=0.1, shininess=0.1)
    floor.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = FLOOR
    dress_ground(spec)
    spec.worldbody.add_light(
        name="stage_sun",
        type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL,
        pos=[0.0, 0.0, 6.0],
        dir=[-0.35, 0.3, -0.9],
        diffuse=[0.55, 0.54, 0.52],
        specular=[0.2, 0.2, 0.2],
        castshadow=False,
    )
