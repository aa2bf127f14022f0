"""Whatever is wrong with a database is found, named, and can be mended where that follows from the logs."""

import asyncio
import json
import os
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.app.calling import calling
from tests.app.evaluations.test_evaluations_api import games_of
from tests.app.games.test_deleting import everything
from tests.app.store.one_of_each import add_damaged
from tests.app.store.test_schema import run
from tests.app.typed import interintent
from tests.ports import steady_port

CANARY = "canary3e9a"


async def doctor(url: str, *words: str, status: int = 0) -> list[dict[str, Any]]:
    result = await asyncio.to_thread(interintent, "doctor", "--json", *words, "--database-url", url)
    assert result.exit_code == status, result.output
    found: list[dict[str, Any]] = json.loads(result.stdout)["findings"]
    return found


async def test_a_database_in_order_has_no_findings_while_games_are_played(database_url: str) -> None:
    async with calling(database_url) as caller:
        batch, _ = await games_of(caller, 2)
        await caller.post(
            "/evaluations", json={"dimension": "selection", "batch": batch, "judge": {"kind": "rule"}}
        )
        _, [game] = await caller.create(drive="manual", seats=[{"agent": "random"}])
        await caller.post(f"/games/{game}/step", json={"until": "phase"})
        _, [cancelled] = await caller.create(drive="manual")
        await caller.post(f"/games/{cancelled}/cancel")
        # What waits for a game names none, or one that is not there yet; so does a token of a whole batch.
        assert (await caller.post("/seeks", json={"bot": "owl"})).status_code == 201
        wish = {"seats": [{"agent": "open"}] * 2 + [{}] * 3}
        assert (await caller.post("/games/open", json=wish)).status_code == 201
        assert (await caller.post(f"/batches/{batch}/tokens", json={})).status_code == 201
        playing, _ = await caller.create(count=15)
        assert await doctor(database_url) == []
        before = await everything(database_url)
        assert await doctor(database_url, "--mend") == []
        assert before["open_games"] == (await everything(database_url))["open_games"] != []
        await caller.over(playing)
    said = await asyncio.to_thread(interintent, "doctor", "--database-url", database_url)
    assert (said.exit_code, said.stdout, said.stderr) == (0, "", "nothing is wrong\n")


