"""The model endpoints of the settings, with one long-lived client for each."""

import asyncio
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from agents.errors import InvalidAgent
from agents.llm.session import Answering, CallKey
from agents.model.limits import Parallel
from agents.model.model import PLAIN_SAMPLING, Form, Message, Model, Reply, Sampling
from agents.model.sampling import check_allowed
from app.models.health import EndpointHealth, Outage
from app.models.metrics import observe_attempt
from app.models.recording import RecordedSession, Recording
from app.settings import EndpointSettings

if TYPE_CHECKING:
    from agents.model.client import OpenAIModel

__all__ = ["Endpoints", "Source"]


class DirectSession:
    """A session that asks the model every time. ``scope`` tells games apart: in each, a seat's calls carry
    one key of their own, by which engines find the beginning of its prompts again.
    """

    def __init__(self, model: Model, scope: str, sampling: Sampling) -> None:
        self._model = model
        self._scope = scope
        self._sampling = sampling

    async def ask(
        self, key: CallKey, messages: Sequence[Message], form: Form, *, temperature: float, max_tokens: int
    ) -> Reply:
        seat = key.request_id.rpartition(".")[2]
        return await self._model.complete(
            messages,
            form,
            temperature=temperature,
            max_tokens=max_tokens,
            sampling=self._sampling,
            cache_key=hashlib.sha256(f"{self._scope}/{seat}".encode()).hexdigest()[:32],
        )


class Source:
    """The source of one endpoint's answers: a live model, or a recording."""

    def __init__(self, name: str, settings: EndpointSettings) -> None:
        self.name = name
        self.model_name = settings.model
        self.slots = asyncio.Semaphore(Parallel.read(settings.parallel).most)
        """Limits concurrent calls, over all games. A call that waits here has cost nothing yet."""
        self.health = EndpointHealth(name)
        self._settings = settings
        self._live: OpenAIModel | None = None
        self._recording: Recording | None = None

    def check(self, sampling: Sampling) -> None:
        """Raises InvalidAgent for what this endpoint does not let seats ask for."""
        check_allowed(sampling, self._settings.seat_keys)

    def session(self, seed: str, game: str, sampling: Sampling = PLAIN_SAMPLING) -> Answering:
        """A session for a game and its seed. Raises InvalidAnswers for an unreadable recording."""
        if self._settings.recorded is not None:
            if self._recording is None:
                self._recording = Recording.read(self._settings.recorded)
            return RecordedSession(self._recording, seed)
        if self._live is None:
            # The import takes half a second, which a service without models does not pay.
            from agents.model.client import OpenAIModel

            self._live = OpenAIModel(self._settings.endpoint(self.name), observe_attempt)
        return DirectSession(self._live, game, sampling)

    async def aclose(self) -> None:
        if self._live is not None:
            await self._live.aclose()
            self._live = None


class Endpoints:
    """The endpoints of one service."""

    def __init__(self, settings: Mapping[str, EndpointSettings]) -> None:
        self.settings = dict(settings)
        self._sources: dict[str, Source] = {}

    def source(self, name: str) -> Source:
        """The source for this endpoint. Raises InvalidAgent for one that the settings do not name."""
        if name not in self.settings:
            raise self.unknown_endpoint()
        if name not in self._sources:
            self._sources[name] = Source(name, self.settings[name])
        return self._sources[name]

    def outages(self, names: Iterable[str]) -> list[Outage]:
        """The endpoints among these that do not answer now, by name."""
        sources = [self._sources[name] for name in sorted(set(names)) if name in self._sources]
        return [source.health.outage for source in sources if source.health.outage is not None]

    def unknown_endpoint(self) -> InvalidAgent:
        """The error for a seat or a judge that names an unknown endpoint."""
        if not self.settings:
            return InvalidAgent(
                "no model is configured here: an operator names endpoints in INTERINTENT_MODELS or "
                "INTERINTENT_MODELS_FILE (docs/operating.md)",
                "/agent",
            )
        return InvalidAgent(f"name one of the models here: {', '.join(sorted(self.settings))}", "/model")

    async def open(self) -> None:
        """Imports in a thread what clients need, so that games do not wait for it."""
        if any(endpoint.recorded is None for endpoint in self.settings.values()):
            await asyncio.to_thread(import_module, "openai")

    async def aclose(self) -> None:
        """Closes every client."""
        for source in self._sources.values():
            await source.aclose()
