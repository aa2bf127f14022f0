"""Batches and games that wait until somebody resumes them: nothing is lost, nothing is played meanwhile."""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from agents import llm
from agents.model.model import ModelUnavailable
from app.base.clock import now_ms
from app.base.errors import AlreadyOver
from app.base.metrics import REGISTRY
from app.edge.auth import ANYBODY, OPERATOR
from app.games.schemas import NewBudget
from app.instruments.fake_model import FakeModel, FakeOptions, read_fault, read_latency
from app.main import Composition
from app.models import health
from app.runner import local, queued
from app.seats.remote_seat import MIN_ALLOWANCE_S
from app.store.outages import OutageStore
from app.store.rows import Outage
from engine.terms import Kind
from tests.app.calling import WITHIN_S, Caller, calling, problem, until, without_times
from tests.app.evaluations.test_judging import over
from tests.app.evaluations.test_reports_api import figure, report_of
from tests.app.modelling import DIRECT, calling_with, endpoints, faking, stored_calls

SEEDS = {"from": 1}
ONE_SEAT = [*DIRECT, *[{"agent": "random"}] * 4]
"""For many games: the model plays one seat, which speaks, votes and sums up in each."""


def _refusing(fake: FakeModel, name: str) -> None:
    fake.faults = (read_fault(name),)


async def _suspended(caller: Caller, batch: str) -> Any:
    view = await caller.over(batch)
    assert view["status"] == "suspended", view
    return view["suspended"]


async def _resumed(caller: Caller, batch: str, **more: Any) -> Any:
    answer = await caller.post(f"/batches/{batch}/resume", json=more)
    assert answer.status_code == 200, answer.text
    view = await caller.over(batch)
    assert view["suspended"] is None
    return view


async def _defaults(caller: Caller, batch: str) -> list[Any]:
    lines = await caller.lines(f"/batches/{batch}/export", view="full")
    return [line for line in lines if line.get("type") == "action_defaulted"]


@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        ("quota", "quota"),
        pytest.param("status_401", "status_401", marks=pytest.mark.long),
        pytest.param("status_404", "status_404", marks=pytest.mark.long),
    ],
)
async def test_what_the_account_refuses_suspends_the_batch_until_it_is_resumed(
    database_url: str, fault: str, cause: str
) -> None:
    async with faking() as fake, calling_with(fake, database_url) as caller:
        batch, games = await caller.create(seats=DIRECT, count=3, seeds=SEEDS)
        await until(lambda: fake.counts.answered >= 10)
        _refusing(fake, fault)
        why = await _suspended(caller, batch)
        assert (why["endpoint"], why["cause"]) == ("fake", cause)
        assert why["words"]
        answered = fake.counts.answered
        fake.faults = ()
        await asyncio.sleep(1.0)  # two looks for batches to drive
        assert fake.counts.answered == answered
        view = await _resumed(caller, batch)
        assert (view["status"], view["games"]["finished"]) == ("done", 3)
        assert await _defaults(caller, batch) == []
        assert await stored_calls(database_url) == fake.counts.answered
        _, again = await caller.played(seats=DIRECT, count=3, seeds=SEEDS)
        for game, other in zip(games, again, strict=True):
            lines, others = [
                [{**line, "at": "", "game": ""} for line in await caller.lines(f"/games/{one}/events")]
                for one in (game, other)
            ]
            assert lines == others


async def test_a_suspended_batch_stays_suspended_when_the_service_restarts(database_url: str) -> None:
    async with faking(FakeOptions(faults=(read_fault("quota"),))) as fake:
        async with calling_with(fake, database_url) as caller:
            batch, _ = await caller.create(seats=DIRECT)
            await _suspended(caller, batch)
        fake.faults = ()
        async with calling_with(fake, database_url) as caller:
            calls = fake.counts.calls
            await asyncio.sleep(1.0)
            assert fake.counts.calls == calls
            assert (await caller.get(f"/batches/{batch}")).json()["status"] == "suspended"
            assert (await _resumed(caller, batch))["status"] == "done"


