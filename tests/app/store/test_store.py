"""The database: grouped appends, one winner per position, concurrent migrations, text stored as sent."""

import asyncio
import os
from collections.abc import Awaitable, Coroutine, Iterator, Sequence
from contextvars import copy_context
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.exc import DBAPIError

from agents.model.model import Message
from app.base import metrics
from app.base.off_loop import whose
from app.store import writer
from app.store.call import hash_of
from app.store.db import Append, Conflict, Database, Unfounded
from app.store.games import GameStore, NewGame, new_id
from app.store.log import INSERT_EVENTS, GameLog, LogReader, event_rows
from app.store.model_calls import CallStore
from app.store.rows import METADATA, BatchRow, JsonColumn
from app.store.schema import newest
from engine.events import Event, GameCancelled, ProposalOpened
from engine.profile import INTERINTENT
from engine.rules import create
from engine.terms import FULL
from tests import forked
from tests.app.calling import PROJECT, calling
from tests.app.real_server import local_settings

T = TypeVar("T")

HOSTILE = [
    "Robert'); DROP TABLE games;--",
    '"',
    "'",
    "\\",
    "%s %(a)s :a ? $1 {0}",
    "<script>alert(1)</script>",
    "null",
]
"""Names that somebody's quoting or encoding could change."""

NOTES = [
    *HOSTILE,
    "e\u0301 é",
    "👩‍👩‍👧‍👦",
    "\U00020000",
    "\tone\ntwo",
    " leading and trailing ",
]
"""The same for free text, where somebody's trimming could, too."""


class Laid:
    """A started database with games in it."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.store = GameStore(database)
        self.reader = LogReader(database)

    async def game(self) -> GameLog:
        """A new game's journal."""
        batch_id, game_id = new_id("b"), new_id("g")
        log = create(INTERINTENT, 1)
        at = self.database.writer.stamp()

        async def work(connection: Any) -> None:
            await self.store.insert_batch(connection, BatchRow(batch_id, at, 1, "0", {}))
            game = NewGame(game_id, 0, "manual", "1", [{"agent": "random"}] * 5, log)
            await self.store.insert_games(connection, batch_id, [game], at)

        await self.database.writer.run(work)
        return GameLog(self.database, game_id, len(log))


def _step(leader: int) -> Sequence[Event]:
    return (ProposalOpened(1, 1, leader), ProposalOpened(1, 2, leader))


async def _started(database_url: str) -> Laid:
    database = Database(local_settings(database_url))
    await database.start()
    return Laid(database)