BROKEN = {
    "hole": ("DELETE FROM events WHERE game_id = '{game}' AND seq = 7", "log", "has holes"),
    "cut off": ("DELETE FROM events WHERE game_id = '{game}' AND seq > 9", "log", "its log has 9 events"),
    "no json": (
        "UPDATE events SET payload = '{{' WHERE game_id = '{game}' AND seq = 7",
        "log",
        "invalid JSON",
    ),
    "shown": ("UPDATE events SET audience = 3 WHERE game_id = '{game}' AND seq = 1", "log", "audience"),
    "winner": ("UPDATE games SET winner = NULL WHERE game_id = '{game}'", "index", "winner is None, the log"),
    "head too low": ("UPDATE games SET head = head - 5 WHERE game_id = '{game}'", "index", "head is "),
    "head too high": ("UPDATE games SET head = head + 5 WHERE game_id = '{game}'", "index", "head is "),
    "status": (
        "UPDATE games SET status = 'running' WHERE game_id = '{game}'",
        "index",
        "status is 'running'",
    ),
    "defaults": ("UPDATE games SET defaults = '{{}}' WHERE game_id = '{game}'", "index", "defaults is {{}}"),
    "seats": (
        "UPDATE games SET seats = '7' WHERE game_id = '{game}'",
        "row",
        "what its row has as seats cannot be read",
    ),
    "events": (
        "INSERT INTO events VALUES ('g_gone', 1, 1, 0, 'x', '{{}}')",
        "orphan",
        "1 rows of events are of a game that is not there",
    ),
    "inbox": (
        "INSERT INTO refusals VALUES ('g_gone', '1.1.vote.1', 1, 1, NULL, 'a', 'b', 'c', 'd')",
        "orphan",
        "1 rows of refusals",
    ),
    "batch": ("UPDATE batches SET count = 1", "batch", "it has 2 games and says 1"),
    "larger batch": ("UPDATE batches SET count = 9", "batch", "it has 2 games and says 9"),
    "labels": ("UPDATE batches SET labels = '[]'", "row", "cannot be read"),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_what_is_broken_is_found_and_mended_if_the_log_says_how(database_url: str, name: str) -> None:
    statement, kind, what = BROKEN[name]
    async with calling(database_url) as caller:
        _, [game, _] = await caller.played(count=2)
    await run(database_url, statement.format(game=game))
    found = await doctor(database_url, status=1)
    assert [one["kind"] for one in found] == [kind], found
    assert what.replace("{{}}", "{}") in found[0]["what"]
    assert found[0]["todo"]
    if kind in ("index", "orphan"):
        assert [one["mended"] for one in await doctor(database_url, "--mend")] == [True]
        assert await doctor(database_url) == []
    else:
        assert [one["mended"] for one in await doctor(database_url, "--mend", status=1)] == [False]


@pytest.mark.parametrize("wrong", [-1, 1])
async def test_how_long_the_log_of_a_game_is_that_goes_on_is_not_guessed(tmp_path: Path, wrong: int) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path / 'games.sqlite'}"
    async with calling(url) as caller:
        _, [game] = await caller.create(drive="manual", seats=[{"agent": "random"}])
        await caller.post(f"/games/{game}/step", json={"until": "phase"})
    await run(url, f"UPDATE games SET head = head + {wrong}")
    before = await everything(url)
    [found] = await doctor(url, "--mend", status=1)
    assert (found["kind"], found["where"], found["mended"]) == ("log", game, False)
    assert "events, and its row counts " in found["what"]
    assert await everything(url) == before


async def test_what_is_neither_true_nor_false_is_found(tmp_path: Path) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path / 'games.sqlite'}"
    async with calling(url) as caller:
        batch, [game] = await caller.played()
    await run(url, "UPDATE batches SET cancelled = 7", "UPDATE games SET rated = 7")
    found = await doctor(url, status=1)
    assert [one["where"] for one in found if one["kind"] in ("row", "log")] == [
        game,
        f"the row {batch} of batches",
    ]


async def test_a_row_of_any_table_that_cannot_be_read_is_found(database_url: str) -> None:
    damaged = await add_damaged(database_url)
    assert {"seeks", "bots", "tokens", "audit", "quotas", "evaluation_sets", "set_answers"} <= damaged.keys()
    found = [one for one in await doctor(database_url, status=1) if one["kind"] == "row"]
    assert Counter(one["where"].rpartition(" of ")[2] for one in found) == damaged
    assert not [one for one in found if not one["todo"] or one["mended"]]


@pytest.mark.parametrize("value", ["x'ff00'", f"CAST(x'ff' || '{CANARY}' AS TEXT)", f"'{CANARY} said'"])
@pytest.mark.parametrize("table", ["games", "events"])
async def test_a_game_whose_id_cannot_be_read_is_found_and_its_id_is_not_quoted(
    table: str, value: str, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'games.sqlite'}"
    async with calling(url) as caller:
        _, [game, _] = await caller.played(count=2)
    with closing(sqlite3.connect(tmp_path / "games.sqlite")) as damaging, damaging:
        # As a disk does it: without a look at foreign keys.
        damaging.execute(f"UPDATE {table} SET game_id = {value} WHERE game_id = ?", (game,))
        before = damaging.execute("SELECT count(*) FROM events").fetchone()
    for words in ((), ("--mend",)):
        found = await doctor(url, *words, status=1)
        [named] = [one for one in found if "cannot be read" in one["what"]]
        assert (named["kind"], named["where"], named["mended"]) == (
            ("row", "the row without a name of games", False)
            if table == "games"
            else ("orphan", "events", False)
        )
        assert CANARY not in json.dumps(found)
    # What was the game's is all that there is of it.
    with closing(sqlite3.connect(tmp_path / "games.sqlite")) as connection:
        assert connection.execute("SELECT count(*) FROM events").fetchone() == before


