"""Damaged rows hide no other game, and their content is neither shown nor logged."""

import asyncio
import json
import secrets
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from tests.app.calling import WITHIN_S, calling, serving_process
from tests.app.edge.test_keys import bearer, store_of
from tests.app.edge.test_keys import make_key as make_key_in
from tests.app.store.one_of_each import add_damaged
from tests.app.typed import interintent

CANARY = f"canary{secrets.token_hex(8)}"

ROWS = {
    # What becomes of a row that holds the canary, at its place :seq of the game :game.
    "no json": f"UPDATE events SET payload = '{CANARY}' WHERE game_id = :game AND seq = :seq",
    "half json": "UPDATE events SET payload = substr(payload, 1, length(payload) - 2) "
    "WHERE game_id = :game AND seq = :seq",
    "a list": f"""UPDATE events SET payload = '["{CANARY}"]' WHERE game_id = :game AND seq = :seq""",
    "two lines": "UPDATE events SET payload = replace(payload, ',', ',\n') "
    "WHERE game_id = :game AND seq = :seq",
    "a text": f"""UPDATE events SET payload = '"{CANARY}"' WHERE game_id = :game AND seq = :seq""",
    "empty": "UPDATE events SET payload = '{}' WHERE game_id = :game AND seq = :seq",
    "other fields": f"""UPDATE events SET payload = '{{"{CANARY}": 1}}' """
    "WHERE game_id = :game AND seq = :seq",
    "wrong kinds": 'UPDATE events SET payload = replace(payload, \'"seat":\', \'"seat":[],"turn":\') '
    "WHERE game_id = :game AND seq = :seq",
    "a seat of text": f"""UPDATE events SET payload = '{{"seat": "{CANARY}", """
    f""""round": 1, "attempt": 1, "turn": 1, """
    f""""phase": "discuss","text": "{CANARY}"}}' WHERE game_id = :game AND seq = :seq""",
    "no such phase": f"""UPDATE events SET payload = '{{"seat": 1,"round": 1, "attempt": 1, "turn": 1, """
    f""""phase": "{CANARY}","text": "{CANARY}"}}' WHERE game_id = :game AND seq = :seq""",
    "no such seat": f"""UPDATE events SET payload = '{{"seat": 77,"round": 1, "attempt": 1, "turn": 1, """
    f""""phase": "discuss","text": "{CANARY}"}}', type = 'vote_cast' WHERE game_id = :game AND seq = :seq""",
    "unknown type": f"UPDATE events SET type = '{CANARY}' WHERE game_id = :game AND seq = :seq",
    "another type": "UPDATE events SET type = 'game_created' WHERE game_id = :game AND seq = :seq",
    "another audience": "UPDATE events SET audience = 3 WHERE game_id = :game AND seq = :seq",
    "a hole": "DELETE FROM events WHERE game_id = :game AND seq = :seq",
    "the first is gone": "DELETE FROM events WHERE game_id = :game AND seq = 1",
    "the last is gone": "DELETE FROM events WHERE game_id = :game AND seq = "
    "(SELECT max(seq) FROM events WHERE game_id = :game)",
    "none is left": "DELETE FROM events WHERE game_id = :game",
    "the place moved": "UPDATE events SET seq = seq + 100000 WHERE game_id = :game AND seq = :seq",
    "a place below": "UPDATE events SET seq = -5 WHERE game_id = :game AND seq = :seq",
    "a time after all": f"UPDATE events SET at = {9 * 10**18} WHERE game_id = :game AND seq = :seq",
    "a time before all": f"UPDATE events SET at = -{9 * 10**18} WHERE game_id = :game AND seq = :seq",
}
SQLITE_ROWS = {
    "bytes": "UPDATE events SET payload = CAST(payload AS BLOB) WHERE game_id = :game AND seq = :seq",
    "no utf-8": f"UPDATE events SET payload = CAST(x'7b22' || '{CANARY}' || x'ff227d' AS TEXT) "
    "WHERE game_id = :game AND seq = :seq",
    "a time of text": f"UPDATE events SET at = '{CANARY}' WHERE game_id = :game AND seq = :seq",
    "a place of text": f"UPDATE events SET seq = '{CANARY}' WHERE game_id = :game AND seq = :seq",
    "an audience of text": f"UPDATE events SET audience = '{CANARY}' WHERE game_id = :game AND seq = :seq",
}
COLUMNS = {
    "seats that are an object": f"""UPDATE games SET seats = '{{"a": "{CANARY}"}}' WHERE game_id = :game""",
    "seats that are words": f"""UPDATE games SET seats = '["{CANARY}"]' WHERE game_id = :game""",
    "another head": "UPDATE games SET head = head + 3 WHERE game_id = :game",
    "seats that are null": "UPDATE games SET seats = 'null' WHERE game_id = :game",
    "seats of other kinds": f"""UPDATE games SET seats = '[{{"agent": ["{CANARY}"]}}]' """
    "WHERE game_id = :game",
    "no such status": f"UPDATE games SET status = '{CANARY}' WHERE game_id = :game",
    "no such winner": f"UPDATE games SET winner = '{CANARY}', ending = '{CANARY}' WHERE game_id = :game",
    "no such drive": f"UPDATE games SET drive = '{CANARY}' WHERE game_id = :game",
    "too many players": "UPDATE games SET players = 99 WHERE game_id = :game",
    "a start after all": f"UPDATE games SET created_at = {9 * 10**18} WHERE game_id = :game",
    "an end after all": f"UPDATE games SET finished_at = {9 * 10**18} WHERE game_id = :game",
    "a fork of a list": f"""UPDATE games SET forked_from = '["{CANARY}"]' WHERE game_id = :game""",
    "an import of lists": f"""UPDATE games SET imported_from = '{{"id": ["{CANARY}"]}}' """
    "WHERE game_id = :game",
    "epochs of text": f"""UPDATE games SET epochs = '{{"2": "{CANARY}"}}' WHERE game_id = :game""",
}
SQLITE_COLUMNS = {
    "seats that are no json": f"UPDATE games SET seats = '{CANARY}' WHERE game_id = :game",
    "seats that are no utf-8": f"UPDATE games SET seats = CAST('[\"{CANARY}' || x'ff' || '\"]' AS TEXT) "
    "WHERE game_id = :game",
    "players of text": f"UPDATE games SET players = '{CANARY}' WHERE game_id = :game",
    "a start of text": f"UPDATE games SET created_at = '{CANARY}' WHERE game_id = :game",
    "an end of text": f"UPDATE games SET finished_at = '{CANARY}' WHERE game_id = :game",
    "a status of bytes": "UPDATE games SET status = x'ff00' WHERE game_id = :game",
    "a seed of bytes": f"UPDATE games SET seed = CAST(x'ff' || '{CANARY}' AS TEXT) WHERE game_id = :game",
    "players between": "UPDATE games SET players = 5.5 WHERE game_id = :game",
    "a fork of no json": f"UPDATE games SET forked_from = '{CANARY}' WHERE game_id = :game",
}
BESIDE = {*COLUMNS, *SQLITE_COLUMNS} - {"another head"}
"""Damage beside the log: the log itself reads, and is exported."""


