"""Connections to PostgreSQL that swallow everything and never break: whoever waits for an answer gives up in
time, and games go on over new connections.
"""

import asyncio

import httpx
import pytest

from app.instruments.fake_model import FakeOptions, read_latency
from app.store import postgres as connections
from app.store import writer
from tests.app.calling import WITHIN_S, read_ndjson, until
from tests.app.modelling import DIRECT, calling_with, endpoints, faking, stored_calls
from tests.app.real_server import local_settings, running_server
from tests.app.seated import SHORT, Balancer, Bot, in_log, remote_game
from tests.app.store.test_trouble import readyz
from tests.postgres import PostgresServer, fresh_database

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

PATIENT = dict.fromkeys(("propose_team", "vote", "card", "assassinate"), 3600)

PARALLEL = 4


async def test_connections_that_swallow_everything_cost_only_time(
    postgres: PostgresServer,
    laid_out_postgres: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with fresh_database(postgres, laid_out_postgres) as url:
        async with (
            Balancer([f"127.0.0.1:{postgres.port}"]) as between,
            faking(FakeOptions(latency=read_latency("0.1"))) as fake,
        ):
            through = url.replace(f"127.0.0.1:{postgres.port}", between.url)
            models = endpoints(fake, parallel=PARALLEL, attempts=1)
            async with (
                running_server(local_settings(through, models=models, stale_s=20)) as served,
                httpx.AsyncClient(base_url=served.url, timeout=WITHIN_S) as client,
            ):
                monkeypatch.setattr(writer, "COMMIT_WITHIN_S", 2.0)
                monkeypatch.setattr(writer, "WORK_WITHIN_S", 3.0)
                wish = {"seats": DIRECT, "count": 4, "rules": {"max_rejections": 1}}
                batch = (await client.post("/games", json=wish)).json()["batch_id"]
                game, tokens = await remote_game(client, rules=SHORT, deadlines_s=PATIENT)
                bots = [Bot(lambda: served.ws_url, game, token, seat) for seat, token in tokens.items()]
                playing = [asyncio.create_task(bot.play(200)) for bot in bots]
                for deaf_s in (0.0, 4.0, 0.0):
                    mark = fake.counts.calls + 10
                    await until(lambda mark=mark: fake.counts.calls >= mark)  # type: ignore[misc]
                    between.deaf = deaf_s > 0
                    between.swallow()
                    if deaf_s:
                        await readyz(client, 503, "the database does not answer")
                        await asyncio.sleep(deaf_s)
                        between.deaf = False
                    await readyz(client, 200)
                async with asyncio.timeout(WITHIN_S):
                    while True:
                        # A read that was under way when its connection fell silent says so.
                        answer = await client.get(f"/batches/{batch}")
                        if answer.status_code == 200 and answer.json()["status"] == "done":
                            break
                        assert answer.status_code in (200, 503), answer.text
                        await asyncio.sleep(0.2)
                await asyncio.gather(*playing)
                log = read_ndjson((await client.get(f"/games/{game}/events")).content)
                assert [line["seq"] for line in log] == [*range(1, len(log) + 1)]
                assert log[-1]["type"] == "game_ended"
                for bot in bots:
                    done = in_log(log, bot.seat)
                    assert bot.acked
                    assert all(done.get(one) == [action] for one, action in bot.acked.items())
            # What was paid for waits for the database.
            assert fake.counts.calls == await stored_calls(url)
    said = capsys.readouterr()
    assert "Traceback" not in said.out + said.err
    assert "begins again" not in said.out + said.err


FOR_EVER = 1e6


async def test_games_go_on_as_soon_as_a_beat_was_not_answered_whatever_the_time_outs(
    postgres: PostgresServer, laid_out_postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with fresh_database(postgres, laid_out_postgres) as url:
        async with (
            Balancer([f"127.0.0.1:{postgres.port}"]) as between,
            faking(FakeOptions(latency=read_latency("0.05"))) as fake,
            calling_with(fake, url.replace(f"127.0.0.1:{postgres.port}", between.url), stale_s=20) as caller,
        ):
            monkeypatch.setattr(writer, "COMMIT_WITHIN_S", FOR_EVER)
            monkeypatch.setattr(writer, "WORK_WITHIN_S", FOR_EVER)
            batch, _ = await caller.create(seats=DIRECT, count=4, rules={"max_rejections": 1})
            await until(lambda: fake.counts.calls >= 20)
            between.swallow()
            async with asyncio.timeout(WITHIN_S):
                while True:
                    # What was read over a connection that fell silent is answered with an error.
                    view = await caller.get(f"/batches/{batch}")
                    if view.status_code == 200 and view.json()["status"] == "done":
                        break
                    await asyncio.sleep(0.2)
            assert view.json()["games"]["finished"] == 4


async def test_a_process_stops_on_a_silent_database_whatever_the_time_outs(
    postgres: PostgresServer, laid_out_postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with fresh_database(postgres, laid_out_postgres) as url:
        async with (
            Balancer([f"127.0.0.1:{postgres.port}"]) as between,
            faking(FakeOptions(latency=read_latency("0.05"))) as fake,
        ):
            through = url.replace(f"127.0.0.1:{postgres.port}", between.url)
            async with asyncio.timeout(WITHIN_S), calling_with(fake, through, drain_s=1) as caller:
                for module, name in (
                    (writer, "COMMIT_WITHIN_S"),
                    (writer, "WORK_WITHIN_S"),
                    (connections, "CONNECT_WITHIN_S"),
                ):
                    monkeypatch.setattr(module, name, FOR_EVER)
                batch, _ = await caller.create(seats=DIRECT, count=4)
                await until(lambda: fake.counts.calls >= 20)
                between.deaf = True
                between.swallow()
            # It gave nothing back, and another process goes on with what was stored.
            async with calling_with(fake, url, stale_s=2) as other:
                assert (await other.over(batch))["games"]["finished"] == 4
