"""Items, scores and judgements over HTTP: what counts, what is told to whom, and what stays stored."""

import asyncio
import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from app.evaluations.schemas import VariantSpec
from engine.intentions import BY_ID
from evaluators.ground.items import Variant, items
from tests.app.calling import Caller, calling, problem, read_ndjson
from tests.app.edge.test_keys import bearer, make_key, store_of

RATER = {"name": "r1", "kind": "program"}


async def games_of(caller: Caller, count: int = 6, **wish: Any) -> tuple[str, list[str]]:
    return await caller.played(count=count, seeds={"from": 40}, **wish)


async def all_items(caller: Caller, **query: Any) -> list[dict[str, Any]]:
    """Every item, page by page."""
    found: list[dict[str, Any]] = []
    cursor = None
    while True:
        params = {"limit": 7, **query, **({"cursor": cursor} if cursor else {})}
        answer = await caller.get("/evaluations/items", params=params)
        assert answer.status_code == 200, answer.text
        page = answer.json()
        found += page["items"]
        cursor = page.get("next")
        assert ('rel="next"' in answer.headers.get("link", "")) is (cursor is not None)
        if cursor is None:
            return found


async def gold_of(caller: Caller, games: list[str], dimension: Any) -> dict[str, frozenset[str]]:
    gold: dict[str, frozenset[str]] = {}
    for game_id in games:
        game = await caller.services.evaluations.games.by_id(game_id)
        for item in items(game, dimension, Variant.scored(VariantSpec().model_dump()), with_gold=True):
            assert item.gold is not None
            gold[item.id] = item.gold
    return gold


def answers(of: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"item_id": id_, "intentions": sorted(named)} for id_, named in of.items()]


async def submit(caller: Caller, dimension: str, given: list[dict[str, Any]], **more: Any) -> Any:
    body = {"dimension": dimension, "rater": RATER, "answers": given, **more}
    return await caller.post("/evaluations", json=body)


async def test_items_come_page_by_page_as_all_at_once_and_hold_no_gold(database_url: str) -> None:
    async with calling(database_url) as caller:
        batch, games = await games_of(caller, 3)
        for dimension in ("selection", "following", "summarisation", "guessing"):
            paged = await all_items(caller, batch=batch, dimension=dimension)
            answer = await caller.get(
                "/evaluations/items", params={"batch": batch, "dimension": dimension, "format": "ndjson"}
            )
            whole = read_ndjson(answer.content)
            assert [one["id"] for one in paged] == [one["id"] for one in whole]
            assert paged
            assert {one["game_id"] for one in paged} == set(games)
            assert all("gold" not in one and "speaker_role" not in one for one in (*paged, *whole))
            of_one = await all_items(caller, game=games[1], dimension=dimension)
            assert of_one == [one for one in paged if one["game_id"] == games[1]]


@pytest.mark.parametrize("dimension", ["guessing", "summarisation"])
async def test_who_answers_gold_scores_one_and_who_is_silent_loses_recall(
    tmp_path: Any, dimension: str
) -> None:
    async with calling(f"sqlite:///{tmp_path / 'games.sqlite'}") as caller:
        _, games = await games_of(caller)
        gold = await gold_of(caller, games, dimension)
        scored = (await submit(caller, dimension, answers(gold))).json()
        assert scored["status"] == "scored"
        assert scored["totals"]["items"] == len(gold)
        for share in ("precision", "recall", "f1"):
            assert scored["totals"]["micro"][share]["value"] == 1.0
        half = {id_: named if place % 3 else [] for place, (id_, named) in enumerate(gold.items())}
        other = {"name": "r2", "kind": "program"}
        body = {"dimension": dimension, "rater": other, "answers": answers(half)}
        micro = (await caller.post("/evaluations", json=body)).json()["totals"]["micro"]
        assert micro["precision"]["value"] == 1.0
        assert micro["recall"]["value"] == pytest.approx(
            sum(len(gold[id_]) for id_, named in half.items() if named) / sum(map(len, gold.values()))
        )
        assert 0 < micro["recall"]["low"] < micro["recall"]["value"] < micro["recall"]["high"] < 1


