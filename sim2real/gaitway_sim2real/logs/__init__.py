"""Logs of other programs as flights: npz, CSV and rosbag2."""