async def test_a_changed_table_and_an_older_schema_are_found(database_url: str) -> None:
    await run(database_url, "ALTER TABLE games DROP COLUMN fault")
    found = await doctor(database_url, status=1)
    assert ("games", "the column fault is missing") in {(one["where"], one["what"]) for one in found}
    await run(database_url, "UPDATE alembic_version SET version_num = 'a4b8d35e9c17'")
    [one] = await doctor(database_url, status=1)
    assert (one["kind"], one["todo"]) == ("schema", "interintent migrate")


LEAF = 0x0A
"""The first byte of a lowest page of a table without row ids (SQLite's file format, 1.6). Below others there
are pages of all games, which would be lost with it.
"""


async def test_damage_of_the_file_is_found(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'games.sqlite'}"
    async with calling(url) as caller:
        await caller.played(count=3)
    with closing(sqlite3.connect(tmp_path / "games.sqlite")) as there:
        there.execute("PRAGMA writable_schema = ON")
        there.execute(
            "DELETE FROM sqlite_master WHERE name = 'ix_games_status'"
        )  # its pages belong to nothing
        there.commit()
    found = await doctor(url, status=1)
    assert {one["kind"] for one in found} == {"file"}


async def test_pages_that_were_overwritten_hide_nothing_else_and_a_backup_is_written(tmp_path: Path) -> None:
    file = tmp_path / "games.sqlite"
    url = f"sqlite:///{file}"
    async with calling(url) as caller:
        _, [game, other] = await caller.played(count=2)
    with closing(sqlite3.connect(file)) as there:
        there.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        [size] = there.execute("PRAGMA page_size").fetchone()
    data = bytearray(file.read_bytes())
    pages = [data[at : at + size] for at in range(0, len(data), size)]
    of_log = [
        at
        for at, page in enumerate(pages)
        if page[0] == LEAF and page.count(game.encode()) > 3 and other.encode() not in page
    ]
    assert len(of_log) > 3
    for at in of_log[1:4]:
        data[at * size : (at + 1) * size] = bytes([0xA5]) * size
    file.write_bytes(data)

    found = await doctor(url, status=1)
    assert found[0]["kind"] == "file"
    assert "table events: " in found[0]["what"]
    assert "restore a backup" in found[0]["todo"]
    assert "interintent export" in found[0]["todo"]
    assert {one["where"] for one in found if one["kind"] == "log"} == {game}
    assert found == await doctor(url, "--mend", status=1)
    said = await asyncio.to_thread(interintent, "doctor", "--database-url", url)
    assert said.stderr == f"findings {len(found)} (1 file, {len(found) - 1} log)\n"  # and no log
    assert (await asyncio.to_thread(interintent, "export", other, "--database-url", url)).exit_code == 0

    copy = tmp_path / "copy.zip"
    said = await asyncio.to_thread(interintent, "backup", copy, "--database-url", url)
    assert said.exit_code == 1
    assert "wrote" in said.stderr
    assert "the database is damaged: table events: " in said.stderr
    assert (await asyncio.to_thread(interintent, "restore", "--check", copy)).exit_code == 0


