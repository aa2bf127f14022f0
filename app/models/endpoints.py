"""The model servers that an operator names: read from the settings, one long-lived client for each."""

import asyncio
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator

from agents.errors import InvalidAgent
from agents.llm.desk import Answering, CallKey
from agents.llm.endpoint import Endpoint, Prices
from agents.llm.model import Form, Message, Model, Reply
from app.models.metrics import observe_attempt
from app.models.recording import RecordedDesk, Recording

__all__ = ["EndpointSettings", "Endpoints", "InvalidEndpoints", "Source", "read_endpoints"]

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class InvalidEndpoints(ValueError):
    """What the settings say of models makes no endpoint. The message holds no value of theirs."""


class PriceSettings(BaseModel):
    """What a million tokens cost."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    prompt: float = Field(0.0, ge=0, allow_inf_nan=False)
    completion: float = Field(0.0, ge=0, allow_inf_nan=False)
    cached: float | None = Field(None, ge=0, allow_inf_nan=False)


class EndpointSettings(BaseModel):
    """One endpoint as an operator writes it: a server and a model, or a file of recorded answers."""

    # A key must not stand in a traceback.
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    base_url: str | None = None
    model: str = ""
    api_key: SecretStr | None = None
    api_key_env: str | None = None
    """The variable that holds the key."""
    recorded: Path | None = None
    """Answers to repeat, as ``interintent answers export`` writes them; then nothing else is said."""
    parallel: int = Field(16, ge=1, le=10_000)
    requests_per_minute: float | None = Field(None, gt=0)
    tokens_per_minute: float | None = Field(None, gt=0)
    timeout_s: float = Field(60.0, gt=0)
    attempts: int = Field(4, ge=1, le=100)
    total_s: float = Field(180.0, gt=0)
    retry_after_s: float = Field(30.0, ge=0)
    max_bytes: int = Field(512 * 1024, ge=1)
    prices: PriceSettings | None = None
    extra_body: dict[str, Any] = Field({}, repr=False)
    extra_headers: dict[str, str] = Field({}, repr=False)

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.recorded is not None:
            if self.model_fields_set - {"recorded", "parallel"}:
                raise ValueError("an endpoint of recorded answers has no server: leave out the rest")
        elif self.base_url is None or not self.model:
            raise ValueError("an endpoint has base_url and model, or recorded")
        if self.api_key is not None and self.api_key_env is not None:
            raise ValueError("give api_key or api_key_env, not both")
        return self

    def endpoint(self, name: str) -> Endpoint:
        """As the client takes it. Raises ValueError for what no call could keep."""
        assert self.base_url is not None
        prices = self.prices
        return Endpoint(
            name=name,
            base_url=self.base_url,
            model=self.model,
            api_key=self._key(name),
            parallel=self.parallel,
            requests_per_minute=self.requests_per_minute,
            tokens_per_minute=self.tokens_per_minute,
            timeout_s=self.timeout_s,
            attempts=self.attempts,
            total_s=self.total_s,
            retry_after_s=self.retry_after_s,
            max_bytes=self.max_bytes,
            prices=Prices()
            if prices is None
            else Prices(prompt=prices.prompt, completion=prices.completion, cached=prices.cached),
            extra_body=self.extra_body,
            extra_headers=self.extra_headers,
        )

    def _key(self, name: str) -> str:
        if self.api_key is not None:
            return self.api_key.get_secret_value()
        if self.api_key_env is None:
            return ""
        if self.api_key_env not in os.environ:
            raise InvalidEndpoints(f"endpoint {name!r}: the variable {self.api_key_env} is not set")
        return os.environ[self.api_key_env]


def read_endpoints(given: Mapping[str, Any], file: Path | None) -> dict[str, EndpointSettings]:
    """The endpoints by name, those of the TOML file included.

    Raises InvalidEndpoints, whose message says where, and repeats no value: one of them may be a key.
    """
    named = dict(given)
    if file is not None:
        try:
            tables = tomllib.loads(file.read_text("utf-8"))
        except OSError as fault:
            raise InvalidEndpoints(f"{file} cannot be read: {fault.strerror}") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError):
            raise InvalidEndpoints(f"{file} is not TOML") from None
        if twice := named.keys() & tables.keys():
            raise InvalidEndpoints(f"{', '.join(sorted(twice))} stands in INTERINTENT_MODELS and in {file}")
        named |= tables
    read: dict[str, EndpointSettings] = {}
    for name, values in named.items():
        if _NAME.fullmatch(name) is None:
            raise InvalidEndpoints("an endpoint's name has letters, digits, dots, dashes: at most 64")
        try:
            read[name] = EndpointSettings.model_validate(values)
            recorded = read[name].recorded
            if recorded is None:
                read[name].endpoint(name)
            elif not recorded.is_file():
                raise InvalidEndpoints(f"endpoint {name!r}: there is no file {recorded}")
        except ValidationError as fault:
            wrong = "; ".join(
                f"{'.'.join(map(str, one['loc']))} {one['msg']}".strip() for one in fault.errors()
            )
            raise InvalidEndpoints(f"endpoint {name!r}: {wrong}") from None
        except ValueError as fault:
            raise InvalidEndpoints(str(fault)) from None
    return read


class LiveModel(Model, Protocol):
    """A client of one endpoint."""

    async def aclose(self) -> None:
        """Closes its connections."""
        ...


class _Directly:
    """A desk that asks a model each time."""

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

    def desk(self, seed: str) -> Answering:
        """Where the game of this seed asks. Raises InvalidAnswers for a recording that cannot be read."""
        if self._settings.recorded is not None:
            if self._recording is None:
                self._recording = Recording.read(self._settings.recorded)
            return RecordedDesk(self._recording, seed)
        if self._live is None:
            self._live = _open(self._settings.endpoint(self.name))
        return _Directly(self._live)

    async def aclose(self) -> None:
        if self._live is not None:
            await self._live.aclose()
            self._live = None


def _open(endpoint: Endpoint) -> LiveModel:
    # Half a second of imports, which only those pay who play with models.
    from agents.llm.client import OpenAIModel

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
