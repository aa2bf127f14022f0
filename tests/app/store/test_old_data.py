"""Data stored by earlier versions can be opened, continued and scored (tests/old_data)."""

import asyncio
import contextlib
import gzip
import json
import random
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from app.edge.auth import EVERY_SCOPE
from app.instruments.fake_model import FakeModel
from app.store.games import OPEN
from tests.app.calling import WITHIN_S, Caller
from tests.app.edge.test_keys import bearer, store_of
from tests.app.modelling import calling_with, stored_calls
from tests.app.seated import choose, thoughts_for
from tests.app.typed import interintent
from tests.old_data.make import FOLDER, SENSIBLE
from tests.postgres import PostgresServer, fresh_database

VERSIONS = sorted(path.name for path in FOLDER.iterdir() if (path / "export.ndjson.gz").exists())


@dataclass(frozen=True)
class Stored:
    """A database as an earlier version left it, and what was in it."""

    url: str
    expected: Mapping[str, Any]


def unpack(version: str, name: str) -> bytes:
    return gzip.decompress((FOLDER / version / f"{name}.gz").read_bytes())


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(params=["games.sqlite", "games.sql"])
def stored(request: pytest.FixtureRequest, version: str, tmp_path: Path) -> Iterator[Stored]:
    expected = json.loads(unpack(version, f"{request.param}.json"))
    if request.param == "games.sqlite":
        file = tmp_path / "games.sqlite"
        file.write_bytes(unpack(version, request.param))
        yield Stored(f"sqlite+aiosqlite:///{file}", expected)
    else:
        server: PostgresServer = request.getfixturevalue("postgres")
        with fresh_database(server) as url:
            server.load(url, unpack(version, request.param))
            yield Stored(url, expected)


@contextlib.asynccontextmanager
async def opened(
    stored: Stored, fake: FakeModel | None = None, *, widened: bool = True
) -> AsyncIterator[Caller]:
    """This version's service on it, called with the key that was made then; ``widened``: with every scope
    over everybody's by now.
    """
    fake = fake or FakeModel(SENSIBLE)
    async with fake.serving(), calling_with(fake, stored.url) as caller:
        caller.headers.update(bearer(stored.expected["key"]))
        keys = store_of(caller)
        if widened:
            [key] = await keys.keys()
            await keys.change(key.key_id, sorted(EVERY_SCOPE))
            await caller.services.keys.refresh()
        yield caller


async def test_the_only_key_owns_what_was_made_before_there_were_owners(stored: Stored) -> None:
    async with opened(stored, widened=False) as caller:
        games = (await caller.get("/games", params={"limit": 200})).json()["games"]
        assert {game["game_id"] for game in games} == set(stored.expected["games"])
        evaluations = (await caller.get("/evaluations", params={"limit": 200})).json()["evaluations"]
        assert {one["evaluation_id"] for one in evaluations} == set(stored.expected["evaluations"])
        for batch in stored.expected["scored_batches"]:
            assert (await caller.get(f"/batches/{batch}/export?view=full")).status_code == 200
            assert (await caller.get("/reports", params={"batch": batch})).status_code == 200


async def is_open(caller: Caller, game: str) -> bool:
    return (await caller.get(f"/games/{game}")).json()["status"] in OPEN


async def until_over(caller: Caller, game: str) -> None:
    async with asyncio.timeout(WITHIN_S):
        while await is_open(caller, game):  # noqa: ASYNC110  # there is no event to wait for
            await asyncio.sleep(0.05)


async def answer_all(caller: Caller, game: str, seat: int) -> int:
    """Answers what the seat is asked now, and says how many requests that were."""
    view = {"viewer": f"seat:{seat}"}
    asked = (await caller.get(f"/games/{game}/requests", params=view)).json()["requests"]
    for request in asked:
        body = {"action": choose(request, random.Random(2)), "thoughts": thoughts_for(request)}
        path = f"/games/{game}/requests/{request['request_id']}/action"
        taken = await caller.post(path, params=view, json=body)
        assert taken.status_code == 200, taken.text
    return len(asked)


