"""The settings of an operator: environment variables, or a ``.env`` file beside the service."""

import json
import math
import os
import re
import tomllib
from collections.abc import Mapping
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from agents.model.capability import PROVIDERS, UNKNOWN, Provider
from agents.model.limits import Parallel
from agents.model.model import Endpoint, Prices

if TYPE_CHECKING:
    from agents.llm.templates import Templates

__all__ = [
    "MIN_SECRET",
    "EndpointSettings",
    "InvalidEndpoints",
    "InvalidPrompts",
    "InvalidQuotas",
    "QuotaName",
    "Settings",
    "read_endpoints",
    "read_prompts",
    "read_quotas",
]

MIN_SECRET: Final = 32
"""The fewest characters of a secret: HS256 needs a key as long as its hash."""

_URL_PARAMETERS: Final = (
    *("host", "passfile", "port", "service", "servicefile", "ssl", "target_session_attrs"),
    *("gsslib", "krbsrvname", "prepared_statement_cache_size"),
)
"""What may follow the ``?`` of PostgreSQL's URL: what the driver understands as text. With ``uri``, a URL
of SQLite may have anything, since SQLite itself reads it.
"""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


QuotaName = Literal[
    "requests",
    "sockets",
    "bytes_a_day",
    "batch_size",
    "open_games",
    "games_a_day",
    "open_seeks",
    "waiting_games",
    "submissions_a_day",
    "tokens_a_day",
    "model_tokens_a_day",
    "model_cost_a_day",
]
"""What an owner can have a quota of; ``app/edge/quotas.py`` says what each limits."""

DEFAULT_QUOTAS: Final[Mapping[QuotaName, float | None]] = {
    "requests": 100,
    "sockets": 2_000,
    "bytes_a_day": 5_000_000_000,
    "batch_size": 10_000,
    "open_games": 20_000,
    "games_a_day": 100_000,
    "open_seeks": 20,
    "waiting_games": 20,
    "submissions_a_day": 20_000,
    "tokens_a_day": 20_000,
    "model_tokens_a_day": None,
    "model_cost_a_day": None,
}
"""What holds unless the operator sets something else. None: no limit."""


class InvalidQuotas(ValueError):
    """Quotas that do not exist, or whose limits are no numbers."""


class InvalidEndpoints(ValueError):
    """Model settings that make no usable endpoint. The message does not repeat their values."""


class InvalidPrompts(ValueError):
    """Settings that name no usable set of prompts."""


class PriceSettings(BaseModel):
    """The prices of a million tokens."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    prompt: float = Field(0.0, ge=0, allow_inf_nan=False)
    completion: float = Field(0.0, ge=0, allow_inf_nan=False)
    cached: float | None = Field(None, ge=0, allow_inf_nan=False)


class EndpointSettings(BaseModel):
    """An endpoint in the operator's settings: a server and a model, or a file of recorded answers."""

    # A traceback must not show a key.
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    base_url: str | None = None
    model: str = ""
    api_key: SecretStr | None = None
    api_key_env: str | None = None
    """The environment variable that holds the key."""
    api_key_file: Path | None = None
    """The file that holds the key. Unlike a variable, it can be changed while the service runs."""
    recorded: Path | None = None
    """A file of answers to repeat, written by ``interintent answers export``; of the other fields only
    ``parallel`` may be given with it."""
    parallel: int | str = 16
    provider: Provider | None = None
    upstream: str | None = None
    seat_keys: frozenset[str] = frozenset()
    requests_per_minute: float | None = Field(None, gt=0)
    tokens_per_minute: float | None = Field(None, gt=0)
    stream: bool = True
    timeout_s: float | None = Field(None, gt=0)
    attempts: int = Field(4, ge=1, le=100)
    total_s: float = Field(900.0, gt=0)
    retry_after_s: float = Field(30.0, ge=0)
    max_output_tokens: int = Field(16_384, ge=16, le=10_000_000)
    max_bytes: int = Field(512 * 1024, ge=1)
    prices: PriceSettings | None = None
    extra_body: dict[str, Any] = Field({}, repr=False)
    extra_headers: dict[str, str] = Field({}, repr=False)

    @model_validator(mode="after")
    def _whole(self) -> Self:
        Parallel.read(self.parallel)
        if self.recorded is not None:
            if self.model_fields_set - {"recorded", "parallel"}:
                raise ValueError("an endpoint of recorded answers has no server: leave out the rest")
        elif self.base_url is None or not self.model:
            raise ValueError("an endpoint has base_url and model, or recorded")
        if sum(key is not None for key in (self.api_key, self.api_key_env, self.api_key_file)) > 1:
            raise ValueError("give one of api_key, api_key_env and api_key_file")
        return self

    def endpoint(self, name: str) -> Endpoint:
        """Builds the endpoint of the model client. Raises ValueError for limits that no call could keep."""
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
            stream=self.stream,
            timeout_s=self._timeout_s,
            provider=self.provider,
            upstream=self.upstream,
            seat_keys=self.seat_keys,
            attempts=self.attempts,
            total_s=self.total_s,
            retry_after_s=self.retry_after_s,
            max_output_tokens=self.max_output_tokens,
            max_bytes=self.max_bytes,
            prices=Prices()
            if prices is None
            else Prices(prompt=prices.prompt, completion=prices.completion, cached=prices.cached),
            extra_body=self.extra_body,
            extra_headers=self.extra_headers,
        )

    @property
    def _timeout_s(self) -> float:
        if self.timeout_s is not None:
            return self.timeout_s
        return (UNKNOWN if self.provider is None else PROVIDERS[self.provider]).timeout_s

    def _key(self, name: str) -> str:
        if self.api_key is not None:
            return self.api_key.get_secret_value()
        if self.api_key_file is not None:
            try:
                key = self.api_key_file.read_text().strip()
            except (OSError, UnicodeDecodeError):
                raise InvalidEndpoints(f"endpoint {name!r}: {self.api_key_file} cannot be read") from None
            if not key:
                raise InvalidEndpoints(
                    f"endpoint {name!r}: {self.api_key_file} is empty: put the key into it"
                )
            return key
        if self.api_key_env is None:
            return ""
        if self.api_key_env not in os.environ:
            raise InvalidEndpoints(f"endpoint {name!r}: the variable {self.api_key_env} is not set")
        if not os.environ[self.api_key_env].strip():
            raise InvalidEndpoints(
                f"endpoint {name!r}: the variable {self.api_key_env} is empty: set it to the key, or "
                "leave out api_key_env for a server without keys"
            )
        return os.environ[self.api_key_env]