async def test_a_resumed_batch_uses_the_endpoints_and_keys_of_now(tmp_path: Path, database_url: str) -> None:
    models = tmp_path / "models.toml"
    key = tmp_path / "key"
    key.write_text("sk-old\n")

    def configured(fake: FakeModel) -> str:
        return f'[fake]\nbase_url = "{fake.url}/v1"\nmodel = "fake"\napi_key_file = "{key}"\n'

    async with faking(FakeOptions(faults=(read_fault("status_401"),))) as old, faking() as new:
        models.write_text(configured(old))
        async with calling(database_url, models_file=models) as caller:
            batch, _ = await caller.create(seats=DIRECT)
            await _suspended(caller, batch)
            calls = old.counts.calls
            models.write_text(configured(new))
            key.write_text("sk-new")
            assert (await _resumed(caller, batch))["status"] == "done"
            assert (old.counts.calls, new.counts.calls > 0) == (calls, True)
            assert caller.services.models.endpoints.source("fake").endpoint.api_key == "sk-new"


@pytest.mark.parametrize("resumed", [True, False], ids=["a batch is resumed", "another judge begins"])
async def test_whatever_waits_at_an_endpoint_goes_on_when_its_settings_are_mended(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch, resumed: bool
) -> None:
    monkeypatch.setattr(health, "FIRST_PAUSE_S", 0.02)
    models = tmp_path / "models.toml"

    def configured(fake: FakeModel) -> str:
        return f'[fake]\nbase_url = "{fake.url}/v1"\nmodel = "fake"\nattempts = 1\n'

    async def judge(caller: Caller, dimension: str, batch: str) -> str:
        wish = {"dimension": dimension, "judge": {"kind": "model", "model": "fake"}, "batch": batch}
        answer = await caller.post("/evaluations", json=wish)
        assert answer.status_code in (201, 202), answer.text
        return str(answer.json()["evaluation_id"])

    async with faking(FakeOptions(faults=(read_fault("status_503"),))) as wrong, faking() as right:
        models.write_text(configured(wrong))
        async with calling(database_url, models_file=models) as caller:
            scripted, _ = await caller.played(seats=[{"agent": "scripted"}], count=2)
            judging = await judge(caller, "selection", scripted)
            first, _ = await caller.create(seats=ONE_SEAT, count=3)
            second, _ = await caller.create(seats=ONE_SEAT, count=3)
            for batch in (first, second):
                await _waiting(caller, batch)
            models.write_text(configured(right))
            if resumed:
                assert (await caller.post(f"/batches/{second}/pause")).status_code == 202
                assert (await caller.post(f"/batches/{second}/resume", json={})).status_code == 200
            else:
                await judge(caller, "following", scripted)
            for batch in (first, second):
                assert (await caller.over(batch))["games"]["finished"] == 3
            evaluation = await over(caller, judging)
            assert evaluation["progress"]["games_done"] == 2, evaluation
            calls = wrong.counts.calls
            assert (await caller.played(seats=ONE_SEAT))[0]
            assert wrong.counts.calls == calls
            assert await OutageStore(caller.services.database).all() == {}
        assert await stored_calls(database_url) == right.counts.answered


async def test_what_waits_at_an_endpoint_that_is_taken_out_is_suspended(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "FIRST_PAUSE_S", 0.02)
    models = tmp_path / "models.toml"
    async with faking(FakeOptions(faults=(read_fault("status_503"),))) as fake:
        text = '[{}]\nbase_url = "{}/v1"\nmodel = "fake"\nattempts = 1\n'
        models.write_text(text.format("fake", fake.url))
        async with calling(database_url, models_file=models) as caller:
            first, _ = await caller.create(seats=ONE_SEAT, count=2)
            second, _ = await caller.create(seats=ONE_SEAT)
            for batch in (first, second):
                await _waiting(caller, batch)
            models.write_text(text.format("other", fake.url))
            assert (await caller.post(f"/batches/{second}/pause")).status_code == 202
            assert (await caller.post(f"/batches/{second}/resume", json={})).status_code == 200
            async with asyncio.timeout(WITHIN_S):
                for batch in (first, second):
                    view = {"status": ""}
                    while view["status"] != "suspended":
                        await asyncio.sleep(0.02)
                        view = (await caller.get(f"/batches/{batch}")).json()
                    assert view["suspended"]["cause"] == "settings"
                    assert "no model is called 'fake' here" in view["suspended"]["words"]
                    assert view["games"]["failed"] == 0


async def test_settings_that_cannot_be_read_leave_the_endpoints_as_they_were(
    tmp_path: Path, database_url: str
) -> None:
    models = tmp_path / "models.toml"
    async with faking(FakeOptions(faults=(read_fault("quota"),))) as fake:
        models.write_text(f'[fake]\nbase_url = "{fake.url}/v1"\nmodel = "fake"\n')
        async with calling(database_url, models_file=models) as caller:
            batch, _ = await caller.create(seats=DIRECT)
            await _suspended(caller, batch)
            models.write_text("no TOML at all")
            fake.faults = ()
            assert (await _resumed(caller, batch))["status"] == "done"


