"""How many bytes each table takes, with its indexes."""

from sqlalchemy import text

from app.store.db import Database

__all__ = ["table_bytes"]

_SQLITE = text(
    "SELECT tables.tbl_name, sum(dbstat.pgsize) FROM dbstat "
    "JOIN sqlite_master AS tables ON tables.name = dbstat.name "
    "WHERE dbstat.aggregate = TRUE GROUP BY tables.tbl_name ORDER BY 2 DESC"
)
_POSTGRES = text(
    "SELECT relname, pg_total_relation_size(oid) FROM pg_class "
    "WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace ORDER BY 2 DESC"
)


async def table_bytes(database: Database) -> dict[str, int]:
    """The bytes of each table, the largest first. On SQLite every page of the file is looked at."""
    rows = await database.rows(_SQLITE if database.is_sqlite else _POSTGRES)
    return {str(name): int(size) for name, size in rows}
