"""Commits to an SQLite file: small ones on the event loop, all others on a thread."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Column, Integer, MetaData, String, Table, insert

from app.settings import Settings
from app.store import sqlite
from app.store.sqlite import CHECKPOINT, SMALL, TURNS, SqliteCommits

SOON_S = 30.0
"""Far more than anything here takes."""

ROWS = Table("rows", MetaData(), Column("number", Integer, primary_key=True), Column("word", String))
INSERT = insert(ROWS)
PAGE = 4_096
"""Bytes of a page; in the write-ahead log it has a head of 24 more."""


class Row(dict[str, Any]):
    """A row that remembers in which thread it was read."""

    def __init__(self, number: int, word: str = "") -> None:
        super().__init__(number=number, word=word)
        self.thread = 0

    def __getitem__(self, name: str) -> Any:
        self.thread = threading.get_ident()
        return super().__getitem__(name)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "some.db"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE rows (number INTEGER PRIMARY KEY, word TEXT)")
    connection.close()
    return path


@pytest.fixture
async def commits(file: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SqliteCommits]:
    monkeypatch.setattr(sqlite, "SLOW_S", SOON_S)  # the machine may stand still for a moment
    commits = SqliteCommits(f"sqlite:///{file}", Settings())
    yield commits
    await commits.stop()


async def commit(commits: SqliteCommits, rows: Sequence[Row]) -> bool:
    """Commits the rows. Returns whether the loop did it itself."""
    async with asyncio.timeout(SOON_S):
        await commits.commit([(INSERT, list(rows))])
    return rows[-1].thread == threading.get_ident()


async def warm(commits: SqliteCommits) -> int:
    """Commits what the thread has to. Returns the next free number."""
    for number in range(2):
        assert not await commit(commits, [Row(number)])
    return 2


def stored(file: Path) -> int:
    connection = sqlite3.connect(file)
    ((count,),) = connection.execute("SELECT count(*) FROM rows")
    connection.close()
    return int(count)


async def test_small_commits_are_the_loops_and_large_ones_the_threads(
    commits: SqliteCommits, file: Path
) -> None:
    first = await warm(commits)
    assert await commit(commits, [Row(first)])
    assert await commit(commits, [Row(number) for number in range(1_000, 1_000 + SMALL)])
    assert not await commit(commits, [Row(number) for number in range(2_000, 2_001 + SMALL)])
    assert await commit(commits, [Row(3_000)])
    assert stored(file) == first + 1 + SMALL + SMALL + 1 + 1


async def test_the_loop_goes_on_while_somebody_else_writes(commits: SqliteCommits, file: Path) -> None:
    first = await warm(commits)
    assert await commit(commits, [Row(first)])
    # How long a commit on the loop waits for a lock: a loop that stood still would only be slow here.
    assert commits._connected().execute("PRAGMA busy_timeout").fetchone() == (0,)
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    waiting = asyncio.create_task(commit(commits, [Row(first + 1)]))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    other.execute("COMMIT")
    assert not await waiting
    assert stored(file) == first + 2
    assert await commit(commits, [Row(first + 2)])
    other.close()


async def test_the_loop_waits_for_nobody_who_uses_the_connection(commits: SqliteCommits) -> None:
    first = await warm(commits)
    with commits._using:
        waiting = asyncio.create_task(commit(commits, [Row(first)]))
        await asyncio.sleep(0.05)
        assert not waiting.done()
    assert not await waiting
    assert await commit(commits, [Row(first + 1)])


async def test_a_look_at_the_version_between_commits_waits_as_before(commits: SqliteCommits) -> None:
    first = await warm(commits)
    assert await commit(commits, [Row(first)])
    before = await commits.version()
    assert commits._connected().execute("PRAGMA busy_timeout").fetchone() == (sqlite.LOCK_WITHIN_S * 1000,)
    assert await commit(commits, [Row(first + 1)])
    assert await commits.version() == before  # its own commits change nothing


async def test_after_a_slow_commit_the_thread_has_the_next_ones(
    commits: SqliteCommits, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await warm(commits)
    monkeypatch.setattr(sqlite, "SLOW_S", -1.0)
    monkeypatch.setattr(sqlite, "SLOW_TURNS", 5)
    assert await commit(commits, [Row(first)])
    here = [await commit(commits, [Row(first + 1 + number)]) for number in range(8)]
    assert here == [False] * 7 + [True]  # five for the slow one, and two as at every beginning


async def test_what_waits_for_the_disk_is_the_threads(file: Path) -> None:
    commits = SqliteCommits(f"sqlite:///{file}", Settings(synchronous_full=True))
    assert not any([await commit(commits, [Row(number)]) for number in range(10)])
    await commits.stop()


async def test_a_conflict_on_the_loop_commits_nothing(commits: SqliteCommits, file: Path) -> None:
    first = await warm(commits)
    for again in (0, 1):
        with pytest.raises(Exception, match="UNIQUE") as caught:
            await commit(commits, [Row(first + 10 + again, "secret"), Row(0, "secret")])
        assert "secret" not in str(caught.value)
    assert stored(file) == first
    assert await commit(commits, [Row(first)])


async def test_the_write_ahead_log_stays_short(commits: SqliteCommits, file: Path) -> None:
    """Although the loop never moves what it has committed into the file."""
    count = 60 * TURNS
    assert count * 2 > 2 * CHECKPOINT  # pages at least, if nothing were moved
    for number in range(count):
        await commit(commits, [Row(number, "x" * 2_000)])
    pages = Path(f"{file}-wal").stat().st_size / PAGE
    assert pages < CHECKPOINT + 6 * TURNS
    assert stored(file) == count
