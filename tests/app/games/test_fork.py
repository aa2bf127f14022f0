"""A fork copies its origin's log up to a point and then goes on by itself."""

import asyncio
import json
from contextvars import Context
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from agents.table import MemoryJournal, step
from app.base.clock import now_ms
from app.seats.seating import seat_agents, seated
from app.store.rows import SetItemRow
from engine.profile import make_profile
from engine.rules import create, pending
from engine.state import fold
from engine.terms import Phase
from tests.app.calling import PROJECT, Caller, Line, calling, problem, undisturbed, without_times, written
from tests.app.edge.test_keys import anyones, bearer, make_key, store_of
from tests.app.modelling import calling_with, faking
from tests.postgres import PostgresServer, fresh_database

SEED = 77

RECORD = PROJECT / "tests" / "records" / "last-team-goes.json"

Place = tuple[int, int, Phase]


async def _answers(profile: str, agent: str) -> tuple[list[Line], list[tuple[str, int]], dict[Place, int]]:
    """The game, answered one request at a time without any service.

    Its log; every request's id with the length of the log behind its answer; every phase with the
    length of the log at its end.
    """
    seats, rules = [{"agent": agent}] * 5, make_profile(profile, 5)
    state = fold(create(rules, SEED, agents=seated(seats, str(SEED), rules)))
    agents = seat_agents(seats, str(SEED))
    requests: list[tuple[str, int]] = []
    phases: dict[Place, int] = {}
    while open_ := pending(state):
        place = (state.table.round, state.table.attempt, state.table.phase)
        await step(state, agents, MemoryJournal(), alone=True)
        requests.append((open_[0].id, len(state.log)))
        phases[place] = len(state.log)
    return written(state.log), requests, phases


@pytest.mark.parametrize(
    ("profile", "agent"),
    [
        ("interintent", "scripted"),
        ("official", "scripted"),
        pytest.param("interintent", "random", marks=pytest.mark.long),
        pytest.param("official", "random", marks=pytest.mark.long),
    ],
)
async def test_a_fork_with_the_same_agents_repeats_the_game_from_every_answer_on(
    database_url: str, profile: str, agent: str
) -> None:
    log, requests, phases = await _answers(profile, agent)
    async with calling(database_url) as caller:
        _, [origin] = await caller.played(profile=profile, seats=[{"agent": agent}], seeds={"from": SEED})
        places: list[tuple[dict[str, Any], int]] = [
            *(({"request": request}, length) for request, length in requests),
            *(
                ({"round": round_, "attempt": attempt, "phase": phase.value}, length)
                for (round_, attempt, phase), length in phases.items()
            ),
        ]
        assert len({request for request, _ in requests}) == len(requests)
        forks: list[tuple[str, str]] = []
        # Forks cost a game each: on one database from every place, on the other from some.
        every = (1 if agent == "random" else 7) if "sqlite" in database_url else 9
        chosen = places[::every]
        for after, length in chosen:
            answer = await caller.post(f"/games/{origin}/fork", json={"after": after})
            assert answer.status_code == 201, (after, answer.text)
            forked = answer.json()
            assert forked["forked_from"] == {"game_id": origin, "events": length}, after
            assert answer.headers["location"] == f"/games/{forked['game_id']}"
            assert forked["game_id"] != origin
            forks.append((forked["game_id"], forked["batch_id"]))
        for (game, batch), (after, _) in zip(forks, chosen, strict=True):
            view = await caller.over(batch)
            assert view["status"] == "done"
            assert without_times(await caller.lines(f"/games/{game}/events")) == log, after
        # The origin is what it was.
        assert without_times(await caller.lines(f"/games/{origin}/events")) == log


