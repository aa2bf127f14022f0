"""What an operator may set: environment variables, or a ``.env`` file beside the service."""

import json
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from app.models.endpoints import EndpointSettings, read_endpoints
from app.tokens import MIN_SECRET

__all__ = ["Settings", "is_loopback"]


class Settings(BaseSettings):
    """Each field is the variable ``INTERINTENT_<FIELD>``; the database is ``DATABASE_URL`` as everywhere."""

    model_config = SettingsConfigDict(
        env_prefix="INTERINTENT_",
        env_file=".env",
        extra="ignore",
        frozen=True,
        # A key must not stand in the message about a wrong one.
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
        description="The operator's key, with every scope. Unset, and no key in the database: no credential "
        "is asked for, and only loopback is served.",
    )
    token_secrets: Annotated[tuple[SecretStr, ...], NoDecode] = Field(
        (),
        description="What seat and watch tokens are signed with, separated by commas: the first signs, all "
        "verify. Unset: one is made at the first start and kept in the database.",
    )
    origins: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="Web origins that may call the service from a browser, separated by commas."
    )
    parallel_games: int = Field(64, ge=1, le=10_000, description="Games driven at the same time.")
    runner: bool = Field(True, description="Whether this process drives games.")
    models: Annotated[dict[str, Any], NoDecode] = Field(
        {}, repr=False, description="Model endpoints as a JSON object: their settings by name."
    )
    models_file: Path | None = Field(None, description="The same as a TOML file, one table an endpoint.")
    store_prompts: bool = Field(
        False, description="Keep what models were asked, beside what they answered. Several times the room."
    )
    synchronous_full: bool = Field(
        False, description="SQLite: survive power loss too, not only the death of the process. Slower."
    )
    identify_within_s: float = Field(
        5.0, gt=0, description="How long a socket may stay silent before it identifies."
    )
    idle_s: float = Field(25.0, gt=0, description="A silent socket gets a beat after so long.")
    follow_blank_s: float = Field(
        10.0, gt=0, description="A silent NDJSON stream gets a blank line after so long."
    )
    body_idle_s: float = Field(
        15.0, gt=0, description="A request's body is given up when no byte of it has come for so long."
    )
    body_within_s: float = Field(60.0, gt=0, description="How long a request's body may take in all.")
    drain_s: float = Field(
        5.0, ge=0, description="How long open requests may take after a stop was asked for."
    )

    @field_validator("api_key")
    @classmethod
    def _no_empty_key(cls, key: SecretStr | None) -> SecretStr | None:
        # KEY= in a file means that none is set, not that nothing is the key.
        return key if key is not None and key.get_secret_value() else None

    @field_validator("token_secrets")
    @classmethod
    def _long_secrets(cls, given: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
        if any(len(secret.get_secret_value()) < MIN_SECRET for secret in given):
            raise ValueError(
                f"a secret has at least {MIN_SECRET} characters; openssl rand -base64 48 makes one"
            )
        return given

    @field_validator("origins", "token_secrets", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return (
            tuple(filter(None, (part.strip() for part in value.split(","))))
            if isinstance(value, str)
            else value
        )

    @field_validator("models", mode="before")
    @classmethod
    def _read_models(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        try:
            read = json.loads(value or "{}")
        except json.JSONDecodeError:
            read = None
        if not isinstance(read, dict):
            raise ValueError("INTERINTENT_MODELS is a JSON object of endpoints by name")
        return read

    @model_validator(mode="after")
    def _models_are_sound(self) -> Self:
        self.endpoints()
        return self

    def endpoints(self) -> dict[str, EndpointSettings]:
        """The model endpoints there are, by name. Raises InvalidEndpoints."""
        return read_endpoints(self.models, self.models_file)

    @field_validator("database_url")
    @classmethod
    def _with_driver(cls, url: str) -> str:
        scheme, found, rest = url.partition("://")
        drivers = {
            "postgres": "postgresql+asyncpg",
            "postgresql": "postgresql+asyncpg",
            "sqlite": "sqlite+aiosqlite",
        }
        if not found or drivers.get(scheme, scheme) not in drivers.values():
            raise ValueError("DATABASE_URL starts with sqlite:/// or postgresql://")
        return f"{drivers.get(scheme, scheme)}://{rest}"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server that listens there."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