async def test_labels_and_free_text_are_read_and_what_names_nothing_is_counted_and_shown(
    tmp_path: Any,
) -> None:
    async with calling(f"sqlite:///{tmp_path / 'games.sqlite'}") as caller:
        _, games = await games_of(caller, 1)
        gold = await gold_of(caller, games, "guessing")
        item, named = next(iter(gold.items()))
        labels = [BY_ID[id_].label.upper() + "!" for id_ in named]
        view = (
            await submit(caller, "guessing", [{"item_id": item, "intentions": [*labels, "win the lottery"]}])
        ).json()
        micro = view["totals"]["micro"]
        assert (micro["matched"], micro["predicted"], micro["gold"]) == (
            len(named),
            len(named) + 1,
            len(named),
        )
        assert view["totals"]["unmapped"]["most"] == {"win the lottery": 1}
        full = (await caller.get(f"/evaluations/{view['evaluation_id']}", params={"per_item": True})).json()
        assert full["per_item"][0]["unmapped"] == ["win the lottery"]
        assert full["per_item"][0]["gold"] == full["per_item"][0]["matched"] == sorted(named)
        body = {"rater": {"name": "other"}, "variant": {"unmapped": "discard"}}
        discarded = await submit(
            caller, "guessing", [{"item_id": item, "intentions": [*labels, "win the lottery"]}], **body
        )
        assert discarded.json()["totals"]["micro"]["f1"]["value"] == 1.0


async def test_answers_are_scored_as_often_as_one_likes_and_the_last_ones_are_valid(
    database_url: str,
) -> None:
    async with calling(database_url) as caller:
        batch, games = await games_of(caller, 1)
        gold = await gold_of(caller, games, "summarisation")
        given = answers(gold)
        first = (await submit(caller, "summarisation", given)).json()
        before = (await caller.get(f"/evaluations/{first['evaluation_id']}")).json()
        empty = [{**one, "intentions": []} for one in given]
        again = (await submit(caller, "summarisation", empty)).json()
        linked = (await submit(caller, "summarisation", empty[:3], regrade_of=first["evaluation_id"])).json()
        assert [view["grade"] for view in (first, again, linked)] == [1, 2, 3]
        assert linked["regrade_of"] == first["evaluation_id"]
        assert linked["totals"]["micro"]["recall"]["value"] == 0.0
        wrong = {"rater": {"name": "other"}, "regrade_of": first["evaluation_id"]}
        problem(await submit(caller, "summarisation", empty, **wrong), 422, "invalid-request", "/regrade_of")
        assert (await caller.get(f"/evaluations/{first['evaluation_id']}")).json() == before
        listed = (await caller.get("/evaluations", params={"limit": 2})).json()
        rest = (await caller.get("/evaluations", params={"cursor": listed["next"]})).json()
        found = [one["evaluation_id"] for one in (*listed["evaluations"], *rest["evaluations"])]
        assert len(found) == len(set(found)) == 3
        assert found[-1] == first["evaluation_id"]
        await submit(caller, "summarisation", given, rater={"name": "right"})
        query = {"batch": batch, "dimension": "summarisation", "first": "right", "second": "r1"}
        compared = (await caller.get("/evaluations/compare", params=query)).json()
        f1 = compared["totals"]["summarisation"]["measures"]["f1"]
        assert (f1["first"]["value"], f1["second"]["value"]) == (1.0, 0.0)


async def test_an_idempotency_key_scores_once(database_url: str) -> None:
    async with calling(database_url) as caller:
        _, games = await games_of(caller, 1)
        given = answers(await gold_of(caller, games, "guessing"))
        body = {"dimension": "guessing", "rater": RATER, "answers": given}
        key = {"Idempotency-Key": "once"}
        first = await caller.post("/evaluations", json=body, headers=key)
        again = await caller.post("/evaluations", json=body, headers=key)
        assert (first.status_code, again.status_code) == (201, 201)
        assert again.json() == first.json()
        assert again.headers["idempotent-replayed"] == "true"