async def test_a_fork_inherits_the_labels_of_its_origin_and_may_change_them(database_url: str) -> None:
    async with calling(database_url) as caller:
        _, [origin] = await caller.played(labels={"study": "s", "preset": "paper"})
        for given, expected in (
            ({}, {"study": "s", "preset": "paper"}),
            ({"labels": {"preset": "other"}}, {"study": "s", "preset": "other"}),
        ):
            fork = {"after": {"request": "1.1.speak.3"}, "drive": "manual", **given}
            forked = (await caller.post(f"/games/{origin}/fork", json=fork)).json()
            assert (await caller.get(f"/batches/{forked['batch_id']}")).json()["labels"] == expected


async def test_a_fork_takes_over_the_log_and_waits_for_its_own_steps(database_url: str) -> None:
    async with calling(database_url) as caller:
        _, [origin] = await caller.played(seeds={"from": SEED})
        whole = without_times(await caller.lines(f"/games/{origin}/events"))
        answer = await caller.post(
            f"/games/{origin}/fork", json={"after": {"request": "1.1.speak.3"}, "drive": "manual"}
        )
        forked = answer.json()
        game, taken = forked["game_id"], forked["forked_from"]["events"]
        lines = await caller.lines(f"/games/{game}/events")
        assert without_times(lines) == whole[:taken]
        assert {line["game"] for line in lines} == {game}
        assert lines[-1]["type"] == "utterance_made"
        assert lines[-1]["seat"] == 3
        # What the fork wrote, it wrote when it was forked: deadlines count from there.
        assert len({line["at"] for line in lines}) == 1
        view = (await caller.get(f"/games/{game}")).json()
        assert view["status"] == "created"
        assert view["forked_from"] == {"game_id": origin, "events": taken}
        assert [one["request_id"] for one in view["requests"]] == ["1.1.speak.4"]
        assert (await caller.get(f"/games/{game}", params={"viewer": "public"})).json()["forked_from"] is None
        await caller.post(f"/games/{game}/step", json={"until": "end"})
        assert without_times(await caller.lines(f"/games/{game}/events")) == whole


async def test_other_viewers_see_how_many_public_events_a_fork_took_over(
    database_url: str,
) -> None:
    async with calling(database_url) as caller:
        _, [origin] = await caller.played(seeds={"from": SEED}, reveal="all")
        _, reader = await make_key(store_of(caller), *anyones("games:create", "games:read"))
        caller.headers.update(bearer((await make_key(store_of(caller)))[1]))
        answer = await caller.post(
            f"/games/{origin}/fork",
            json={"after": {"request": "1.1.speak.3"}, "drive": "manual"},
            headers=bearer(reader),
        )
        forked = answer.json()
        lines = await caller.lines(f"/games/{forked['game_id']}/events", viewer="public")
        assert forked["forked_from"] == {"game_id": origin, "events": len(lines)}
        assert len(lines) < len(await caller.lines(f"/games/{forked['game_id']}/events"))


async def test_a_fork_with_other_agents_differs_only_from_there_on(database_url: str) -> None:
    async with calling(database_url) as caller:
        _, [origin] = await caller.played(seeds={"from": SEED})
        whole = without_times(await caller.lines(f"/games/{origin}/events"))
        answer = await caller.post(
            f"/games/{origin}/fork",
            json={
                "after": {"round": 1, "attempt": 1, "phase": "vote"},
                "seats": [{"agent": "random"}],
            },
        )
        forked = answer.json()
        taken = forked["forked_from"]["events"]
        assert (await caller.over(forked["batch_id"]))["status"] == "done"
        log = without_times(await caller.lines(f"/games/{forked['game_id']}/events"))
        assert log[:taken] == whole[:taken]
        assert log[taken]["type"] == "agents_seated"
        assert {one["agent"] for one in log[taken]["agents"].values()} == {"random"}
        assert [line["type"] for line in log].count("agents_seated") == 2
        assert log[taken + 1 :] != whole[taken:]
        assert whole[taken - 1]["type"] == "votes_revealed"
        view = (await caller.get(f"/games/{forked['game_id']}")).json()
        assert {spec["agent"] for spec in view["agents"]} == {"random"}
        assert view["status"] == "finished"
        # Five specs, one a seat.
        mixed = [{"agent": "random"}, *([{"agent": "scripted"}] * 4)]
        answer = await caller.post(
            f"/games/{origin}/fork",
            json={"after": {"request": "1.1.vote.5"}, "seats": mixed, "drive": "manual"},
        )
        view = (await caller.get(f"/games/{answer.json()['game_id']}")).json()
        assert [spec["agent"] for spec in view["agents"]] == ["random", *["scripted"] * 4]


