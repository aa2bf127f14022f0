"""Databases with the newest schema and nothing in them: made once, then copied.

A service's first start would make them, in more time than many a test takes.
"""

import asyncio
import tempfile
from functools import cache
from pathlib import Path

from app.settings import Settings
from app.store.db import Database

__all__ = ["lay_out", "migrate"]


def migrate(url: str) -> None:
    """Brings the database to the newest schema, as a start of the service does."""

    async def start_and_stop() -> None:
        database = Database(Settings(_env_file=None, DATABASE_URL=url))
        await database.start()
        await database.stop()

    asyncio.run(start_and_stop())


@cache
def _pattern() -> bytes:
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "pattern.sqlite"
        migrate(f"sqlite:///{file}")
        return file.read_bytes()


def lay_out(file: Path) -> None:
    """Makes an SQLite database there. Needs a thread without an event loop."""
    file.write_bytes(_pattern())
