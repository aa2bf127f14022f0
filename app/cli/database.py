"""Access of commands to settings and to a database, without a running service."""

import asyncio
import os
import pwd
import sqlite3
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import asyncpg  # type: ignore[import-untyped]
from pydantic import ValidationError
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError

from app.base.errors import NotFound
from app.cli.terminal import fail
from app.settings import InvalidEndpoints, Settings
from app.store.db import Database, sqlite_exists
from app.store.schema import UnknownSchema
from app.store.trouble import trouble_of
from engine.errors import AvalonError

if TYPE_CHECKING:
    from app.main import Composition

__all__ = [
    "CANNOT_BE_USED",
    "DELETED",
    "finished_games",
    "on_database",
    "on_tables",
    "operator",
    "read_settings",
    "run_or_fail",
]

T = TypeVar("T")

CANNOT_BE_USED: Final = (SQLAlchemyError, sqlite3.Error, asyncpg.PostgresError, ConnectionError)
"""What a database raises that cannot be used."""

DELETED: Final = "deleted meanwhile"
"""Why a game is left out that was there when its batch's games were listed."""


def read_settings(database_url: str | None = None, **options: Any) -> Settings:
    """The settings from the environment, overridden by the command's options. Ends the command if they are
    invalid.
    """
    if database_url is not None:
        options["DATABASE_URL"] = database_url
    try:
        return Settings(**options)
    except ValidationError as fault:
        fail("; ".join(_words(error["loc"], error["msg"]) for error in fault.errors()))
    except InvalidEndpoints as fault:
        fail(str(fault))


def _words(place: Sequence[str | int], message: str) -> str:
    """What is wrong with a setting, with its name in front."""
    name = ".".join(map(str, place))
    words = message.removeprefix("Value error, ")  # how Pydantic opens our own words
    return words if words.startswith(name) else f"{name}: {words}"


def operator() -> str:
    """The user of the operating system who gives the command, for the record, whatever the environment says.
    In a container it may have nothing but a number.
    """
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"


def run_or_fail(
    work: Coroutine[Any, Any, T], loop: Callable[[], asyncio.AbstractEventLoop] | None = None
) -> T:
    """The result of the work. Ends the command if the work is refused. ``loop``: makes the event loop; None:
    the usual one.
    """
    try:
        with asyncio.Runner(loop_factory=loop) as runner:
            return runner.run(work)
    except AvalonError as fault:
        fail(str(fault))


@asynccontextmanager
async def on_database(
    settings: Settings, *, writes: bool = False, makes: bool = False
) -> AsyncIterator["Composition"]:
    """The parts of a service, without starting the service. They are stopped at the end of the block.

    From the block's first line on, ``now_ms`` is the database's time; before, it is only this machine's.
    ``writes``: the schema is migrated. ``makes``: a missing database is created. Raises NotFound for a
    database that does not exist or cannot be used; then the cause is the database's own error.
    """
    from app.main import Composition

    with _plain_faults(settings, makes=makes):
        parts = Composition(settings)
        try:
            await _ready(parts.database, writes=writes, makes=makes)
            yield parts
        finally:
            # Calls to models are paid for: their answers are awaited and stored.
            await parts.models.stop(settings.drain_s)
            await parts.database.stop()


@asynccontextmanager
async def on_tables(
    settings: Settings, *, writes: bool = False, makes: bool = False, looks: bool = True
) -> AsyncIterator[Database]:
    """As ``on_database``, for commands that need nothing but the database. ``looks``: whether the schema is
    looked at first; not by a command that says itself what is wrong with it.
    """
    with _plain_faults(settings, makes=makes):
        database = Database(settings)
        try:
            if looks:
                await _ready(database, writes=writes, makes=makes)
            yield database
        finally:
            await database.stop()


async def _ready(database: Database, *, writes: bool, makes: bool) -> None:
    if writes:
        await database.start()
    elif makes:  # a look would make the file; what migrates or restores stores no times
        return
    else:
        database.read_what_is_left()
        await database.schema()
    await database.agree_on_time()


@contextmanager
def _plain_faults(settings: Settings, *, makes: bool) -> Iterator[None]:
    url = settings.database_url
    # SQLite would create a missing file.
    if not makes and url.startswith("sqlite") and not sqlite_exists(url):
        raise NotFound(
            f"there is no database {make_url(url).database}; name it with --database-url or DATABASE_URL"
        )
    try:
        yield
    except UnknownSchema as fault:
        raise NotFound(str(fault)) from None
    except CANNOT_BE_USED as fault:
        place, why = make_url(url), getattr(fault, "orig", None) or fault
        if isinstance(why, asyncpg.PostgresError):
            why = why.args[0]  # its details may quote rows
        name = place.set(drivername=place.get_backend_name()).render_as_string()
        trouble = trouble_of(fault)
        advice = "" if trouble is None else f": {trouble.advice}"
        raise NotFound(f"{name} cannot be used ({why}){advice}") from fault


async def finished_games(parts: "Composition", batch: str, *, invalid: bool = True) -> list[str]:
    """The ids of a batch's finished games, in the batch's order; with ``invalid``, those marked as invalid,
    too. Raises NotFound for an unknown batch.
    """
    if await parts.store.batch(batch) is None:
        raise NotFound(f"there is no batch {batch}")
    return await parts.store.ids(batch, status=("finished",), invalid=invalid)
