"""Runs the migrations: on the service's own connection at start, or alone from the command line."""

import asyncio

from alembic import context
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import create_async_engine

from app.settings import Settings
from app.store import tables as tables  # fills the metadata
from app.store.rows import METADATA


def _migrate(connection: Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=METADATA,
        render_as_batch=connection.dialect.name == "sqlite",
        compare_type=True,
    )
    with context.begin_transaction():
        context.run_migrations()


async def _migrate_alone() -> None:
    engine = create_async_engine(Settings().database_url)
    async with engine.begin() as connection:
        await connection.run_sync(_migrate)
    await engine.dispose()


given = context.config.attributes.get("connection")
if given is not None:
    _migrate(given)
else:
    asyncio.run(_migrate_alone())
