"""Film the page of ``gaitway demo`` as a browser shows it: the animated picture at the top of the README.

    python docs/tools/film_demo.py docs/images/demo.webp

needs Chromium (Debian: apt install chromium). The simulation waits for each picture, so the film shows real time on any
machine.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import io
import json
import logging
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image
from websockets.sync.client import connect

from gaitway.demo import bundle_of
from gaitway.view.scene import Scene, page
from gaitway.view.steering import panel_of
from gaitway.view.walkers import BundleWalker

SIZE, SCALE = (900, 540), 0.8  # [pixels] of the browser's window; share that is kept
FRAME = 6  # control steps between two pictures
SCRIPT: list[tuple[float, str, Any]] = [  # [s], control, value
    (0.0, "sliders", (0.6, 0.0, 0.0)),
    (2.0, "_push", "left"),
    (3.6, "sliders", (0.5, 0.0, 0.6)),
    (5.0, "payload", 15.0),
    (6.4, "friction", 0.4),
]
HIDE_NOTES = """
document.head.append(Object.assign(document.createElement('style'), {
  textContent: '[class*=Notification] { display: none !important }'}))
"""  # of software rendering
SECONDS, WARM_UP = 9.6, 3.0


class Browser:
    """A page in a headless Chromium, driven through its debugging port."""

    def __init__(self, program: str, address: str, profile: str):
        port = free_port()
        self.process = subprocess.Popen(
            [
                program, "--headless=new", "--no-sandbox", f"--remote-debugging-port={port}", "--hide-scrollbars",
                f"--user-data-dir={profile}", f"--window-size={SIZE[0]},{SIZE[1]}", "--use-angle=swiftshader",
                "--enable-unsafe-swiftshader", "--ignore-gpu-blocklist", address,
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self.socket = connect(self._debugger(port), max_size=None)
        self.number = 0
        self.ask("Emulation.setDeviceMetricsOverride", width=SIZE[0], height=SIZE[1], deviceScaleFactor=1, mobile=False)

    @staticmethod
    def _debugger(port: int) -> str:
        for _ in range(200):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/json") as answer:
                    pages = [entry for entry in json.load(answer) if entry["type"] == "page"]
                if pages:
                    return str(pages[0]["webSocketDebuggerUrl"])
            except OSError:
                pass
            time.sleep(0.1)
        raise SystemExit("the browser did not start")

    def ask(self, method: str, **params: Any) -> Any:
        self.number += 1
        self.socket.send(json.dumps({"id": self.number, "method": method, "params": params}))
        while (answer := json.loads(self.socket.recv())).get("id") != self.number:
            pass
        return answer.get("result")

    def drawn(self) -> None:
        """Wait until the browser has drawn."""
        code = "new Promise(done => requestAnimationFrame(done))"
        self.ask("Runtime.evaluate", expression=code, awaitPromise=True)

    def picture(self) -> Image.Image:
        data = self.ask("Page.captureScreenshot", format="png")["data"]
        return Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB")

    def close(self) -> None:
        self.socket.close()
        self.process.terminate()
        self.process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def film(program: str, bundle: Path, seconds: float, took: Callable[[Image.Image], None]) -> None:
    """Walk through the script and hand each picture to ``took``."""
    walker, port = BundleWalker(bundle), free_port()
    logging.getLogger("websockets").setLevel(logging.CRITICAL)  # connections that a browser opens and drops
    with page(walker.title, "127.0.0.1", port, "filming URL") as server, tempfile.TemporaryDirectory() as profile:
        server.initial_camera.position, server.initial_camera.look_at = (1.25, -1.35, 0.65), (0.0, 0.0, 0.35)
        server.scene.configure_default_lights(cast_shadow=False)  # software rendering spends most of its time on them
        scene = Scene(walker.model, server, walker.base_qpos)
        panel = panel_of(walker, server, scene)
        browser = Browser(program, server.address, profile)
        try:
            while not server.get_clients():
                time.sleep(0.1)
            time.sleep(WARM_UP)
            browser.ask("Runtime.evaluate", expression=HIDE_NOTES)
            script = list(SCRIPT)
            for step in range(round(seconds / walker.control_dt)):
                while script and script[0][0] <= step * walker.control_dt:
                    act(panel, *script.pop(0)[1:])
                panel.do()
                walker.step(panel.command())
                panel.look()
                if step % FRAME == 0:
                    scene.show(walker.qpos, follow=True)
                    panel.drawn = 0.0
                    panel.show()
                    server.flush()
                    time.sleep(0.05)
                    browser.drawn()
                    took(browser.picture())
        finally:
            browser.close()


def act(panel: Any, control: str, value: Any) -> None:
    if control == "sliders":
        panel._tell(value)
    elif control == "_push":
        panel._push(value)
    else:
        getattr(panel, control).value = value
        panel._lay_floor()
        panel._load()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="animated .webp, or a .png of the last moment")
    parser.add_argument("--bundle", type=Path, default=None, help="default: the one that 'gaitway demo' shows")
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--quality", type=int, default=45, help="of the pictures, 0 to 100")
    parser.add_argument("--chromium", default="chromium", help="the browser's program")
    args = parser.parse_args()
    pictures: list[Image.Image] = []

    def took(picture: Image.Image) -> None:
        pictures.append(picture)
        print(f"\r{len(pictures)} pictures", end="", flush=True)

    with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C keeps what has been filmed
        film(args.chromium, args.bundle or bundle_of("anymal-c"), args.seconds, took)
    print()
    if args.out.suffix == ".png":
        pictures[-1].save(args.out)
        return
    size = (round(SIZE[0] * SCALE), round(SIZE[1] * SCALE))
    small = [picture.resize(size, Image.Resampling.LANCZOS) for picture in pictures]
    small[0].save(
        args.out, save_all=True, append_images=small[1:], duration=round(1000 * FRAME * 0.02), loop=0,
        quality=args.quality, method=4,
    )  # fmt: skip
    print(f"{args.out}: {len(small)} pictures, {args.out.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