@pytest.mark.long
async def test_a_question_that_the_provider_turns_down_fails_its_game_with_the_providers_words(
    database_url: str,
) -> None:
    async with (
        faking(FakeOptions(faults=(read_fault("context_length:1:1"),))) as fake,
        calling_with(fake, database_url, parallel_games=1) as caller,
    ):
        batch, games = await caller.create(seats=ONE_SEAT, count=30, seeds=SEEDS)
        view = await caller.over(batch)
        # One of thirty is less than a twentieth: the others go on.
        assert (view["status"], view["games"]["failed"], view["games"]["finished"]) == ("failed", 1, 29)
        views = [(await caller.get(f"/games/{game}")).json() for game in games]
        [fault] = [one["fault"] for one in views if one["status"] == "failed"]
        assert fault.startswith("fake: context_length: ")
        assert "maximum context length" in fault
        assert await _defaults(caller, batch) == []


@pytest.mark.long
async def test_a_batch_of_which_more_than_a_twentieth_fails_is_suspended(database_url: str) -> None:
    async with (
        faking(FakeOptions(faults=(read_fault("context_length:1:1"),))) as fake,
        calling_with(fake, database_url, parallel_games=1) as caller,
    ):
        batch, _ = await caller.create(seats=ONE_SEAT, count=19, seeds=SEEDS)
        why = await _suspended(caller, batch)
        assert (why["endpoint"], why["cause"]) == ("", "games_failed")
        assert why["words"].startswith("1 of 19 games failed; the last: fake: context_length: ")
        view = await _resumed(caller, batch)
        assert (view["status"], view["games"]["failed"], view["games"]["finished"]) == ("failed", 1, 18)


