"""Judging that meets games it cannot judge, a database that is away, and an owner who has had enough."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest
from sqlalchemy import delete, update
from sqlalchemy.exc import OperationalError

from app.base import metrics
from app.evaluations import judging as at_work
from app.evaluations.judging import retry_after_s
from app.instruments.fake_model import FakeOptions, read_latency
from app.instruments.fake_model.brains import BRAINS
from app.store.tables import events, games
from tests.app.calling import WITHIN_S, Caller, problem, until
from tests.app.edge.test_keys import anyones, bearer, make_key, store_of
from tests.app.evaluations.test_evaluations_api import games_of
from tests.app.evaluations.test_judging import SENSIBLE, judging, over
from tests.app.modelling import calling_with, endpoints, faking

SLOW = FakeOptions(brain=BRAINS["sensible"](0), latency=read_latency("fixed:0.15"))


async def broken(caller: Caller, *statements: Any) -> None:
    async def work(connection: Any) -> None:
        for statement in statements:
            await connection.execute(statement)

    await caller.services.database.writer.run(work)


async def scored(caller: Caller, evaluation_id: str) -> dict[str, Any]:
    """The evaluation when it has scores, whatever became of it."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            view: dict[str, Any] = (await caller.get(f"/evaluations/{evaluation_id}")).json()
            if view["totals"] is not None:
                return view
            await asyncio.sleep(0.02)


async def test_games_that_cannot_be_judged_are_left_out_and_named_and_the_others_judged(
    database_url: str,
) -> None:
    # Each kind of database judges another dimension.
    dimension = "following" if database_url.startswith("sqlite") else "statements"
    async with faking(SENSIBLE) as fake, calling_with(fake, database_url) as caller:
        batch, _ = await games_of(caller, 2)
        _, (thoughtless,) = await games_of(caller, 1, seats=[{"agent": "random"}])
        _, (open_, gone, holed, garbled) = await caller.create(count=4, drive="manual")
        finished = {"status": "finished", "winner": "evil", "ending": "three_quests_failed"}
        await broken(
            caller,
            update(games).where(games.c.game_id == holed).values(head=99, **finished),
            update(games).where(games.c.game_id == garbled).values(**finished),
            update(events).where(events.c.game_id == garbled, events.c.seq == 1).values(payload="{}"),
            *(
                update(games).where(games.c.game_id == game).values(batch_id=batch, position=10 + place)
                for place, game in enumerate((thoughtless, open_, gone, holed, garbled))
            ),
        )
        await broken(caller, update(games).where(games.c.game_id == gone).values(**finished))
        judges = caller.services.evaluations.judges
        looking, judges._looking = judges._looking, None
        made = (await judging(caller, dimension, batch=batch)).json()
        await broken(
            caller,
            delete(events).where(events.c.game_id == gone),
            delete(games).where(games.c.game_id == gone),
        )
        judges._looking = looking
        view = await over(caller, made["evaluation_id"])
        assert view["status"] == "scored", view
        left_out = {one["game_id"]: one["reason"] for one in view["left_out"]}
        assert left_out.pop(open_) == "it is created, not finished"
        assert "no such game" in left_out.pop(gone)
        assert left_out.pop(holed)
        assert left_out.pop(garbled)
        # Random seats say nothing, and record no thoughts.
        silent = "it has no following item: " if dimension == "following" else "nobody spoke in it"
        assert left_out.pop(thoughtless).startswith(silent)
        assert left_out == {}
        assert view["progress"]["left_out"] == len(view["left_out"])
        assert view["progress"]["games_done"] == view["progress"]["games"] == 6
        assert view["progress"]["judged"] == view["progress"]["items"] > 0
        rules = {"dimension": "statements", "judge": {"kind": "rule"}, "batch": batch}
        told = (await caller.post("/evaluations", json=rules)).json()
        assert {one["game_id"] for one in told["left_out"]} == {open_, holed, garbled}


