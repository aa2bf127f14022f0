"""Runs the migrations: on the service's own connection at start, or alone from the command line."""

import asyncio

from alembic import context
from alembic.util import CommandError
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


def _refuse_to_drop() -> None:
    """A downgrade drops tables and columns with all that is in them, so it has to be asked for by name."""
    command = getattr(context.config.cmd_opts, "cmd", None)
    if (
        command
        and command[0].__name__ == "downgrade"
        and "drop=games" not in (context.config.cmd_opts.x or ())
    ):
        raise CommandError(
            "a downgrade drops stored games and scores: restore a backup instead (interintent restore), or "
            "say alembic -x drop=games downgrade … on a scratch database"
        )


_refuse_to_drop()
given = context.config.attributes.get("connection")
if given is not None:
    _migrate(given)
else:
    asyncio.run(_migrate_alone())