def damages(url: str) -> tuple[dict[str, str], dict[str, str]]:
    """By name: what damages a log, and what damages the row of a game."""
    if url.startswith("sqlite"):
        return ROWS | SQLITE_ROWS, COLUMNS | SQLITE_COLUMNS
    return ROWS, COLUMNS


def created(client: httpx.Client, **wish: Any) -> tuple[str, list[str]]:
    body = client.post("/games", json=wish).json()
    with client.stream("GET", f"/batches/{body['batch_id']}/events", params={"follow": True}) as lines:
        *_, view = lines.iter_lines()
    assert json.loads(view)["status"] == "done"
    return body["batch_id"], [game["game_id"] for game in body["games"]]


def plant(url: str, games: dict[str, str], rows: dict[str, str], columns: dict[str, str]) -> None:
    """Puts the canary into what somebody said in each of the games, and damages that row."""
    said = "SELECT min(seq) FROM events WHERE game_id = :game AND type = 'utterance_made' AND seq > 20"

    async def work() -> None:
        engine = create_async_engine(url)
        async with engine.begin() as connection:
            for name, game in games.items():
                seq = (await connection.execute(text(said), {"game": game})).scalar_one()
                if name in rows:
                    await connection.execute(
                        text(
                            'UPDATE events SET payload = replace(payload, \'"text":"\', :word) '
                            "WHERE game_id = :game AND seq = :seq"
                        ),
                        {"word": f'"text":"{CANARY} ', "game": game, "seq": seq},
                    )
                values = {"game": game, "seq": seq} if ":seq" in (rows | columns)[name] else {"game": game}
                await connection.execute(text((rows | columns)[name]), values)
        await engine.dispose()

    asyncio.run(work())


