"""Exports straight from a database, without a running service."""

from collections.abc import AsyncIterator
from typing import Final

from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError

from app.errors import InvalidRequest, NotFound
from app.services import Services
from app.settings import Settings
from app.store.db import sqlite_exists
from app.store.log import game_texts
from engine.terms import FULL, PUBLIC
from engine.view import read_viewer

EXPORT_DAMAGED: Final = b'{"t":"export.damaged"'
"""How the line of an export begins that names a game which does not read."""

__all__ = ["EXPORT_DAMAGED", "export_lines", "needs_database"]


async def export_lines(settings: Settings, what: str, view: str, *, partial: bool) -> AsyncIterator[bytes]:
    """A batch's or a game's lines. Raises NotFound, InvalidInput or Unfinished."""
    needs_database(settings)
    services = Services(settings)
    try:
        if what.startswith("b_"):
            if view not in ("public", "full"):
                raise InvalidRequest(f"a batch is exported for public or full, got {view!r}", "/view")
            viewer = FULL if view == "full" else PUBLIC
            async for line in services.games.export(what, viewer, 0, partial=partial):
                yield line
        elif what.startswith("g_"):
            row = await services.games.row(what)
            viewer = read_viewer(view, row["players"])
            for text in await game_texts(services.reader, what, viewer):
                yield text
        else:
            raise InvalidRequest(f"a batch's id starts with b_, a game's with g_; got {what!r}")
    except DBAPIError as fault:
        raise NotFound(f"the database cannot be read: {fault.orig}") from None
    except ConnectionError as fault:
        raise NotFound(f"the database cannot be reached: {fault}") from None
    finally:
        await services.database.stop()


def needs_database(settings: Settings) -> None:
    """Raises NotFound where there is no database to read."""
    # SQLite would make an empty one.
    if settings.database_url.startswith("sqlite") and not sqlite_exists(settings.database_url):
        file = make_url(settings.database_url).database
        raise NotFound(f"there is no database {file}; name it with --database-url or DATABASE_URL")
