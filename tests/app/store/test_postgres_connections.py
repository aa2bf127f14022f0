"""Connections to PostgreSQL: lost ones are not used, and busy ones are not tested."""

import asyncio
import gc
import traceback
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, cast

import asyncpg  # type: ignore[import-untyped]
import pytest
import sqlalchemy as sa
import uvloop
from sqlalchemy.exc import DataError, DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from app.base.off_loop import whose
from app.store import db as databases
from app.store import postgres as connections
from app.store import writer as writing
from app.store.db import Conflict, Database, postgres_engine
from app.store.trouble import DatabaseAway
from tests.app.store.test_schema import run
from tests.app.store.test_store import Laid, _started, _step
from tests.postgres import PostgresServer, fresh_database

TURNS = 40
"""More turns of the loop than connecting takes until the server has been asked for a session."""

WITHIN_S = 200.0

PID = sa.text("SELECT pg_backend_pid()")

LOCKED_OUT = sa.text("SELECT 1 FROM pg_locks WHERE NOT granted")

NONE_WORKS = (
    "SELECT 0 FROM (SELECT pg_advisory_xact_lock(7)) AS lock "
    "WHERE CAST(:pids AS int[]) IS NOT NULL AND CAST(:silent_s AS float) > 0"
)


@pytest.fixture
def url(postgres: PostgresServer, laid_out_postgres: str) -> Iterator[str]:
    """A database of PostgreSQL's, laid out."""
    with fresh_database(postgres, laid_out_postgres) as made:
        yield made


