// Drawing of a MuJoCo model by three.js: its geoms of groups 0 to 2 over a checkered floor, a camera that follows from behind.

const PLANE = 0, SPHERE = 2, CAPSULE = 3, ELLIPSOID = 4, CYLINDER = 5, BOX = 6; // mjtGeom
const PUSH_SHOWN_S = 0.7, BESIDE = 0.5; // [m] from the base's centre to the arrow's end

export class Stage {
  constructor(three, canvas, robot) {
    Object.assign(this, { three, canvas, robot, azimuth: Math.PI + 0.5, elevation: 0.3, distance: 2.6, heading: 0 });
    this.renderer = new three.WebGLRenderer({ canvas, antialias: true });
    this.renderer.shadowMap.enabled = true;
    this.scene = new three.Scene();
    this.camera = new three.PerspectiveCamera(42, 1, 0.05, 60);
    this.camera.up.set(0, 0, 1);
    this.focus = new three.Vector3(0, 0, 0.45);
    this.scene.add(new three.HemisphereLight(0xffffff, 0x8a929a, 1.9));
    this.sun = new three.DirectionalLight(0xffffff, 2.2);
    this.sun.castShadow = true;
    this.sun.shadow.mapSize.set(1024, 1024);
    Object.assign(this.sun.shadow.camera, { left: -1.5, right: 1.5, top: 1.5, bottom: -1.5, near: 0.5, far: 12 });
    this.scene.add(this.sun, this.sun.target);
    this.floor = this.#checkers();
    this.scene.add(this.floor);
    this.shapes = this.#shapes();
    this.arrow = this.#arrow();
    this.scene.add(this.arrow);
    this.#steerCamera();
  }

  // Light or dark surroundings.
  theme(dark) {
    const sky = new this.three.Color(dark ? 0x20242c : 0xdfe4e8);
    this.scene.background = sky;
    this.scene.fog = new this.three.Fog(sky, 6, 22);
    this.floor.material.color.set(dark ? 0x6b7280 : 0xffffff);
  }

  // Show a push by a velocity [m/s] in the world's plane: an arrow that ends at the robot, for a moment.
  pushed(velocity) {
    this.push = { velocity, time: this.robot.time };
  }

