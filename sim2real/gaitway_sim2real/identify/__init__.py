"""System identification: what a robot's drives and joints really do, from flights of the robot on a stand."""
