"""Files of docs/examples/cluster: their form, and the shell lines in them."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from gaitway import cli, launch
from gaitway.runs.folder import RunFolder

from .checks import planned, resolved
from .pages import ROOT

FOLDER = ROOT / "docs/examples/cluster"
SLURM, KUBERNETES, SKYPILOT = (FOLDER / name for name in ("slurm.sbatch", "kubernetes.yaml", "skypilot.yaml"))
RAY_SLURM, KUBERAY = FOLDER / "ray.sbatch", FOLDER / "kuberay.yaml"


def script(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)


def trained(tmp_path: Path, text: str, **environment: str) -> list[str]:
    """Arguments with which the lines ``text`` of bash call ``gaitway``."""
    script(tmp_path, "gaitway", "#!/bin/bash\nprintf '%s\\n' \"$@\"\n")
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = subprocess.run(["bash", "-euc", text], env={"PATH": path, **environment}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def nodes_of(words: list[str]) -> launch.Nodes:
    args = cli.parse(words)
    resolved(args)
    launch.check_options(args)
    nodes = launch.Nodes(
        gpus=args.gpus, cpus=args.cpus, nodes=args.nodes, node_rank=args.node_rank, endpoint=args.endpoint
    )
    nodes.check()
    assert args.resume and args.out
    return nodes


def test_kubernetes_has_a_service_and_an_indexed_job_of_as_many_pods_as_nodes(tmp_path):
    service, job = yaml.safe_load_all(KUBERNETES.read_text())
    assert (service["apiVersion"], service["kind"], service["spec"]["clusterIP"]) == ("v1", "Service", "None")
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "Job")
    spec, name = job["spec"], job["metadata"]["name"]
    pod = spec["template"]["spec"]
    assert spec["completionMode"] == "Indexed" and spec["completions"] == spec["parallelism"]
    assert service["spec"]["selector"] == {"job-name": name}
    assert pod["subdomain"] == service["metadata"]["name"] and pod["restartPolicy"] == "Never"
    (container,) = pod["containers"]
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    assert container["command"] == ["bash", "-c"] and container["image"]
    for rank in range(spec["completions"]):
        found = nodes_of(trained(tmp_path, container["args"][0], JOB_COMPLETION_INDEX=str(rank)))
        assert (found.nodes, found.node_rank, found.gpus) == (spec["completions"], rank, "all")
        assert found.endpoint == f"{name}-0.{pod['subdomain']}:29500"  # the name of the first pod


def test_skypilot_starts_every_node_with_its_number(tmp_path):
    task: dict[str, Any] = yaml.safe_load(SKYPILOT.read_text())
    assert set(task) <= {"name", "num_nodes", "resources", "file_mounts", "setup", "run", "envs", "workdir"}
    assert task["resources"]["accelerators"] and task["file_mounts"]["/runs"]["mode"] == "MOUNT"
    for rank in range(task["num_nodes"]):
        found = nodes_of(
            trained(
                tmp_path,
                task["run"],
                SKYPILOT_NODE_IPS="10.0.0.5\n10.0.0.6",
                SKYPILOT_NUM_NODES=str(task["num_nodes"]),
                SKYPILOT_NODE_RANK=str(rank),
            )
        )
        assert found == launch.Nodes(gpus="all", cpus=None, nodes=2, node_rank=rank, endpoint="10.0.0.5:29500")


def test_kuberay_sweeps_on_the_cluster_that_it_makes(tmp_path):
    job: dict[str, Any] = yaml.safe_load(KUBERAY.read_text())
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    spec = job["spec"]
    groups = [spec["rayClusterSpec"]["headGroupSpec"], *spec["rayClusterSpec"]["workerGroupSpecs"]]
    folders = set()
    for group in groups:
        (container,) = group["template"]["spec"]["containers"]
        (mount,), (volume,) = container["volumeMounts"], group["template"]["spec"]["volumes"]
        assert mount["name"] == volume["name"] and container["image"] == "gaitway:ray"
        folders.add((volume["persistentVolumeClaim"]["claimName"], mount["mountPath"]))
    assert len(folders) == 1, "all pods see one folder"
    args = cli.parse(trained(tmp_path, spec["entrypoint"], RAY_ADDRESS="10.0.0.7:6379"))
    planned(args)
    assert args.command == "sweep" and args.ray == "10.0.0.7:6379"
    assert args.out.is_relative_to(next(iter(folders))[1])


@pytest.mark.parametrize(("file", "warned"), [(SLURM, "USR1@120"), (RAY_SLURM, "B:USR1@120")], ids=["torchrun", "ray"])
def test_slurm_is_told_what_the_training_needs(file, warned):
    subprocess.run(["bash", "-n", str(file)], check=True)
    told = [shlex.split(line)[1] for line in file.read_text().splitlines() if line.startswith("#SBATCH")]
    assert {"--requeue", f"--signal={warned}", "--ntasks-per-node=1", "--open-mode=append"} <= set(told)
    assert all(line.startswith("--") for line in told)


SRUN = """#!/bin/bash
# A task for each node, as srun starts them: its exit code is the highest of theirs.
code=0
for node in $(seq 0 $((SLURM_NNODES - 1))); do
    SLURM_NODEID=$node "$@" & pids="$pids $!"
