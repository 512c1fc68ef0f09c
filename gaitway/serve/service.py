"""Tinker's service around one model: its parts, and the endpoints of sessions, samplers and saved checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .base import Adapters, BaseModel
from .checkpoints import About, Checkpoints, Place, place_of
from .fields import Body, metadata_of, number_of, text_of
from .registry import Registry, SamplerEntry
from .sampling import Sampler, SampleRequest, sample_request
from .training import Training, adapters_of
from .work import Job, Result, Unknown, Work


class Service:
    """The endpoints around ``base``; ``root`` is the folder of the checkpoints."""

    def __init__(self, base: BaseModel, root: Path, *, precision: str = "float32", most_models: int = 8):
        self.base, self.store, self.work = base, Checkpoints(root), Work()
        self.store.sweep(ephemeral=True)
        self.sampler = Sampler(base, precision)
        self.registry = Registry(self.work, self.store, most_models)
        self.training = Training(base, self.registry, self.store, self.work, precision, self.sampler.forget)

    def close(self) -> None:
        self.work.close()

    def server_capabilities(self) -> Result:
        about: dict[str, Any] = {"model_name": self.base.name, "max_context_length": self.base.positions}
        return {"supported_models": [about | {"trainable": True, "sampleable": True}]}

    # ---- sessions ----------------------------------------------------------------------------------------------------

    def create_session(self, body: Body) -> Result:
        name = body.get("display_name")
        session = self.registry.new_session(metadata_of(body), None if name is None else str(name)[:200])
        return {"session_id": session.name, "type": "create_session"}

    def session_heartbeat(self, body: Body) -> Result:
        self.registry.session(text_of(body, "session_id"))
        return {"type": "session_heartbeat"}

    def finish_session(self, name: str) -> Result:
        self.registry.finish(name)
        return {}

    def get_session(self, name: str) -> Result:
        session = self.registry.session(name)
        models, samplers = self.registry.belongings(name)
        return {
            "training_run_ids": models,
            "sampler_ids": samplers,
            "user_metadata": session.metadata,
            "display_name": session.display_name,
        }

    # ---- sampling ----------------------------------------------------------------------------------------------------

    def create_sampling_session(self, body: Body) -> Result:
        session = self.registry.session(text_of(body, "session_id"))
        place = None
        if body.get("model_path") is None:
            self.base.check_name(body.get("base_model"))
        else:
            place = place_of(body["model_path"])
            self.training.checkpoint(place)
        name = f"{session.name}:sample:{number_of(body, 'sampling_session_seq_id')}"
        self.registry.add_sampler(SamplerEntry(name, session.name, place))
        return {"sampling_session_id": name, "type": "create_sampling_session"}

    def join_sampling_session(self, body: Body) -> Result:
        number = self.registry.clone(text_of(body, "sampling_session_id"))
        return {"client_counter": number, "type": "join_sampling_session"}

    def get_sampler(self, name: str) -> Result:
        place = self.registry.sampler(name).place
        return {"sampler_id": name, "base_model": self.base.name, "model_path": None if place is None else str(place)}

    def asample(self, body: Body, size: int) -> Result:
        """A future of answers to one prompt."""
        entry = self.registry.sampler(text_of(body, "sampling_session_id"))
        request = sample_request(body, self.base)
        name = f"{entry.name}:{number_of(body, 'seq_id')}"

        def answer(requests: Sequence[SampleRequest]) -> Sequence[Result]:
            if entry.place is None:
                self.sampler.use(None, Adapters(None, 0))
            else:
                folder, about = self.training.checkpoint(entry.place)
                self.sampler.use(folder, adapters_of(about))
            return self.sampler.answer(requests)

        together = (entry.name, *request.together)
        self.work.submit(Job(name, entry.session, size, answer, request, together, request.samples))
        return {"request_id": name, "sample_sequence_ids": [f"{name}:{i}" for i in range(request.samples)]}

    # ---- checkpoints -------------------------------------------------------------------------------------------------

    def weights_info(self, body: Body) -> Result:
        _, about = self.store.read(place_of(body.get("tinker_path")))
        return {
            "base_model": about.base_model,
            "is_lora": about.rank is not None,
            "lora_rank": about.rank,
            "train_unembed": about.rank is None,
            "train_mlp": about.train_mlp,
            "train_attn": about.train_attn,
        }

    def training_runs(self) -> Result:
        runs = [self._run(name) for name in self.store.runs()]
        return {"training_runs": runs, "cursor": {"offset": 0, "limit": len(runs), "total_count": len(runs)}}

    def training_run(self, name: str) -> Result:
        if name not in self.store.runs():
            raise Unknown(f"no training run {name} has a checkpoint below {self.store.root}")
        return self._run(name)

    def _run(self, name: str) -> dict[str, Any]:
        _, about = self.store.of_run(name)[-1]
        return {
            "training_run_id": name,
            "base_model": about.base_model,
            "model_owner": "local",
            "is_lora": about.rank is not None,
            "lora_rank": about.rank,
            "last_request_time": about.created,
        }

    def checkpoints(self, run: str) -> Result:
        return {"checkpoints": [_described(place, about) for place, about in self.store.of_run(run)]}

    def delete_checkpoint(self, run: str, identity: str) -> Result:
        place = place_of(f"tinker://{run}/{identity}")
        self.store.delete(place)
        self.sampler.forget(self.store.folder(place))
        return {}


def _described(place: Place, about: About) -> dict[str, Any]:
    return {
        "checkpoint_id": f"{place.kind}/{place.name}",
        "checkpoint_type": "training" if place.kind == "weights" else "sampler",
        "time": about.created,
        "tinker_path": str(place),
        "user_metadata": about.user_metadata,
        "expires_at": about.expires,
    }