async def test_a_running_game_and_a_fork_of_a_fork_can_be_forked(database_url: str) -> None:
    async with calling(database_url) as caller:
        _, [origin] = await caller.create(seeds={"from": SEED}, drive="manual")
        await caller.post(f"/games/{origin}/step", json={"until": "round"})
        first = (
            await caller.post(
                f"/games/{origin}/fork", json={"after": {"request": "1.1.vote.2"}, "drive": "manual"}
            )
        ).json()
        # Two of five ballots are in; the others are still asked for.
        view = (await caller.get(f"/games/{first['game_id']}")).json()
        assert [one["seat"] for one in view["requests"]] == [3, 4, 5]
        second = (
            await caller.post(
                f"/games/{first['game_id']}/fork", json={"after": {"request": "1.1.propose_team.1"}}
            )
        ).json()
        assert second["forked_from"]["game_id"] == first["game_id"]
        await caller.over(second["batch_id"])
        lines = without_times(await caller.lines(f"/games/{second['game_id']}/events"))
        assert lines == await undisturbed(SEED)
        # What the origin has not answered yet is no place to fork at.
        problem(
            await caller.post(f"/games/{origin}/fork", json={"after": {"request": "2.1.vote.1"}}),
            422,
            "invalid-request",
            "/after/request",
        )


async def test_a_cancelled_game_can_be_played_on_as_a_fork(database_url: str) -> None:
    async with calling(database_url) as caller:
        _, [origin] = await caller.create(seeds={"from": SEED}, drive="manual")
        await caller.post(f"/games/{origin}/step", json={"until": "round"})
        await caller.post(f"/games/{origin}/cancel")
        forked = (
            await caller.post(
                f"/games/{origin}/fork", json={"after": {"round": 1, "attempt": 1, "phase": "vote"}}
            )
        ).json()
        await caller.over(forked["batch_id"])
        lines = without_times(await caller.lines(f"/games/{forked['game_id']}/events"))
        assert lines == await undisturbed(SEED)


async def test_an_imported_game_is_forked_with_agents_that_are_named(database_url: str) -> None:
    async with calling(database_url) as caller:
        imported = (await caller.post("/games/import", content=RECORD.read_bytes())).json()
        game = imported["game_id"]
        path, after = f"/games/{game}/fork", {"round": 1, "attempt": 1, "phase": "vote"}
        before = await caller.rows()
        problem(await caller.post(path, json={"after": after}), 422, "invalid-request", "/seats")
        assert await caller.rows() == before
        seats = [{"agent": "scripted"}]
        forks = []
        for _ in range(2):
            forked = (await caller.post(path, json={"after": after, "seats": seats})).json()
            assert (await caller.over(forked["batch_id"]))["status"] == "done"
            log = without_times(await caller.lines(f"/games/{forked['game_id']}/events"))
            origin = without_times(await caller.lines(f"/games/{game}/events"))
            taken = forked["forked_from"]["events"]
            assert log[:taken] == origin[:taken]
            assert "agents_seated" not in {line["type"] for line in origin}
            assert log[taken]["type"] == "agents_seated"
            forks.append(log)
        assert forks[0] == forks[1]


