"""Groups of processes, as a process sees them."""

import subprocess
import sys

LEARN_AND_LEAVE = """
import os
import torch
from gaitway.training import processes

with processes.group(True):
    weights = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.Adam([weights])
    weights.sum().backward()
    torch.distributed.all_reduce(weights.grad)
    optimizer.step()
for task in os.listdir("/proc/self/task"):
    print(open(f"/proc/self/task/{task}/comm").read().strip())
"""


def test_no_thread_of_a_group_outlives_it():
    """One that does may abort the interpreter at its end: "terminate called without an active exception"."""
    alone = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", LEARN_AND_LEAVE], capture_output=True, text=True, env=alone)
    assert done.returncode == 0, done.stderr
    assert "gloo" not in done.stdout, done.stdout


LEAVE = """
import atexit
import torch.distributed as dist
from gaitway.training import processes
from torch.distributed.device_mesh import init_device_mesh

processes.leave(5)  # was in no group: nothing happens
atexit.register(print, "cleaned up")
with processes.group(True):
    kept = init_device_mesh("cpu", (1,))
    again = dist.new_group([0])
print("learnt")
processes.leave(3)
print("still there")
"""


def test_a_process_that_leaves_cleans_up_and_has_its_exit_code_whatever_keeps_a_group():
    alone = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", LEAVE], capture_output=True, text=True, env=alone)
    assert done.returncode == 3, done.stderr
    assert done.stdout == "learnt\ncleaned up\n"