ASKS = (
    ("GET", "/games/{game}", None),
    ("GET", "/games/{game}?viewer=public", None),
    ("GET", "/games/{game}?viewer=seat:2", None),
    ("GET", "/games/{game}/events", None),
    ("GET", "/games/{game}/events?viewer=seat:2", None),
    ("GET", "/games/{game}/events?viewer=public&after=3", None),
    ("GET", "/evaluations/items?game={game}&dimension=guessing", None),
    ("GET", "/annotations?game={game}", None),
    ("POST", "/games/{game}/step", {}),
    ("POST", "/games/{game}/fork", {"after": {"request": "1.1.propose_team.1"}}),
    ("POST", "/games/{game}/fork", {"after": {"round": 1, "attempt": 1, "phase": "vote"}, "drive": "manual"}),
    ("POST", "/games/{game}/cancel", None),
)


@pytest.mark.long
def test_a_damaged_row_hides_no_other_game_and_is_shown_to_nobody(database_url: str, tmp_path: Path) -> None:
    rows, columns = damages(database_url)
    names = [*rows, *columns]
    with serving_process(database_url, tmp_path) as process:
        # A server that broke over a request closes the connection behind its answer.
        alone = httpx.Limits(max_keepalive_connections=0)
        with httpx.Client(base_url=process.url, trust_env=False, limits=alone, timeout=WITHIN_S) as client:
            batch, ids = created(
                client, count=len(names) + 1, seeds={"from": 1}, seats=[{"agent": "scripted"}]
            )
            whole = ids[-1]
            games = dict(zip(names, ids, strict=False))
            before = client.get(f"/games/{whole}/events").text
            tasks = f"/annotations/tasks?batch={batch}&rater=a&limit=50"
            dealt = {task["game_id"] for task in client.get(tasks).json()["tasks"]}
            plant(database_url, games, rows, columns)
            damaged = {game for name, game in games.items() if name not in BESIDE}
            assert dealt & damaged
            for view in ("full", "public"):
                check_export(client.get(f"/batches/{batch}/export", params={"view": view}), damaged, games)
            assert client.get(f"/games/{whole}/events").text == before
            told = []
            for name, game in games.items():
                for method, path, body in ASKS:
                    answer = client.request(method, path.format(game=game), json=body)
                    # The damage is known as such: nothing breaks on our side.
                    internal = answer.status_code == 500 and answer.json()["code"] == "internal"
                    assert not internal, (name, method, path)
                    # What is said where the log still reads is said to the researcher.
                    if (name in rows and not name.startswith("a time")) or answer.status_code >= 400:
                        told.append((name, path, answer.text))
            listed = client.get("/games", params={"batch": batch, "limit": 100})
            page = listed.json()
            assert len(page["games"]) + len(page["damaged"]) == len(ids)
            told += [("listing", "/games", listed.text)]
            for path in (
                f"/batches/{batch}",
                f"/batches/{batch}/events",
                f"/evaluations/items?batch={batch}&dimension=guessing&limit=1",
                f"/evaluations/items?batch={batch}&dimension=selection&format=ndjson",
                f"/reports?batch={batch}",
                f"/annotations?batch={batch}",
                tasks,
                "/metrics",
            ):
                answer = client.get(path)
                told.append(("batch", path, answer.text))
                assert answer.status_code == 200, (path, answer.text)
            leaks = {(name, path) for name, path, said in told if CANARY in said}
            assert leaks == set(), leaks
            # And the service goes on.
            created(client, count=2)
        process.terminate()
    log = "".join(process.said)
    assert "cannot be read" in log
    assert CANARY not in log
    check_commands(database_url, batch, damaged, tmp_path)