async def test_a_key_sent_eight_times_at_once_scores_and_stores_once(database_url: str) -> None:
    async with calling(database_url) as caller:
        _, (game,) = await games_of(caller, 1)
        given = answers(await gold_of(caller, [game], "guessing"))
        item = next(one for one in await all_items(caller, game=game, dimension="following") if one["asked"])
        words = [{"item_id": item["id"], "intention": one["id"], "think": 4} for one in item["asked"]]
        for path, body in (
            ("/evaluations", {"dimension": "guessing", "rater": RATER, "answers": given}),
            ("/annotations", {"rater": RATER, "judgements": words}),
        ):
            key = {"Idempotency-Key": "at once"}
            found = await asyncio.gather(*(caller.post(path, json=body, headers=key) for _ in range(8)))
            assert [one.status_code for one in found] == [201] * 8, [one.text for one in found]
            assert all(one.json() == found[0].json() for one in found)
            replayed = [one.headers.get("idempotent-replayed") for one in found]
            assert replayed.count("true") == 7
            problem(
                await caller.post(path, json={**body, "rater": {"name": "other"}}, headers=key),
                *(422, "idempotency-key-reused"),
            )
        kept = (await caller.get("/annotations", params={"game": game})).json()["judgements"]
        assert len(kept) == len(words)


async def test_what_shows_choices_is_for_raters_and_whoever_may_read_the_games(tmp_path: Path) -> None:
    async with calling(f"sqlite:///{tmp_path / 'games.sqlite'}") as caller:
        batch, _ = await games_of(caller, 1)
        _, key = await make_key(store_of(caller), "eval:submit", "eval:read:any")
        for more in (
            {"dimension": "selection"},
            {"dimension": "following"},
            {"dimension": "guessing", "context": "release"},
            {"dimension": "guessing", "followed": True},
        ):
            answer = await caller.get(
                "/evaluations/items", params={"batch": batch, **more}, headers=bearer(key)
            )
            problem(answer, 403, "forbidden")


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"item_id": "nonsense"}, "/answers/1/item_id"),
        ({"item_id": "g_none/guessing/1.1.speak.2/final/3"}, "/answers/1/item_id"),
        ({"item_id": "{game}/guessing/5.9.speak.2/final/3"}, "/answers/1/item_id"),
        ({"item_id": "{game}/summarisation/1.1.speak.2/final/-"}, "/answers/1/item_id"),
        ({"sample": 6}, "/answers/1/sample"),
        ({"confidence": 3}, "/answers/1"),
        ({"role": "villain"}, "/answers/1/role"),
        ({"unknown": 1}, "/answers/1/unknown"),
        ({"intentions": ["x" * 301]}, "/answers/1/intentions/0"),
    ],
)
async def test_a_bad_answer_is_pointed_at_and_nothing_is_stored(
    tmp_path: Any, change: dict[str, Any], pointer: str
) -> None:
    async with calling(f"sqlite:///{tmp_path / 'games.sqlite'}") as caller:
        _, games = await games_of(caller, 1)
        given = answers(await gold_of(caller, games, "guessing"))[:2]
        change = {
            name: value.replace("{game}", games[0]) if isinstance(value, str) else value
            for name, value in change.items()
        }
        given[1] = {**given[1], **change}
        answer = await submit(caller, "guessing", given)
        problem(answer, 422, "invalid-request", pointer)
        assert (await caller.get("/evaluations")).json()["evaluations"] == []


async def test_items_of_a_game_that_is_not_over_are_refused(tmp_path: Any) -> None:
    async with calling(f"sqlite:///{tmp_path / 'games.sqlite'}") as caller:
        _, (game,) = await caller.create(drive="manual")
        query = {"dimension": "guessing", "game": game}
        problem(await caller.get("/evaluations/items", params=query), 409, "unfinished")
        problem(
            await caller.get("/evaluations/items", params={"dimension": "guessing"}),
            *(422, "invalid-request", "/batch"),
        )
        unknown = {"dimension": "guessing", "game": "g_none"}
        problem(await caller.get("/evaluations/items", params=unknown), 404, "not-found")


async def deal(caller: Caller, rater: str, **query: Any) -> Any:
    answer = await caller.get("/annotations/tasks", params={"rater": rater, **query})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_rater_is_dealt_tasks_under_no_name_that_it_cannot_hand_in_under(tmp_path: Path) -> None:
    async with calling(f"sqlite:///{tmp_path}/games.sqlite") as caller:
        for name in ("ann ", "ann  lee"):
            query = {"rater": name, "game": "g_none"}
            problem(await caller.get("/annotations/tasks", params=query), 422, "invalid-request", "/rater")


def judged(task: dict[str, Any], score: int = 4) -> list[dict[str, Any]]:
    """Every judgement that a task asks for."""
    found: list[dict[str, Any]] = []
    for stage in task["stages"]:
        for one in stage["intentions"]:
            if stage["selection_item"]:
                found.append({"item_id": stage["selection_item"], "intention": one["id"], "reasonable": True})
            if stage["following_item"]:
                found.append(
                    {
                        "item_id": stage["following_item"],
                        "intention": one["label"],
                        "think": score,
                        "speak": score,
                    }
                )
    return found


