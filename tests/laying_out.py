"""Empty databases with the newest schema, which are made once and then copied.

The first start of a service would make them as well, but takes longer than many tests.
"""

import asyncio
import tempfile
from functools import cache
from pathlib import Path

from app.settings import Settings
from app.store.db import Database

__all__ = ["lay_out", "migrate"]


def migrate(url: str) -> None:
    """Brings the database to the newest schema, as the service does when it starts."""

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
    """Makes an SQLite database in this file. Must be called in a thread without an event loop."""
    file.write_bytes(_pattern())
