"""Data stored by earlier versions can be opened, continued and scored (tests/old_data)."""

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from app.edge.auth import EVERY_SCOPE, hash_of
from app.instruments.fake_model import FakeModel
from app.store.games import OPEN
from app.store.quotas import QuotaStore
from app.store.tables import sets
from tests.app.calling import WITHIN_S, Caller, problem
from tests.app.cli.test_doctor import doctor
from tests.app.edge.test_keys import bearer, store_of
from tests.app.evaluations.sealing import ask, handed_in, items_in, told
from tests.app.evaluations.sealing import opened as is_scored
from tests.app.modelling import calling_with, stored_calls
from tests.app.seated import choose, thoughts_for
from tests.app.typed import interintent
from tests.laying_out import migrate
from tests.old_data.make import FOLDER, SENSIBLE, digest, unpack
from tests.postgres import PostgresServer, fresh_database

EXPORTED = {"first": 6, "second": 4}
"""Games in the export of each version."""

VERSIONS = sorted(path.parent.name for path in FOLDER.glob("*/export.ndjson.*"))


@dataclass(frozen=True)
class Stored:
    """A database as an earlier version left it, and what was in it."""

    url: str
    expected: Mapping[str, Any]


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(params=["games.sqlite", pytest.param("games.sql", marks=pytest.mark.long)])
def stored(request: pytest.FixtureRequest, version: str, tmp_path: Path) -> Iterator[Stored]:
    expected = json.loads(unpack(FOLDER / version, f"{request.param}.json"))
    if request.param == "games.sqlite":
        file = tmp_path / "games.sqlite"
        file.write_bytes(unpack(FOLDER / version, request.param))
        yield Stored(f"sqlite+aiosqlite:///{file}", expected)
    else:
        server: PostgresServer = request.getfixturevalue("postgres")
        with fresh_database(server) as url:
            server.load(url, unpack(FOLDER / version, request.param))
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
            [key] = [one for one in await keys.keys() if one.hash == hash_of(stored.expected["key"])]
            await keys.change(key.key_id, sorted(EVERY_SCOPE))
            await caller.services.keys.refresh()
        yield caller


@pytest.mark.parametrize("version", ["first"])
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


async def play_on(caller: Caller, seats: Iterable[Mapping[str, Any]]) -> None:
    """Plays a game to its end with the tokens of those who were playing it; once these have expired, a week
    after the data was made, with new ones. What they were asked back then may be overdue by now.
    """
    tokens = {seat["seat"]: await lasting_token(caller, seat) for seat in seats}
    async with asyncio.timeout(WITHIN_S):
        for seat in cycle(seats):
            headers, game = bearer(tokens[seat["seat"]]), seat["game"]
            answer = await caller.get(f"/games/{game}/requests", headers=headers)
            assert answer.status_code == 200, answer.text
            if answer.json()["status"] not in OPEN:
                return
            for request in answer.json()["requests"]:
                body = {"action": choose(request, random.Random(2)), "thoughts": thoughts_for(request)}
                path = f"/games/{game}/requests/{request['request_id']}/action"
                taken = await caller.post(path, headers=headers, json=body)
                assert taken.status_code in (200, 410), taken.text
            await asyncio.sleep(0.02)


async def lasting_token(caller: Caller, seat: Mapping[str, Any]) -> str:
    """The seat's token, or a new one if it has expired."""
    answer = await caller.get("/me", headers=bearer(seat["token"]))
    if answer.status_code == 200:
        return str(seat["token"])
    assert "expired" in problem(answer, 401, "unauthenticated")["detail"]
    wanted = {"viewer": f"seat:{seat['seat']}"}
    minted = await caller.post(f"/games/{seat['game']}/tokens", json=wanted)
    assert minted.status_code == 201, minted.text
    return str(minted.json()["token"])