  #drawPush(x, y, z) {
    const since = this.robot.time - (this.push?.time ?? Infinity); // negative when it started again
    this.arrow.visible = since >= 0 && since < PUSH_SHOWN_S;
    if (!this.arrow.visible) return;
    const [along, across] = this.push.velocity, speed = Math.hypot(along, across), away = 1 + BESIDE / speed;
    this.arrow.position.set(x - away * along, y - away * across, z);
    this.arrow.rotation.z = Math.atan2(across, along);
    this.arrow.scale.x = speed;
  }

  // An arrow along x, from 0 to 1.
  #arrow() {
    const { three } = this, material = new three.MeshStandardMaterial({ color: 0xf08214 }), arrow = new three.Group();
    const shaft = new three.CylinderGeometry(0.03, 0.03, 0.8, 16).translate(0, 0.4, 0);
    const head = new three.ConeGeometry(0.08, 0.2, 20).translate(0, 0.9, 0);
    for (const part of [shaft, head]) arrow.add(new three.Mesh(part.rotateZ(-Math.PI / 2), material));
    return arrow;
  }

  draw() {
    const { data, told } = this.robot, { width, height } = this.canvas.getBoundingClientRect();
    const size = this.renderer.getSize(new this.three.Vector2());
    if (size.x !== Math.round(width) || size.y !== Math.round(height)) {
      this.renderer.setPixelRatio(Math.min(devicePixelRatio, 2));
      this.renderer.setSize(Math.round(width), Math.round(height), false);
      this.camera.aspect = width / height;
      this.camera.updateProjectionMatrix();
    }
    const places = data.geom_xpos, turns = data.geom_xmat;
    for (const { geom, mesh } of this.shapes) {
      const r = turns.subarray(9 * geom, 9 * geom + 9), p = places.subarray(3 * geom, 3 * geom + 3);
      mesh.matrix.set(r[0], r[1], r[2], p[0], r[3], r[4], r[5], p[1], r[6], r[7], r[8], p[2], 0, 0, 0, 1);
    }
    const [x, y, z, qw, qx, qy, qz] = data.qpos.slice(told.base_qpos, told.base_qpos + 7);
    const turned = Math.atan2(2 * (qw * qz + qx * qy), 1 - 2 * (qy * qy + qz * qz)) - this.heading;
    this.heading += 0.04 * Math.atan2(Math.sin(turned), Math.cos(turned)); // the camera comes after
    const azimuth = this.azimuth + this.heading;
    this.#drawPush(x, y, z);
    this.focus.set(x, y, 0.42);
    const flat = this.distance * Math.cos(this.elevation);
    this.camera.position.set(
      x + flat * Math.cos(azimuth), y + flat * Math.sin(azimuth),
      0.42 + this.distance * Math.sin(this.elevation),
    );
    this.camera.lookAt(this.focus);
    this.sun.target.position.copy(this.focus);
    this.sun.position.set(x - 1.5, y - 2, 4);
    this.floor.position.set(2 * Math.round(x / 2), 2 * Math.round(y / 2), 0); // follows by whole checkers
    this.renderer.render(this.scene, this.camera);
  }

  #shapes() {
    const { three, robot: { model } } = this, found = [];
    const [types, sizes, colors, groups] = [model.geom_type, model.geom_size, model.geom_rgba, model.geom_group];
    for (let geom = 0; geom < model.ngeom; geom++) {
      const [a, b, c] = sizes.subarray(3 * geom, 3 * geom + 3), type = types[geom];
      if (groups[geom] > 2 || type === PLANE) continue;
      let shape;
      if (type === SPHERE) shape = new three.SphereGeometry(a, 24, 16);
      else if (type === CAPSULE) shape = new three.CapsuleGeometry(a, 2 * b, 8, 20).rotateX(Math.PI / 2);
      else if (type === ELLIPSOID) shape = new three.SphereGeometry(1, 24, 16).scale(a, b, c);
      else if (type === CYLINDER) shape = new three.CylinderGeometry(a, a, 2 * b, 28).rotateX(Math.PI / 2);
      else if (type === BOX) shape = new three.BoxGeometry(2 * a, 2 * b, 2 * c);
      else throw new Error(`geom ${geom} is of type ${type}, which this page cannot draw`);
      const [red, green, blue] = colors.subarray(4 * geom, 4 * geom + 3);
      const color = new three.Color().setRGB(red, green, blue, three.SRGBColorSpace);
      const mesh = new three.Mesh(shape, new three.MeshStandardMaterial({ color, roughness: 0.55, metalness: 0.15 }));
      mesh.matrixAutoUpdate = false;
      mesh.castShadow = mesh.receiveShadow = true;
      this.scene.add(mesh);
      found.push({ geom, mesh });
    }
    return found;
  }

  #checkers() {
    const { three } = this, picture = document.createElement("canvas");
    picture.width = picture.height = 256;
    const pen = picture.getContext("2d");
    for (let i = 0; i < 4; i++) {
      pen.fillStyle = (i + (i >> 1)) % 2 ? "#b9bec3" : "#c9cdd1";
      pen.fillRect(128 * (i % 2), 128 * (i >> 1), 128, 128);
    }
    const texture = new three.CanvasTexture(picture);
    texture.colorSpace = three.SRGBColorSpace;
    texture.wrapS = texture.wrapT = three.RepeatWrapping;
    texture.repeat.set(30, 30);
    texture.anisotropy = 8;
    const floor = new three.Mesh(new three.PlaneGeometry(60, 60), new three.MeshStandardMaterial({ map: texture }));
    floor.receiveShadow = true;
    return floor;
  }

  #steerCamera() {
    const { canvas } = this;
    canvas.addEventListener("pointerdown", (event) => canvas.setPointerCapture(event.pointerId));
    canvas.addEventListener("pointermove", (event) => {
      if (!canvas.hasPointerCapture(event.pointerId)) return;
      this.azimuth -= 0.006 * event.movementX;
      this.elevation = Math.min(1.4, Math.max(0.03, this.elevation + 0.006 * event.movementY));
    });
    canvas.addEventListener("wheel", (event) => {
      if (document.activeElement !== canvas) return; // the page scrolls
      event.preventDefault();
      this.distance = Math.min(8, Math.max(1.2, this.distance * Math.exp(0.001 * event.deltaY)));
    }, { passive: false });
  }
}