def check_commands(url: str, batch: str, damaged: set[str], tmp_path: Path) -> None:
    """The same from the command line, without a server."""
    at = ("--database-url", url)
    out = tmp_path / "games.ndjson"
    exported = interintent("export", batch, "--out", out, *at)
    assert exported.exit_code == 1, exported.output
    for game in damaged:
        assert game in exported.stderr
    assert CANARY not in out.read_text()
    for words in (
        ["export", min(damaged)],
        ["items", "--batch", batch],
        ["report", "--batch", batch],
        ["annotations", "export", "--batch", batch],
        ["authors", "export", batch, "--out", str(tmp_path / "run")],
        ["judge", batch, "--rules", "--dimension", "statements"],
        ["answers", "export", batch, "--out", str(tmp_path / "answers.ndjson")],
    ):
        done = interintent(*words, *at)
        # What it writes is what can be read; beside it, nothing of anybody is said.
        assert CANARY not in done.stderr, words


def check_export(answer: httpx.Response, damaged: set[str], games: dict[str, str]) -> None:
    assert answer.status_code == 200
    assert CANARY not in answer.text
    lines = [json.loads(line) for line in answer.text.splitlines()]
    *body, end = lines
    named = {line["game"] for line in body if line.get("t") == "export.damaged"}
    others = {name for name, game in games.items() if game in damaged - named}
    assert others == set(), others
    assert named == damaged
    assert end["damaged"] == len(damaged)
    opened = sum(line.get("type") == "provenance" for line in body)
    assert end["events"] == len(body) - len(named) - opened
    assert opened == len(games) + 1 - len(damaged)
    assert not {line["game"] for line in body if "seq" in line} & damaged


KEYS = (
    # What damages the row of a key, on both databases.
    ("scopes", f"""'"{CANARY}"'"""),
    ("scopes", "'null'"),
    ("scopes", """'[7]'"""),
    ("scopes", f"""'["{CANARY}", "\\u0000"]'"""),
    ("expires_at", str(-9 * 10**18)),
    ("created_at", str(9 * 10**18)),
    ("used_at", str(9 * 10**18)),
)
SQLITE_KEYS = (
    ("scopes", f"'{CANARY}'"),
    ("expires_at", f"'{CANARY}'"),
    ("created_at", "9e999"),
    ("used_at", "x'ff'"),
)


def test_damaged_keys_open_nothing_and_close_nothing(database_url: str, tmp_path: Path) -> None:
    """Whatever is wrong with the row of a key or of a secret, the others are good, and no caller without one
    gets in."""
    sqlite = database_url.startswith("sqlite")
    damages = KEYS + (SQLITE_KEYS if sqlite else ())
    good, *bad = (make_key(database_url, name) for name in ("good", *map(str, range(len(damages)))))
    for number, (column, value) in enumerate(damages):
        execute(database_url, f"UPDATE api_keys SET {column} = {value} WHERE name = '{number}'")
    no_secret = "x'ff'" if sqlite else "''"
    for change, status in (
        ("UPDATE api_keys SET used_at = NULL WHERE name = 'good'", 200),
        (f"UPDATE token_secrets SET secret = {no_secret}", 200),
        ("DELETE FROM api_keys WHERE name = 'good'", 401),
    ):
        execute(database_url, change)
        with serving_process(database_url, tmp_path) as process:
            with httpx.Client(base_url=process.url, trust_env=False, timeout=WITHIN_S) as client:
                assert client.get("/games").status_code == 401, change
                for key, damage in zip((good, *bad), (None, *damages), strict=True):
                    answer = client.get("/games", headers={"Authorization": f"Bearer {key}"})
                    # A scope that nobody knows, as of a later version, is none.
                    expected = {401, 403} if damage else {status}
                    assert answer.status_code in expected, (change, damage)
                    assert CANARY not in answer.text
            process.terminate()
        assert CANARY not in "".join(process.said)


