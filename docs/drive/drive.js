// The page: a button that loads everything, keys and buttons that steer, numbers that say what happens.
import { load } from "./robot.js";

const KEYS = { // by KeyboardEvent.code: which component of the command, and its sign
  KeyW: [0, 1], ArrowUp: [0, 1], KeyS: [0, -1], ArrowDown: [0, -1],
  KeyA: [1, 1], KeyD: [1, -1], KeyQ: [2, 1], ArrowLeft: [2, 1], KeyE: [2, -1], ArrowRight: [2, -1],
};
const SHARE = 0.8; // of the largest command that a key gives
const PUSH = 1.0; // [m/s]
const PAD = [
  ["KeyQ", "↺ turn left (Q, ←)"], ["KeyW", "↑ forward (W, ↑)"], ["KeyE", "↻ turn right (E, →)"],
  ["KeyA", "← left (A)"], ["KeyS", "↓ back (S, ↓)"], ["KeyD", "→ right (D)"],
];

const place = document.getElementById("drive");
const element = (name, props = {}, ...inside) => {
  const made = Object.assign(document.createElement(name), props);
  made.append(...inside);
  return made;
};
const status = element("p", { className: "drive-status", role: "status" });
const canvas = element("canvas", { className: "drive-canvas", hidden: true, tabIndex: 0 });
canvas.setAttribute("role", "img");
canvas.setAttribute("aria-label", "A simulated ANYmal C that follows your commands; drag to look around");
const poster = element("img", { src: "../images/robots/anymal-c.jpg", alt: "ANYmal C, standing", className: "drive-canvas" });
const start = element("button", { className: "md-button md-button--primary", type: "button" }, "Start: loads 28 MB");
const numbers = element("table", { className: "drive-numbers", hidden: true });
const pad = element("div", { className: "drive-pad", hidden: true });
place.append(poster, canvas, status, start, pad, numbers);

const held = new Set();

function command(ranges) {
  const wanted = [0, 0, 0];
  for (const code of held) wanted[KEYS[code][0]] += KEYS[code][1];
  return wanted.map((sign, i) => {
    const [low, high] = ranges[i];
    return Math.min(high, Math.max(low, SHARE * Math.sign(sign) * (sign > 0 ? high : -low)));
  });
}

function steering(robot) {
  addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, textarea") || event.ctrlKey || event.metaKey || event.altKey;
    const scrolls = event.code.startsWith("Arrow") && document.activeElement !== canvas;
    if (!(event.code in KEYS) || typing || scrolls) return;
    event.preventDefault();
    event.stopImmediatePropagation(); // not the site's own keys
    held.add(event.code);
  }, true);
  addEventListener("keyup", (event) => held.delete(event.code), true);
  addEventListener("blur", () => held.clear());
  for (const [code, label] of PAD) {
    const button = element("button", { type: "button", className: "md-button" }, label);
    const release = () => held.delete(code);
    button.addEventListener("pointerdown", (event) => { button.setPointerCapture(event.pointerId); held.add(code); });
    for (const kind of ["pointerup", "pointercancel", "lostpointercapture", "blur"]) button.addEventListener(kind, release);
    button.addEventListener("keydown", (event) => { if (event.code === "Space" || event.code === "Enter") held.add(code); });
    button.addEventListener("keyup", release);
    pad.append(button);
  }
  const other = (label, act) => element("button", { type: "button", className: "md-button", onclick: act }, label);
  pad.append(other("push it", () => robot.push(PUSH)), other("start again", () => robot.reset()));
  pad.hidden = false;
}

function table(robot) {
  const rows = ["forward [m/s]", "left [m/s]", "turn left [rad/s]"].map((name) => {
    const cells = [element("td"), element("td")];
    numbers.append(element("tr", {}, element("th", { scope: "row" }, name), ...cells));
    return cells;
  });
  numbers.prepend(element("tr", {}, ...["", "command", "measured"].map((name) => element("th", { scope: "col" }, name))));
  numbers.hidden = false;
  return (told) => robot.velocity().forEach((value, i) => {
    rows[i][0].textContent = told[i].toFixed(2);
    rows[i][1].textContent = value.toFixed(2);
  });
}

async function bytes(name) {
  const answer = await fetch(new URL(name, import.meta.url));
  if (!answer.ok) throw new Error(`${name}: ${answer.status}`);
  return new Uint8Array(await answer.arrayBuffer());
}

async function run() {
  start.disabled = true;
  status.textContent = "Loading MuJoCo, ONNX Runtime and the policy…";
  const [robot, three, { Stage }] = await Promise.all([
    load(bytes), import("../scripts/three/three.module.js"), import("./stage.js"),
  ]);
  start.remove();
  poster.hidden = true;
  canvas.hidden = false;
  const stage = new Stage(three, canvas, robot), show = table(robot);
  const dark = () => document.body.getAttribute("data-md-color-scheme") === "slate";
  stage.theme(dark());
  new MutationObserver(() => stage.theme(dark())).observe(document.body, { attributeFilter: ["data-md-color-scheme"] });
  steering(robot);
  status.textContent = "Steer with W, A, S, D, Q, E, the arrows or the buttons. Drag to look around, scroll to come closer.";
  canvas.focus({ preventScroll: true });
  let last = performance.now(), owed = 0, shown = 0;
  const next = () => requestAnimationFrame((now) => frame(now).catch(fail));
  const frame = async (now) => {
    owed = Math.min(owed + (now - last) / 1000, 0.1); // a slow machine walks slower
    last = now;
    const told = command(robot.told.command_ranges);
    for (; owed >= robot.told.control_dt; owed -= robot.told.control_dt) await robot.step(told);
    if (robot.fallen()) {
      robot.reset();
      status.textContent = "It fell over and starts again.";
    }
    stage.draw();
    if (now - shown > 150) { show(told); shown = now; }
    next();
  };
  next();
  globalThis.gaitway = robot; // to look at from the console
}

const begin = () => run().catch(fail);

function fail(error) {
  start.remove();
  status.textContent = `It cannot be driven here: ${error.message}. This copy of the site may have been built without the ` +
    "scripts that make site fetches by npm, or the browser has no WebAssembly or WebGL 2.";
}

start.addEventListener("click", begin);
if (location.hash === "#start") begin();
