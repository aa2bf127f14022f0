"""What raters see beside their tasks: guidelines, progress, agreement as it grows."""

from pathlib import Path
from typing import Any

import pytest

from app.evaluations.rater_page import ENOUGH
from app.store.keys import KeyStore
from tests.app.calling import Caller, calling, problem
from tests.app.edge.test_keys import make_key
from tests.app.evaluations.test_evaluations_api import deal, judged


async def judge(caller: Caller, rater: str, batch: str, scores: list[int]) -> list[dict[str, Any]]:
    """Deals the shared turns to a rater and judges as many as there are scores; returns what was sent."""
    tasks = (await deal(caller, rater, batch=batch, limit=10, shared=10))["tasks"]
    sent = [one for task, score in zip(tasks, scores, strict=False) for one in judged(task, score)]
    body = {"rater": {"name": rater, "kind": "human"}, "judgements": sent}
    answer = await caller.post("/annotations", json=body)
    assert answer.status_code == 201, answer.text
    return sent


async def test_progress_and_agreement_grow_with_the_judgements(caller: Caller) -> None:
    batch, _ = await caller.played(count=2, seeds={"from": 4})
    path = f"/annotations/progress?batch={batch}"
    empty = (await caller.get(path)).json()
    assert empty["raters"] == []
    assert [(one["judged"], one["items"], one["kappa"]) for one in empty["agreement"]] == [
        ("reasonable", 0, None),
        ("think", 0, None),
        ("speak", 0, None),
    ]
    scores = [1, 5, 2, 4, 3, 1, 5, 2, 4, 3]
    sent = await judge(caller, "ann", batch, scores)
    await deal(caller, "bob", batch=batch, limit=10, shared=10)
    begun = (await caller.get(path)).json()
    assert begun["raters"] == [
        {"rater": "ann", "dealt": 10, "judged": 10, "judgements": len(sent)},
        {"rater": "bob", "dealt": 10, "judged": 0, "judgements": 0},
    ]
    assert begun["agreement"][1]["items"] == 0
    sent = await judge(caller, "bob", batch, scores)
    full = {one["judged"]: one for one in (await caller.get(path)).json()["agreement"]}
    assert full["think"]["items"] > 0
    assert full["think"]["raters"] == 2
    assert full["think"]["kappa"] == pytest.approx(1)
    assert full["think"]["alpha"] == pytest.approx(1)
    # Undoing is judging again: the last judgement counts.
    again = [{**one, "think": 1, "speak": 1} for one in sent if "think" in one]
    body = {"rater": {"name": "bob", "kind": "human"}, "judgements": again, "revise": True}
    assert (await caller.post("/annotations", json=body)).status_code == 201
    revised = {one["judged"]: one for one in (await caller.get(path)).json()["agreement"]}
    assert revised["think"]["items"] == full["think"]["items"]
    assert revised["think"]["kappa"] < 0.5


async def test_a_few_shared_items_tell_no_rater_what_another_said(tmp_path: Path) -> None:
    key = "ik_" + "r" * 43
    async with calling(f"sqlite:///{tmp_path / 'games.sqlite'}", api_key=key) as caller:
        caller.headers["authorization"] = f"Bearer {key}"
        batch, _ = await caller.played(seeds={"from": 4})
        _, weak = await make_key(KeyStore(caller.services.database), "annotate:any")
        caller.headers["authorization"] = f"Bearer {weak}"
        for rater in ("ann", "bob"):
            await judge(caller, rater, batch, [3])
        found = (await caller.get(f"/annotations/progress?batch={batch}")).json()
        assert [one["rater"] for one in found["raters"]] == ["ann", "bob"]
        for one in found["agreement"]:
            assert one["items"] < ENOUGH
            assert one["kappa"] is None
            assert one["alpha"] is None
        _, other = await make_key(KeyStore(caller.services.database), "annotate:any")
        stranger = {"authorization": f"Bearer {other}"}
        seen = (await caller.get(f"/annotations/progress?batch={batch}", headers=stranger)).json()
        assert seen["raters"] == []


async def test_guidelines_have_an_example_of_each_score(caller: Caller) -> None:
    found = (await caller.get("/annotations/guidelines")).json()
    assert {one["score"] for one in found["examples"]["think"]} == {1, 2, 3, 4, 5}
    assert {one["score"] for one in found["examples"]["speak"]} == {1, 2, 3, 4, 5}
    assert {one["score"] for one in found["examples"]["reasonable"]} == {0, 1}
    assert "Examples of thinking" in found["following"]
    problem(await caller.get("/annotations/guidelines?x=1"), 422, "invalid-request")
