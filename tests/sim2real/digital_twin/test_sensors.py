import numpy as np
import pytest
from gaitway_onboard.rotation import quat_from_rotvec, quat_mul
from gaitway_sim2real.digital_twin.sensors import rotated


@pytest.mark.parametrize("size", [0.0, 1e-9, 1e-3, 1.0, 6.0])
def test_an_imu_is_turned_as_rotations_are(size):
    """In plain numbers, which are computed otherwise than arrays."""
    random = np.random.default_rng(0)
    for _ in range(20):
        quat, angles = random.standard_normal(4), size * random.standard_normal(3)
        quat /= np.linalg.norm(quat)
        expected = quat_mul(quat, quat_from_rotvec(angles))
        np.testing.assert_allclose(rotated(quat, angles), expected, rtol=0.0, atol=1e-15)
