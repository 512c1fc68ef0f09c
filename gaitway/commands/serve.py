"""``gaitway serve``: train and sample a language model from Tinker's client.

Serve a language model to programs written for Tinker (PyPI package tinker): a run, a Hugging Face folder or a hub id.
Their loops train adapters of it and sample from it here; docs/serve.md lists what the server has.

It listens on this machine only. With --host, the environment variable GAITWAY_SERVE_KEY must hold a secret that begins
with "tml-", which clients give as their api_key. Checkpoints lie in --out, where a later server finds them.

examples:
  gaitway serve runs/reason/sft
  gaitway serve HuggingFaceTB/SmolLM2-135M-Instruct --port 8123 --out runs/serve
"""

from __future__ import annotations

import argparse
import threading
from pathlib import Path

from .. import options, sources
from ..catalogue import WORLDS
from . import common

WORKS_ON = True


def add_options(parser: options.Parser) -> None:
    parser.option("source RUN|MODEL", "run folder, Hugging Face folder or hub id")
    parser.option("--out FOLDER", "folder of the checkpoints (default runs/serve)", Path, default=Path("runs/serve"))
    parser.option(
        "--port", "port of the server; 0 takes a free one (default 8123)", options.whole(0, 65535), default=8123
    )
    parser.option("--host", "address of the server (default: this machine only); 0.0.0.0 for all", default="127.0.0.1")
    about = "dtype of forward and backward passes and of sampling: float32 or bfloat16 (default float32)"
    parser.option("--precision", about, choices=("float32", "bfloat16"), default="float32")
    parser.option("--max-models N", "models that clients train at a time (default 8)", options.count, default=8)
    common.add_checkpoint(parser)
    common.add_trust(parser)


def run(args: argparse.Namespace) -> int:
    common.require("serve", WORLDS["language"])
    from ..serve.http import ANY_KEY, key_for

    key = key_for(args.host) and "GAITWAY_SERVE_KEY"
    from ..runs.lock import RunLock
    from ..serve.base import BaseModel
    from ..serve.http import ServiceServer
    from ..serve.service import Service
    from ..training.interrupt import stop_requests

    args.out.mkdir(parents=True, exist_ok=True)
    with RunLock(args.out), stop_requests() as stop:
        base = BaseModel.load(args.source, sources.settled(Path(args.source), args.checkpoint))
        service = Service(base, args.out, precision=args.precision, most_models=args.max_models)
        base.tokenizer.save_pretrained(service.training.tokenizer)
        server = ServiceServer(service, (args.host, args.port))
        secret = f"the secret in {key}" if key else repr(ANY_KEY)
        print(
            f"{args.source} for Tinker's client: base_model={args.source!r}\n"
            f"  base_url='http://{args.host}:{server.server_port}', api_key={secret}\n"
            f"  checkpoints in {args.out}; Ctrl-C ends the server",
            flush=True,
        )
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        while stop.signal is None and thread.is_alive():
            thread.join(0.2)
        server.shutdown()
        server.server_close()
        service.close()
    return 0