async def test_a_stale_append_costs_no_other_game_its_step(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    laid = await _started(database_url)
    journals = [await laid.game() for _ in range(12)]
    stale = GameLog(laid.database, journals[5]._game_id, journals[5].head)
    await journals[5].append(_step(1))
    groups: list[int] = []
    monkeypatch.setattr(metrics.append_group, "observe", groups.append)
    logs = [*journals[:5], stale, *journals[6:]]
    results = await asyncio.gather(*(log.append(_step(2)) for log in logs), return_exceptions=True)
    assert [type(result) for result in results] == [type(None)] * 5 + [Conflict] + [type(None)] * 6
    assert sum(groups) == 11
    for journal in journals:
        log = await laid.reader.events(journal._game_id)
        row = await laid.store.game(journal._game_id)
        assert row is not None
        assert row.head == len(log) == journal.head
        assert log[-2:] == list(_step(1 if journal is journals[5] else 2))
    # The refused one wrote nothing, not even its index columns, and knows no more than before.
    assert stale.head == journals[5].head - 2
    await laid.database.stop()


async def test_a_new_game_goes_on_from_memory_only_while_nothing_was_appended(database_url: str) -> None:
    laid = await _started(database_url)
    kept, driven = [await laid.game() for _ in range(2)]
    for journal in (kept, driven):
        laid.reader.stored_now(journal._game_id, create(INTERINTENT, 2))  # of another deal, to tell it by
    assert await laid.reader.to_drive(kept._game_id, kept.head) == list(create(INTERINTENT, 2))
    # Once only: whoever drives it appends to it.
    assert laid.reader.new_row(kept._game_id) is None
    stored = await laid.reader.events(kept._game_id)
    assert stored == list(create(INTERINTENT, 1))
    assert await laid.reader.to_drive(kept._game_id, kept.head) == stored
    await driven.append(_step(1))
    log = await laid.reader.to_drive(driven._game_id, driven.head)
    assert log == [*stored, *_step(1)]
    await laid.database.stop()


@pytest.mark.parametrize("together", [True, False])
async def test_appends_that_build_on_a_failed_one_are_not_committed(
    database_url: str, together: bool
) -> None:
    laid = await _started(database_url)
    journal = await laid.game()
    stale = GameLog(laid.database, journal._game_id, journal.head)
    await journal.append(_step(1))
    other = await laid.game()
    head = other.head
    first = laid.database.writer.submit(
        lambda at: [(INSERT_EVENTS, event_rows(stale._game_id, 1, _step(1), at))]
    )
    if not together:
        with pytest.raises(Conflict):
            await first.done
    with pytest.raises(Unfounded):
        await other.append(_step(1), [first])
    assert other.head == head
    assert len(await laid.reader.events(other._game_id)) == head
    # Without it, the same step goes through.
    await other.append(_step(1))
    if together:
        with pytest.raises(Conflict):
            await first.done
    await laid.database.stop()


async def test_a_database_s_fault_tells_nothing_of_what_was_to_be_written(database_url: str) -> None:
    laid = await _started(database_url)
    journal = await laid.game()
    nowhere = sa.Table("nowhere", sa.MetaData(), sa.Column("a", sa.Text), sa.Column("b", sa.Integer))
    statement = sa.insert(nowhere)
    with pytest.raises(DBAPIError) as fault:
        await laid.database.writer.append(lambda at: [(statement, [{"a": "secret words", "b": at}])])
    assert "nowhere" in str(fault.value)
    assert "secret" not in str(fault.value)
    # The next goes through as if nothing had been.
    await journal.append(_step(1))
    assert len(await laid.reader.events(journal._game_id)) == journal.head
    await laid.database.stop()


async def test_values_of_every_type_come_back_from_a_grouped_commit(database_url: str) -> None:
    laid = await _started(database_url)
    kinds = sa.Table(
        "kinds",
        sa.MetaData(),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("yes", sa.Boolean),
        sa.Column("share", sa.Float),
        sa.Column("tree", JsonColumn(dict)),
    )
    async with laid.database.write_engine.begin() as connection:
        await connection.run_sync(kinds.create)
    rows = [
        {"name": "a", "yes": True, "share": 0.1, "tree": {"b": [1, None]}},
        {"name": "b", "yes": False, "share": None, "tree": {"'": 1}},
    ]
    insert = sa.insert(kinds)
    change = (
        sa.update(kinds)
        .where(kinds.c.name == sa.bindparam("which"))
        .values(share=sa.bindparam("to"), yes=True, tree={"x": "fixed"})
    )
    await laid.database.writer.append(lambda at: [(insert, rows), (change, [{"which": "b", "to": 2.5}])])
    async with laid.database.read_engine.connect() as connection:
        found = (await connection.execute(sa.select(kinds).order_by(kinds.c.name))).all()
    assert [tuple(row) for row in found] == [
        ("a", True, 0.1, {"b": [1, None]}),
        ("b", True, 2.5, {"x": "fixed"}),
    ]
    await laid.database.stop()


async def test_many_appends_share_a_commit(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    laid = await _started(database_url)
    journals = [await laid.game() for _ in range(40)]
    groups: list[int] = []
    monkeypatch.setattr(metrics.append_group, "observe", groups.append)
    await asyncio.gather(*(journal.append(_step(1)) for journal in journals))
    assert sum(groups) == 40
    assert max(groups) > 5
    await laid.database.stop()


async def test_of_two_writers_at_one_position_one_wins(database_url: str) -> None:
    one, other = await _started(database_url), await _started(database_url)
    journal = await one.game()
    rivals = [journal, GameLog(other.database, journal._game_id, journal.head)]
    for leader in range(1, 6):
        results = await asyncio.gather(*(log.append(_step(leader)) for log in rivals), return_exceptions=True)
        assert results.count(None) == 1
        assert sum(isinstance(result, Conflict) for result in results) == 1
        head = max(log.head for log in rivals)
        for log in rivals:
            log.head = head
    assert len(await one.reader.events(journal._game_id)) == head
    await one.database.stop()
    await other.database.stop()


async def test_what_one_owner_writes_is_committed_in_order_of_arrival(database_url: str) -> None:
    laid = await _started(database_url)
    journals = [await laid.game() for _ in range(6)]
    order: list[str] = []

    async def append(name: str, journal: GameLog) -> None:
        await journal.append(_step(1))
        order.append(name)

    async def run(name: str, expected: int) -> None:
        async def work(connection: Any) -> int:
            count = await connection.execute(
                sa.text("SELECT count(*) FROM events WHERE type='proposal_opened'")
            )
            return int(count.scalar_one())

        # It sees what was appended before it, and nothing of what comes after.
        assert await laid.database.writer.run(work) == expected
        order.append(name)

    start = 6  # every game's own first proposal
    tasks = [
        asyncio.create_task(append("a", journals[0])),
        asyncio.create_task(append("b", journals[1])),
        asyncio.create_task(run("c", start + 4)),
        asyncio.create_task(append("d", journals[2])),
        asyncio.create_task(run("e", start + 6)),
    ]
    await asyncio.gather(*tasks)
    assert order == ["a", "b", "c", "d", "e"]
    await laid.database.stop()


async def _noted(order: list[str], name: str, written: Awaitable[Any]) -> None:
    await written
    order.append(name)


def _for(owner: str, written: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
    """Writes for this owner."""
    context = copy_context()
    context.run(whose.set, owner)
    return asyncio.get_running_loop().create_task(written, context=context)


async def _nothing(connection: Any) -> None:
    await connection.execute(sa.text("SELECT 1"))


async def test_what_one_owner_writes_waits_for_one_transaction_of_another(database_url: str) -> None:
    laid = await _started(database_url)
    journals = [await laid.game() for _ in range(60)]
    writer, order = laid.database.writer, list[str]()
    many = [_for("loud", _noted(order, "loud", writer.run(_nothing))) for _ in range(100)]
    many += [_for("loud", _noted(order, "loud", journal.append(_step(1)))) for journal in journals[5:]]
    quiet = [
        _for("quiet", _noted(order, f"appended {number}", journals[number].append(_step(1))))
        for number in range(3)
    ]
    quiet += [_for("quiet", _noted(order, "worked", writer.run(_nothing)))]
    quiet += [_for("third", _noted(order, "third", journals[4].append(_step(1))))]
    await asyncio.gather(*quiet)
    # The first transaction of the loud one, the appends of the others together, its second, the work.
    assert set(order[1:5]) == {"appended 0", "appended 1", "appended 2", "third"}
    assert order == ["loud", *order[1:5], "loud", "worked"]

    async def again() -> int:
        before = order.count("loud")
        await writer.run(_nothing)
        return order.count("loud") - before

    # One after the other, each waits for the same.
    for number in range(5):
        assert await _for("quiet", again()) <= 2, number
    await asyncio.gather(*many)
    assert order.count("loud") == 155
    await laid.database.stop()


async def test_owners_share_a_commit(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    laid = await _started(database_url)
    journals = [await laid.game() for _ in range(90)]
    order: list[str] = []
    groups: list[int] = []
    monkeypatch.setattr(metrics.append_group, "observe", groups.append)
    appends = [_for("loud", _noted(order, "loud", journal.append(_step(1)))) for journal in journals[:80]]
    appends += [_for("quiet", _noted(order, "quiet", journal.append(_step(1)))) for journal in journals[80:]]
    await asyncio.gather(*appends)
    assert groups == [50, 40]
    assert order[:50].count("quiet") == 10
    await laid.database.stop()


@pytest.mark.parametrize("fails", [False, True])
async def test_an_append_waits_for_what_it_builds_on_whosever_turn_it_is(
    database_url: str, *, fails: bool
) -> None:
    laid = await _started(database_url)
    first, second, last = [await laid.game() for _ in range(3)]
    writer, order = laid.database.writer, list[str]()
    head = last.head
    if fails:
        stale = GameLog(laid.database, first._game_id, first.head)
        await stale.append(_step(1))
    works = [_for("loud", _noted(order, "work", writer.run(_nothing))) for _ in range(20)]

    async def build() -> None:
        answers = [
            copy_context().run(_submit, owner, laid, journal)
            for owner, journal in (("loud", first), ("other", second))
        ]
        await _for("quiet", _noted(order, "built", last.append(_step(1), answers)))

    building = asyncio.create_task(build())
    if fails:
        with pytest.raises(Unfounded):
            await building
        assert last.head == head
    else:
        await building
        # With it, although the loud one's turn was not yet.
        assert len(await laid.reader.seqs(first._game_id, FULL, 0)) == first.head + 2
        assert order.index("built") < 15
    assert len(await laid.reader.seqs(second._game_id, FULL, 0)) == second.head + 2
    await asyncio.gather(*works)
    await laid.database.stop()


def _submit(owner: str, laid: Laid, journal: GameLog) -> Append:
    whose.set(owner)
    rows = event_rows(journal._game_id, journal.head + 1, _step(1), 0)
    return laid.database.writer.submit(lambda at: [(INSERT_EVENTS, [{**row, "at": at} for row in rows])])


async def test_failing_work_writes_nothing_and_holds_nobody_up(database_url: str) -> None:
    laid = await _started(database_url)
    journal = await laid.game()

    async def broken(connection: Any) -> None:
        await connection.execute(sa.text("DELETE FROM events"))
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await laid.database.writer.run(broken)
    await journal.append(_step(3))
    assert len(await laid.reader.events(journal._game_id)) == journal.head
    await laid.database.stop()


async def test_times_never_go_back_when_the_clock_does(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = writer.now_ms()
    clock = [real, real + 5000, real - 60_000, real - 120_000, real + 1000, real + 6000]
    monkeypatch.setattr(writer, "now_ms", lambda: clock[0] if len(clock) == 1 else clock.pop(0))
    async with calling(database_url) as caller:
        _, [game] = await caller.create(drive="manual")
        for _ in range(6):
            await caller.post(f"/games/{game}/step", json={"until": "action"})
        times = [line["at"] for line in await caller.lines(f"/games/{game}/events")]
        assert all(one <= two for one, two in pairwise(times))
        assert len(set(times)) > 1


async def test_stopping_commits_what_was_handed_in(database_url: str) -> None:
    laid = await _started(database_url)
    journals = [await laid.game() for _ in range(5)]
    appends = [asyncio.create_task(journal.append(_step(1))) for journal in journals]
    await asyncio.sleep(0)
    await laid.database.stop()
    await asyncio.gather(*appends)
    again = await _started(database_url)
    for journal in journals:
        assert len(await again.reader.events(journal._game_id)) == journal.head
    await again.database.stop()


async def test_a_cancelled_waiter_does_not_break_its_group(database_url: str) -> None:
    laid = await _started(database_url)
    journals = [await laid.game() for _ in range(4)]
    tasks = [asyncio.create_task(journal.append(_step(1))) for journal in journals]
    await asyncio.sleep(0)
    tasks[1].cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(result) for number, result in enumerate(results) if number != 1] == [type(None)] * 3
    assert isinstance(results[1], asyncio.CancelledError)
    # Nobody knows whether it was written; the log does.
    assert len(await laid.reader.seqs(journals[1]._game_id, FULL, 0)) in (
        journals[1].head,
        journals[1].head + 2,
    )
    await laid.database.stop()


def test_eight_processes_migrate_at_the_same_time(empty_database_url: str) -> None:
    command = ["keys", "create", "--name", "k", "--scope", "games:read", "--database-url", empty_database_url]
    processes = [forked.start(command, cwd=PROJECT) for _ in range(8)]
    said = []
    for one in processes:
        assert one.stderr is not None
        with one.stderr:
            said.append(one.stderr.read()[-500:])
        one.wait(60)
    assert [one.returncode for one in processes] == [0] * 8, said


def test_the_newest_migration_is_the_head_of_the_scripts() -> None:
    config = Config()
    config.set_main_option("script_location", str(PROJECT / "migrations"))
    assert ScriptDirectory.from_config(config).get_heads() == [newest()]


async def test_an_older_database_is_brought_to_the_newest_schema(empty_database_url: str) -> None:
    database = Database(local_settings(empty_database_url))

    def begin(connection: sa.Connection) -> None:
        config = Config()
        config.set_main_option("script_location", str(PROJECT / "migrations"))
        config.attributes["connection"] = connection
        command.upgrade(config, "head-2")

    async with database.write_engine.begin() as connection:
        await connection.run_sync(begin)
    await database.start()
    async with database.read_engine.connect() as connection:
        found = await connection.execute(sa.text("SELECT version_num FROM alembic_version"))
        assert found.scalars().all() == [newest()]
    await database.stop()


async def test_a_call_of_an_earlier_version_answers_the_question_that_it_was_asked_for(
    empty_database_url: str,
) -> None:
    database = Database(local_settings(empty_database_url))
    messages = [Message("user", "Vote.")]
    values = {
        "game_id": "g", "request_id": "1.1.vote.3", "step": "vote", "about": "", "attempt": 1, "seat": 3,
        "at": 0, "endpoint": "m1", "model": "fake", "messages_sha256": hash_of(messages),
        "temperature": 0.8, "max_tokens": 50, "text": '"{}"', "value": "{}", "prompt_tokens": 1,
        "cached_tokens": 0, "completion_tokens": 1, "tokens_known": True, "cost": 0.5, "latency_s": 1.5,
        "finish": "stop", "http_calls": 1,
    }  # fmt: skip

    def begin(connection: sa.Connection) -> None:
        config = Config()
        config.set_main_option("script_location", str(PROJECT / "migrations"))
        config.attributes["connection"] = connection
        command.upgrade(config, "91d4c7f2b6e8")
        names = ", ".join(values)
        places = ", ".join(f":{name}" for name in values)
        connection.execute(sa.text(f"INSERT INTO model_calls ({names}) VALUES ({places})"), values)

    async with database.write_engine.begin() as connection:
        await connection.run_sync(begin)
    await database.start()
    (call,) = (await CallStore(database).of_game("g")).values()
    assert (call.asked_temperature, call.asked_max_tokens) == (0.8, 50)
    assert (call.temperature, call.max_tokens, call.parameters) == (0.8, 50, None)
    assert call.answer().text == "{}"
    await database.stop()


async def test_the_migrations_make_the_tables_that_the_code_means(empty_database_url: str) -> None:
    database = Database(local_settings(empty_database_url))
    await database.start()

    def differences(connection: sa.Connection) -> list[Any]:
        def ours(name: str | None, kind: str, parents: Any) -> bool:
            return kind != "table" or not str(name).startswith("pgqueuer")  # these are the queue's

        options = {"compare_type": True, "include_name": ours}
        context = MigrationContext.configure(connection, opts=options)
        found: list[Any] = compare_metadata(context, METADATA)
        return found

    async with database.write_engine.connect() as connection:
        assert await connection.run_sync(differences) == []
    await database.start()  # a second start finds nothing to do
    await database.stop()


async def test_text_comes_back_as_it_was_sent(database_url: str) -> None:
    async with calling(database_url) as caller:
        names = {str(seat): text for seat, text in enumerate(HOSTILE, 1)}
        labels = {str(number): text for number, text in enumerate(NOTES)}
        labels |= {f"{number} {text}": "" for number, text in enumerate(HOSTILE)}
        batch, [game] = await caller.create(names=names, labels=labels, players=10, drive="manual")
        assert (await caller.get(f"/batches/{batch}")).json()["labels"] == labels
        for viewer in ("public", "full", "seat:3"):
            view = (await caller.get(f"/games/{game}", params={"viewer": viewer})).json()
            assert view["names"].items() >= names.items()
            [created, *_] = await caller.lines(f"/games/{game}/events", viewer=viewer)
            assert created["names"].items() >= names.items()
        # One event a line, whatever stands in it.
        raw = (await caller.get(f"/games/{game}/events")).content
        assert raw.count(b"\n") == len(await caller.lines(f"/games/{game}/events"))


async def test_a_log_with_a_hole_is_reported_as_an_internal_error(database_url: str) -> None:
    async with calling(database_url) as caller:
        _, [game] = await caller.create(drive="manual")

        async def tear(connection: Any) -> None:
            await connection.execute(
                sa.text("DELETE FROM events WHERE game_id = :game AND seq = 3"), {"game": game}
            )

        await caller.services.database.writer.run(tear)
        answer = await caller.get(f"/games/{game}")
        assert (answer.status_code, answer.json()["code"]) == (500, "corrupt-log")
        assert game not in answer.text


async def test_a_game_that_breaks_is_failed_and_leaves_the_others_alone(database_url: str) -> None:
    async with calling(database_url) as caller:
        original = caller.services.reader.to_drive

        async def to_drive(game_id: str, head: int) -> list[Event]:
            log = await original(game_id, head)
            driven[game_id] = None
            if list(driven).index(game_id) == 2:
                raise RuntimeError("an agent broke")
            return log

        driven: dict[str, None] = {}
        caller.services.reader.to_drive = to_drive  # type: ignore[method-assign]
        batch, _ = await caller.create(count=20, seats=[{"agent": "random"}])
        view = await caller.over(batch)
        caller.services.reader.to_drive = original  # type: ignore[method-assign]
        assert view["status"] == "failed"
        assert (view["games"]["finished"], view["games"]["failed"]) == (19, 1)
        broken = list(driven)[2]
        shown = (await caller.get(f"/games/{broken}")).json()
        assert len(shown["fault"]) == 16
        public = (await caller.get(f"/games/{broken}", params={"viewer": "public"})).json()
        assert (public["status"], public["fault"]) == ("failed", None)
        assert (await caller.get("/games", params={"status": "failed"})).json()["games"]


async def test_a_cancelled_game_reads_as_cancelled_in_its_log(database_url: str) -> None:
    laid = await _started(database_url)
    journal = await laid.game()
    await journal.append((GameCancelled("by its owner"),))
    row = await laid.store.game(journal._game_id)
    assert row is not None
    assert (row.status, row.head, row.finished_at is not None) == ("cancelled", journal.head, True)
    await laid.database.stop()


# --- who may read the file -------------------------------------------------------------------


def _modes(directory: Path) -> dict[str, str]:
    return {path.name: oct(path.stat().st_mode & 0o777) for path in directory.iterdir()}


@pytest.fixture
def open_umask() -> Iterator[None]:
    """The mask of somebody who shares everything."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("open_umask")
@pytest.mark.parametrize("url", ["sqlite:///{}", "sqlite:///file:{}?uri=true"])
async def test_the_file_and_what_belongs_to_it_is_its_owners_alone(tmp_path: Path, url: str) -> None:
    database = Database(local_settings(url.format(tmp_path / "games.sqlite")))
    await database.start()
    try:
        async with database.read_engine.connect() as connection:
            await connection.execute(sa.text("SELECT 1"))
        await database.writer.run(lambda connection: connection.execute(sa.text("SELECT 1")))
        modes = _modes(tmp_path)
        assert modes.keys() >= {"games.sqlite", "games.sqlite-wal", "games.sqlite-shm"}
        assert set(modes.values()) == {"0o600"}, modes
    finally:
        await database.stop()


@pytest.mark.usefixtures("open_umask")
async def test_a_served_database_is_its_owners_alone(tmp_path: Path) -> None:
    async with calling(f"sqlite:///{tmp_path / 'games.sqlite'}", laid_out=False) as caller:
        await caller.played()
        assert set(_modes(tmp_path).values()) == {"0o600"}, _modes(tmp_path)


@pytest.mark.usefixtures("open_umask")
async def test_a_database_that_a_link_names_is_its_owners_alone(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there" / "games.sqlite")
    database = Database(local_settings(f"sqlite:///{tmp_path / 'link'}"))
    await database.start()
    try:
        assert _modes(tmp_path / "there")["games.sqlite"] == "0o600"
    finally:
        await database.stop()


@pytest.mark.usefixtures("open_umask")
def test_a_command_makes_the_file_as_the_service_does(tmp_path: Path) -> None:
    made = ["keys", "create", "--name", "reader", "--scope", "games:read"]
    done = forked.run([*made, "--database-url", f"sqlite:///{tmp_path / 'games.sqlite'}"], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert _modes(tmp_path)["games.sqlite"] == "0o600"


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o660])
async def test_the_mode_of_a_file_that_exists_is_left_alone(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "games.sqlite"
    file.touch()
    file.chmod(mode)
    database = Database(local_settings(f"sqlite:///{file}"))
    await database.start()
    await database.stop()
    assert _modes(tmp_path)["games.sqlite"] == oct(mode)
