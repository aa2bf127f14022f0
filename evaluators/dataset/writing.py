"""Writes the tables of a data set as Parquet, a row group at a time, so memory does not grow with the number
of games. Equal rows in equal order give equal bytes.
"""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from evaluators.dataset.columns import TABLES, TableSpec
from evaluators.dataset.rows import Row

if TYPE_CHECKING:
    import pyarrow
    from pyarrow.parquet import ParquetWriter

__all__ = ["TableWriter", "digest_of", "file_of", "schema_of"]

GROUP_ROWS: Final = 5_000
GROUP_BYTES: Final = 4 << 20
"""A row group is written once it has this many rows, or this much text."""


def file_of(table: str) -> str:
    """The name of a table's file within the data set."""
    return f"{table}.parquet"


def schema_of(table: TableSpec) -> "pyarrow.Schema":
    """The table's Arrow schema; every column carries its meaning, its unit and its audience."""
    import pyarrow as pa

    fields = []
    for column in table.columns:
        about = {"description": column.meaning, "unit": column.unit, "seen_by": column.seen_by}
        about = {name: text for name, text in about.items() if text}
        fields.append(pa.field(column.name, _type(column.type), metadata=about))
    return pa.schema(fields)


def _type(written: str) -> Any:
    """Reads the name of an Arrow type, as columns have it. Raises ValueError for anything else."""
    import pyarrow as pa

    if written.startswith("list<") and written.endswith(">"):
        return pa.list_(_type(written[5:-1]))
    if written.startswith("{") and written.endswith("}"):
        parts = [part.partition(": ") for part in written[1:-1].split(", ")]
        return pa.struct([pa.field(name, _type(inner)) for name, _, inner in parts])
    plain = {
        "string": pa.string(),
        "bool": pa.bool_(),
        "int32": pa.int32(),
        "int64": pa.int64(),
        "float64": pa.float64(),
    }
    if written not in plain:
        raise ValueError(f"no column has the type {written!r}")
    return plain[written]


class TableWriter:
    """The open tables of one data set. Close it, or use it in a ``with`` block."""

    def __init__(self, folder: Path) -> None:
        """``folder`` exists and is empty."""
        self._folder = folder
        self._writers: dict[str, ParquetWriter] = {}
        self._waiting: dict[str, list[Row]] = {}
        self._bytes: dict[str, int] = {}
        self._schemas = {table.name: schema_of(table) for table in TABLES}
        self.rows: dict[str, int] = {table.name: 0 for table in TABLES}
        """By table."""

    def __enter__(self) -> "TableWriter":
        from pyarrow.parquet import ParquetWriter

        try:
            for table in TABLES:
                self._writers[table.name] = ParquetWriter(
                    self._folder / file_of(table.name), self._schemas[table.name], compression="zstd"
                )
                self._waiting[table.name] = []
                self._bytes[table.name] = 0
        except BaseException:
            self._discard()
            raise
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            for name, writer in self._writers.items():
                if kind is None:
                    self._flush(name)
                    writer.close()
        finally:
            self._discard()

    def _discard(self) -> None:
        for writer in self._writers.values():
            # pyarrow would close it once more, and print that this failed.
            writer.is_open = False

    def add(self, tables: Mapping[str, Iterable[Row]]) -> None:
        """Adds rows to tables, by the tables' names."""
        for name, rows in tables.items():
            for row in rows:
                self._waiting[name].append(row)
                self.rows[name] += 1
                self._bytes[name] += sum(len(value) for value in row.values() if isinstance(value, str))
            if len(self._waiting[name]) >= GROUP_ROWS or self._bytes[name] >= GROUP_BYTES:
                self._flush(name)

    def _flush(self, name: str) -> None:
        import pyarrow as pa

        if self._waiting[name]:
            table = pa.Table.from_pylist(self._waiting[name], schema=self._schemas[name])
            self._writers[name].write_table(table)
        self._waiting[name] = []
        self._bytes[name] = 0


def digest_of(file: Path) -> str:
    """The SHA-256 of a file, in hex."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
