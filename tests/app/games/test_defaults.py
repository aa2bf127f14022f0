"""Decisions and defaults are stored when a game ends and shown to viewers that see everything."""

from typing import Any

import pytest
from sqlalchemy import update

from app.instruments.fake_model import FakeOptions
from app.store.rows import GameRow
from app.store.tables import games as games_table
from evaluators.measures.defaults import DecisionCounter
from tests.app.calling import PROJECT, Caller, calling
from tests.app.modelling import DIRECT, calling_with, faking

SILENT = FakeOptions(brain=lambda *_: "no JSON")
"""A model whose answers are never usable."""
MIXED: list[dict[str, Any]] = [*DIRECT * 2, *[{"agent": "random"}] * 3]


async def row_of(caller: Caller, game: str) -> GameRow:
    row = await caller.services.store.game(game)
    assert row is not None
    return row


async def counted(caller: Caller, game: str) -> dict[str, Any]:
    """What the game's whole log says."""
    return DecisionCounter(await caller.services.reader.events(game)).as_json()


async def test_decisions_and_defaults_are_stored_when_the_game_ends(database_url: str) -> None:
    async with faking(SILENT) as fake, calling_with(fake, database_url) as caller:
        _, [game] = await caller.played(seats=MIXED, on_unusable="default")
        stored: Any = (await row_of(caller, game)).defaults
        assert stored == await counted(caller, game)
        for seat in ("1", "2"):
            assert stored[seat]["defaulted"] == {"model_error": stored[seat]["decisions"]}
        for seat in ("3", "4", "5"):
            assert stored[seat]["decisions"]
            assert stored[seat]["defaulted"] == {}


async def test_a_resumed_game_counts_its_old_events_first(database_url: str) -> None:
    async with calling(database_url) as caller:
        _, [game] = await caller.create(drive="manual")
        await caller.post(f"/games/{game}/step", json={"until": "round"})
        assert (await row_of(caller, game)).defaults is None
        await caller.post(f"/games/{game}/step", json={"until": "end"})
        assert (await row_of(caller, game)).defaults == await counted(caller, game)


async def test_a_driven_game_keeps_its_count_across_a_restart(database_url: str) -> None:
    async with faking(SILENT) as fake:
        fake._brain = lambda *_: "no JSON"
        async with calling_with(fake, database_url) as caller:
            batch, [game] = await caller.create(seats=DIRECT, seeds={"from": 7})
            assert (await caller.over(batch))["status"] == "suspended"
        async with calling_with(fake, database_url) as caller:
            assert (await row_of(caller, game)).defaults is None
            before = len(await caller.services.reader.events(game))
            answer = await caller.post(f"/batches/{batch}/resume", json={"on_unusable": "default"})
            assert answer.status_code == 200
            assert (await caller.over(batch))["status"] == "done"
            log = await caller.services.reader.events(game)
            assert len(log) > before
            assert (await row_of(caller, game)).defaults == await counted(caller, game)


@pytest.mark.parametrize("steps", [0, 3])
async def test_a_cancelled_game_has_its_count_too(database_url: str, steps: int) -> None:
    async with calling(database_url) as caller:
        _, [game] = await caller.create(drive="manual")
        for _ in range(steps):
            await caller.post(f"/games/{game}/step", json={"until": "phase"})
        assert (await caller.post(f"/games/{game}/cancel")).status_code == 202
        row = await row_of(caller, game)
        assert row.status == "cancelled"
        assert row.defaults == await counted(caller, game)
        assert bool(row.defaults) == bool(steps)


async def test_an_imported_game_has_its_count(database_url: str) -> None:
    async with calling(database_url) as caller:
        record = (PROJECT / "tests" / "records" / "last-team-goes.json").read_bytes()
        answer = await caller.post(
            "/games/import", content=record, headers={"Content-Type": "application/json"}
        )
        assert answer.status_code == 201, answer.text
        game = answer.json()["game_id"]
        assert (await row_of(caller, game)).defaults == await counted(caller, game) != {}


