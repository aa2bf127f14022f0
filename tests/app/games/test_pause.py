"""A batch that somebody pauses stands still until somebody resumes it, and asks nothing twice."""

import asyncio
from pathlib import Path

import pytest
from sqlalchemy import text

from app.base import metrics
from app.base.clock import now_ms
from app.games.cancelling import Canceller
from app.instruments.fake_model import FakeOptions, read_latency
from app.runner.drive import TellingJournal
from app.store.db import DatabaseAway
from app.store.inbox import InboxStore
from app.store.log import GameLog
from engine.events import ProposalOpened
from engine.rules import cancel
from tests.app.calling import WITHIN_S, Caller, calling, problem, until
from tests.app.modelling import DIRECT, calling_with, faking, stored_calls
from tests.app.seated import SHORT
from tests.postgres import PostgresServer, fresh_database

pytestmark = pytest.mark.anyio


async def _events(caller: Caller) -> int:
    return (await caller.rows())["events"]


async def test_a_paused_batch_stands_still_until_it_is_resumed(database_url: str) -> None:
    async with faking(FakeOptions(latency=read_latency("0.02"))) as fake:
        async with calling_with(fake, database_url, parallel_games=3) as caller:
            batch, _ = await caller.create(seats=DIRECT, count=2, rules={"max_rejections": 1})
            await until(lambda: fake.counts.answered >= 10)
            assert (await caller.post(f"/batches/{batch}/pause")).status_code == 202
            assert (await caller.post(f"/batches/{batch}/pause")).status_code == 202
            view = (await caller.get(f"/batches/{batch}")).json()
            assert (view["status"], view["suspended"]["cause"]) == ("suspended", "paused")
            assert view["suspended"]["words"] == "paused by keyless"
            await until(lambda: not caller.services.pickup.busy and fake.counts.in_flight == 0)
            before = (await _events(caller), fake.counts.calls)
            await asyncio.sleep(0.3)
            assert (await _events(caller), fake.counts.calls) == before
            assert (await caller.post(f"/batches/{batch}/resume", json={})).status_code == 200
            assert (await caller.over(batch))["games"]["finished"] == 2
            problem(await caller.post(f"/batches/{batch}/pause"), 409, "already-over")
        assert fake.counts.calls == await stored_calls(database_url)


async def test_what_is_committed_is_told_although_its_game_is_let_go_of_meanwhile(database_url: str) -> None:
    async with calling(database_url, runner=False) as caller:
        batch, [game] = await caller.create()
        services, head = caller.services, len(await caller.lines(f"/games/{game}/events"))
        journal = TellingJournal(GameLog(services.database, game, head), services.feed, game, batch)
        told = [metrics.events_written.labels("played"), metrics.games_ended.labels("cancelled", "")]
        before = [metric._value.get() for metric in told]
        with services.feed.tails.keep(game), services.feed.watch(game) as watch:
            for step in ([ProposalOpened(1, 1, 1)], cancel("by its driver")):
                append = asyncio.create_task(journal.append(step))
                await asyncio.sleep(0)
                append.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await append
                async with asyncio.timeout(WITHIN_S):
                    await watch.wait(None)
            lines = services.feed.tails.after(game, head)
            assert [line.type for line in lines] == ["proposal_opened", "game_cancelled"]
        assert [metric._value.get() - count for metric, count in zip(told, before, strict=True)] == [2, 1]


async def test_a_pause_and_a_cancel_reach_the_process_that_drives(
    postgres: PostgresServer, laid_out_postgres: str
) -> None:
    with fresh_database(postgres, laid_out_postgres) as url:
        async with (
            faking(FakeOptions(latency=read_latency("0.02"))) as fake,
            calling_with(fake, url) as driving,
            calling_with(fake, url, runner=False) as other,
        ):
            batch, _ = await other.create(seats=DIRECT, count=2)
            await until(lambda: fake.counts.answered >= 10)
            assert (await other.post(f"/batches/{batch}/pause")).status_code == 202
            await until(lambda: not driving.services.pickup.busy and fake.counts.in_flight == 0)
            calls = fake.counts.calls
            assert (await other.post(f"/batches/{batch}/resume", json={})).status_code == 200
            await until(lambda: fake.counts.answered >= calls + 10)
            assert (await other.post(f"/batches/{batch}/cancel")).status_code == 202
            await until(lambda: not driving.services.pickup.busy and fake.counts.in_flight == 0)
            view = await other.over(batch)
            assert (view["status"], view["games"]["cancelled"]) == ("cancelled", 2)


async def test_a_batch_that_is_let_go_of_twice_lets_all_of_its_games_go(tmp_path: Path) -> None:
    # As by a pause, and by each of its games that stops because of their model.
    async with (
        faking(FakeOptions(latency=read_latency("100"))) as fake,
        calling_with(fake, f"sqlite+aiosqlite:///{tmp_path / 'games.sqlite'}", drain_s=0) as caller,
    ):
        batch, _ = await caller.create(seats=DIRECT, count=3)
        await until(lambda: fake.counts.in_flight == 3)
        assert (await caller.post(f"/batches/{batch}/pause")).status_code == 202
        await asyncio.sleep(0)
        caller.services.pickup.let_go(batch)
        await until(lambda: not caller.services.pickup.busy)
        assert not caller.services.runner._active


