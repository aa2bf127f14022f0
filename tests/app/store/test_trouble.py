"""A full disk, a lock, a database that is away, an unknown schema: said in a sentence, waited for, gone on
after.
"""

import asyncio
import contextlib
import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest
import sqlalchemy as sa
from interintent_client import Server
from sqlalchemy.engine import Engine
from sqlalchemy.exc import DBAPIError

from app.store import db, sqlite, writer
from app.store.games import GameStore
from app.store.schema import MIGRATION_LOCK, UnknownSchema
from app.store.trouble import DatabaseAway, Pooled, trouble_of
from app.store.writer import DatabaseHealth
from tests.app.calling import WITHIN_S
from tests.app.real_server import Served, local_settings, running_server
from tests.app.seated import Balancer
from tests.app.store.pooler import Pooler
from tests.app.store.test_schema import be_migrated_by_a_newer_program, run
from tests.app.typed import interintent
from tests.app.watcher import watching
from tests.postgres import PostgresFailed, PostgresServer, fresh_database


@contextlib.asynccontextmanager
async def asking(served: Served) -> Any:
    async with httpx.AsyncClient(base_url=served.url, trust_env=False, timeout=WITHIN_S) as client:
        yield client


async def readyz(client: httpx.AsyncClient, status: int, words: str = "") -> None:
    """Waits until `/readyz` answers so."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            answer = await client.get("/readyz")
            if answer.status_code == status:
                break
            await asyncio.sleep(0.02)
    if status == 503:
        assert answer.headers["retry-after"] == "5"
        assert words in answer.json()["detail"], answer.json()
    assert (await client.get("/livez")).status_code == 200


async def is_done(client: httpx.AsyncClient, batch: str) -> None:
    async with asyncio.timeout(WITHIN_S):
        while True:
            if (await client.get(f"/batches/{batch}")).json()["status"] == "done":
                return
            await asyncio.sleep(0.05)


def is_waited_for(answer: httpx.Response, words: str) -> None:
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5"), answer.text
    body = answer.json()
    assert body["code"] == "not-ready"
    assert words in body["detail"]


def sentences(said: str, words: str) -> int:
    """In how many lines of a log these words stand."""
    return sum(words in line for line in said.splitlines())


@pytest.fixture
def pages() -> Iterator[dict[str, int]]:
    """The most pages that SQLite files may have on connections that are opened from now on."""
    limit = {"pages": 2**30}

    def on_connect(raw: Any, _: Any) -> None:
        if isinstance(getattr(raw, "driver_connection", raw), sqlite3.Connection) or "sqlite" in str(
            type(raw)
        ):
            cursor = raw.cursor()
            cursor.execute(f"PRAGMA max_page_count = {limit['pages']}")
            cursor.close()

    sa.event.listen(Engine, "connect", on_connect)
    yield limit
    sa.event.remove(Engine, "connect", on_connect)


async def test_a_full_disk_is_said_waited_for_and_gone_on_after(
    tmp_path: Path, pages: dict[str, int], capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "games.sqlite"
    pages["pages"] = 160
    async with running_server(local_settings(f"sqlite:///{file}")) as served, asking(served) as client:
        made = (await client.post("/games", json={"count": 20, "seeds": {"from": 1}})).json()
        await readyz(client, 503, "the disk of the database is full")
        is_waited_for(await client.post("/games", json={"count": 200}), "the disk of the database is full")
        # What is stored can be read.
        assert (await client.get(f"/batches/{made['batch_id']}")).status_code == 200
        assert (await client.get("/games")).status_code == 200
        pages["pages"] = 2**30
        await readyz(client, 200)
        await is_done(client, made["batch_id"])
        assert (await client.post("/games", json={})).status_code == 201
    said = capsys.readouterr()
    assert 1 <= sentences(said.out + said.err, "the disk of the database is full") <= 3
    assert sentences(said.out + said.err, "the database works again") >= 1
    assert "Traceback" not in said.out + said.err


@contextlib.contextmanager
def small_disk(postgres: PostgresServer) -> Iterator[tuple[str, Any]]:
    """A database on a disk that is soon full, and what makes room on it or takes the room away."""
    with contextlib.ExitStack() as stack:
        try:
            url, place = stack.enter_context(postgres.small_disk(40 << 20))
        except PermissionError:
            # Who may mount no disk has the server say what it says of a full one.
            url = stack.enter_context(fresh_database(postgres))
            yield url, partial(_be_full, url)
            return

        async def be_full(full: bool) -> None:
            filler = place / "filler"
            if full:
                free = os.statvfs(place)
                with filler.open("wb") as file:
                    os.posix_fallocate(file.fileno(), 0, free.f_bavail * free.f_frsize - (1 << 17))
                # As the server does when it has cared for its catalogue: from then on a new session has to
                # write this file, for which there is no room.
                for file_of_sessions in place.rglob("pg_internal.init"):
                    file_of_sessions.unlink()
            else:
                filler.unlink()

        yield url, be_full


async def _be_full(url: str, full: bool) -> None:
    if not full:
        await run(url, "DROP FUNCTION be_full CASCADE", "DROP FUNCTION take_no_table CASCADE")
        return
    says = "LANGUAGE plpgsql AS $$ BEGIN RAISE 'could not extend file' USING ERRCODE = '53100'; END $$"
    await run(
        url,
        f"CREATE FUNCTION be_full() RETURNS trigger {says}",
        f"CREATE FUNCTION take_no_table() RETURNS event_trigger {says}",
        "CREATE TRIGGER no_room BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION be_full()",
        "CREATE TRIGGER no_room BEFORE INSERT ON games FOR EACH ROW EXECUTE FUNCTION be_full()",
        "CREATE EVENT TRIGGER no_room ON ddl_command_start WHEN TAG IN ('CREATE TABLE AS') "
        "EXECUTE FUNCTION take_no_table()",
    )


@pytest.mark.long
async def test_a_full_disk_under_postgresql_is_said_waited_for_and_gone_on_after(
    postgres: PostgresServer, capsys: pytest.CaptureFixture[str]
) -> None:
    with small_disk(postgres) as (url, be_full):
        async with running_server(local_settings(url)) as served, asking(served) as client:
            made = (await client.post("/games", json={"count": 40, "seats": [{"agent": "random"}]})).json()
            await is_done(client, made["batch_id"])
            await be_full(True)
            answer = await client.post("/games", json={"count": 40, "seeds": {"from": 1}})
            await readyz(client, 503, "the disk of the database is full")
            is_waited_for(
                await client.post("/games", json={"count": 200}), "the disk of the database is full"
            )
            # What is stored can be read.
            shown = (await client.get(f"/batches/{made['batch_id']}")).json()
            assert shown["status"] == "done", shown
            await be_full(False)
            await readyz(client, 200)
            if answer.status_code == 201:
                await is_done(client, answer.json()["batch_id"])
            else:
                is_waited_for(answer, "the disk of the database is full")
            assert (await client.post("/games", json={})).status_code == 201
            games = (await client.get("/games", params={"limit": 200})).json()["games"]
            for game in games:
                log = (await client.get(f"/games/{game['game_id']}/events")).content.splitlines()
                assert [json.loads(line)["seq"] for line in log] == [*range(1, len(log) + 1)]
    said = capsys.readouterr()
    assert 1 <= sentences(said.out + said.err, "the disk of the database is full") <= 3
    assert sentences(said.out + said.err, "the database works again") >= 1
    assert "Traceback" not in said.out + said.err


@contextlib.contextmanager
def small_log() -> Iterator[tuple[PostgresServer, Any]]:
    """A server whose write-ahead log has little room, and what takes it away or makes some."""
    with contextlib.ExitStack() as stack:
        try:
            server = stack.enter_context(PostgresServer(log_bytes=32 << 20))
        except PermissionError:
            # Who may mount no disk has the server crash, as it does without room for its log.
            server = stack.enter_context(PostgresServer())
        filler = None if server.log_disk is None else server.log_disk / "filler"

        def be_full(full: bool) -> None:
            if full and filler is None:
                server.stop("immediate")
            elif full and filler is not None:
                free = os.statvfs(filler.parent)
                with filler.open("wb") as file:
                    os.posix_fallocate(file.fileno(), 0, free.f_bavail * free.f_frsize)
            else:
                if filler is not None:
                    filler.unlink()
                with contextlib.suppress(PostgresFailed):  # it may have come up by itself
                    server.start()

        yield server, be_full


@pytest.mark.long
async def test_a_full_disk_of_the_write_ahead_log_costs_only_time(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with small_log() as (server, be_full):
        url = server.create_database()
        async with running_server(local_settings(url)) as served, asking(served) as client:
            wish = {"count": 40, "seats": [{"agent": "random"}]}
            batches = [(await client.post("/games", json=wish)).json()["batch_id"]]
            await asyncio.to_thread(be_full, True)
            # The segments that are there take some more.
            while (answer := await client.post("/games", json=wish)).status_code == 201:
                batches.append(answer.json()["batch_id"])
            is_waited_for(answer, "games wait and go on then")
            await readyz(client, 503, "games wait and go on then")
            await asyncio.to_thread(be_full, False)
            await readyz(client, 200)
            for batch in batches:
                await is_done(client, batch)
                export = (await client.get(f"/batches/{batch}/export")).content.splitlines()
                by_game: dict[str, list[int]] = {}
                for line in map(json.loads, export):
                    if "seq" in line:
                        by_game.setdefault(line["game"], []).append(line["seq"])
                assert len(by_game) == 40
                assert all(found == [*range(1, len(found) + 1)] for found in by_game.values())
    said = capsys.readouterr()
    assert "Traceback" not in said.out + said.err


async def test_a_lock_of_another_program_is_said_and_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sqlite, "LOCK_WITHIN_S", 1)
    monkeypatch.setattr(writer, "LATE_S", 0.2)
    file = tmp_path / "games.sqlite"
    async with running_server(local_settings(f"sqlite:///{file}")) as served, asking(served) as client:
        made = (await client.post("/games", json={"count": 3})).json()
        with contextlib.closing(sqlite3.connect(file, isolation_level=None, timeout=30)) as other:
            other.execute("BEGIN EXCLUSIVE")
            writing = [asyncio.create_task(client.post("/games", json={})) for _ in range(60)]
            await readyz(client, 503, "lock of the database")
            begun = asyncio.get_running_loop().time()
            for answer in await asyncio.gather(*writing):
                is_waited_for(answer, "another program holds the lock of the database")
            # Together, not one after the other, which would take a minute.
            assert asyncio.get_running_loop().time() - begun < 30
            assert (await client.get("/games")).status_code == 200
            other.execute("ROLLBACK")
        await readyz(client, 200)
        assert (await client.post("/games", json={})).status_code == 201
        await is_done(client, made["batch_id"])
    said = capsys.readouterr()
    assert "Traceback" not in said.out + said.err


async def test_a_start_waits_for_its_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "LOCK_WITHIN_S", 1)
    file = tmp_path / "games.sqlite"
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("PRAGMA journal_mode = WAL")
        other.execute("CREATE TABLE x (y)")
        other.execute("DROP TABLE x")
        other.execute("BEGIN EXCLUSIVE")
        async with running_server(local_settings(f"sqlite:///{file}")) as served, asking(served) as client:
            await readyz(client, 503, "another program holds the lock of the database")
            for path in ("/games", "/metrics", "/docs", "/nowhere"):
                is_waited_for(await client.get(path), "another program holds the lock of the database")
            is_waited_for(await client.post("/games", json={}), "another program holds the lock")
            with pytest.raises(Exception, match="503"):
                async with watching(served.ws_url):
                    pass
            other.execute("ROLLBACK")
            await readyz(client, 200)
            assert (await client.post("/games", json={})).status_code == 201


async def test_a_server_that_swallows_everything_at_the_start_keeps_nobody_from_asking_why(
    postgres: PostgresServer, laid_out_postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(db, "FIRST_ANSWER_S", 0.5)
    monkeypatch.setattr("app.store.postgres.CONNECT_WITHIN_S", 10 * WITHIN_S)
    with fresh_database(postgres, laid_out_postgres) as url:
        async with Balancer([f"127.0.0.1:{postgres.port}"]) as between:
            between.deaf = True
            through = url.replace(f"127.0.0.1:{postgres.port}", between.url)
            async with running_server(local_settings(through)) as served, asking(served) as client:
                await readyz(client, 503, "the database does not answer")
                is_waited_for(await client.get("/games"), "the database does not answer")
                between.deaf = False
                monkeypatch.setattr(db, "FIRST_ANSWER_S", WITHIN_S)
                await readyz(client, 200)


@pytest.mark.parametrize("drops", [False, True], ids=["it refuses our settings", "it drops our settings"])
async def test_a_pooler_before_the_database_is_named_wherever_somebody_looks(
    postgres: PostgresServer,
    laid_out_postgres: str,
    drops: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(db, "FIRST_ANSWER_S", WITHIN_S)
    monkeypatch.setattr(db, "ANSWER_WITHIN_S", WITHIN_S)
    words = "a pooler such as PgBouncer stands before the database, and none is supported"
    server = f"127.0.0.1:{postgres.port}"
    with fresh_database(postgres, laid_out_postgres) as url:
        async with Pooler(server, drops=drops) as pooler:
            through = url.replace(server, pooler.url)
            capsys.readouterr()
            async with running_server(local_settings(through)) as served, asking(served) as client:
                await readyz(client, 503, words)
                is_waited_for(await client.get("/games"), words)
            assert sentences(capsys.readouterr().out, words) == 1
            for command in (["keys", "list"], ["migrate"], ["doctor"]):
                refused = await asyncio.to_thread(interintent, *command, "--database-url", through)
                assert (refused.exit_code, refused.stdout) == (2, "")
                assert words in refused.stderr


async def test_a_migration_that_takes_long_keeps_nobody_from_asking_why(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.main.LISTEN_WITHIN_S", 0.5)
    with fresh_database(postgres) as url:
        other = await asyncpg.connect(url.replace("+asyncpg", ""))
        try:
            await other.execute(f"SELECT pg_advisory_lock({MIGRATION_LOCK})")
            async with running_server(local_settings(url)) as served, asking(served) as client:
                await readyz(client, 503, "it is still starting")
                is_waited_for(await client.get("/games"), "it is still starting")
                await other.execute(f"SELECT pg_advisory_unlock({MIGRATION_LOCK})")
                await readyz(client, 200)
                await is_done(client, (await client.post("/games", json={})).json()["batch_id"])
        finally:
            await other.close()


async def test_a_database_that_goes_away_in_the_middle_of_a_start_is_waited_for(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_away, look = True, GameStore.unlaid_batches

    async def away(store: GameStore) -> Sequence[str]:
        if is_away:
            raise DatabaseAway("no answer")
        return await look(store)

    monkeypatch.setattr(GameStore, "unlaid_batches", away)
    async with running_server(local_settings(database_url)) as served, asking(served) as client:
        await readyz(client, 503, "the database does not answer")
        is_waited_for(await client.post("/games", json={}), "the database does not answer")
        is_away = False
        await readyz(client, 200)
        await is_done(client, (await client.post("/games", json={})).json()["batch_id"])


async def test_an_unknown_schema_is_said_at_the_start_and_while_the_service_runs(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(db, "LOOK_S", 0.1)
    monkeypatch.setattr(db, "PROBE_S", 0.1)
    async with running_server(local_settings(database_url)) as served, asking(served) as client:
        await readyz(client, 200)
        await be_migrated_by_a_newer_program(database_url, serves_this=False)
        await readyz(client, 503, "a newer release has migrated it")
    async with running_server(local_settings(database_url)) as served, asking(served) as client:
        await readyz(client, 503, "a newer release has migrated it. Run that release, or restore a backup")
        is_waited_for(await client.get("/games"), "a newer release has migrated it")
        from app.store.schema import newest

        await run(database_url, f"UPDATE alembic_version SET version_num = '{newest()}'")
        await readyz(client, 200)


async def test_a_table_that_is_missing_is_said_at_the_start_and_while_the_service_runs(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(db, "LOOK_S", 0.1)
    monkeypatch.setattr(db, "PROBE_S", 0.1)
    words = "table is missing: events; restore a backup: somebody has changed the tables by hand"
    async with running_server(local_settings(database_url)) as served, asking(served) as client:
        await readyz(client, 200)
        await run(database_url, "DROP TABLE events")
        is_waited_for(await client.post("/games", json={}), "is missing")
        await readyz(client, 503, "is missing")
    async with running_server(local_settings(database_url)) as served, asking(served) as client:
        await readyz(client, 503, words)
        is_waited_for(await client.get("/games"), words)
    for command in (["migrate", "--check"], ["migrate"], ["export", "b_1"], ["prune", "--older-than", "1d"]):
        refused = await asyncio.to_thread(interintent, *command, "--database-url", database_url)
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert words in refused.stderr
    checked = await asyncio.to_thread(interintent, "doctor", "--database-url", database_url)
    assert checked.exit_code == 1
    assert "events" in checked.output
    assert "the table is missing" in checked.output


@pytest.mark.long
@pytest.mark.timeout(240)
async def test_a_server_that_is_away_at_the_start_and_later_costs_bots_and_watchers_only_time() -> None:
    with PostgresServer() as server:
        url = server.create_database()
        await asyncio.to_thread(server.stop)
        async with running_server(local_settings(url)) as served, asking(served) as client:
            await readyz(client, 503, "the database does not answer")
            is_waited_for(await client.get("/games"), "the database does not answer")
            await asyncio.to_thread(server.start)
            await readyz(client, 200)
            async with Server(served.url, tries=40) as one:
                seats = [{"agent": "remote"}] + [{"agent": "random"}] * 4
                deadlines = {"vote": 600, "speak": 600}
                batch = await one.create_games(count=1, seats=seats, deadlines_s=deadlines)
                game = batch.games[0]
                watched = asyncio.create_task(_all_of(game.events(viewer="public")))
                played = asyncio.create_task(_plays(game.seat(1)))
                for mode in ("fast", "immediate"):
                    await asyncio.sleep(0.3)
                    await asyncio.to_thread(server.stop, mode)
                    await readyz(client, 503, "the database does not answer")
                    is_waited_for(await client.get("/games"), "the database does not answer")
                    is_waited_for(await client.post("/games", json={}), "the database does not answer")
                    await asyncio.to_thread(server.start)
                    await readyz(client, 200)
                events = await asyncio.wait_for(watched, WITHIN_S)
                await asyncio.wait_for(played, WITHIN_S)
                assert events[-1].type == "game_ended"
                assert [event.seq for event in events] == list(range(1, len(events) + 1))
                stored = await _all_of(game.log(viewer="public"))
                assert [event.raw for event in events] == [event.raw for event in stored]


async def _all_of(found: Any) -> list[Any]:
    return [one async for one in found]


async def _plays(seat: Any) -> None:
    async for request in seat:
        await asyncio.sleep(0.05)
        await seat.act(request, request.legal[0] if request.legal else request.default)


def of_lacking() -> Iterator[sqlite3.Error]:
    """What SQLite says of a table or a column that is not there."""
    with contextlib.closing(sqlite3.connect(":memory:")) as there:
        there.execute("CREATE TABLE t (a)")
        for statement in ("SELECT a FROM u", "SELECT b FROM t", "INSERT INTO t (b) VALUES (1)"):
            with pytest.raises(sqlite3.Error) as raised:
                there.execute(statement)
            yield raised.value


def test_every_fault_of_a_database_has_its_sentence() -> None:
    def of_sqlite(code: int) -> DBAPIError:
        fault = sqlite3.OperationalError("words")
        fault.sqlite_errorcode = code
        return DBAPIError("x", None, fault)

    class OfPostgres(Exception):
        def __init__(self, state: str) -> None:
            self.sqlstate = state

    for fault, cause in (
        (of_sqlite(sqlite3.SQLITE_FULL), "full"),
        (of_sqlite(sqlite3.SQLITE_BUSY_SNAPSHOT), "locked"),
        (of_sqlite(sqlite3.SQLITE_IOERR_SHMSIZE), "full"),
        (of_sqlite(sqlite3.SQLITE_IOERR_WRITE), "failing"),
        (of_sqlite(sqlite3.SQLITE_READONLY), "refused"),
        (of_sqlite(sqlite3.SQLITE_CORRUPT), "damaged"),
        (asyncpg.DiskFullError("x"), "full"),
        (DBAPIError("x", None, OfPostgres("53100")), "full"),
        (asyncpg.TooManyConnectionsError("x"), "crowded"),
        (asyncpg.ProtocolViolationError("unsupported startup parameter: lock_timeout"), "pooled"),
        (asyncpg.ProtocolViolationError("x"), "away"),
        (Pooled("x"), "pooled"),
        (asyncpg.DuplicatePreparedStatementError("x"), "pooled"),
        (DBAPIError("x", None, OfPostgres("26000")), "pooled"),
        (asyncpg.LockNotAvailableError("x"), "locked"),
        (asyncpg.DeadlockDetectedError("x"), "locked"),
        (asyncpg.CannotConnectNowError("x"), "away"),
        (asyncpg.InvalidPasswordError("x"), "refused"),
        (asyncpg.InvalidCatalogNameError("x"), "refused"),
        (asyncpg.InvalidSchemaNameError("x"), "refused"),
        (asyncpg.ReadOnlySQLTransactionError("x"), "refused"),
        (asyncpg.InsufficientPrivilegeError("x"), "refused"),
        (asyncpg.QueryCanceledError("x"), "broken off"),
        (asyncpg.ConnectionDoesNotExistError("x"), "away"),
        (DatabaseAway("x"), "away"),
        (UnknownSchema("x"), "schema"),
        (asyncpg.UndefinedTableError("x"), "schema"),
        (asyncpg.UndefinedColumnError("x"), "schema"),
        *((lacking, "schema") for lacking in of_lacking()),
    ):
        found = trouble_of(fault)
        assert found is not None, fault
        assert found.cause == cause, fault
        assert "\n" not in found.words
        assert bool(found.said) == (
            cause in ("refused", "schema")
            and not isinstance(fault, asyncpg.InvalidCatalogNameError | UnknownSchema)
        )
    for name, shown in (("games", "games"), ("a;b", "'a;b'"), ("my games", "NAME")):
        missing = trouble_of(asyncpg.InvalidCatalogNameError(f'database "{name}" does not exist'))
        assert missing is not None
        assert f"(createdb {shown})" in missing.words
    for ours in (
        asyncpg.PostgresSyntaxError("x"),
        of_sqlite(sqlite3.SQLITE_ERROR),
        ValueError(),
        KeyError(),
    ):
        assert trouble_of(ours) is None


@pytest.mark.parametrize("what", ["reading", "writing", "schema"])
def test_a_full_disk_is_over_as_soon_as_what_failed_works_again(what: str) -> None:
    health = DatabaseHealth()
    health.failed(what, asyncpg.DiskFullError("x"))
    assert health.trouble is not None
    # Small writes may still succeed.
    health.worked("writing")
    assert health.trouble is not None
    health.worked(what, tried=what == "writing")
    assert health.trouble is None


def test_the_log_is_told_when_it_begins_and_when_it_ends(capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    health = DatabaseHealth(lambda: now[0])
    for _ in range(5):
        health.failed("writing", DatabaseAway("x"))
        health.worked("reading")
    assert health.trouble is not None
    for _ in range(2):
        health.worked("writing")
    assert health.trouble is None
    assert sentences(capsys.readouterr().out, "the database") == 2
    health.begins_to_write()
    now[0] = 4.0
    assert health.trouble is None
    now[0] = 7.0
    assert health.trouble is not None
    assert "waiting for 7 s" in health.trouble.words
    health.stops_writing()
    assert health.trouble is None
