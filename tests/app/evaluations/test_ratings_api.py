"""The ladder of rated games: who is on it, which games count, and what is left out."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from sqlalchemy import insert, update

from app.edge.auth import OPERATOR
from app.edge.auth import Caller as Checked
from app.games.schemas import NewGames
from app.main import Composition
from app.store.games import ABSENT
from app.store.rows import PlayerRow, values_of
from app.store.tables import game_players, games
from engine.terms import side_of
from evaluators.ratings.fit import _Fits, _Model
from tests.app.calling import Caller, calling
from tests.app.play.meeting.seekers import checked_bot, owner, seek, shown, time_is_up
from tests.app.seated import HttpBot


@pytest.fixture
async def caller(database_url: str) -> AsyncIterator[Caller]:
    async with calling(database_url) as one:
        yield one


async def paired(
    services: Composition, bots: list[tuple[str, str]], number: int = 1, players: int = 5, **row: Any
) -> list[str]:
    """Finished games as pairing leaves them: these owners' bots in the first seats. Who wins is set, since
    scripted seats played: the first bot's side.
    """
    wish = NewGames.model_validate(
        {
            "count": number,
            "drive": "manual",
            "seats": [{"agent": "random"}],
            "profile": "official",
            "players": players,
        }
    )
    created = await services.games.create(wish, by=Checked("test", owner="server"))
    ids = [game.game_id for game in created.games]
    for game_id in ids:
        await services.games.stepper.step(game_id, "end", OPERATOR)
        roles = (await services.games.state(game_id)).roles
        assert roles is not None
        won = side_of(roles[0]).value
        rows = [
            PlayerRow(
                game_id=game_id,
                seat=seat,
                owner=owner,
                caller=owner,
                bot=bot,
                version="1",
                seek_id=f"s_{seat}",
            )
            for seat, (owner, bot) in enumerate(bots, 1)
        ]

        async def work(connection: Any, game_id: str = game_id, rows: Any = rows, won: str = won) -> None:
            await connection.execute(insert(game_players), [values_of(row) for row in rows])
            await connection.execute(
                update(games).where(games.c.game_id == game_id).values({"rated": True, "winner": won} | row)
            )

        await services.database.writer.run(work)
    return ids


async def ratings(caller: Caller) -> dict[str, Any]:
    answer = await caller.get("/ratings")
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def test_rated_games_make_the_ladder_and_others_are_counted_with_the_reason(caller: Caller) -> None:
    assert (await ratings(caller))["players"] == []
    bots = [("key:k_a", "owl"), ("key:k_b", "fox"), ("key:k_c", "elk")]
    ids = await paired(caller.services, bots, 12)
    ladder = await ratings(caller)
    assert (ladder["games"], ladder["left_out"]) == (12, {})
    assert ladder["players"][0]["player"] == "key:k_a owl 1"
    owl = ladder["players"][0]
    assert owl["bot"] == {"owner": "key:k_a", "name": "owl", "version": "1"}
    assert owl["games"] == owl["won_as_loyal"]["num"] + owl["won_as_evil"]["num"] == 12
    assert 0.5 < owl["rating"]["value"] < owl["rating"]["high"] < 1
    assert (owl["best_rank"], owl["defaulted"]) == (1, 0)
    assert owl["decisions"] > 12
    assert next(one for one in ladder["players"] if one["player"] == "random")["bot"] is None
    assert ladder["rules"][0]["rules"] == "official, 5 players"
    assert ladder["favour"] == {"games": 0, "together": None, "across": None}
    # A game that is marked as invalid counts no more, and one that a stand-in finished never did.
    marked = await caller.post(f"/games/{ids[0]}/invalidate", json={"reason": "a broken bot"})
    assert marked.status_code == 200
    await paired(caller.services, bots, rated=False, unrated="a stand-in played for an absent bot")
    ladder = await ratings(caller)
    assert (ladder["games"], ladder["left_out"]) == (11, {"marked as invalid": 1, ABSENT: 1})


async def test_a_mark_that_moves_to_another_game_changes_the_ladder(caller: Caller) -> None:
    (wrong,) = await paired(caller.services, [("key:k_a", "owl")])
    (right,) = await paired(caller.services, [("key:k_b", "fox")])
    reason = {"reason": "the server was away"}
    assert (await caller.post(f"/games/{wrong}/invalidate", json=reason)).status_code == 200
    assert {one["player"] for one in (await ratings(caller))["players"]} == {"key:k_b fox 1", "random"}
    assert (await caller.delete(f"/games/{wrong}/invalidate")).status_code == 200
    assert (await caller.post(f"/games/{right}/invalidate", json=reason)).status_code == 200
    assert {one["player"] for one in (await ratings(caller))["players"]} == {"key:k_a owl 1", "random"}


async def test_a_bot_that_leaves_a_game_has_lost_it_and_the_others_have_not(caller: Caller) -> None:
    bots = [("key:k_a", "owl"), ("key:k_b", "fox"), ("key:k_c", "elk")]
    await paired(caller.services, bots, 12)
    before = {one["player"]: one for one in (await ratings(caller))["players"]}
    for game_id in await paired(caller.services, bots, 3, rated=False, unrated=ABSENT):
        await caller.services.database.writer.execute(
            update(game_players)
            .where(game_players.c.game_id == game_id, game_players.c.bot == "owl")
            .values(absent_at=1)
        )
    ladder = await ratings(caller)
    assert (ladder["games"], ladder["left_out"]) == (12, {ABSENT: 3})
    after = {one["player"]: one for one in ladder["players"]}
    owl = "key:k_a owl 1"
    assert {name: one["deserted"] for name, one in after.items() if one["deserted"]} == {owl: 3}
    # In those games its side had won.
    assert after[owl]["rating"]["value"] < before[owl]["rating"]["value"]
    assert after[owl]["won_as_evil"] == before[owl]["won_as_evil"]
    assert {name: one["games"] for name, one in after.items()} == dict.fromkeys(after, 12)
    # What spoilt a game is nothing that its players did.
    for game_id in await paired(caller.services, bots, 1, rated=False, unrated=ABSENT):
        await caller.services.database.writer.execute(
            update(game_players).where(game_players.c.game_id == game_id).values(absent_at=1)
        )
        marked = await caller.post(f"/games/{game_id}/invalidate", json={"reason": "the server was away"})
        assert marked.status_code == 200
    again = await ratings(caller)
    assert {one["player"]: one["deserted"] for one in again["players"] if one["deserted"]} == {owl: 3}


async def test_a_game_for_which_two_strangers_were_paired_is_rated(database_url: str) -> None:
    async with calling(database_url, api_key="ik_" + "o" * 43) as caller:
        seekers = {name: await owner(caller.services) for name in ("owl", "fox")}
        wish: dict[str, Any] = {"version": "1", "rated": True, "at_least": 2, "profile": "official"}
        seeks = {}
        for name, headers in seekers.items():
            await checked_bot(caller, caller.services, headers, name)
            seeks[name] = await seek(caller, name, headers, **wish)
        await time_is_up(caller.services)
        found = [await shown(caller, seeks[name], headers, wait_s=30) for name, headers in seekers.items()]
        games_ = [one["game"] for one in found]
        bots = [HttpBot(caller, one["game"], one["token"], one["seat"]) for one in games_]
        await asyncio.gather(*(bot.play() for bot in bots))
        ladder = (await caller.get("/ratings", headers=seekers["owl"])).json()
        assert (ladder["games"], ladder["left_out"]) == (1, {})
        named = {one["bot"]["name"]: one for one in ladder["players"] if one["bot"]}
        assert named.keys() == {"owl", "fox"}
        assert named["owl"]["bot"]["owner"] != named["fox"]["bot"]["owner"]
        assert named["owl"]["decisions"] > 5
        # Nobody is told apart from anybody by one game.
        assert {(one["best_rank"], one["worst_rank"]) for one in ladder["players"]} == {(1, 3)}


async def test_games_with_several_bots_of_one_owner_only_tell_of_favour(caller: Caller) -> None:
    await paired(caller.services, [("key:k_a", "owl"), ("key:k_b", "fox")])
    await paired(caller.services, [("key:k_a", "cub"), ("key:k_b", "fox")])
    await paired(
        caller.services, [("key:k_a", "owl"), ("key:k_a", "cub"), ("key:k_b", "fox")], 4, rated=False
    )
    ladder = await ratings(caller)
    assert (ladder["games"], ladder["left_out"]) == (2, {"several bots of one owner at the table": 4})
    assert {one["bot"]["name"]: one["games"] for one in ladder["players"] if one["bot"]} == {
        "owl": 1,
        "cub": 1,
        "fox": 2,
    }
    favour = ladder["favour"]
    assert favour["games"] == 4
    assert any(favour[part] is not None for part in ("together", "across"))
    for part in ("together", "across"):
        if favour[part] is not None:
            assert favour[part]["low"] < favour[part]["value"] < favour[part]["high"]


async def test_casual_games_bring_no_bots_and_no_rules_into_the_fits(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted: list[_Model] = []

    class Watched(_Model):
        def fits(self) -> _Fits:
            fitted.append(self)
            return super().fits()

    monkeypatch.setattr("evaluators.ratings.fit._Model", Watched)
    both = [("key:k_a", "owl"), ("key:k_a", "cub")]
    for owner_, bot in both:
        await paired(caller.services, [(owner_, bot), ("key:k_b", "fox")])
    before = await ratings(caller)
    await paired(caller.services, [("key:k_c", "new"), ("key:k_c", "newer")], rated=False)
    await paired(caller.services, [*both, ("key:k_b", "unseen")], rated=False)
    await paired(caller.services, both, rated=False, players=6)
    ladder = await ratings(caller)
    reason = "several bots of one owner at the table, with bots or rules that are not on the ladder"
    assert ladder == before | {"left_out": {reason: 3}}
    assert len(fitted) == 1  # the games that count are the same
    await paired(caller.services, both, rated=False)
    ladder = await ratings(caller)
    assert ladder["favour"]["games"] == ladder["left_out"]["several bots of one owner at the table"] == 1
    on_ladder = [one["player"] for one in ladder["players"]]
    assert all(sorted(on_ladder) == one.players and len(one.rules) == 1 for one in fitted)


async def test_a_game_that_cannot_be_read_is_named_and_hides_no_other(caller: Caller) -> None:
    ids = await paired(caller.services, [("key:k_a", "owl"), ("key:k_b", "fox")], 2)
    await caller.services.database.writer.execute(
        update(games).where(games.c.game_id == ids[0]).values(winner="nobody", finished_at=1)
    )
    ladder = await ratings(caller)
    assert (ladder["games"], ladder["left_out"]) == (1, {"damaged where it was stored": 1})
