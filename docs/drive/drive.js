// The page: a button that loads everything, keys and buttons that steer, numbers that say what happens.
import { commandOf, Controls, make as element, PUSH_WAY, recordButton } from "./controls.js";
import { load } from "./robot.js";

const PUSH = 1.0; // [m/s]
const PUSHES = { ahead: [1, 0], back: [-1, 0], left: [0, 1], right: [0, -1] }; // forward and left
const PAD = [
  ["KeyQ", "↺ turn left (Q, ←)"], ["KeyW", "↑ forward (W, ↑)"], ["KeyE", "↻ turn right (E, →)"],
  ["KeyA", "← left (A)"], ["KeyS", "↓ back (S, ↓)"], ["KeyD", "→ right (D)"],
];

const place = document.getElementById("drive");
const status = element("p", { className: "drive-status", role: "status" });
const canvas = element("canvas", { className: "drive-canvas", hidden: true, tabIndex: 0 });
canvas.setAttribute("role", "img");
canvas.setAttribute("aria-label", "A simulated ANYmal C that follows your commands; drag to look around");
const poster = element("img", { src: "../images/robots/anymal-c.jpg", alt: "ANYmal C, standing", className: "drive-canvas" });
const start = element("button", { className: "md-button md-button--primary", type: "button" }, "Start: loads 28 MB");
const numbers = element("table", { className: "drive-numbers", hidden: true });
const pad = element("div", { className: "drive-pad", hidden: true });
const gamepad = element("p", { role: "status" });
const frame = element("div", { className: "drive-frame" }, poster, canvas);
place.append(frame, status, gamepad, start, pad, numbers);

function steering(robot, stage) {
  const ask = (what) => {
    if (what === "again") robot.reset();
    else stage.pushed(robot.push(...PUSHES[what].map((share) => PUSH * share)));
  };
  const controls = new Controls({
    ask,
    told: (text) => { gamepad.textContent = text; },
    // Where the page has the focus, its own keys are left to it.
    keys: (event) => document.activeElement === canvas || !/^(Arrow|Space)/.test(event.code),
  });
  for (const [code, label] of PAD) {
    const button = element("button", { type: "button", className: "md-button" }, label);
    const press = () => controls.held.add(code), release = () => controls.held.delete(code);
    button.addEventListener("pointerdown", (event) => { button.setPointerCapture(event.pointerId); press(); });
    for (const kind of ["pointerup", "pointercancel", "lostpointercapture", "blur"]) button.addEventListener(kind, release);
    button.addEventListener("keydown", (event) => { if (event.code === "Space" || event.code === "Enter") press(); });
    button.addEventListener("keyup", release);
    pad.append(button);
  }
  const other = (label, act) => element("button", { type: "button", className: "md-button", onclick: act }, label);
  const record = recordButton(() => canvas, () => "gaitway-anymal-c");
  record.classList.add("md-button");
  pad.append(other("push it", () => ask(PUSH_WAY)), other("start again", () => ask("again")), record);
  pad.hidden = false;
  frame.append(controls.sticks);
  return controls;
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
  const controls = steering(robot, stage);
  status.textContent = "Steer with W, A, S, D, Q, E, the arrows, a gamepad, the sticks or the buttons. Drag to look around.";
  canvas.focus({ preventScroll: true });
  let last = performance.now(), owed = 0, shown = 0;
  const next = () => requestAnimationFrame((now) => turn(now).catch(fail));
  const turn = async (now) => {
    owed = Math.min(owed + (now - last) / 1000, 0.1); // a slow machine walks slower
    last = now;
    const told = commandOf(controls.shares(), robot.told.command_ranges);
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
