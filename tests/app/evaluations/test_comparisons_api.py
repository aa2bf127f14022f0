"""Two raters compared over HTTP: the same items, their difference, and what is told to whom."""

from collections.abc import Mapping
from typing import Any

import pytest
from sqlalchemy import text

from app.instruments.fake_model import FakeOptions
from evaluators.measures.scoring import micro_f1
from tests.app.calling import Caller, calling, problem
from tests.app.edge.test_keys import bearer, make_key, store_of
from tests.app.evaluations.test_evaluations_api import answers, deal, games_of, gold_of, judged
from tests.app.evaluations.test_judging import SENSIBLE, judging, over
from tests.app.modelling import DIRECT, calling_with, faking


async def graded(
    caller: Caller, name: str, given: Mapping[str, Any], headers: Any = None, **more: Any
) -> str:
    body = {"dimension": "guessing", "rater": {"name": name}, "answers": answers(given), **more}
    answer = await caller.post("/evaluations", json=body, headers=headers or {})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["evaluation_id"])


async def compared(caller: Caller, first: str, second: str, headers: Any = None) -> Any:
    return await caller.get(f"/evaluations/{first}/compare/{second}", headers=headers or {})


async def raters(caller: Caller, first: str, second: str, headers: Any = None, **query: Any) -> Any:
    params = {"dimension": "guessing", "first": first, "second": second, **query}
    return await caller.get("/evaluations/compare", params=params, headers=headers or {})


async def test_two_evaluations_are_compared_on_the_items_of_both(database_url: str) -> None:
    async with calling(database_url) as caller:
        batch, games = await games_of(caller, 3)
        gold = await gold_of(caller, games, "guessing")
        ids = sorted(gold)
        # One answers what is right, the other the first of it; each leaves some to the other alone.
        seer = {item: gold[item] for item in ids[5:]}
        half = {item: frozenset(sorted(gold[item])[:1]) for item in ids[:-2]}
        first, second = await graded(caller, "seer", seer), await graded(caller, "half", half)
        answer = await compared(caller, first, second)
        assert answer.status_code == 200, answer.text
        told = answer.json()
        shared = ids[5:-2]
        assert (told["shared"], told["first_only"], told["second_only"]) == (len(shared), 2, 5)
        assert (told["items"], told["games"], told["unit"]) == (len(shared), 3, "item")
        assert told["first"]["rater"] == "seer"
        assert told["second"]["evaluation_id"] == second
        f1 = told["totals"]["guessing"]["measures"]["f1"]
        expected = micro_f1({item: gold[item] for item in shared}, {item: half[item] for item in shared})
        assert (f1["first"]["value"], f1["second"]["value"]) == (1.0, expected)
        difference = f1["difference"]
        assert difference["value"] == pytest.approx(1 - expected)
        assert difference["low"] <= difference["value"] <= difference["high"]
        # The seer is better in all three games: of 8 exchanges none and all are as large.
        assert (f1["p_value"], f1["exact"]) == (0.25, True)
        back = (await compared(caller, second, first)).json()["totals"]["guessing"]["measures"]["f1"]
        assert back["difference"]["value"] == pytest.approx(-difference["value"])
        by_name = (await raters(caller, "seer", "half", batch=batch)).json()
        assert by_name["totals"] == told["totals"]
        assert (by_name["shared"], by_name["first_only"]) == (told["shared"], 2)


async def test_damaged_answers_and_games_are_named_and_the_others_compared(tmp_path: Any) -> None:
    async with calling(f"sqlite:///{tmp_path}/games.sqlite") as caller:
        batch, games = await games_of(caller, 3)
        gold = await gold_of(caller, games, "guessing")
        first, second = (
            await graded(caller, "seer", gold),
            await graded(caller, "blind", dict.fromkeys(gold, frozenset[str]())),
        )
        whole = (await compared(caller, first, second)).json()
        assert whole["damaged"] == []
        hurt, item = sorted(games)[0], max(gold)
        async with caller.services.database.write_engine.begin() as connection:
            for statement in (
                f"UPDATE events SET payload = '7' WHERE game_id = '{hurt}' AND seq = 9",
                f"UPDATE answers SET named = '7' WHERE item_id = '{item}' AND rater = 'seer'",
            ):
                await connection.execute(text(statement))
    # A game that was read before is still known; another process reads it again.
    async with calling(f"sqlite:///{tmp_path}/games.sqlite") as caller:
        for told in (
            (await compared(caller, first, second)).json(),
            (await raters(caller, "seer", "blind", batch=batch)).json(),
        ):
            [row, game] = sorted(told["damaged"], key=lambda name: name == hurt)
            assert (game, "of answers" in row) == (hurt, True)
            lost = sum(one.startswith(f"{hurt}/") for one in gold) + 1
            assert (told["shared"], told["games"]) == (len(gold) - lost, 2)
        one = (await caller.get(f"/evaluations/{second}", params={"per_item": True})).json()
        assert (one["damaged"], len(one["per_item"])) == ([hurt], len(gold) - lost + 1)
        # If nothing is left, what is damaged is said, too.
        async with caller.services.database.write_engine.begin() as connection:
            await connection.execute(text("UPDATE answers SET named = '7' WHERE rater = 'seer'"))
        body = problem(await compared(caller, first, second), 409, "not-comparable")
        assert "left out, since damaged: the row" in body["detail"]


