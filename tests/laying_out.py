"""Empty databases with the newest schema, which are made once and then copied.

The first start of a service would make them as well, but takes longer than many tests.
"""

import asyncio
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from sqlalchemy import make_url

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
    with tempfile.TemporaryDirectory() as directory, ThreadPoolExecutor(1) as thread:
        file = Path(directory) / "pattern.sqlite"
        # In a thread of its own, since this one may run a loop.
        thread.submit(migrate, f"sqlite:///{file}").result()
        return file.read_bytes()


def lay_out(url: str) -> None:
    """Makes the SQLite file that this URL names, with the newest schema, unless it exists. Does nothing for
    any other database.
    """
    address = make_url(url)
    if address.get_backend_name() == "sqlite" and address.database not in (None, "", ":memory:"):
        file = Path(str(address.database))
        if not file.exists():
            file.write_bytes(_pattern())
