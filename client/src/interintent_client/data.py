"""Data sets that ``interintent dataset`` wrote, as typed tables; with the extra ``interintent-client[data]``.

data = load("my-games")
turns = data.turns.to_pandas()
for batch in data.batches("turns"):
    ...
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

if TYPE_CHECKING:
    import pyarrow

__all__ = ["DataSet", "NotADataSet", "TableName", "load"]

TableName = Literal[
    "games",
    "seats",
    "turns",
    "beliefs",
    "intentions",
    "votes",
    "quests",
    "calls",
    "items",
    "contexts",
    "judgements",
    "statements",
    "answers",
]
"""The tables of a data set; its README.md explains their columns."""

TABLES: Final[tuple[TableName, ...]] = get_args(TableName)


class NotADataSet(ValueError):
    """The folder holds no data set, or one of which a file is missing or altered."""


@dataclass(frozen=True)
class DataSet:
    """One data set. A table is read when it is asked for, and not kept."""

    folder: Path
    about: Mapping[str, Any]
    """Its Croissant metadata: title, licence, files with their hashes, columns."""

    @property
    def license(self) -> str | None:
        """The licence that its makers gave; None: none."""
        given = self.about.get("license")
        return None if given is None else str(given)

    def table(self, name: TableName, columns: list[str] | None = None) -> "pyarrow.Table":
        """One table, or some of its columns, as an Arrow table (``.to_pandas()``, ``.to_pylist()``)."""
        from pyarrow.parquet import read_table

        return read_table(self._file(name), columns=columns)

    def batches(self, name: TableName, rows: int = 10_000) -> "Iterator[pyarrow.RecordBatch]":
        """The table in pieces of at most so many rows, for data sets that do not fit into memory."""
        from pyarrow.parquet import ParquetFile

        with ParquetFile(self._file(name)) as file:
            yield from file.iter_batches(rows)

    @property
    def games(self) -> "pyarrow.Table":
        return self.table("games")

    @property
    def seats(self) -> "pyarrow.Table":
        return self.table("seats")

    @property
    def turns(self) -> "pyarrow.Table":
        return self.table("turns")

    @property
    def beliefs(self) -> "pyarrow.Table":
        return self.table("beliefs")

    @property
    def items(self) -> "pyarrow.Table":
        return self.table("items")

    @property
    def judgements(self) -> "pyarrow.Table":
        return self.table("judgements")

    def _file(self, name: TableName) -> Path:
        if name not in TABLES:
            raise NotADataSet(f"no table is called {name!r}; the tables are {', '.join(TABLES)}")
        return self.folder / f"{name}.parquet"


def load(folder: str | Path) -> DataSet:
    """Opens a data set. Raises NotADataSet for a folder of something else, or one that lacks a table, and
    ModuleNotFoundError without pyarrow.
    """
    try:
        import pyarrow.parquet  # noqa: F401
    except ModuleNotFoundError as fault:
        raise ModuleNotFoundError("data sets need pyarrow: pip install pyarrow", name=fault.name) from None
    folder = Path(folder)
    try:
        about = json.loads((folder / "croissant.json").read_text("utf-8"))
    except (OSError, ValueError) as fault:
        raise NotADataSet(
            f"{folder} holds no data set: its croissant.json cannot be read ({fault})"
        ) from None
    missing = [name for name in TABLES if not (folder / f"{name}.parquet").is_file()]
    if missing:
        raise NotADataSet(f"{folder} lacks the tables {', '.join(missing)}")
    return DataSet(folder, about)