async def test_some_turns_go_to_every_rater_and_the_others_to_one(database_url: str) -> None:
    async with calling(database_url) as caller:
        batch, _ = await games_of(caller, 3)
        dealt = {
            name: {
                (one["game_id"], one["request_id"])
                for one in (await deal(caller, name, batch=batch))["tasks"]
            }
            for name in ("ann", "bob", "cid")
        }
        assert {len(turns) for turns in dealt.values()} == {8}
        shared = dealt["ann"] & dealt["bob"]
        assert len(shared) == 2
        assert shared == dealt["ann"] & dealt["cid"] == dealt["bob"] & dealt["cid"]


async def test_strangers_take_no_tasks_of_a_public_game_from_its_owners_raters(tmp_path: Path) -> None:
    async with calling(f"sqlite:///{tmp_path / 'games.sqlite'}") as caller:
        own = ("games:create", "games:read", "annotate")
        keys = {
            name: bearer((await make_key(store_of(caller), *scopes, project=project))[1])
            for name, scopes, project in (
                ("owner", own, "ours"),
                ("fellow", ("annotate",), "ours"),
                ("helper", ("annotate:any",), None),
                ("stranger", ("annotate",), "theirs"),
            )
        }

        async def dealt(name: str) -> set[tuple[str, str]]:
            caller.headers.update(keys[name])
            tasks = (await deal(caller, name, game=game, limit=4, shared=0))["tasks"]
            return {(one["game_id"], one["request_id"]) for one in tasks}

        caller.headers.update(keys["owner"])
        _, (game,) = await games_of(caller, 1, reveal="all")
        stranger = await dealt("stranger")
        assert len(stranger) == 4
        owner = await dealt("owner")
        assert owner == stranger, "the same first turns, as if there were no stranger"
        # Raters of the same owner, and who judges everybody's games, share the turns out.
        fellow, helper = await dealt("fellow"), await dealt("helper")
        assert not owner & fellow
        assert not (owner | fellow) & helper


async def test_shared_turns_come_from_every_game_and_a_game_without_any_says_why(tmp_path: Any) -> None:
    async with calling(f"sqlite:///{tmp_path / 'games.sqlite'}") as caller:
        batch, games = await games_of(caller, 5)
        _, (silent,) = await games_of(caller, 1, seats=[{"agent": "random"}] * 5)
        several = await deal(caller, "ann", game=",".join([*games, silent]), limit=5, shared=5)
        assert {task["game_id"] for task in several["tasks"]} == set(games)
        (without,) = several["without_tasks"]
        assert without["game_id"] == silent
        assert "no selection was recorded" in without["reason"]
        assert (await deal(caller, "bob", batch=batch, limit=5, shared=5))["without_tasks"] == []


async def test_a_rater_gets_what_it_has_not_judged_again_and_judges_once(database_url: str) -> None:
    async with calling(database_url) as caller:
        batch, _ = await games_of(caller, 2)
        first = await deal(caller, "ann", batch=batch, limit=3)
        assert first["left"] == 0
        again = await deal(caller, "ann", batch=batch, limit=3)
        assert again["left"] == 3
        assert again["tasks"] == first["tasks"]
        task = first["tasks"][0]
        words = judged(task)
        body = {"rater": {"name": "ann", "kind": "human"}, "judgements": words}
        stored = await caller.post("/annotations", json=body)
        assert stored.json() == {"stored": len(words), "revised": 0}
        problem(await caller.post("/annotations", json=body), 409, "already-judged", "/judgements/0")
        revised = {**body, "judgements": judged(task, 2), "revise": True}
        assert (await caller.post("/annotations", json=revised)).json()["revised"] == len(words)
        later = await deal(caller, "ann", batch=batch, limit=3)
        assert later["left"] == 2
        assert task["request_id"] not in {
            one["request_id"] for one in later["tasks"] if one["game_id"] == task["game_id"]
        }
        listed = (await caller.get("/annotations", params={"batch": batch})).json()["judgements"]
        assert {one["think"] for one in listed if one["think"] is not None} == {2}
        assert len(listed) == len(words)
        sheet = await caller.get("/annotations", params={"batch": batch, "format": "csv"})
        rows = list(csv.DictReader(io.StringIO(sheet.text)))
        assert len(rows) == len(words)
        assert {row["rater"] for row in rows} == {"ann"}
        assert {row["reasonable"] for row in rows} == {"1", ""}