def read_endpoints(
    configured: Mapping[str, Any], file: Path | None, *, within: Path | None = None
) -> dict[str, EndpointSettings]:
    """Reads the endpoints by name, including those of the TOML file. ``within``: a directory that has to hold
    every file which an endpoint names; None: these may be anywhere.

    Raises InvalidEndpoints. Its message names the place but repeats no value, since that may be a key.
    """
    named = dict(configured)
    if file is not None:
        try:
            tables = tomllib.loads(file.read_text("utf-8"))
        except OSError as fault:
            raise InvalidEndpoints(f"{file} cannot be read: {fault.strerror}") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError):
            raise InvalidEndpoints(f"{file} is not TOML") from None
        if twice := named.keys() & tables.keys():
            raise InvalidEndpoints(f"{', '.join(sorted(twice))} is in INTERINTENT_MODELS and in {file}")
        named |= tables
    read: dict[str, EndpointSettings] = {}
    for name, values in named.items():
        if _NAME.fullmatch(name) is None:
            raise InvalidEndpoints(
                "an endpoint's name has at most 64 letters, digits, dots, dashes and underscores, and begins "
                "with a letter or a digit"
            )
        try:
            read[name] = EndpointSettings.model_validate(values)
            recorded = read[name].recorded
            for used in (read[name].api_key_file, recorded):
                if (
                    used is not None
                    and within is not None
                    and not used.resolve().is_relative_to(within.resolve())
                ):
                    raise InvalidEndpoints(
                        f"endpoint {name!r}: {used} is not in {within}, and a study names no other files; "
                        "name the endpoint in the file of INTERINTENT_MODELS_FILE, which is your own"
                    )
            if recorded is None:
                read[name].endpoint(name)
            elif not recorded.is_file():
                raise InvalidEndpoints(f"endpoint {name!r}: there is no file {recorded}")
        except ValidationError as fault:
            wrong = "; ".join(
                f"{'.'.join(map(str, error['loc']))} {error['msg']}".strip() for error in fault.errors()
            )
            raise InvalidEndpoints(f"endpoint {name!r}: {wrong}") from None
        except ValueError as fault:
            raise InvalidEndpoints(str(fault)) from None
    return read


def read_quotas(given: Mapping[str, Any]) -> dict[QuotaName, float | None]:
    """Reads quotas by name; null: no limit. Raises InvalidQuotas."""
    read: dict[QuotaName, float | None] = {}
    names: tuple[QuotaName, ...] = get_args(QuotaName)
    for name, limit in given.items():
        if name not in names:
            raise InvalidQuotas(f"there is no quota {name!r}: name some of {', '.join(names)}")
        whole = name not in ("model_cost_a_day", "requests")
        is_number = type(limit) is int or (type(limit) is float and math.isfinite(limit) and not whole)
        if limit is not None and not (is_number and 0 <= limit <= 2**53 and (limit or name != "requests")):
            least = (
                "a number above 0"
                if name == "requests"
                else f"{'an integer' if whole else 'a number'} from 0"
            )
            raise InvalidQuotas(f"the quota {name} is {least}, or null for no limit; got {limit!r:.40}")
        read[name] = limit
    return read


