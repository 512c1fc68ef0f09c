"""Endpoints of training clients: models, losses, steps, and saving. All but the information return futures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from gaitway_files.errors import UserError

from .base import Adapters, BaseModel
from .checkpoints import About, Checkpoints, Place, now, place_of
from .fields import Body, metadata_of, number_of, text_of
from .learner import AdamParams, Learner
from .messages import TrainingRequest, losses_message
from .registry import Client, Registry, SamplerEntry
from .work import Job, Result, Work

EPHEMERAL = 8
"""Weights of sampling clients that are kept for each model: the newest."""
SMALL = 1024
"""Bytes that a request without data counts for."""


class Training:
    """``replaced`` is told of the folder of every checkpoint that was written."""

    def __init__(
        self,
        base: BaseModel,
        registry: Registry,
        store: Checkpoints,
        work: Work,
        precision: str,
        replaced: Callable[[Path], None],
    ):
        self.base, self.registry, self.store, self.work = base, registry, store, work
        self.precision, self.replaced = precision, replaced

    # ---- models ------------------------------------------------------------------------------------------------------

    def create_model(self, body: Body) -> Result:
        self.base.check_name(body.get("base_model"))
        _check_optimizer(body)
        adapters = Adapters.asked(body.get("lora_config"))
        client = self.registry.new_client(text_of(body, "session_id"), number_of(body, "model_seq_id"))

        def make() -> Result:
            client.learner = Learner(self.base, adapters, self.precision)
            return {"model_id": client.name, "type": "create_model"}

        return self._queue(client, 0, make)

    def load_weights(self, body: Body) -> Result:
        """Weights of a checkpoint for a client that is there, or for a new one."""
        place, optimizer = place_of(body.get("path")), body.get("optimizer") is True
        folder, about = self.checkpoint(place)
        if body.get("model_id") is not None:
            client, number = self.registry.client(text_of(body, "model_id")), number_of(body, "seq_id")
        else:
            if body.get("base_model") is not None:
                self.base.check_name(body["base_model"])
            _check_optimizer(body)
            client = self.registry.new_client(text_of(body, "session_id"), number_of(body, "model_seq_id"))
            number = 0

        def load() -> Result:
            adapters = adapters_of(about)
            if client.learner is None:
                learner = Learner(self.base, adapters, self.precision, folder)
                if optimizer:
                    learner.load_optimizer(folder)
                client.learner = learner
            else:
                _check_same(client.learner.adapters, adapters, place)
                client.learner.replace(folder, optimizer=optimizer)
            return {"path": str(place), "model_id": client.name, "type": "load_weights"}

        return self._queue(client, number, load)

    def get_info(self, body: Body) -> Result:
        client = self.registry.client(text_of(body, "model_id"))
        return {
            "type": "get_info",
            "model_id": client.name,
            "model_name": self.base.name,
            "is_lora": client.adapters.rank is not None,
            "lora_rank": client.adapters.rank,
            "model_data": {
                "arch": type(self.base.model).__name__,
                "model_name": self.base.name,
                "tokenizer_id": str(self.tokenizer),
            },
        }

    @property
    def tokenizer(self) -> Path:
        """Folder from which a client on this machine loads the tokeniser."""
        return (self.store.root / "tokenizer").absolute()

    # ---- learning ----------------------------------------------------------------------------------------------------

    def forward_backward(self, request: TrainingRequest, size: int) -> Result:
        client = self.registry.client(text_of({"model_id": request.model}, "model_id"))
        return self._queue(client, request.seq, lambda: losses_message(*client.made.losses(request)), size)

    def optim_step(self, body: Body) -> Result:
        client = self.registry.client(text_of(body, "model_id"))
        given = body.get("adam_params")
        if not isinstance(given, dict):
            raise UserError(f"adam_params {given!r}: must be Adam's settings; this server has no other optimiser")

        def step() -> Result:
            return {"metrics": client.made.step(AdamParams.asked(given)), "type": "optim_step"}

        return self._queue(client, number_of(body, "seq_id"), step)

    def _queue(self, client: Client, number: int, act: Callable[[], Result], size: int = SMALL) -> Result:
        name = f"{client.name}:{number}"
        self.work.submit(Job(name, client.session, size, lambda given: [act()]), client.name, number)
        return {"request_id": name, "model_id": client.name}

    # ---- saving ------------------------------------------------------------------------------------------------------

    def save_weights(self, body: Body) -> Result:
        """A checkpoint to go on from, with Adam's moments."""
        client, number = self.registry.client(text_of(body, "model_id")), number_of(body, "seq_id")
        place = Place(client.name, "weights", str(body.get("path") or f"{number:06d}"))
        return self._save(client, number, place, body, {"path": str(place), "type": "save_weights"})

    def save_weights_for_sampler(self, body: Body) -> Result:
        """A checkpoint to sample from; without a name, one for the sampling client that it makes."""
        client, number = self.registry.client(text_of(body, "model_id")), number_of(body, "seq_id")
        if body.get("path") is not None:
            place = Place(client.name, "sampler_weights", str(body["path"]))
            return self._save(client, number, place, body, {"path": str(place), "type": "save_weights_for_sampler"})
        place = Place(client.name, "sampler_weights", f"sampler-{number:06d}")
        sampler = f"{client.session}:sample:{number_of(body, 'sampling_session_seq_id')}"
        follows = client.name if body.get("kind") == "inflight" else None
        entry = SamplerEntry(sampler, client.session, place, follows)
        return self._save(client, number, place, body, {"sampling_session_id": sampler}, entry)

    def _save(
        self,
        client: Client,
        number: int,
        place: Place,
        body: Body,
        answer: dict[str, Any],
        entry: SamplerEntry | None = None,
    ) -> Result:
        place_of(str(place))
        seconds = body.get("ttl_seconds")
        if seconds is not None and (type(seconds) is not int or not 0 < seconds < 2**31):
            raise UserError(f"ttl_seconds {seconds!r}: must be a whole number above 0")

        notes = metadata_of(body)

        def save() -> Result:
            learner = client.made
            about = About(
                base_model=self.base.name,
                fingerprint=self.base.fingerprint,
                rank=learner.adapters.rank,
                seed=learner.adapters.seed,
                train_attn=learner.adapters.train_attn,
                train_mlp=learner.adapters.train_mlp,
                created=now(),
                expires=None if seconds is None else now(seconds),
                user_metadata=notes,
                ephemeral=entry is not None,
            )
            whole = place.kind == "weights"
            over = body.get("overwrite") is True or entry is not None
            self.store.save(place, about, lambda folder: learner.save(folder, optimizer=whole), overwrite=over)
            self.replaced(self.store.folder(place))
            if entry is not None:
                self.registry.add_sampler(entry)
                self.store.drop_ephemeral(client.name, EPHEMERAL)
            return answer

        return self._queue(client, number, save)

    def checkpoint(self, place: Place) -> tuple[Path, About]:
        """The folder of a checkpoint of this model. Raises UserError for one of another."""
        folder, about = self.store.read(place)
        if about.fingerprint != self.base.fingerprint:
            raise UserError(
                f"checkpoint {place} was trained on {about.base_model!r}; this server has {self.base.name!r}"
            )
        return folder, about


def adapters_of(about: About) -> Adapters:
    return Adapters(about.rank, about.seed, about.train_attn, about.train_mlp)


def _check_same(ours: Adapters, theirs: Adapters, place: Place) -> None:
    if (ours.rank, ours.train_attn, ours.train_mlp) != (theirs.rank, theirs.train_attn, theirs.train_mlp):
        raise UserError(
            f"checkpoint {place} has adapters of rank {theirs.rank}, and this model of {ours.rank}, or on other "
            "layers: make a client from it with create_training_client_from_state"
        )


def _check_optimizer(body: Body) -> None:
    config = body.get("optimizer_config") or {"type": "adamw"}
    if not isinstance(config, dict) or config.get("type") != "adamw":
        raise UserError(f"optimizer_config {config!r}: this server has type 'adamw' only")
