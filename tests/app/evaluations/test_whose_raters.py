"""Whose judgements and answers reports, progress, comparisons and corrections read: no stranger's."""

import json
from typing import Any

import pytest
from sqlalchemy import insert
from sqlalchemy.engine import Result

from app.base import clock
from app.edge.auth import hash_of
from app.store.rows import ApiKey
from app.store.tables import tasks
from evaluators.ground.items import items
from tests.app.calling import Caller, problem
from tests.app.edge.test_keys import store_of
from tests.app.evaluations.sealing import (
    BATCH,
    ask,
    handed_in,
    key_of,
    lay_games,
    scripted_log,
    told,
    with_games,
)

PUBLIC = [scripted_log(seed, "all") for seed in (81, 82)]
"""Games whose whole log is public: everybody may judge them, and practise on them."""

READ = (
    f"/reports?batch={BATCH}",
    f"/annotations/progress?batch={BATCH}",
    f"/annotations?batch={BATCH}",
    f"/evaluations/compare?batch={BATCH}&dimension=guessing&first=ann&second=net",
    f"/evaluations/items?batch={BATCH}&dimension=guessing&followed=true&limit=200",
)


async def rate(caller: Caller, who: str, *, guessed: str, reasonable: bool, score: int) -> None:
    """Guesses as two raters, and a person's judgements of everything that can be judged."""
    for rater in ("ann", "net"):
        found = await told(caller, who, f"/evaluations/items?game={game_of()}&dimension=guessing&limit=20")
        named = {item["id"]: [guessed] for item in found["items"]}
        answers = handed_in(named, rater)
        await told(caller, who, "/evaluations", {"dimension": "guessing", **answers})
    game = await caller.services.evaluations.games.by_id(game_of())
    judgements: list[dict[str, Any]] = [
        {"item_id": item.id, "intention": choice.id, "reasonable": reasonable}
        for item in items(game, "selection")
        for choice in item.asked
    ]
    judgements += [
        {"item_id": item.id, "intention": choice.id, "think": score, "speak": score}
        for item in items(game, "following")
        for choice in item.asked
    ]
    body = {"rater": {"name": "ann", "kind": "human"}, "judgements": judgements}
    await told(caller, who, "/annotations", body)


async def add_stranger(caller: Caller) -> None:
    """A key that may do all that raters do, of a project of its own."""
    scopes = ("eval:read", "eval:submit", "annotate")
    row = ApiKey("k_odd", "odd", hash_of(key_of("odd")), scopes, clock.now_ms(), project="odd")
    await store_of(caller).add(row)


def game_of() -> str:
    return f"g_{BATCH.removeprefix('b_')}0"


async def seen_by(caller: Caller, who: str, judged: str) -> list[bytes]:
    """What those read who own the games; a report that is kept is made anew."""
    caller.services.evaluations.reports._made.clear()
    answers = [await ask(caller, who, path) for path in (*READ, f"/evaluations/{judged}")]
    assert [answer.status_code for answer in answers] == [200] * len(answers), [one.text for one in answers]
    return [answer.content for answer in answers]


async def test_strangers_raters_change_nothing_that_an_owner_reads_unless_they_are_named(
    database_url: str,
) -> None:
    async with with_games(database_url, PUBLIC) as caller:
        await add_stranger(caller)
        await rate(caller, "owner", guessed="convince_leader", reasonable=True, score=5)
        rules = {"dimension": "selection", "judge": {"kind": "rule"}, "batch": BATCH}
        judged = (await told(caller, "owner", "/evaluations", rules))["evaluation_id"]
        before = await seen_by(caller, "owner", judged)
        # A stranger of the same names contradicts everything.
        await rate(caller, "odd", guessed="defend_self", reasonable=False, score=1)
        assert await seen_by(caller, "owner", judged) == before

        named = "raters_of=project:odd"
        report = await ask(caller, "owner", f"{READ[0]}&{named}")
        assert "ann (key:k_odd)" in report.text
        assert "ann (key:k_owner)" in report.text
        both = json.loads((await ask(caller, "owner", f"{READ[1]}&{named}")).text)
        assert [one["rater"] for one in both["raters"]] == ["ann", "ann"]
        assert both["agreement"][0]["items"] > 0
        alone = json.loads(before[1])
        assert [one["rater"] for one in alone["raters"]] == ["ann"]
        unknown = await ask(caller, "owner", f"{READ[0]}&raters_of=project:nobody")
        problem(unknown, 422, "invalid-request", "/raters_of")
        assert "no rater of project:nobody has judged" in unknown.text
        # Whoever does not see the games in full is shown nobody's work but its own.
        other = await ask(caller, "odd", f"/annotations/progress?game={game_of()}&raters_of=project:owner")
        problem(other, 403, "forbidden")
        own = await told(caller, "odd", f"/annotations/progress?game={game_of()}")
        assert own["raters"] == alone["raters"]

        # Keys of the same project, and those that may rate everybody's games, are no strangers.
        for who in ("owner2", "reader"):
            await rate(caller, who, guessed="convince_leader", reasonable=False, score=2)
            after = await ask(caller, "owner", READ[0])
            assert f"ann (key:k_{who})" in after.text
            assert "key:k_odd" not in after.text