def test_a_connection_that_is_cut_before_it_is_used_means_that_the_database_is_away(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the loop that serves: its sockets complain in words of their own."""
    connect = asyncpg.connect

    async def cut(*arguments: Any, **options: Any) -> Any:
        connection, other = await connect(*arguments, **options), await connect(*arguments, **options)
        await other.execute("SELECT pg_terminate_backend($1, 5000)", connection.get_server_pid())
        await other.close()
        while not connection.is_closed():  # noqa: ASYNC110  # the loop reads the end
            await asyncio.sleep(0.01)
        return connection

    async def open_one() -> None:
        monkeypatch.setattr(asyncpg, "connect", cut)
        dsn = url.replace("+asyncpg", "")
        await connections._connect(connections.Sessions(), dsn)

    with pytest.raises(DatabaseAway):
        uvloop.run(open_one())


async def cut_all(url: str) -> int:
    """Ends every session of the database, as a restart does. Returns how many there were."""
    engine = create_async_engine(url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    async with engine.connect() as connection:
        found = await connection.execute(
            sa.text(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        )
        count = len(found.scalars().all())
    await engine.dispose()
    await asyncio.sleep(0.05)  # the loop reads the ends
    return count


async def pids(database: Database, count: int) -> list[int]:
    """Of as many connections at once."""

    together = asyncio.Barrier(count)

    async def one() -> int:
        async with database.read_engine.connect() as connection:
            found: int = (await connection.execute(PID)).scalar_one()
            await together.wait()
            return found

    return await asyncio.gather(*(one() for _ in range(count)))


async def test_connections_that_ended_while_they_lay_idle_cost_nobody_an_error(url: str) -> None:
    laid = await _started(url)
    journal = await laid.game()
    await journal.append(_step(1))
    before = await pids(laid.database, 4)
    assert await cut_all(url) >= 5  # those of the pool, and the writer's own
    after = await pids(laid.database, 4)
    assert not set(before) & set(after)
    assert await cut_all(url) >= 4
    await journal.append(_step(2))
    await laid.game()
    assert len(await laid.reader.events(journal._game_id)) == journal.head
    await laid.database.stop()


async def test_only_what_was_idle_for_long_is_asked(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    laid = await _started(url)
    asked: list[Any] = []
    dead: set[Any] = set()
    ask = connections._Connection.ask

    async def counted(raw: Any) -> None:
        asked.append(raw)
        if raw in dead:
            raise TimeoutError
        await ask(raw)

    monkeypatch.setattr(connections._Connection, "ask", counted)
    (first,) = await pids(laid.database, 1)
    assert await pids(laid.database, 1) == [first]
    assert not asked
    monkeypatch.setattr(connections, "ASK_AFTER_S", 0.0)
    assert await pids(laid.database, 1) == [first]
    assert len(asked) == 1
    dead.update(asked)
    (other,) = await pids(laid.database, 1)
    assert other != first
    await laid.database.stop()


async def test_a_look_for_silent_connections_ends_none_that_somebody_took_meanwhile(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    laid = await _started(url)
    (idle,) = await pids(laid.database, 1)
    # None works; whoever looks has to wait for the lock.
    monkeypatch.setattr(databases, "_WORKS", sa.text(NONE_WORKS))
    beside = create_async_engine(url)
    async with beside.connect() as held:
        await held.execute(sa.text("SELECT pg_advisory_xact_lock(7)"))
        looking = asyncio.create_task(laid.database.drop_silent())
        while not (await held.execute(LOCKED_OUT)).all():  # noqa: ASYNC110  # it tells nobody
            await asyncio.sleep(0.01)
        engine = laid.database.engine_beside()
        async with engine.connect() as new, laid.database.read_engine.connect() as pooled:
            assert (await pooled.execute(PID)).scalar_one() == idle
            await held.commit()
            await looking
            assert (await pooled.execute(PID)).scalar_one() == idle
            await new.execute(PID)
        await engine.dispose()
    await beside.dispose()
    # Nobody holds it any more: the next look ends it.
    await laid.database.drop_silent()
    assert await pids(laid.database, 1) != [idle]
    await laid.database.stop()


async def test_a_query_over_a_connection_that_is_ended_says_that_the_database_is_away(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = postgres_engine(url)
    async with engine.connect() as connection:
        raw: Any = (await connection.get_raw_connection()).driver_connection
        prepare = raw._get_statement

        async def ended_then(*arguments: Any, **options: Any) -> Any:
            statement = await prepare(*arguments, **options)
            raw.terminate()
            return statement

        monkeypatch.setattr(type(raw), "_get_statement", lambda _, *a, **o: ended_then(*a, **o))
        with pytest.raises(databases.PASSING):
            await raw.fetch("SELECT 1")
    await engine.dispose()


async def test_who_gets_no_further_connection_waits_for_one_of_the_others(url: str) -> None:
    await run(
        url,
        # A limit does not hold for a superuser.
        "CREATE ROLE limited LOGIN",
        f"ALTER DATABASE {url.rpartition('/')[2]} CONNECTION LIMIT 3",
    )
    engine = postgres_engine(url.replace("postgres@", "limited@"), pool_size=5, max_overflow=4)

    async def one() -> int:
        async with engine.connect() as connection:
            await connection.execute(sa.text("SELECT pg_sleep(0.01)"))
            found: int = (await connection.execute(PID)).scalar_one()
            return found

    try:
        assert len(set(await asyncio.gather(*(one() for _ in range(12))))) <= 3
    finally:
        await engine.dispose()
        await run(url, "DROP ROLE limited")


async def _read_for(database: Database, owner: str, query: Any) -> Any:
    whose.set(owner)
    return await database.column(query)


async def test_the_reads_of_one_owner_keep_neither_another_nor_the_writer_waiting(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    laid = await _started(url)
    database, held = laid.database, sa.text("SELECT pg_advisory_xact_lock_shared(7)")
    lock = create_async_engine(url, poolclass=NullPool)
    async with lock.begin() as holder:
        await holder.execute(sa.text("SELECT pg_advisory_xact_lock(7)"))
        # As many as would take every connection, several times over.
        many = [asyncio.create_task(_read_for(database, "project:many", held)) for _ in range(40)]
        blocked = sa.text(
            "SELECT count(*) FROM pg_locks JOIN pg_database ON oid = database "
            "WHERE datname = current_database() AND locktype = 'advisory' AND NOT granted"
        )
        async with asyncio.timeout(WITHIN_S):
            while await _read_for(database, "project:one", blocked) != [5]:  # noqa: ASYNC110  # it tells nobody
                await asyncio.sleep(0.01)
            for _ in range(3):
                assert await _read_for(database, "project:one", sa.text("SELECT 1")) == [1]
                await laid.game()
            assert await database.trouble() is None
        # Whoever waits too long is told so, and nobody takes the database for broken.
        monkeypatch.setattr(databases, "TURN_WITHIN_S", 0.0)
        with pytest.raises(databases.LateTurn):
            await _read_for(database, "project:many", sa.text("SELECT 1"))
        assert database.health.trouble is None
    async with asyncio.timeout(WITHIN_S):
        await asyncio.gather(*many)
    await lock.dispose()
    await database.stop()


async def _refused(laid: Laid, statement: Any, row: dict[str, Any]) -> Exception:
    with pytest.raises((DBAPIError, Conflict)) as fault:
        await laid.database.writer.append(lambda at: [(statement, [row])])
    assert "secret" not in "".join(traceback.format_exception(fault.value))
    return fault.value


async def test_what_the_server_quotes_of_a_refused_row_is_not_passed_on(url: str) -> None:
    laid = await _started(url)
    table = sa.Table(
        "kinds", sa.MetaData(), sa.Column("name", sa.Text, primary_key=True), sa.Column("n", sa.Integer)
    )
    async with laid.database.write_engine.begin() as connection:
        await connection.run_sync(table.create)
    statement = sa.insert(table)
    assert isinstance(await _refused(laid, statement, {"name": "a", "n": "secret"}), DataError)
    assert isinstance(await _refused(laid, statement, {"name": "a", "n": 1 << 40}), DataError)
    await laid.database.writer.append(lambda at: [(statement, [{"name": "secret", "n": 1}])])
    assert isinstance(await _refused(laid, statement, {"name": "secret", "n": 2}), Conflict)
    await laid.database.stop()


async def test_a_task_cancelled_while_connecting_leaves_no_error_behind(url: str) -> None:
    faults: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
    engine = postgres_engine(url, poolclass=NullPool)
    for turns in range(TURNS):
        connecting = asyncio.ensure_future(_connect(engine))
        for _ in range(turns):
            await asyncio.sleep(0)
        connecting.cancel()
        with suppress(asyncio.CancelledError):
            await connecting
    await asyncio.sleep(0.05)
    gc.collect()
    await asyncio.sleep(0)
    assert faults == []


async def _connect(engine: AsyncEngine) -> None:
    async with engine.connect():
        pass


async def test_the_server_soon_drops_a_client_that_is_gone_without_a_word(url: str) -> None:
    """Otherwise its session keeps its locks for two hours, and its games wait for as long."""
    shown = sa.text("SELECT CAST(setting AS integer) FROM pg_settings WHERE name LIKE 'tcp_keepalives_%'")
    engine = postgres_engine(url)
    async with engine.connect() as connection:
        seconds = (await connection.execute(shown)).scalars().all()
    await engine.dispose()
    assert len(seconds) == 3
    assert all(0 < one <= 10 for one in seconds)


# --- deadlocks -------------------------------------------------------------------------------

COUNTED = sa.Table(
    "counted", sa.MetaData(), sa.Column("name", sa.Text, primary_key=True), sa.Column("n", sa.Integer)
)

COUNT = sa.update(COUNTED).where(COUNTED.c.name == sa.bindparam("which")).values(n=COUNTED.c.n + 1)


async def _work(connection: Any) -> None:
    for name in "ab":
        await connection.execute(COUNT, {"which": name})


def _hand_in(database: Database, how: str) -> "list[asyncio.Future[Any]]":
    """Has the database count a, and then b, in one transaction."""
    if how == "work":
        return [asyncio.ensure_future(database.writer.run(_work))]
    if how == "one append":
        return [database.writer.submit(lambda at: [(COUNT, [{"which": "a"}, {"which": "b"}])]).done]
    a = database.writer.submit(lambda at: [(COUNT, [{"which": "a"}])])
    b = database.writer.submit(lambda at: [(COUNT, [{"which": "b"}])], [a])
    return [a.done, b.done]


HOLD = f"""
CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
IF NEW.name = 'a' AND current_setting('application_name') = '{connections.APPLICATION}' THEN
PERFORM pg_advisory_xact_lock_shared(7); END IF; RETURN NULL; END $$
"""
"""Has the service wait for the lock 7 when it has counted a."""

HOLDS = "CREATE TRIGGER holds AFTER UPDATE ON counted FOR EACH ROW EXECUTE FUNCTION hold()"

WAITING = sa.text(
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
)


async def _until_waiting(database: Database, count: int) -> None:
    while await database.column(WAITING) != [count]:  # noqa: ASYNC110  # the server tells nobody
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("how", ["one append", "two appends", "work"])
async def test_who_loses_a_deadlock_with_another_process_writes_all_the_same(
    url: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name in (
        (connections, "LOCK_WITHIN_S"),
        (writing, "COMMIT_WITHIN_S"),
        (writing, "WORK_WITHIN_S"),
    ):
        monkeypatch.setattr(module, name, round(WITHIN_S))
    laid = await _started(url)
    async with laid.database.write_engine.begin() as connection:
        await connection.run_sync(COUNTED.create)
        await connection.execute(sa.insert(COUNTED), [{"name": name, "n": 0} for name in "ab"])
        await connection.exec_driver_sql(HOLD)
        await connection.exec_driver_sql(HOLDS)
    engine = create_async_engine(url, poolclass=NullPool)
    async with engine.connect() as gate, engine.connect() as rival, asyncio.timeout(WITHIN_S):
        await gate.execute(sa.text("SELECT pg_advisory_xact_lock(7)"))
        # The rival never looks for deadlocks, so that PostgreSQL undoes the service's transaction.
        await rival.execute(sa.text("SET LOCAL deadlock_timeout = '1h'"))
        await rival.execute(COUNT, {"which": "b"})
        handed_in = _hand_in(laid.database, how)
        await _until_waiting(laid.database, 1)
        waiting = asyncio.ensure_future(rival.execute(COUNT, {"which": "a"}))
        await _until_waiting(laid.database, 2)
        await gate.rollback()
        await waiting
        await rival.commit()
        await asyncio.gather(*handed_in)
    await engine.dispose()
    assert await laid.database.rows(sa.select(COUNTED).order_by(COUNTED.c.name)) == [("a", 2), ("b", 2)]
    assert laid.database.health.trouble is None
    await laid.database.stop()


class ReadOnly:
    """Commits to a database that may only be read."""

    def __init__(self) -> None:
        self.tried = 0

    async def commit(self, statements: Any) -> None:
        self.tried += 1
        raise connections._sqlalchemy_error(asyncpg.ReadOnlySQLTransactionError("cannot execute UPDATE"))

    async def stop(self) -> None:
        pass


async def test_of_appends_that_share_a_commit_one_alone_finds_out_that_it_is_in_vain() -> None:
    commits = ReadOnly()
    writer = writing.Writer(cast(Any, commits), writing.DatabaseHealth())
    writer.start()
    handed_in = [writer.submit(lambda at: [(COUNT, [{"which": "a"}])]).done for _ in range(20)]
    faults = await asyncio.gather(*handed_in, return_exceptions=True)
    assert [type(fault) for fault in faults] == [DBAPIError] * 20
    assert commits.tried == 1 + 1 + len(writing.PAUSES_S)
    await writer.stop()
