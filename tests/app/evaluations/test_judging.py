"""Judges in the service: what they are asked, what is stored of it, and when it may be shown."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import func, select

from app.edge.auth import OPERATOR, SCOPES
from app.evaluations.judge_work import _IntentionWork
from app.instruments.fake_model import FakeOptions, read_latency
from app.instruments.fake_model.brains import BRAINS
from app.store.tables import model_calls
from tests.app.calling import WITHIN_S, Caller, Process, calling, problem, until
from tests.app.edge.test_keys import bearer, make_key, store_of
from tests.app.evaluations.test_evaluations_api import games_of
from tests.app.modelling import calling_with, endpoints, faking

SENSIBLE = FakeOptions(brain=BRAINS["sensible"](0))
MODEL = {"kind": "model", "model": "fake"}


async def judging(caller: Caller, dimension: str, **more: Any) -> Any:
    return await caller.post("/evaluations", json={"dimension": dimension, "judge": MODEL, **more})


async def over(
    caller: Caller, evaluation_id: str, headers: dict[str, str] | None = None, **query: Any
) -> dict[str, Any]:
    """The evaluation when its judge is done."""
    path = f"/evaluations/{evaluation_id}"
    async with asyncio.timeout(WITHIN_S):
        while True:
            view: dict[str, Any] = (await caller.get(path, params=query, headers=headers)).json()
            if view["status"] != "judging":
                return view
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("dimension", ["selection", "following"])
async def test_a_model_judges_every_item_and_its_words_are_stored_as_judgements(
    database_url: str, dimension: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with faking(SENSIBLE) as fake, calling_with(fake, database_url) as caller:
        batch, _ = await games_of(caller, 2)
        query = {"batch": batch, "dimension": dimension, "limit": 200}
        items = (await caller.get("/evaluations/items", params=query)).json()["items"]
        answer = await judging(caller, dimension, batch=batch)
        assert answer.status_code == 202, answer.text
        assert answer.json()["status"] == "judging"
        assert answer.headers["location"] == f"/evaluations/{answer.json()['evaluation_id']}"
        view = await over(caller, answer.json()["evaluation_id"])
        assert view["status"] == "scored", view
        assert view["progress"] == {
            "games": 2,
            "games_done": 2,
            "items": len(items),
            "judged": len(items),
            "unusable": 0,
            "unanswered": 0,
            "not_asked": 0,
            "left_out": 0,
        }
        said = (await caller.get("/annotations", params={"batch": batch})).json()["judgements"]
        assert len(said) == sum(len(item["asked"]) for item in items)
        assert {(one["rater"], one["kind"]) for one in said} == {("judge fake", "model")}
        assert all("“" in one["comment"] for one in said)
        if dimension == "selection":
            accuracy = view["totals"]["accuracy"]
            assert accuracy["den"] == len(said)
            assert accuracy["num"] == sum(one["reasonable"] for one in said)
            assert accuracy["low"] < accuracy["value"] < accuracy["high"]
        else:
            for part in ("think", "speak"):
                shares = view["totals"]["shares"][part]
                scores = [one[part] for one in said if one[part] is not None]
                assert shares["good"]["num"] == sum(score >= 4 for score in scores)
                assert [shares[str(score)]["num"] for score in range(1, 6)] == [
                    scores.count(score) for score in range(1, 6)
                ]
        assert fake.counts.calls == len(items)
        calls = caller.services.models.calls
        monkeypatch.setattr("app.store.model_calls._PAGE", 7)
        kept = [call.key async for call in calls.one_by_one(view["evaluation_id"])]
        assert len(kept) == len(items) > 7
        assert set(kept) == set(await calls.of_game(view["evaluation_id"]))


async def test_a_judge_is_not_shown_beside_people_before_it_agrees_with_them(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        faking(SENSIBLE) as fake,
        calling_with(fake, f"sqlite:///{tmp_path / 'games.sqlite'}") as caller,
    ):
        batch, _ = await games_of(caller, 3)
        made = (await judging(caller, "selection", batch=batch)).json()
        view = await over(caller, made["evaluation_id"])
        assert view["fit_to_show"] is False
        assert view["agreement"]["reasonable"]["lacking"][0].startswith("0 items rated")
        said = (await caller.get("/annotations", params={"batch": batch})).json()["judgements"]
        for name, agrees in (("eve", False), ("ann", True)):
            words = [
                {
                    "item_id": f"{one['game_id']}/selection/{one['request_id']}/{one['stage']}/-",
                    "intention": one["intention"],
                    "reasonable": one["reasonable"] is agrees,
                }
                for one in said
            ]
            body = {"rater": {"name": name, "kind": "human"}, "judgements": words}
            assert (await caller.post("/annotations", json=body)).status_code == 201
            told = (await caller.get(f"/evaluations/{made['evaluation_id']}")).json()
            assert told["agreement"]["reasonable"]["items"] == len(said) >= 50
            assert told["fit_to_show"] is False
        body = {"rater": {"name": "eve", "kind": "human"}, "judgements": words, "revise": True}
        assert (await caller.post("/annotations", json=body)).status_code == 201
        told = (await caller.get(f"/evaluations/{made['evaluation_id']}")).json()
        assert told["agreement"]["reasonable"]["kappa"] == 1.0
        assert told["fit_to_show"] is True
        corrected = told["corrected"]["reasonable"]
        assert (corrected["corrected"], corrected["games"]) == (None, 3)
        assert corrected["lacking"] == "people judged the judge's items in 3 games, 8 are needed"
        # With enough games, the evaluation says what the report does.
        for module in ("evaluators.statistics.corrected", "app.evaluations.judge_scores"):
            monkeypatch.setattr(f"{module}.LEAST_GAMES", 3)
        revised = [{**one, "reasonable": not one["reasonable"]} for one in words[::3]]
        body = {"rater": {"name": "eve", "kind": "human"}, "judgements": revised, "revise": True}
        assert (await caller.post("/annotations", json=body)).status_code == 201
        told = (await caller.get(f"/evaluations/{made['evaluation_id']}")).json()
        corrected = told["corrected"]["reasonable"]
        report = (await caller.get("/reports", params={"batch": batch})).json()
        (table,) = [one for one in report["tables"] if one["name"] == "judges_corrected"]
        (row,) = [one for one in table["rows"] if one["labels"] == ["judge fake", "reasonable", "all", "all"]]
        for name in ("corrected", "sensitivity"):
            for column in ("value", "low", "high"):
                assert corrected[name][column] == row["figures"][name][column]
        assert 0.5 < corrected["corrected"]["value"] < told["totals"]["accuracy"]["value"]
        _, key = await make_key(store_of(caller), "eval:read")
        problem(
            await caller.get(f"/evaluations/{made['evaluation_id']}", headers=bearer(key)), 404, "not-found"
        )


async def test_a_judges_findings_need_the_readers_own_right_to_the_games(tmp_path: Any) -> None:
    async with (
        faking(FakeOptions(brain=BRAINS["prose"](0))) as fake,
        calling_with(fake, f"sqlite:///{tmp_path / 'games.sqlite'}", api_key="ik_" + "o" * 43) as caller,
    ):

        async def key(*scopes: str) -> dict[str, str]:
            return bearer((await make_key(store_of(caller), *scopes, project="lab"))[1])

        everything = await key(*SCOPES)
        low, rater, reader = (
            await key("eval:read"),
            await key("eval:read", "annotate"),
            await key("eval:read", "export:full"),
        )
        wish = {"drive": "manual", "seats": [{"agent": "scripted"}]}
        created = (await caller.post("/games", json=wish, headers=everything)).json()
        batch = created["batch_id"]
        await caller.services.games.stepper.step(created["games"][0]["game_id"], "end", OPERATOR)
        for judge in (MODEL, {"kind": "rule"}):
            asked = {"dimension": "selection", "judge": judge, "batch": batch}
            made = (await caller.post("/evaluations", json=asked, headers=everything)).json()
            path = f"/evaluations/{made['evaluation_id']}"
            await over(caller, made["evaluation_id"], everything)
            shown = (await caller.get(f"{path}?per_item=true", headers=reader)).json()
            assert shown["totals"] is not None
            assert bool(shown["unusable"]) == (judge is MODEL)
            for headers in (low, rater):
                problem(await caller.get(f"{path}?per_item=true", headers=headers), 403, "forbidden")
                (listed, *_) = (await caller.get("/evaluations", headers=headers)).json()["evaluations"]
                for view in ((await caller.get(path, headers=headers)).json(), listed):
                    told = ("totals", "roles", "agreement", "corrected", "unusable")
                    assert {name: view.get(name) for name in told} == dict.fromkeys(told)
                    counted = view["items"] or (view["progress"] or {}).get("items", 0)
                    assert (counted > 0) == (headers is rater)
            problem(
                await caller.get(f"{path}/compare/{made['evaluation_id']}", headers=low), 403, "forbidden"
            )


async def test_what_cannot_be_used_is_counted_kept_and_never_scored(tmp_path: Any) -> None:
    async with (
        faking(FakeOptions(brain=BRAINS["prose"](0))) as fake,
        calling_with(fake, f"sqlite:///{tmp_path / 'games.sqlite'}") as caller,
    ):
        _, (game,) = await games_of(caller, 1)
        judge = {**MODEL, "attempts": 2}
        body = {"dimension": "following", "judge": judge, "game": game}
        made = (await caller.post("/evaluations", json=body)).json()
        view = await over(caller, made["evaluation_id"], per_item=True)
        assert view["status"] == "failed"
        assert view["progress"]["judged"] == 0
        assert view["progress"]["unusable"] == view["progress"]["items"] > 0
        assert view["unusable"][0]["faults"]
        assert view["unusable"][0]["answer"]
        assert (await caller.get("/annotations", params={"game": game})).json()["judgements"] == []
        async with caller.services.database.read_engine.connect() as connection:
            kept = (await connection.execute(select(func.count()).select_from(model_calls))).scalar_one()
        assert kept == 2 * view["progress"]["items"]


async def test_a_budget_ends_the_asking_and_keeps_what_was_judged(tmp_path: Any) -> None:
    async with (
        faking(SENSIBLE) as fake,
        calling_with(fake, f"sqlite:///{tmp_path / 'games.sqlite'}") as caller,
    ):
        batch, _ = await games_of(caller, 1)
        more = {"batch": batch, "budget": {"max_tokens": 6000, "max_parallel": 1}}
        made = (await judging(caller, "selection", **more)).json()
        view = await over(caller, made["evaluation_id"])
        assert (view["status"], view["reason"]) == ("failed", "budget spent")
        progress = view["progress"]
        assert 0 < progress["judged"] == fake.counts.calls < progress["items"]
        assert progress["not_asked"] == progress["items"] - progress["judged"]
        assert view["totals"]["accuracy"]["den"] >= progress["judged"]


async def test_a_judge_judges_once_and_again_when_asked_to(database_url: str) -> None:
    async with faking(SENSIBLE) as fake, calling_with(fake, database_url) as caller:
        batch, (game,) = await games_of(caller, 1)
        body = {"dimension": "selection", "judge": MODEL, "game": game}
        answers = await asyncio.gather(*(caller.post("/evaluations", json=body) for _ in range(8)))
        assert sorted(one.status_code for one in answers) == [202] + 7 * [409]
        first = next(one for one in answers if one.status_code == 202).json()["evaluation_id"]
        for one in answers:
            if one.status_code == 409:
                detail = problem(one, 409, "already-judged", "/judge")["detail"]
                assert f"{first} is not finished" in detail or "has judged" in detail
        await over(caller, first)
        calls = fake.counts.calls
        problem(await judging(caller, "selection", batch=batch), 409, "already-judged", "/judge")
        again = await judging(caller, "selection", batch=batch, regrade_of=first)
        view = await over(caller, again.json()["evaluation_id"])
        assert (view["grade"], view["regrade_of"], view["status"]) == (2, first, "scored")
        assert fake.counts.calls == 2 * calls
        said = (await caller.get("/annotations", params={"batch": batch})).json()["judgements"]
        assert len(said) == view["totals"]["accuracy"]["den"]


async def test_the_rule_judge_scores_at_once_and_stores_no_judgements(database_url: str) -> None:
    async with calling(database_url) as caller:
        batch, _ = await games_of(caller, 2, seats=[{"agent": "random"}])
        body = {"dimension": "selection", "judge": {"kind": "rule"}, "batch": batch}
        answer = await caller.post("/evaluations", json=body)
        assert answer.status_code == 201, answer.text
        totals = answer.json()["totals"]
        assert totals["refused"] == sum(totals["by_rule"].values())
        by_intention = totals["by_intention"].values()
        assert totals["selected"] == sum(one["selected"] for one in by_intention)
        assert totals["by_rule"] == {
            rule: sum(one[rule] for one in by_intention) for rule in totals["by_rule"]
        }
        assert totals["accuracy_at_most"]["num"] == totals["selected"] - totals["refused"]
        assert (await caller.get("/annotations", params={"batch": batch})).json()["judgements"] == []
        problem(
            await caller.post("/evaluations", json={**body, "dimension": "following"}),
            *(422, "invalid-request", "/dimension"),
        )


async def test_a_judge_that_is_not_there_is_named_before_anything_is_asked(tmp_path: Any) -> None:
    async with calling(f"sqlite:///{tmp_path / 'games.sqlite'}") as caller:
        batch, _ = await games_of(caller, 1)
        problem(await judging(caller, "selection", batch=batch), 422, "invalid-request", "/judge/model")
        problem(await judging(caller, "selection"), 422, "invalid-request", "/batch")
        problem(await judging(caller, "guessing", batch=batch), 422, "invalid-request", "/dimension")
        problem(await judging(caller, "selection", batch="b_none"), 404, "not-found")


async def test_who_reads_a_judges_words_may_not_guess_what_they_name(tmp_path: Any) -> None:
    async with (
        faking(SENSIBLE) as fake,
        calling_with(fake, f"sqlite:///{tmp_path / 'games.sqlite'}") as caller,
    ):
        batch, games = await games_of(caller, 1)
        key_id, key = await make_key(store_of(caller), "eval:submit", "eval:read:any", "annotate:any")
        rater = bearer(key)
        body = {"dimension": "selection", "judge": MODEL, "batch": batch}
        made = await caller.post("/evaluations", json=body, headers=rater)
        view = await over(caller, made.json()["evaluation_id"], rater)
        assert (view["status"], view["totals"]) == ("scored", None)
        store = caller.services.evaluations.store
        judged = {(row.game_id, row.request_id) for row in await store.judgements_of(games)}
        assert judged
        assert await store.seen_by(f"key:{key_id}", judged) == judged


async def test_others_judges_are_compared_only_by_who_may_read_all(tmp_path: Any) -> None:
    async with (
        faking(SENSIBLE) as fake,
        calling_with(fake, f"sqlite:///{tmp_path / 'games.sqlite'}") as caller,
    ):
        batch, _ = await games_of(caller, 1)
        judges = []
        for name in ("one", "two"):
            body = {"dimension": "selection", "judge": {**MODEL, "name": name}, "batch": batch}
            judges.append((await caller.post("/evaluations", json=body)).json()["evaluation_id"])
            assert (await over(caller, judges[-1]))["status"] == "scored"
        path = f"/evaluations/{judges[0]}/compare/{judges[1]}"
        assert (await caller.get(path)).status_code == 200
        _, reader = await make_key(store_of(caller), "eval:read:any", "annotate:any")
        _, auditor = await make_key(store_of(caller), "eval:read:any", "export:full:any")
        # Nor is it told their totals.
        view = (await caller.get(f"/evaluations/{judges[0]}", headers=bearer(reader))).json()
        assert view["totals"] is None
        problem(await caller.get(path, headers=bearer(reader)), 403, "forbidden")
        assert (await caller.get(path, headers=bearer(auditor))).status_code == 200


async def test_who_has_a_judge_count_what_was_chosen_may_not_guess_it(tmp_path: Any) -> None:
    async with (
        faking(FakeOptions(brain=BRAINS["prose"](0))) as fake,
        calling_with(fake, f"sqlite:///{tmp_path / 'games.sqlite'}") as caller,
    ):
        batch, games = await games_of(caller, 1)
        key_id, key = await make_key(store_of(caller), "eval:submit", "eval:read:any", "annotate:any")
        rater = bearer(key)
        query = {"batch": batch, "dimension": "selection", "limit": 200}
        items = (await caller.get("/evaluations/items", params=query)).json()["items"]
        turns = {(games[0], item["request_id"]) for item in items}
        body = {"dimension": "selection", "judge": MODEL, "batch": batch}
        made = await caller.post("/evaluations", json=body, headers=rater)
        view = await over(caller, made.json()["evaluation_id"], rater)
        # Not one answer can be used, but how many questions there were is told.
        assert (view["progress"]["items"], view["progress"]["judged"]) == (len(items), 0)
        store = caller.services.evaluations.store
        assert await store.seen_by(f"key:{key_id}", turns) == turns


@pytest.mark.parametrize("asks", [True, False], ids=["asked", "nothing to ask"])
async def test_whose_judge_has_begun_may_not_guess_what_was_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asks: bool
) -> None:
    slow = FakeOptions(brain=BRAINS["sensible"](0), latency=read_latency("fixed:8"))
    async with (
        faking(slow) as fake,
        calling_with(fake, f"sqlite:///{tmp_path / 'games.sqlite'}", drain_s=0) as caller,
    ):
        batch, games = await games_of(caller, 1)
        evaluations = caller.services.evaluations
        game = await evaluations.games.by_id(games[0])
        turns = {(game.id, turn.request_id) for turn in game.turns}
        key_id, key = await make_key(store_of(caller), "eval:submit", "eval:read:any", "annotate:any")
        if not asks:
            monkeypatch.setattr(_IntentionWork, "questions", lambda *_: [])
        body = {"dimension": "selection", "judge": MODEL, "batch": batch}
        made = (await caller.post("/evaluations", json=body, headers=bearer(key))).json()["evaluation_id"]
        if asks:
            # Cancelled before any answer, it has still shown by its tokens how long the questions are.
            await until(lambda: fake.counts.calls > 0)
            await caller.post(f"/evaluations/{made}/cancel", headers=bearer(key))
        else:
            # The reason why there is nothing to ask shows what was chosen, too.
            assert (await over(caller, made, bearer(key)))["left_out"]
        assert await evaluations.store.seen_by(f"key:{key_id}", turns) == turns


@pytest.mark.timeout(180)
async def test_a_killed_service_pays_no_answer_of_a_judge_twice(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'games.sqlite'}"
    options = FakeOptions(brain=BRAINS["sensible"](0), latency=read_latency("uniform:0.02,0.05"))
    parallel = 4
    async with faking(options) as fake:
        named = endpoints(fake, parallel=parallel, attempts=1)
        (tmp_path / ".env").write_text(f"INTERINTENT_MODELS='{json.dumps(named)}'\n")
        evaluation = ""
        for kill in range(3):
            process = await asyncio.to_thread(Process, url, tmp_path)
            try:
                async with httpx.AsyncClient(base_url=process.url, timeout=WITHIN_S) as client:
                    if not evaluation:
                        made = (await client.post("/games", json={"count": 2, "seeds": {"from": 40}})).json()
                        batch = made["batch_id"]
                        await client.get(f"/batches/{batch}/events", params={"follow": True})
                        body = {"dimension": "following", "judge": MODEL, "batch": batch}
                        evaluation = (await client.post("/evaluations", json=body)).json()["evaluation_id"]
                    if kill < 2:
                        mark = fake.counts.calls + 25
                        await until(lambda mark=mark: fake.counts.calls >= mark)  # type: ignore[misc]
                        await asyncio.to_thread(process.kill)
                        await until(lambda: not fake.counts.in_flight)
                        continue
                    async with asyncio.timeout(WITHIN_S):
                        while True:
                            view = (await client.get(f"/evaluations/{evaluation}")).json()
                            if view["status"] != "judging":
                                break
                            await asyncio.sleep(0.05)
            finally:
                if process.process.poll() is None:
                    process.kill()
        assert view["status"] == "scored", view
        items = view["progress"]["items"]
        assert view["progress"]["judged"] == items > 50
        assert items <= fake.counts.calls <= items + 2 * parallel
