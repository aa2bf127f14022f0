"""The model servers that an operator names: read from the settings, one long-lived client for each."""

import asyncio
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Protocol

from agents.errors import InvalidAgent
from agents.llm.session import Answering, CallKey
from agents.model.model import Endpoint, Form, Message, Model, Reply
from app.models.metrics import observe_attempt
from app.models.recording import RecordedSession, Recording
from app.settings import EndpointSettings

__all__ = ["Endpoints", "Source"]


class LiveModel(Model, Protocol):
    """A client of one endpoint."""

    async def aclose(self) -> None:
        """Closes its connections."""
        ...


class _Directly:
    """A session that asks a model each time."""

    def __init__(self, model: Model) -> None:
        self._model = model

    async def ask(
        self, key: CallKey, messages: Sequence[Message], form: Form, *, temperature: float, max_tokens: int
    ) -> Reply:
        return await self._model.complete(messages, form, temperature=temperature, max_tokens=max_tokens)


class Source:
    """Where one endpoint's answers come from: a live model, or a recording."""

    def __init__(self, name: str, settings: EndpointSettings) -> None:
        self.name = name
        self.model_name = settings.model
        self.slots = asyncio.Semaphore(settings.parallel)
        """Calls in flight at once, over all games. What waits here has cost nothing yet."""
        self._settings = settings
        self._live: LiveModel | None = None
        self._recording: Recording | None = None

    def session(self, seed: str) -> Answering:
        """Where the game of this seed asks. Raises InvalidAnswers for a recording that cannot be read."""
        if self._settings.recorded is not None:
            if self._recording is None:
                self._recording = Recording.read(self._settings.recorded)
            return RecordedSession(self._recording, seed)
        if self._live is None:
            self._live = _open(self._settings.endpoint(self.name))
        return _Directly(self._live)

    async def aclose(self) -> None:
        if self._live is not None:
            await self._live.aclose()
            self._live = None


def _open(endpoint: Endpoint) -> LiveModel:
    # Half a second of imports, which only those pay who play with models.
    from agents.model.client import OpenAIModel

    return OpenAIModel(endpoint, observe_attempt)


class Endpoints:
    """Those of one service, each with its one client."""

    def __init__(self, settings: Mapping[str, EndpointSettings]) -> None:
        self.settings = dict(settings)
        self._sources: dict[str, Source] = {}

    def source(self, name: str) -> Source:
        """Raises InvalidAgent for an endpoint that the settings do not name, or no longer."""
        if name not in self.settings:
            raise self.none_such()
        if name not in self._sources:
            self._sources[name] = Source(name, self.settings[name])
        return self._sources[name]

    def none_such(self) -> InvalidAgent:
        """What to tell somebody whose seat wants a model that is not there."""
        if not self.settings:
            return InvalidAgent(
                "no model is configured here: an operator names endpoints in INTERINTENT_MODELS or "
                "INTERINTENT_MODELS_FILE (docs/operating.md)",
                "/agent",
            )
        return InvalidAgent(f"name one of the models here: {', '.join(sorted(self.settings))}", "/model")

    async def open(self) -> None:
        """Imports what clients need, off the loop: games must not wait for that."""
        if any(one.recorded is None for one in self.settings.values()):
            await asyncio.to_thread(import_module, "openai")

    async def aclose(self) -> None:
        """Closes every client."""
        for source in self._sources.values():
            await source.aclose()
