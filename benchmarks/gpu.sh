#!/usr/bin/env bash
# What ten minutes of one NVIDIA GPU tell about MuJoCo Warp's world, the most valuable first:
#
#     pip install -e '.[train,mujoco,warp]' pytest && benchmarks/gpu.sh [FOLDER]
#
# 1. the tests of this world on the GPU; 2. the speed of training with 1024 to 16384 robots; 3. a training of ANYmal C
# until its examination. Each part is a file in FOLDER (runs/gpu); called again, the script goes on with what is missing.
set -uo pipefail
cd "$(dirname "$0")/.."
OUT=${1:-runs/gpu}
TASK=velocity-flat-anymal-c-blind
mkdir -p "$OUT"
export WARP_CACHE_PATH=${WARP_CACHE_PATH:-$OUT/kernels}

part() {  # NAME SECONDS COMMAND...
    local name=$1 seconds=$2
    shift 2
    if [ -e "$OUT/$name.done" ]; then
        echo "== $name: done before, see $OUT/$name.log"
        return
    fi
    echo "== $name"
    timeout "$seconds" "$@" >"$OUT/$name.log" 2>&1 && touch "$OUT/$name.done" || echo "   not finished, exit code $?"
    tail -n 4 "$OUT/$name.log"
}

nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv | tee "$OUT/gpu.csv"
part tests 240 env GAITWAY_WARP_DEVICE=cuda:0 python -m pytest -q tests/peers/warp/test_warp_world.py -k "not every_robot"
for envs in 4096 16384 1024 8192; do
    rm -rf "$OUT/speed-$envs"
    part "speed-$envs" 60 python -m gaitway train $TASK --preset cpu --world mujoco-warp num_envs=$envs \
        total_steps=$((envs * 24 * 20)) agent.num_steps=24 evaluation_episodes=0 --out "$OUT/speed-$envs"
done
part walk 300 python -m gaitway train $TASK --preset cpu --world mujoco-warp num_envs=4096 agent.num_steps=24 --until good \
    --out "$OUT/walk" --resume
