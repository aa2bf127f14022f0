"""The model endpoints of the settings, with one long-lived client for each."""

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Final

import structlog

from agents.errors import InvalidAgent
from agents.llm.session import Answering, CallKey
from agents.model.limits import AdaptiveLimit, Parallel
from agents.model.model import PLAIN_SAMPLING, Form, Message, Model, Reply, Sampling, check_allowed
from app.base.clock import now_ms
from app.base.tasks import end_tasks, keep_going
from app.models.health import EndpointHealth, Outages
from app.models.leases import Leases
from app.models.metrics import attempt_seconds
from app.models.recording import RecordedSession, Recording
from app.seats.seating import AskedModel
from app.settings import EndpointSettings, InvalidEndpoints
from app.store.rows import Outage

if TYPE_CHECKING:
    from agents.model.client import Attempt, OpenAIModel

__all__ = ["Endpoints", "Source", "observe_attempt"]

log = structlog.get_logger()


LOOK_S: Final = 1.0
"""Seconds between two reads of what other processes know of endpoints."""

UNWANTED_S: Final = 300.0
"""Nothing waits any more for an endpoint that nobody has tried for so many seconds after a try was due. A try
without an answer seldom takes as long.
"""


def observe_attempt(attempt: "Attempt") -> None:
    """Records one HTTP request to a model."""
    attempt_seconds.labels(attempt.endpoint, attempt.outcome).observe(attempt.seconds)


class DirectSession:
    """A session that asks the model every time. ``scope`` identifies the game. All calls of one seat in one
    game carry the same cache key, by which inference engines find the cached beginning of its prompts.
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

    def __init__(
        self,
        name: str,
        settings: EndpointSettings,
        outages: Outages | None = None,
        leases: Leases | None = None,
    ) -> None:
        self.name = name
        self.model_name = settings.model
        parallel = Parallel.read(settings.parallel)
        # Recorded answers ask no server, so every process may read as many at a time as it likes.
        if leases is None or settings.recorded is not None:
            self._parallel = AdaptiveLimit(parallel)
        else:
            self._parallel = leases.endpoint(name, parallel)
        self.slots = self._parallel.calls
        """Limits concurrent calls, over all games and processes, to what the server bears now; batches take
        turns. A call that waits here has cost nothing yet, and goes with its game."""
        self.health = EndpointHealth(name, outages=outages)
        self.endpoint = None if settings.recorded is not None else settings.endpoint(name)
        """The endpoint with its key; None: a recording."""
        self._settings = settings
        self._next: Callable[[], Source] | None = None
        """Gives the source with the settings that replaced these."""
        self._live: OpenAIModel | None = None
        self._recording: Recording | None = None

    def is_of(self, settings: EndpointSettings | None) -> bool:
        """Whether these are the source's own settings, and still yield the same key."""
        if settings != self._settings or settings is None:
            return False
        return self.endpoint is None or self.endpoint == settings.endpoint(self.name)

    def withdraw(self, successor: "Callable[[], Source]") -> None:
        """Has callers go on with the source that ``successor`` gives if this one does not answer."""
        self._next = successor
        self.health.withdraw()

    def present(self) -> "Source":
        """The source to ask now. Raises InvalidAgent if the settings do not name the endpoint any more."""
        return self._next() if self._next is not None and self.health.left else self

    def check(self, sampling: Sampling) -> None:
        """Raises InvalidAgent if ``sampling`` asks for something that this endpoint does not allow seats."""
        check_allowed(sampling, self._settings.seat_keys)

    def session(self, seed: str, game: str, sampling: Sampling = PLAIN_SAMPLING) -> Answering:
        """A session for a game and its seed. Raises InvalidAnswers for an unreadable recording."""
        if self._settings.recorded is not None:
            if self._recording is None:
                self._recording = Recording.read(self._settings.recorded)
            return RecordedSession(self._recording, seed)
        if self._live is None:
            # Imported here, since it takes half a second, which a service without models need not spend.
            from agents.model.client import OpenAIModel

            assert self.endpoint is not None
            self._live = OpenAIModel(self.endpoint, observe_attempt, parallel=self._parallel)
        return DirectSession(self._live, game, sampling)

    async def aclose(self) -> None:
        if self._live is not None:
            await self._live.aclose()
            self._live = None