@pytest.mark.parametrize(
    ("after", "pointer"),
    [
        ({"request": "5.9.vote.1"}, "/after/request"),
        ({"request": "1.1.assassinate.1"}, "/after/request"),
        ({"request": "1.1.vote.9"}, "/after/request"),
        ({"request": "vote"}, "/after/request"),
        ({"request": "1.1.vote.1\n"}, "/after/request"),
        ({"request": 1}, "/after/request"),
        ({"round": 5, "attempt": 10, "phase": "vote"}, "/after/phase"),
        ({"round": 1, "attempt": 1, "phase": "over"}, "/after/phase"),
        ({"round": 1, "attempt": 1, "phase": "nap"}, "/after/phase"),
        ({"round": 6, "attempt": 1, "phase": "vote"}, "/after/round"),
        ({"round": 1, "phase": "vote"}, "/after/attempt"),
        ({"request": "1.1.vote.1", "round": 1}, "/after/round"),
        ("1.1.vote.1", "/after"),
        (None, "/after"),
    ],
    ids=json.dumps,
)
async def test_an_invalid_place_is_refused(tmp_path: Any, after: Any, pointer: str) -> None:
    async with calling(f"sqlite:///{tmp_path / 'games.sqlite'}") as caller:
        _, [origin] = await caller.played(seeds={"from": SEED}, seats=[{"agent": "random"}])
        before = await caller.rows()
        answer = await caller.post(f"/games/{origin}/fork", json={"after": after})
        problem(answer, 422, "invalid-request", pointer)
        assert await caller.rows() == before


async def test_a_fork_refuses_seats_that_do_not_fit(database_url: str) -> None:
    async with calling(database_url) as caller:
        _, [origin] = await caller.played(seats=[{"agent": "random"}])
        before = await caller.rows()
        after = {"request": "1.1.vote.1"}
        for seats, code, pointer in (
            ([{"agent": "random"}] * 4, "invalid-request", "/seats"),
            ([{"agent": "nobody"}], "invalid-agent", "/seats/0/agent"),
            ([*[{"agent": "random"}] * 4, {"agent": "nobody"}], "invalid-agent", "/seats/4/agent"),
            ([], "invalid-request", "/seats"),
        ):
            answer = await caller.post(f"/games/{origin}/fork", json={"after": after, "seats": seats})
            problem(answer, 422, code, pointer)
        assert await caller.rows() == before


async def test_the_log_of_a_game_grows_by_every_answer(tmp_path: Any) -> None:
    # The oracle of this file, looked at itself: each answer adds something, and the last ends the game.
    log, requests, _ = await _answers("interintent", "scripted")
    assert all(one < two for (_, one), (_, two) in pairwise(requests))
    assert requests[-1][1] == len(log)
    assert log[-1]["type"] == "game_ended"


# --- who may fork, and who sees a fork ----------------------------------------------------------


async def _with_scopes(caller: Caller, *scopes: str) -> dict[str, str]:
    """The header of a new key; ``caller`` holds one of all scopes from here on."""
    if "authorization" not in caller.headers:
        caller.headers.update(bearer((await make_key(store_of(caller)))[1]))
    return bearer((await make_key(store_of(caller), *anyones(*scopes)))[1])


@pytest.mark.parametrize(
    ("reveal", "scopes", "status", "tokens"),
    [
        ("roles", ("games:create",), 403, None),
        ("roles", ("games:create", "tokens:mint", "games:read"), 403, None),
        ("none", ("games:create", "tokens:mint"), 403, None),
        ("roles", ("export:full",), 403, None),
        ("roles", ("games:create", "export:full"), 201, False),
        ("roles", ("games:create", "export:full", "tokens:mint"), 201, True),
        ("all", ("games:create",), 201, False),
        ("all", ("games:create", "tokens:mint"), 201, True),
    ],
)
async def test_a_fork_needs_to_see_its_source_and_its_tokens_need_to_be_minted(
    tmp_path: Path, reveal: str, scopes: tuple[str, ...], status: int, tokens: bool | None
) -> None:
    async with calling(f"sqlite:///{tmp_path / 'games.sqlite'}") as caller:
        _, [origin] = await caller.played(reveal=reveal, profile="official")
        key = await _with_scopes(caller, *scopes)
        before = await caller.rows()
        wish = {
            "after": {"request": "1.1.vote.1"},
            "seats": [{"agent": "remote"}, *[{"agent": "random"}] * 4],
            "drive": "manual",
        }
        answer = await caller.post(f"/games/{origin}/fork", json=wish, headers=key)
        assert answer.status_code == status, answer.text
        if tokens is None:
            problem(answer, 403, "forbidden")
            assert await caller.rows() == before
            return
        seats = answer.json()["seats"]
        assert [one["seat"] for one in seats] == [1, 2, 3, 4, 5]
        assert [one["token"] is not None for one in seats] == [tokens, False, False, False, False]
        assert answer.headers["cache-control"] == "no-store"