done
echo $pids > "$TASKS.new" && mv "$TASKS.new" "$TASKS"
for pid in $pids; do wait "$pid"; each=$?; [ "$each" -gt "$code" ] && code=$each; done
exit "$code"
"""
SCONTROL = """#!/bin/bash
case $1 in
    show) printf 'localhost\\nlocalhost\\n' ;;
    requeue) echo "$2" >> "$REQUEUED" ;;
esac
"""


@pytest.mark.slow
@pytest.mark.hostile("durability")
def test_a_slurm_job_trains_on_its_nodes_and_requeues_itself_when_it_is_warned(tmp_path):
    """With srun and scontrol replaced by scripts: both nodes are this machine."""
    run, tasks, requeued = (tmp_path / name for name in ("run", "tasks", "requeued"))
    script(tmp_path, "srun", SRUN)
    script(tmp_path, "scontrol", SCONTROL)
    script(tmp_path, "gaitway", f'#!/bin/bash\nexec {shlex.quote(sys.executable)} -m gaitway "$@"\n')
    small = "num_envs=8 num_threads=1 agent.num_steps=4 evaluation_episodes=0 checkpoint_interval=1 --quiet"
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        **{"SLURM_NNODES": "2", "SLURM_JOB_NODELIST": "node[0-1]", "SLURM_JOB_ID": str(os.getpid())},
        **{"TASKS": str(tasks), "REQUEUED": str(requeued), "RUN": str(run), "EACH": "--cpus 1"},
    }

    def job(total: str) -> subprocess.Popen[str]:
        more = {"MORE": f"{small} total_steps={total}"}
        return subprocess.Popen(
            ["bash", str(SLURM)], env=environment | more, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    first = job("1e8")
    try:
        deadline = time.monotonic() + 240
        while not list(run.glob("checkpoints/step_*.pt")) and first.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        for pid in tasks.read_text().split():
            os.kill(int(pid), signal.SIGUSR1)
        said, wrong = first.communicate(timeout=120)
    finally:
        first.kill()
    assert first.returncode == 138, wrong
    assert "interrupted by SIGUSR1" in said and requeued.read_text().split() == [str(os.getpid())]
    steps = RunFolder.open(run).record["steps"]
    second = job(str(steps + 64))
    try:
        said, wrong = second.communicate(timeout=240)
    finally:
        second.kill()
    assert second.returncode == 0, wrong
    assert f"finished: {steps + 64:,} steps" in said and len(requeued.read_text().split()) == 1


RAY = """#!/bin/bash
# ray symmetric-run, as it is on the head of two nodes: the rest of it is the other node's.
[ "$SLURM_NODEID" = 0 ] || exit 0
[ "$1 $2 $4 $5 $6 $7" = "symmetric-run --address --min-nodes 2 --num-cpus 3" ] && [ "$8" = -- ] || exit 7
shift 8
"$@"
"""
SWEEP = """#!/bin/bash
printf '%s\\n' "$@" > "$WORDS.new" && mv "$WORDS.new" "$WORDS"
trap 'exit 138' USR1
while [ ! -e "$DONE" ]; do sleep 0.05; done
"""


@pytest.mark.parametrize("warned", [False, True])
def test_a_slurm_job_sweeps_on_its_nodes_and_requeues_itself_when_it_is_warned(tmp_path, warned):
    """With srun, scontrol, ray and gaitway replaced by scripts."""
    names = {"srun": SRUN, "scontrol": SCONTROL, "ray": RAY, "gaitway": SWEEP}
    for name, text in names.items():
        script(tmp_path, name, text)
    tasks, requeued, words, done = (tmp_path / name for name in ("tasks", "requeued", "words", "done"))
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        **{"SLURM_NNODES": "2", "SLURM_JOB_NODELIST": "node[0-1]", "SLURM_JOB_ID": "12345", "SLURM_CPUS_PER_TASK": "3"},
        **{"TASKS": str(tasks), "REQUEUED": str(requeued), "WORDS": str(words), "DONE": str(done)},
        **{"OUT": str(tmp_path / "sweep"), "TMPDIR": str(tmp_path)},
    }
    job = subprocess.Popen(["bash", str(RAY_SLURM)], env=environment, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 60
        while not words.exists() and job.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        if warned:
            job.send_signal(signal.SIGUSR1)
        else:
            done.touch()
        _, wrong = job.communicate(timeout=60)
    finally:
        done.touch()
        job.kill()
    assert job.returncode == (138 if warned else 0), wrong
    assert requeued.exists() == warned and not list(tmp_path.glob("tmp.*"))
    args = cli.parse(words.read_text().split("\n")[:-1])
    planned(args)
    assert (args.command, args.ray, args.out) == ("sweep", "localhost:22345", tmp_path / "sweep")
