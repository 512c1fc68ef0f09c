"""Every event, and the state that terms read: the tests of MuJoCo's world, in MuJoCo Warp."""

from warp_worlds import module_on_warp, shared_tests

globals().update(shared_tests(module_on_warp("extensions/mujoco/test_randomisation.py")))
globals().update(shared_tests(module_on_warp("extensions/mujoco/test_state.py")))
