"""Lists of games and batches: filtered and sorted by the service, a page at a time."""

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import pytest
from sqlalchemy import insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.base.clock import timestamp
from app.games.listing import title_of
from app.store.keys import KeyStore
from app.store.tables import batches, games
from tests.app.calling import Caller, calling, problem
from tests.app.edge.test_keys import make_key

KEY = "ik_" + "k" * 43
SEATS = (
    [{"agent": "llm", "model": "m1"}, *[{"agent": "scripted"}] * 4],
    [{"agent": "random"}] * 5,
)


async def lay(caller: Caller, count: int, per_batch: int) -> list[dict[str, Any]]:
    """Stores rows of many games of every kind, without logs; returns them in the order of their creation."""
    await caller.create(drive="manual")
    database = caller.services.database
    game = dict((await database.mappings(select(games)))[0])
    batch = dict((await database.mappings(select(batches)))[0])
    start = batch["created_at"] + 1000
    laid = [
        {
            **game,
            "game_id": f"g_{(place * 7919) % 100_000:08d}",
            "batch_id": f"b_{place // per_batch:08d}",
            "position": place % per_batch,
            "created_at": start + place // per_batch * 1000,
            "finished_at": None if place % 5 == 0 else start + (place * 7919) % 4001,
            "status": "running" if place % 5 == 0 else "failed" if place % 5 == 1 else "finished",
            "winner": None if place % 5 < 2 else ("loyal", "evil")[place % 2],
            "profile": ("interintent", "official")[place % 3 == 0],
            "players": 5 + place % 4,
            "seats": SEATS[place % 7 == 0],
        }
        for place in range(count)
    ]

    async def work(connection: AsyncConnection) -> None:
        rows = {one["batch_id"]: one["created_at"] for one in laid}
        await connection.execute(
            insert(batches),
            [
                {**batch, "batch_id": name, "created_at": at, "labels": {"study": "s", "cell": f"c{at % 3}"}}
                for name, at in rows.items()
            ],
        )
        for first in range(0, count, 500):
            await connection.execute(insert(games), laid[first : first + 500])

    await database.writer.run(work)
    return laid


@pytest.fixture
async def many(database_url: str) -> AsyncIterator[tuple[Caller, list[dict[str, Any]]]]:
    async with calling(database_url, api_key=KEY) as caller:
        caller.headers["authorization"] = f"Bearer {KEY}"
        yield caller, await lay(caller, 240, 20)


async def walk(caller: Caller, query: str, limit: int = 70) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    path: str | None = f"/games?limit={limit}&{query}"
    while path is not None:
        answer = await caller.get(path)
        assert answer.status_code == 200, answer.text
        page = answer.json()
        assert page["damaged"] == []
        found += page["games"]
        link = answer.headers.get("link")
        assert (link is None) == (page["next"] is None)
        path = link[1 : link.index(">")] if link else None
    return found


