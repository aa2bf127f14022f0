"""Old batches are deleted by age and label, and what is needed is kept and named."""

import asyncio
import contextlib
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from app.base.clock import Clock, now_ms, use_clock
from app.cli import prune as pruning
from app.store.tables import batches, games
from tests.app.calling import Caller, calling
from tests.app.games.test_deleting import everything, named
from tests.app.typed import interintent

DAY_MS = 86_400_000


async def age(caller: Caller, batch: str, days: int) -> None:
    """Makes the batch as old as that."""
    at = now_ms() - days * DAY_MS
    ended = sa.case((games.c.finished_at.is_(None), None), else_=at)
    of_games = sa.update(games).where(games.c.batch_id == batch).values(created_at=at, finished_at=ended)
    for statement in (sa.update(batches).where(batches.c.batch_id == batch).values(created_at=at), of_games):
        await caller.services.database.writer.execute(statement)


async def prune(url: str, *words: str) -> Any:
    result = await asyncio.to_thread(interintent, "prune", "--json", *words, "--database-url", url)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


async def test_batches_go_by_age_and_label_and_what_is_open_is_named(database_url: str) -> None:
    async with calling(database_url) as caller:
        old, _ = await caller.played(count=2, labels={"study": "a"})
        other, _ = await caller.played(count=1, labels={"study": "b"})
        young, _ = await caller.played(count=1, labels={"study": "a"})
        open_, [one] = await caller.create(drive="manual", labels={"study": "a"})
        for batch, days in ((old, 100), (other, 100), (young, 10), (open_, 100)):
            await age(caller, batch, days)
        before = await everything(database_url)
        words = ("--older-than", "90d", "--label", "study=a")
        told = await prune(database_url, *words, "--dry-run")
        assert (told["batches"], told["games"]) == (1, 2)
        assert told["kept"] == {open_: f"{one} is created: cancel it first, or wait for its end"}
        assert await everything(database_url) == before
        done = await prune(database_url, *words)
        assert done["bytes"] == told["bytes"] > 10_000
        assert {name: done[name] for name in ("batches", "games", "kept")} == {
            name: told[name] for name in ("batches", "games", "kept")
        }
        after = await everything(database_url)
        assert named(after, old) == {"audit", "deletions"}
        for batch in (other, young, open_):
            assert named(after, batch) >= {"batches", "games"}
        assert (await prune(database_url, "--older-than", "52w"))["batches"] == 0
        assert (await prune(database_url, "--older-than", "1w"))["batches"] == 2


@pytest.mark.parametrize("words", [(), ("--dry-run",)])
def test_age_goes_by_the_databases_clock_and_a_wrong_one_is_named(
    postgres_url: str, words: tuple[str, ...]
) -> None:
    class FarAhead(Clock):
        def now_ms(self) -> int:
            return super().now_ms() + 100 * DAY_MS

    async def play() -> None:
        async with calling(postgres_url) as caller:
            await caller.played(count=1)

    asyncio.run(play())
    with use_clock(FarAhead()):
        kept = interintent("prune", "--older-than", "90d", *words, "--database-url", postgres_url)
    assert "batches 0, games 0," in kept.stderr
    assert "the clock of this machine is wrong" in kept.stderr


async def test_the_log_of_the_queue_is_emptied(postgres_url: str) -> None:
    async with calling(postgres_url) as caller:
        await caller.played(count=2)
        lines = sa.text("SELECT count(*) FROM pgqueuer_log")
        assert (await caller.services.database.column(lines))[0] > 0
        await prune(postgres_url, "--older-than", "90d", "--dry-run")
        assert (await caller.services.database.column(lines))[0] > 0
        await prune(postgres_url, "--older-than", "90d")
        assert (await caller.services.database.column(lines))[0] == 0


async def test_the_file_gets_smaller_when_asked_to(tmp_path: Path) -> None:
    file = tmp_path / "games.sqlite"
    url = f"sqlite:///{file}"
    async with calling(url) as caller:
        batch, _ = await caller.played(count=40, seats=[{"agent": "random"}])
        await age(caller, batch, 2)
    full = file.stat().st_size
    words = ("prune", "--older-than", "1d", "--database-url", url)
    said = await asyncio.to_thread(interintent, *words)
    assert "deleted batches 1, games 40," in said.stderr
    assert "prune --vacuum shrinks it" in said.stderr
    await asyncio.to_thread(interintent, *words, "--vacuum")
    assert file.stat().st_size < full / 2


async def test_a_file_that_cannot_be_made_smaller_is_told_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "VACUUM_WITHIN_S", 0.05)
    file = tmp_path / "games.sqlite"
    url = f"sqlite:///{file}"
    async with calling(url):
        pass
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        words = ("prune", "--older-than", "1d", "--vacuum", "--database-url", url)
        said = await asyncio.to_thread(interintent, *words)
    assert said.exit_code == 2
    assert "deleted batches 0, games 0," in said.stderr
    assert f"{file} keeps its size, and new games use the room: another program holds the lock" in said.stderr


def test_what_cannot_be_read_is_refused_in_a_sentence(tmp_path: Path) -> None:
    url = ("--database-url", f"sqlite:///{tmp_path / 'games.sqlite'}")
    for words, why in (
        (("--older-than", "soon"), "or 52w (0h: every batch that is over); got 'soon'"),
        (("--older-than", "1d", "--label", "x"), "--label takes name=value; got 'x'"),
        (("--older-than", "1d"), "there is no database"),
    ):
        refused = interintent("prune", *words, *url)
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert why in refused.stderr