async def test_of_a_file_whose_end_is_missing_the_rest_is_read(tmp_path: Path) -> None:
    file, copy = tmp_path / "games.sqlite", tmp_path / "copy.zip"
    url = f"sqlite:///{file}"
    async with calling(url) as caller:
        batch, games = await caller.played(count=8)
    with closing(sqlite3.connect(file)) as there:
        there.execute("VACUUM")
        # A text that needs pages of its own, which are the last ones: the tables that list games are whole.
        longer = "UPDATE events SET payload = payload || printf('%40000s', '') WHERE game_id = ? AND seq = 4"
        there.execute(longer, (games[3],))
        there.commit()
        there.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    left = file.stat().st_size - 2 * 4096
    os.truncate(file, left)

    found = await doctor(url, status=1)
    assert found[0]["what"] == f"its end is missing: about {left:,} bytes are left"
    assert "restore a backup" in found[0]["todo"]
    unread = {one["where"] for one in found if one["kind"] == "log"}
    assert games[3] in unread  # and others where a page of the index of the log is lost
    said = await asyncio.to_thread(interintent, "export", batch, "--partial", "--database-url", url)
    assert "Traceback" not in said.output
    lines = [json.loads(line) for line in said.stdout.splitlines()]
    assert {line["game"] for line in lines if line.get("type") == "game_ended"} == {*games} - unread, (
        said.output
    )
    said = await asyncio.to_thread(interintent, "backup", copy, "--database-url", url)
    assert (said.exit_code, copy.exists()) == (1, True)
    assert "the database is damaged: its end is missing" in said.stderr
    assert file.stat().st_size == left


@pytest.mark.parametrize("command", [["doctor"], ["migrate"], ["backup", "copy"]])
def test_a_database_that_cannot_be_used_is_named_with_the_cause_and_what_to_do(
    tmp_path: Path, command: list[str]
) -> None:
    file = tmp_path / "games.sqlite"
    file.write_bytes(b"no database" * 100)
    away = f"postgresql://ann:secret@127.0.0.1:{steady_port()}/games"
    for url, words in (
        (f"sqlite:///{file}", (f"sqlite:///{file} cannot be used", "is damaged", "restore a backup")),
        (away, ("postgresql://ann:***@127.0.0.1:", "/games cannot be used", "see that it runs")),
    ):
        said = interintent(*command, "--database-url", url)
        assert said.exit_code == 2, said.output
        assert all(word in said.stderr for word in words), said.stderr
        assert "secret" not in said.output


async def test_an_export_leaves_out_and_names_a_game_whose_page_of_the_file_is_damaged(
    tmp_path: Path,
) -> None:
    file = tmp_path / "games.sqlite"
    url = f"sqlite:///{file}"
    async with calling(url) as caller:
        batch, found = await caller.played(count=3)
    with closing(sqlite3.connect(file)) as there:
        there.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        [(size,)] = there.execute("PRAGMA page_size").fetchall()
    content = bytearray(file.read_bytes())
    pages = [slice(at, at + size) for at in range(size, len(content), size)]
    lost, *others = (game.encode() for game in found)
    of_lost = [
        page
        for page in pages
        if content[page.start] == LEAF
        and lost in content[page]
        and b"utterance_made" in content[page]
        and not any(other in content[page] for other in others)
    ]
    content[of_lost[0]] = bytes(size)
    file.write_bytes(content)
    out = tmp_path / "b.ndjson"
    done = await asyncio.to_thread(interintent, "export", batch, "--out", out, "--database-url", url)
    assert done.exit_code == 1, done.output
    assert f"{found[0]} is damaged and left out" in done.stderr
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert {line.get("game") for line in lines if line.get("type") == "game_ended"} == set(found[1:])
    assert (lines[-1]["games"], lines[-1]["damaged"]) == (2, 1)
    report = await asyncio.to_thread(interintent, "report", "--batch", batch, "--database-url", url)
    assert report.exit_code == 0, report.output
    assert json.loads(report.stdout)["made_of"]["games"] == 2
    assert f"passed over: 1 × its log cannot be read ({found[0]})" in report.stderr, report.stderr
    items = await asyncio.to_thread(interintent, "items", "--batch", batch, "--database-url", url)
    named = {json.loads(line)["id"].partition("/")[0] for line in items.stdout.splitlines() if '"id"' in line}
    assert named == set(found[1:])
    assert found[0] in items.stderr
    alone = await asyncio.to_thread(interintent, "export", found[0], "--database-url", url)
    assert alone.exit_code == 2
    assert "interintent doctor" in alone.stderr
