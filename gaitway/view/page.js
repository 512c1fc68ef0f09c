// Overlay of the page of a robot: its name, keys, gamepad and sticks, and a recorder. It talks to gaitway/view/remote.py.
import { Controls, make, PUSH_WAY, recordButton } from "./controls.js";

const EVERY_MS = 50; // between two words of the sticks; the robot stops if none comes for a while
const SCHEME = matchMedia("(prefers-color-scheme: dark)");

const title = make("h1"), detail = make("p"), pad = make("p"), keys = make("p", { className: "gw-keys" });
pad.setAttribute("role", "status");
const card = make("div", { className: "gw-card" }, title, detail);
const overlay = make("div", { id: "gaitway" }, card);
document.body.append(overlay);

let file = "robot", socket = null, controls = null, moved = false, steers = false;
const say = (words) => { if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(words)); };

function dress() {
  overlay.classList.toggle("gw-dark", SCHEME.matches);
  say({ dark: SCHEME.matches });
}
SCHEME.addEventListener("change", dress);

function steer() {
  controls = new Controls({
    ask: (what) => say(what === "again" ? { again: true } : { push: what }),
    told: (text) => { pad.textContent = text; },
    keys: () => steers,
  });
  const push = make("button", { type: "button", onclick: () => say({ push: PUSH_WAY }) }, "Push");
  controls.turn.element.before(push);
  keys.textContent = "Walk: W A S D or ↑ ↓. Turn: Q E or ← →. Push: space. Or plug in a gamepad.";
  overlay.append(controls.sticks);
  setInterval(() => {
    const shares = controls.shares(), now = shares.some((share) => share !== 0);
    if (now || moved) say({ steer: shares });
    moved = now;
  }, EVERY_MS);
}

function hear(words) {
  document.title = `${words.title} · Gaitway`;
  title.textContent = words.title;
  detail.textContent = words.detail;
  file = words.title.toLowerCase().replace(/[^a-z0-9]+/g, "-");
  if (words.steers && !controls) steer();
  steers = words.steers;
  if (controls) controls.sticks.hidden = keys.hidden = !steers;
}

function connect() {
  socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/gaitway/remote${location.search}`);
  socket.onopen = dress;
  socket.onmessage = (event) => hear(JSON.parse(event.data));
  socket.onclose = () => setTimeout(connect, 2000);
}

// viser's sheet of controls on a phone: as wide as the phone, closed at first, with the sticks above it.
const sheets = new ResizeObserver(([entry]) => overlay.style.setProperty("--gw-panel", `${entry.target.offsetHeight}px`));
new MutationObserver((_, watcher) => {
  const handle = document.querySelector('#root div[style*="cursor: pointer"][style*="height: 3.5em"]');
  const sheet = handle?.closest('div[style*="position: fixed"]');
  if (!sheet || sheet.classList.contains("gw-sheet")) return;
  sheet.classList.add("gw-sheet");
  sheets.observe(sheet);
  handle.click();
}).observe(document.getElementById("root"), { childList: true, subtree: true });

const size = (canvas) => canvas.width * canvas.height;
const picture = () => [...document.querySelectorAll("#root canvas")].reduce((a, b) => (size(b) > size(a) ? b : a));
card.append(recordButton(picture, () => `gaitway-${file}`), keys, pad);
connect();