async def test_games_that_fail_because_of_an_error_of_ours_count_as_well(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(local, "drive", broken)
    async with calling(database_url, parallel_games=1) as caller:
        batch, _ = await caller.create(count=3)
        why = await _suspended(caller, batch)
        assert (why["endpoint"], why["cause"]) == ("", "games_failed")
        assert why["words"].startswith("1 of 3 games failed; the last: ")
        assert (await caller.get(f"/batches/{batch}")).json()["games"]["failed"] == 1


@pytest.mark.parametrize(
    ("seat", "words"),
    [
        ({"model": "fake"}, "no model is called 'fake' here; name one of the models here: other (/seats/0"),
        ({"model": "other", "options": {"prompts": "mine"}}, "no prompts are called 'mine'; there are "),
    ],
)
async def test_a_process_without_what_a_seat_names_suspends_the_batch(
    seat: dict[str, Any], words: str, database_url: str, tmp_path: Path
) -> None:
    own = tmp_path / "mine"
    shutil.copytree(Path(llm.__file__).parent / "prompts", own)
    async with faking() as fake:
        both = {**endpoints(fake), "other": endpoints(fake)["fake"]}
        complete = {"models": both, "prompts": {"mine": own}}
        async with calling(database_url, **complete, runner=False) as caller:
            batch, _ = await caller.create(seats=[{**DIRECT[0], **seat}], count=3, seeds=SEEDS)
        async with calling(database_url, models={"other": both["other"]}) as caller:
            why = await _suspended(caller, batch)
            assert (why["endpoint"], why["cause"]) == ("", "settings")
            assert why["words"].startswith(words)
            assert (await caller.get(f"/batches/{batch}")).json()["games"]["failed"] == 0
        async with calling(database_url, **complete) as caller:
            assert (await _resumed(caller, batch))["games"]["finished"] == 3


async def test_a_model_whose_answers_are_mostly_unusable_suspends_and_is_asked_anew(
    database_url: str,
) -> None:
    async with faking() as fake, calling_with(fake, database_url) as caller:
        brain = fake._brain
        fake._brain = lambda *_: "no JSON"
        batch, _ = await caller.create(seats=DIRECT, seeds=SEEDS)
        why = await _suspended(caller, batch)
        assert (why["endpoint"], why["cause"]) == ("fake", "unusable_answers")
        assert why["words"].endswith("; `interintent answers export` writes them all")
        unusable = fake.counts.calls
        fake._brain = brain
        view = await _resumed(caller, batch)
        assert view["status"] == "done"
        assert await _defaults(caller, batch) == []
        # What was paid for in vain still counts.
        assert sum(model["http_calls"] for model in view["models"]) == fake.counts.calls > unusable


async def test_who_resumes_may_say_that_defaults_are_played_from_now_on(database_url: str) -> None:
    async with (
        faking(FakeOptions(brain=lambda *_: "no JSON")) as fake,
        calling_with(fake, database_url) as caller,
    ):
        batch, _ = await caller.create(seats=DIRECT, seeds=SEEDS)
        await _suspended(caller, batch)
        assert (await _resumed(caller, batch, on_unusable="default"))["status"] == "done"
        assert await _defaults(caller, batch)


async def test_failed_games_go_on_when_their_batch_is_retried(database_url: str) -> None:
    async with faking() as fake, calling_with(fake, database_url) as caller:
        # Of two, the one that fails first suspends the batch, and the other may or may not fail as well.
        batch, games = await caller.create(seats=DIRECT, seeds=SEEDS)
        await until(lambda: fake.counts.answered >= 10)
        _refusing(fake, "context_length")
        view = await caller.over(batch)
        assert (view["status"], view["games"]["failed"]) == ("failed", 1)
        assert view["finished_at"] is not None
        before = [await caller.lines(f"/games/{game}/events") for game in games]
        fake.faults = ()
        refused = await caller.post(f"/batches/{batch}/retry", json={"more": 1})
        problem(refused, 422, "invalid-request", "/more")
        assert (await caller.post(f"/batches/{batch}/retry", json={})).status_code == 200
        view = await caller.over(batch)
        assert (view["status"], view["games"]["finished"]) == ("done", 1)
        assert await _defaults(caller, batch) == []
        assert await stored_calls(database_url) == fake.counts.answered
        for game, lines in zip(games, before, strict=True):
            assert (await caller.lines(f"/games/{game}/events"))[: len(lines)] == lines
        problem(await caller.post(f"/batches/{batch}/retry", json={}), 409, "not-suspended")


async def test_excluded_games_are_played_anew_once_when_their_batch_is_retried(database_url: str) -> None:
    async with faking() as fake, calling_with(fake, database_url) as caller:
        brain = fake._brain
        fake._brain = lambda *_: "no JSON"
        seats = [{"agent": "llm", "model": "fake", "mechanism": "direct"}, *[{"agent": "random"}] * 4]
        batch, [spoilt] = await caller.create(
            profile="interintent", seats=seats, rotate=True, on_unusable="default"
        )
        assert (await caller.over(batch))["status"] == "done"
        fake._brain = brain
        path = f"/batches/{batch}/retry"
        problem(await caller.post(path, json={"exclude_above": 2}), 422, "invalid-request", "/exclude_above")
        problem(await caller.post(path, json={"exclude_above": 1}), 409, "not-suspended")
        [anew] = (await caller.post(path, json={})).json()["anew"]
        assert anew["instead_of"] == spoilt != anew["game_id"]
        view = await caller.over(batch)
        assert (view["status"], view["count"], view["games"]["finished"]) == ("done", 2, 2)
        old, new = [(await caller.get(f"/games/{game}")).json() for game in (spoilt, anew["game_id"])]
        assert new["forked_from"]["game_id"] == spoilt
        assert (new["seed"], new["agents"]) == (old["seed"], old["agents"])
        was, now = [await caller.lines(f"/games/{game}/events") for game in (spoilt, anew["game_id"])]
        same = new["forked_from"]["events"]
        assert without_times(was[:same]) == without_times(now[:same])
        assert not any(event["type"] == "action_defaulted" for event in now)
        report = (await report_of(caller, batch)).json()
        assert report["made_of"]["games"] == 1
        # With the excluded game in, that one counts instead, not both.
        assert report["notes"][0].startswith("Excluded: 1 of 1 games")
        decided = figure(report, "defaults", "all", "all", column="defaulted")
        assert (decided["num"], decided["with_excluded"]["num"] > 0) == (0, True)
        every = (await report_of(caller, batch, exclude_above="1")).json()
        assert every["made_of"]["games"] == 1
        again = figure(every, "defaults", "all", "all", column="defaulted")
        assert (again["num"], again["den"]) == tuple(decided["with_excluded"][n] for n in ("num", "den"))
        # Once: neither the one that was excluded nor the new one is played again.
        problem(await caller.post(path, json={}), 409, "not-suspended")
        # A game that is marked as invalid is played anew as well, this one in the same place.
        await caller.post(f"/games/{anew['game_id']}/invalidate", json={"reason": "the wrong key"})
        [third] = (await caller.post(path, json={})).json()["anew"]
        assert third["instead_of"] == anew["game_id"]
        assert (await caller.over(batch))["games"]["finished"] == 3
        assert (await caller.get(f"/games/{third['game_id']}")).json()["agents"] == old["agents"]


async def test_a_damaged_row_keeps_no_other_game_from_being_played_anew(database_url: str) -> None:
    async with calling(database_url) as caller:
        batch, games = await caller.played(seats=[{"agent": "random"}], count=3)
        for game in games:
            await caller.post(f"/games/{game}/invalidate", json={"reason": "x"})
        store = caller.services.games._store
        for game, column in ((games[0], "seats"), (games[1], "defaults")):
            broken = text(f"UPDATE games SET {column} = '7' WHERE game_id = '{game}'")
            await store._database.writer.execute(broken)
        retried = (await caller.post(f"/batches/{batch}/retry", json={})).json()
        assert [one["instead_of"] for one in retried["anew"]] == [games[2]]


async def test_a_game_whose_remote_seats_know_the_deal_is_not_played_anew(database_url: str) -> None:
    async with calling(database_url) as caller:
        seats = [{"agent": "remote"}, *[{"agent": "scripted"}] * 4]
        batch, [game] = await caller.played(seats=seats, deadlines_s=dict.fromkeys(Kind, MIN_ALLOWANCE_S))
        await caller.post(f"/games/{game}/invalidate", json={"reason": "x"})
        problem(await caller.post(f"/batches/{batch}/retry", json={}), 409, "not-suspended")


async def test_limits_of_a_running_batch_can_be_changed(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.models.registry.LIMITS_S", 0.02)
    async with (
        # So slow that as many calls as may be under way at once are so on any machine.
        faking(FakeOptions(latency=read_latency("0.1"))) as fake,
        calling_with(fake, database_url) as caller,
    ):
        seats = [{"agent": "llm", "model": "fake"}]
        batch, _ = await caller.create(seats=seats, count=8, seeds=SEEDS, budget={"max_parallel": 2})
        await until(lambda: fake.counts.answered >= 20)
        assert fake.counts.max_in_flight == 2
        await caller.services.games.limit(batch, NewBudget(max_parallel=6), by=OPERATOR)
        await until(lambda: fake.counts.max_in_flight == 6)
        await caller.services.games.limit(batch, NewBudget(max_tokens=1), by=OPERATOR)
        view = await caller.over(batch)
        assert (view["status"], view["budget"]["games_stopped"]) == ("cancelled", 8)
        assert (view["budget"]["max_parallel"], view["budget"]["max_tokens"]) == (6, 1)
        with pytest.raises(AlreadyOver):
            await caller.services.games.limit(batch, NewBudget(max_parallel=1), by=OPERATOR)


async def test_limits_and_a_resumption_do_not_undo_one_another(database_url: str) -> None:
    async with faking() as fake, calling_with(fake, database_url) as caller:
        _refusing(fake, "quota")
        batch, _ = await caller.create(seats=DIRECT, budget={"max_tokens": 10**9})
        await _suspended(caller, batch)
        games = caller.services.games
        await asyncio.gather(
            games.limit(batch, NewBudget(max_parallel=5), by=OPERATOR),
            games.resume(batch, "fail", by=OPERATOR),
            games.limit(batch, NewBudget(max_cost=7.5), by=OPERATOR),
        )
        spec = (await caller.services.store.specs([batch]))[batch]
        assert spec["on_unusable"] == "fail"
        assert spec["budget"] == {"max_tokens": 10**9, "max_parallel": 5, "max_cost": 7.5}


async def test_a_game_whose_decisions_must_not_be_defaulted_can_fail(database_url: str) -> None:
    async with (
        faking(FakeOptions(brain=lambda *_: "no JSON")) as fake,
        calling_with(fake, database_url) as caller,
    ):
        batch, [game] = await caller.create(seats=DIRECT, on_unusable="fail")
        assert (await caller.over(batch))["status"] == "failed"
        fault = (await caller.get(f"/games/{game}")).json()["fault"]
        assert fault.startswith("fake: unusable_answers: ")


async def test_a_game_that_stops_alone_is_suspended_and_resumed(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr("app.models.sessions.PATIENCE_S", 0.0)
    monkeypatch.setattr("app.models.sessions.MOST_TRIES", 2)
    async with (
        faking() as fake,
        calling(database_url, models=endpoints(fake, attempts=1)) as caller,
    ):
        _refusing(fake, "status_500:0.3")
        batch, games = await caller.create(seats=DIRECT, count=4, seeds=SEEDS)
        view = await caller.over(batch)
        assert (view["status"], view["suspended"]) == ("suspended", None)
        assert view["games"]["suspended"] > 0
        views = [(await caller.get(f"/games/{game}")).json() for game in games]
        assert all("status_500" in one["fault"] for one in views if one["status"] == "suspended")
        fake.faults = ()
        view = await _resumed(caller, batch)
        assert (view["status"], view["games"]["finished"]) == ("done", 4)
        assert await _defaults(caller, batch) == []


async def test_only_what_is_suspended_can_be_resumed(database_url: str) -> None:
    async with faking() as fake, calling_with(fake, database_url) as caller:
        batch, _ = await caller.played(seats=DIRECT)
        refused = await caller.post(f"/batches/{batch}/resume", json={})
        problem(refused, 409, "not-suspended")
        _refusing(fake, "quota")
        batch, _ = await caller.create(seats=DIRECT)
        await _suspended(caller, batch)
        for wrong in ({"on_unusable": "ignore"}, {"more": 1}):
            answer = await caller.post(f"/batches/{batch}/resume", json=wrong)
            problem(answer, 422, "invalid-request", f"/{next(iter(wrong))}")
        assert (await caller.post(f"/batches/{batch}/cancel")).status_code == 202
        assert (await caller.over(batch))["status"] == "cancelled"
        refused = await caller.post(f"/batches/{batch}/resume", json={})
        problem(refused, 409, "already-over")


async def test_a_step_by_hand_that_the_account_refuses_says_so_and_can_be_repeated(database_url: str) -> None:
    async with faking() as fake, calling_with(fake, database_url) as caller:
        batch, [game] = await caller.create(seats=DIRECT, drive="manual")
        _refusing(fake, "quota")
        refused = await caller.post(f"/games/{game}/step", json={"until": "end"})
        problem(refused, 503, "model-unavailable")
        assert "quota" in json.dumps(refused.json())
        # Who does not see the game in full is not told whose model it is.
        with pytest.raises(ModelUnavailable) as told:
            await caller.services.games.stepper.step(game, "end", ANYBODY)
        assert str(told.value) == "a seat's model does not answer"
        fake.faults = ()
        stepped = await caller.post(f"/games/{game}/step", json={"until": "end"})
        assert stepped.json()["status"] == "finished"
        assert await _defaults(caller, batch) == []


async def test_a_watch_token_does_not_show_why_a_batch_is_suspended(database_url: str) -> None:
    async with faking() as fake, calling_with(fake, database_url) as caller:
        _refusing(fake, "quota")
        batch, _ = await caller.create(seats=DIRECT)
        await _suspended(caller, batch)
        token = (await caller.post(f"/batches/{batch}/tokens", json={})).json()["token"]
        watched = await caller.get(f"/batches/{batch}", headers={"Authorization": f"Bearer {token}"})
        view = watched.json()
        assert (view["status"], view["suspended"]) == ("suspended", None)


async def _waiting(caller: Caller, batch: str) -> None:
    async with asyncio.timeout(WITHIN_S):
        while True:
            if (await caller.get(f"/batches/{batch}")).json()["waiting"]:
                return
            await asyncio.sleep(0.02)


async def test_games_that_wait_for_an_endpoint_hold_no_place(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "FIRST_PAUSE_S", 0.02)
    async with faking(FakeOptions(faults=(read_fault("status_503"),))) as away, faking() as well:
        models = {
            "away": {"base_url": f"{away.url}/v1", "model": "fake", "attempts": 1},
            "well": {"base_url": f"{well.url}/v1", "model": "fake"},
        }
        async with calling(database_url, models=models, parallel_games=1) as caller:
            seats = [{"agent": "llm", "model": "away", "mechanism": "direct"}]
            batch, games = await caller.create(seats=seats, count=4, seeds=SEEDS)
            await _waiting(caller, batch)
            other, _ = await caller.create(seats=[{**seats[0], "model": "well"}], count=2)
            assert (await caller.over(other))["status"] == "done"
            async with asyncio.timeout(WITHIN_S):
                parked = 'interintent_games_parked{endpoint="away"} 3.0'
                while parked not in (await caller.get("/metrics")).text:  # noqa: ASYNC110  # there is no event
                    await asyncio.sleep(0.05)
            # The game that tries, and one that is parked.
            for game in (games[0], games[2]):
                assert (await caller.post(f"/games/{game}/cancel")).status_code == 202
            away.faults = ()
            view = await caller.over(batch)
            assert (view["status"], view["games"]["finished"], view["games"]["cancelled"]) == ("done", 2, 2)
            assert await _defaults(caller, batch) == []


@pytest.mark.long
@pytest.mark.parametrize("timing", ["exact", "eager"])
async def test_games_in_which_many_calls_wait_end_as_if_nothing_had_been(
    database_url: str, monkeypatch: pytest.MonkeyPatch, timing: str
) -> None:
    monkeypatch.setattr(health, "FIRST_PAUSE_S", 0.01)
    seats = [{"agent": "llm", "model": "fake", "options": {"timing": timing}}]
    async with (
        faking() as fake,
        calling(database_url, models=endpoints(fake, attempts=1)) as caller,
    ):
        batch, games = await caller.create(seats=seats, count=2, seeds=SEEDS)
        for n in range(3):
            await until(lambda n=n: fake.counts.answered >= 40 * n + 20)  # type: ignore[misc]
            _refusing(fake, "status_503")
            await _waiting(caller, batch)
            fake.faults = ()
        view = await caller.over(batch)
        assert (view["status"], view["games"]["finished"]) == ("done", 2)
        assert await stored_calls(database_url) == fake.counts.answered
        _, again = await caller.played(seats=seats, count=2, seeds=SEEDS)
        for game, other in zip(games, again, strict=True):
            lines, others = [
                [{**line, "at": "", "game": ""} for line in await caller.lines(f"/games/{one}/events")]
                for one in (game, other)
            ]
            assert lines == others


async def _until_known(caller: Caller) -> None:
    """Waits until the service says that its one endpoint does not answer."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            [state] = (await caller.get("/readyz?verbose=true")).json()["endpoints"]
            if not state["answers"]:
                return
            await asyncio.sleep(0.02)


async def test_a_service_learns_of_an_outage_from_the_database(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.models.endpoints.LOOK_S", 0.02)
    async with faking() as fake, calling_with(fake, database_url) as caller:
        await caller.played(seats=DIRECT)
        outages = OutageStore(caller.services.database)
        far = now_ms() + 3_600_000
        await outages.put(Outage("fake", now_ms(), "status_503", far))
        # An answer to a call that has begun would show that it is no outage.
        await _until_known(caller)
        batch, _ = await caller.create(seats=DIRECT)
        await _waiting(caller, batch)
        assert await outages.claim("fake", now_ms(), far) is False
        await outages.end("fake")
        assert (await caller.over(batch))["status"] == "done"


HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("since", "try_at"),
    [
        pytest.param(0, 100 * 365 * 24 * HOUR_MS, id="damaged: in a hundred years"),
        pytest.param(6 * HOUR_MS, 6 * HOUR_MS + 60_000, id="the clock was set back by six hours"),
    ],
)
async def test_a_time_that_no_process_sets_keeps_no_endpoint_closed(
    database_url: str, monkeypatch: pytest.MonkeyPatch, since: int, try_at: int
) -> None:
    monkeypatch.setattr("app.models.endpoints.LOOK_S", 0.02)
    async with faking() as fake, calling_with(fake, database_url) as caller:
        outages = OutageStore(caller.services.database)
        await outages.put(Outage("fake", now_ms() + since, "status_503", now_ms() + try_at))
        await _until_known(caller)
        batch, _ = await caller.create(seats=DIRECT)
        assert (await caller.over(batch))["status"] == "done"
        assert await outages.all() == {}


@pytest.mark.parametrize("ending", ["cancelled", "suspended"])
async def test_an_endpoint_counts_as_away_only_while_something_waits_for_it(
    database_url: str, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    monkeypatch.setattr(health, "FIRST_PAUSE_S", 0.02)
    monkeypatch.setattr(health, "LEASE_S", 0.2)
    monkeypatch.setattr(health, "UNTRIED_S", 3600.0)
    monkeypatch.setattr(queued, "SWEEP_S", 0.05)
    monkeypatch.setattr("app.models.endpoints.LOOK_S", 0.02)
    monkeypatch.setattr("app.models.endpoints.UNWANTED_S", 0.5)
    async with (
        faking(FakeOptions(faults=(read_fault("status_503"),))) as fake,
        calling(database_url, models=endpoints(fake, attempts=1)) as caller,
    ):
        batch, _ = await caller.create(seats=DIRECT, count=3)
        await _waiting(caller, batch)
        if ending == "cancelled":
            assert (await caller.post(f"/batches/{batch}/cancel")).status_code == 202
        else:
            _refusing(fake, "status_401")
        view = await caller.over(batch)
        assert (view["status"], view["waiting"]) == (ending, [])
        outages, gone = OutageStore(caller.services.database), ["model_endpoint_away", "games_parked"]
        async with asyncio.timeout(WITHIN_S):
            while await outages.all() or any(  # noqa: ASYNC110  # there is no event
                REGISTRY.get_sample_value(f"interintent_{name}", {"endpoint": "fake"}) for name in gone
            ):
                await asyncio.sleep(0.05)
        [state] = (await caller.get("/readyz?verbose=true")).json()["endpoints"]
        assert state == {"name": "fake", "answers": True, "since": None, "cause": None}


async def test_an_outage_does_not_end_while_a_call_tries_for_long(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with faking() as fake, calling_with(fake, database_url) as caller:
        known, outages = caller.services.models.endpoints, OutageStore(caller.services.database)
        await outages.put(Outage("fake", now_ms(), "status_503", now_ms()))
        source = known.source("fake")
        await known.look()
        async with source.health.turn():
            # As if the call had begun long ago.
            monkeypatch.setattr("app.models.endpoints.UNWANTED_S", -3600.0)
            await known.look()
            assert "fake" in (await outages.all() or {})


@pytest.mark.long
async def test_a_service_that_asks_no_model_itself_tells_of_an_outage(database_url: str) -> None:
    async with (
        faking(FakeOptions(faults=(read_fault("not_json"),))) as fake,
        calling(database_url, models=endpoints(fake, attempts=1)) as driving,
    ):
        batch, _ = await driving.create(seats=DIRECT)
        await _waiting(driving, batch)
        # Another process on the database, as `interintent batch show` is one.
        parts = Composition(driving.services.settings)
        try:
            assert parts.models.endpoints.outages(["fake"]) == []
            async with asyncio.timeout(WITHIN_S):
                while not (known := parts.models.endpoints.outages(["fake", "nobody"])):
                    await parts.models.endpoints.look()
                    await asyncio.sleep(0.02)
            assert [(outage.endpoint, outage.cause) for outage in known] == [("fake", "html_page")]
        finally:
            await parts.models.stop(1)
            await parts.database.stop()
        fake.faults = ()
        assert (await driving.over(batch))["status"] == "done"


async def test_an_outage_is_stored_while_it_lasts(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "FIRST_PAUSE_S", 0.02)
    async with (
        faking(FakeOptions(faults=(read_fault("status_503"),))) as fake,
        calling(database_url, models=endpoints(fake, attempts=1)) as caller,
    ):
        batch, _ = await caller.create(seats=DIRECT)
        await _waiting(caller, batch)
        outages = OutageStore(caller.services.database)
        async with asyncio.timeout(WITHIN_S):
            while True:
                if known := await outages.all():
                    break
                await asyncio.sleep(0.02)
        assert known["fake"].cause == "status_503"
        [state] = (await caller.get("/readyz?verbose=true")).json()["endpoints"]
        assert (state["name"], state["answers"], state["cause"]) == ("fake", False, "status_503")
        fake.faults = ()
        await caller.over(batch)
        assert (await caller.get("/readyz?verbose")).json() == {
            "status": "ready",
            "endpoints": [{"name": "fake", "answers": True, "since": None, "cause": None}],
        }
        assert await outages.all() == {}


async def test_a_call_without_an_answer_is_not_made_again_for_a_game_that_was_paused(
    database_url: str,
) -> None:
    failing = FakeOptions(latency=read_latency("1"), faults=(read_fault("status_503"),))
    async with (
        faking(failing) as fake,
        calling_with(fake, database_url, models=endpoints(fake, attempts=1)) as caller,
    ):
        batch, _ = await caller.create(seats=DIRECT)
        await until(lambda: fake.counts.in_flight == 1)
        assert (await caller.post(f"/batches/{batch}/pause")).status_code == 202
        await until(lambda: not caller.services.runner._active)
        asked = fake.counts.calls + (fake.counts.in_flight == 0)
        await until(lambda: not caller.services.models._flights._flights)
        assert fake.counts.calls <= asked
