// Steering of a robot in a page: keys, a gamepad, sticks on a touch screen; and a recorder of a canvas.
// Shares are [forward, left, turn left] of the largest command, each in [-1, 1]. The site's drive page has this file too.

export const KEYS = { // by KeyboardEvent.code: which share, and its sign
  KeyW: [0, 1], ArrowUp: [0, 1], KeyS: [0, -1], ArrowDown: [0, -1],
  KeyA: [1, 1], KeyD: [1, -1], KeyQ: [2, 1], ArrowLeft: [2, 1], KeyE: [2, -1], ArrowRight: [2, -1],
};
export const PUSH_KEY = "Space", AGAIN_KEY = "KeyR";
const KEY_SHARE = 0.8;
const DEAD = 0.12; // of a gamepad's stick, which does not return to its very middle
const WAYS = ["ahead", "back", "left", "right"]; // buttons 12 to 15 of the standard gamepad
export const PUSH_WAY = "left";
const TYPES = ["video/webm;codecs=vp8", "video/webm", "video/mp4"];

export const clip = (value) => Math.min(1, Math.max(-1, value));

// Shares of keys that are held.
export function keyShares(held) {
  const sum = [0, 0, 0];
  for (const code of held) if (code in KEYS) sum[KEYS[code][0]] += KEYS[code][1];
  return sum.map((value) => KEY_SHARE * Math.sign(value));
}

// Position of a gamepad's axis without its dead zone, so that it starts from 0.
export function live(axis) {
  const beyond = Math.max(0, Math.abs(axis) - DEAD) / (1 - DEAD);
  return beyond === 0 ? 0 : Math.sign(axis) * Math.min(1, beyond);
}

// Shares of a standard gamepad: left stick to walk, right one to turn. Up and left are negative there.
export function padShares(axes) {
  const [x = 0, y = 0, turn = 0] = axes;
  return [-live(y), -live(x), -live(turn)].map((value) => value || 0);
}

// What buttons ask for that are down now and were not before: "again" (8 or 9) or ways to push (0: left; 12 to 15).
export function padAsks(now, before) {
  const pressed = (button) => Boolean(now[button] && !before[button]);
  const asks = pressed(0) ? [PUSH_WAY] : [];
  WAYS.forEach((way, i) => { if (pressed(12 + i)) asks.push(way); });
  return pressed(8) || pressed(9) ? [...asks, "again"] : asks;
}

// The shares of all devices together.
export const together = (...shares) => [0, 1, 2].map((i) => clip(shares.reduce((sum, each) => sum + each[i], 0)));

// Command [m/s, m/s, rad/s] for shares; ranges are [low, high] of each component.
export function commandOf(shares, ranges) {
  return shares.map((share, i) => {
    const [low, high] = ranges[i];
    return Math.min(high, Math.max(low, share * (share > 0 ? high : -low)));
  });
}

export const make = (name, props = {}, ...inside) => {
  const made = Object.assign(document.createElement(name), props);
  made.append(...inside);
  return made;
};

// A stick to drag with a finger; at is [right, up] in [-1, 1].
export class Stick {
  constructor(label, upright = true) {
    this.at = [0, 0];
    this.knob = make("span", { className: "gw-knob" });
    this.element = make("div", { className: "gw-stick" }, this.knob, make("span", { className: "gw-name" }, label));
    this.element.setAttribute("aria-hidden", "true"); // keys do the same
    let finger = null;
    const move = (event) => {
      if (event.pointerId !== finger) return;
      event.preventDefault();
      const box = this.element.getBoundingClientRect(), half = box.width / 2;
      const right = (event.clientX - box.left - half) / half, up = upright ? (box.top + half - event.clientY) / half : 0;
      const size = Math.max(1, Math.hypot(right, up));
      this.#set(right / size, up / size);
    };
    const release = (event) => {
      if (event.pointerId !== finger) return;
      finger = null;
      this.#set(0, 0);
    };
    this.element.addEventListener("pointerdown", (event) => {
      finger = event.pointerId;
      this.element.setPointerCapture(finger);
      move(event);
    });
    this.element.addEventListener("pointermove", move);
    for (const kind of ["pointerup", "pointercancel", "lostpointercapture"]) this.element.addEventListener(kind, release);
  }