async def test_only_a_game_that_has_finished_with_reveal_all_is_forked_by_everybody(
    tmp_path: Path,
) -> None:
    async with calling(f"sqlite:///{tmp_path / 'games.sqlite'}") as caller:
        _, [origin] = await caller.create(reveal="all", drive="manual")
        await caller.post(f"/games/{origin}/step", json={"until": "phase"})
        key = await _with_scopes(caller, "games:create", "tokens:mint")
        path, wish = f"/games/{origin}/fork", {"after": {"request": "1.1.propose_team.1"}, "drive": "manual"}
        problem(await caller.post(path, json=wish, headers=key), 403, "forbidden")
        fork = (await caller.post(path, json=wish)).json()["game_id"]
        # Its own log isn't over either, and it tells of its source, which still runs.
        problem(await caller.post(f"/games/{fork}/fork", json=wish, headers=key), 404, "not-found")
        await caller.post(f"/games/{fork}/step", json={"until": "end"})
        problem(await caller.post(f"/games/{fork}/fork", json=wish, headers=key), 404, "not-found")
        await caller.post(f"/games/{origin}/cancel")
        problem(await caller.post(path, json=wish, headers=key), 403, "forbidden")
        answer = await caller.post(f"/games/{fork}/fork", json=wish, headers=key)
        assert answer.status_code == 201
        # An unfinished fork of a public game is not public.
        again = answer.json()["game_id"]
        problem(await caller.post(f"/games/{again}/fork", json=wish, headers=key), 403, "forbidden")
        record = await caller.post("/games/import", content=RECORD.read_bytes(), headers=key)
        imported = record.json()["game_id"]
        wish = {"after": {"round": 1, "attempt": 1, "phase": "vote"}, "seats": [{"agent": "random"}]}
        answer = await caller.post(f"/games/{imported}/fork", json=wish, headers=key)
        problem(answer, 403, "forbidden")


async def test_a_strangers_fork_repeats_no_answers_of_its_source_which_can_be_deleted_before_it_is_over(
    database_url: str,
) -> None:
    async with calling(database_url) as caller:
        _, [origin] = await caller.create(reveal="all", drive="manual")
        await caller.post(f"/games/{origin}/step", json={"until": "end"})
        wish = {"after": {"request": "1.1.propose_team.1"}, "drive": "manual"}
        caller.headers.update(bearer((await make_key(store_of(caller)))[1]))
        key = bearer((await make_key(store_of(caller), "games:create", "tokens:mint"))[1])
        of_stranger = (await caller.post(f"/games/{origin}/fork", json=wish, headers=key)).json()["game_id"]
        own = (await caller.post(f"/games/{origin}/fork", json=wish)).json()["game_id"]
        told = problem(await caller.delete(f"/games/{origin}"), 409, "still-needed")
        assert own in told["detail"]
        await caller.post(f"/games/{own}/cancel")
        assert (await caller.delete(f"/games/{origin}")).status_code == 200
        assert (await caller.get(f"/games/{of_stranger}")).json()["status"] == "created"