class Endpoints:
    """The endpoints of one service."""

    def __init__(
        self,
        read: Callable[[], Mapping[str, EndpointSettings]],
        outages: Outages | None = None,
        leases: Leases | None = None,
    ) -> None:
        """``read``: reads the settings again. ``outages``: what other processes know; None: there are no
        other processes. ``leases``: this process's part of what all processes may use; None: all of it.
        Raises what ``read`` raises.
        """
        self.leases = leases or Leases()
        self._read = read
        self._outages = outages
        self._learning: asyncio.Task[None] | None = None
        self.settings = dict(read())
        self._sources: dict[str, Source] = {}
        self._known: Mapping[str, Outage] = {}
        """The outages that were read last, also those of endpoints that this process has not asked."""
        self._replaced: list[Source] = []
        """Sources of earlier settings, which games that began with them may still use."""

    async def read_again(self) -> None:
        """Reads the settings again: a key or an address may have changed. Games that begin from now on use
        them, and so do others whose endpoint does not answer with the earlier ones. Settings that cannot be
        read leave everything as it is.
        """
        try:
            settings = dict(self._read())
        except InvalidEndpoints as fault:
            log.error("the endpoints stay as they are: their settings cannot be read", cause=str(fault))
            return
        self.settings = settings
        for name, source in list(self._sources.items()):
            if not source.is_of(settings.get(name)):
                self._replaced.append(self._sources.pop(name))
                source.withdraw(partial(self.source, name))
                if self._outages is not None:
                    await self._outages.end(name)
                self._known = {known: outage for known, outage in self._known.items() if known != name}

    def source(self, name: str) -> Source:
        """The source for this endpoint. Raises InvalidAgent if the settings do not name the endpoint."""
        if name not in self.settings:
            raise self.unknown_endpoint(name)
        if name not in self._sources:
            source = Source(name, self.settings[name], self._outages, self.leases)
            source.health.learn(self._known.get(name))
            self._sources[name] = source
        return self._sources[name]

    def asked(self, name: str) -> AskedModel:
        """What the log says of this endpoint's model."""
        settings = self.settings.get(name)
        return AskedModel(name or None, None if settings is None else settings.model or None)

    def outages(self, names: Iterable[str]) -> list[Outage]:
        """The current outages of these endpoints, in the order of their names."""
        sources = self._sources
        found = (
            sources[name].health.outage if name in sources else self._known.get(name)
            for name in sorted(set(names))
        )
        return [outage for outage in found if outage is not None]

    def unknown_endpoint(self, name: str) -> InvalidAgent:
        """The error for a seat or a judge that names this unknown endpoint."""
        if not self.settings:
            return InvalidAgent(
                "no model is configured here: an operator names endpoints in INTERINTENT_MODELS or "
                "INTERINTENT_MODELS_FILE (docs/operating.md)",
                "/agent",
            )
        known = ", ".join(sorted(self.settings))
        unknown = f"no model is called {name!r} here; " if name else ""
        return InvalidAgent(f"{unknown}name one of the models here: {known}", "/model")

    async def open(self) -> None:
        """Imports in a thread the modules that clients need, so that games do not wait for the import."""
        if any(endpoint.recorded is None for endpoint in self.settings.values()):
            await asyncio.to_thread(import_module, "openai")
        self.leases.start()
        if self._outages is not None:
            self._learning = keep_going(self._learn, "outages")

    async def _learn(self) -> None:
        """Keeps taking over what other processes know of the endpoints."""
        while True:
            await asyncio.sleep(LOOK_S)
            await self.look()

    async def look(self) -> None:
        """Takes over what other processes know of the endpoints, if the database tells now."""
        if self._outages is None or not self.settings:
            return
        sources = dict(self._sources)
        changes = {name: source.health.changes for name, source in sources.items()}
        known = await self._outages.all()
        if known is None:
            return
        self._known = known
        if any(source.health.outage is not None and name not in known for name, source in sources.items()):
            # Another process may have found it answering, perhaps with mended settings.
            await self.read_again()
        now = now_ms()
        for name, outage in known.items():
            trying = name in sources and sources[name].health.is_trying
            if outage.try_at < now - UNWANTED_S * 1000 and not trying:
                await self._outages.end_unwanted(name, round(now - UNWANTED_S * 1000))
        for name, source in sources.items():
            # A change in this process since then is newer than what was read.
            if source.health.changes == changes[name]:
                source.health.learn(known.get(name))

    async def aclose(self) -> None:
        """Closes every client."""
        await end_tasks(self._learning)
        for source in (*self._sources.values(), *self._replaced):
            await source.aclose()
        await self.leases.stop()
