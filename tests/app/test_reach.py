"""No chain of calls shows more than the credential at its start may see."""

from collections.abc import AsyncIterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from app.base.clock import now_ms
from app.edge import auth
from app.edge.auth import SCOPES
from app.edge.tokens import Grant
from app.games import service
from app.store.games import GameStore
from tests.app.calling import Caller
from tests.app.edge.test_keys import OPERATOR
from tests.app.reach import CALLS, Explorer, Fact, Laboratory, explored
from tests.app.real_server import local_settings, running_server

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

STRONG = {"export:full", "tokens:mint"}
"""Scopes that show every seat's part of a game that still runs."""


@pytest.fixture
async def laboratory(tmp_path: Path) -> AsyncIterator[Laboratory]:
    settings = local_settings(
        f"sqlite:///{tmp_path / 'games.sqlite'}", api_key=OPERATOR, token_secrets="s" * 64
    )
    async with running_server(settings) as served:
        yield Laboratory(served)


def test_every_operation_is_called(tmp_path: Path) -> None:
    from app.main import create_app

    app = create_app(local_settings(f"sqlite:///{tmp_path / 'games.sqlite'}"))
    served = {
        f"{method.upper()} {path}" for path, methods in app.openapi()["paths"].items() for method in methods
    }
    assert set(CALLS) == served, "say in reach.py how the others are called"


async def test_no_scope_reaches_more_than_it_says(laboratory: Laboratory) -> None:
    for number, scope in enumerate(sorted(SCOPES)):
        found = await explored(laboratory, scope, seed=number)
        assert found.surprises == {}, scope
        # The net has to catch something: the ends of games are public.
        assert {fact.game for fact in found.facts if fact.kind == "roles"} >= {"told", "public"}, scope
        if scope in STRONG:
            assert {fact.kind for fact in found.facts if fact.game == "running"} >= {
                "role_learned",
                "round_summarised",
                "speech_drafted",
            }


UNANSWERED = {
    "POST /batches/{batch_id}/pause",  # its game was cancelled before
    "POST /batches/{batch_id}/resume",  # nothing is suspended
    "POST /batches/{batch_id}/retry",  # nothing has failed
    "DELETE /batches/{batch_id}",  # it went with its game
    "POST /batches/{batch_id}/cancel",  # its game was cancelled before
    "GET /docs/{name}",  # no guide is called so
    "POST /models/{name}/try",  # there is no model
    "POST /games/{game_id}/seats/open/claim",  # no game here has open seats
    "DELETE /games/{game_id}/seats/open",
    "GET /ws",  # 426: it is a socket
    "GET /ws/lobby",
    "GET /ui",  # 303: it leads on
    "POST /evaluations/{evaluation_id}/cancel",  # rules judge at once
    "GET /evaluations/compare",  # nobody has answered what another has
    "GET /evaluations/{evaluation_id}/compare/{other}",
    "POST /evaluations/sets",  # a set takes 200 items and games of one's own
    "GET /evaluations/sets/{set_id}",
    "GET /evaluations/sets/{set_id}/items",
    "GET /evaluations/sets/{set_id}/receipts",
    "GET /evaluations/sets/{set_id}/gold",
    "GET /evaluations/sets/{set_id}/entries/{entry_id}",
    "POST /evaluations/sets/{set_id}/answers",
    "POST /evaluations/sets/{set_id}/withdraw",
}
"""Operations that have nothing to do here, and say so."""


async def test_all_weak_scopes_together_reach_no_more_than_each_says(laboratory: Laboratory) -> None:
    found = await explored(laboratory, *sorted(SCOPES - STRONG))
    assert found.surprises == {}
    mints = {one for one in CALLS if "/tokens" in one or one.endswith(("/claim-code", "/claims"))}
    assert set(CALLS) - found.operations <= UNANSWERED | mints


async def test_creating_and_minting_reach_the_seats_and_no_more(laboratory: Laboratory) -> None:
    found = await explored(laboratory, "games:create", "tokens:mint")
    assert found.surprises == {}
    assert "POST /games/{game_id}/fork" in found.operations


async def test_a_token_reaches_what_it_grants(laboratory: Laboratory) -> None:
    keys, soon = laboratory.served.services.keys, now_ms() // 1000 + 600
    for name, seat in (("running", 2), ("fork of untold", 3), ("running", None), ("untold", None)):
        await laboratory.lay(1)
        sample = laboratory.samples[name]
        grant = (
            Grant.to_watch(soon, batch=sample.batch_id)
            if seat is None
            else Grant.for_seat(sample.game_id, seat, 1, soon)
        )

        def shows(fact: Fact, family: tuple[str, str] = (name, sample.root), seat: int | None = seat) -> bool:
            return fact.game in family and fact.owner == seat

        async with Caller(laboratory.served.app) as caller:
            explorer = Explorer(laboratory, caller, grants=shows)
            await explorer.explore(keys.mint(grant))
        assert explorer.surprises == {}, (name, seat)
        owners = {fact.owner for fact in explorer.facts if fact.game in (name, sample.root)}
        assert owners == (set() if seat is None else {seat})


# --- the harness finds what it is for --------------------------------------------------------------


def _anybody_forks() -> AbstractContextManager[Any]:
    return mock.patch.object(service, "is_public", lambda row, log: row.status == "finished")


def _all_keys_mint() -> AbstractContextManager[Any]:
    scopes = auth._scopes
    return mock.patch.object(auth, "_scopes", lambda key: scopes(key) | {"tokens:mint"})


def _forks_run_ahead() -> AbstractContextManager[Any]:
    async def none(self: GameStore, game_ids: Any) -> set[str]:
        return set()

    return mock.patch.object(GameStore, "ahead", none)


async def test_planted_holes_are_found(laboratory: Laboratory) -> None:
    with _anybody_forks(), _all_keys_mint():
        found = await explored(laboratory, "games:create")
    # What only a token shows, and only its seat saw.
    assert {(fact.game, fact.kind) for fact in found.surprises} >= {
        ("told", "speech_drafted"),
        ("untold", "role_learned"),
    }
    with _forks_run_ahead():
        found = await explored(laboratory, "games:read", "annotate", "eval:read")
    assert {(fact.game, fact.kind) for fact in found.surprises} >= {
        ("running", "roles"),
        ("running", "intentions_selected"),
        ("failed", "roles"),
    }
