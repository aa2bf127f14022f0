"""Services with a fake model behind them."""

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from sqlalchemy import func, select

from app.instruments.fake_model import FakeModel, FakeOptions
from app.store.db import Database
from app.store.tables import model_calls
from tests.app.calling import Caller, calling
from tests.app.real_server import local_settings

LLM = [{"agent": "llm", "model": "fake"}]
COMPACT = [{"agent": "llm", "model": "fake", "mechanism": "compact"}]
EAGER = [{"agent": "llm", "model": "fake", "options": {"timing": "eager"}}]
DIRECT = [{"agent": "llm", "model": "fake", "mechanism": "direct"}]

PRICES = {"prompt": 1.0, "cached": 0.1, "completion": 2.0}


def endpoints(fake: FakeModel, **more: Any) -> dict[str, Any]:
    """The setting ``models`` with the fake model alone."""
    return {"fake": {"base_url": f"{fake.url}/v1", "model": "fake", "prices": PRICES, **more}}


def settings_file(directory: Path, fake: FakeModel, *more: str, **endpoint: Any) -> None:
    """Writes the ``.env`` of a process that asks this fake model, with further lines."""
    models = f"INTERINTENT_MODELS='{json.dumps(endpoints(fake, **endpoint))}'"
    (directory / ".env").write_text("".join(f"{line}\n" for line in (models, *more)))


@contextlib.asynccontextmanager
async def faking(options: FakeOptions | None = None) -> AsyncIterator[FakeModel]:
    """A fake model on a port."""
    fake = FakeModel(options)
    async with fake.serving():
        yield fake


@contextlib.asynccontextmanager
async def calling_with(fake: FakeModel, database_url: str, **settings: Any) -> AsyncIterator[Caller]:
    """A service that asks this fake model."""
    async with calling(database_url, **{"models": endpoints(fake), **settings}) as caller:
        yield caller


async def stored_calls(url: str) -> int:
    """The number of models' answers in a database, whichever process serves it."""
    database = Database(local_settings(url))
    try:
        async with database.read_engine.connect() as connection:
            query = select(func.count()).select_from(model_calls)
            return int((await connection.execute(query)).scalar_one())
    finally:
        await database.write_engine.dispose()
        await database.read_engine.dispose()