async def test_what_is_handed_in_again_replaces_every_sample_of_its_variant_and_no_other_variant(
    database_url: str,
) -> None:
    async with calling(database_url) as caller:
        batch, games = await games_of(caller, 2)
        gold = await gold_of(caller, games, "guessing")
        wrong = [{**one, "intentions": [], "sample": n} for one in answers(gold) for n in (1, 2, 3)]
        first = await graded(caller, "here", {}, answers=wrong)
        await graded(caller, "here", gold, regrade_of=first)
        await graded(caller, "here", dict.fromkeys(gold, frozenset()), variant={"history": "round"})
        await graded(caller, "there", gold)

        async def f1(first: str, second: str) -> list[float]:
            told = (await raters(caller, first, second, batch=batch)).json()
            measure = told["totals"]["guessing"]["measures"]["f1"]
            return [measure[side]["value"] for side in ("first", "second")]

        assert await f1("here", "there") == [1.0, 1.0]
        assert await f1("here", "here (round)") == [1.0, 0.0]


async def test_raters_whose_games_were_deleted_are_told_so(tmp_path: Any) -> None:
    async with calling(f"sqlite:///{tmp_path}/games.sqlite") as caller:
        _, games = await games_of(caller, 2)
        gold = await gold_of(caller, games, "guessing")
        ids = [await graded(caller, name, gold) for name in ("here", "there")]
        for game in games:
            assert (await caller.delete(f"/games/{game}")).status_code == 200
        body = problem(await compared(caller, *ids), 409, "not-comparable")
        assert f"{2 * len(gold)} of their answers went with games that were deleted" in body["detail"]


async def test_what_cannot_be_compared_says_why(tmp_path: Any) -> None:
    async with calling(f"sqlite:///{tmp_path}/games.sqlite") as caller:
        batch, games = await games_of(caller, 2)
        gold = await gold_of(caller, games, "guessing")
        ids = sorted(gold)
        here = await graded(caller, "here", {item: gold[item] for item in ids[:5]})
        there = await graded(caller, "there", {item: gold[item] for item in ids[5:8]})
        body = problem(await compared(caller, here, there), 409, "not-comparable")
        assert "no item in common: 5 by the first alone, 3 by the second alone" in body["detail"]
        problem(await compared(caller, here, here), 409, "not-comparable")
        roles = await graded(
            caller, "roles", {item: gold[item] for item in ids[:5]}, variant={"options": "roles"}
        )
        body = problem(await compared(caller, here, roles), 409, "not-comparable")
        assert "options is impactful and roles" in body["detail"]
        # What a rater was shown may differ: the paper compares just that.
        round_ = await graded(
            caller, "round", {item: gold[item] for item in ids[:5]}, variant={"history": "round"}
        )
        shown = (await compared(caller, here, round_)).json()
        assert shown["second"]["variant"]["history"] == "round"
        assert (await raters(caller, "here", "round (round)", batch=batch)).json()["shared"] == 5
        body = problem(await raters(caller, "here", "nobody", batch=batch), 422, "invalid-request")
        assert body["errors"][0]["pointer"] == "/second"
        assert "here, roles (roles), round (round), there" in body["detail"]
        problem(await raters(caller, "here", "there", batch=batch), 409, "not-comparable")
        problem(await raters(caller, "here", "roles (roles)", batch=batch), 409, "not-comparable")
        problem(await raters(caller, "here", "there"), 422, "invalid-request")
        problem(await compared(caller, here, "e_none"), 404, "not-found")
        rules = {"dimension": "selection", "judge": {"kind": "rule"}, "batch": batch}
        judge = (await caller.post("/evaluations", json=rules)).json()["evaluation_id"]
        body = problem(await compared(caller, here, judge), 409, "not-comparable")
        assert "must be of one dimension" in body["detail"]