def make_key(url: str, name: str) -> str:
    made = interintent("keys", "create", "--name", name, "--scope", "games:read", "--database-url", url)
    assert made.exit_code == 0, made.output
    return made.stdout.strip()


def execute(url: str, statement: str) -> None:
    async def work() -> None:
        engine = create_async_engine(url)
        async with engine.begin() as connection:
            await connection.execute(text(statement))
        await engine.dispose()

    asyncio.run(work())


async def test_no_damaged_row_of_any_table_breaks_a_list_or_what_is_asked_beside_it(
    database_url: str,
) -> None:
    async with calling(database_url) as caller:
        batch, [game] = await caller.played(seats=[{"agent": "random"}])
    await add_damaged(database_url)
    async with calling(database_url) as caller:
        caller.headers.update(bearer((await make_key_in(store_of(caller)))[1]))
        for path in (
            *("/games", "/batches", "/tokens", "/bots", "/seeks", "/evaluations", "/evaluations/sets"),
            *("/ratings", "/me", f"/annotations/progress?batch={batch}", "/metrics", "/readyz?verbose=true"),
            *(f"/games/{game}", f"/batches/{batch}", f"/annotations?batch={batch}", f"/tokens?game={game}"),
            *(f"/reports?batch={batch}", f"/evaluations/items?batch={batch}&dimension=guessing"),
        ):
            answer = await caller.get(path)
            assert answer.status_code == 200, (path, answer.text[:300])
        # Of single ones, the damage is told as such.
        for path in ("bots/p_{}", "seeks/s_{}", "evaluations/e_{}", "evaluations/sets/s_{}"):
            for number in range(6):
                answer = await caller.get("/" + path.format(number))
                said = answer.json().get("code")
                assert answer.status_code in (200, 404) or said == "corrupt-log", (path, number, answer.text)
        assert (await caller.post("/seeks", json={"bot": "owl"})).status_code == 201
        assert (await caller.post("/bots", json={"name": "owl", "version": "1"})).status_code == 201
        _, again = await caller.played(seats=[{"agent": "random"}])
        assert (await caller.delete(f"/batches/{batch}")).status_code == 200
        assert (await caller.get(f"/games/{again[0]}")).status_code == 200
    listed = await asyncio.to_thread(interintent, "audit", "--database-url", database_url)
    assert listed.exit_code in (0, 1), listed.output


def test_a_kept_answer_that_cannot_be_read_causes_no_crash(tmp_path: Path) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path / 'kept.db'}"
    values = (
        "answer = '[]'",
        "answer = 'null'",
        f"""answer = '{{"{CANARY}"\\: 1}}'""",
        "status = 99999",
        "body_hash = x'ff'",
    )
    with serving_process(url, tmp_path) as process:
        limits = httpx.Limits(max_keepalive_connections=0)
        with httpx.Client(base_url=process.url, trust_env=False, limits=limits, timeout=WITHIN_S) as client:
            for number, value in enumerate(values):
                headers = {"Idempotency-Key": f"key-{number}"}
                assert client.post("/games", json={}, headers=headers).status_code == 201
                execute(url, f"UPDATE idempotency SET {value}")
                again = client.post("/games", json={}, headers=headers)
                assert (again.status_code, again.json()["code"]) == (500, "corrupt-log"), value
        process.terminate()
    assert CANARY not in "".join(process.said)