async def test_a_judging_in_which_no_game_can_be_judged_says_so(tmp_path: Path) -> None:
    async with (
        faking(SENSIBLE) as fake,
        calling_with(fake, f"sqlite:///{tmp_path / 'games.sqlite'}") as caller,
    ):
        batch, _ = await games_of(caller, 1, seats=[{"agent": "random"}])
        view = await over(caller, (await judging(caller, "following", batch=batch)).json()["evaluation_id"])
        assert (view["status"], view["reason"]) == ("failed", "none of these games could be judged")
        assert fake.counts.calls == 0


async def test_a_cancelled_judging_asks_no_further_and_scores_what_was_judged(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'games.sqlite'}"
    async with (
        faking(SLOW) as fake,
        calling_with(fake, url, models=endpoints(fake, parallel=4)) as caller,
    ):
        batch, _ = await games_of(caller, 2)
        _, key = await make_key(store_of(caller), "eval:submit")
        _, owner = await make_key(
            store_of(caller), *anyones("eval:submit", "eval:read", "annotate", "export:full")
        )
        caller.headers.update(bearer(owner))
        made = (await judging(caller, "statements", batch=batch)).json()
        path = f"/evaluations/{made['evaluation_id']}"
        await until(lambda: fake.counts.calls >= 30)
        problem(await caller.post(f"{path}/cancel", headers=bearer(key)), 404, "not-found")
        answer = await caller.post(f"{path}/cancel")
        assert (answer.status_code, answer.json()) == (202, {"status": "cancelling"})
        asked = fake.counts.calls
        view = await scored(caller, made["evaluation_id"])
        assert (view["status"], view["reason"]) == ("cancelled", "cancelled")
        progress = view["progress"]
        assert view["totals"]["rules"]["speeches"]["den"] <= progress["judged"] < 50
        problem(await caller.post(f"{path}/cancel"), 409, "already-over")
        await until(lambda: not fake.counts.in_flight)
        assert fake.counts.calls <= asked + 4
        # Cancelled work may be done anew.
        again = await judging(caller, "statements", batch=batch, regrade_of=made["evaluation_id"])
        assert again.status_code == 202
        await caller.post(f"/evaluations/{again.json()['evaluation_id']}/cancel")


async def test_what_another_process_cancels_is_broken_off_and_scored_here(tmp_path: Path) -> None:
    slow = FakeOptions(brain=BRAINS["sensible"](0), latency=read_latency("fixed:8"))
    async with (
        faking(slow) as fake,
        calling_with(fake, f"sqlite:///{tmp_path / 'games.sqlite'}", drain_s=0) as caller,
    ):
        batch, _ = await games_of(caller, 1)
        store = caller.services.evaluations.store
        made = (await judging(caller, "selection", batch=batch)).json()
        await until(lambda: fake.counts.in_flight > 0)
        assert await store.cancel(made["evaluation_id"])
        assert not await store.cancel(made["evaluation_id"])
        view = await scored(caller, made["evaluation_id"])
        assert (view["status"], view["progress"]["judged"]) == ("cancelled", 0)
        await until(lambda: caller.services.evaluations.judges._cancelled == set())


async def test_what_was_cancelled_and_not_scored_is_scored_by_the_next_process(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'games.sqlite'}"
    async with faking(SENSIBLE) as fake:
        async with calling_with(fake, url) as caller:
            batch, _ = await games_of(caller, 1)
            judges = caller.services.evaluations.judges
            looking, judges._looking = judges._looking, None
            made = (await judging(caller, "selection", batch=batch)).json()
            assert await caller.services.evaluations.store.cancel(made["evaluation_id"])
            judges._looking = looking
            await judges.stop()
        async with calling_with(fake, url) as caller:
            view = await scored(caller, made["evaluation_id"])
        assert (view["status"], fake.counts.calls) == ("cancelled", 0)