async def test_every_stored_game_reads_as_it_was_written(stored: Stored) -> None:
    async with opened(stored) as caller:
        for game, was in stored.expected["games"].items():
            lines = await caller.lines(f"/games/{game}/events")
            count, then = was["events"], was.get("sha256")
            if then is None:  # the first version kept the events themselves
                count, then = len(was["events"]), digest(was["events"])
            assert digest(lines[:count]) == then, game
            if was["status"] not in OPEN:
                assert len(lines) == count
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
        if "owners" in expected:
            rated = expected["owners"]["rated"]
            await play_on(caller, rated["played"].values())
            ladder, then = (await caller.get("/ratings")).json(), rated["ladder"]
            assert ladder["games"] + sum(ladder["left_out"].values()) == then["games"] + 1
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
    export.write_bytes(unpack(FOLDER / version, "export.ndjson"))
    for words in (
        ["items", str(export), "--dimension", "guessing"],
        ["report", str(export), "--out", str(tmp_path / "report.json")],
        ["replay", "show", str(export)],
    ):
        result = interintent(*words)
        assert result.exit_code == 0, (words, result.output[-2000:])
    assert json.loads((tmp_path / "report.json").read_text())["made_of"]["games"] == EXPORTED[version]


# --- what owners have ----------------------------------------------------------------------------

WITH_OWNERS = pytest.mark.parametrize("version", VERSIONS[VERSIONS.index("second") :])


@WITH_OWNERS
async def test_a_sealed_set_stays_sealed_until_its_date_and_is_then_scored(stored: Stored) -> None:
    kept = stored.expected["owners"]["sets"]
    ids, receipts = kept["ids"], kept["receipts"]
    async with opened(stored) as caller:
        sealed = f"/evaluations/sets/{ids['sealed']}"
        entry = receipts["sealed"]["ann"]["entry_id"]
        for who in ("ann", "owner", "operator"):
            for path in ("/gold", f"/entries/{entry}"):
                problem(await ask(caller, who, sealed + path), 409, "set-sealed")
        for name in ("open", "sealed", "withdrawn"):
            view = await told(caller, "ann", f"/evaluations/sets/{ids[name]}")
            assert json_of(view) >= json_of(kept["views"][name]), name
        problem(await ask(caller, "bob", f"/evaluations/sets/{ids['withdrawn']}/gold"), 410, "set-closed")
        # Whoever had answered may still answer anew, with the same items.
        items = await items_in(caller, "bob", ids["sealed"])
        again = handed_in({item["id"]: ["defend_team"] for item in items}, "bob")
        await told(caller, "bob", f"{sealed}/answers", again)
        over = update(sets).where(sets.c.set_id == ids["sealed"]).values(closes_at=1)
        await caller.services.database.writer.execute(over)
        board = (await is_scored(caller, "ann", ids["sealed"]))["leaderboard"]
        assert {(one["rater"]["name"], one["entry_id"]) for one in board} >= {("ann", entry)}
        assert {one["rater"]["name"] for one in board} == {"ann", "bob"}
        assert all(one["totals"]["items"] > 0 for one in board)


def json_of(value: Any, at: str = "") -> set[tuple[str, str]]:
    """The values in an answer with their places; a later version may tell more."""
    if isinstance(value, dict | list):
        parts = value.items() if isinstance(value, dict) else enumerate(value)
        return {one for name, part in parts for one in json_of(part, f"{at}/{name}")}
    return {(at, json.dumps(value))}


@WITH_OWNERS
async def test_what_was_rated_spent_sought_and_deleted_is_still_known(stored: Stored) -> None:
    kept = stored.expected["owners"]
    rated, spent = kept["rated"], kept["spent"]
    async with opened(stored) as caller:
        ladder, then = (await caller.get("/ratings")).json(), rated["ladder"]
        assert (ladder["games"], ladder["left_out"]) == (then["games"], then["left_out"])
        assert {one["player"] for one in ladder["players"]} == {one["player"] for one in then["players"]}
        batch = (await caller.get(f"/batches/{spent['batch']}")).json()
        assert (batch["tokens"], batch["cost"]) == (spent["tokens"], pytest.approx(spent["cost"]))
        problem(await caller.get(f"/games/{kept['deleted']}"), 404, "not-found")
        limits = await QuotaStore(caller.services.database).limits()
        assert limits == {"project:ann": {"submissions_a_day": 50}}
        seeks = (await caller.get("/seeks", headers=rated["keys"]["owl"])).json()["seeks"]
        assert {one["game_id"] for one in seeks} <= {rated["played"]["owl"]["game"], None}


async def test_nothing_is_wrong_with_an_old_database_after_its_migration(stored: Stored) -> None:
    await asyncio.to_thread(migrate, stored.url)
    assert await doctor(stored.url) == []
