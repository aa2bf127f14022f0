"""Decisions and defaults of games: stored with the end of each game, and shown to those who see all."""

from typing import Any

import pytest

from app.instruments.fake_model import FakeOptions
from app.store.rows import GameRow
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


async def test_what_was_decided_and_defaulted_is_stored_when_the_game_ends(database_url: str) -> None:
    async with faking(SILENT) as fake, calling_with(fake, database_url) as caller:
        _, [game] = await caller.played(seats=MIXED, on_unusable="default")
        stored: Any = (await row_of(caller, game)).defaults
        assert stored == await counted(caller, game)
        for seat in ("1", "2"):
            assert stored[seat]["defaulted"] == {"model_error": stored[seat]["decisions"]}
        for seat in ("3", "4", "5"):
            assert stored[seat]["decisions"]
            assert stored[seat]["defaulted"] == {}


async def test_a_game_that_is_driven_on_counts_its_old_events_first(database_url: str) -> None:
    async with calling(database_url) as caller:
        _, [game] = await caller.create(drive="manual")
        await caller.post(f"/games/{game}/step", json={"until": "round"})
        assert (await row_of(caller, game)).defaults is None
        await caller.post(f"/games/{game}/step", json={"until": "end"})
        assert (await row_of(caller, game)).defaults == await counted(caller, game)


async def test_a_driven_game_goes_on_with_its_count_after_a_restart(database_url: str) -> None:
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