async def test_what_an_owners_raters_say_of_its_public_games_is_told_to_no_stranger(tmp_path: Any) -> None:
    async with with_games(f"sqlite:///{tmp_path}/raters.db", PUBLIC) as caller:
        await add_stranger(caller)
        await rate(caller, "odd", guessed="convince_leader", reasonable=True, score=5)
        rules = {"dimension": "selection", "judge": {"kind": "rule"}, "game": game_of()}
        judged = (await told(caller, "odd", "/evaluations", rules))["evaluation_id"]
        paths = [path.replace(f"batch={BATCH}", f"game={game_of()}") for path in READ[1:]]
        paths.append(f"/evaluations/{judged}")
        before = [await told(caller, "odd", path) for path in paths]
        assert before[-1]["agreement"]["reasonable"]["items"] > 0
        # The owner's person of the same name contradicts everything.
        await rate(caller, "owner", guessed="defend_self", reasonable=False, score=1)
        assert [await told(caller, "odd", path) for path in paths] == before


async def test_everybodys_raters_are_read_where_nobody_knows_whose_the_games_are(database_url: str) -> None:
    async with with_games(database_url, []) as caller:
        await lay_games(caller, PUBLIC, owner="")
        await rate(caller, "owner", guessed="convince_leader", reasonable=True, score=5)
        report = await ask(caller, "operator", READ[0])
        assert report.json()["made_of"]["games"] == len(PUBLIC)
        progress = await told(caller, "operator", READ[1])
        assert [one["rater"] for one in progress["raters"]] == ["ann"]


@pytest.mark.parametrize("wrong", ["operator2", "project:", "project:A", "odd", "key:x"])
async def test_owners_are_named_as_they_are_written(tmp_path: Any, wrong: str) -> None:
    async with with_games(f"sqlite:///{tmp_path}/raters.db", []) as caller:
        answer = await ask(caller, "owner", f"{READ[1]}&raters_of={wrong}")
        problem(answer, 422, "invalid-request", "/raters_of")


@pytest.mark.parametrize("who", ["owner", "odd"])
async def test_however_many_raters_have_a_turn_few_rows_are_read_before_it_is_dealt(
    database_url: str, who: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with with_games(database_url, PUBLIC) as caller:
        await add_stranger(caller)
        path = f"/annotations/tasks?game={game_of()}&limit=50&rater="
        first = (await told(caller, "odd", f"{path}first&shared=200"))["tasks"]
        dealt = [
            {"game_id": task["game_id"], "request_id": task["request_id"], "at": 1, "caller": "key:k_odd"}
            for task in first
        ]
        database = caller.services.database
        more = [{**row, "rater": f"r{n}"} for row in dealt for n in range(200)]
        await database.writer.run(lambda connection: connection.execute(insert(tasks), more))
        rows = 0
        fetched = Result.all

        def counting(self: Any) -> Any:
            nonlocal rows
            found = fetched(self)
            rows += len(found)
            return found

        monkeypatch.setattr(Result, "all", counting)
        left = (await told(caller, who, f"{path}last&shared=0&overlap=2"))["tasks"]
        # All turns are free of the owner's raters, and none of the stranger's.
        assert len(left) == (len(first) if who == "owner" else 0)
        assert rows < len(more) / 10