def newest_first(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    in_order = sorted(rows, key=lambda row: row["position"])
    return sorted(in_order, key=lambda row: (row["created_at"], row["batch_id"]), reverse=True)


async def test_games_are_sorted_and_filtered_over_all_pages(
    many: tuple[Caller, list[dict[str, Any]]],
) -> None:
    caller, laid = many
    mine = newest_first(laid)
    since = "since=" + timestamp(laid[0]["created_at"])  # without the game that the others are copies of
    for column in ("finished", "status", "profile", "players", "winner"):
        for sign in ("", "-"):
            name = {"finished": "finished_at"}.get(column, column)
            nothing = 0 if column in ("finished", "players") else ""
            wanted = sorted(
                mine,
                key=lambda row: row[name] or nothing,
                reverse=sign == "-",
            )
            found = await walk(caller, f"{since}&sort={sign}{column}")
            assert [game["game_id"] for game in found] == [row["game_id"] for row in wanted], (sign, column)
    assert [game["game_id"] for game in await walk(caller, since)] == [row["game_id"] for row in mine]
    oldest = sorted(laid, key=lambda row: (row["created_at"], row["batch_id"], row["position"]))
    assert [game["game_id"] for game in await walk(caller, f"{since}&sort=created")] == [
        row["game_id"] for row in oldest
    ]
    for query, holds in (
        ("status=failed", lambda row: row["status"] == "failed"),
        ("winner=evil&profile=official", lambda row: (row["winner"], row["profile"]) == ("evil", "official")),
        ("agent=random", lambda row: row["seats"] == SEATS[1]),
        ("agent=random,scripted&model=m1", lambda row: row["seats"] == SEATS[0]),
        ("model=m2", lambda row: False),
        ("label=cell%3Dc1", lambda row: row["created_at"] % 3 == 1),
        ("label=cell%3Dnone", lambda row: False),
        (
            "until=" + timestamp(laid[100]["created_at"]),
            lambda row: row["created_at"] < laid[100]["created_at"],
        ),
    ):
        found = await walk(caller, f"{since}&{query}&sort=-players")
        assert {game["game_id"] for game in found} == {row["game_id"] for row in laid if holds(row)}, query
        assert [game["players"] for game in found] == sorted((g["players"] for g in found), reverse=True)


async def test_a_line_says_what_people_look_for(many: tuple[Caller, list[dict[str, Any]]]) -> None:
    caller, _ = many
    first = (await caller.get("/games?agent=random&limit=1")).json()["games"][0]
    assert first["agents"] == ["random"]
    assert first["title"].startswith("s / c")
    second = (await caller.get("/games?model=m1&limit=1")).json()["games"][0]
    assert second["agents"] == ["llm m1", "scripted"]
    _, key = await make_key(KeyStore(caller.services.database), "games:read:any")
    reader = {"authorization": f"Bearer {key}"}
    answer = await caller.get("/games?limit=1&status=finished&profile=official", headers=reader)
    line = answer.json()["games"][0]
    assert line["agents"] is None
    assert line["title"].startswith("s / c")
    for query in ("agent=random", "model=m1"):
        problem(await caller.get(f"/games?{query}", headers=reader), 403, "forbidden")


async def test_words_are_found_in_what_a_line_shows(many: tuple[Caller, list[dict[str, Any]]]) -> None:
    caller, laid = many
    since = "since=" + timestamp(laid[0]["created_at"])
    for words, holds in (
        ("random", lambda row: row["seats"] == SEATS[1]),
        ("LLM m1", lambda row: row["seats"] == SEATS[0]),
        ("evil wins", lambda row: row["winner"] == "evil"),
        ("Fail offic", lambda row: (row["status"], row["profile"]) == ("failed", "official")),
        ("c2", lambda row: row["created_at"] % 3 == 2),
        # Names of labels and of fields are no values, and signs of patterns are signs.
        ("agent", lambda row: False),
        ("study", lambda row: False),
        ("%", lambda row: False),
        ("c_", lambda row: False),
        (" ", lambda row: True),
        (laid[7]["game_id"][3:], lambda row: row is laid[7]),
        (laid[7]["batch_id"].upper(), lambda row: row["batch_id"] == laid[7]["batch_id"]),
    ):
        found = await walk(caller, f"{since}&find={quote(words)}&sort=-players")
        assert {game["game_id"] for game in found} == {row["game_id"] for row in laid if holds(row)}, words
        assert [game["players"] for game in found] == sorted((g["players"] for g in found), reverse=True)


async def test_a_whole_id_and_words_of_every_script_are_found(caller: Caller) -> None:
    batch, (game, *_) = await caller.create(count=2, drive="manual", labels={"title": 'Пилот "№1" 100%'})
    for words, count in ((game, 1), (batch, 2), ("пилот", 2), ("100%", 2), ('"№1"', 2), ("пилоты", 0)):
        assert len(await walk(caller, f"find={quote(words)}")) == count, words
    problem(await caller.get("/games?find=a%00b"), 422, "invalid-request")


async def test_words_find_nothing_that_is_not_shown(many: tuple[Caller, list[dict[str, Any]]]) -> None:
    """Neither who sits where, nor to watchers the labels."""
    caller, laid = many
    store = KeyStore(caller.services.database)
    batch = laid[0]["batch_id"]
    answer = await caller.post(f"/batches/{batch}/tokens", json={})
    watcher = {"authorization": f"Bearer {answer.json()['token']}"}
    _, reader = await make_key(store, "games:read:any")
    _, stranger = await make_key(store, "games:read:any", "export:full")
    _, researcher = await make_key(store, "games:read:any", "export:full:any")
    _, other = await make_key(store, "games:read")
    for key, words, count in (
        (reader, "scripted", 0),
        (reader, "c1", 1),
        (stranger, "scripted", 0),
        (researcher, "scripted", 1),
        (other, "c1", 0),
    ):
        bearer = {"authorization": f"Bearer {key}"}
        page = (await caller.get(f"/games?find={words}&limit=1", headers=bearer)).json()
        assert len(page["games"]) == count, words
    for words, count in (("c0", 0), ("c1", 0), ("c2", 0), ("scripted", 0), ("official", 1)):
        page = (await caller.get(f"/games?batch={batch}&find={words}&limit=1", headers=watcher)).json()
        assert len(page["games"]) == count, words


async def test_wrong_filters_are_refused(caller: Caller) -> None:
    for query in (
        "sort=secret",
        "label=%00%3Da",
        "label=a%3D%00",
        "sort=--created",
        "since=yesterday",
        "since=2026-01-01T00:00:00",
        "winner=me",
    ):
        assert (await caller.get(f"/games?{query}")).status_code == 422, query
    page = (await caller.post("/games", json={"count": 3, "drive": "manual"})) and await caller.get(
        "/games?limit=1&sort=-finished"
    )
    cursor = page.json()["next"]
    problem(await caller.get(f"/games?limit=1&cursor={cursor}"), 422, "invalid-request")


async def test_batches_are_listed_newest_first_with_their_counts(database_url: str) -> None:
    async with calling(database_url) as caller:
        wishes: list[dict[str, Any]] = [
            {"count": 2, "labels": {"title": "A pilot"}, "seats": [{"agent": "random"}]},
            {"labels": {"study": "s", "cell": "c"}, "drive": "manual"},
            {"labels": {}, "drive": "manual"},
        ]
        made = [
            (await caller.played(**wishes[0]))[0],
            *[(await caller.create(**one))[0] for one in wishes[1:]],
        ]
        lines: list[dict[str, Any]] = []
        path: str | None = "/batches?limit=2"
        while path is not None:
            answer = await caller.get(path)
            lines += answer.json()["batches"]
            link = answer.headers.get("link")
            path = link[1 : link.index(">")] if link else None
        assert [line["batch_id"] for line in lines] == made[::-1]
        assert [line["title"] for line in lines] == ["", "s / c", "A pilot"]
        pilot = lines[2]
        assert (pilot["status"], pilot["count"], pilot["games"]["finished"]) == ("done", 2, 2)
        assert sum(pilot["winners"].values()) == 2
        assert pilot["finished_at"] > pilot["created_at"]
        assert (lines[0]["status"], lines[0]["finished_at"]) == ("queued", None)
        found = (await caller.get("/batches?label=study=s")).json()["batches"]
        assert [line["batch_id"] for line in found] == [made[1]]


@pytest.mark.parametrize(
    ("labels", "title"),
    [
        ({}, ""),
        ({"title": "Mine", "study": "s"}, "Mine"),
        ({"study": "s", "x": "y"}, "s"),
        ({"a": "1", "b": "2"}, "a=1, b=2"),
        (None, ""),
    ],
)
def test_a_batch_is_called_by_its_labels(labels: dict[str, str] | None, title: str) -> None:
    assert title_of(labels) == title