async def test_only_what_was_chosen_can_be_judged_and_only_in_its_own_terms(tmp_path: Any) -> None:
    async with calling(f"sqlite:///{tmp_path / 'games.sqlite'}") as caller:
        batch, _ = await games_of(caller, 1)
        task = (await deal(caller, "ann", batch=batch))["tasks"][0]
        words = judged(task)
        selection = next(one for one in words if "reasonable" in one)
        following = next(one for one in words if "think" in one)
        missing = next(
            id_ for id_ in BY_ID if id_ not in {one["id"] for one in task["stages"][0]["intentions"]}
        )
        for wrong, pointer in (
            ({**selection, "intention": missing}, "/judgements/1/intention"),
            ({**selection, "think": 3}, "/judgements/1"),
            ({**following, "reasonable": True}, "/judgements/1"),
            ({**following, "think": 6}, "/judgements/1/think"),
            ({**following, "item_id": "x"}, "/judgements/1/item_id"),
            (words[0], "/judgements/1"),
        ):
            body = {"rater": {"name": "ann"}, "judgements": [words[0], wrong]}
            problem(await caller.post("/annotations", json=body), 422, "invalid-request", pointer)
        assert (await caller.get("/annotations", params={"batch": batch})).json()["judgements"] == []


async def test_the_filter_on_what_was_followed_drops_what_was_scored_low(tmp_path: Any) -> None:
    async with calling(f"sqlite:///{tmp_path / 'games.sqlite'}") as caller:
        batch, games = await games_of(caller, 1)
        gold = await gold_of(caller, games, "summarisation")
        tasks = (await deal(caller, "ann", batch=batch, limit=50))["tasks"]
        words = [word for place, task in enumerate(tasks) for word in judged(task, 4 if place % 2 else 2)]
        body = {"rater": {"name": "ann", "kind": "human"}, "judgements": words}
        assert (await caller.post("/annotations", json=body)).status_code == 201
        kept = {(task["game_id"], task["request_id"]) for place, task in enumerate(tasks) if place % 2}
        view = (await submit(caller, "summarisation", answers(gold), variant={"followed": True})).json()
        counted = [id_ for id_ in gold if (id_.split("/")[0], id_.split("/")[2]) in kept]
        assert view["totals"]["items"] == len(counted)
        assert view["excluded"]["not_followed"] == len(gold) - len(counted) - view["excluded"].get(
            "unscored", 0
        )


async def test_the_variant_of_items_is_taken_as_it_stands(tmp_path: Path) -> None:
    async with calling(f"sqlite:///{tmp_path / 'games.sqlite'}") as caller:
        _, games = await games_of(caller, 1)
        for place, query in enumerate(
            (
                {},
                {"options": "roles", "history": "round", "reader": "all", "seed": "x_1"},
                {"context": "release", "reader": "3"},
                {"followed": True},
            )
        ):
            asked = {"dimension": "guessing", "game": games[0], "limit": 200, **query}
            page = (await caller.get("/evaluations/items", params=asked)).json()
            unfiltered = {**asked, "followed": False}
            items = (await caller.get("/evaluations/items", params=unfiltered)).json()["items"]
            body = {"rater": {"name": f"rater {place}"}, "variant": page["variant"]}
            given = [{"item_id": one["id"], "intentions": []} for one in items]
            view = (await submit(caller, "guessing", given, **body)).json()
            for name in ("options", "history", "context", "followed"):
                assert view["variant"][name] == page["variant"][name]
            assert set(view["variant"]) == {"options", "history", "context", "followed", "unmapped"}
            # And as an evaluation gives it.
            body = {"rater": {"name": f"again {place}"}, "variant": view["variant"]}
            again = (await submit(caller, "guessing", given, **body)).json()
            assert again["variant"] == view["variant"]
            assert again["totals"] == view["totals"]
        body = {"rater": {"name": "other"}, "variant": {"impactful": ["support_proposal"]}}
        refused = await caller.post("/evaluations", json={"dimension": "guessing", "answers": given, **body})
        problem(refused, 422, "invalid-request", "/variant")