async def test_what_was_cancelled_is_scored_here_once_the_process_that_judged_it_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        faking(SENSIBLE) as fake,
        calling_with(fake, f"sqlite:///{tmp_path / 'games.sqlite'}") as caller,
    ):
        batch, _ = await games_of(caller, 1)
        judges = caller.services.evaluations.judges
        take, refusals = judges._claims.take, 0

        async def held_by_another(names: Any) -> Any:
            nonlocal refusals
            refusals += 1
            return [] if refusals <= 3 else await take(names)

        monkeypatch.setattr(judges._claims, "take", held_by_another)
        made = (await judging(caller, "selection", batch=batch)).json()
        answer = await caller.post(f"/evaluations/{made['evaluation_id']}/cancel")
        assert answer.status_code == 202
        view = await scored(caller, made["evaluation_id"])
        assert (view["status"], fake.counts.calls) == ("cancelled", 0)


def test_waits_double_up_to_five_minutes() -> None:
    assert [retry_after_s(faults) for faults in range(1, 12)] == [
        *(1, 2, 4, 8, 16, 32, 64, 128, 256),
        *(300, 300),
    ]
    assert retry_after_s(10**9) == 300


async def test_a_judge_whose_database_is_away_waits_and_says_so_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        faking(SENSIBLE) as fake,
        calling_with(fake, f"sqlite:///{tmp_path / 'games.sqlite'}") as caller,
    ):
        batch, _ = await games_of(caller, 1)
        store = caller.services.evaluations.store
        advance, away, refusals = store.advance, True, 0

        async def refused(*arguments: Any) -> bool:
            nonlocal refusals
            if away:
                refusals += 1
                raise OperationalError("UPDATE", {}, Exception("disk I/O error"))
            return await advance(*arguments)

        monkeypatch.setattr(store, "advance", refused)
        monkeypatch.setattr(at_work, "retry_after_s", lambda faults: 0.05 if faults < 4 else 2)
        made = (await judging(caller, "selection", batch=batch)).json()
        path = f"/evaluations/{made['evaluation_id']}"
        await until(lambda: refusals >= 4)
        view = (await caller.get(path)).json()
        assert view["status"] == "judging"
        assert view["waiting"]["cause"] == "OperationalError"
        assert view["waiting"]["faults"] >= 3
        assert view["waiting"]["since"] < view["waiting"]["again_at"]
        told = generate_latest(metrics.REGISTRY)
        assert b"interintent_judges_waiting 1.0" in told
        assert b'interintent_judge_faults_total{cause="OperationalError"}' in told
        away = False
        view = await over(caller, made["evaluation_id"])
        assert (view["status"], view["waiting"]) == ("scored", None)
        # The answers were stored before, and paid once.
        assert fake.counts.calls == view["progress"]["items"]
        await until(lambda: b"interintent_judges_waiting 0.0" in generate_latest(metrics.REGISTRY))


async def test_a_judge_that_waits_can_be_cancelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with (
        faking(SENSIBLE) as fake,
        calling_with(fake, f"sqlite:///{tmp_path / 'games.sqlite'}") as caller,
    ):
        batch, _ = await games_of(caller, 1)
        judges = caller.services.evaluations.judges

        async def refused(*_: Any) -> bool:
            raise OperationalError("UPDATE", {}, Exception("disk I/O error"))

        monkeypatch.setattr(caller.services.evaluations.store, "advance", refused)
        monkeypatch.setattr(at_work, "retry_after_s", lambda _: 3600)
        made = (await judging(caller, "selection", batch=batch)).json()
        await until(lambda: judges.waiting(made["evaluation_id"]) is not None)
        assert (await caller.post(f"/evaluations/{made['evaluation_id']}/cancel")).status_code == 202
        view = await scored(caller, made["evaluation_id"])
        assert (view["status"], view["waiting"]) == ("cancelled", None)