def read_prompts(folders: Mapping[str, Path]) -> dict[str, "Templates"]:
    """Reads sets of prompts from their directories, by name. Raises InvalidPrompts."""
    if not folders:
        return {}
    # Jinja is imported only where somebody has prompts of their own.
    from agents.llm.options import OURS
    from agents.llm.templates import read_templates

    read = {}
    for name, folder in folders.items():
        if _NAME.fullmatch(name) is None or name == OURS:
            raise InvalidPrompts(
                f"prompts {name!r}: a name has at most 64 letters, digits, dots, dashes and underscores, "
                f"begins with a letter or a digit, and is not {OURS}, the name of the package's prompts"
            )
        try:
            read[name] = read_templates(folder)
        except ValueError as fault:
            raise InvalidPrompts(f"prompts {name!r}: {fault}") from None
    return read


class Settings(BaseSettings):
    """The variable ``INTERINTENT_<FIELD>`` sets each field; ``database_url`` is set by ``DATABASE_URL``."""

    model_config = SettingsConfigDict(
        env_prefix="INTERINTENT_",
        env_file=".env",
        extra="ignore",
        frozen=True,
        # An error message about a wrong key must not repeat it.
        hide_input_in_errors=True,
    )

    database_url: str = Field(
        "sqlite+aiosqlite:///interintent.db",
        validation_alias="DATABASE_URL",
        description="SQLite file or PostgreSQL; `postgresql://` and `sqlite:///` are understood too.",
    )
    host: str = Field(
        "127.0.0.1", description="Address to listen on. Anything but loopback needs an API key."
    )
    port: int = Field(8000, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    api_key: SecretStr | None = Field(
        None,
        description="The operator's key, with every scope. If it is unset and the database has no key, no "
        "credential is needed, and only loopback is served.",
    )
    token_secrets: Annotated[tuple[SecretStr, ...], NoDecode] = Field(
        (),
        description="The secrets of seat and watch tokens, separated by commas: the first signs, all "
        "verify. Unset: one is made at the first start and kept in the database.",
    )
    origins: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="Web origins that may call the service from a browser, separated by commas."
    )
    proxies: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="Addresses and networks of proxies in front, separated by commas, whose X-Forwarded-For "
        "names the client.",
    )
    parallel_games: int = Field(64, ge=1, le=10_000, description="Games driven at the same time.")
    stale_s: float = Field(
        30.0,
        ge=2,
        description="PostgreSQL: seconds after which other processes take over the games of one that died or "
        "hangs. A process whose own loop hangs for so long ends.",
    )
    patience_s: float = Field(
        30.0,
        ge=0.1,
        description="Seconds that a game waits for an answer of its remote seats before `work --until-empty` "
        "does not wait for it any more; on PostgreSQL it then leaves the memory, too.",
    )
    links: bool = Field(
        True,
        description="PostgreSQL: whether processes of one machine and user hand each other answers and "
        "events directly. Without it they go through the database, which takes longer.",
    )
    runner: bool = Field(True, description="Whether this process drives games.")
    models: Annotated[dict[str, Any], NoDecode] = Field(
        {}, repr=False, description="Model endpoints as a JSON object: their settings by name."
    )
    models_file: Path | None = Field(None, description="The same as a TOML file, one table per endpoint.")
    prompts: Annotated[dict[str, Path], NoDecode] = Field(
        {}, description="Directories of templates that seats may choose, as a JSON object: name to directory."
    )
    store_prompts: bool = Field(
        False,
        description="Store what models were asked, not only the answers. Takes several times the space.",
    )
    quotas: Annotated[dict[str, Any], NoDecode] = Field(
        {},
        description="What each owner may use, as a JSON object: limits by name of the quota, null for none. "
        "What is left out keeps its default; keys may have others.",
    )
    synchronous_full: bool = Field(
        False, description="SQLite: survive power loss too, not only the death of the process. Slower."
    )
    identify_within_s: float = Field(
        5.0, gt=0, description="Seconds that a socket may stay silent before it identifies."
    )
    idle_s: float = Field(25.0, gt=0, description="A silent socket gets a beat after this many seconds.")
    follow_blank_s: float = Field(
        10.0, gt=0, description="A silent NDJSON stream gets a blank line after this many seconds."
    )
    body_idle_s: float = Field(
        15.0, gt=0, description="A request's body is given up if no byte of it arrives for this many seconds."
    )
    body_within_s: float = Field(60.0, gt=0, description="Seconds that a request's body may take in all.")
    access_log: bool = Field(
        False, description="Log a line for each HTTP request: route, status and seconds, never a query."
    )
    drain_s: float = Field(
        5.0, ge=0, description="Seconds that open requests may take once a stop was asked for."
    )

    @field_validator("api_key")
    @classmethod
    def _no_empty_key(cls, key: SecretStr | None) -> SecretStr | None:
        # An empty KEY= in a file means that no key is set, not that the key is empty.
        return key if key is not None and key.get_secret_value() else None

    @field_validator("token_secrets")
    @classmethod
    def _long_secrets(cls, secrets: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
        if any(len(secret.get_secret_value()) < MIN_SECRET for secret in secrets):
            raise ValueError(
                f"a secret has at least {MIN_SECRET} characters; openssl rand -base64 48 makes one"
            )
        return secrets

    @field_validator("proxies")
    @classmethod
    def _addresses(cls, proxies: tuple[str, ...]) -> tuple[str, ...]:
        for proxy in proxies:
            try:
                network = ip_network(proxy)
            except ValueError:
                raise ValueError(
                    "a proxy is an address or a network, such as 127.0.0.1 or 10.0.0.0/8"
                ) from None
            if network.prefixlen == 0:
                raise ValueError("a network of all addresses would believe whatever a caller says of itself")
        return proxies

    @field_validator("origins", "proxies", "token_secrets", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return (
            tuple(filter(None, (part.strip() for part in value.split(","))))
            if isinstance(value, str)
            else value
        )

    @field_validator("models", "prompts", "quotas", mode="before")
    @classmethod
    def _read_object(cls, value: object, field: ValidationInfo) -> object:
        if not isinstance(value, str):
            return value
        try:
            read = json.loads(value or "{}")
        except json.JSONDecodeError:
            read = None
        if not isinstance(read, dict):
            of = {"models": "endpoints", "prompts": "directories"}.get(str(field.field_name), "limits")
            raise ValueError(f"INTERINTENT_{str(field.field_name).upper()} is a JSON object of {of} by name")
        return read

    @model_validator(mode="after")
    def _models_are_sound(self) -> Self:
        self.endpoints()
        return self

    @model_validator(mode="after")
    def _prompts_are_sound(self) -> Self:
        self.templates()
        return self

    @model_validator(mode="after")
    def _quotas_are_sound(self) -> Self:
        self.owner_quotas()
        return self

    def owner_quotas(self) -> dict[QuotaName, float | None]:
        """The quotas of every owner that has no others. Raises InvalidQuotas."""
        return {**DEFAULT_QUOTAS, **read_quotas(self.quotas)}

    def templates(self) -> dict[str, "Templates"]:
        """The configured prompts by name, read now. Raises InvalidPrompts."""
        return read_prompts(self.prompts)

    def endpoints(self) -> dict[str, EndpointSettings]:
        """The configured model endpoints by name. Raises InvalidEndpoints."""
        return read_endpoints(self.models, self.models_file)

    @field_validator("database_url")
    @classmethod
    def _with_driver(cls, url: str) -> str:
        # Imported here: commands that need no database should not wait for it.
        from sqlalchemy.engine import make_url
        from sqlalchemy.exc import ArgumentError

        scheme, separator, rest = url.partition("://")
        drivers = {
            "postgres": "postgresql+asyncpg",
            "postgresql": "postgresql+asyncpg",
            "sqlite": "sqlite+aiosqlite",
        }
        if not separator or drivers.get(scheme, scheme) not in drivers.values():
            raise ValueError("DATABASE_URL starts with sqlite:/// or postgresql://")
        made = f"{drivers.get(scheme, scheme)}://{rest}"
        try:
            read = make_url(made)
        except (ArgumentError, ValueError):  # whose messages quote it
            raise ValueError("DATABASE_URL reads postgresql://user:password@host:5432/name") from None
        if scheme.startswith("sqlite") and (not read.database or ":memory:" in read.database):
            raise ValueError("DATABASE_URL names no file: sqlite:///games.db, for example")
        # libpq's name for it, which most hosts of databases give
        query = {"ssl" if name == "sslmode" else name: value for name, value in read.query.items()}
        known = _URL_PARAMETERS if scheme.startswith("postgres") else query if "uri" in query else ()
        if unknown := sorted(set(query) - set(known)):
            raise ValueError(f"DATABASE_URL has parameters that are not understood: {', '.join(unknown)}")
        if "sslmode" not in read.query:
            return made
        return read.set(query=query).render_as_string(hide_password=False)