async def test_a_game_that_is_deleted_while_it_is_forked_is_forked_no_more(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with calling(database_url) as caller:
        _, [origin] = await caller.played()
        wish = {"after": {"request": "1.1.propose_team.1"}, "drive": "manual"}
        games = caller.services.games
        check = games.check_models_quota

        async def deleted_meanwhile(*given: Any) -> None:  # its log is read, and nothing is written yet
            assert (await caller.delete(f"/games/{origin}")).status_code == 200
            await check(*given)

        monkeypatch.setattr(games, "check_models_quota", deleted_meanwhile)
        forked = await caller.post(f"/games/{origin}/fork", json=wish)
        assert problem(forked, 404, "not-found")["detail"] == "no such game for this caller"
        assert (await caller.get("/games")).json()["games"] == []


async def test_what_a_fork_repeats_is_not_deleted_while_another_process_stores_the_fork(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with fresh_database(postgres) as url:
        async with calling(url) as caller, calling(url) as other:
            _, [origin] = await caller.played()
            wish = {"after": {"request": "1.1.propose_team.1"}}
            between = (await caller.post(f"/games/{origin}/fork", json=wish)).json()
            await caller.over(between["batch_id"])
            store, deletions = caller.services.store, []
            insert = store.insert_batch

            async def deleted_meanwhile(*given: Any) -> None:
                for game in (origin, between["game_id"]):
                    deletion = other.delete(f"/games/{game}")
                    # Outside this transaction.
                    deletions.append(asyncio.create_task(deletion, context=Context()))
                await asyncio.wait(deletions, timeout=0.5)
                await insert(*given)

            monkeypatch.setattr(store, "insert_batch", deleted_meanwhile)
            path = f"/games/{between['game_id']}/fork"
            fork = (await caller.post(path, json={**wish, "drive": "manual"})).json()["game_id"]
            for deletion in deletions:
                assert fork in problem(await deletion, 409, "still-needed")["detail"]


async def test_a_strangers_fork_takes_over_no_model_that_no_seat_of_the_log_has(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'games.sqlite'}"
    async with faking() as fake, calling_with(fake, url) as caller:
        models = {
            "played": {"name": "fake", "temperature": 0.7},
            "unused": {"name": "fake", "temperature": 0.77},
        }
        llm = {"agent": "llm", "model": "played", "mechanism": "direct"}
        caller.headers.update(bearer((await make_key(store_of(caller)))[1]))
        seats = [llm, *[{"agent": "random"}] * 4]
        _, [origin] = await caller.played(reveal="all", models=models, seats=seats)
        stranger = bearer((await make_key(store_of(caller), "games:create"))[1])
        path, after = f"/games/{origin}/fork", {"after": {"request": "1.1.propose_team.1"}, "drive": "manual"}
        for model, status in (("played", 201), ("unused", 422)):
            wish = {**after, "seats": [{"agent": "llm", "model": model}]}
            assert (await caller.post(path, json=wish)).status_code == 201
            answer = await caller.post(path, json=wish, headers=stranger)
            assert answer.status_code == status, answer.text
        told = problem(answer, 422, "invalid-agent", "/seats/0/model")["detail"]
        assert told == "no model is called 'unused' here; name one of the models here: fake"
        assert (await caller.post(path, json=after, headers=stranger)).status_code == 201


async def test_a_fork_stays_unseen_while_its_first_source_runs_when_the_fork_between_them_is_deleted(
    database_url: str,
) -> None:
    async with calling(database_url) as caller:
        _, [origin] = await caller.create(reveal="all", drive="manual")
        await caller.post(f"/games/{origin}/step", json={"until": "round"})
        made = [origin]
        wish: dict[str, Any] = {"drive": "manual"}
        for after in ("1.1.vote.2", "1.1.vote.2", "1.1.propose_team.1"):
            wish["after"] = {"request": after}
            made.append((await caller.post(f"/games/{made[-1]}/fork", json=wish)).json()["game_id"])
            await caller.post(f"/games/{made[-1]}/step", json={"until": "end"})
        _, first, second, last = made
        of_first = (await caller.get(f"/games/{first}")).json()["forked_from"]
        of_last = (await caller.get(f"/games/{last}")).json()["forked_from"]
        assert of_last["events"] < of_first["events"]
        for gone in (second, first):
            assert (await caller.delete(f"/games/{gone}")).status_code == 200
        key = await _with_scopes(caller, "games:create", "games:read")
        problem(await caller.get(f"/games/{last}", headers=key), 404, "not-found")
        problem(await caller.post(f"/games/{last}/fork", json=wish, headers=key), 404, "not-found")
        view = (await caller.get(f"/games/{last}")).json()
        assert view["forked_from"] == {"game_id": origin, "events": of_last["events"]}
        await caller.post(f"/games/{origin}/cancel")
        assert (await caller.get(f"/games/{last}", headers=key)).status_code == 200


async def test_a_fork_of_a_game_that_still_runs_is_seen_by_who_sees_all(database_url: str) -> None:
    async with calling(database_url) as caller:
        batch, [origin] = await caller.create(drive="manual")
        await caller.post(f"/games/{origin}/step", json={"until": "round"})
        last = origin
        made = []
        for after in ("1.1.vote.2", "1.1.propose_team.1"):
            answer = await caller.post(
                f"/games/{last}/fork", json={"after": {"request": after}, "drive": "manual"}
            )
            last = answer.json()["game_id"]
            made.append(answer.json())
            assert (await caller.post(f"/games/{last}/step", json={"until": "end"})).status_code == 200
        key = await _with_scopes(
            caller, "games:read", "games:step", "tokens:mint", "eval:read", "eval:submit", "annotate"
        )

        async def listed(headers: dict[str, str] | None = None) -> set[str]:
            found = await caller.get("/games", headers=headers)
            return {one["game_id"] for one in found.json()["games"]}

        forks = {one["game_id"] for one in made}
        assert await listed() == {origin, *forks}
        assert await listed(key) == {origin}
        for fork in made:
            game, of_fork = fork["game_id"], fork["batch_id"]
            for path in (
                f"/games/{game}",
                f"/games/{game}/events?follow=true",
                f"/games/{game}/requests",
                f"/batches/{of_fork}",
                f"/batches/{of_fork}/events",
                f"/batches/{of_fork}/export",
                f"/evaluations/items?dimension=selection&game={game}",
                f"/evaluations/items?dimension=selection&batch={of_fork}",
                f"/evaluations/compare?dimension=guessing&game={game}&first=a&second=b",
                f"/annotations/tasks?rater=r&game={game}",
                f"/annotations?batch={of_fork}",
                f"/reports?batch={of_fork}",
            ):
                problem(await caller.get(path, headers=key), 404, "not-found")
            for path, body in (
                (f"/games/{game}/step", {}),
                (f"/games/{game}/tokens", {"viewer": "seat:1"}),
                (f"/batches/{of_fork}/tokens", {}),
                ("/evaluations", {"dimension": "selection", "judge": {"kind": "rule"}, "game": game}),
                ("/evaluations", {"dimension": "statements", "judge": {"kind": "rule"}, "batch": of_fork}),
            ):
                problem(await caller.post(path, json=body, headers=key), 404, "not-found")
            rater = {"name": "r", "kind": "human"}
            query = {"game": game, "limit": 1, "reader": "all"}
            found = await caller.get("/evaluations/items", params={**query, "dimension": "guessing"})
            guess = {"item_id": found.json()["items"][0]["id"], "intentions": []}
            body = {"dimension": "guessing", "rater": rater, "answers": [guess]}
            problem(await caller.post("/evaluations", json=body, headers=key), 403, "forbidden")
            assert (await caller.post("/evaluations", json=body)).status_code == 201
            found = await caller.get("/evaluations/items", params={**query, "dimension": "selection"})
            item = found.json()["items"][0]
            judged = {"item_id": item["id"], "intention": item["asked"][0]["id"], "reasonable": True}
            body = {"rater": rater, "judgements": [judged]}
            answer = await caller.post("/annotations", json=body, headers=key)
            problem(answer, 422, "invalid-request", "/judgements/0/item_id")
            assert (await caller.post("/annotations", json=body)).status_code == 201
        # A token is for whom its maker gives it to.
        minted = await caller.post(f"/games/{last}/tokens", json={"viewer": "public"})
        token = bearer(minted.json()["token"])
        assert (await caller.get(f"/games/{last}", headers=token)).status_code == 200
        # A source that has failed may be played on.
        await caller.services.store.mark_failed(origin, "out of reach", now_ms(), None)
        assert await listed(key) == {origin}
        for fork in made:
            for path in (f"/games/{fork['game_id']}", f"/batches/{fork['batch_id']}/export"):
                problem(await caller.get(path, headers=key), 404, "not-found")
        assert (await caller.post(f"/batches/{batch}/retry", json={})).status_code == 200
        # What the source still hid is over with it.
        assert (await caller.post(f"/games/{origin}/cancel")).status_code == 202
        assert await listed(key) == {origin, *forks}
        for fork in made:
            assert (await caller.get(f"/games/{fork['game_id']}", headers=key)).status_code == 200
            assert (await caller.get(f"/reports?batch={fork['batch_id']}", headers=key)).status_code == 200


async def test_who_was_shown_a_choice_answers_it_in_sets_of_no_fork_either(tmp_path: Path) -> None:
    async with calling(f"sqlite:///{tmp_path / 'games.sqlite'}") as caller:
        _, [origin] = await caller.played(seeds={"from": SEED})
        games = [origin]
        # A fork of a fork, and a second fork of the source: all share the first round.
        for source in (origin, None, origin):
            wish = {"after": {"round": 1, "attempt": 1, "phase": "vote"}, "seats": [{"agent": "scripted"}]}
            answer = await caller.post(f"/games/{source or games[-1]}/fork", json=wish)
            await caller.over(answer.json()["batch_id"])
            games.append(answer.json()["game_id"])
        asked: dict[str, dict[str, str]] = {}
        for game in games:
            query = {"game": game, "dimension": "guessing", "limit": 200}
            found = (await caller.get("/evaluations/items", params=query)).json()["items"]
            asked[game] = {one["request_id"]: one["id"] for one in found}
        shared = next(iter(asked[origin]))
        later = next(one for one in reversed(asked[games[1]]) if one in asked[games[2]])
        assert shared.startswith("1.1.")
        assert not later.startswith("1.")
        await _with_scopes(caller)

        origins = dict(zip(games, [origin, origin, games[1], origin], strict=True))

        async def refused(request: str, key: dict[str, str], *of: str) -> list[bool]:
            """Whether the key's owner may not answer this item of a set, by game."""
            rows = [
                SetItemRow(
                    set_id="s",
                    position=place,
                    item_id=asked[game][request],
                    game_id=game,
                    origin=origins[game],
                    request_id=request,
                    seat=int(request.rpartition(".")[2]),
                )
                for place, game in enumerate(of)
            ]
            who = await caller.services.keys.caller(key["authorization"].removeprefix("Bearer "))
            seen = await caller.services.evaluations.gold.seen(who, rows)
            return [(row.game_id, row.request_id) in seen.turns for row in rows]

        for shown in games:
            for way in ("items", "tasks", "judgements"):
                key = await _with_scopes(caller, "eval:read", "eval:submit", "annotate")
                if way == "items":
                    query = {"game": shown, "dimension": "selection", "limit": 200}
                    answer = await caller.get("/evaluations/items", params=query, headers=key)
                elif way == "tasks":
                    query = {"game": shown, "rater": "r", "limit": 50}
                    answer = await caller.get("/annotations/tasks", params=query, headers=key)
                else:
                    judged = [
                        {
                            "item_id": f"{shown}/selection/{request}/final/-",
                            "intention": "x",
                            "reasonable": True,
                        }
                        for request in (later, shared)
                    ]
                    body = {"rater": {"name": "r", "kind": "human"}, "judgements": judged[1:]}
                    answer = await caller.post("/annotations", json=body, headers=key)
                assert answer.status_code == (422 if way == "judgements" else 200), answer.text
                assert await refused(shared, key, *games) == [True] * len(games), (shown, way)
                if way == "items" and shown == games[1]:
                    # What each game played for itself is its own.
                    assert await refused(later, key, *games[1:3]) == [True, False]