async def test_a_cancellation_that_fails_leaves_the_request_open_and_the_game_driven(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with calling(database_url) as caller:
        wish = {"seats": [{"agent": "remote"}], "count": 2, "rules": SHORT}
        answer = await caller.post("/games", json=wish)
        assert answer.status_code == 201, answer.text
        game = answer.json()["games"][0]
        path, active = f"/games/{game['game_id']}", caller.services.runner._active
        seat = {"Authorization": f"Bearer {game['seats'][0]['token']}"}

        async def asked() -> tuple[str, str]:
            async with asyncio.timeout(WITHIN_S):
                while not (
                    found := (await caller.get(f"{path}/requests?wait_s=5", headers=seat)).json()["requests"]
                ):
                    pass
            return found[0]["request_id"], found[0]["deadline"]

        before = await asked()
        await until(lambda: len(active) == 2)

        async def append(log: GameLog, *_: object) -> None:
            raise DatabaseAway("another program holds a lock")

        with monkeypatch.context() as patch:
            patch.setattr(GameLog, "append", append)
            problem(await caller.post(f"{path}/cancel"), 503, "not-ready")
        assert await asked() == before
        # It was let go of; the other game of its batch still waits.
        await until(lambda: game["game_id"] in active)
        assert (await caller.post(f"{path}/cancel")).status_code == 202
        assert (await caller.get(path)).json()["status"] == "cancelled"
        log = await caller.lines(f"{path}/events")
        assert {line["cause"] for line in log if line["type"] == "action_defaulted"} == {"cancelled"}
        settled = await InboxStore(caller.services.database).outcome(game["game_id"], before[0])
        assert settled is not None
        assert settled.cause == "cancelled"


async def test_a_cancelled_batch_is_cancelled_although_the_database_is_away_for_a_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        faking(FakeOptions(latency=read_latency("0.02"))) as fake,
        calling_with(fake, f"sqlite+aiosqlite:///{tmp_path / 'games.sqlite'}") as caller,
    ):
        batch, _ = await caller.create(seats=DIRECT, count=2)
        await until(lambda: fake.counts.answered >= 10)
        cancel, tries = Canceller.cancel, 0

        async def away(canceller: Canceller, game_id: str) -> None:
            nonlocal tries
            tries += 1
            if tries == 1:
                raise DatabaseAway("another program holds its lock")
            await cancel(canceller, game_id)

        monkeypatch.setattr(Canceller, "cancel", away)
        assert (await caller.post(f"/batches/{batch}/cancel")).status_code == 202
        assert (await caller.over(batch))["games"]["cancelled"] == 2


async def test_a_cancelled_batch_is_cancelled_although_whoever_cancelled_it_has_died(tmp_path: Path) -> None:
    # On PostgreSQL, a job of the queue does it.
    url = f"sqlite+aiosqlite:///{tmp_path / 'games.sqlite'}"
    async with (
        faking(FakeOptions(latency=read_latency("100"))) as fake,
        calling_with(fake, url, parallel_games=2) as driving,
        calling_with(fake, url, runner=False) as other,
    ):
        batch, _ = await other.create(seats=DIRECT, count=4)
        await until(lambda: fake.counts.in_flight == 2)
        await other.services.store.mark_cancelled(batch)
        assert (await driving.over(batch))["games"]["cancelled"] == 4
        await until(lambda: not driving.services.pickup.busy)
        assert fake.counts.calls == 2


@pytest.mark.parametrize(("command", "stopped"), [("resume", "suspended"), ("retry", "failed")])
async def test_a_game_that_goes_on_is_driven_while_others_of_its_batch_wait(
    command: str, stopped: str, tmp_path: Path
) -> None:
    async with calling(f"sqlite+aiosqlite:///{tmp_path / 'games.sqlite'}") as caller:
        batch, [first, *_] = await caller.create(seats=[{"agent": "remote"}], count=2)
        services = caller.services
        await until(lambda: len(services.runner._active) == 2)
        if stopped == "failed":
            await services.store.mark_failed(first, "its model", now_ms())
        else:
            await services.store.suspend_game(first, "its model")
        await services.runner.release(first)
        # Whoever drives the batch has seen that nothing is to be done.
        await asyncio.sleep(1)
        assert first not in services.runner._over
        assert (await caller.post(f"/batches/{batch}/{command}", json={})).status_code == 200
        await until(lambda: first in services.runner._active)


async def test_a_damaged_game_keeps_no_other_one_from_being_cancelled(database_url: str) -> None:
    async with calling(database_url, runner=False) as caller:
        batch, (damaged, *sound) = await caller.create(seats=[{"agent": "remote"}], count=3)
        spoil = text("UPDATE games SET seats = '7' WHERE game_id = :game").bindparams(game=damaged)
        await caller.services.database.writer.execute(spoil)
        assert (await caller.post(f"/batches/{batch}/cancel")).status_code == 202
        async with asyncio.timeout(WITHIN_S):
            for game in sound:
                await caller.lines(f"/games/{game}/events", follow=True)
                assert (await caller.get(f"/games/{game}")).json()["status"] == "cancelled"


async def test_games_of_a_batch_with_a_higher_priority_begin_first(
    postgres: PostgresServer, laid_out_postgres: str
) -> None:
    with fresh_database(postgres, laid_out_postgres) as url:
        async with calling(url, runner=False) as caller:
            usual, _ = await caller.create(count=3)
            urgent, _ = await caller.create(count=3, priority=5)
        async with calling(url, parallel_games=1) as caller:
            for batch in (urgent, usual):
                await caller.over(batch)
            ended = {
                batch: [
                    game["finished_at"]
                    for game in (await caller.get(f"/games?batch={batch}")).json()["games"]
                ]
                for batch in (urgent, usual)
            }
            assert max(ended[urgent]) <= min(ended[usual])
