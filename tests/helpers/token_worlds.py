"""A world of tokens without text: prompts by number, a plain sampling loop, and rewards that tokens decide."""

from __future__ import annotations

import copy
import time
from multiprocessing.connection import Connection

import torch
from gaitway_agents.interfaces import TokenRollout

STOP, WANTED = 1, 2


class WantedToken:
    """The reward is the share of the answer's ``limit`` places that hold the wanted token; token 1 ends an answer."""

    temperature = 1.0

    def __init__(self, model, *, seed=0, vocabulary=12, limit=6, own_weights=False):
        self.model = copy.deepcopy(model) if own_weights else model
        self.own_weights, self.vocabulary, self.limit = own_weights, vocabulary, limit
        self.generator = torch.Generator().manual_seed(seed)
        self.version = 0
        self.calls = 0

    @torch.no_grad()
    def sample(self, num_prompts, group_size):
        start = time.perf_counter()
        self.calls += 1
        self.model.eval()
        width = 3
        prompts = torch.randint(2, self.vocabulary, (num_prompts, width), generator=self.generator)
        size = num_prompts * group_size
        tokens = torch.zeros(size, width + self.limit, dtype=torch.long)
        tokens[:, :width] = prompts.repeat_interleave(group_size, 0)
        mask, log_probs = torch.zeros(2, size, width + self.limit)
        alive = torch.ones(size, dtype=torch.bool)
        for t in range(width, width + self.limit):
            logits = self.model(input_ids=tokens[:, :t]).logits[:, -1].float() / self.temperature
            drawn = torch.multinomial(logits.softmax(-1), 1, generator=self.generator)
            said = logits.log_softmax(-1).gather(1, drawn)[:, 0]
            tokens[alive, t], log_probs[alive, t], mask[alive, t] = drawn[alive, 0], said[alive], 1.0
            alive &= drawn[:, 0] != STOP
        rewards = ((tokens == WANTED) * mask).sum(1) / self.limit
        return TokenRollout(
            tokens=tokens,
            lengths=width + mask.sum(1).long(),
            mask=mask,
            log_probs=log_probs,
            groups=torch.arange(num_prompts).repeat_interleave(group_size),
            finished=~alive,
            rewards=rewards,
            parts={"wanted": rewards},
            version=self.version,
            timing={"generation": time.perf_counter() - start},
        )

    def update_weights(self, parameters):
        if self.own_weights:
            self.model.load_state_dict(dict(parameters))
        self.version += 1
        return {}

    def state_dict(self):
        return {"generator": self.generator.get_state(), "version": self.version}

    def load_state_dict(self, state):
        self.generator.set_state(state["generator"])
        self.version = state["version"]


def wanted_token(seed=0, **settings):
    """The world of a process of its own."""
    from tiny_models import tiny_lm

    torch.set_num_threads(1)
    return WantedToken(tiny_lm(vocab_size=12), seed=seed, own_weights=True, **settings)


def mute():
    """In a sampling process whose thread that sends runs out of memory."""

    def send_bytes(*_):
        raise MemoryError

    Connection.send_bytes = send_bytes
    return Told()


class Told:
    """Rewards are the weight ``w`` that the world was told last; log-probabilities count the rollouts."""

    temperature = 0.5

    def __init__(self, delay=0.0, fail_at=None, size=1):
        self.delay, self.fail_at, self.size = delay, fail_at, size
        self.weight, self.version, self.calls = -1.0, 0, 0

    def sample(self, num_prompts, group_size):
        time.sleep(self.delay)
        self.calls += 1
        if self.calls == self.fail_at:
            raise KeyError("row 7 has no answer")
        rows = num_prompts * group_size
        shape = (rows, 3 * self.size)
        return TokenRollout(
            tokens=torch.zeros(shape, dtype=torch.long),
            lengths=torch.full((rows,), shape[1]),
            mask=torch.ones(shape),
            log_probs=torch.full(shape, -float(self.calls)),
            groups=torch.arange(num_prompts).repeat_interleave(group_size),
            finished=torch.ones(rows, dtype=torch.bool),
            rewards=torch.full((rows,), self.weight),
            parts={},
            version=self.version,
        )

    def update_weights(self, parameters):
        found = dict(parameters)
        assert found["w"].data_ptr() == found["tied"].data_ptr()
        self.weight = float(found["w"][0, 1])
        self.version += 1
        return {"heard": self.weight}

    def state_dict(self):
        return {"calls": self.calls, "version": self.version}

    def load_state_dict(self, state):
        self.calls, self.version = state["calls"], state["version"]
