"""Slow work runs in threads of its own, so the loop goes on meanwhile on any machine."""

import threading
from pathlib import Path
from typing import Any

import pytest

from app.evaluations import comparisons, rater_work, routes
from app.store import evaluations as stored
from tests.app.calling import calling


async def test_items_answers_and_judgements_are_written_and_read_off_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: dict[str, set[threading.Thread]] = {}

    def watch(owner: Any, name: str) -> None:
        work = getattr(owner, name)

        def watched(*arguments: Any) -> Any:
            threads.setdefault(name, set()).add(threading.current_thread())
            return work(*arguments)

        monkeypatch.setattr(owner, name, watched)

    for name in ("item_views", "_written", "_judgement_views", "write_sheet"):
        watch(routes, name)
    watch(rater_work, "answered_by_game")
    watch(comparisons._Match, "view")
    watch(stored, "_read")
    monkeypatch.setattr(stored, "_FEW", -1)
    async with calling(f"sqlite:///{tmp_path / 'games.sqlite'}") as caller:
        batch, _ = await caller.played(seeds={"from": 40})
        about = {"batch": batch, "dimension": "guessing"}
        lines = await caller.lines("/evaluations/items", **about, format="ndjson")
        page = (await caller.get("/evaluations/items", params={**about, "limit": 200})).json()
        assert lines == page["items"]
        answers = [{"item_id": item["id"], "intentions": ["it"]} for item in lines]
        for name in ("r1", "r2"):
            rater = {"name": name, "kind": "program"}
            body = {"dimension": "guessing", "rater": rater, "answers": answers}
            assert (await caller.post("/evaluations", json=body)).status_code == 201
        two = {**about, "first": "r1", "second": "r2"}
        assert (await caller.get("/evaluations/compare", params=two)).status_code == 200
        for form in ("json", "csv"):
            assert (await caller.get(f"/annotations?batch={batch}&format={form}")).status_code == 200
    assert set(threads) == {
        "item_views", "_written", "_judgement_views", "write_sheet", "answered_by_game", "view", "_read",
    }  # fmt: skip
    for name, of_work in threads.items():
        assert threading.current_thread() not in of_work, name