async def play_by_hand(caller: Caller, game: str, seat: int) -> None:
    async with asyncio.timeout(WITHIN_S):
        while await is_open(caller, game):
            stepped = await caller.post(f"/games/{game}/step", json={"until": "end"})
            assert stepped.status_code == 200 or stepped.json()["code"] == "not-answered", stepped.text
            await answer_all(caller, game, seat)


async def play_driven(caller: Caller, game: str, seat: int) -> None:
    async with asyncio.timeout(WITHIN_S):
        while await is_open(caller, game):
            if not await answer_all(caller, game, seat):
                await asyncio.sleep(0.02)


async def test_every_stored_game_reads_as_it_was_written(stored: Stored) -> None:
    async with opened(stored) as caller:
        for game, was in stored.expected["games"].items():
            lines = await caller.lines(f"/games/{game}/events")
            assert lines[: len(was["events"])] == was["events"], game
            if was["status"] not in OPEN:
                assert len(lines) == len(was["events"])
                assert (await caller.get(f"/games/{game}")).json()["status"] == was["status"]


async def test_games_that_were_under_way_go_on_to_their_end(stored: Stored) -> None:
    expected = stored.expected
    paid = await stored_calls(stored.url)
    fake = FakeModel(SENSIBLE)
    async with opened(stored, fake) as caller:
        for game in expected["by_hand"]:
            stepped = await caller.post(f"/games/{game}/step", json={"until": "end"})
            assert stepped.status_code == 200, stepped.text
        await play_by_hand(caller, expected["remote"]["by_hand"], 1)
        await play_driven(caller, expected["remote"]["driven"], 5)
        await until_over(caller, expected["interrupted"])
        for game, was in expected["games"].items():
            now = (await caller.get(f"/games/{game}")).json()["status"]
            assert now == ("finished" if was["status"] in OPEN else was["status"]), game
    # What had been paid for was not asked for again.
    assert fake.counts.calls == await stored_calls(stored.url) - paid


async def test_stored_scores_stand_and_new_ones_are_made_of_old_games(stored: Stored) -> None:
    expected = stored.expected
    async with opened(stored) as caller:
        for evaluation, totals in expected["evaluations"].items():
            assert (await caller.get(f"/evaluations/{evaluation}")).json()["totals"] == totals
        scripted, _ = expected["scored_batches"]
        judgements = (await caller.get("/annotations", params={"batch": scripted})).json()["judgements"]
        assert len(judgements) == expected["judgements"]
        for batch in expected["scored_batches"]:
            for dimension in ("guessing", "summarisation"):
                query = {"batch": batch, "dimension": dimension, "limit": 200}
                items = (await caller.get("/evaluations/items", params=query)).json()["items"]
                assert items
                body = {
                    "dimension": dimension,
                    "rater": {"name": "another", "kind": "program"},
                    "answers": [
                        {"item_id": item["id"], "intentions": [item["options"][0]["id"]]} for item in items
                    ],
                }
                scored = await caller.post("/evaluations", json=body)
                assert scored.status_code == 201, scored.text
                assert scored.json()["totals"]["items"] > 0
            report = await caller.get("/reports", params={"batch": batch})
            assert report.status_code == 200, report.text


def test_a_stored_export_is_reported_measured_and_shown(version: str, tmp_path: Path) -> None:
    export = tmp_path / "export.ndjson"
    export.write_bytes(unpack(version, "export.ndjson"))
    for words in (
        ["items", str(export), "--dimension", "guessing"],
        ["report", str(export), "--out", str(tmp_path / "report.json")],
        ["replay", "show", str(export)],
    ):
        result = interintent(*words)
        assert result.exit_code == 0, (words, result.output[-2000:])
    assert json.loads((tmp_path / "report.json").read_text())["made_of"]["games"] == 6
