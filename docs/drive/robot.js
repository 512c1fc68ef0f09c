// A bundle in MuJoCo, without a page: sensors -> policy.onnx -> joint targets -> physics.
// Arrays are in the order of the contract's joint_names; numbers are SI units and radians, quaternions w, x, y, z.

export class Robot {
  // told is robot.json; session is an ort.InferenceSession of policy.onnx; xml is robot.xml.
  constructor(mujoco, ort, session, told, xml) {
    Object.assign(this, { mujoco, ort, session, told });
    this.model = mujoco.MjModel.from_xml_string(xml);
    this.data = new mujoco.MjData(this.model);
    this.reset();
  }

  reset() {
    const { told, data } = this;
    this.mujoco.mj_resetData(this.model, data);
    data.qpos.set([0, 0, told.start_height, 1, 0, 0, 0], told.base_qpos);
    told.joint_qpos.forEach((at, joint) => { data.qpos[at] = told.default_joint_pos[joint]; });
    this.mujoco.mj_forward(this.model, data);
    this.state = new Float32Array(told.state_dim); // zeros: just reset
    this.time = 0;
  }

  quaternion() {
    return this.data.qpos.slice(this.told.base_qpos + 3, this.told.base_qpos + 7);
  }

  // One control step. command is [vx, vy, yaw rate] in the base frame.
  async step(command) {
    const { told, data, ort } = this;
    const { qpos, qvel } = data;
    const signal = (values) => new ort.Tensor("float32", Float32Array.from(values), [1, values.length]);
    const outputs = await this.session.run({
      joint_pos: signal(told.joint_qpos.map((at) => qpos[at])),
      joint_vel: signal(told.joint_dof.map((at) => qvel[at])),
      imu_quat_wxyz: signal(this.quaternion()),
      gyro: signal(qvel.slice(told.base_dof + 3, told.base_dof + 6)), // MuJoCo has it in the base frame
      command: signal(command),
      state: signal(this.state),
    });
    this.state = outputs.next_state.data;
    data.ctrl.set(outputs.joint_pos_target.data); // actuators are in the order of joint_names
    for (let i = 0; i < told.steps; i++) this.mujoco.mj_step(this.model, data);
    this.time += told.control_dt;
  }

  // Velocity in the base frame: forward, left [m/s], yaw rate [rad/s].
  velocity() {
    const { qvel } = this.data, at = this.told.base_dof;
    const [w, x, y, z] = this.quaternion(), [vx, vy, vz] = qvel.slice(at, at + 3);
    return [
      (1 - 2 * (y * y + z * z)) * vx + 2 * (x * y + w * z) * vy + 2 * (x * z - w * y) * vz,
      2 * (x * y - w * z) * vx + (1 - 2 * (x * x + z * z)) * vy + 2 * (y * z + w * x) * vz,
      qvel[at + 5],
    ];
  }

  // Add to the velocity of the base [m/s], forward and to its left; returns what was added, in the world's plane.
  push(forward, left) {
    const [w, x, y, z] = this.quaternion(), { qvel } = this.data, at = this.told.base_dof;
    const heading = Math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z)), cos = Math.cos(heading), sin = Math.sin(heading);
    const added = [cos * forward - sin * left, sin * forward + cos * left];
    added.forEach((speed, axis) => { qvel[at + axis] += speed; });
    return added;
  }

  // Whether its back points too far from up, or it lies.
  fallen() {
    const [, x, y] = this.quaternion();
    return 1 - 2 * (x * x + y * y) < 0.3 || this.data.qpos[this.told.base_qpos + 2] < 0.4 * this.told.start_height;
  }
}

// Load scripts of others and the bundle. bytes reads a file, named from this folder, as a Uint8Array.
export async function load(bytes) {
  const scripts = new URL("../scripts/", import.meta.url), text = new TextDecoder();
  const [{ default: loadMujoco }, ort, compute, xml, told, policy] = await Promise.all([
    import(new URL("mujoco/mujoco.js", scripts)),
    import(new URL("onnxruntime/ort.mjs", scripts)),
    ...["../scripts/onnxruntime/ort-wasm-simd-threaded.wasm", "robot.xml", "robot.json", "policy.onnx"].map(bytes),
  ]);
  ort.env.wasm.numThreads = 1; // more would need headers that few servers send
  ort.env.wasm.wasmBinary = compute;
  const [mujoco, session] = await Promise.all([
    loadMujoco(), ort.InferenceSession.create(policy, { executionProviders: ["wasm"] }),
  ]);
  return new Robot(mujoco, ort, session, JSON.parse(text.decode(told)), text.decode(xml));
}