  #set(right, up) {
    this.at = [right, up];
    this.knob.style.transform = `translate(${100 * right}%, ${-100 * up}%)`;
  }
}

// All devices of a page. ask(what) is called for "again" and for ways to push; told(text) when a gamepad comes or goes.
export class Controls {
  constructor({ ask, told, keys = () => true }) {
    Object.assign(this, { ask, held: new Set(), before: [], walk: new Stick("walk"), turn: new Stick("turn", false) });
    this.sticks = make("div", { className: "gw-sticks" }, this.walk.element, this.turn.element);
    addEventListener("keydown", (event) => {
      const typing = event.target.closest?.("input, textarea, select, [role=slider], [contenteditable]");
      if (typing || event.ctrlKey || event.metaKey || event.altKey || !keys(event)) return;
      const once = { [PUSH_KEY]: PUSH_WAY, [AGAIN_KEY]: "again" }[event.code];
      if (!(event.code in KEYS) && (!once || event.target.closest?.("button, a, summary, [role=button]"))) return;
      event.preventDefault();
      event.stopImmediatePropagation(); // not the page's own keys
      if (!once) this.held.add(event.code);
      else if (!event.repeat) ask(once);
    }, true);
    addEventListener("keyup", (event) => this.held.delete(event.code), true);
    addEventListener("blur", () => this.held.clear());
    addEventListener("gamepadconnected", (event) => told(`gamepad connected: ${event.gamepad.id.split("(")[0].trim()}`));
    addEventListener("gamepaddisconnected", () => told("gamepad disconnected"));
  }

  // Shares now; asks for what gamepad buttons say. Call it at least ten times a second.
  shares() {
    const pad = [...(navigator.getGamepads?.() ?? [])].find((found) => found?.connected);
    const buttons = pad ? pad.buttons.map((button) => button.pressed) : [];
    padAsks(buttons, this.before).forEach(this.ask);
    this.before = buttons;
    const [[right, up], [turn]] = [this.walk.at, this.turn.at];
    return together(keyShares(this.held), pad ? padShares(pad.axes) : [0, 0, 0], [up, -right, -turn]);
  }
}

// A button that records a canvas into a film and hands that to the browser as a download.
export function recordButton(canvas, name) {
  const type = globalThis.MediaRecorder && TYPES.find((each) => MediaRecorder.isTypeSupported(each));
  const button = make("button", { type: "button", className: "gw-record" }, "Record");
  button.hidden = !type;
  let recorder = null, clock = 0;
  const stop = () => recorder?.state === "recording" && recorder.stop();
  const start = () => {
    const pieces = [], begun = Date.now();
    recorder = new MediaRecorder(canvas().captureStream(30), { mimeType: type, videoBitsPerSecond: 6e6 });
    recorder.ondataavailable = (event) => pieces.push(event.data);
    recorder.onstop = () => {
      recorder.stream.getTracks().forEach((track) => track.stop());
      clearInterval(clock);
      button.textContent = "Record";
      button.classList.remove("gw-on");
      const url = URL.createObjectURL(new Blob(pieces, { type: recorder.mimeType }));
      make("a", { href: url, download: `${name()}.${type.includes("webm") ? "webm" : "mp4"}` }).click();
      setTimeout(() => URL.revokeObjectURL(url), 10000);
    };
    recorder.start(1000);
    button.classList.add("gw-on");
    const count = () => { button.textContent = `Stop and save (${Math.round((Date.now() - begun) / 1000)} s)`; };
    count();
    clock = setInterval(count, 500);
  };
  button.addEventListener("click", () => recorder?.state === "recording" ? stop() : start());
  return button;
}