async def test_a_game_tells_who_sees_all_what_each_seat_decided_and_defaulted(database_url: str) -> None:
    async with faking(SILENT) as fake, calling_with(fake, database_url) as caller:
        _, [game] = await caller.played(seats=MIXED, on_unusable="default")
        shown = (await caller.get(f"/games/{game}")).json()["defaults"]
        assert [(one["seat"], one["agent"], one["model"]) for one in shown] == [
            (1, "llm", "fake"),
            (2, "llm", "fake"),
            (3, "random", None),
            (4, "random", None),
            (5, "random", None),
        ]
        assert [one["share"] for one in shown] == [1.0, 1.0, 0.0, 0.0, 0.0]
        assert {str(one["seat"]): _counts(one) for one in shown} == await counted(caller, game)
        for viewer in ("public", "seat:1"):
            view = (await caller.get(f"/games/{game}", params={"viewer": viewer})).json()
            assert view["defaults"] is None
        manual = (await caller.create(drive="manual"))[1][0]
        shown = (await caller.get(f"/games/{manual}")).json()["defaults"]
        assert [(one["decisions"], one["share"]) for one in shown] == [(0, None)] * 5


async def test_a_batch_sums_up_by_agent_cause_and_seat_over_the_games_that_are_over(
    database_url: str,
) -> None:
    async with faking(SILENT) as fake, calling_with(fake, database_url) as caller:
        batch, games = await caller.played(seats=MIXED, on_unusable="default", count=3)
        logs = [await counted(caller, game) for game in games]
        shown = (await caller.get(f"/batches/{batch}")).json()["defaults"]
        of_models = sum(log[seat]["decisions"] for log in logs for seat in "12")
        of_bots = sum(log[seat]["decisions"] for log in logs for seat in "345")
        assert shown["games"] == 3
        assert _counts(shown) == {"decisions": of_models + of_bots, "defaulted": {"model_error": of_models}}
        assert shown["share"] == of_models / (of_models + of_bots)
        assert [(one["agent"], one["model"], one["mechanism"], _counts(one)) for one in shown["agents"]] == [
            ("llm", "fake", "direct", {"decisions": of_models, "defaulted": {"model_error": of_models}}),
            ("random", None, None, {"decisions": of_bots, "defaulted": {}}),
        ]
        first = sum(log["1"]["decisions"] for log in logs)
        assert shown["seats"][0] == {
            "seat": 1,
            "decisions": first,
            "defaulted": {"model_error": first},
            "share": 1.0,
        }
        await _set(caller, games[0], None)  # as an earlier version left it
        assert (await caller.get(f"/batches/{batch}")).json()["defaults"]["games"] == 2
        watching = (await caller.post(f"/batches/{batch}/tokens", json={})).json()["token"]
        answer = await caller.get(f"/batches/{batch}", headers={"Authorization": f"Bearer {watching}"})
        assert answer.json()["defaults"] is None


async def test_a_damaged_count_hides_no_other_game(database_url: str) -> None:
    async with calling(database_url) as caller:
        batch, games = await caller.played(count=2)
        for damaged in ({"1": {"decisions": "x", "defaulted": {}}}, {"9": {}}, {"a": 1}):
            await _set(caller, games[0], damaged)
            assert (await caller.get(f"/batches/{batch}")).json()["defaults"]["games"] == 1
            assert (await caller.get(f"/games/{games[0]}")).status_code == 200


def _counts(shown: dict[str, Any]) -> dict[str, Any]:
    return {name: shown[name] for name in ("decisions", "defaulted")}


async def _set(caller: Caller, game: str, defaults: Any) -> None:
    statement = update(games_table).where(games_table.c.game_id == game).values(defaults=defaults)
    await caller.services.database.writer.execute(statement)