async def test_answers_are_compared_by_whoever_may_read_the_gold(tmp_path: Any) -> None:
    async with calling(f"sqlite:///{tmp_path}/games.sqlite") as caller:
        batch, games = await games_of(caller, 1)
        ids = sorted(await gold_of(caller, games, "guessing"))[:3]
        _, key = await make_key(store_of(caller), "eval:submit", "eval:read:any", "export:full:any")
        _, other = await make_key(store_of(caller), "eval:submit", "eval:read:any")
        mine = bearer(key)
        wide = await graded(caller, "wide", dict.fromkeys(ids, frozenset[str]()), mine)
        few = await graded(caller, "few", dict.fromkeys(ids[:2], frozenset[str]()), mine)
        told = (await compared(caller, wide, few, mine)).json()
        assert (told["shared"], told["first_only"], told["items"]) == (2, 1, 2)
        for more in ({}, {"followed": True}, {"dimension": "following"}):
            answer = await raters(caller, "wide", "few", bearer(other), batch=batch, **more)
            problem(answer, 403, "forbidden")


async def test_people_are_compared_by_what_they_judged_and_judges_once_they_agree(tmp_path: Any) -> None:
    async with (
        faking(SENSIBLE) as fake,
        calling_with(fake, f"sqlite:///{tmp_path}/games.sqlite") as caller,
    ):
        batch, _ = await games_of(caller, 2)
        words: dict[str, Any] = {}
        for name, score in (("ann", 5), ("bob", 3)):
            words[name] = []
            for task in (await deal(caller, name, batch=batch, limit=6, shared=6))["tasks"]:
                words[name] += judged(task, score)
            body = {"rater": {"name": name}, "judgements": words[name]}
            assert (await caller.post("/annotations", json=body)).status_code == 201
        about: dict[str, Any] = {"batch": batch, "dimension": "following"}
        told = (await raters(caller, "ann", "bob", **about)).json()
        n = sum("think" in one for one in words["ann"])
        # Without a kind who judges is a person.
        assert (told["unit"], told["shared"], told["first"]["kind"]) == ("intention", n, "human")
        for part in ("think", "speak"):
            measures = told["totals"][part]["measures"]
            assert (measures["good"]["difference"]["value"], measures["mean"]["difference"]["value"]) == (
                1,
                2,
            )
        same = (await raters(caller, "ann", "bob", batch=batch, dimension="selection")).json()
        assert same["totals"]["reasonable"]["measures"]["accuracy"]["p_value"] == 1.0
        made = (await judging(caller, "selection", batch=batch)).json()
        await over(caller, made["evaluation_id"])
        beside = (await raters(caller, "ann", "judge fake", batch=batch, dimension="selection")).json()
        assert beside["totals"] is None
        assert any("reasonable: " in one for one in beside["lacking"])
        rules = {"dimension": "selection", "judge": {"kind": "rule"}, "batch": batch}
        ruled = (await caller.post("/evaluations", json=rules)).json()["evaluation_id"]
        judges = (await compared(caller, made["evaluation_id"], ruled)).json()
        assert judges["shared"] == judges["totals"]["reasonable"]["units"]
        assert (judges["first_only"], judges["second_only"]) == (0, 0)


async def test_games_that_models_failed_in_say_nothing_about_raters(tmp_path: Any) -> None:
    seats: list[dict[str, Any]] = [*DIRECT, *[{"agent": "scripted"}] * 4]
    async with (
        faking(FakeOptions(brain=lambda *_: "no JSON")) as fake,
        calling_with(fake, f"sqlite:///{tmp_path}/games.sqlite") as caller,
    ):
        failed, games = await caller.played(seats=seats, count=2, on_unusable="default")
        gold = await gold_of(caller, games, "guessing")
        half = {item: frozenset(sorted(gold[item])[:1]) for item in gold}
        first, second = await graded(caller, "seer", gold), await graded(caller, "half", half)
        body = problem(await compared(caller, first, second), 409, "not-comparable")
        assert "2 of their games are excluded" in body["detail"]
        every = (await raters(caller, "seer", "half", batch=failed, exclude_above=1)).json()
        assert (every["games"], every["excluded_games"]) == (2, 0)
        invalid = await caller.post(f"/games/{games[0]}/invalidate", json={"reason": "a crash"})
        assert invalid.status_code == 200, invalid.text
        told = (await caller.get(f"/evaluations/{first}/compare/{second}?exclude_above=1")).json()
        assert (told["games"], told["excluded_games"]) == (1, 1)
