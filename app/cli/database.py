"""Commands that work on a database while no service need run."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError

from app.base.errors import NotFound
from app.cli.terminal import fail
from app.settings import InvalidEndpoints, Settings
from app.store.db import sqlite_exists
from engine.errors import AvalonError

if TYPE_CHECKING:
    from app.main import Composition

__all__ = ["on_database", "read_settings", "run_or_fail"]

T = TypeVar("T")


def read_settings(database_url: str | None = None, **options: Any) -> Settings:
    """The settings of the environment, with the command's options in their place. Ends the command for wrong
    ones.
    """
    if database_url is not None:
        options["DATABASE_URL"] = database_url
    try:
        return Settings(**options)
    except ValidationError as fault:
        fail("; ".join(f"{'.'.join(map(str, error['loc']))}: {error['msg']}" for error in fault.errors()))
    except InvalidEndpoints as fault:
        fail(str(fault))


def run_or_fail(work: Coroutine[Any, Any, T]) -> T:
    """The result of the work. Ends the command where the work is refused."""
    try:
        return asyncio.run(work)
    except AvalonError as fault:
        fail(str(fault))


def _need_database(settings: Settings) -> None:
    """Raises NotFound where there is no database: SQLite would make an empty one."""
    if settings.database_url.startswith("sqlite") and not sqlite_exists(settings.database_url):
        file = make_url(settings.database_url).database
        raise NotFound(f"there is no database {file}; name it with --database-url or DATABASE_URL")


@asynccontextmanager
async def on_database(
    settings: Settings, *, writes: bool = False, makes: bool = False
) -> AsyncIterator["Composition"]:
    """The parts of a service that is not started; they are stopped at the end.

    ``writes``: the schema is brought up to date. ``makes``: the database may be new. Raises NotFound for a
    database that is not there or cannot be used.
    """
    from app.main import Composition

    if not makes:
        _need_database(settings)
    parts = Composition(settings)
    try:
        if writes:
            await parts.database.start()
        yield parts
    except SQLAlchemyError as fault:
        raise NotFound(f"the database cannot be used: {getattr(fault, 'orig', None) or fault}") from None
    except ConnectionError as fault:
        raise NotFound(f"the database cannot be reached: {fault}") from None
    finally:
        # A call to a model is paid for: its answer is awaited and stored.
        await parts.models.stop(settings.drain_s)
        await parts.database.stop()
